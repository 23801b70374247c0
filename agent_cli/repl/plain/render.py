"""Render events as plain text: text as it streams, one line when a tool starts and ends.

A call that is refused never starts: it has the line of its end only.
"""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from agent_cli.contracts import events
from agent_cli.contracts.messages import AssistantMessage, Message
from agent_cli.contracts.options import STREAMING, Streaming
from agent_cli.contracts.provider import TextDelta, ThinkingDelta
from agent_cli.contracts.timeline import FileOutput, Json, ToolOutput, WidgetOutput
from agent_cli.contracts.tooling import Tool
from agent_cli.contracts.wording import seconds
from agent_cli.repl.approval.refusals import failure
from agent_cli.terminal.narration import describe_call, narrate, side_output, words
from agent_cli.terminal.writer import Writer

if TYPE_CHECKING:
    from agent_cli.repl.plain.spoken import SpokenAnswer


class Renderer:
    """A plain-text event sink.

    `streaming` "live" shows text as it arrives; "sequential" shows an answer once it is complete,
    and text before tool calls as an aside. `spoken` is for a screen reader: whole lines, each once.
    """

    def __init__(
        self,
        writer: Writer,
        tools: Callable[[], Sequence[Tool]],
        *,
        streaming: Streaming = STREAMING,
        show_thinking: bool = False,
        spoken: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._writer = writer
        self._tools = tools
        self._live = streaming == "live"
        self._show_thinking = show_thinking
        self._spoken = _spoken_answer() if spoken else None
        self._clock = clock
        self._next: dict[str, str] = {}  # the calls that begin or are refused, in words
        self._started_s: dict[str, float] = {}
        self._handed_over: dict[str, list[str]] = {}
        self._listed: tuple[str, ...] = ()

    def __call__(self, event: events.Event) -> None:
        """Show *event*, if there is something to show."""
        match event:
            case events.MessageUpdate(event=TextDelta(delta=delta)) if self._live:
                self._say(delta)
            case events.MessageUpdate(event=ThinkingDelta(delta=delta)) if self._show_thinking:
                self._writer.thought(delta)
            case events.MessageEnd(message=message):
                self._end_message(message)
            case events.ToolCallsAnnounced(calls=calls) if len(calls) > 1:
                self._list(calls)
            case events.ToolExecutionStart():
                call = self._described(event.tool_name, event.args)
                self._next[event.tool_call_id] = call
            case events.PromptOutput(output=ToolOutput() as output) if output.is_running:
                self._start_tool(output)
            case events.PromptOutput(output=FileOutput() | WidgetOutput() as output):
                self._handed_over.setdefault(output.tool_call_id, []).append(side_output(output))
            case events.ToolExecutionEnd():
                self._end_tool(event)
            case _:
                if sentence := narrate(event):
                    self._writer.notice(sentence.text, sentence.style)

    def _end_message(self, message: Message) -> None:
        if not isinstance(message, AssistantMessage):
            return
        if not self._live and message.text and not message.broke_off:
            if message.tool_calls:
                self._writer.aside(message.text, "dim")
            else:
                for word in words(message.text):
                    self._say(word)
        if self._spoken:
            self._writer.answer(self._spoken.finish())
        self._writer.end_answer()

    def _say(self, text: str) -> None:
        self._writer.answer(self._spoken.feed(text) if self._spoken else text)

    def _list(self, calls: Sequence[events.ToolCall]) -> None:
        """List the calls of a reply, once, although a resumed run announces them again."""
        listed = tuple(call.id for call in calls)
        if listed == self._listed:
            return
        self._listed = listed
        self._writer.aside(f"{len(calls)} tool calls:", "dim")
        for call in calls:
            self._writer.aside(f"  - {self._described(call.name, call.input)}", "dim")

    def _start_tool(self, running: ToolOutput) -> None:
        call = self._described(running.name, running.input)
        self._started_s[running.tool_call_id] = self._clock()
        self._writer.aside(f"{'started:' if self._spoken else '*'} {call}", "dim")

    def _end_tool(self, event: events.ToolExecutionEnd) -> None:
        call = self._next.pop(event.tool_call_id, event.tool_name)
        started_s = self._started_s.pop(event.tool_call_id, None)
        elapsed_s = None if started_s is None else self._clock() - started_s
        if event.is_error:
            outcome, reason = failure(event.result.text, elapsed_s)
            self._writer.aside(f"  {outcome}: {call}: {reason}", "warning")
        else:
            self._writer.aside(f"  done in {seconds(elapsed_s or 0)}: {call}", "dim")
        for text in self._handed_over.pop(event.tool_call_id, ()):
            self._writer.aside(text)

    def _described(self, name: str, given: Json) -> str:
        return describe_call(self._tools(), name, given)


def _spoken_answer() -> "SpokenAnswer":
    from agent_cli.repl.plain.spoken import SpokenAnswer  # noqa: PLC0415 - markdown, for few only

    return SpokenAnswer()
