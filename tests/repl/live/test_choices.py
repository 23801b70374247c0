"""The rows of a list of answers."""

from agent_cli.repl.dialogue import Choice
from agent_cli.repl.live.cells import row_width
from agent_cli.repl.live.choices import Choices


def test_word_wider_than_the_screen_is_wrapped_not_truncated() -> None:
    """A user who agrees to store a rule must have seen the file's full name."""
    path = "~/.config/agent-cli/permissions.toml"
    choices = Choices([Choice(f"Yes (kept in {path})", ("y",))], "decline")

    rows = [row for _marked, row in choices.rows(20, 20)]

    assert path in "".join(row.strip() for row in rows)
    assert all(row_width(row) <= 20 for row in rows)


def test_marked_choice_that_is_too_long_shows_its_beginning() -> None:
    """Its mark and its first words, on a screen with two rows for the list."""
    choices = Choices([Choice("No", ("n",)), Choice("Yes and " * 9, ("y",))], "decline")
    choices.is_marked = True
    choices.move(1)

    assert choices.rows(20, 2) == [(True, "❯ Yes and Yes and"), (True, "  Yes and Yes and")]


def test_screen_too_narrow_for_a_wide_character_shows_an_ellipsis() -> None:
    """Two-cell characters on a screen of three columns."""
    rows = Choices([Choice("漢字", ("y",))], "decline").rows(3, 20)

    assert [row for _marked, row in rows][:2] == ["  …", "  …"]
