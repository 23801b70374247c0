"""Slash commands of other agents: those that mean the same work, the others name ours."""

import pytest

from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.foreign_names import FOREIGN_SLASH_COMMANDS
from agent_cli.repl.commands.registry import COMMANDS, find_command
from tests.repl.conversation import said
from tests.repl.scripted_app import Application
from tests.tables import each_row

ALIASES = {name: each.ours for name, each in FOREIGN_SLASH_COMMANDS.items() if each.ours}


@each_row("name", ALIASES)
def test_command_that_means_the_same_works(name: str) -> None:
    assert find_command(f"/{name}", Application()) == find_command(
        f"/{ALIASES[name]}", Application()
    )


@each_row("name", sorted(set(FOREIGN_SLASH_COMMANDS) - set(ALIASES)))
def test_command_without_a_counterpart_names_ours(name: str) -> None:
    """It is neither guessed at nor sent to the model."""
    foreign = FOREIGN_SLASH_COMMANDS[name]

    with pytest.raises(UsageError) as raised:
        find_command(f"/{name}", Application())

    assert str(raised.value) == f"/{name} is a command of {foreign.agents}: {foreign.instead}"


def test_commands_of_ours_are_not_shadowed() -> None:
    assert FOREIGN_SLASH_COMMANDS.keys().isdisjoint(command.name for command in COMMANDS)


def test_argument_is_passed_on() -> None:
    command, argument = find_command("/continue 3", Application())

    assert (command.name, argument) == ("resume", "3")
    assert said("/plan it") == ["/plan takes no argument"]
    assert said("/plan")[0].startswith("mode: plan")
