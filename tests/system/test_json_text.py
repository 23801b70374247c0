"""JSON with comments, as people write it, and as a stranger may to make us wait."""

import time

import pytest

from agent_cli.system.json_text import load_commented
from tests.tables import each_row

CHARS = 100_000
BUDGET_S = 1.0  # a fiftieth is enough


def test_comments_and_trailing_commas_are_left_out() -> None:
    text = '{"a": "// no", /* one */ "b": ["\\"/*", 2,], // two\n "c": ",]",}'

    assert load_commented(text) == {"a": "// no", "b": ['"/*', 2], "c": ",]"}


@each_row(
    "part", ['"x\\', '\\"', "/*", '"', ", "], ids=["text", "escape", "comment", "quote", "comma"]
)
def test_text_that_ends_nowhere_is_refused_at_once(part: str) -> None:
    """Looking for its end from each place on would take a minute, and hours for a longer text."""
    began_s = time.process_time()

    with pytest.raises(ValueError, match=r"line 1 column"):
        load_commented('{"a": ' + part * (CHARS // len(part)))

    assert time.process_time() - began_s < BUDGET_S
