"""The sent prompt, in the scrollback."""

from agent_cli.repl.live.layout import echoed
from agent_cli.repl.live.paint import Paint


def rows(text: str) -> list[str]:
    return echoed(text, columns=45, paint=Paint(color=False))


def test_short_text_is_shown_in_full_after_the_prompt() -> None:
    """Sanitized, tabs as blanks; twelve rows are still short."""
    assert rows("one\n\ttwo\x1b[2J") == ["you> one", "         two"]
    assert len(rows("\n".join(map(str, range(12))))) == 12


def test_huge_paste_is_shown_by_its_beginning_and_end() -> None:
    """It would fill the scrollback; the two ends identify it."""
    shown = rows("\n".join(map(str, range(5_000))))

    assert shown == [
        *("you> 0", *(f"     {number}" for number in range(1, 7))),
        "     … 4,988 more lines",
        *(f"     {number}" for number in range(4_995, 5_000)),
    ]


def test_single_long_line_is_cut_to_a_few_rows() -> None:
    """A minified file pasted as one line used to fill 300 rows."""
    shown = rows("x" * 30_000)

    assert shown == ["you> " + "x" * (7 * 40 - 1) + "…", "     … 30,000 characters in this line"]


def test_long_lines_count_as_the_rows_they_fill() -> None:
    """Some lines of a log can be longer than a screen."""
    shown = rows("\n".join(["first", "x" * 400, *map(str, range(9)), "y" * 30]))

    assert shown[0] == "you> first"
    assert shown[1] == "     … 6 more lines"
    assert shown[-1] == "     " + "y" * 30
    assert len(shown) == 7
