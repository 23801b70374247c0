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
from agent_cli.contracts.timeline import Block, text_of
from agent_cli.policies.compaction import Summary

MAX_TOKENS = 4096
MAX_INPUT_CHARS = 100_000

# Characters kept at the beginning and at the end.
_RESULT = (500, 200)
_INPUT = (200, 0)
_FOCUS = (2_000, 0)
# The beginning holds an earlier summary, the end the current work.
_CONVERSATION = (40_000, 55_000)

_USABLE = ("end_turn", "stop_sequence", "max_tokens")


class Summarizer:
    """The strategy `summarize`: one request without tools, to `model` or to the run's own."""

    def __init__(self, stream_fn: StreamFn, *, model: Model | None = None) -> None:
        self._stream_fn = stream_fn
        self._model = model

    async def summarize(
        self, messages: Sequence[Message], *, model: Model, focus: str, emit: EventSink
    ) -> Summary:
        """Return the model's summary of *messages*; its text is "" if the model refused.

        Raises:
            ModelError: The model could not be asked, or its reply was lost.
        """
        request = summary_request(messages, model=self._model or model, focus=focus)
        reply = await self._ask(request, emit)
        text = text_of(reply.content).strip() if reply.stop_reason in _USABLE else ""
        if text and reply.stop_reason == "max_tokens":
            text += "\n[The summary was cut off here.]"
        return Summary(text, reply.usage)

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


def summary_request(messages: Sequence[Message], *, model: Model, focus: str = "") -> ModelRequest:
    """Return the request for a summary of *messages*.

    Its input has at most `MAX_INPUT_CHARS` characters; *focus* is the user's wish, or "".
    """
    conversation = _preview("\n\n".join(_lines(messages)), _CONVERSATION)
    text = f"<conversation>\n{conversation}\n</conversation>\n\nWrite the notes."
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
