"""Rows of answers below a question."""

from agent_cli.repl.dialogue import Choice
from agent_cli.repl.live.choices import AnswerRow, Choices
from agent_cli.repl.live.paint import row_width


def test_note_stands_beside_its_answer_or_below_it() -> None:
    """Faint, as everything behind a gap; it is never left out."""
    choices = Choices([Choice("Yes", ("1",), key="1", note="kept in a file")], "decline")

    assert [row.text for row in choices.rows(30, 20)] == [
        "  1 Yes  kept in a file",
        "    type anything else to",
        "    decline · Ctrl-C stops the",
        "    run",
    ]
    assert choices.rows(20, 20)[:2] == [
        AnswerRow(False, "  1 Yes"),
        AnswerRow(False, "", "    kept in a file"),
    ]


def test_hint_stands_below_its_answer_where_there_is_no_room_beside_it() -> None:
    """On a phone nothing else says that a digit opens a call, or that a mode would not ask."""
    news = [""]
    yes = Choice("Yes", ("y",), beside="1–6 opens one", news=lambda: news[0])
    choices = Choices([yes, Choice("Show", ("v",), shortcut="Ctrl-O")], "decline")

    [beside, *_] = choices.rows(30, 20)
    below = choices.rows(16, 20)
    news[0] = "auto-edit would not ask: Enter runs it"

    assert beside.text == f"{'  Yes':17}1–6 opens one"
    assert [row.text for row in below[:2]] == ["  Yes", "  1–6 opens one"]
    assert "Enter" in "".join(row.hint for row in choices.rows(30, 20))


def test_word_wider_than_the_screen_is_wrapped_not_truncated() -> None:
    """A user who agrees to store a rule must have seen the file's full name."""
    path = "~/.config/agent-cli/permissions.toml"
    choices = Choices([Choice("Yes", ("y",), note=f"kept in {path}")], "decline")

    rows = [row.text for row in choices.rows(20, 20)]

    assert path in "".join(row.strip() for row in rows)
    assert all(row_width(row) <= 20 for row in rows)


def test_marked_choice_that_is_too_long_shows_its_beginning() -> None:
    """Its mark and its first words, on a screen with two rows for the list."""
    choices = Choices([Choice("No", ("n",)), Choice("Yes and " * 9, ("y",))], "decline")
    choices.is_marked = True
    choices.move(1)

    assert choices.rows(20, 2) == [
        AnswerRow(True, "❯ Yes and Yes and"),
        AnswerRow(True, "↓ Yes and Yes and"),
    ]


def test_list_that_does_not_fit_has_arrows_towards_its_other_rows() -> None:
    """Otherwise nothing on a low screen says that "No" is among the answers."""
    choices = Choices([Choice(f"answer {n}", (str(n),)) for n in range(6)], "decline")
    choices.is_marked = True
    seen: list[list[str]] = []
    for _ in range(4):
        seen.append([row.text for row in choices.rows(80, 3)])
        choices.move(1)

    assert seen == [
        ["❯ answer 0", "  answer 1", "↓ answer 2"],
        ["  answer 0", "❯ answer 1", "↓ answer 2"],
        ["↑ answer 1", "❯ answer 2", "↓ answer 3"],
        ["↑ answer 2", "❯ answer 3", "↓ answer 4"],
    ]


def test_screen_too_narrow_for_a_wide_character_shows_an_ellipsis() -> None:
    """Two-cell characters on a screen of three columns."""
    rows = Choices([Choice("漢字", ("y",))], "decline").rows(3, 20)

    assert [row.text for row in rows][:2] == ["  …", "  …"]


def test_enter_on_a_checked_box_goes_to_the_row_that_accepts_all() -> None:
    """It unchecked what the space bar had just checked, and the answer lacked it."""
    boxes = [
        Choice(f"[{'x' if n == 2 else ' '}] {n}", (str(n),), is_checkbox=True, is_checked=n == 2)
        for n in (1, 2)
    ]
    done = Choice("Done: 2", ("done",), is_default=True)
    choices = Choices([*boxes, done], "answer in your own words")

    assert choices.taken() is done
    assert choices.rows(98, 20)[-1].text.strip().startswith("Space ticks · type anything else to")
    choices.move(1)
    unchecked = choices.leaves_box()
    choices.move(1)
    checked = choices.leaves_box()
    last = choices.taken()
    choices.typed("2")

    assert (unchecked, checked, last) == (False, True, done)
    assert not choices.leaves_box()  # a typed number unchecks it


def test_row_of_a_typed_answer_names_what_enter_takes() -> None:
    """With the mark on it, "1" was to decide about one call; Enter said yes."""
    choices = Choices([Choice("Yes", ("y",)).numbered(1), Choice("", ("2",))], "decline")
    choices.is_marked = True
    marked: dict[str, str] = {}
    for typed in ("1", "2", "explain"):
        choices.all = [*choices.all, Choice("", ("explain",))]
        choices.typed(typed)
        choices.move(-1 if typed == "1" else 0)
        marked[typed] = next(row.text for row in choices.rows(80, 9) if row.is_marked)

    assert marked == {
        "1": "❯ Yes",
        "2": "❯ Decide about number 2 alone",
        "explain": "❯ Answer explain",
    }
