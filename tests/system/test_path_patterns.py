"""Patterns match as the library's do, but never take long."""

import random
import time

import pytest
from pathspec import GitIgnoreSpec

from agent_cli.system.path_patterns import path_patterns

BUDGET_S = 1.0  # the library alone: more than a minute


@pytest.mark.parametrize(
    "pattern",
    ["*a" * 30 + "*b", "x/*a*" * 12 + "b", "*?a" * 20 + "*[!a]", "a**" * 10 + "b", "**?***?" * 9],
)
def test_no_pattern_takes_long(pattern: str) -> None:
    """Threat 17: a rule or a model may write any pattern."""
    began_s = time.process_time()

    path_patterns([pattern]).match_file("/".join(["a" * 200] * 5))

    assert time.process_time() - began_s < BUDGET_S


def test_patterns_match_what_the_library_matches() -> None:
    """10,000 random patterns of few letters, each with a path of the same letters."""
    chance = random.Random(7)
    different: list[tuple[str, str]] = []
    for _ in range(10_000):
        pattern = "".join(
            chance.choices(["*", "**", "?", "a", "b", ".", "/", "[ab]", "[b-z]"], k=7)
        )
        path = "".join(chance.choices("aab./", k=9)).strip("/") or "a"
        try:
            expected = GitIgnoreSpec.from_lines([pattern]).match_file(path)
        except ValueError:
            continue
        if path_patterns([pattern]).match_file(path) is not expected:
            different.append((pattern, path))

    assert different == []


def test_class_matches_no_slash() -> None:
    """As in git; else `x[!a]y` would match `x/y`."""
    assert not path_patterns(["x[!a]y"]).match_file("x/y")
    assert path_patterns(["x[!a]y"]).match_file("xby")
    assert not path_patterns(["x[.-0]y"]).match_file("x/y")
