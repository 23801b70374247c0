"""Events as rows, without a terminal."""

from collections.abc import Iterable

import pytest

from agent_cli.contracts import events
from agent_cli.contracts.errors import START_OVER
from agent_cli.contracts.events import Event
from agent_cli.contracts.messages import AssistantMessage
from agent_cli.contracts.options import Streaming
from agent_cli.contracts.provider import TextDelta, ThinkingDelta
from agent_cli.contracts.side_events import ToolAttemptStart, ToolAttemptUpdate
from agent_cli.contracts.timeline import (
    Block,
    FileOutput,
    Json,
    ToolOutput,
    WidgetOutput,
    text_block,
)
from agent_cli.contracts.tooling import ToolResult
from agent_cli.core.call_decisions import SAYING
from agent_cli.headless.report import to_json
from agent_cli.repl.live.activity import ActivityLine
from agent_cli.repl.live.backlog import Item, Rows, StreamingFilter, Thinking, text_of
from agent_cli.repl.live.paint import Paint
from agent_cli.repl.live.results import Details, Results
from agent_cli.repl.live.tool_rows import ToolRows
from agent_cli.repl.live.view import SessionView
from tests.fakes import calls, returns, says, scripted_agent, tool, tool_use
from tests.tables import each_row

COLUMNS = 60


class Screen:
    """A view with a clock that the test sets, and the rows finished so far."""

    def __init__(
        self,
        streaming: Streaming = "live",
        *,
        show_thinking: bool = False,
        is_low: bool = False,
        has_room: bool = True,
        color: bool = False,
    ) -> None:
        self.now_s = 0.0
        self.asks = False
        self.rows: list[str] = []
        paint = Paint(color=color)
        self.activity = ActivityLine(lambda: self.now_s)
        self.results = Results(paint, lambda: 80)
        self.view = SessionView(
            ToolRows(
                lambda: (),
                paint=paint,
                clock=lambda: self.now_s,
                columns=lambda: COLUMNS,
                details=Details(self.results, paint, lambda: COLUMNS),
            ),
            paint=paint,
            streaming=streaming,
            clock=lambda: self.now_s,
            columns=lambda: COLUMNS,
            activity=self.activity,
            asks=lambda: self.asks,
            is_low=lambda: is_low,
            has_room=lambda: has_room,
        )
        self.thinking = Thinking(
            is_shown=show_thinking,
            paint=paint,
            clock=lambda: self.now_s,
            columns=lambda: COLUMNS,
        )
        self._sequence = StreamingFilter(streaming)

    def __call__(self, *happened: Event | Rows) -> None:
        for event in happened:
            if not isinstance(event, Rows):
                self.activity(event)
            self._show([event] if isinstance(event, Rows) else self.thinking(event))

    def _show(self, items: Iterable[Item]) -> None:
        for item in items:
            for shown in [item] if isinstance(item, Rows) else self._sequence(item):
                self.view.show(shown)
        self.rows += self.view.finished()

    def toggle_thinking(self) -> None:
        self._show(self.thinking.toggle())

    @property
    def tail(self) -> list[str]:
        return self.view.tail()


def delta(text: str, kind: type[TextDelta] | type[ThinkingDelta] = TextDelta) -> Event:
    return events.MessageUpdate(lambda: AssistantMessage(()), kind(0, text))


def start(call_id: str, path: str) -> Event:
    return events.ToolExecutionStart(call_id, "read", {"path": path})


def end(call_id: str, result: ToolResult) -> Event:
    return events.ToolExecutionEnd(call_id, "read", result, is_error=result.is_error)


def announced(*paths: str) -> Event:
    calls = [events.ToolCall(str(n), "read", {"path": path}) for n, path in enumerate(paths, 1)]
    return events.ToolCallsAnnounced(tuple(calls))


THINKING = events.StateChanged("idle", "thinking")
RESPONDING = events.StateChanged("thinking", "responding")
# Anything else that is printed ends the row of the calls that only look.
SOMETHING_ELSE = Rows((), "gap")


def test_notice_names_the_commands_that_follow_its_advice() -> None:
    """A summary that was too large said what `/compact` did not: each place had its own words."""
    screen = Screen()

    screen(events.Notice("warning", f"compaction failed: too large; {START_OVER}"))

    told = " ".join(screen.rows)
    assert "too large; /rewind takes a long message back, /clear starts over, /model" in told
    assert "shorter message" not in told


def test_notice_between_runs_leaves_a_blank_row_above_the_prompt() -> None:
    """It stood right above `you>`; during a run its other rows follow."""
    idle, busy, asked = Screen(), Screen(), Screen()
    asked.asks = True

    idle(events.Notice("info", "server gone"))
    busy(events.AgentStart(), events.Notice("info", "server gone"))
    asked(events.Notice("info", "server gone"))
    asked.asks = False
    asked(Rows(()))

    assert (idle.rows, busy.rows, asked.rows) == (
        ["server gone", ""],
        ["server gone"],
        ["server gone", ""],
    )


def test_whole_batch_of_calls_is_listed_before_the_first_starts() -> None:
    """S4-18: in call order, none of them running."""
    screen = Screen()

    screen(announced("a.py", "b.py"))

    assert (screen.rows, screen.tail) == ([], ["· read a.py", "· read b.py"])


def test_call_has_a_live_row_and_then_a_final_row_with_duration_and_outcome() -> None:
    """S4-19, S4-23: in call order, though the second ended first."""
    screen = Screen()
    screen(announced("a.py", "b.py"), start("1", "a.py"))
    screen.now_s = 1.0
    screen(start("2", "b.py"))
    screen.now_s = 3.0
    running = screen.tail
    screen(end("2", ToolResult.of("text")))
    one_done, still = list(screen.rows), screen.tail
    screen.now_s = 15.0
    screen(end("1", ToolResult.error("there is no\na.py")), SOMETHING_ELSE)

    assert [row[1:] for row in running] == [" read a.py 3 s", " read b.py 2 s"]
    assert one_done == []
    assert still[1] == "✓ read b.py · 2.0 s"
    assert screen.rows == [
        "✗ read a.py · failed after 15 s: there is no",
        "  a.py",
        "✓ read b.py · 2.0 s",
        "",
    ]
    assert screen.tail == []


def test_calls_side_by_side_that_only_look_share_a_row_with_their_results_kept() -> None:
    """The row waits for the last of them; one that failed has its own."""
    screen = Screen()
    screen(announced("a.py", "b.py", "c.py"), start("1", "a.py"), start("2", "b.py"))
    read = ToolResult.of("text", details={"kind": "read", "lines": 2, "total": 2})
    screen(end("1", read))
    waiting = list(screen.rows)
    screen.now_s = 2.0
    screen(end("2", read), start("3", "c.py"), end("3", ToolResult.error("no")))

    assert waiting == []
    assert screen.rows == ["✓ read a.py, b.py · 2.0 s · Ctrl-O", "✗ read c.py · failed: no"]
    assert screen.results.output(None) == "read a.py · 2 lines\nread b.py · 2 lines"


def test_error_cut_in_its_row_is_kept_in_full_for_output() -> None:
    """One line of a server's error may be long, and only its beginning is in the row."""
    screen = Screen()
    long = "no such table " * 20 + "users"
    screen(start("1", "a"), end("1", ToolResult.error(long)))

    assert " ".join(row.strip() for row in screen.rows).endswith("… · Ctrl-O")
    assert screen.results.output(None) == long
    drawn = screen.results.drawn(None) or []
    assert " ".join(row.strip() for row in drawn) == long
    assert max(map(len, drawn)) <= 80

    screen(start("2", "b"), end("2", ToolResult.error("no")))

    assert screen.rows[-1] == "✗ read b · failed: no"
    assert screen.results.output(2) is None


def test_mark_of_an_error_cut_in_its_row_never_stands_alone_on_a_row() -> None:
    """`· Ctrl-O` on the last row read as a key without anything to show."""
    for length in range(20):
        screen = Screen()
        error = f"{'x' * (length + 1)} {'no such table ' * 20}"
        screen(start("1", "a"), end("1", ToolResult.error(error)))

        assert screen.rows[-1].endswith("… · Ctrl-O")


def test_call_that_is_tried_first_has_a_live_row_and_the_duration_of_the_attempt() -> None:
    """Several are tried side by side."""
    screen = Screen()
    screen(announced("a.py", "b.py"), ToolAttemptStart("1", "bash"))
    screen(ToolAttemptUpdate("1", "bash", ToolResult.of("a row\n", {"lines": 1})))
    screen.now_s = 2.0
    trying = screen.tail
    screen(ToolAttemptStart("2", "bash"))
    screen.now_s = 4.5
    both = screen.tail
    screen(start("2", "b.py"), end("2", ToolResult.of("text")))

    assert [row[1:] for row in trying] == [" read a.py read-only · 2 s", " a row", " read b.py"]
    assert [row[1:] for row in both] == [
        " read a.py read-only · 4 s",
        " a row",
        " read b.py read-only · 2 s",
    ]
    assert screen.tail[2:] == ["✓ read b.py · 2.5 s"]
    assert screen.rows == []


def test_rows_of_events_wait_until_an_open_question_is_answered() -> None:
    """Between a question and its answers they would push it off the screen."""
    screen = Screen()
    screen(announced("a.py"), start("1", "a.py"), Rows(("Run it?",)))
    screen.asks = True
    screen(Rows(("  part by part",)), end("1", ToolResult.of("text")), delta("All "), delta("done"))
    asked, beside = list(screen.rows), screen.tail
    screen(events.AgentEnd((), "end_turn"), SOMETHING_ELSE, Rows(("of a program",), wait=True))
    still = list(screen.rows)
    screen.asks = False
    screen(Rows(("Next?",)))

    assert asked == still == ["Run it?", "  part by part"]
    assert beside == []
    assert screen.rows[2:] == [
        "",
        "✓ read a.py · 0.0 s",
        "",
        "All done",
        "",
        "of a program",
        "Next?",
    ]


def test_low_terminal_has_no_live_rows_between_a_question_and_its_answers() -> None:
    """They took the rows of the question, whose first ones were off the screen."""
    high, *low = screens = [Screen(), Screen(is_low=True), Screen(has_room=False)]
    for screen in screens:
        screen(events.AgentStart(), announced("a.py"), start("1", "a.py"))
        assert screen.tail[0].endswith("read a.py 0 s")
        screen.asks = True

    assert high.tail[0].endswith("read a.py 0 s")
    assert [screen.tail for screen in low] == [[], []]


def test_rows_of_a_dialog_are_printed_without_live_rows_below_them() -> None:
    """Those, dropped when its question opens, would have pushed its first rows off the screen."""
    screen = Screen(is_low=True)
    screen(events.AgentStart(), announced("a.py"), start("1", "a.py"))

    screen.view.is_asked = True

    assert screen.tail == []
    screen(Rows(("Edit b.py",)), end("1", ToolResult.of("read")))
    assert screen.rows == ["Edit b.py"]
    screen.view.is_asked = False
    screen(SOMETHING_ELSE)
    assert any("read a.py" in row for row in screen.rows)


def test_call_that_was_tried_for_long_says_so_before_its_question() -> None:
    """Its rows are gone, and the question is about a command that one has just seen run."""
    screen = Screen()
    screen(announced("a.py", "b.py"), ToolAttemptStart("1", "bash"), ToolAttemptStart("2", "bash"))
    screen.now_s = 20.0
    screen(events.ApprovalRequested(events.ToolCall("1", "read", {"path": "a.py"})))

    assert screen.rows == ["read a.py was tried read-only for 20 s; Yes runs it anew"]
    assert screen.tail == ["· read a.py", "· read b.py"]


def test_reason_of_several_calls_that_never_ran_is_said_once() -> None:
    """A sentence that declines a batch stands above its rows already."""
    screen = Screen()
    said = ToolResult.error(f"{SAYING}use git")

    screen(announced("a", "b"), *(end(n, said) for n in "12"), SOMETHING_ELSE)

    assert screen.rows == ["✗ read a · not run: you said: use git", "✗ read b · not run", ""]


def test_calls_of_several_replies_that_only_look_share_a_row_until_something_else_is_printed() -> (
    None
):
    """Thinking between them goes with them; the row stays live meanwhile."""
    screen = Screen()
    screen(events.AgentStart())
    for number, path in enumerate(("a.py", "b.py", "a.py"), 1):
        screen(THINKING, delta("where?", ThinkingDelta))
        screen(events.MessageEnd(AssistantMessage(())))
        call = events.ToolCall(str(number), "read", {"path": path})
        screen(events.ToolCallsAnnounced((call,)), start(str(number), path))
        screen.now_s += 1
        screen(end(str(number), ToolResult.of("text")))
    printed, live = list(screen.rows), screen.tail[0]
    screen(THINKING, delta("found", ThinkingDelta), delta("Here.\n\n"))

    thought = "thought for 0.0 s · Ctrl-T shows it"
    assert printed == [thought]
    assert live == "✓ read a.py, b.py · 3.0 s"
    assert screen.rows == [thought, f"{live} · Ctrl-O", thought, "", "Here."]


@each_row(
    ("paths", "row"),
    [
        (["a" * 14, "b" * 8, "c" * 10, "d"], f"read {'a' * 14}, {'b' * 8} and 2 more"),
        (["a" * 60, "b"], "read 2 times"),
    ],
)
def test_shared_row_that_is_too_wide_names_the_first_and_counts_the_rest(
    paths: list[str], row: str
) -> None:
    screen = Screen()
    screen(announced(*paths))
    for number, path in enumerate(paths, 1):
        screen(start(str(number), path), end(str(number), ToolResult.of("text")))
    screen(SOMETHING_ELSE)

    assert screen.rows[0] == f"✓ {row} · 0.0 s · Ctrl-O"


def test_long_row_of_a_call_wraps_between_words_below_its_mark() -> None:
    """A long reason on a narrow terminal; the mark stays alone in its column."""
    screen = Screen()
    screen(start("1", "a.py"), end("1", ToolResult.error("there is no a.py here " * 3)))

    assert screen.rows == [
        "✗ read a.py · failed: there is no a.py here there is no a.py",
        "  here there is no a.py here",
    ]


def test_duration_of_a_call_is_not_broken_before_its_unit() -> None:
    screen = Screen()
    name = "a" * 46
    screen(start("1", name), end("1", ToolResult.of("x")), SOMETHING_ELSE)

    assert screen.rows[:2] == [f"✓ read {name} ·", "  0.0 s"]


def test_progress_of_a_running_call_is_shown_below_its_row_until_the_end() -> None:
    """A tool_execution_update shows its last lines, sanitized; the result removes them."""
    screen = Screen()
    screen(start("1", "a.py"))
    told = ToolResult.of("1\n2\n3\n4\n5\n\x1b[2J6 of 40\n")

    screen(events.ToolExecutionUpdate("1", "read", told))
    during = screen.tail
    screen(end("1", ToolResult.of("done")))

    assert during[1:] == ["  … 1 line above", "  2", "  3", "  4", "  5", "  6 of 40"]
    assert screen.tail == ["✓ read a.py · 0.0 s"]


_LAST = ("  6", "  7", "  8", "  9", "  10")


@each_row(
    ("text", "lines", "shown"),
    [
        ("6\n7\n8\n9\n10\n", 10, ["  … 5 lines above", *_LAST]),
        ("6\n7\n8\n9\n10\n\n\n", 12, ["  … 5 lines above", *_LAST]),
        ("1\n2", 2, ["  1", "  2"]),
        ("\n", 1, ["  "]),
    ],
)
def test_lines_above_the_last_of_a_running_command_are_counted(
    text: str, lines: int, shown: list[str]
) -> None:
    """An update holds only the end of the output; the command says how much it printed."""
    screen = Screen()
    screen(start("1", "a.py"))

    screen(events.ToolExecutionUpdate("1", "bash", ToolResult.of(text, {"lines": lines})))

    assert screen.tail[1:] == shown


def test_several_running_commands_show_fewer_lines_each() -> None:
    """One command alone may take five rows; two of them would push the prompt down."""
    screen = Screen()
    screen(start("1", "a.py"), start("2", "b.py"))

    screen(events.ToolExecutionUpdate("1", "bash", ToolResult.of("1\n2\n3\n4\n5\n")))

    assert screen.tail[1:5] == ["  … 2 lines above", "  3", "  4", "  5"]


def test_subagent_status_is_on_the_row_of_its_call() -> None:
    """One row per agent, however narrow the screen, with its latest action."""
    screen = Screen()
    screen(start("1", "a" * 70), start("2", "b.py"))
    for doing in ("thinking · 0 tokens", "grep x · 12.3k tokens · $0.01"):
        told = ToolResult.of("", {"status": doing})
        screen(*(events.ToolExecutionUpdate(each, "agent", told) for each in ("1", "2")))
    screen.now_s = 4.0

    long, short = screen.tail

    assert short.endswith("read b.py grep x · 12.3k tokens · $0.01 · 4 s")
    assert "aaa…" in long
    assert max(map(len, screen.tail)) <= COLUMNS


def test_calls_that_never_started_disappear_when_the_run_ends() -> None:
    """They wait for an approval, or the run was stopped; finished calls stay."""
    screen = Screen()

    screen(events.AgentStart(), announced("a.py", "b.py"), events.AgentEnd((), "aborted"))

    assert (screen.rows, screen.tail) == ([], [])


def test_wait_before_a_retry_is_counted_down() -> None:
    """The model is idle meanwhile, and thinks again afterwards."""
    screen = Screen()
    screen(events.AgentStart(), THINKING, events.Retry(1, 5, 3.0, "overloaded", restarted=False))
    waiting = screen.tail
    screen.now_s = 3.0

    assert [row[2:] for row in (waiting[-2], screen.tail[-2])] == [
        "retry 1 of 5 in 3 s · 0 s · Ctrl-C stops",
        "waiting for the model · 3 s · Ctrl-C stops",
    ]


def test_thinking_is_shown_in_separate_rows_before_the_answer() -> None:
    """S4-16, S4-21: shown during the run, separate from the answer."""
    screen = Screen(show_thinking=True)
    screen(events.AgentStart(), THINKING, delta("zero\n", ThinkingDelta))
    screen(delta("first\nsec", ThinkingDelta))
    during = (list(screen.rows), screen.tail)
    screen(delta("ond", ThinkingDelta), delta("The answer."))
    screen(events.MessageEnd(AssistantMessage((text_block("The answer."),))))

    assert during[0] == ["zero", "first"]
    assert during[1] == ["sec", "", "⠋ thinking · 0 s · 3 tokens · Ctrl-C stops", ""]
    assert screen.rows == ["zero", "first", "second", "", "The answer."]


def test_thinking_is_passed_to_the_screen_character_by_character() -> None:
    """S4-27: however it was split, so that a configured speed can show it letter by letter."""
    thinking = Screen(show_thinking=True).thinking

    told = [*thinking(delta("why", ThinkingDelta)), *thinking(delta("é?", ThinkingDelta))]

    assert [text_of(item) for item in told] == ["w", "h", "y", "é", "?"]


def test_folded_thinking_is_one_line_and_ctrl_t_toggles_it() -> None:
    """Ctrl-T shows the last thinking in full, also while it streams, and hides it again."""
    screen = Screen()
    screen(events.AgentStart(), THINKING, delta("one\n", ThinkingDelta))
    screen.now_s = 12.0
    screen(delta(" and a half\n", ThinkingDelta))
    during = screen.tail
    screen(delta("two", ThinkingDelta), delta("The answer."))
    screen(events.MessageEnd(AssistantMessage((text_block("The answer."),))))
    folded = list(screen.rows)
    screen.toggle_thinking()
    shown = screen.rows[len(folded) :]
    screen(delta("shown", ThinkingDelta))
    screen.toggle_thinking()
    screen(delta("three, ", ThinkingDelta))
    screen.toggle_thinking()
    screen(delta("four", ThinkingDelta), delta("Done."))
    screen(events.MessageEnd(AssistantMessage((text_block("Done."),))))

    assert [row[1:] for row in during] == [" thinking · 12 s · 4 tokens · Ctrl-C stops", ""]
    assert folded == ["thought for 12 s · Ctrl-T shows it", "", "The answer."]
    assert shown == ["", "one", " and a half", "two"]
    assert screen.rows[len(folded) + 4 :] == [
        "shown",
        "thinking is hidden from now on; Ctrl-T shows it",
        "three, four",
        "",
        "Done.",
    ]


def test_ctrl_t_with_no_folded_thinking_says_what_it_did() -> None:
    """The key always has a visible effect; hidden thinking leaves no line."""
    screen = Screen()
    screen(THINKING, delta("", ThinkingDelta), events.MessageEnd(AssistantMessage(())))
    screen.toggle_thinking()

    assert screen.rows == ["thinking is shown from now on; Ctrl-T hides it"]


def test_long_thinking_wraps_between_words_while_it_streams() -> None:
    """Full rows are final, the last one is in the tail."""
    screen = Screen(show_thinking=True)
    screen(THINKING, delta("word " * 20, ThinkingDelta))

    assert screen.rows == [("word " * 12).rstrip()]
    assert screen.tail == ["word " * 8]


@each_row("phase", ["idle", "executing_tools", "responding", "done", "error"])
def test_thinking_outside_the_thinking_phase_raises_assertion_error(phase: str) -> None:
    """S4-16: the renderer asserts its guard."""
    screen = Screen(show_thinking=True)
    screen(events.StateChanged("thinking", phase))

    with pytest.raises(AssertionError):
        screen(delta("late", ThinkingDelta))


def test_sequential_mode_shows_thinking_then_tools_then_the_answer_once() -> None:
    """S4-22, C25: the order of document S4's picture, over two rounds of tools."""
    screen = Screen("sequential", show_thinking=True)
    call: Block = {"type": "tool_use", "id": "1", "name": "read", "input": {}}
    for number in ("1", "2"):
        said = AssistantMessage((text_block(f"I look, {number}."), call))
        screen(events.AgentStart(), THINKING, delta(f"thought {number}", ThinkingDelta))
        screen(delta(f"I look, {number}."), events.MessageEnd(said))
        screen(events.StateChanged("thinking", "planning_tools"), announced("a.py"))
        screen(start("1", "a.py"), end("1", ToolResult.of("text")))
    screen(THINKING, delta("The answer."))
    before = list(screen.rows)
    screen(events.MessageEnd(AssistantMessage((text_block("The answer."),))), RESPONDING)

    assert before == [
        *("thought 1", "", "I look, 1.", "", "✓ read a.py · 0.0 s", ""),
        *("thought 2", "", "I look, 2."),
    ]
    assert screen.rows[len(before) :] == ["", "✓ read a.py · 0.0 s", "", "The answer."]


def test_live_text_is_shown_while_it_streams() -> None:
    """C2: finished lines are final, the rest is in the tail."""
    screen = Screen()
    screen(events.AgentStart(), THINKING, delta("# Title\n\nand te"))

    assert "and te" in screen.tail
    assert "# Title" in screen.rows


def test_blank_row_separates_prompt_tool_calls_and_answer() -> None:
    """There is never more than one, even where a gap is requested twice."""
    screen = Screen()
    gap = Rows((), "gap")
    screen(gap, Rows(("you> hello",), "said"), events.AgentStart(), announced("a.py"))
    during = screen.tail
    screen(start("1", "a.py"), end("1", ToolResult.of("x")), delta("Done."))
    answering = screen.tail
    screen(events.MessageEnd(AssistantMessage((text_block("Done."),))))
    screen(events.AgentEnd((), "end_turn"), gap, gap, Rows(("you> more",), "said"))

    stop = "· 0 s · Ctrl-C stops"
    assert during == ["", "· read a.py", "", f"⠋ checking the calls {stop}", ""]
    assert answering == ["", "Done.", "", f"⠋ writing {stop}", ""]
    assert screen.rows == [
        *("you> hello", "", "✓ read a.py · 0.0 s", "", "Done.", "", "you> more"),
    ]


def test_blank_row_after_an_answer_comes_with_its_end() -> None:
    """A frame later it would move the prompt, which has just moved up, down again."""
    screen = Screen()
    screen(events.AgentStart(), delta("Done."))
    screen(events.MessageEnd(AssistantMessage((text_block("Done."),))), events.AgentEnd((), ""))

    assert (screen.rows, screen.tail) == (["Done.", ""], [])


def test_one_blank_row_follows_rows_printed_within_an_answer() -> None:
    """The output of a command between two paragraphs."""
    screen = Screen()
    screen(events.AgentStart(), delta("One.\n\n"), Rows(("of a command",)), delta("Two.\n\n"))

    assert screen.rows == ["One.", "", "of a command", "", "Two."]


def test_low_terminal_has_no_blank_rows_around_the_activity() -> None:
    """A tail of few rows shows text instead."""
    screen = Screen(is_low=True)
    screen(Rows(("you> hello",), "said"), events.AgentStart(), delta("An answ"))

    assert screen.tail == ["", "An answ", "⠋ writing · 0 s · Ctrl-C stops"]


def handed_over(call_id: str, widget: str, data: Json, fallback: str) -> Event:
    output = WidgetOutput("w", 0, call_id, widget, data, fallback)
    return events.PromptOutput("p", 1, output)


def test_side_outputs_are_below_their_call_whatever_the_order_of_ends() -> None:
    """S2: in call order, below the call's own row; a file, and an unknown widget."""
    screen = Screen()
    screen(announced("a.py", "b.py"), start("1", "a.py"), start("2", "b.py"))
    screen(handed_over("2", "hologram", None, "text of \x1b[2Jtwo"))
    screen(end("2", ToolResult.of("x")))
    file = FileOutput("f", 0, "1", "out/report.pdf", "application/pdf", "the report")
    screen(events.PromptOutput("p", 1, file), end("1", ToolResult.of("x")))
    screen(handed_over("1", "hologram", None, "late"))

    assert screen.rows == [
        "✓ read a.py · 0.0 s",
        "  out/report.pdf · application/pdf · the report",
        "✓ read b.py · 0.0 s",
        "  text of two",
        "  late",
    ]


def test_a_file_handed_over_within_an_answer_does_not_split_its_sentence() -> None:
    """By a job in the background: its row stands above, as the output of a command does."""
    screen = Screen()
    file = FileOutput("f", 0, "1", "out/report.pdf", "application/pdf", "the report")
    screen(events.AgentStart(), delta("Here it "), events.PromptOutput("p", 1, file))
    screen(delta("is.\n\n"))

    assert screen.rows == ["  out/report.pdf · application/pdf · the report", "", "Here it is."]


def test_name_of_a_tool_stands_out_in_its_rows() -> None:
    """Bold, on the live row and on the one that stays."""
    screen = Screen(color=True)

    screen(announced("a.py"), start("1", "a.py"))
    live = "".join(screen.tail)
    screen(end("1", ToolResult.of("ok")), SOMETHING_ELSE)

    assert "\x1b[1mread\x1b[0m" in live
    assert "\x1b[1mread\x1b[0m" in "".join(screen.rows)


@each_row(
    ("code", "outcome"), [(0, "\x1b[2m· 0.0 s\x1b[0m"), (1, "\x1b[31m· exit 1 · 0.0 s\x1b[0m")]
)
def test_outcome_of_a_failed_command_is_in_the_colour_of_its_mark(code: int, outcome: str) -> None:
    """One that succeeded is faint: red is for what a person has to look at."""
    screen = Screen(color=True)
    details: Json = {"kind": "command", "exit_code": code}
    screen(start("1", "a.py"), end("1", ToolResult.of("x", details)), SOMETHING_ELSE)

    assert screen.rows[0].endswith(outcome)


def test_running_call_shows_only_the_progress_of_its_latest_work() -> None:
    """S4-23: the live rows do not grow; the end prints each work's last state."""
    screen = Screen()
    screen(start("1", "a.py"))
    for label in ("files", "tests"):
        data: Json = {"label": label, "done": 4, "total": 4}
        screen(handed_over("1", "progress", data, label))
    during = screen.tail[1:]
    screen(end("1", ToolResult.of("x")))

    row = "  ████████████████████ 100% · 4 of 4 · "
    assert during == [f"{row}tests"]
    assert screen.rows[1:] == [f"{row}files", f"{row}tests"]


def test_progress_widget_is_one_live_row_and_keeps_its_last_state() -> None:
    """Each report of the same work replaces the previous one."""
    screen, during = Screen(), [""]
    screen(start("1", "a.py"))
    for done in (1, 2, 4):
        data: Json = {"label": "files", "done": done, "total": 4}
        screen(handed_over("1", "progress", data, f"{done} of 4"))
        if done == 2:
            during = screen.tail[1:]
    screen(end("1", ToolResult.of("x")))

    assert during == ["  ██████████░░░░░░░░░░  50% · 2 of 4 · files"]
    assert screen.rows[1:] == ["  ████████████████████ 100% · 4 of 4 · files"]


def test_seconds_of_a_call_stay_visible_on_a_narrow_terminal() -> None:
    """A live row is never wrapped, so its text is cut before its seconds."""
    screen = Screen()
    screen(start("1", "x" * 90))
    screen.now_s = 75.0

    (row,) = screen.tail

    assert row.endswith("x… 1 min 15 s")
    assert len(row) == COLUMNS - 1


def test_a_change_shown_for_approval_is_not_printed_again() -> None:
    """The approval showed the diff; the row has only the size of the change."""
    screen = Screen()
    details: Json = {"kind": "diff", "diff": "@@ -1 +1 @@\n-a\n+b", "added": 1, "removed": 1}
    screen(announced("a.py"), events.ApprovalRequested(events.ToolCall("1", "read", {})))
    screen(events.AgentEnd((), "waiting_for_approval"), start("1", "a.py"))
    screen(end("1", ToolResult.of("edited", details)))
    screen(start("2", "a.py"), end("2", ToolResult.of("edited", details)))

    row = "✓ read a.py · +1 −1 · 0.0 s"
    assert screen.rows == [row, row, "     1 −a", "     1 +b"]


def test_change_approved_after_a_restart_shows_no_second_diff() -> None:
    """The question is put again, but no run asks for it."""
    screen = Screen()
    block: Block = {"type": "tool_use", "id": "1", "name": "read", "input": {}}
    approved = ToolOutput("o1", 1, "r1", block, asked_at_ms=1, decision="approved")
    details: Json = {"kind": "diff", "diff": "@@ -1 +1 @@\n-a\n+b", "added": 1, "removed": 1}
    screen(events.PromptOutput("p1", 1, approved, replaced=True))
    screen(start("1", "a.py"), end("1", ToolResult.of("edited", details)))

    assert screen.rows == ["✓ read a.py · +1 −1 · 0.0 s"]


async def test_two_front_ends_attached_to_one_run_see_the_same_events() -> None:
    """S4-25: the screen and stream-JSON at once, independent of each other."""
    asks = calls(tool_use("look", {}, "t1"), text="I look.")
    agent, *_ = scripted_agent(asks, says("All good."), tools=[tool("look", returns("a tree"))])
    screen = Screen()
    lines: list[str] = []
    agent.subscribe(screen)
    agent.subscribe(lambda event: lines.append(str(to_json(event)["type"])))

    await agent.prompt("What do you see?")

    assert [row for row in screen.rows if row] == ["I look.", "✓ look · 0.0 s", "All good."]
    assert (lines[0], lines[-1]) == ("agent_start", "agent_end")
    assert lines.count("tool_execution_end") == 1


def test_retries_of_one_call_share_a_row_that_stays_with_the_last_of_them() -> None:
    """Without a network five of them would differ only in the number."""
    screen = Screen()
    screen(events.AgentStart(), THINKING)
    live: list[str] = []
    for attempt in (1, 2):
        screen(events.Retry(attempt, 5, 1.0, "no network", restarted=False))
        live.append(screen.tail[0])
    before = list(screen.rows)
    screen(delta("Here.\n\n"))

    assert live == [f"no network; retry {number} of 5 in 1 s" for number in (1, 2)]
    assert (before, screen.rows) == ([], [live[1], "", "Here."])
