"""Run one command so that no process it starts outlives it, or outlives us, however we die.

A process that gets SIGKILL cannot clean up. So each command runs below this small program, which
waits for three events: the command ends, the caller (the process that started us) ends, or standard
input ends, after which the command has a moment to end by itself. Then it kills all remaining
processes. It copies no data: the command inherits standard input, output and error. The exit status
is the command's, or 128 + N after signal N.

There are two supervising processes, and each cleans up after the other, because the caller may kill
the one it started (asyncio does, when a loop closes):

    caller ──── outer    passes on requests to end; cleans up after the inner one
                └─ inner     asks the command to end, then kills it; cleans up at the end
                   └─ command     leads a process group of its own

The new interpreter imports this file alone, and of the standard library only what costs little:
each hook and each MCP server waits for that. The rest of the program imports nothing but
`supervised`. Needs POSIX. Two things are reliable on Linux only, and best effort elsewhere:
noticing the caller's end at once, and catching processes that left the command's group.
"""

# ruff: noqa: SIM105 - contextlib takes a fifth of this program's start

import os
import select
import sys
import time

# Neither typing nor what only annotations name is imported, nor the enumerations of `signal`: they
# would take a third of the start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Iterator, Sequence
else:
    import _signal as signal

GRACE_S = 0.5
"""Time from the request to end until SIGKILL; a parent must wait longer before it kills us."""

_STDIN_GRACE_S = 1.0  # servers end when their stdin ends
_SWEEP_S = 1.0
_POLL_MS = 200
_NEVER = float("inf")
_STOP_SIGNALS = frozenset({signal.SIGTERM, signal.SIGHUP, signal.SIGINT})
_STDIN, _STDOUT = 0, 1
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def supervised(command: "Sequence[str]") -> list[str]:
    """Return the command line that runs *command* below a supervisor of this process.

    Only the calling process may start it: the supervisor watches for the end of its parent.
    """
    # Imported, not run by its path: Python keeps the compiled file of a module only.
    start = f"import sys; sys.path.append({os.path.dirname(__file__)!r}); import supervisor; "  # noqa: PTH120
    start += "sys.exit(supervisor.main(sys.argv[1:]))"
    return [sys.executable, "-I", "-S", "-c", start, str(os.getpid()), *command]


def main(arguments: "Sequence[str]") -> int:
    """Run the command in *arguments* (after our parent's id) and return the exit status."""
    parent, command = int(arguments[0]), list(arguments[1:])
    outer = os.getpid()

    def inner() -> int:
        return _supervise(outer, lambda: _become(command), GRACE_S, releases=(_STDOUT,))

    # Only the inner one watches standard input, or both would ask the command to end.
    return _supervise(parent, inner, GRACE_S + 2 * _SWEEP_S, releases=(_STDIN, _STDOUT))


def _supervise(
    parent: int, main: "Callable[[], int]", grace_s: float, *, releases: "Sequence[int]"
) -> int:
    """Run *main* in a child until it, or *parent*, ends; return its exit status.

    Args:
        parent: The process that started us; the child is asked to end when it is gone.
        main: Returns the child's exit status.
        grace_s: Seconds from the request to end until the child is killed.
        releases: Standard streams that only the child keeps.
    """
    signals = _signal_pipe()
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    if os.getppid() != parent:
        return 128 + signal.SIGKILL
    child = _start(main)
    for stream in releases:  # else our copy would keep it open
        os.dup2(os.open(os.devnull, os.O_RDWR), stream)
    try:
        status = _wait(child, parent, signals, grace_s)
    finally:
        _kill_rest(child)
    return _shell_code(status)


def _shell_code(status: int) -> int:
    """Return the exit code for a wait status as a shell counts it."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _signal_pipe() -> int:
    """Return a descriptor that yields one byte per signal, its number."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in (*_STOP_SIGNALS, signal.SIGCHLD):
        # The handler does nothing: the number arrives through the pipe.
        signal.signal(number, lambda _number, _frame: None)
    return reading


def _start(main: "Callable[[], int]") -> int:
    """Run *main* in a child with a process group of its own and return its process id."""
    child = os.fork()
    if child == 0:
        status = 127
        try:
            _lead_group(0)
            status = main()
        finally:
            os._exit(status)
    # Both processes set it, so that it is set whichever runs first.
    _lead_group(child)
    return child


def _lead_group(pid: int) -> None:
    try:
        os.setpgid(pid, pid)
    except OSError:
        pass


def _become(command: list[str]) -> int:
    """Become *command*; if that fails, write the reason to stderr."""
    # If the supervisor itself is killed, at least the command ends too.
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # Python ignores these two signals, and ignored signals stay ignored across exec.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        os.write(2, f"cannot start {command[0]}: {error}\n".encode(errors="replace"))
    return 127


def _wait(child: int, parent: int, signals: int, grace_s: float) -> int:
    """Wait for *child*, passing on requests to end; return its wait status."""
    ends, idle_ms = _ends(parent, signals)
    ask_at = kill_at = _NEVER
    while True:
        # Read signals before reaping: a SIGCHLD read after that would not wake the poll again.
        requested = _stop_signals(signals)
        if (status := _reap(child)) is not None:
            return status
        now = time.monotonic()
        if kill_at == _NEVER and (os.getppid() != parent or now >= ask_at):
            requested.append(signal.SIGTERM)
        for number in requested:
            _signal_group(child, number)
        if requested:
            kill_at = min(kill_at, now + grace_s)
        if now >= kill_at:
            _signal_group(child, signal.SIGKILL)
            os.kill(child, signal.SIGKILL)
        for end, _ in ends.poll(idle_ms if ask_at == kill_at == _NEVER else _POLL_MS):
            if end == _STDIN:
                ask_at = time.monotonic() + _STDIN_GRACE_S
            if end != signals:
                ends.unregister(end)  # it stays readable, and once is enough


def _ends(parent: int, signals: int) -> tuple[select.poll, int | None]:
    """Return the poll object for signals and ends, and its timeout in ms (None: no limit)."""
    ends = select.poll()
    ends.register(signals, select.POLLIN)
    ends.register(_STDIN, 0)  # only for its end: the data is for the command
    try:
        # Not PR_SET_PDEATHSIG: it fires when the *thread* of the parent that started us ends.
        ends.register(os.pidfd_open(parent), select.POLLIN)
    except (AttributeError, OSError):
        return ends, _POLL_MS
    return ends, None


def _stop_signals(signals: int) -> list[int]:
    """Return the requests to end that arrived since the last call, in order."""
    try:
        return [number for number in os.read(signals, 4096) if number in _STOP_SIGNALS]
    except BlockingIOError:
        return []


def _reap(child: int) -> int | None:
    """Reap every process that ended; return the wait status of *child* if it is among them."""
    found = None
    try:
        while (ended := os.waitpid(-1, os.WNOHANG))[0] != 0:
            if ended[0] == child:
                found = ended[1]
    except ChildProcessError:
        pass
    return found


def _kill_rest(group: int) -> None:
    """Kill all processes that the command left, in any group, until we have no children."""
    deadline = time.monotonic() + _SWEEP_S
    while time.monotonic() < deadline:
        _signal_group(group, signal.SIGKILL)
        for pid in _children():
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        # We are their subreaper: a process that loses its parent is our child in the next round.
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.002)
        except ChildProcessError:
            return


def _children() -> "Iterator[int]":
    """Yield the process ids of our children; none without /proc."""
    # No pathlib: its import would take a quarter of this program's start-up time.
    names = os.listdir("/proc") if os.path.isdir("/proc") else []  # noqa: PTH112, PTH208
    for pid in filter(str.isdigit, names):
        try:
            with open(f"/proc/{pid}/stat", "rb") as stat:  # noqa: PTH123
                # The name, in parentheses, may have any characters; the parent is two fields on.
                fields = stat.read().rpartition(b")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == os.getpid():
            yield int(pid)


def _signal_group(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        pass


def _prctl(option: int, value: int) -> None:
    """Set a process attribute of Linux; elsewhere do nothing."""
    if sys.platform != "linux":
        return
    # Imported here, so that importing this module does not load libffi.
    import ctypes

    try:
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
    except (OSError, AttributeError):
        pass
