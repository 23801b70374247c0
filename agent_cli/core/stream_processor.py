"""Build one reply, complete or partial, from a stream of events (document S4).

Work and memory are linear in the text: pieces are kept, and joined only when they are read.
"""

from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from inspect import iscoroutine
from typing import Final, Literal, NoReturn, TypeAlias, cast

from agent_cli.contracts.errors import AgentCliError, ModelError
from agent_cli.contracts.messages import AssistantMessage, is_cut_off, now_ms
from agent_cli.contracts.options import require, require_all
from agent_cli.contracts.provider import (
    BlockEnd,
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
from agent_cli.contracts.timeline import NO_USAGE, Block, ModelUsage, Usage
from agent_cli.system.records import dataclass, field
from agent_cli.system.shapes import is_object

FinishReason = Literal["stop", "tool_calls", "length", "refusal"]
_FINISH_REASONS: dict[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}
_AT_FAULT: Final = "the stream_fn, or the provider's stream,"
_CONTRACT: Final = "it is an `async def` that yields stream events, the last one a ReplyEnd"
_OF_A_REPLY: Final[Mapping[str, tuple[type, ...]]] = {
    **dict.fromkeys(("id", "model", "stop_reason"), (str,)),
    "content": (tuple, list),
    "usage": (Usage,),
}
_Piece: TypeAlias = TextDelta | ThinkingDelta | ToolCallStart | BlockEnd


@dataclass(frozen=True, slots=True)
class StreamResult:
    """The result of a whole stream. `tool_calls` are complete tool_use blocks."""

    thinking: str
    content: str
    tool_calls: tuple[Block, ...]
    finish_reason: FinishReason


@dataclass(slots=True)
class StreamProcessor:
    """One reply while it streams in. A restart empties it.

    `usage` is what a reply that breaks off has cost for certain.
    """

    started_ms: int = field(default_factory=now_ms)
    model: str = ""
    reply: Reply | None = None
    started: bool = False
    usage: Usage = NO_USAGE
    _pieces: list[_Piece] = field(default_factory=list[_Piece])

    def feed(self, event: StreamEvent) -> None:
        """Take in the next event; raises `AgentCliError` if it is none."""
        match event:
            case ReplyStart():
                self.model, self.usage = event.model, event.usage
            case TextDelta() | ThinkingDelta() | ToolCallStart() | BlockEnd():
                self._pieces.append(event)
            case ReplyEnd():
                check_event(event)
                self.reply = event.reply
            case Retrying():
                self._pieces, self.usage = [], NO_USAGE
            case ToolCallDelta():
                pass  # shown once it is complete
            case _:
                _refuse(event)
        self.started = not isinstance(event, Retrying)

    def snapshot(self) -> Callable[[], AssistantMessage]:
        """Return a function that builds the reply in its present state, even when called later."""
        pieces, count = self._pieces, len(self._pieces)
        return _Snapshot(lambda: self._partial(pieces[:count]))

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(piece.delta for piece in self._pieces if isinstance(piece, TextDelta))

    def _partial(self, pieces: Sequence[_Piece]) -> AssistantMessage:
        """Build the partial reply, blocks in order; a call has no input until it is complete."""
        texts: dict[tuple[int, str], list[str]] = {}
        blocks: dict[tuple[int, str], Block] = {}
        for piece in pieces:
            match piece:
                case TextDelta():
                    texts.setdefault((piece.index, "text"), []).append(piece.delta)
                case ThinkingDelta():
                    texts.setdefault((piece.index, "thinking"), []).append(piece.delta)
                case ToolCallStart():
                    call: Block = {"type": "tool_use", "id": piece.id, "name": piece.name}
                    blocks[piece.index, "tool_use"] = call | {"input": {}}
                case BlockEnd() if piece.block["type"] == "tool_use":
                    blocks[piece.index, "tool_use"] = piece.block
                case _:
                    pass
        for (index, kind), parts in texts.items():
            blocks[index, kind] = {"type": kind, kind: "".join(parts)}
        content = tuple(blocks[key] for key in sorted(blocks, key=lambda key: key[0]))
        return AssistantMessage(content, "", model=self.model, timestamp=self.started_ms)

    async def process(self, stream: AsyncIterator[StreamEvent]) -> StreamResult:
        """Consume *stream* to its end.

        Raises:
            ModelError: It ended without a complete reply.
            AgentCliError: It is no stream of a reply.
        """
        async for event in checked_stream(stream):
            self.feed(event)
        if self.reply is None:
            raise ModelError("the model's stream ended without a complete reply: ask again")
        return digest(self.reply)

    @staticmethod
    def has_tool_calls(result: StreamResult) -> bool:
        """Return whether there is at least one complete call to run."""
        return bool(result.tool_calls)


def checked_stream(stream: object) -> AsyncIterator[StreamEvent]:
    """Return *stream* if it can be iterated over; raises `AgentCliError` if not."""
    if iscoroutine(stream):
        stream.close()
    if not isinstance(stream, AsyncIterable):
        raise AgentCliError(f"{_AT_FAULT} returned {type(stream).__name__}: {_CONTRACT}")
    return cast("AsyncIterator[StreamEvent]", stream)


def check_event(event: object) -> None:
    """Raise `AgentCliError` unless *event* is a complete stream event."""
    match event:
        case ReplyEnd():
            _check_reply(event.reply)
        case ReplyStart():
            require(event.model, str, what="model of a ReplyStart")
            require(event.usage, Usage, what="usage of a ReplyStart")
        case TextDelta() | ThinkingDelta() | ToolCallDelta():
            require(event.delta, str, what=f"delta of a {type(event).__name__}")
        case BlockEnd():
            _check_blocks([event.block], "block of a BlockEnd must be one")
        case ToolCallStart() | Retrying():
            pass
        case _:
            _refuse(event)


def _refuse(event: object) -> NoReturn:
    what = f"{type(event).__name__}, which is no stream event"
    raise AgentCliError(f"{_AT_FAULT} yielded {what}: {_CONTRACT}")


def _check_reply(reply: object) -> None:
    require(reply, Reply, what="the reply of a ReplyEnd")
    assert isinstance(reply, Reply)
    for name, kinds in _OF_A_REPLY.items():
        require(getattr(reply, name), *kinds, what=f"{name} of a Reply")
    require_all(reply.beside, ModelUsage, what="beside of a Reply")
    _check_blocks(reply.content, "content of a Reply must be blocks")


def _check_blocks(blocks: Sequence[object], what: str) -> None:
    for block in blocks:
        if not (is_object(block) and isinstance(block.get("type"), str)):
            raise AgentCliError(f"{what}, as text_block(text) makes one")
        if block["type"] == "tool_use" and not isinstance(block.get("name"), str):
            raise AgentCliError("a tool_use block needs the name of the tool")


def digest(reply: Reply) -> StreamResult:
    """Return a complete reply as S4's `StreamResult`; calls only if they are complete."""
    message = AssistantMessage(reply.content)
    calls = () if is_cut_off(reply.stop_reason) else message.tool_calls
    reason = "tool_calls" if calls else _FINISH_REASONS.get(reply.stop_reason, "stop")
    return StreamResult(message.thinking, message.text, calls, reason)


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """Builds a reply as it was; pickling keeps the reply and not the run."""

    build: Callable[[], AssistantMessage]

    def __call__(self) -> AssistantMessage:
        return self.build()

    def __reduce__(self) -> tuple[object, ...]:
        return partial, (_built, self.build())


def _built(message: AssistantMessage) -> AssistantMessage:
    return message
