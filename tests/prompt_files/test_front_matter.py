"""Fields of front matter: values are what YAML would read, also where the file is no YAML."""

import json

from hypothesis import given
from hypothesis import strategies as st

from agent_cli.prompt_files import split_front_matter
from tests.tables import each_row


def value_of(written: str) -> str:
    fields, _ = split_front_matter(f"---\ndescription: {written}\n---\nBody")
    return (fields or {})["description"]


@each_row(
    ("written", "value"),
    [
        (r'"Use it.\n\nuser: \"go on\" \\ A \u2019"', 'Use it. user: "go on" \\ A \u2019'),
        ("'it''s done'", "it's done"),
        (">\n  one\n  two", "one two"),
        # No YAML, and written all the same.
        ("Use it: now", "Use it: now"),
        (r'"a \d b"', r"a \d b"),
        ('"', '"'),
    ],
)
def test_quoted_value_is_read_with_its_escapes(written: str, value: str) -> None:
    """Generated definitions write several paragraphs as one quoted line; a value stays one line."""
    assert value_of(written) == value


def test_half_of_an_emoji_becomes_a_replacement_character() -> None:
    """Nothing could send or print it."""
    assert value_of(r'"a \ud83d b \ud83d\ude00"') == "a \ufffd b \U0001f600"


@given(st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"])), st.booleans())
def test_quoted_words_are_read_as_they_were(text: str, is_ascii: bool) -> None:
    """YAML reads each JSON string."""
    assert value_of(json.dumps(text, ensure_ascii=is_ascii)).split() == text.split()
