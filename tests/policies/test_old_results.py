"""Old, large results leave the request where that saves money."""

import pytest

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.events import Notice
from agent_cli.contracts.media_files import document_block, image_block
from agent_cli.contracts.messages import ToolResultMessage
from agent_cli.contracts.timeline import ReplyOutput, Usage, text_block
from agent_cli.contracts.tooling import ToolContext, ToolResult
from agent_cli.core.loop_config import LoopConfig
from agent_cli.policies.old_results import OldResults
from tests.fakes import Step, calls, returns, says, scripted_agent, tool, tool_use

PAUSE_S = 600.0


def price(_model: str, usage: Usage) -> int:
    return usage.prompt_tokens


def left_out(messages: object) -> int:
    return str(messages).count("was left out to save tokens")


async def test_results_are_left_out_once_after_a_pause_and_stay_so() -> None:
    """Not in a warm session; the ten newest stay; a refused prompt brings none back."""
    now_s = [0.0]
    steps: list[Step] = [calls(tool_use("look", {}, f"t{n}")) for n in range(14)]
    steps += [says("a"), says("b"), says("no", stop_reason="refusal"), says("c")]
    agent, model, events = scripted_agent(
        *steps,
        tools=[tool("look", returns("word " * 2_500))],
        options=LoopConfig(prepare=[OldResults(price, clock=lambda: now_s[0])], max_rounds=0),
    )
    now_s[0] = agent.conversation.now() / 1_000
    await agent.prompt("one")
    await agent.prompt("two")
    assert [left_out(each.messages) for each in model.requests] == [0] * 16

    now_s[0] += PAUSE_S
    await agent.prompt("three")
    await agent.prompt("four")

    after = [each.messages for each in model.requests[16:]]
    assert [left_out(each) for each in after] == [4, 4]
    results = [each for each in after[-1] if isinstance(each, ToolResultMessage)]
    assert [len(each.text) > 10_000 for each in results] == [False] * 4 + [True] * 10
    (notice,) = (each for each in events if isinstance(each, Notice) and "old" in each.text)
    assert notice.text.startswith("4 old tool results left out (about 12,500 tokens")


async def test_old_documents_are_left_out_and_old_images_stay() -> None:
    """Each costs some thousand tokens; a PDF can be read again, a picture of a screen cannot."""

    async def execute(
        call_id: str, _params: object, _cancel: CancelToken, _on_update: ToolContext
    ) -> ToolResult:
        pdf = document_block(b"%PDF-1.7", "plan.pdf", pages=4)
        block = pdf if int(call_id[1:]) < 2 else image_block(b"png", "image/png")
        return ToolResult((text_block("[plan.pdf: 4 pages]"), block))

    now_s = [0.0]
    steps: list[Step] = [calls(tool_use("look", {}, f"t{n}")) for n in range(14)]
    agent, model, events = scripted_agent(
        *steps,
        says("a"),
        says("b"),
        tools=[tool("look", execute)],
        options=LoopConfig(prepare=[OldResults(price, clock=lambda: now_s[0])], max_rounds=0),
    )
    now_s[0] = agent.conversation.now() / 1_000
    await agent.prompt("one")

    now_s[0] += PAUSE_S
    await agent.prompt("two")

    sent = model.requests[-1].messages
    results = [each for each in sent if isinstance(each, ToolResultMessage)]
    kinds = [[block["type"] for block in each.content] for each in results]
    assert kinds == [["text"]] * 2 + [["text", "image"]] * 12
    assert "this result with a PDF was left out" in results[0].text
    assert "call the tool again.]" in results[0].text
    (notice,) = (each for each in events if isinstance(each, Notice) and "old" in each.text)
    assert notice.text.startswith("2 old tool results left out (about 24,0")


@pytest.mark.parametrize(
    ("chars", "old", "pause_s", "expected"),
    [
        (10_000, 4, 301, 4),  # 10,000 tokens together
        (9_996, 4, 301, 0),  # four tokens less
        (10_000, 4, 300, 0),  # the server still has what it cached
        (4_004, 10, 301, 10),  # 1,001 tokens each
        (4_000, 20, 301, 0),  # 1,000 tokens each: too small to be looked up again
    ],
)
async def test_few_or_small_results_stay(chars: int, old: int, pause_s: int, expected: int) -> None:
    """A change in the middle of the conversation must be worth it."""
    now_s = [0.0]
    steps: list[Step] = [calls(tool_use("look", {}, f"t{n}")) for n in range(old + 10)]
    agent, model, _events = scripted_agent(
        *steps,
        says("a"),
        says("b"),
        tools=[tool("look", returns("x" * chars))],
        options=LoopConfig(prepare=[OldResults(price, clock=lambda: now_s[0])], max_rounds=0),
    )
    now_s[0] = agent.conversation.now() / 1_000
    await agent.prompt("one")
    last = [out for out in agent.conversation.prompts[-1].output if isinstance(out, ReplyOutput)]
    now_s[0] = last[-1].at_ms / 1_000 + pause_s

    await agent.prompt("two")

    assert left_out(model.requests[-1].messages) == expected
