"""Markdown blocks: the lines that begin, continue and end each."""

import pytest

from tests.repl.markdown.rendering import rendered


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
        pytest.param("- [ ] a\n- [x] b", ["- [ ] a", "- [x] b"], id="tasks"),
        pytest.param("> a\n> b\nc\n\nd", ["> a", "> b", "> c", "", "d"], id="a quote, a lazy line"),
        pytest.param("> a\n>\n> b", ["> a", ">", "> b"], id="a blank line in a quote"),
        pytest.param("> - a\n>   b", ["> - a", ">   b"], id="an item in a quote"),
        pytest.param("- > a\n  > b", ["- > a", "  > b"], id="a quote in an item"),
        pytest.param("> ```\n> a\nb", ["> ```", "> a", "b"], id="a quote ends its code"),
        pytest.param("    a\n\n      b\n\nc", ["a", "", "  b", "", "c"], id="indented code"),
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
