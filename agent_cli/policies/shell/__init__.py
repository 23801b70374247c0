"""What a shell command would do, told from its text: for permissions, before it runs.

    judgement = judge("cat a.txt | sort", CommandRules(), Place(root=root))
    judgement.verdict, judgement.reason      # "allow", "only reads"

Two opposite questions are kept apart. What may run unasked must be understood wholly (`plain`,
`read_only`); what a rule forbids is looked for everywhere (`readings`, `rules`). Text never shows
all that a program does: a rule that denies is a guard rail, the sandbox is the wall.

The names are imported when first used: the first request does not wait for what judges commands.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent_cli.policies.shell.judgement import CommandRules as CommandRules
    from agent_cli.policies.shell.judgement import Judgement as Judgement
    from agent_cli.policies.shell.judgement import ShellVerdict as ShellVerdict
    from agent_cli.policies.shell.judgement import judge as judge
    from agent_cli.policies.shell.place import Place as Place
    from agent_cli.policies.shell.plain import SimpleCommand as SimpleCommand
    from agent_cli.policies.shell.plain import Unknown as Unknown
    from agent_cli.policies.shell.plain import parse as parse
    from agent_cli.policies.shell.plain import simple_commands as simple_commands
    from agent_cli.policies.shell.prefixes import session_prefixes as session_prefixes
    from agent_cli.policies.shell.rules import CommandRule as CommandRule
    from agent_cli.policies.shell.rules import command_rule as command_rule

# Only names that no module here has: an imported module would hide the function.
_HOMES = {
    **dict.fromkeys(("CommandRules", "Judgement", "ShellVerdict", "judge"), "judgement"),
    "Place": "place",
    **dict.fromkeys(("SimpleCommand", "Unknown", "parse", "simple_commands"), "plain"),
    "session_prefixes": "prefixes",
    **dict.fromkeys(("CommandRule", "command_rule"), "rules"),
}

__all__ = [
    "CommandRule",
    "CommandRules",
    "Judgement",
    "Place",
    "ShellVerdict",
    "SimpleCommand",
    "Unknown",
    "command_rule",
    "judge",
    "parse",
    "session_prefixes",
    "simple_commands",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
