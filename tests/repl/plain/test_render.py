"""Rendering of events, tested without a screen."""

import io

from agent_cli.contracts import events
from agent_cli.contracts.messages import AssistantMessage
from agent_cli.contracts.provider import TextDelta, ThinkingDelta
from agent_cli.contracts.timeline import Block, FileOutput, ToolOutput, WidgetOutput, text_block
from agent_cli.contracts.tooling import ToolResult
from agent_cli.repl.plain.shell import Renderer
from agent_cli.terminal.writer import Writer


class Screen:
    """A renderer on two pipes, with a clock that the test sets."""

    def __init__(self, *, sequential: bool = False, show_thinking: bool = False) -> None:
        self.out, self.err = io.StringIO(), io.StringIO()
        self.now_s = 0.0
        self.show = Renderer(
            Writer(self.out, self.err, color=False),
            lambda: (),
            streaming="sequential" if sequential else "live",
            show_thinking=show_thinking,
            clock=lambda: self.now_s,
        )


def delta(text: str) -> events.MessageUpdate:
    return events.MessageUpdate(AssistantMessage, TextDelta(0, text))  # type: ignore[arg-type]


def reply(text: str, *blocks: Block, error: str | None = None) -> events.MessageEnd:
    return events.MessageEnd(AssistantMessage((text_block(text), *blocks), error=error))


def started(id: str, path: str) -> tuple[events.Event, events.Event]:
    """Return the events of a call that is next, and then begins."""
    block: Block = {"type": "tool_use", "id": id, "name": "read", "input": {"path": path}}
    call = ToolOutput(id, 0, "r", block, started_at_ms=1)
    return (
        events.ToolExecutionStart(id, "read", {"path": path}),
        events.PromptOutput("p", 0, call, replaced=True),
    )


def test_parallel_calls_are_named_and_timed_separately() -> None:
    """S4-19, S4-23: each end names its call, with its own duration."""
    screen = Screen()

    for show in started("1", "a.py"):
        screen.show(show)
    screen.now_s = 1.0
    for show in started("2", "b.py"):
        screen.show(show)
    screen.now_s = 3.0
    screen.show(events.ToolExecutionEnd("2", "read", ToolResult.of("text"), is_error=False))
    screen.now_s = 15.0
    gone = ToolResult.error("there is no\na.py")
    screen.show(events.ToolExecutionEnd("1", "read", gone, is_error=True))

    assert screen.err.getvalue().splitlines() == [
        "* read a.py",
        "* read b.py",
        "  done in 2.0 s: read b.py",
        "  failed after 15 s: read a.py: there is no a.py",
    ]


def test_refused_call_is_not_run_instead_of_failed() -> None:
    """It was next, but never began: a deny rule, an unknown tool, a bad input."""
    screen = Screen()

    screen.show(events.ToolExecutionStart("1", "read", {"path": "a.py"}))
    screen.now_s = 1.0
    refused = ToolResult.error("The deny rule 'read' covers it.")
    screen.show(events.ToolExecutionEnd("1", "read", refused, is_error=True))

    assert screen.err.getvalue() == "  not run: read a.py: The deny rule 'read' covers it.\n"


def test_live_text_is_written_at_once_and_each_message_begins_a_line() -> None:
    """S1-05."""
    screen = Screen()

    screen.show(delta("Hel"))
    seen = screen.out.getvalue()
    screen.show(delta("lo"))
    screen.show(reply("Hello"))
    screen.show(delta("Again\n"))
    screen.show(reply("Again\n"))

    assert (seen, screen.out.getvalue()) == ("Hel", "Hello\nAgain\n")


def test_thinking_is_written_to_stderr_or_hidden() -> None:
    """S4-21: on a pipe stdout holds the answer alone, in both modes."""
    thought = events.MessageUpdate(AssistantMessage, ThinkingDelta(0, "hm"))  # type: ignore[arg-type]
    for sequential in (False, True):
        hidden, shown = (
            Screen(sequential=sequential),
            Screen(sequential=sequential, show_thinking=True),
        )
        for screen in (hidden, shown):
            screen.show(thought)
            screen.show(delta("Yes."))
            screen.show(reply("Yes."))

        assert (hidden.out.getvalue(), hidden.err.getvalue()) == ("Yes.\n", "")
        assert (shown.out.getvalue(), shown.err.getvalue()) == ("Yes.\n", "hm\n")


def test_sequential_mode_shows_nothing_before_the_reply_is_complete() -> None:
    """S4-03, S4-22, C16: neither a delta nor a broken reply; then the answer, once."""
    screen = Screen(sequential=True)

    screen.show(delta("half"))
    screen.show(reply("half", error="the connection broke"))
    screen.show(events.MessageEnd(AssistantMessage((text_block("half"),), "aborted")))
    before = screen.out.getvalue()
    screen.show(reply("The  whole\n answer."))

    assert (before, screen.out.getvalue()) == ("", "The  whole\n answer.\n")


def test_side_outputs_of_a_tool_are_written_below_their_own_call() -> None:
    """S2: as text, even if the other call ended first; sanitized like all output."""
    screen = Screen()
    widget = WidgetOutput("w", 0, "1", "table", None, "a table\x1b[2J")
    file = FileOutput("f", 0, "2", "out.pdf", "application/pdf", "the report")
    for output in (widget, file):
        screen.show(events.PromptOutput("p", 1, output))
    for call_id in ("2", "1"):
        screen.show(events.ToolExecutionEnd(call_id, "t", ToolResult.of("x"), is_error=False))

    assert screen.err.getvalue().splitlines() == [
        *("  done in 0.0 s: t", "file out.pdf: application/pdf · the report"),
        *("  done in 0.0 s: t", "a table"),
    ]


def test_only_a_batch_of_calls_is_listed_before_the_calls_start() -> None:
    """S4-18: a list of a single call would only show it twice."""
    screen = Screen()
    call = events.ToolCall("1", "read", {"path": "a.py"})

    screen.show(events.ToolCallsAnnounced((call,)))
    assert screen.err.getvalue() == ""
    screen.show(events.ToolCallsAnnounced((call, call)))
    assert screen.err.getvalue().splitlines() == ["2 tool calls:", "  - read a.py", "  - read a.py"]
