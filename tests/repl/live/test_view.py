"""Events as rows, without a terminal."""

import pytest

from agent_cli import events
from agent_cli.events import Event
from agent_cli.messages import AssistantMessage
from agent_cli.provider import TextDelta, ThinkingDelta
from agent_cli.repl.live.paint import Paint
from agent_cli.repl.live.sequence import Sequence, Streaming
from agent_cli.repl.live.tool_rows import ToolRows
from agent_cli.repl.live.view import View
from agent_cli.repl.markdown import THEMES
from agent_cli.stream_json import to_json
from agent_cli.timeline import Block, text_block
from agent_cli.tooling import ToolResult
from tests.fakes import calls, returns, says, scripted_agent, tool, tool_use


class Screen:
    """A view whose clock stands where the test puts it, and the rows it finished so far."""

    def __init__(self, streaming: Streaming = "live", *, show_thinking: bool = False) -> None:
        self.now_s = 0.0
        self.rows: list[str] = []
        paint = Paint(color=False)
        self.view = View(
            ToolRows(lambda: (), paint=paint, clock=lambda: self.now_s),
            paint=paint,
            theme=THEMES["none"],
            streaming=streaming,
            clock=lambda: self.now_s,
        )
        self._sequence = Sequence(streaming, show_thinking=show_thinking)

    def __call__(self, *happened: Event) -> None:
        for event in happened:
            for shown in self._sequence(event):
                self.view.show(shown)
        self.rows += self.view.finished()

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


def test_the_whole_batch_is_listed_before_the_first_call_starts() -> None:
    """S4-18: in call order, none of them running."""
    screen = Screen()

    screen(announced("a.py", "b.py"))

    assert (screen.rows, screen.tail) == ([], ["· read a.py", "· read b.py"])


def test_each_call_has_a_live_row_and_one_for_good_with_duration_and_outcome() -> None:
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
    screen(end("1", ToolResult.error("there is no\na.py")))

    assert [row[1:] for row in running] == [" read a.py 3.0 s", " read b.py 2.0 s"]
    assert one_done == []
    assert still[1] == "✓ read b.py · 2.0 s"
    assert screen.rows == [
        "✗ read a.py · failed after 15 s: there is no a.py",
        "✓ read b.py · 2.0 s",
    ]
    assert screen.tail == []


def test_what_a_running_call_tells_is_shown_below_it_until_it_ends() -> None:
    """tool_execution_update, live: its last lines, cleaned, and gone with the result."""
    screen = Screen()
    screen(start("1", "a.py"))
    told = ToolResult.of("1\n2\n3\n\x1b[2J4 of 40\n")

    screen(events.ToolExecutionUpdate("1", "read", told))
    during = screen.tail
    screen(end("1", ToolResult.of("done")))

    assert during[1:] == ["  2", "  3", "  4 of 40"]
    assert screen.rows == ["✓ read a.py · 0.0 s"]


def test_calls_that_never_started_leave_the_screen_with_the_run() -> None:
    """They wait for an approval, or the run was stopped; what ended stays."""
    screen = Screen()

    screen(events.AgentStart(), announced("a.py", "b.py"), events.AgentEnd((), "aborted"))

    assert (screen.rows, screen.tail) == ([], [])


def test_thinking_has_rows_of_its_own_before_the_answer() -> None:
    """S4-16, S4-21, S4-27: shown while the run thinks, apart from the answer."""
    screen = Screen(show_thinking=True)
    screen(events.AgentStart(), THINKING, delta("first\nsec", ThinkingDelta))
    during = (list(screen.rows), screen.tail[0])
    screen(delta("ond", ThinkingDelta), delta("The answer."))
    screen(events.MessageEnd(AssistantMessage((text_block("The answer."),))))

    assert during == (["first"], "sec")
    assert screen.rows == ["first", "second", "The answer."]


@pytest.mark.parametrize("phase", ["idle", "executing_tools", "responding", "done", "error"])
def test_thinking_in_another_phase_is_a_bug(phase: str) -> None:
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
        *("thought 1", "I look, 1.", "✓ read a.py · 0.0 s"),
        *("thought 2", "I look, 2.", "✓ read a.py · 0.0 s"),
    ]
    assert screen.rows[len(before) :] == ["The answer."]


def test_live_text_is_shown_while_it_streams() -> None:
    """C2: finished lines for good, the rest in the tail."""
    screen = Screen()
    screen(events.AgentStart(), THINKING, delta("# Title\n\nand te"))

    assert "and te" in screen.tail
    assert "# Title" in screen.rows


async def test_two_front_ends_attached_to_one_run_see_the_same_events() -> None:
    """S4-25: the screen and stream-JSON at once; neither knows of the other."""
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
