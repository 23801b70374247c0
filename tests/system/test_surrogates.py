"""Lone surrogates in JSON text that arrives in chunks."""

import json

import pytest

from agent_cli.system.json_text import SurrogateMender, mend_surrogates

TEXTS = [
    "done\n",
    'a "quote"',
    "\\ud83d\\",
    "\U0001f600",
    "half \ud83d",
    "\ude00\ud83d\ud83d\ude00",
    "\\" * 9,
]


@pytest.mark.parametrize("text", TEXTS)
def test_chunks_of_any_size_give_the_same_text_as_the_whole(text: str) -> None:
    data = json.dumps({"text": [text, text]}).encode()

    for size in range(1, len(data) + 1):
        mender = SurrogateMender()
        parts = [mender.feed(data[at : at + size]) for at in range(0, len(data), size)]
        assert b"".join([*parts, mender.flush()]) == mend_surrogates(data)


@pytest.mark.parametrize("end", ["\n", "\n\n", "\r\n\r\n", "\r\r"])
@pytest.mark.parametrize("text", TEXTS)
def test_whole_line_is_not_held_back(text: str, end: str) -> None:
    """A server that answers a call in a stream says nothing more until the next call."""
    line = f'data: {{"result": "{json.dumps(text)[1:-1]}"}}{end}'.encode()

    assert SurrogateMender().feed(line) == mend_surrogates(line)
