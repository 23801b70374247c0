"""What a shell command would do, told from its text: for permissions, before it runs.

    judgement = judge("cat a.txt | sort", CommandRules(), Place(root=root))
    judgement.verdict, judgement.reason      # "allow", "only reads"

Two opposite questions are kept apart. What may run unasked must be understood wholly (`plain`,
`read_only`); what a rule forbids is looked for everywhere (`readings`, `rules`). Text never shows
all that a program does: a rule that denies is a guard rail, the sandbox is the wall.
"""

from agent_cli.policies.shell.judgement import CommandRules, Judgement, ShellVerdict, judge
from agent_cli.policies.shell.place import Place
from agent_cli.policies.shell.plain import SimpleCommand, Unknown, parse, simple_commands
from agent_cli.policies.shell.prefixes import session_prefixes
from agent_cli.policies.shell.readings import programs
from agent_cli.policies.shell.rules import CommandRule, command_rule

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
    "programs",
    "session_prefixes",
    "simple_commands",
]
