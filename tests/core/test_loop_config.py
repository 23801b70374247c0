"""The options of a run: copies of what the caller gives, checked where they are set. S0-54."""

import math
from dataclasses import replace
from typing import Any

import pytest

from agent_cli.contracts.errors import AgentCliError
from agent_cli.core.loop_config import LoopConfig
from tests.fakes import LOOK


def test_lists_and_dicts_of_the_caller_are_copied() -> None:
    tools, budgets = [LOOK], {"low": 1}
    options = LoopConfig(tools=tools, thinking_budgets=budgets, prepare=[])

    tools.clear()
    budgets.clear()

    assert (options.tools, options.thinking_budgets, options.prepare) == ((LOOK,), {"low": 1}, ())


def test_two_tools_of_one_name_are_refused_where_they_are_set() -> None:
    with pytest.raises(AgentCliError, match="look"):
        replace(LoopConfig(), tools=[LOOK, replace(LOOK, label="other")])


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"max_rounds": "5"}, "max_rounds must be a whole number from 0, not str"),
        ({"max_rounds": True}, "max_rounds must be a whole number from 0, not bool"),
        ({"max_rounds": 2.0}, "max_rounds must be a whole number from 0, not 2.0"),
        ({"max_rounds": -1}, "max_rounds must be a whole number from 0, not -1"),
        ({"concurrency": 0}, "concurrency must be a whole number from 1, not 0"),
        ({"concurrency": None}, "concurrency must be a whole number from 1, not NoneType"),
        ({"max_tokens": 0}, "max_tokens must be a whole number from 1, not 0"),
        ({"tool_timeout_s": math.nan}, "tool_timeout_s must be a number from 0, not nan"),
        ({"tool_timeout_s": "1"}, "tool_timeout_s must be a number from 0, not str"),
        ({"tool_stop_timeout_s": -0.5}, "tool_stop_timeout_s must be a number from 0, not -0.5"),
        ({"temperature": math.inf}, "temperature must be a number from 0 to 2, not inf"),
        ({"temperature": False}, "temperature must be a number from 0 to 2, not bool"),
        ({"max_retry_delay_ms": 0.5}, "max_retry_delay_ms must be a whole number from 0, not 0.5"),
        ({"thinking_budgets": 5}, "thinking_budgets must be Mapping, not int"),
        ({"thinking_budgets": {"hgih": 5}}, "each key of thinking_budgets must be one of 'off'"),
        ({"thinking_budgets": {"low": "5"}}, "thinking_budgets['low'] must be a whole number"),
        ({"approval": "batc"}, "approval must be one of 'defer', 'batch', not 'batc'"),
        ({"api_key": b"x"}, "api_key must be str or None, not bytes"),
        ({"session_id": 5}, "session_id must be str or None, not int"),
        ({"user_id": None}, "user_id must be str, not NoneType"),
        ({"registry": {}}, "registry must be ProviderRegistry or None, not dict"),
        ({"services": []}, "services must be Mapping, not list"),
        ({"state": ()}, "state must be MutableMapping, not tuple"),
        ({"stream_fn": "claude"}, "stream_fn must be a function or None, not str"),
        ({"get_api_key": "x"}, "get_api_key must be a function or None, not str"),
        ({"prepare": 5}, "prepare must be a sequence, not int"),
        ({"prepare": [5]}, "each of prepare must be a function, not int"),
    ],
    ids=str,
)
def test_an_option_of_another_type_or_out_of_its_range_is_refused(
    wrong: dict[str, Any], said: str
) -> None:
    """It was found in the middle of a run, as a traceback, or never: `max_rounds=True` was 1."""
    with pytest.raises(AgentCliError) as refused:
        LoopConfig(**wrong)

    assert str(refused.value).startswith(said)


def test_the_least_values_of_options_are_accepted() -> None:
    options = LoopConfig(
        max_tokens=1,
        max_rounds=0,
        concurrency=1,
        max_retry_delay_ms=None,
        tool_timeout_s=0,
        tool_stop_timeout_s=math.inf,
        temperature=0,
        thinking_budgets={"high": 0},
    )

    assert options.max_rounds == 0


def test_the_key_is_in_no_text() -> None:
    assert "secret" not in repr(LoopConfig(api_key="secret"))
