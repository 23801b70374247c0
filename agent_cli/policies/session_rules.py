"""The contents of an approval question: the rules "always" would add, and the facts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.permissions import ApprovalFacts, Rule
from agent_cli.policies.command_calls import COMMAND_TOOL, command_of, leaves_sandbox
from agent_cli.policies.permission_rules import parse_rule
from agent_cli.policies.shell.place import Place
from agent_cli.sandbox.report import Report


@dataclass(frozen=True, slots=True)
class ProjectRules:
    """Port to the project's rule file: `add` writes allow rules into `file`."""

    file: Path
    add: Callable[[Sequence[str]], None]


def is_covered(asked: ApprovalFacts, allow: Sequence[Rule]) -> bool:
    """Return whether *allow* already has all the rules that "always" would add."""
    wanted = {str(parse_rule(written)) for written in asked.rules}
    return bool(wanted) and wanted <= {str(rule) for rule in allow}


def session_rules(call: ToolCall, place: Place) -> tuple[str, ...]:
    """Return the rules that cover *call* and similar ones; none if their effect is unclear.

    A command is remembered by the first words of its parts, every other tool by its name.
    """
    if call.name != COMMAND_TOOL:
        return (f"{call.name}(*)" if "path" in call.arguments else call.name,)
    from agent_cli.policies.shell import session_prefixes  # noqa: PLC0415 - with the first command

    prefixes = session_prefixes(command_of(call), place)
    return tuple(f"{COMMAND_TOOL}({prefix})" for prefix in prefixes)


def facts_about(
    call: ToolCall, rule: Rule | None, report: Report | None, place: Place
) -> tuple[str, ...]:
    """Return the facts a person should know about *call*.

    These are the rule that asks, the sandbox of a command, and the programs it starts, because few
    people read a long script to its end.
    """
    facts: list[str] = []
    if rule:
        facts.append(f"rule: {rule}  ({rule.origin})" if rule.origin else f"rule: {rule}")
    if call.name == COMMAND_TOOL:
        from agent_cli.policies.shell.readings import programs  # noqa: PLC0415 - as above

        started = programs(command_of(call), place.search_path)
        if len(started) > 1:
            facts.append(f"runs: {', '.join(started)}")
        held = report if not leaves_sandbox(call) else None
        outside = "none: runs with all your rights and the network"
        facts.append(f"sandbox: {held.summary if held else outside}")
    return tuple(facts)
