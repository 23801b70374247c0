"""Lifecycle hooks of a session: in lines for a person, and their `if`, a permission rule."""

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from agent_cli.contracts.errors import AgentCliError
from agent_cli.contracts.events import ToolCall
from agent_cli.policies.permission_rules import (
    COMMAND_TOOL,
    called_paths,
    command_of,
    parse_rule,
    touches,
)
from agent_cli.policies.shell.reach import Reach
from agent_cli.system import paths

if TYPE_CHECKING:
    from agent_cli.hooks.definition import Hook


def overview(hooks: "Sequence[Hook]") -> str:
    """Return one line: the number of hooks and guards, and their origins."""
    guards = sum(hook.guards for hook in hooks)
    origins = ", ".join(dict.fromkeys(_file_of(hook.origin) for hook in hooks))
    return f"hooks: {len(hooks)} active (guards: {guards}), from {origins}"


def listed(hooks: "Sequence[Hook]") -> list[str]:
    """Return a line for each hook."""
    lines: list[str] = []
    for hook in hooks:
        when = f"{hook.event} {hook.matcher}".strip()
        if hook.condition:
            when += f" if {hook.condition}"
        fault = f"; blocks: {hook.fault}" if hook.fault else ""
        lines.append(f"{when}: {hook.shown} ({_kind(hook)}, {hook.origin}){fault}")
    return lines


def waits_for(hook: "Hook") -> str:
    """Return what is waited for, and how long at most."""
    where = f", {_file_of(hook.origin)}" if hook.origin else ""
    return f"waiting for the {hook.event} hook {hook.shown} (at most {hook.limit_s:g} s{where})"


def without_matches(hooks: "Sequence[Hook]", tools: Collection[str]) -> Iterator[str]:
    """Yield a sentence for each hook whose matcher can match nothing in a session with *tools*."""
    for hook in hooks:
        if not hook.may_match(tools):
            kind = "tool" if hook.is_about_calls else hook.event
            yield (
                f"{hook.origin}: {hook.event} hook {hook.shown}: its matcher {hook.matcher!r}"
                f" matches no {kind} here; it never runs"
            )


def _kind(hook: "Hook") -> str:
    if hook.guards:
        return "guard"
    return "in the background" if hook.background else "watches"


def _file_of(origin: str) -> str:
    path, _, line = origin.rpartition(":")
    return paths.shown(path if line.isdecimal() else origin)


def covers(call: ToolCall, written: str, reach: Reach) -> bool:
    """Return whether the permission rule *written* covers *call*.

    In doubt it does: running a guard too often is safer than not running it.
    """
    try:
        rule = parse_rule(written)
        if call.name != COMMAND_TOOL or rule.text is None:
            return touches(rule, call.name, called_paths(call, (), reach.root), reach.root)
        if not rule.names(COMMAND_TOOL):
            return False
        from agent_cli.policies import shell  # with the first command

        rules = shell.CommandRules(ask=[shell.command_rule(rule.text)])
        judged = shell.judge(command_of(call), rules, reach)
        return judged.rule == rule.text or judged.construct is not None
    except AgentCliError:
        return True
