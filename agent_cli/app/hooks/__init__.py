"""Lifecycle hooks: which are defined, in lines for a person, and their `if`, a permission rule."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from agent_cli.app.mcp import inherited_environment
from agent_cli.app.startup import StartupContext
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

_LOST = (
    "a guard in {} changed after you trusted it; `agent-cli trust` trusts it again,"
    " `agent-cli trust --revoke` does without it"
)
_UNTRUSTED = (
    "it runs a file of this workspace, which is not trusted; `agent-cli trust` or --trust"
    " changes that"
)


def defined_hooks(startup: StartupContext) -> "tuple[list[Hook], list[str]]":
    """Return the hooks of workspace, user and Python program, and a sentence for each problem."""
    from agent_cli.hooks.definition import HookGroup, parse_hooks

    written = startup.loaded.hooks
    groups = [
        HookGroup(each.event, each.group, each.origin, each.from_project, each.root, each.variables)
        for each in written
    ]
    hooks, problems = parse_hooks(groups)
    allowed = [_allowed(hook, startup) for hook in hooks]
    return [*startup.hooks, *allowed, *map(_lost, startup.lost_guards)], problems


def _lost(file: str) -> "Hook":
    """Return a guard that blocks, to replace a trusted guard that changed."""
    from agent_cli.hooks.definition import Hook

    return Hook(event="PreToolUse", origin=file, is_project=True, fault=_LOST.format(file))


def hook_problems(startup: StartupContext) -> "Iterator[tuple[Hook, str]]":
    """Yield each hook with the reason it cannot run, as far as it is known, or ""."""
    from agent_cli.hooks.run import HookEnvironment, problem_of

    around = HookEnvironment(startup.workspace, environment_of_hooks(startup))
    for hook in defined_hooks(startup)[0]:
        yield hook, problem_of(hook, around)


def _allowed(hook: "Hook", startup: StartupContext) -> "Hook":
    """Return *hook*, marked as faulty if it would run a file of an untrusted workspace."""
    from agent_cli.settings.hook_files import scripts_of_command

    is_held = startup.guarded and hook.is_project
    if startup.trusted or is_held or hook.fault or not hook.command:
        return hook
    runs_strangers = scripts_of_command(hook.command, hook.args, startup.workspace)
    return replace(hook, fault=_UNTRUSTED) if runs_strangers else hook


def hook_scripts(startup: StartupContext) -> tuple[Path, ...]:
    """Return the workspace files that hooks run: changing one may disable a guard."""
    if not startup.loaded.hooks:
        return ()
    from agent_cli.settings.hook_files import all_scripts_of

    return all_scripts_of(startup.loaded.hooks, startup.workspace)


def environment_of_hooks(startup: StartupContext) -> dict[str, str]:
    """Return the environment of hooks; it keeps Python from importing an untrusted workspace."""
    safe = {} if startup.trusted or startup.guarded else {"PYTHONSAFEPATH": "1"}
    return {**inherited_environment(startup), **safe}


def overview(hooks: "Sequence[Hook]") -> str:
    """Return one line: the number of hooks and guards, and their origins.

    It gives the fault of a guard that cannot be used and therefore blocks.
    """
    active = [hook for hook in hooks if not hook.fault]
    guards = sum(hook.guards for hook in active)
    origins = ", ".join(dict.fromkeys(_file_of(hook.origin) for hook in active))
    faults = dict.fromkeys(hook.fault for hook in hooks if hook.fault and hook.guards)
    count = f"{len(active)} active (guards: {guards}), from {origins}" if active else "none active"
    return "; ".join([f"hooks: {count}", *(f"calls are blocked: {fault}" for fault in faults)])


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
    """Return a sentence about the wait for *hook*, with its limit."""
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
