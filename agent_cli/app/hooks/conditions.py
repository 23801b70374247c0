"""Evaluate the `if` of a hook, a permission rule, for a call."""

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
