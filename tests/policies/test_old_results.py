"""Old, large results leave the request where that saves money."""

from agent_cli.contracts.events import Notice
from agent_cli.contracts.messages import ToolResultMessage
from agent_cli.contracts.timeline import Usage
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
