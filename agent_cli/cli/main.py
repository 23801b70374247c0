"""The command line: choose the command, return the exit code. Imports little."""

import errno
import fcntl
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from agent_cli.app.arguments import (
    Arguments,
    help_text,
    parse_arguments,
)
from agent_cli.app.option_table import CHOOSE_SESSION
from agent_cli.contracts.errors import AgentCliError, SettingsError, shortage_of
from agent_cli.system.stop_signals import (
    Stopped,
    asks_for_json,
    exit_code_of,
    raised,
    unstarted,
)
from agent_cli.terminal.first_prompt import FIRST_PROMPT
from agent_cli.version import __version__

_STDOUT: Final = 1
_STDERR: Final = 2
# One run with three tools takes 15; servers, subagents and commands take more.
_OPEN_FILES_MIN: Final = 32


def run(argv: Sequence[str]) -> int:
    """Run *argv* and return the exit code; a failure is one sentence on stderr."""
    try:
        _ready_streams()
    except FileNotFoundError as error:  # a chroot without /dev
        return _complain(
            AgentCliError(
                f"{error.filename} is missing, and one of stdin, stdout and stderr is closed: mount"
                " /dev here, or open all three"
            )
        )
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        # A byte that a C locale cannot show must not end the program.
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]  # TextIO lacks it
    try:
        exit_code = _run(parse_arguments(argv))
        sys.stdout.flush()
    except AgentCliError as error:
        return _ended(argv, _complain(error), error=error)
    except (KeyboardInterrupt, Stopped) as stop:
        exit_code = stop.code if isinstance(stop, Stopped) else exit_code_of(signal.SIGINT)
        return unstarted(argv, exit_code)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EPIPE) or _is_refused(error):
            return _unwritten(error)
        if not (isinstance(error, PermissionError) and error.filename):
            return _bug(argv, error)
        # Settings or state are unreadable: `sudo -u` leaves another user's home directory in HOME,
        # and containers leave folders of root in a workspace.
        locked = (
            f"{error.filename} is out of reach ({error.strerror}): make it readable, or set HOME to"
            " a folder of yours"
        )
        return _ended(argv, _complain(SettingsError(locked)))
    except Exception as error:  # users have no use for a traceback
        if (stopped_with := raised()) is not None:
            return unstarted(argv, stopped_with)
        return _bug(argv, error)
    return exit_code


def _bug(argv: Sequence[str], error: Exception) -> int:
    """Report *error*, with its place if it is a bug or a damaged installation.

    Returns:
        The exit code.
    """
    if shortage := shortage_of(error):
        lacking = AgentCliError(shortage)
        return _ended(argv, _complain(lacking), error=lacking)
    if "--verbose" in argv:
        raise error
    raised_in = error.__traceback__
    while raised_in and raised_in.tb_next:
        raised_in = raised_in.tb_next
    where = f" ({raised_in.tb_frame.f_code.co_filename}:{raised_in.tb_lineno})" if raised_in else ""
    exit_code = _complain(
        AgentCliError(
            f"internal error: {type(error).__name__}: {error}{where}; install agent-cli again, or"
            " report what --verbose shows"
        )
    )
    with suppress(Exception):  # The code that builds the result may itself be damaged.
        _ended(argv, exit_code)
    return exit_code


def _ended(argv: Sequence[str], exit_code: int, *, error: AgentCliError | None = None) -> int:
    """Return *exit_code*; the JSON formats print a result first, because readers wait for it."""
    if asks_for_json(argv):
        from agent_cli.headless.report import RunReport, to_line  # rare

        report = RunReport.of_failure(error) if error else RunReport()
        report.exit_code = exit_code
        with suppress(OSError):  # The reader is gone, or stdout was closed.
            print(to_line(report.to_json()), flush=True)
    return exit_code


def _is_refused(error: OSError) -> bool:
    """Return whether *error* is that of a write to a stdout that the caller closed."""
    return error.errno == errno.EBADF and not _is_open(_STDOUT)


def _unwritten(error: OSError) -> int:
    """Return the exit code when stdout could not be written."""
    from agent_cli.terminal.writer import STDOUT_CLOSED_EXIT_CODE, silence  # rare

    silence(sys.stdout)  # otherwise Python reports it again at exit
    if error.errno == errno.EPIPE:
        return STDOUT_CLOSED_EXIT_CODE
    if error.errno == errno.EBADF:
        return _complain(AgentCliError("stdout is closed: the answer cannot be written"))
    return _complain(AgentCliError("the disk is full: the answer cannot be written"))


def _ready_streams() -> None:
    """Make the standard streams open, in their direction, and blocking, as reads and prints expect.

    With one closed by the caller (`>&-`), the next file would get its number. A write to a stdout
    closed so still fails, so that the exit code says that nobody got the answer. A caller such as
    Node may share a pipe that never waits: a read is empty, and a write fails once it is full.
    """
    for each in range(_STDERR + 1):
        if not _is_open(each):
            empty = os.open(os.devnull, os.O_RDONLY if each == _STDOUT else os.O_RDWR)
            os.dup2(empty, each)
            if empty != each:
                os.close(empty)
        os.set_blocking(each, True)
    sys.stdin = sys.stdin or os.fdopen(0)
    sys.stdout = sys.stdout or os.fdopen(_STDOUT, "w")
    sys.stderr = sys.stderr or os.fdopen(_STDERR, "w")


def _is_open(stream: int) -> bool:
    """Return whether the standard *stream* can be read, if it is the input, or else written."""
    try:
        access = fcntl.fcntl(stream, fcntl.F_GETFL) & os.O_ACCMODE
    except OSError:
        return False
    return access != (os.O_WRONLY if stream == 0 else os.O_RDONLY)


def _run(arguments: Arguments) -> int:
    match arguments.command:
        case "version":
            print(f"agent-cli {__version__}")
            return 0
        case "help":
            print(help_text(*arguments.operands[:1]), end="")
            return 0
        case _:
            _require_open_files()
            _require_home()
            if _opens_a_screen(arguments):
                FIRST_PROMPT.show()
            from agent_cli.system.loading import without_collections

            with without_collections():  # half of the start-up time
                from agent_cli.cli.dispatch import COMMANDS
            from pathlib import Path

            from agent_cli.system.programs import shield_path

            with suppress(OSError):  # The folder is gone, which is reported later.
                shield_path(Path.cwd())
            return COMMANDS[arguments.command](arguments)


def _require_open_files() -> None:
    """Raise `AgentCliError` if the shell lets a program open so few files that some calls fail.

    Each would fail somewhere else: an import, a session that is no longer saved, a question of the
    sandbox that is declined.
    """
    limit = os.sysconf("SC_OPEN_MAX")  # -1 without one
    if 0 <= limit < _OPEN_FILES_MIN:
        raise AgentCliError(
            f"a program may open only {limit} files at once here, and agent-cli needs"
            f" {_OPEN_FILES_MIN}: raise the limit of your shell (`ulimit -n 256`)"
        )


def _require_home() -> None:
    """Raise `SettingsError` if neither HOME nor the system's users name a home folder.

    So it is in a container that runs as a user id of its own.
    """
    if os.path.expanduser("~").startswith("~"):  # noqa: PTH111 - pathlib raises
        raise SettingsError(
            f"HOME is not set, and user {os.getuid()} has no home folder here: set HOME to a folder"
            " of yours"
        )


def _opens_a_screen(arguments: Arguments) -> bool:
    """Return whether the REPL starts with a prompt, not a session list or a prompt file."""
    is_session = arguments.command == "repl" and arguments.prompts_from is None
    return is_session and arguments.resume != CHOOSE_SESSION


def _complain(error: AgentCliError) -> int:
    """Print *error* on stderr and return its exit code."""
    from agent_cli.terminal.writer import print_complaint  # rare

    FIRST_PROMPT.take_away()
    print_complaint(str(error))
    return error.exit_code
