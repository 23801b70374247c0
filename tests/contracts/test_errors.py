"""The errors that the program raises on purpose."""

import copy
import pickle
from collections.abc import Callable

import pytest

from agent_cli import LimitReached, ModelError, PromptResult, RunFailed, Usage
from agent_cli.contracts.errors import trouble_of
from tests.tables import each_row

FAILED = PromptResult("", "max_rounds", 3, Usage(input_tokens=7), "a1b2c3")


@pytest.mark.parametrize(
    "error",
    [
        LimitReached("3 rounds are done", limit="max_rounds"),
        ModelError("no answer", status=529, request_id="req_1", trouble="overloaded"),
        RunFailed("3 rounds are done", FAILED),
    ],
    ids=lambda error: type(error).__name__,
)
@each_row("copied", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
def test_error_comes_back_whole_from_another_process(
    error: Exception, copied: Callable[[Exception], Exception]
) -> None:
    """A process pool whose worker returns an error that cannot be built again breaks as a whole."""
    again = copied(error)

    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


def test_error_among_its_own_causes_is_looked_at_once() -> None:
    """One that is wrapped and taken out again is; the run that it ended never returned."""
    error, wrapper = ModelError("no credentials"), RuntimeError()
    error.__cause__, wrapper.__cause__ = wrapper, error

    assert trouble_of(error) is None
