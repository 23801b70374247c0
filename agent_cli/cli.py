"""The command line: which command, which exit code. Quick where nothing is to be done."""

import sys
from collections.abc import Sequence

from agent_cli.arguments import Arguments, help_text, parse_arguments
from agent_cli.errors import AgentCliError, SettingsError, UsageError
from agent_cli.version import __version__


def run(argv: Sequence[str]) -> int:
    """Do what *argv* says and return the exit code; a failure is one sentence on stderr."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        # A byte that a C locale cannot show must not end the program.
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]  # TextIO lacks it
    try:
        return _run(parse_arguments(argv))
    except (UsageError, SettingsError) as error:
        return _complain(error, 2)
    except AgentCliError as error:
        return _complain(error, 1)
    except KeyboardInterrupt:
        return 130


def _run(arguments: Arguments) -> int:
    match arguments.command:
        case "version":
            print(f"agent-cli {__version__}")
            return 0
        case "help":
            print(help_text(), end="")
            return 0
        case _:
            from agent_cli.commands import COMMANDS  # noqa: PLC0415 - half of the start-up time

            return COMMANDS[arguments.command](arguments)


def _complain(error: AgentCliError, exit_code: int) -> int:
    print(f"agent-cli: {error}", file=sys.stderr)
    return exit_code
