"""The paths a tool declares: its bugs are told to the model, and they stay what was decided."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from agent_cli.contracts.errors import ToolError
from agent_cli.core.declared_paths import declared_paths, with_fixed_paths
from tests.fakes import returns, tool

TOOL = tool("save", returns("ok"), writes=lambda params: [f"/{params}"])


def test_paths_are_those_of_the_input() -> None:
    both = replace(TOOL, reads=lambda params: [f"/in/{params}"])

    assert declared_paths(both, "a") == (["/in/a"], ["/a"])


@pytest.mark.parametrize("error", [ValueError("broken"), SystemExit(3)])
def test_failing_function_of_a_tool_is_a_sentence_for_the_model(error: BaseException) -> None:
    def fail(_params: object) -> Sequence[str]:
        raise error

    with pytest.raises(ToolError, match="save cannot tell which files it would touch"):
        declared_paths(replace(TOOL, writes=fail), "a")


def test_fixed_paths_are_asked_for_once_for_each_input() -> None:
    """A symlink may change between the decision and the call."""
    answers = iter(["/first", "/second", "/third"])
    fixed = with_fixed_paths(replace(TOOL, writes=lambda _params: [next(answers)]))

    assert [declared_paths(fixed, params)[1] for params in ("a", "b", "a", "b")] == [
        *(["/first"], ["/second"]) * 2
    ]


def test_fixed_paths_that_are_read_stay_apart_from_those_that_are_written() -> None:
    """C26: also when they are asked for the first time, which is when they become known."""
    fixed = with_fixed_paths(replace(TOOL, reads=lambda params: [f"/in/{params}"]))

    assert [declared_paths(fixed, "a") for _ in range(2)] == [(["/in/a"], ["/a"])] * 2
