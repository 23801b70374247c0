"""The command line: which command, which exit code. Quick where nothing is to be done."""

import errno
import os
import sys
from collections.abc import Sequence
from typing import Final

from agent_cli.arguments import Arguments, help_text, parse_arguments
from agent_cli.errors import AgentCliError, SettingsError, UsageError
from agent_cli.version import __version__

_STDERR: Final = 2


def run(argv: Sequence[str]) -> int:
    """Do what *argv* says and return the exit code; a failure is one sentence on stderr."""
    _open_what_is_closed()
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        # A byte that a C locale cannot show must not end the program.
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]  # TextIO lacks it
    try:
        exit_code = _run(parse_arguments(argv))
        sys.stdout.flush()
    except (UsageError, SettingsError) as error:
        return _complain(error, 2)
    except AgentCliError as error:
        return _complain(error, 1)
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or Python complains of it again at its end
        return _complain(AgentCliError("the disk is full: the answer cannot be written"), 1)
    return exit_code


def _open_what_is_closed() -> None:
    """Open what was closed before our start (`>&-`): the next file would get its number."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
        pass
    os.close(descriptor)
    sys.stdin = sys.stdin or os.fdopen(0)
    sys.stdout = sys.stdout or os.fdopen(1, "w")
    sys.stderr = sys.stderr or os.fdopen(_STDERR, "w")


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
