"""The rules offered for "always this session": the narrowest ones that cover the call, or none."""

from pathlib import Path

import pytest

from agent_cli.policies.shell import (
    CommandRules,
    Reach,
    command_rule,
    judge,
    session_prefixes,
)


@pytest.fixture
def reach(tmp_path: Path) -> Reach:
    return Reach(root=tmp_path.resolve())


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("npm run build", ("npm run build *",)),
        ("npm test -- --watch", ("npm test *",)),
        ("git commit -m 'a b'", ("git commit *",)),
        ("git stash pop", ("git stash pop *",)),
        ("pytest -q tests", ("pytest *",)),
        ("uv run pytest -q", ("uv run pytest *",)),
        ("./gradlew build", ("./gradlew *",)),
        ("make", ("make",)),
        ("pytest -q 2>&1 | tail -5 && npm run x", ("pytest *", "npm run x *")),
        ("pytest a; pytest b", ("pytest *",)),
    ],
)
def test_narrowest_prefix_of_each_command_is_offered(
    script: str, expected: tuple[str, ...], reach: Reach
) -> None:
    """S4-26: one for each command that does more than read; together they cover the call."""
    prefixes = session_prefixes(script, reach)
    rules = CommandRules(allow=[command_rule(prefix) for prefix in prefixes])

    assert prefixes == expected
    assert judge(script, rules, reach).verdict == "allow"


@pytest.mark.parametrize(
    "script",
    [
        "python -c 'x'",
        "python3.12 script.py",
        "/usr/bin/python -m pytest",
        "node -e x",
        "bash -c x",
        "sh script.sh",
        "sudo make",
        "env A=1 make",
        "find . -delete",
        "xargs rm",
        "git -C x commit",
        "git push",
        "git config a b",
        "rm x",
        "curl http://localhost",
        "timeout 5 make test",
        "uv run python x",
        "npx x",
        "docker run x",
        "cd ..",
        "make test && rm x",
        "make > out.txt",
        "make $x",
        "npm -s run x",
        "mak\u200be",
        "a; b; c; d; e; f",
    ],
)
def test_no_prefix_is_offered_for_interpreters_shells_and_long_scripts(
    script: str, reach: Reach
) -> None:
    """Nor for programs that start others: nobody can know what such a rule would allow."""
    assert session_prefixes(script, reach) == ()
