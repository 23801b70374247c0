"""Lone surrogates in JSON text."""

import json

from agent_cli.system.json_text import mend_surrogates
from tests.tables import each_row


@each_row(
    ("text", "mended"),
    [
        ('a "quote"', 'a "quote"'),
        ("\\ud83d\\", "\\ud83d\\"),
        ("\U0001f600", "\U0001f600"),
        ("half \ud83d", "half \ufffd"),
        ("\ude00\ud83d\ud83d\ude00", "\ufffd\ufffd\U0001f600"),
        ("\\" * 9, "\\" * 9),
    ],
)
def test_half_of_a_pair_becomes_a_replacement_character(text: str, mended: str) -> None:
    assert json.loads(mend_surrogates(json.dumps([text, text]).encode())) == [mended, mended]
