"""A refused write must be seen, or its command must not run read-only first."""

import pytest

from agent_cli.policies.shell.effects import hides_errors


@pytest.mark.parametrize(
    "script",
    [
        "x 2>/dev/null",
        "x 2>>log || true",
        "x &>/dev/null",
        "x >/dev/null 2>&1",
        "x >& log",
        "x 2>&-",
        "x 2>&1 | tail -1",
        "x |& tail -1",
        "y=$(x 2>&1)",
        "cat <(x 2>&1)",
        "x 3>&1 1>&2 2>&3",
        "{ x; y; } 2>/dev/null",
        "for i in 1 2; do x; done 2> log",
        "exec 2>/dev/null; x",
        "(cd a && x 2>/dev/null)",
        "x 2> >(cat > log)",
    ],
)
def test_errors_that_go_elsewhere_are_hidden(script: str) -> None:
    """Threat 25: away, to a file, or to a program that may drop them."""
    assert hides_errors(script)


@pytest.mark.parametrize(
    "script",
    [
        "x",
        "x || true",
        "x >/dev/null",
        "x 2>&1",
        "x 2>&1 >/dev/null",
        "x >&2",
        "x | y 2>&1",
        "x 2<&0",
    ],
)
def test_errors_that_stay_in_the_output_are_not(script: str) -> None:
    assert not hides_errors(script)
