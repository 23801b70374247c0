"""Inline marks: emphasis, code and links inside a paragraph."""

import re
from dataclasses import replace

from agent_cli.repl.markdown import THEMES, MarkdownStream, Theme
from agent_cli.repl.markdown.inline import parse_inline
from agent_cli.repl.markdown.styles import plain
from tests.tables import each_row

# Letters for styles, so that a test reads like the text.
THEME = Theme(strong="S", emphasis="E", strike="X", code="C", url="U")


def marked(text: str, *, provisional: bool = False) -> str:
    """Return the text with each styled run as {style:text}."""
    spans = parse_inline(text, THEME, provisional=provisional)
    merged: list[tuple[str, str]] = []
    for found, style in spans:
        if merged and merged[-1][1] == style:
            merged[-1] = merged[-1][0] + found, style
        else:
            merged.append((found, style))
    return "".join(f"{{{style}:{found}}}" if style else found for found, style in merged)


@each_row(
    ("text", "expected"),
    [
        ("a **b** c", "a {S:b} c"),
        ("__b__ *c* _d_", "{S:b} {E:c} {E:d}"),
        ("***b***", "{E;S:b}"),
        ("**a *b* c**", "{S:a }{E;S:b}{S: c}"),
        ("**a\nb**", "{S:a\nb}"),
        ("**注意：**这是", "{S:注意：}这是"),
        ("~~a~~ ~b~ ~5", "{X:a} ~b~ ~5"),
        ("2 * 3 * 4", "2 * 3 * 4"),
        ("snake_case_name __init__.py", "snake_case_name {S:init}.py"),
        ("10*20*30 px, 2**3**4, **2*3** *4*", "10*20*30 px, 2**3**4, {S:2*3} {E:4}"),
        ("f(*args, **kwargs)", "f(*args, **kwargs)"),
        ("**open", "**open"),
        ("`a*b*` *c*", "{C:a*b*} {E:c}"),
        ("`` a`b ``", "{C:a`b}"),
        ("`open *c*", "`open {E:c}"),
        (r"\*a\* \`b", "*a* `b"),
        ("[t](http://x.y)", "t ({U:http://x.y})"),
        ("[t](<a b>)", "t ({U:a b})"),
        ('[t](u "title")', 't ({U:u "title"})'),
        ("[http://x.y](http://x.y)", "{U:http://x.y}"),
        ("[**b**](u)", "{S:b} ({U:u})"),
        ("![alt](u)", "alt ({U:u})"),
        ("[a](b(c)d)", "a ({U:b(c)d})"),
        ("[x] [y][z] a](b)", "[x] [y][z] a](b)"),
        ("<https://x.y/_a_> (http://z.w/_b_).", "{U:https://x.y/_a_} ({U:http://z.w/_b_})."),
        ("&lt;b&gt; &amp;amp; &copy;", "<b> &amp; &copy;"),
    ],
)
def test_inline_marks_become_styles(text: str, expected: str) -> None:
    assert marked(text) == expected


@each_row(
    ("text", "expected"),
    [
        ("a **b", "a {S:b}"),
        ("a **b*", "a {S:b}"),
        ("a *b", "a {E:b}"),
        ("a `b", "a {C:b}"),
        ("a ``b`", "a {C:b}"),
        ("a **", "a "),
        ("a [b](http://c", "a b ({U:http://c})"),
        ("a ~~b **c", "a {X:b }{S;X:c}"),
        ("a\\", "a"),
    ],
)
def test_open_marks_are_closed_provisionally(text: str, expected: str) -> None:
    """The tail of an answer shows no mark that is about to disappear."""
    assert marked(text, provisional=True) == expected


def test_entities_are_not_decoded_to_control_characters() -> None:
    """The text was sanitized before; decoding must not restore an escape sequence."""
    text = "&#27;[2J &#x1b;[2J &#155;2J &ESC; &NewLine;"

    assert plain(parse_inline(text, THEME)) == text


@each_row("text", ["**b** `c` *d* ~~e~~", r"\*a\*", "`` a`b ``"])
def test_theme_without_styles_keeps_the_marks(text: str) -> None:
    """Nothing else would show the emphasis."""
    assert plain(parse_inline(text, THEMES["none"])) == text


def linked(text: str, width: int = 80) -> list[tuple[str, str]]:
    """Return the linked texts, with their targets."""
    stream = MarkdownStream(width, replace(THEMES["dark"], links=True))
    rows = "\n".join([*stream.feed(text), *stream.finish()])
    found = re.findall(r"\x1b\]8;id=\w+;([^\x1b]+)\x1b\\(.*?)\x1b\]8;;\x1b\\", rows)
    return [(re.sub(r"\x1b\[[\d;]*m", "", shown), address) for address, shown in found]


def test_link_target_is_always_visible() -> None:
    """It is either an address in the text, or the target written out."""
    text = (
        "[docs](https://a.example/x) https://b.example. <mailto:me@c.example> "
        "[https://good.example](https://evil.example) [https://d.example](https://d.example)"
    )
    addresses = ["https://a.example/x", "https://b.example", "mailto:me@c.example"]
    addresses += ["https://good.example", "https://evil.example", "https://d.example"]

    assert linked(text, 400) == [(address, address) for address in addresses]


@each_row(
    ("text", "address"),
    [
        ("https://a.example/Foo_(bar)", "https://a.example/Foo_(bar)"),
        ("(see https://a.example/Foo_(bar)).", "https://a.example/Foo_(bar)"),
        ("(**https://a.example/f_(b)_(c)**)", "https://a.example/f_(b)_(c)"),
        ("(https://a.example/x))", "https://a.example/x"),
    ],
)
def test_bare_address_keeps_the_brackets_that_belong_to_it(text: str, address: str) -> None:
    """Wikipedia's have them; without the last one a click leads elsewhere."""
    assert linked(text) == [(address, address)]


@each_row(
    "text",
    ["[a](javascript:alert)", "[a](file:///etc/passwd)", "https://аpple.example", "[a](b c)"],
)
def test_unsafe_or_malformed_address_is_not_a_link(text: str) -> None:
    """Neither other schemes nor look-alike letters are linked."""
    assert linked(text) == []


def test_wrapped_address_is_a_single_link() -> None:
    """Each row links to the full address."""
    address = f"https://a.example/{'x' * 30}"
    stream = MarkdownStream(20, replace(THEMES["dark"], links=True))
    tail = stream.feed(f"| a |\n|---|\n| {address} |\n") + stream.finish()

    assert sum(f";{address}\x1b" in row for row in tail) == 3
    assert len(set(re.findall(r"8;id=(\w+)", "".join(tail)))) == 1


@each_row("target", [" " * 60_000, " \n" * 30_000, "x" * 60_000, "(x)" * 20_000])
def test_endless_target_of_a_link_takes_no_time(target: str) -> None:
    """Blanks used to take quadratic time: a table cell of them held the screen for minutes."""
    text = f"[a]({target}"

    assert plain(parse_inline(text, THEMES["none"])) == text
