"""A scripted model, small tools and ways to read a run's events, for tests without a network.

model = ScriptedModel(calls(tool_use("look", {}, "t1")), says("done"))
agent, events = listening(Agent(config(model, tools=[tool("look", returns("a tree"))])))
await agent.prompt("What do you see?")
assert outline(events) == [...]
"""

import asyncio
import json
import re
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.events import (
    AgentEnd,
    CoreEvent,
    Event,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    Notice,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
)
from agent_cli.contracts.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from agent_cli.contracts.provider import (
    BlockEnd,
    Model,
    ModelRequest,
    Reply,
    ReplyEnd,
    ReplyStart,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallStart,
)
from agent_cli.contracts.timeline import Block, Json, Usage, text_block
from agent_cli.contracts.tooling import Execute, Tool, ToolContext, ToolResult
from agent_cli.core.agent import Agent
from agent_cli.core.api_messages import to_api
from agent_cli.core.loop_config import LoopConfig

MODEL = Model("scripted-model", api="scripted", provider="nobody")
LIMIT_S = 60.0
"""How long a test waits for something that should happen at once; never reached when it does."""


def wrong(value: object) -> Any:
    """Return *value* where another type belongs, as unchecked programs do."""
    return value


NOT_THE_USERS = "the last message is not the user's"


class Gate:
    """Holds each caller until it is opened; `reached` is set while a caller waits."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self._opened = asyncio.Event()

    def open(self) -> None:
        self._opened.set()

    async def pass_through(self) -> None:
        self.reached.set()
        await self._opened.wait()


Step: TypeAlias = Reply | Exception | Sequence[StreamEvent | Gate | Exception]


class ScriptedModel:
    """A `stream_fn` that plays its script, one step a call, and keeps the requests.

    A step is a whole reply, an exception instead of one, or a list of stream events, exceptions
    and gates. It fails the run when a request is one that the real API would refuse.
    """

    def __init__(self, *script: Step) -> None:
        self.requests: list[ModelRequest] = []
        self.closed = 0
        self.script: list[Step] = list(script)

    async def __call__(self, request: ModelRequest) -> AsyncIterator[StreamEvent]:
        faults = request_faults(request)
        assert not faults, faults
        self.requests.append(request)
        assert self.script, "the model was called more often than the script has replies"
        try:
            for event in pieces(self.script.pop(0)):
                await asyncio.sleep(0)  # as a network would, so that an abort can land here
                if isinstance(event, Exception):
                    # A script of several tests would keep the frames of each.
                    raise event.with_traceback(None)
                if isinstance(event, Gate):
                    await event.pass_through()
                else:
                    yield event
        finally:
            self.closed += 1

    def sent(self, call: int = -1) -> list[Block]:
        """Return the messages of a request as the Messages API would get them."""
        return to_api(self.requests[call].messages)


def request_faults(request: ModelRequest) -> list[str]:
    """Return the API's reasons to refuse *request*; continuing after a pause is no fault."""
    faults = problems(to_api(request.messages))
    last = request.messages[-1] if request.messages else None
    if isinstance(last, AssistantMessage) and last.stop_reason == "pause_turn":
        faults = [fault for fault in faults if fault != NOT_THE_USERS]
    return faults


def pieces(step: Step) -> Sequence[StreamEvent | Gate | Exception]:
    """Return the stream of a step: a whole reply comes in small pieces, as a model sends it."""
    if isinstance(step, Exception):
        return [step]
    if isinstance(step, Reply):
        return stream_of(step)
    return step


def stream_of(reply: Reply) -> list[StreamEvent]:
    """Return the events a provider yields for *reply*."""
    events: list[StreamEvent] = [ReplyStart(reply.model)]
    for index, block in enumerate(reply.content):
        match block["type"]:
            case "text":
                events += [TextDelta(index, word) for word in words(str(block["text"]))]
            case "thinking":
                events += [ThinkingDelta(index, word) for word in words(str(block["thinking"]))]
            case "tool_use":
                events.append(ToolCallStart(index, str(block["id"]), str(block["name"])))
                events.append(ToolCallDelta(index, json.dumps(block["input"])))
            case _:
                pass
        events.append(BlockEnd(index, block))
    return [*events, ReplyEnd(reply)]


def words(text: str) -> list[str]:
    """Split *text* after its blanks; the joined parts are the text again."""
    return re.findall(r"\S*\s+|\S+", text)


def says(
    text: str, *, stop_reason: str = "end_turn", thinking: str = "", usage: Usage | None = None
) -> Reply:
    """Return a reply of text, after *thinking* if there is any."""
    thought: list[Block] = [{"type": "thinking", "thinking": thinking, "signature": "s"}]
    content = (*(thought if thinking else ()), text_block(text))
    return Reply("msg", MODEL.id, content, stop_reason, usage or Usage(10, 5))


def calls(*uses: Block, text: str = "", stop_reason: str = "tool_use") -> Reply:
    """Return a reply that asks for tools, after *text* if there is any."""
    said = (text_block(text),) if text else ()
    return Reply("msg", MODEL.id, (*said, *uses), stop_reason, Usage(10, 5))


def tool_use(name: str, given: Json = None, id: str = "t1") -> Block:
    """Return a call; without input it is an empty object."""
    return {"type": "tool_use", "id": id, "name": name, "input": {} if given is None else given}


def tool(
    name: str,
    execute: Execute,
    *,
    parallel_safe: bool | Callable[[Any], bool] = True,  # Any: as Tool declares it
    timeout_s: float | None = None,
    writes: Callable[[Any], Sequence[str]] = lambda _params: (),
) -> Tool:
    """Return a tool that takes any object."""
    return Tool(
        name=name,
        label=name.title(),
        description=f"Does {name}",
        parameters={"type": "object"},
        execute=execute,
        parallel_safe=parallel_safe,
        timeout_s=timeout_s,
        writes=writes,
    )


def returns(text: str) -> Execute:
    """Return a tool's body that answers *text*."""

    async def execute(
        tool_call_id: str, params: object, cancel: CancelToken, on_update: ToolContext
    ) -> str:
        return text

    return execute


LOOK: Final = tool("look", returns("a tree"))


def raises(error: BaseException) -> Execute:
    """Return a tool's body that fails."""

    async def execute(
        tool_call_id: str, params: object, cancel: CancelToken, on_update: ToolContext
    ) -> str:
        raise error.with_traceback(None)  # as above

    return execute


def does(action: Callable[[ToolContext], Awaitable[ToolResult | str]]) -> Execute:
    """Return a tool's body that performs *action*."""

    async def execute(
        tool_call_id: str, params: object, cancel: CancelToken, on_update: ToolContext
    ) -> ToolResult | str:
        return await action(on_update)

    return execute


@dataclass
class Held:
    """A tool's body that runs until its gate is opened, and records how each call went."""

    gates: dict[str, Gate] = field(default_factory=dict[str, Gate])
    started: list[str] = field(default_factory=list[str])
    ended: list[str] = field(default_factory=list[str])
    cancelled: list[str] = field(default_factory=list[str])

    def gate(self, tool_call_id: str) -> Gate:
        return self.gates.setdefault(tool_call_id, Gate())

    async def __call__(
        self, tool_call_id: str, params: object, cancel: CancelToken, on_update: ToolContext
    ) -> str:
        self.started.append(tool_call_id)
        try:
            await self.gate(tool_call_id).pass_through()
        except asyncio.CancelledError:
            self.cancelled.append(tool_call_id)
            raise
        self.ended.append(tool_call_id)
        return f"{tool_call_id} is done"


def config(model: ScriptedModel, *, tools: Sequence[Tool] = ()) -> LoopConfig:
    """Return a configuration that asks *model*; change the rest with `dataclasses.replace`."""
    return LoopConfig(model=MODEL, stream_fn=model, tools=tools)


def listening(agent: Agent) -> tuple[Agent, list[Event]]:
    """Return *agent* and the list its events go to."""
    events: list[Event] = []
    agent.subscribe(events.append)
    return agent, events


def scripted_agent(
    *script: Step, tools: Sequence[Tool] = (), options: LoopConfig | None = None
) -> tuple[Agent, ScriptedModel, list[Event]]:
    """Return an agent on a script; *options* may set everything but the model and the tools."""
    model = ScriptedModel(*script)
    options = replace(options or LoopConfig(), model=MODEL, stream_fn=model, tools=tools)
    agent, events = listening(Agent(options))
    return agent, model, events


async def events_of(stream: AsyncIterable[Event]) -> list[Event]:
    """Read *stream* to its end."""
    return [event async for event in stream]


def core(events: Sequence[Event]) -> list[CoreEvent]:
    """Return the ten core types of events, without the application's own."""
    # Only the namespace distinguishes them, which the type checker cannot see.
    return [event for event in events if not event.type.startswith("app.")]  # type: ignore[misc]


def outline(events: Sequence[Event]) -> list[str]:
    """Return the core events in short form: a message's author, a call's id."""
    return [_short(event) for event in core(events)]


def _short(event: Event) -> str:
    match event:
        case MessageStart() | MessageEnd():
            message = event.message
            call = f" {message.tool_call_id}" if isinstance(message, ToolResultMessage) else ""
            return f"{event.type} {message.role}{call}"
        case ToolExecutionStart() | ToolExecutionUpdate() | ToolExecutionEnd():
            return f"{event.type} {event.tool_call_id}"
        case _:
            return event.type


def said(*texts: str) -> list[str]:
    """Return the outline of user messages."""
    return ["message_start user", "message_end user"] * len(texts)


def answer(reply: Reply) -> list[str]:
    """Return the outline of a reply that arrives whole."""
    updates = len(stream_of(reply)) - 2
    return [
        "message_start assistant",
        *["message_update"] * updates,
        "message_end assistant",
    ]


def results(*ids: str) -> list[str]:
    """Return the outline of tool results."""
    return [f"message_{edge} toolResult {id}" for id in ids for edge in ("start", "end")]


_LETTERS = {
    "agent_start": "<",
    "agent_end": ">",
    "turn_start": "(",
    "turn_end": ")",
    "message_start user": "u",
    "message_end user": "U",
    "message_start assistant": "a",
    "message_update": ".",
    "message_end assistant": "A",
    "tool_execution_start": "x",
    "tool_execution_update": "x",
    "tool_execution_end": "x",
    "message_start toolResult": "r",
    "message_end toolResult": "R",
    "message_start limit": "l",
    "message_end limit": "L",
}
_RUN = re.compile(r"<(\((uU)*(a\.*A)?(x*(rR)*)\))*(lL)?>")


def check_run(events: Sequence[Event]) -> None:
    """Assert that *events* are those of one run, by the grammar; its brackets balance."""
    short = outline(events)
    letters = "".join(_LETTERS.get(name) or _LETTERS[name.rpartition(" ")[0]] for name in short)
    assert _RUN.fullmatch(letters), short
    assert isinstance(events[-1], AgentEnd)
    _check_messages(events[-1], [e.message for e in events if isinstance(e, MessageEnd)])
    for id in {event.tool_call_id for event in events if isinstance(event, ToolExecutionStart)}:
        assert _life_of(events, id) in (["start", "end"], ["start", "update", "end"]), short
    assert len(answered(events)) == len(set(answered(events))), short


def _check_messages(end: AgentEnd, published: Sequence[Message]) -> None:
    """Assert that *end* has what was *published*.

    Results of calls before a question count to the run that made them, and are published with their
    whole batch: by the run that resumes it.
    """
    replies = [message for message in published if isinstance(message, AssistantMessage)]
    own = {str(call["id"]) for reply in replies for call in reply.tool_calls}
    held = [message for message in end.messages if message not in published]
    earlier = [message for message in published if message not in end.messages]
    assert all(isinstance(each, ToolResultMessage) for each in (*held, *earlier))
    assert not held or end.stop_reason == "waiting_for_approval"
    assert not any(isinstance(e, ToolResultMessage) and e.tool_call_id in own for e in earlier)
    both = [message for message in end.messages if message not in held]
    assert both == [message for message in published if message not in earlier]


def _life_of(events: Sequence[Event], tool_call_id: str) -> list[str]:
    """Return a call's start, updates (as one) and end, in the order they came."""
    life: list[str] = []
    for event in events:
        if isinstance(event, ToolExecutionStart | ToolExecutionUpdate | ToolExecutionEnd):
            name = event.type.rpartition("_")[2]
            if event.tool_call_id == tool_call_id and (name != "update" or "update" not in life):
                life.append(name)
            elif event.tool_call_id == tool_call_id and life[-1] != "update":
                life.append("late update")
    return life


def asked(messages: Sequence[Message]) -> list[str]:
    """Return the ids of all tool uses, in order."""
    return [
        str(block["id"])
        for message in messages
        if isinstance(message, AssistantMessage)
        for block in message.tool_calls
    ]


def answered(events: Sequence[Event]) -> list[str]:
    """Return the ids of the tool results that were published, in order."""
    ends = [event.message for event in events if isinstance(event, MessageEnd)]
    return [message.tool_call_id for message in ends if isinstance(message, ToolResultMessage)]


def texts(result_messages: Sequence[Message]) -> dict[str, str]:
    """Return call id → text of the tool results among *result_messages*."""
    return {
        message.tool_call_id: message.text
        for message in result_messages
        if isinstance(message, ToolResultMessage)
    }


def partials(events: Sequence[Event]) -> list[str]:
    """Return the text of each partial message, in order."""
    return [event.message.text for event in events if isinstance(event, MessageUpdate)]


def notices(events: Sequence[Event]) -> list[str]:
    """Return the texts of the notices."""
    return [event.text for event in events if isinstance(event, Notice)]


def users(messages: Sequence[Message]) -> list[str]:
    """Return the texts of the user's messages."""
    return [message.text for message in messages if isinstance(message, UserMessage)]


def problems(api_messages: Sequence[Block]) -> list[str]:
    """Return why the API would refuse *api_messages*, a sentence each; empty when it takes them."""
    found: list[str] = []
    seen: set[str] = set()
    open_ids: list[str] = []
    for index, message in enumerate(api_messages):
        content = message["content"]
        blocks = [b for b in content if isinstance(b, dict)] if isinstance(content, list) else []
        role = message["role"]
        if not blocks:
            found.append(f"message {index} is empty")
        if index == 0 and role != "user":
            found.append("the first message is not the user's")
        if index and role == api_messages[index - 1]["role"]:
            found.append(f"messages {index - 1} and {index} have the same role")
        results = [str(b["tool_use_id"]) for b in blocks if b["type"] == "tool_result"]
        if sorted(results) != sorted(open_ids):
            found.append(f"message {index} answers {results}, open are {open_ids}")
        if any(b["type"] != "tool_result" for b in blocks[: len(results)]):
            found.append(f"message {index} has something before its tool results")
        open_ids = [str(b["id"]) for b in blocks if b["type"] == "tool_use"]
        found += [f"tool use id {use!r} is not unique" for use in open_ids if use in seen]
        seen.update(open_ids)
    if open_ids:
        found.append(f"tool uses {open_ids} have no results")
    if api_messages and api_messages[-1]["role"] != "user":
        found.append(NOT_THE_USERS)
    return found
