"""A model that obeys the first word of a prompt, and the tools that it calls.

The prompts it gets are appended to `prompts.jsonl`; steps that wait do so for a file the test
creates.
"""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import ModelError, ToolError
from agent_cli.contracts.messages import ToolResultMessage, UserMessage
from agent_cli.contracts.provider import (
    BlockEnd,
    ModelRequest,
    Reply,
    ReplyEnd,
    ReplyStart,
    Retrying,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallStart,
)
from agent_cli.contracts.timeline import Block, Usage, text_block
from agent_cli.contracts.tooling import Approval, Tool, ToolContext
from tests.fakes import tool_use

Stream = AsyncIterator[StreamEvent]


def bash_tool(asks: Callable[[], bool]) -> Tool:
    async def execute(_id: str, given: dict[str, str], _c: CancelToken, _u: ToolContext) -> str:
        process = await asyncio.create_subprocess_shell(given["command"])
        return f"exit code {await process.wait()}"

    return Tool(
        name="bash",
        label="Run",
        description="Run a command",
        parameters={"type": "object", "required": ["command"]},
        execute=execute,
        require_approval=lambda _given: Approval(asks(), "commands can change anything"),
        summary=lambda given: str(given["command"]),
    )


def note_tool() -> Tool:
    async def execute(_id: str, given: dict[str, str], _c: CancelToken, _u: ToolContext) -> str:
        if given["text"] == "bad":
            raise ToolError("the note is bad")
        return "noted"

    return Tool(
        name="note",
        label="Note",
        description="Write something down.\nIn full.",
        parameters={"type": "object", "required": ["text"]},
        execute=execute,
        summary=lambda given: str(given["text"]),
    )


def answer(request: ModelRequest) -> Stream:
    """Obey the last prompt; after tools, repeat their results."""
    prompt = next(m for m in reversed(request.messages) if isinstance(m, UserMessage)).text
    word, _, rest = prompt.partition(" ")
    last = request.messages[-1]
    if isinstance(last, ToolResultMessage) and word != "loop":
        return text(f"The tool said: {last.text}")
    with Path("prompts.jsonl").open("a") as prompts:
        prompts.write(json.dumps(prompt) + "\n")
    if word in REPLIES:
        return REPLIES[word](rest)
    model = request.model.id if request.model else "nobody"
    return text(f"You said {prompt!r} to {model}.")


async def text(whole: str) -> Stream:
    yield ReplyStart()
    for start in range(0, len(whole), 3):
        yield TextDelta(0, whole[start : start + 3])
    async for event in end(whole):
        yield event


async def end(whole: str) -> Stream:
    block = text_block(whole)
    yield BlockEnd(0, block)
    usage = Usage(10, 2, cost_microdollars=50)
    yield ReplyEnd(Reply("m", "model-1", (block,), "end_turn", usage))


async def bash(commands: str) -> Stream:
    async for event in calls("bash", [{"command": each} for each in commands.split(" ;; ")]):
        yield event


async def notes(texts: str) -> Stream:
    said = text_block("I take notes.")
    yield ReplyStart()
    yield TextDelta(0, "I take notes.")
    yield BlockEnd(0, said)
    async for event in calls("note", [{"text": part} for part in texts.split(" && ")], said):
        yield event


async def calls(name: str, inputs: Sequence[dict[str, str]], *before: Block) -> Stream:
    if not before:
        yield ReplyStart()
    blocks = list(before)
    for index, given in enumerate(inputs, start=len(before)):
        call_id = f"call-{time.monotonic_ns()}-{index}"
        yield ToolCallStart(index, call_id, name)
        blocks.append(tool_use(name, {**given}, call_id))
        yield BlockEnd(index, blocks[-1])
    yield ReplyEnd(Reply("m", "model-1", tuple(blocks), "tool_use"))


async def gated(count: str) -> Stream:
    yield ReplyStart()
    pieces = [f"piece {k}\n" for k in range(int(count))]
    for k, piece in enumerate(pieces):
        yield TextDelta(0, piece)
        await asyncio.to_thread(wait_for, f"gate-{k}")
    async for event in end("".join(pieces)):
        yield event


async def document(name: str) -> Stream:
    """Send a file in deltas of 20 characters, and wait at each line "gate"."""
    yield ReplyStart()
    text = await asyncio.to_thread(Path(name).read_text)
    first, rest = text.split("gate\n")
    for part in (first, rest):
        for at in range(0, len(part), 20):
            yield TextDelta(0, part[at : at + 20])
            await asyncio.sleep(0)
        if part is first:
            await asyncio.to_thread(wait_for, "gate-0")
    async for event in end(first + rest):
        yield event


async def flood(seconds: str) -> Stream:
    """Send 2,000 deltas of 20 characters a second."""
    yield ReplyStart()
    begun_s, sent = time.monotonic(), 0
    pieces: list[str] = []
    while (passed_s := time.monotonic() - begun_s) < float(seconds):
        for number in range(sent, int(passed_s * 2_000)):
            pieces.append(
                f"- word {number:>5} *it*\n" if number % 3 else f"plain text {number:>6}.. "
            )
            yield TextDelta(0, pieces[-1])
        sent = len(pieces)
        await asyncio.sleep(0.002)
    async for event in end("".join(pieces)):
        yield event


async def phases(command: str) -> Stream:
    """Wait in each phase of a reply until a file releases it; then call bash."""
    await asyncio.to_thread(wait_for, "waited")
    yield ReplyStart()
    yield ThinkingDelta(0, "why")
    await asyncio.to_thread(wait_for, "thought")
    yield TextDelta(1, "Let me")
    await asyncio.to_thread(wait_for, "written")
    yield Retrying(1, 5, 9.0, "API overloaded (529)", restarted=True)
    await asyncio.to_thread(wait_for, "retried")
    yield ReplyStart()
    yield ToolCallStart(0, "call-phases", "bash")
    yield ToolCallDelta(0, '{"command": ')
    await asyncio.to_thread(wait_for, "called")
    use = tool_use("bash", {"command": command}, "call-phases")
    yield BlockEnd(0, use)
    yield ReplyEnd(Reply("m", "model-1", (use,), "tool_use"))


async def warns(what: str) -> Stream:
    """Write to stderr from a thread, as a log sink may, during a model call."""
    yield ReplyStart()
    await asyncio.to_thread(sys.stderr.write, f"warning: {what}\n")
    await asyncio.to_thread(wait_for, "warned")
    async for event in text("Warned."):
        yield event


async def forever(_rest: str) -> Stream:
    yield ReplyStart()
    yield TextDelta(0, "working on it")
    await asyncio.Event().wait()


async def fail(_rest: str) -> Stream:
    yield ReplyStart()
    raise ModelError("the API is overloaded", request_id="req_1")


async def boom(_rest: str) -> Stream:
    yield ReplyStart()
    raise RuntimeError("a bug")


async def retry(_rest: str) -> Stream:
    yield ReplyStart()
    yield TextDelta(0, "half an ans")
    yield Retrying(1, 5, 10.0, "the connection broke", restarted=True)
    async for event in text("The whole answer."):
        yield event


async def think(_rest: str) -> Stream:
    yield ReplyStart()
    yield ThinkingDelta(0, "a private thought")
    yield TextDelta(0, "The answer.")
    async for event in end("The answer."):
        yield event


async def hostile(_rest: str) -> Stream:
    async for event in text("a\x1b]52;c;cm0=\x07b\x1b[2Jc\u202ed"):
        yield event


async def refuse(_rest: str) -> Stream:
    yield ReplyStart()
    yield ReplyEnd(Reply("m", "model-1", (), "refusal"))


REPLIES: dict[str, Callable[[str], Stream]] = {
    "bash": bash,
    "loop": lambda command: calls("note", [{"text": command}]),
    "notes": notes,
    "gated": gated,
    "flood": flood,
    "document": document,
    "forever": forever,
    "phases": phases,
    "warns": warns,
    "fail": fail,
    "boom": boom,
    "retry": retry,
    "think": think,
    "hostile": hostile,
    "refuse": refuse,
}


def wait_for(name: str) -> None:
    """Block until the test creates a file called *name*."""
    while not Path(name).exists() and not Path("closed").exists():
        time.sleep(0.005)
