"""Patterns match as the library's do, but never take long."""

import random
import re
import time

import pytest
from pathspec import GitIgnoreSpec

from agent_cli.system.path_patterns import path_patterns

BUDGET_S = 1.0  # the library alone: more than a minute


@pytest.mark.parametrize(
    "pattern",
    [
        *("*a" * 30 + "*b", "x/*a*" * 12 + "b", "*?a" * 20 + "*[!a]", "a**" * 10 + "b"),
        *("**?***?" * 9, "**/a*/" * 9 + "b", "x/**/" + "*/**/" * 9 + "b", "**/a/" * 9 + "**/*b*a"),
    ],
)
def test_no_pattern_takes_long(pattern: str) -> None:
    """Threat 17: a rule or a model may write any pattern."""
    began_s = time.process_time()

    for path in ("/".join(["a" * 200] * 5), "x/" + "a/" * 200 + "c"):
        path_patterns([pattern]).match_file(path)

    assert time.process_time() - began_s < BUDGET_S


@pytest.mark.parametrize("count", [2_000, pytest.param(20_000, marks=pytest.mark.slow)])
def test_patterns_match_what_the_library_matches(count: int) -> None:
    """Random patterns of few letters, each with a path of the same letters."""
    chance = random.Random(7)
    different: list[tuple[str, str]] = []
    letters = ["*", "**", "?", "a", "b", ".", "/", "[ab]", "[b-z]"]
    folders = ["**/", "**/", "/**/", "a", "b", "*/", "a/", "*b"]
    for number in range(count):
        pattern = "".join(chance.choices((letters, folders)[number % 2], k=7))
        path = "".join(chance.choices(("aab./", "aab//")[number % 2], k=9))
        path = re.sub("//+", "/", path).strip("/") or "a"
        try:
            expected = GitIgnoreSpec.from_lines([pattern]).match_file(path)
        except ValueError:
            continue
        if path_patterns([pattern]).match_file(path) is not expected:
            different.append((pattern, path))

    assert different == []


def test_folder_with_a_newline_in_its_name_is_a_folder() -> None:
    """As in git; else no rule about `.env` would cover `a\\nb/.env`."""
    for pattern in (".env", "**/.env", "a*/**/.env", "**"):
        assert path_patterns([pattern]).match_file("a\nb/c\n/.env"), pattern


def test_class_matches_no_slash() -> None:
    """As in git; else `x[!a]y` would match `x/y`."""
    assert not path_patterns(["x[!a]y"]).match_file("x/y")
    assert path_patterns(["x[!a]y"]).match_file("xby")
    assert not path_patterns(["x[.-0]y"]).match_file("x/y")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("pattern", ["[[...slug]].tsx", "[[]x", "[a[]*"])
def test_bracket_in_a_class_prints_no_warning(pattern: str) -> None:
    """Rules and searches name such files, and Python warned on the terminal."""
    assert path_patterns([pattern]).match_file("[x") is (pattern != "[[...slug]].tsx")
