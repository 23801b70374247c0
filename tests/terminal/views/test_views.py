"""Views: their form on a terminal, and on a pipe, one record per line."""

import os
import pty
import threading
from collections.abc import Callable
from contextlib import suppress
from io import StringIO
from pathlib import Path

import pytest

from agent_cli.terminal.views import View, drawn_text, progress, show
from agent_cli.terminal.views.progress import counting, tracked, working
from agent_cli.terminal.views.table import (
    Bars,
    Column,
    Fact,
    Facts,
    Note,
    RemarkedTable,
    Stack,
    Table,
    Tree,
)
from agent_cli.terminal.views.texts import MarkdownPage, SourceText
from tests.tables import each_row

LIMIT_S = 60
HOSTILE = "[bold]a[/bold] \x1b[31mred\x1b]0;title\x07"
PEOPLE = Table([Column("name", whole=True), Column("age", right=True)], [("Ann", "7"), ("Bo", "")])


def on_terminal(view: View) -> str:
    """Return the output of *view* on a terminal."""
    main, side = pty.openpty()
    with os.fdopen(side, "w") as stream:
        show(view, stream)
    written = b""
    # A read returns what has arrived so far; the end is an error once the other side is closed.
    with suppress(OSError):
        while part := os.read(main, 65_536):
            written += part
    os.close(main)
    return written.decode()


def test_a_table_is_drawn_in_columns_and_piped_as_lines() -> None:
    assert drawn_text(PEOPLE, width=40).splitlines() == [
        "name   age",
        "──────────",
        "Ann      7",
        "Bo",
    ]
    assert PEOPLE.lines() == ["Ann  7", "Bo  -"]


def test_an_empty_table_says_so() -> None:
    empty = Table([Column("name")], [], empty="no people")

    assert (drawn_text(empty, width=40), empty.lines()) == ("no people", ["no people"])


def test_remarks_are_below_a_table_and_at_the_end_of_a_line_on_a_pipe() -> None:
    remarked = RemarkedTable(PEOPLE, [(), ("has a\ncold", "is late")])

    assert remarked.lines() == ["Ann  7", "Bo  -  has a cold  is late"]
    assert drawn_text(remarked, width=40).splitlines()[4:] == [
        "",
        "Bo  has a",
        "    cold",
        "    is late",
    ]
    assert drawn_text(RemarkedTable(PEOPLE, [(), ()]), width=40) == drawn_text(PEOPLE, width=40)
    assert RemarkedTable(Table([Column("a")], []), []).lines() == ["nothing"]


def test_stacked_views_are_separated_by_a_blank_line_only_on_a_terminal() -> None:
    stack = Stack([Facts([Fact("a", "1")]), Facts([Fact("b", "2")])], apart=True)

    assert drawn_text(stack, width=40).splitlines() == ["a  1", "", "b  2"]
    assert stack.lines() == ["a: 1", "b: 2"]


def test_long_table_cells_fold_inside_their_column() -> None:
    """On 20 cells nothing is lost and no row is wider."""
    table = Table([Column("id", whole=True), Column("text")], [("0123456789", "word " * 10)])

    drawn = drawn_text(table, width=20)

    assert max(map(len, drawn.splitlines())) <= 20
    assert drawn.count("word") == 10


def test_table_too_narrow_for_its_numbers_becomes_a_list_for_each_row() -> None:
    columns = [Column("model"), Column("cache read", right=True), Column("cost", right=True)]
    table = Table(columns, [("small", "1,000,000", "$0.10"), ("high", "", "$2")])

    assert "small    1,000,000   $0.10" in drawn_text(table, width=40).splitlines()
    assert [row.rstrip() for row in drawn_text(table, width=22).splitlines()] == [
        "model       small",
        "cache read  1,000,000",
        "cost        $0.10",
        "",
        "model  high",
        "cost   $2",
    ]


def test_facts_too_narrow_for_their_texts_have_them_below_their_titles() -> None:
    """/help had a column of three cells on a terminal of 20."""
    facts = Facts([Fact("Ctrl-J, Enter", "new line"), Fact("Esc", "stop the run that goes on")])
    pair = Facts([Fact("mode", "ask or plan"), Fact("mode", "of the session")])

    assert drawn_text(facts, width=40).splitlines()[0] == "Ctrl-J, Enter  new line"
    assert drawn_text(facts, width=20).splitlines() == [
        "Ctrl-J, Enter",
        "  new line",
        "Esc",
        "  stop the run that",
        "  goes on",
    ]
    assert drawn_text(pair, width=20).splitlines() == ["mode  ask or plan", "      of the session"]
    assert drawn_text(pair, width=16).splitlines() == ["mode", "  ask or plan", "  of the session"]


@each_row(
    "make",
    [
        lambda text: Table([Column("a")], [(text,)]),
        lambda text: RemarkedTable(Table([Column("a")], [(text,)]), [[text]]),
        lambda text: Bars(text, {text: 1}),
        lambda text: Facts([Fact("a", text)]),
        lambda text: MarkdownPage(text),
        lambda text: SourceText(text, "toml"),
        lambda text: Tree(text, [Tree(text)]),
        lambda text: Stack([Note(text)]),
    ],
)
def test_untrusted_text_has_no_effect_in_any_view(make: Callable[[str], View]) -> None:
    """Neither its escape sequences nor rich's markup take effect."""
    drawn = on_terminal(make(HOSTILE))

    assert "\x1b]0" not in drawn
    assert "\x1b[31mred" not in drawn
    assert "[bold]" in drawn.replace("\x1b[0m", "") or "bold" in drawn


def test_view_is_coloured_only_on_a_terminal_with_colours_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """NO_COLOR, a pipe and a dumb terminal get none."""
    view = Facts([Fact("verdict", "deny", "bold red")])
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[1;31mdeny" in on_terminal(view)

    monkeypatch.setenv("NO_COLOR", "1")
    assert "31m" not in on_terminal(view)
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert "\x1b" not in on_terminal(view)
    piped = StringIO()
    show(view, piped)
    assert piped.getvalue() == "verdict: deny\n"


def test_bars_show_their_share_of_the_total() -> None:
    bars = Bars("used", {"tools": 1, "messages": 999})

    assert bars.lines() == ["used", "tools  1  <1%", "messages  999  100%"]
    assert drawn_text(bars, width=80).splitlines()[2].endswith("999  100%")


def test_bars_leave_their_room_to_names_and_numbers_on_a_narrow_terminal() -> None:
    """In 20 columns the names were columns of two letters."""
    bars = Bars("used", {"facts and plugins": 1, "free": 998_460})

    wide = drawn_text(bars, width=44).splitlines()[1:]
    assert [row.split()[0] for row in wide] == ["facts", "free"]
    assert "━" in wide[1]
    narrow = drawn_text(bars, width=34).splitlines()[1:]
    assert narrow == ["facts and plugins        1   <1%", "free               998,460  100%"]
    assert drawn_text(bars, width=20).splitlines()[-1] == "free   998,460  100%"


def test_markdown_page_is_rendered_on_a_terminal_and_plain_on_a_pipe() -> None:
    page = MarkdownPage("# Title\n\nsome **bold** text\n", plain="plain")

    assert "Title" in drawn_text(page, width=40)
    assert "**" not in drawn_text(page, width=40)
    assert page.lines() == ["plain"]


def test_a_tree_is_indented_on_a_pipe() -> None:
    tree = Tree("root", [Tree("branch", [Tree("leaf")])])

    assert tree.lines() == ["root", "  branch", "    leaf"]
    assert drawn_text(tree, width=40).splitlines()[2].strip("│└─ ") == "leaf"


def test_progress_is_not_shown_on_a_pipe(tmp_path: Path) -> None:
    target = tmp_path / "err"
    with target.open("w") as stream:
        assert list(tracked(range(3), "checking", total=3, stream=stream)) == [0, 1, 2]

    assert target.read_text() == ""


def test_progress_bar_counts_finished_items(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without work there is no bar."""
    monkeypatch.setattr(progress, "SHOWN_AFTER_S", 0)
    screen, idle = TerminalText(), TerminalText()

    with counting("connecting", total=2, stream=screen) as show:
        show(1)
        show(2)
        assert screen.is_written.wait(LIMIT_S)
    with counting("connecting", total=0, stream=idle) as show:
        show(0)

    assert "connecting" in screen.getvalue()
    assert "2/2" in screen.getvalue()
    assert idle.getvalue() == ""


class TerminalText(StringIO):
    """Text output that claims to be a terminal: reads of a real one return varying amounts."""

    def __init__(self) -> None:
        super().__init__()
        self.is_written = threading.Event()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        count = super().write(text)
        self.is_written.set()
        return count


def test_work_of_less_than_a_second_shows_no_progress() -> None:
    """A bar that disappears at once would only flicker."""
    screen = TerminalText()

    with working("checking", screen), counting("connecting", total=2, stream=screen) as show:
        show(2)

    assert screen.getvalue() == ""


def test_spinner_disappears_when_its_work_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipe gets nothing of it; labels may hold untrusted names."""
    monkeypatch.setattr(progress, "SHOWN_AFTER_S", 0)
    screen = TerminalText()
    with working(HOSTILE, screen):
        assert screen.is_written.wait(LIMIT_S)
    target = tmp_path / "err"
    with target.open("w") as stream, working("checking", stream):
        pass

    written = screen.getvalue()
    assert "[bold]a[/bold]" in written
    assert "title" not in written
    assert written.endswith("\x1b[2K")
    assert target.read_text() == ""
