"""Static analysis of shell commands for permission decisions.

    judgement = judge("cat a.txt | sort", CommandRules(), Reach(root=root))
    judgement.verdict, judgement.reason      # "allow", "only reads"

Two opposite questions are kept apart. A command that runs without approval must be understood
completely (`plain`, `read_only`); a command that a rule forbids is searched for everywhere
(`readings`, `rules`). Text never shows everything that a program does: deny rules are a guard rail,
the sandbox is the wall.

The names are imported on first use, so that the first request does not wait for the parser.
"""

from typing import TYPE_CHECKING

from agent_cli.system.loading import lazy_names

if TYPE_CHECKING:
    from agent_cli.policies.shell.judgement import CommandRules as CommandRules
    from agent_cli.policies.shell.judgement import Judgement as Judgement
    from agent_cli.policies.shell.judgement import ShellVerdict as ShellVerdict
    from agent_cli.policies.shell.judgement import judge as judge
    from agent_cli.policies.shell.plain import SimpleCommand as SimpleCommand
    from agent_cli.policies.shell.plain import Unknown as Unknown
    from agent_cli.policies.shell.plain import parse as parse
    from agent_cli.policies.shell.plain import simple_commands as simple_commands
    from agent_cli.policies.shell.reach import Reach as Reach
    from agent_cli.policies.shell.rules import CommandRule as CommandRule
    from agent_cli.policies.shell.rules import command_rule as command_rule
    from agent_cli.policies.shell.rules import session_prefixes as session_prefixes

_HOMES = {
    **dict.fromkeys(("CommandRules", "Judgement", "ShellVerdict", "judge"), "judgement"),
    "Reach": "reach",
    **dict.fromkeys(("SimpleCommand", "Unknown", "parse", "simple_commands"), "plain"),
    "session_prefixes": "rules",
    **dict.fromkeys(("CommandRule", "command_rule"), "rules"),
}

__all__ = [
    "CommandRule",
    "CommandRules",
    "Judgement",
    "Reach",
    "ShellVerdict",
    "SimpleCommand",
    "Unknown",
    "command_rule",
    "judge",
    "parse",
    "session_prefixes",
    "simple_commands",
]

__getattr__ = lazy_names(__name__, _HOMES)
