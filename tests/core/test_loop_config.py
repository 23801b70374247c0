"""The options of a run: copies of what the caller gives, checked where they are set. S0-54."""

from dataclasses import replace

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


def test_the_key_is_in_no_text() -> None:
    assert "secret" not in repr(LoopConfig(api_key="secret"))
