"""The controller of a plain session: runs a line, and asks the questions its tools raise.

For a screen reader it prints an answer in whole lines, each once, with words instead of symbols.
Imported after the first prompt is shown.
"""

import asyncio
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final, Protocol

from agent_cli.contracts import events
from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.events import Event
from agent_cli.contracts.hosted_blocks import found_at_server
from agent_cli.contracts.messages import AssistantMessage, Message
from agent_cli.contracts.options import STREAMING, Streaming
from agent_cli.contracts.provider import TextDelta, ThinkingDelta
from agent_cli.contracts.timeline import FileOutput, Json, ToolOutput, WidgetOutput
from agent_cli.contracts.tooling import Tool
from agent_cli.contracts.wording import seconds
from agent_cli.repl.dialogue import DialogParts, Dialogue, Questions, TurnTaking
from agent_cli.repl.dispatch import LineDispatcher
from agent_cli.repl.hosting import Interrupts
from agent_cli.repl.markdown import SPOKEN, MarkdownStream
from agent_cli.repl.mcp.dialogs import ServerQuestions
from agent_cli.repl.model_dialogs import ModelQuestions
from agent_cli.repl.ports import Application
from agent_cli.repl.recall import recalled
from agent_cli.repl.runs import HiddenPrompts, LeftWaiting, Runs, reported, with_commands
from agent_cli.system.sanitize import Filter
from agent_cli.terminal.narration import (
    HostedView,
    cited_text,
    describe_call,
    describe_failure,
    narrate,
    side_output,
    words,
)
from agent_cli.terminal.writer import Writer

_REFUSED_NEXT: Final = (
    "a tool call waits for a decision: cannot ask here, so the next prompt declines it"
)


class PlainDialogue(Dialogue, Questions, Protocol):
    """Port to a user who can be asked, with a prompt above which lines can be printed."""

    def above(self, write: Callable[[], None]) -> None:
        """Call *write*, which prints whole lines."""
        ...

    def lend(self, *, to_run: bool) -> None:
        """Leave the prompt's row to a run, which may begin by itself, or take it back."""
        ...


class Shell:
    """One conversation at a prompt. An error in one line never prevents the next one."""

    def __init__(
        self,
        app: Application,
        *,
        prompt: PlainDialogue,
        writer: Writer,
        interrupts: Interrupts,
        streaming: Streaming = STREAMING,
        show_thinking: bool = False,
        spoken: bool = False,
    ) -> None:
        self._app = app
        self._prompt = prompt
        self._writer = writer
        self._interrupts = interrupts
        self._stays = True
        self._dialogs = DialogParts(questions=prompt, lines=writer, turn=asyncio.Lock())
        self._dispatcher = LineDispatcher(
            app,
            lines=writer,
            questions=TurnTaking(prompt, self._dialogs.turn),
            leave=self._leave,
        )
        self._runs = Runs(app, self._dialogs, running=lambda: interrupts.stopping(app.agent.abort))
        render = Renderer(
            writer,
            lambda: app.tools,
            streaming=streaming,
            show_thinking=show_thinking,
            spoken=spoken,
            clock=lambda: self._happened_s or time.monotonic(),
        )
        self._render = render
        self._hidden = HiddenPrompts(app.agent)
        self._held: list[tuple[Event, float]] | None = None  # while a question is open
        self._happened_s: float | None = None  # when the event did that is shown late
        app.agent.subscribe(self._show)

    def _show(self, event: Event) -> None:
        # Servers and timers report while a prompt is on the screen, so it must be repeated below;
        # but not for events without text, or a screen reader would say `you> ` again.
        if self._hidden.hides(event):
            return
        if self._held is not None:
            self._held.append((event, time.monotonic()))
            return
        if isinstance(event, events.AgentStart):
            self._prompt.lend(to_run=True)
        if narrate(event):
            self._prompt.above(partial(self._render, event))
        else:
            self._render(event)
        if isinstance(event, events.AgentEnd):
            self._prompt.lend(to_run=False)

    def greet(self) -> None:
        """Show the greeting: tools, servers, logs."""
        lines = "\n".join(self._app.overview())
        self._prompt.above(lambda: self._writer.aside(lines, "dim"))
        conversation = self._app.agent.conversation
        if earlier := recalled(conversation):
            self._prompt.above(lambda: self._writer.aside(earlier, "dim"))
        if conversation.waiting and not self._prompt.can_ask:
            self._prompt.above(lambda: self._writer.notice(_REFUSED_NEXT, "warning"))
        self._open_dialogs()

    def _open_dialogs(self) -> None:
        def begin() -> None:
            self._writer.aside("")

        servers = ServerQuestions(
            self._prompt,
            self._dialogs,
            publish=self._app.agent.publish,
            begin=begin,
            asking=self._asking,
        )
        model = ModelQuestions(
            self._dialogs, begin=begin, asking=self._asking, approvals=self._runs.approvals
        )
        self._app.answer(servers, model, model)

    @contextmanager
    def _asking(self) -> Generator[None]:
        """Hold the output of the run back: it would stand between a question and its answer."""
        with self._interrupts.asking():
            self._held = []
            try:
                yield
            finally:
                held, self._held = self._held, None
                for event, self._happened_s in held:
                    self._show(event)
                self._happened_s = None

    async def handle(self, line: str) -> bool:
        """Run *line*, and ask pending questions; return False if it ends the session."""
        try:
            await reported(self._do(line), self._writer)
        except LeftWaiting:
            return False
        return self._stays

    async def _do(self, line: str) -> None:
        cancel = CancelToken()
        with self._interrupts.stopping(cancel.cancel):
            messages = await self._dispatcher.dispatch(line, cancel)
        for message, model in messages:
            await self._runs.prompt(message, model=model)
        if self._prompt.can_ask and self._app.agent.conversation.waiting:
            await self._runs.go_on()

    def _leave(self) -> None:
        self._stays = False


# Render events as plain text: text as it streams, one line when a tool starts and ends.
#
# A call that is refused never starts: it has the line of its end only.


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
        self._spoken = SpokenAnswer() if spoken else None
        self._clock = clock
        self._hosted = HostedView()
        self._next: dict[str, str] = {}  # the calls that begin or are refused, in words
        self._started_s: dict[str, float] = {}
        self._handed_over: dict[str, list[str]] = {}
        self._listed: tuple[str, ...] = ()

    def __call__(self, event: events.Event) -> None:
        """Show *event*, if there is something to show."""
        for each in self._hosted(event):
            self._show(each)

    def _show(self, event: events.Event) -> None:
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
                    self._writer.notice(with_commands(sentence.text), sentence.style)

    def _end_message(self, message: Message) -> None:
        if not isinstance(message, AssistantMessage):
            return
        if not self._live and message.text and not message.broke_off:
            if message.tool_calls:
                self._writer.aside(message.text, "dim")
            else:
                for word in words(cited_text(message.content)):
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
            outcome, reason = describe_failure(event.result.text, elapsed_s)
            self._writer.aside(f"  {outcome}: {call}: {reason}", "warning")
        else:
            found = found_at_server(event.result)
            outcome = found or f"done in {seconds(elapsed_s or 0)}"
            self._writer.aside(f"  {outcome}: {call}", "dim")
        for text in self._handed_over.pop(event.tool_call_id, ()):
            self._writer.aside(text)

    def _described(self, name: str, arguments: Json) -> str:
        return describe_call(self._tools(), name, arguments)


# A paragraph is one line, because a listener does not hear where a row ends.
_COLUMNS: Final = 1_000_000


class SpokenAnswer:
    """Text in as it streams; lines out as soon as they are final."""

    def __init__(self) -> None:
        self._filter = Filter()
        self._markdown = MarkdownStream(_COLUMNS, SPOKEN)

    def feed(self, delta: str) -> str:
        """Add *delta* and return the lines it completes, each with its newline."""
        return _lines(self._markdown.feed(self._filter.feed(delta)))

    def finish(self) -> str:
        """Return the rest; the next `feed` begins another answer."""
        self._filter.reset()
        return _lines(self._markdown.finish())


def _lines(rows: Iterable[str]) -> str:
    return "".join(f"{row}\n" for row in rows if row)
