"""The indentation of the new text: as in the quoted text, or as in the file."""

from tests.tables import each_row
from tests.tools.matching.editing import edited, refusal

NESTED = """\
def create(entries):
    names = sorted(entries)
    def key(item):
        name, links = item
        if name:
            return name
        else:
            # all other symbols
            return "Symbols"

    return key
"""

TEMPLATE = """\
{% if links %}
        <div class="links">
            {% for link in links %}
                <a href="{{ link.url }}"
                    class="link">
                </a>
            {% endfor %}
        </div>
{% endif %}
"""

FUNCTION = "export function f(a: any) {\n  return g(a) && g(a.b);\n}\n"


def without(text: str, margin: str) -> str:
    return "".join(line.removeprefix(margin) for line in text.splitlines(keepends=True))


def test_nested_function_moved_to_top_level_is_refused() -> None:
    """Common lines give no information if indented neither as in the file nor as in old."""
    old = without(NESTED[NESTED.index("    def key") : NESTED.index("\n    return key")], "    ")
    new = (
        "\ndef _add(word, *,\n         links) -> None:\n    name, link = links\n\n\n"
        "def _key(item):\n    word, links = item\n    if not name:\n        links = 1\n"
        '    else:\n        links = 2\n    # all other symbols\n    return "Symbols"\n'
    )

    why = refusal(NESTED.replace("\n    return key\n", ""), old, new)

    assert "new is not indented as old is" in why


def test_edit_of_markup_with_uncertain_indentation_is_refused() -> None:
    """Without an opening line before it, the neighbours of a line do not tell its depth."""
    start, end = TEMPLATE.index("        <div"), TEMPLATE.index("{% endif")
    old = without(TEMPLATE[start:end], "    ")
    new = "    <ul>\n        {% for link in links %}\n            {% endfor %}\n        </ul>\n"

    refusal(TEMPLATE, old, new)


@each_row("step", [" ", "    "])
def test_edit_with_other_indentation_steps_than_the_file_is_refused(step: str) -> None:
    """Which factor was meant is a guess, also where old and new have the same steps."""
    old = FUNCTION.replace("  ", step)

    for new in (FUNCTION, old):
        why = refusal(FUNCTION, old, new.replace("return g", "return h"))
        assert f"indented by 2 spaces, in old by {len(step)} space" in why
        assert "2\t  return g" in why


def test_shift_that_may_be_a_factor_is_refused() -> None:
    text = "class A:\n    def f(self):\n        a()\n        b()\n"
    old = "    a()\n    b()\n"

    why = refusal(text, old, "    a()\n    if c:\n      d()\n")
    shifted = edited(text, old, "    a()\n    if c:\n        d()\n")

    assert "by a shift or by a factor" in why
    assert shifted == text.replace("b()", "if c:\n            d()")


def test_misquoted_indentation_and_characters_are_repaired_together() -> None:
    """Indentation and characters can both be misquoted."""
    text = "def f():\n    a(b, c)\n    return d\n"

    result = edited(text, "a(b,\u00a0c)\nreturn d\n", "a(b,\u00a0c)\nreturn e\n")

    assert result == text.replace("return d", "return e")


@each_row(
    ("text", "old", "new", "expected"),
    [
        # A block opens before a comment, too.
        (
            "try:\n    f()\nexcept E:  # why\n    g()\nx()\n",
            "    except E:  # why\n        g()\n",
            "    finally:  # so\n        h()\n",
            "try:\n    f()\nfinally:  # so\n    h()\nx()\n",
        ),
        # No file starts with an indented line.
        ("import a\nb()\n", "    import a\n", "    from c import d\n", "from c import d\nb()\n"),
        # The first and the last line stayed, so the lines between them lost a nesting level.
        (
            "def f():\n    a()\n    if b:\n        c()\n    d()\n",
            "        a()\n        if b:\n            c()\n        d()\n",
            "        a()\n        c()\n        d()\n",
            "def f():\n    a()\n    c()\n    d()\n",
        ),
    ],
)
def test_new_is_shifted_if_nothing_else_can_be_meant(
    text: str, old: str, new: str, expected: str
) -> None:
    assert edited(text, old, new) == expected
