"""Markdown blocks: the lines that begin, continue and end each."""

import random
import re

import pytest

from agent_cli.contracts.options import ThemeName
from agent_cli.repl.markdown import THEMES, MarkdownStream
from agent_cli.repl.markdown.styles import cells
from tests.repl.markdown.documents import (
    SINGLES,
    chunked,
    document_of_words,
    mixed,
    random_document,
    single,
)
from tests.repl.markdown.painter import text_of
from tests.repl.markdown.rendering import rendered
from tests.tables import each_row


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        pytest.param("a\nb\n\n\n\nc", ["a", "b", "", "c"], id="newlines stay, blank ones are one"),
        pytest.param("\n\na\n\n", ["a"], id="no blank rows around"),
        pytest.param("a\n# b\nc", ["a", "", "# b", "c"], id="a blank row before a heading"),
        pytest.param("# b ##", ["# b"], id="closing marks of a heading go"),
        pytest.param("#hashtag", ["#hashtag"], id="a hashtag is text"),
        pytest.param("a\nb\n===", ["a", "b", "==="], id="underlined heading"),
        pytest.param("- - -", ["-" * 40], id="a rule"),
        pytest.param("- a\n- b\n+ c", ["- a", "- b", "- c"], id="items"),
        pytest.param("- a\n\n- b", ["- a", "", "- b"], id="a loose list stays loose"),
        pytest.param("3. a\n7) b", ["3. a", "7) b"], id="numbers as typed"),
        pytest.param("a\n7. b", ["a", "7. b"], id="a number in a paragraph begins no list"),
        pytest.param("- a\n  b\nc", ["- a", "  b", "  c"], id="lazy lines belong to the item"),
        pytest.param("- a\n\n  b\n\nc", ["- a", "", "  b", "", "c"], id="two blocks in an item"),
        pytest.param("- a\n  - b\n    - c", ["- a", "  - b", "    - c"], id="nested"),
        pytest.param("- a\n    - b\n    - c", ["- a", "  - b", "  - c"], id="nested by four"),
        pytest.param("1. a\n  - b\n2. c", ["1. a", "   - b", "2. c"], id="nested by too few"),
        pytest.param("-\n- b", ["-", "- b"], id="an empty item"),
        pytest.param("- # a", ["- # a"], id="a heading in an item"),
        pytest.param("- [ ] a\n- [x] b", ["[ ] a", "[x] b"], id="tasks"),
        pytest.param("1. [X] a\n   b", ["1. [x] a", "       b"], id="a numbered task"),
        pytest.param("- [x] a\n  - [ ] b", ["[x] a", "    [ ] b"], id="a task in a task"),
        pytest.param("- [ ]\n- [x] - a", ["[ ]", "[x] - a"], id="a task is text"),
        pytest.param("- [x](u)\n- [y] a", ["- x (u)", "- [y] a"], id="no tasks"),
        pytest.param("> a\n> b\nc\n\nd", ["> a", "> b", "> c", "", "d"], id="a quote, a lazy line"),
        pytest.param("> a\n>\n> b", ["> a", ">", "> b"], id="a blank line in a quote"),
        pytest.param("> - a\n>   b", ["> - a", ">   b"], id="an item in a quote"),
        pytest.param("- > a\n  > b", ["- > a", "  > b"], id="a quote in an item"),
        pytest.param("> ```\n> a\nb", ["> ```", "> a", "b"], id="a quote ends its code"),
        pytest.param("    a\n\n      b\n\nc", ["a", "", "  b", "", "c"], id="indented code"),
        pytest.param("a\n\nXXXXX b", ["a", "", "XXXXX b"], id="letters indent nothing"),
        pytest.param("a\n    b", ["a", "b"], id="no indented code inside a paragraph"),
        pytest.param("\ta\tb", ["a   b"], id="tabs"),
        pytest.param("```\n# a\n\n\n-\n```\nc", ["```", "# a", "", "", "-", "```", "c"], id="code"),
        pytest.param("````\n```\n````", ["````", "```", "````"], id="a fence in a fence"),
        pytest.param("~~~ py\n```\n~~~", ["~~~ py", "```", "~~~"], id="the other fence"),
        pytest.param("``` a`b", ["``` a`b"], id="no fence"),
        pytest.param("<b>x</b>", ["<b>x</b>"], id="html is text"),
        pytest.param("[a]: http://x", ["[a]: http://x"], id="definitions are text"),
    ],
)  # fmt: skip
def test_markdown_blocks_are_recognised(text: str, rows: list[str]) -> None:
    """As in CommonMark, with the exceptions that suit a streamed answer."""
    assert rendered(text) == rows


def test_code_in_a_list_item_continues_without_indentation() -> None:
    """Models forget it; by the book the closing fence would swallow the rest of the answer."""
    assert rendered("1. a\n   ```\nb\n   ```\n2. c") == ["1. a", "```", "b", "```", "2. c"]


def test_wrapped_rows_are_indented_to_the_text_of_their_list_item() -> None:
    assert rendered("10. " + "word " * 6, 20) == ["10. word word word", "    word word word"]


def test_deeply_nested_list_items_fit_a_narrow_screen() -> None:
    """The mark of the innermost item stays visible."""
    text = "".join(f"{'  ' * depth}- {depth} some words to wrap\n" for depth in range(12))

    rows = rendered(text, 20)

    assert max(map(len, rows)) <= 20
    assert [row.split("- ")[1].split()[0] for row in rows if "- " in row] == [*map(str, range(12))]


def test_depth_of_nested_quotes_is_limited() -> None:
    """Marks beyond a depth are text; otherwise each line would cost the time of all."""
    row = rendered(">" * 900 + " a", 80)[0]

    assert row.startswith("> > > ")
    assert row.endswith(">")


def test_a_heading_is_styled_by_its_level() -> None:
    rows = rendered("# a\n## b\n### c", theme="dark")

    assert rows == ["\x1b[1;4;96ma\x1b[m", "", "\x1b[1;96mb\x1b[m", "", "\x1b[1mc\x1b[m"]


@each_row(
    ("text", "rows"),
    [
        ("> [!NOTE]\n> a", ["│ Note", "│ a"]),
        ("- > [!warning] \n  > a", ["• │ Warning", "  │ a"]),
        ("> [!NOTE] a", ["│ [!NOTE] a"]),
        ("> a\n> [!NOTE]", ["│ a", "│ [!NOTE]"]),
        ("[!NOTE]\n- [!TIP]", ["[!NOTE]", "• [!TIP]"]),
    ],
)
def test_kind_of_a_callout_is_its_title(text: str, rows: list[str]) -> None:
    """As GitHub shows `> [!NOTE]`; elsewhere these characters are text."""
    assert [text_of(row) for row in rendered(text, theme="dark")] == rows


def test_kind_of_a_callout_keeps_its_marks_where_others_do() -> None:
    assert rendered("> [!NOTE]\n> a") == ["> [!NOTE]", "> a"]


THEME_NAMES: tuple[ThemeName, ...] = ("dark", "light", "high-contrast", "none")


def check_chunks(seed: int) -> None:
    rng = random.Random(seed)
    text, width, theme = random_document(rng), rng.choice((8, 20, 40, 80)), rng.choice(THEME_NAMES)
    stream = MarkdownStream(width, THEMES[theme])
    rows: list[str] = []
    for chunk in chunked(text, rng):
        rows += stream.feed(chunk)
        if rng.random() < 0.5:
            tail = stream.tail(rng.randint(1, 14))
            assert [row for row in tail if cells(text_of(row)) > width] == [], f"seed {seed}"

    assert rows + stream.finish() == rendered(text, width, theme), f"seed {seed}"


def check_words(seed: int) -> None:
    rng = random.Random(seed)
    text, words = document_of_words(rng)
    shown = "\n".join(
        map(text_of, rendered(text, rng.choice((20, 40, 80)), rng.choice(THEME_NAMES)))
    )

    assert [word for word in words if word not in shown] == [], f"seed {seed}"


def test_rows_do_not_depend_on_how_an_answer_is_split_into_deltas() -> None:
    """Random documents, chunks, widths, themes; reading the tail changes nothing either."""
    for seed in range(60):
        check_chunks(seed)


@pytest.mark.slow
def test_rows_of_many_answers_do_not_depend_on_how_they_are_split() -> None:
    for seed in range(10_000, 13_000):
        check_chunks(seed)


@each_row("kind", SINGLES)
def test_rows_of_a_long_block_do_not_depend_on_how_it_is_split(kind: str) -> None:
    """Long blocks are finished in parts; their ends depend on the text alone."""
    text, rng = single(kind, 12_000), random.Random(kind)
    stream = MarkdownStream(40, THEMES["dark"])
    rows: list[str] = []
    for chunk in chunked(text, rng):
        rows += stream.feed(chunk)
        stream.tail(12)

    assert rows + stream.finish() == rendered(text, 40, "dark")


def test_no_word_of_an_answer_is_lost() -> None:
    """Malformed text is shown as typed."""
    for seed in range(150):
        check_words(seed)


@pytest.mark.slow
def test_no_word_of_many_answers_is_lost() -> None:
    for seed in range(10_000, 14_000):
        check_words(seed)


@each_row("kind", SINGLES)
def test_no_character_of_a_long_block_is_lost(kind: str) -> None:
    text = single(kind, 9_000)
    kept = re.sub(r"[\W_]", "", text)

    assert re.sub(r"[\W_]", "", "".join(rendered(text, 50))) == kept


@each_row("theme", THEME_NAMES)
def test_theme_none_writes_no_escapes_and_the_others_only_sgr(theme: ThemeName) -> None:
    """This holds for finished rows and the tail."""
    stream = MarkdownStream(60, THEMES[theme])
    rows = stream.feed(mixed(3_000)) + stream.tail(12) + stream.finish()

    sequences = re.findall(r"\x1b[^m]*m?", "".join(rows))
    assert all(re.fullmatch(r"\x1b\[[\d;]*m", sequence) for sequence in sequences)
    assert (sequences == []) == (theme == "none")


def test_rows_have_no_trailing_blanks_and_reset_their_style() -> None:
    """Copied text has no padding; a row never colours the next one."""
    rows = rendered(mixed(3_000), 60, "dark")

    assert [row for row in rows if text_of(row) != text_of(row).rstrip()] == []
    last_sequences = [re.findall(r"\x1b\[[\d;]*m", row)[-1] for row in rows if "\x1b" in row]
    assert set(last_sequences) == {"\x1b[m"}


def test_code_block_is_not_indented_padded_or_wrapped() -> None:
    """Not even inside a list item: users copy it."""
    line = "x = [" + "1, " * 50 + "1]"

    assert rendered(f"- item\n  ```python\n  {line}\n    y\n  ```\n", 20) == [
        "- item",
        "```python",
        line,
        "  y",
        "```",
    ]


def test_rows_are_finished_as_soon_as_nothing_can_change_them() -> None:
    """Code line by line, a heading with its newline, a paragraph when it ends."""
    stream = MarkdownStream(80, THEMES["none"])

    assert stream.feed("# Title\n") == ["# Title"]
    assert stream.feed("\ntext\n") == []
    assert stream.feed("\n") == ["", "text"]
    assert stream.feed("```\none\ntw") == ["", "```", "one"]
    assert stream.feed("o\n```\n") == ["two", "```"]
    assert stream.finish() == []


def test_a_paragraph_finished_in_parts_is_wrapped_seamlessly() -> None:
    """No row ends early at the end of a part: each is as full as the next word allows."""
    rows = rendered("seven77 " * 1_000, 40)

    assert rows == [" ".join(["seven77"] * 5)] * 200


@each_row("begin", ["", "- ", "> ", "1. **Bold:** `code` and 2 * 3 and "])
def test_long_paragraph_is_finished_while_it_streams(begin: str) -> None:
    """Its beginning does not vanish from a tail of a few rows until the paragraph ends."""
    stream = MarkdownStream(80, THEMES["none"])
    shown: list[str] = []
    for word in [begin, *["seven77 "] * 150]:
        shown += stream.feed(word)

        assert len(stream.tail(12)) <= 4

    assert len(shown) > 10


def test_emphasis_beside_a_stray_mark_is_not_cut_in_two() -> None:
    words = "six666 " * 17
    rows = rendered(f"2*x {words} and *{words}end* {words}", 4_000, "dark")

    assert rows == [f"2*x {words} and \x1b[3m{words}end\x1b[m {words}".rstrip()]


def test_resizing_wraps_only_the_following_rows_to_the_new_width() -> None:
    stream = MarkdownStream(40, THEMES["none"])
    before = stream.feed("seven77 " * 300)
    stream.resize(23)
    after = stream.feed("seven77 " * 300) + stream.finish()

    assert {len(row) for row in before} == {39}
    assert {len(row) for row in after[:-1]} == {23}


@each_row(
    ("text", "tail"),
    [
        ("some **bold", ["some \x1b[1mbold\x1b[m"]),
        ("some **bold*", ["some \x1b[1mbold\x1b[m"]),
        ("some **", ["some"]),
        ("some `code", ["some \x1b[36mcode\x1b[m"]),
        ("[text](http://x", ["text (\x1b[34mhttp://x\x1b[m)"]),
        ("# Head", ["\x1b[1;4;96mHead\x1b[m"]),
        ("text\n-", ["text"]),
        ("##", []),
        *(("text\n- [x] a"[:end], ["text"]) for end in range(6, 11)),
        ("text\n- [x] ", ["text", "\x1b[36m☑\x1b[m"]),
        ("text\n- [ ] a", ["text", "\x1b[36m☐ \x1b[ma"]),
        ("1. [", []),
        ("> - [", []),
        ("- [y", ["\x1b[36m• \x1b[m[y"]),
        *(("> [!NOTE]"[:end], []) for end in range(3, 10)),
        ("```python\ndef", ["\x1b[95mdef\x1b[m"]),
        ("one\ntwo\nthree", ["two", "three"]),
    ],
)
def test_tail_shows_unfinished_marks_as_if_they_were_closed(text: str, tail: list[str]) -> None:
    """Marks do not flash, and a line is shown once its kind is known."""
    stream = MarkdownStream(80, THEMES["dark"])
    stream.feed(text)

    assert stream.tail(2) == tail


def test_tail_has_the_last_rows_up_to_the_requested_number() -> None:
    """A line of code is cut here as the terminal would cut it: the row count must be right."""
    stream = MarkdownStream(20, THEMES["none"])
    stream.feed("```\n" + "0123456789" * 5)

    assert stream.tail(12) == ["01234567890123456789", "01234567890123456789", "0123456789"]
    assert stream.tail(1) == ["0123456789"]
    assert stream.tail(0) == []


def test_tail_never_begins_with_a_combining_mark() -> None:
    """A terminal would put it on the last character of the row above."""
    stream = MarkdownStream(20, THEMES["none"])
    stream.feed("```\n")

    for _ in range(100):
        stream.feed("e\u0301")
        assert not stream.tail(3)[0].startswith("\u0301")


def test_finished_stream_starts_a_new_answer_afresh() -> None:
    """An open block of one answer does not continue into the next."""
    stream = MarkdownStream(80, THEMES["none"])
    stream.feed("```\ncode")
    stream.finish()

    assert stream.feed("# Title\n") == ["# Title"]


def test_nested_html_is_wrapped_between_words() -> None:
    """After a blank line its indentation used to make it code, and the terminal split its words."""
    stream = MarkdownStream(40, THEMES["none"])
    html = "<ul>\n    <li>One</li>\n\n    <li>The second entry of the navigation bar</li>\n</ul>\n"

    rows = [*stream.feed(html), *stream.finish()]

    assert rows == [
        *("<ul>", "<li>One</li>", ""),
        *("<li>The second entry of the navigation", "bar</li>", "</ul>"),
    ]
