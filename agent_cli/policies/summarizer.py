"""Ask a model for a summary of older messages. compaction.py decides when and of which."""

import json
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from typing import assert_never

from agent_cli.contracts.errors import ModelError
from agent_cli.contracts.events import EventSink, Retry
from agent_cli.contracts.messages import (
    AssistantMessage,
    CustomMessage,
    Message,
    ToolResultMessage,
    UserMessage,
)
from agent_cli.contracts.provider import (
    Model,
    ModelRequest,
    Reply,
    ReplyEnd,
    Retrying,
    StreamFn,
    ThinkingLevel,
)
from agent_cli.contracts.timeline import NO_USAGE, Block, text_of
from agent_cli.policies.compaction import Summary

MAX_TOKENS = 4096
MAX_INPUT_CHARS = 100_000

# Characters kept at the beginning and at the end.
_RESULT = (500, 200)
_INPUT = (200, 0)
_FOCUS = (2_000, 0)
_NOTES = (20_000, 2_000)
# With notes, focus and the sentences around them a request stays below MAX_INPUT_CHARS.
PART_CHARS = 70_000

_USABLE = ("end_turn", "stop_sequence")


class Summarizer:
    """The strategy `summarize`: requests without tools, to `model` or to the run's own.

    All messages are read: those that do not fit one request are summarised in parts, in order, each
    with the notes so far.
    """

    def __init__(self, stream_fn: StreamFn, *, model: Model | None = None) -> None:
        self._stream_fn = stream_fn
        self._model = model

    async def summarize(
        self, messages: Sequence[Message], *, model: Model, focus: str, emit: EventSink
    ) -> Summary:
        """Return the model's summary of *messages*; its text is "" if one reply is not usable.

        Raises:
            ModelError: The model could not be asked, or its reply was lost.
        """
        summary = Summary("", NO_USAGE)
        for part in parts_of(messages):
            request = summary_request(
                part, model=self._model or model, focus=focus, notes=summary.text
            )
            reply = await self._ask(request, emit)
            usage = summary.usage + reply.usage
            summary = Summary(text_of(reply.content).strip(), usage)
            if reply.stop_reason not in _USABLE or not summary.text:
                return Summary("", usage, _fault(reply))
        return summary

    async def _ask(self, request: ModelRequest, emit: EventSink) -> Reply:
        reply = None
        async for event in self._stream_fn(request):
            match event:
                case ReplyEnd():
                    reply = event.reply
                case Retrying():
                    # Never "restarted": no part of this reply was shown.
                    again = Retry(
                        event.attempt, event.max_attempts, event.wait_s, event.reason, False
                    )
                    emit(again)
                case _:
                    pass
        if reply is None:
            raise ModelError("the summary ended too early")
        return reply


def _fault(reply: Reply) -> str:
    match reply.stop_reason:
        case "max_tokens":
            return f"the summary was cut off after {MAX_TOKENS:,} tokens"
        case "refusal":
            return "the model refused to write a summary"
        case _:
            return "the model wrote no summary"


def parts_of(messages: Sequence[Message]) -> Iterator[str]:
    """Yield the text of *messages* in parts of at most `PART_CHARS` characters, cut in between."""
    part = ""
    for line in _lines(messages):
        pieces = [line[at : at + PART_CHARS] for at in range(0, len(line), PART_CHARS)]
        for piece in pieces:
            joined = f"{part}\n\n{piece}" if part else piece
            if len(joined) > PART_CHARS:
                yield part
                joined = piece
            part = joined
    yield part


def summary_request(part: str, *, model: Model, focus: str = "", notes: str = "") -> ModelRequest:
    """Return the request for a summary of one part of a conversation.

    Args:
        part: A text of `parts_of`.
        model: The model to ask.
        focus: What the user wants to keep above all, or "".
        notes: The summary of the parts before, or "".
    """
    text = f"<conversation>\n{part}\n</conversation>\n\nWrite the notes."
    if notes:
        text = (
            f"<notes>\n{_preview(notes, _NOTES)}\n</notes>\n\n{text} The notes above are yours, of"
            " the parts of the conversation before this one. Write all of them anew, with what this"
            " part adds or changes."
        )
    if focus:
        text += f" The user asks to keep above all: {_preview(focus, _FOCUS)}"
    assert len(text) <= MAX_INPUT_CHARS
    return ModelRequest(
        model=model,
        messages=(UserMessage.of(text),),
        system=(_instructions(),),
        max_tokens=MAX_TOKENS,
        thinking_level=_least_thinking(model),
    )


@cache
def _instructions() -> str:
    return (files("agent_cli") / "prompts" / "compaction.md").read_text(encoding="utf-8")


def _least_thinking(model: Model) -> ThinkingLevel:
    """Return the lowest thinking level of *model*, because thinking counts towards `MAX_TOKENS`."""
    can_be_off = not model.thinking or model.thinking & {"disabled", "between_tools"}
    return "off" if can_be_off else "minimal"


def _lines(messages: Sequence[Message]) -> Iterator[str]:
    for message in messages:
        match message:
            case UserMessage():
                yield f"User: {_content(message.content)}"
            case AssistantMessage():
                yield f"Assistant: {_content(message.content)}"
            case ToolResultMessage():
                outcome = "Error" if message.is_error else "Result"
                shown = _preview(_content(message.content), _RESULT)
                yield f"{outcome} of {message.tool_name}: {shown}"
            case CustomMessage():
                continue
            case _:
                assert_never(message)


def _content(content: Sequence[Block]) -> str:
    """Return text unchanged, calls with the beginning of their input, and a note for images."""
    parts: list[str] = []
    for block in content:
        match block:
            case {"type": "text", "text": str(text)}:
                parts.append(text)
            case {"type": "tool_use"}:
                given = json.dumps(block.get("input"), ensure_ascii=False)
                parts.append(f"[calls {block['name']} with {_preview(given, _INPUT)}]")
            case {"type": "image"}:
                parts.append("[image]")
            case _:
                pass
    return "\n".join(parts)


def _preview(text: str, shown: tuple[int, int]) -> str:
    """Return *text*, or its beginning and end with the number of characters left out."""
    head, tail = shown
    if len(text) <= head + tail:
        return text
    left_out = len(text) - head - tail
    return f"{text[:head]} [… {left_out:,} characters …] {text[len(text) - tail :]}"
