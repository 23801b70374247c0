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

    assert choices.rows(20, 2) == [(True, "❯ Yes and Yes and"), (True, "↓ Yes and Yes and")]


def test_list_that_does_not_fit_has_arrows_towards_its_other_rows() -> None:
    """Otherwise nothing on a low screen says that "No" is among the answers."""
    choices = Choices([Choice(f"answer {n}", (str(n),)) for n in range(6)], "decline")
    choices.is_marked = True
    seen: list[list[str]] = []
    for _ in range(4):
        seen.append([row for _marked, row in choices.rows(80, 3)])
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

    assert [row for _marked, row in rows][:2] == ["  …", "  …"]
