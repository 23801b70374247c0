"""Events that wait for the screen: their order, their speed, their pause."""

import pytest

from agent_cli.contracts.events import MessageUpdate, Notice, ToolExecutionUpdate
from agent_cli.contracts.messages import AssistantMessage
from agent_cli.contracts.provider import TextDelta
from agent_cli.contracts.tooling import ToolResult
from agent_cli.repl.live.backlog import Backlog, Rows, text_of
from tests.tables import each_row


class Clock:
    """A clock that the test sets."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def delta(text: str) -> MessageUpdate:
    return MessageUpdate(lambda: AssistantMessage(()), TextDelta(0, text))


def backlog(speed: float = 0, chars_max: int = 1_000_000) -> tuple[Backlog, Clock]:
    clock = Clock()
    return Backlog(chars_per_second=speed, clock=clock, chars_max=chars_max), clock


def shown(waiting: Backlog) -> str:
    return "".join(text_of(item) for item in waiting.take())


@each_row("speed", [10, 200, 5_000])
@each_row("frame_s", [0.05, 0.033, 0.4])
def test_text_is_shown_at_the_configured_speed(speed: float, frame_s: float) -> None:
    """S4-28: within 10 %, however long a frame takes."""
    waiting, clock = backlog(speed)
    text = "".join(chr(ord("a") + number % 26) for number in range(int(speed * 20)))
    for start in range(0, len(text), 7):
        waiting.put(delta(text[start : start + 7]))

    out = ""
    while clock.now_s < 10:
        clock.now_s += frame_s
        out += shown(waiting)

    assert len(out) == pytest.approx(speed * clock.now_s, rel=0.1)
    assert text.startswith(out)


def test_idle_time_does_not_add_up_to_a_burst_of_text() -> None:
    """S4-28: after a minute of silence an answer must not come in one burst."""
    waiting, clock = backlog(10)
    clock.now_s = 60
    waiting.put(delta("x" * 100))
    clock.now_s = 61

    assert len(shown(waiting)) == 10


def test_speed_0_shows_everything_at_once() -> None:
    """S4-28."""
    waiting, _ = backlog(0)
    waiting.put(delta("a" * 100_000))

    assert len(shown(waiting)) == 100_000
    assert not waiting


def test_later_items_do_not_overtake_waiting_text() -> None:
    """S4-28: a tool's row must not appear in the middle of a sentence that still waits."""
    waiting, clock = backlog(2)
    after = Notice("info", "after")
    for item in (Rows(("before",)), delta("four"), after):
        waiting.put(item)
    clock.now_s = 1

    first = list(waiting.take())
    clock.now_s = 2
    second = list(waiting.take())

    assert [text_of(item) or item for item in first] == [Rows(("before",)), "fo"]
    assert [text_of(item) or item for item in second] == ["ur", after]


def test_pause_holds_everything_and_resuming_shows_it_in_order() -> None:
    """S4-29."""
    waiting, _ = backlog()
    waiting.put(delta("one "))
    begun = shown(waiting)
    waiting.paused = True
    waiting.put(delta("two "))
    waiting.put(Rows(("row",)))
    waiting.put(delta("three"))
    held = list(waiting.take())
    waiting.paused = False

    assert (begun, held) == ("one ", [])
    assert [text_of(item) or item for item in waiting.take()] == ["two ", Rows(("row",)), "three"]


def test_text_held_by_a_pause_is_bounded_and_never_lost() -> None:
    """S4-29: past the bound the oldest are shown, so that a forgotten pause uses little memory."""
    waiting, _ = backlog(chars_max=100)
    waiting.paused = True
    out = ""
    for number in range(1, 1_001):
        waiting.put(delta(f"{number:04}"))
        out += shown(waiting)
        held = min(4 * number, 100)
        assert (waiting.waiting_chars, len(out)) == (held, 4 * number - held)
    waiting.paused = False
    out += shown(waiting)

    assert out == "".join(f"{number:04}" for number in range(1, 1_001))


def test_tool_output_held_by_a_pause_is_bounded_like_text() -> None:
    """S4-29: a tool may show a page ten times a second; waiting output continues in order."""
    waiting, _ = backlog(chars_max=100)
    waiting.paused = True
    waiting.put(delta("before "))
    updates = [
        ToolExecutionUpdate("t1", "bash", ToolResult.of(f"{number:030}")) for number in range(10)
    ]
    gone: list[object] = []
    for update in updates:
        waiting.put(update)
        gone += waiting.take()
        assert waiting.waiting_items <= 4
    waiting.put(Rows(("x" * 60,)))
    waiting.put(delta("after"))
    gone += waiting.take()
    assert waiting.waiting_items == 3
    waiting.paused = False
    gone += waiting.take()

    texts = [text_of(each) for each in gone if isinstance(each, MessageUpdate)]
    assert "".join(texts) == "before after"
    assert [each for each in gone if not isinstance(each, MessageUpdate)] == [
        *updates,
        Rows(("x" * 60,)),
    ]


def test_question_shows_the_waiting_text_at_once() -> None:
    """The text that leads to a question must be above it."""
    waiting, _ = backlog(1)
    waiting.put(delta("a long explanation"))
    waiting.skip_wait()

    assert shown(waiting) == "a long explanation"


def test_adjacent_pieces_of_a_text_are_joined() -> None:
    """A frame of a fast answer has dozens, and each costs as much as all of them. At most 1,000
    characters are shown at once, so that keys are handled in between.
    """
    waiting, _ = backlog()
    other = MessageUpdate(lambda: AssistantMessage(()), TextDelta(1, "other"))
    for item in (delta("one "), delta(""), delta("two"), other, *[delta("x" * 300)] * 4):
        waiting.put(item)

    items = list(waiting.take())

    assert [text_of(item) for item in items] == ["one two", "other", "x" * 1_000, "x" * 200]
    assert not waiting


def test_joined_text_keeps_to_the_configured_speed() -> None:
    """S4-28."""
    waiting, clock = backlog(10)
    for text in ("abcd", "efgh", "ijkl"):
        waiting.put(delta(text))
    clock.now_s = 1

    assert [text_of(item) for item in waiting.take()] == ["abcdefghij"]
    assert waiting.waiting_chars == 2
