"""Syntax highlighting of code, line by line."""

import subprocess
import sys

import pytest
from pygments.lexers import get_all_lexers  # type: ignore[import-untyped]  # it ships no types

from agent_cli.repl.markdown import THEMES
from agent_cli.repl.markdown.highlight import Highlighter, highlighter
from agent_cli.repl.markdown.styles import plain
from tests.tables import each_row

TOKENS = THEMES["dark"].tokens


def started(language: str) -> Highlighter:
    found = highlighter(language, THEMES["dark"])
    assert found is not None
    return found


def styles(language: str, *lines: str) -> list[list[str]]:
    """Return the styles of each line, in their order."""
    code = started(language)
    return [[style for _, style in code.line(line) if style] for line in lines]


def test_multi_line_string_is_highlighted_as_a_string_on_every_line() -> None:
    """The state of the lexer carries over from line to line."""
    found = styles("python", "def f():", '    """One', "    two", '    three"""', "    return 1")

    string = TOKENS["string"]
    assert found[1:4] == [[string], [string], [string]]
    assert found[4] == [TOKENS["keyword"], TOKENS["number"]]


@each_row("language", ["c", "js", "ts", "java", "go", "rust", "css"])
def test_multi_line_comment_is_highlighted_as_a_comment_on_every_line(language: str) -> None:
    """Most lexers know it as one pattern, which matches no single line."""
    found = styles(language, "/* one", " two", "three */ x")

    comment = TOKENS["comment"]
    assert [line[0] for line in found] == [comment] * 3
    assert found[1] == [comment]


def test_copy_of_a_highlighter_does_not_change_the_state_of_the_original() -> None:
    """The unfinished line of a tail is coloured again and again."""
    code = started("python")
    code.line('x = """')
    ahead = code.copy()
    ahead.line('"""')

    assert [style for _, style in code.line("text")] == [TOKENS["string"]]


@each_row("info", ["", "nonsense-language", "{.x}"])
def test_code_in_an_unknown_language_has_no_highlighter(info: str) -> None:
    assert highlighter(info, THEMES["dark"]) is None


def test_theme_without_colours_has_no_highlighter() -> None:
    assert highlighter("python", THEMES["none"]) is None


def test_very_long_line_is_not_highlighted() -> None:
    """Some lexers take quadratic time for one."""
    line = "x = 1; " * 1_000

    assert started("python").line(line) == [(line, "")]


MIXED_LINES = (
    "#include <x>",
    "def f(a): # c",
    '  "s" \'x',
    "/* a",
    "*/ <?php 1; ?>",
    "<a b='{{",
    "```",
)


def check_lexer(language: str) -> None:
    code = started(language)
    for line in MIXED_LINES:
        assert plain(code.line(line)) == line, language


@each_row("language", ["python", "bash", "json", "yaml", "html+php", "ruby", "markdown"])
def test_highlighting_keeps_every_character(language: str) -> None:
    """Whatever language the fence names; one of each kind of lexer."""
    check_lexer(language)


@pytest.mark.slow
def test_highlighting_with_every_lexer_keeps_every_character() -> None:
    for _, aliases, _, _ in get_all_lexers():
        if aliases:
            check_lexer(aliases[0])


def test_pygments_is_not_imported_before_there_is_code_to_highlight() -> None:
    """It takes tens of milliseconds; an answer without code never needs it."""
    script = (
        "import sys; from agent_cli.repl.markdown import THEMES, MarkdownStream\n"
        "stream = MarkdownStream(80, THEMES['dark'])\n"
        "stream.feed('# **Title**\\n\\n| a |\\n|---|\\n')\n"
        "assert not {'pygments', 'markdown_it', 'rich'} & set(sys.modules)\n"
        "stream.feed('```python\\nx = 1\\n')\n"
        "assert 'pygments' in sys.modules and 'rich' not in sys.modules\n"
    )

    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
