"""Words that a model or a stranger wrote take a time that grows with their length, not its square.

Each took more than ten seconds for 100,000 characters, in a thread that nothing can stop.
"""

import time
from collections.abc import Callable

import pytest

from agent_cli.agents.definitions import split_at_commas
from agent_cli.app.imports import has_shape_of_key
from agent_cli.policies.shell.foreign_code import has_pattern_of_all
from agent_cli.policies.shell.reserved import is_losing_task
from agent_cli.policies.shell.starters import is_shell
from agent_cli.policies.shell.words import literals_in
from agent_cli_tools.folding.findings import grouped_findings

_CHARS = 12_500
# Twice the text: a square takes four times as long.
_GROWTH_MAX = 3
# What a timer and a cold cache add to a few milliseconds; a square takes hundreds of them.
_SLACK_S = 0.05


@pytest.mark.parametrize(
    ("read", "begin", "repeated"),
    [
        (lambda text: [*literals_in(text)], "'", r"\'"),
        (lambda text: [*literals_in(text)], "", r"\`"),
        (lambda text: [*literals_in(text)], "", "q( "),
        (lambda text: [*literals_in(text)], "", "'''\n"),
        (has_pattern_of_all, "", "<"),
        (has_pattern_of_all, "", "<a/"),
        (has_pattern_of_all, "", "<("),
        (lambda text: is_losing_task(f"{text}!"), "", "drop:"),
        (lambda text: is_shell(f"{text}a"), "bash", "1."),
        (has_shape_of_key, "", "a"),
        (has_shape_of_key, "1", "a "),
        (has_shape_of_key, "", "."),
        (split_at_commas, "", ","),
        (split_at_commas, "(", ",a"),
        (lambda text: grouped_findings([text]), "a.c", ":1:  a"),
        (lambda text: grouped_findings([text]), "a.c", ":1: In a "),
    ],
)
def test_time_grows_with_the_length_of_a_hostile_word(
    read: Callable[[str], object], begin: str, repeated: str
) -> None:
    def seconds(chars: int) -> float:
        text, started = begin + repeated * (chars // len(repeated)), time.process_time()
        read(text)
        return time.process_time() - started

    once, twice = (min(seconds(chars) for _ in range(3)) for chars in (_CHARS, 2 * _CHARS))

    assert twice <= _GROWTH_MAX * once + _SLACK_S
