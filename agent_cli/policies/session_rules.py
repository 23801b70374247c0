"""The contents of an approval question: the rules "always" would add, and the facts."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.permissions import ApprovalFacts, Rule
from agent_cli.policies.decisions import WRITERS
from agent_cli.policies.permission_rules import (
    COMMAND_TOOL,
    called_paths,
    command_of,
    leaves_sandbox,
    parse_rule,
    rule_for_file,
)
from agent_cli.policies.shell.reach import Reach
from agent_cli.sandbox.report import Report
from agent_cli.system.records import dataclass


@dataclass(frozen=True, slots=True)
class ProjectRules:
    """Port to the project's rule file: `add` writes allow rules into `file`.

    `add_everywhere` writes them for every project.
    """

    file: Path
    add: Callable[[Sequence[str]], None]
    add_everywhere: Callable[[Sequence[str]], None] | None = None


def is_covered(asked: ApprovalFacts, allow: Sequence[Rule]) -> bool:
    """Return whether *allow* already has all the rules that "always" would add."""
    rules = {str(parse_rule(written)) for written in asked.rules}
    return bool(rules) and rules <= {str(rule) for rule in allow}


def session_rules(call: ToolCall, reach: Reach) -> tuple[str, ...]:
    """Return the rules that cover *call* and similar ones; none if their effect is unclear.

    A command is remembered by the first words of its parts, a change of a file by the folder of the
    workspace that it is in, and every other tool by its name.
    """
    if call.name in WRITERS:
        return tuple(_rules_for_folder(call, reach))
    if call.name != COMMAND_TOOL:
        return (f"{call.name}(*)" if "path" in call.arguments else call.name,)
    from agent_cli.policies.shell import session_prefixes  # with the first command

    prefixes = session_prefixes(command_of(call), reach)
    return tuple(f"{COMMAND_TOOL}({prefix})" for prefix in prefixes)


def _rules_for_folder(call: ToolCall, reach: Reach) -> Iterator[str]:
    """Yield the rule for the folder with the file of *call*; none if a link leads elsewhere.

    Files outside the workspace ask anyway.
    """
    paths = [Path(path) for path in called_paths(call, (), reach.root)]
    for folder in (reach.root, *reach.extra_dirs):
        if all(path.is_relative_to(folder) for path in paths):
            is_root = folder == reach.root
            yield f"{call.name}(./**)" if is_root else str(rule_for_file(call.name, folder, ""))
            return


def facts_about(
    call: ToolCall, rule: Rule | None, report: Report | None, reach: Reach
) -> tuple[str, ...]:
    """Return the facts a person should know about *call*.

    These are the rule that asks, the sandbox of a command, and the programs it starts, because few
    people read a long script to its end.
    """
    facts: list[str] = []
    if rule:
        facts.append(f"rule: {rule}  ({rule.origin})" if rule.origin else f"rule: {rule}")
    if call.name == COMMAND_TOOL:
        from agent_cli.policies.shell.readings import programs

        started = programs(command_of(call), reach.search_path)
        if len(started) > 1:
            facts.append(f"runs: {', '.join(started)}")
        outside = "none: runs with all your rights and the network"
        summary = report.summary if report else outside
        # The reason says the rest about a call that leaves it.
        facts.append(f"sandbox: {'none' if leaves_sandbox(call) else summary}")
    return tuple(facts)
