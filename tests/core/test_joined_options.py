"""Options that may be set in one of two places. S0-30, S0-37."""

import pytest

from agent_cli.contracts.errors import AgentCliError
from agent_cli.core.event_stream import joined
from agent_cli.core.loop_config import LoopConfig
from tests.fakes import LOOK


def test_what_is_set_in_either_place_is_taken() -> None:
    options = joined(LoopConfig(system_prompt="a"), "AgentState", system_prompt="", tools=(LOOK,))

    assert (options.system_prompt, options.tools) == ("a", (LOOK,))


def test_the_same_value_in_both_places_is_no_conflict() -> None:
    options = LoopConfig(system_prompt="a")

    assert joined(options, "AgentState", system_prompt="a") == options


def test_two_values_name_the_option_and_both_places() -> None:
    said = r"^system_prompt is set in LoopConfig and in AgentState"
    with pytest.raises(AgentCliError, match=said):
        joined(LoopConfig(system_prompt="a"), "AgentState", system_prompt="b")
