"""Placeholders (marks) for long pastes and images."""

from pathlib import Path

import pytest
from prompt_toolkit.filters import Never

from agent_cli.repl.live.input import Draft
from agent_cli.repl.live.input.marks import PromptMarks

MARK = "[paste #1: 5,000 lines]"


def marks() -> PromptMarks:
    known = PromptMarks()
    assert known.shortened("\n" * 5_000) == MARK
    return known


def test_short_paste_stays_text_and_a_long_paste_becomes_a_mark() -> None:
    """More than 10 lines or 1,000 characters."""
    known = PromptMarks()

    assert known.shortened("\n" * 9) == "\n" * 9
    assert known.shortened("\n" * 5_000) == MARK
    assert known.shortened("x" * 1_001) == "[paste #2: 1,001 characters]"
    assert known.shortened("x\n" * 20 + "x") == "[paste #3: 21 lines]"


def test_paste_marks_are_expanded_when_sent() -> None:
    """In any order and number; a mark typed by hand is text."""
    known = PromptMarks()
    first = known.shortened("a" * 2_000)
    second = known.shortened("[paste #1: 2,000 characters]" + "\n" * 20)
    typed = "[paste #3: 5 lines]"

    whole = known.expanded(f"{second}{first}{typed}{first}")

    assert whole == f"[paste #1: 2,000 characters]{chr(10) * 20}{'a' * 2_000}{typed}{'a' * 2_000}"


def test_expanded_text_gets_its_paste_marks_back() -> None:
    """Even if the blanks at its ends were stripped when it was sent; pictures stay marks."""
    known = PromptMarks()
    known.add("[image 1: a.png 8×6]", sent="[image 1: a.png 8×6]", recalled="@a.png")
    text = (
        f"see [image 1: a.png 8×6] and {known.shortened('line' + chr(10) * 20 + 'end' + chr(10))}"
    )

    assert known.marked(known.expanded(text).strip()) == text


@pytest.mark.parametrize("paste", ["    a\n" * 20, "\n\n    a" * 20, "\n\n    a\n" * 20])
def test_indented_paste_gets_its_mark_back(paste: str) -> None:
    """It is sent with its indentation, and without the blank lines at its ends."""
    line = Draft(Path("state/history"), warn=print)
    line.buffer.complete_while_typing = Never()
    line.insert(line.pasted(paste))

    assert line.marks.marked(line.message) == line.buffer.text
    assert line.marks.marked(f"see {line.text}".rstrip()) == f"see {line.buffer.text}"


def test_image_mark_is_sent_as_a_mark_and_recalled_as_a_file_name() -> None:
    """The next session does not know the mark, but may have the file."""
    known = PromptMarks()
    known.add("[image 1: a.png 8×6]", sent="[image 1: a.png 8×6]", recalled="@a.png")

    assert known.expanded("see [image 1: a.png 8×6]!") == "see [image 1: a.png 8×6]!"
    assert known.recalled("see [image 1: a.png 8×6]!") == "see @a.png!"


def test_edit_of_part_of_a_mark_removes_the_whole_mark() -> None:
    """Otherwise `[paste #1: 5,000 line` would be sent literally, and the paste be lost."""
    known = marks()
    before = f"see {MARK} now"

    assert known.healed(before, f"see {MARK[:-1]} now") == ("see  now", 4)
    assert known.healed(before, f"see {MARK[1:]} now") == ("see  now", 4)
    assert known.healed(before, "see [paste now") == ("see now", 4)
    assert known.healed(before, f"{MARK[5:]} now") == (" now", 0)
    assert known.healed(before, f"see X{MARK[5:]} now") == ("see X now", 5)


def test_edit_that_splits_no_mark_is_left_alone() -> None:
    """Typing around one, removing it whole, undoing a change, and unknown marks."""
    known = marks()
    known.shortened("\n" * 5_000)
    before = f"see {MARK} now"

    assert known.healed(before, f"see X{MARK} now") is None
    assert known.healed(before, f"see {MARK}X now") is None
    assert known.healed(before, "see  now") is None
    assert known.healed(before, "") is None
    assert known.healed(before, "see [paste #2: 5,000 lines] now") is None
    assert known.healed("[paste #9: 5 lines]", "[paste #9: 5 lines") is None


def test_cursor_skips_over_a_mark() -> None:
    """In the direction it moved: there is no place inside to type at."""
    known = marks()
    text = f"a{MARK}b"
    end = 1 + len(MARK)

    assert known.outside(text, 2, came_from=1) == end
    assert known.outside(text, end - 1, came_from=end) == 1
    assert known.outside(text, 1, came_from=0) == 1
    assert known.outside(text, end, came_from=end + 1) == end
