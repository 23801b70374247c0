"""Run every test as if on a new machine: empty home, no settings, no keys, no internet."""

import contextlib
import faulthandler
import functools
import gc
import ipaddress
import itertools
import math
import os
import re
import shutil
import signal
import socket
import sys
import time
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import hypothesis
import pytest
from _pytest import faulthandler as pytest_faulthandler

from agent_cli.system import programs
from agent_cli.system.stop_signals import STOP_SIGNALS
from tests.fork_server import count_launchers, prepare_less, skip_syncs
from tests.forked import importer_pids, server_pids
from tests.launcher_server import fork_launchers, launcher_server, running_launchers
from tests.worker_server import fork_workers

# Variables that change the program or its libraries, so that tests would differ by machine.
SETTINGS_PREFIXES = (
    *("ANTHROPIC_", "AGENT_CLI_", "CLAUDE_", "XDG_", "GIT_", "OTEL_", "PIP_"),
    *("AWS_", "BOTO_", "GOOGLE_", "GCE_", "GCLOUD_", "CLOUD_ML_", "AZURE_", "IDENTITY_"),
)
SETTINGS_NAMES = {
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
    *("NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLORTERM", "CI"),
    *("COLUMNS", "LINES", "EDITOR", "VISUAL", "PAGER"),
    "PYTHONDONTWRITEBYTECODE",  # every program a test starts would recompile our modules
    "PYTHONOPTIMIZE",  # scripts that tests start assert
}
CHILDREN_GRACE_S = 60.0
CHILDREN_SOON_S = 0.2
FREEZE_EVERY = 250  # tests

ENDED = itertools.count(1)
# How many folders of tests there are, by the beginning of the test's name.
FOLDERS = Counter[str]()
LIMITED_SINCE_S = pytest.StashKey[float]()
# What the test tried to reach.
REFUSED: list[str] = []

Address: TypeAlias = Any  # each family of sockets has its own kind

# A busy machine may take any time for one example.
hypothesis.settings.register_profile(
    "any machine", hypothesis.settings.default, deadline=None, max_examples=25
)
# `make soak` takes this one.
hypothesis.settings.register_profile(
    "thorough", hypothesis.settings.get_profile("any machine"), max_examples=1_000
)
hypothesis.settings.load_profile("any machine")


def pytest_configure() -> None:
    """Have launchers forked, or counted by `make coverage`; have less prepared; sync no file.

    Replace pytest's own limit of a test's time, for which it starts and ends a thread: a seventh of
    what each test costs.
    """
    setattr(pytest_faulthandler, "get_timeout_config_value", lambda _config: 0.0)  # noqa: B010 - for mypy
    count_launchers()
    prepare_less(setattr)
    skip_syncs(setattr)
    fork_launchers(lambda: launcher_server()[1])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config, specs: Sequence[Any]) -> None:
    """Have the tests collected once for all workers."""
    fork_workers(config, specs)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Keep the garbage collector off what is collected: nearly all of it stays to the end.

    Looking through modules and tests takes two fifths of the time, which each worker spends. The
    tests' own objects are looked through seldom: a tenth of their time, nearly all for nothing.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
        gc.set_threshold(20_000)


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Refuse names that differ in each process: no worker of a run could then take its tests."""
    if named := next((item.nodeid for item in items if " at 0x" in item.nodeid), None):
        raise pytest.UsageError(f"{named}: an address names this row; give it another id")


@pytest.hookimpl(trylast=True)
def pytest_runtest_logfinish() -> None:
    """Keep it off what libraries keep of the tests so far, too.

    prompt_toolkit's filters alone keep each application. Looking through all that takes a second of
    a late worker, within whichever test measures its time.
    """
    if next(ENDED) % FREEZE_EVERY == 0:
        gc.collect()
        gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> None:
    """Limit the time of each test by `faulthandler_timeout`; it may end a tenth early."""
    limit_s = float(item.config.getini("faulthandler_timeout"))
    if time.monotonic() >= item.config.stash.get(LIMITED_SINCE_S, -math.inf) + limit_s / 10:
        _limit_time(item.config)


@pytest.hookimpl(trylast=True)
def pytest_exception_interact(node: pytest.Item | pytest.Collector) -> None:
    """Limit what follows a failure, too: pytest drops the limit there, for the sake of debuggers.

    The end of a test whose work cannot be cancelled would otherwise hang the run for ever. Nothing
    would end the limit of a module that cannot be imported.
    """
    if isinstance(node, pytest.Item):
        _limit_time(node.config)


def pytest_unconfigure() -> None:
    """End the limit with the tests."""
    faulthandler.cancel_dump_traceback_later()


def _limit_time(config: pytest.Config) -> None:
    """Begin the limit anew: at its end the process writes the stack of every thread, and ends."""
    if limit_s := float(config.getini("faulthandler_timeout")):
        exits = config.getini("faulthandler_exit_on_timeout")
        stderr = config.stash[pytest_faulthandler.fault_handler_stderr_fd_key]
        faulthandler.dump_traceback_later(limit_s, exit=exits, file=stderr)
        config.stash[LIMITED_SINCE_S] = time.monotonic()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--skips-max`, which continuous integration sets."""
    parser.addoption("--skips-max", type=int, help="fail when more tests than this are skipped")


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """List the skips beyond the limit: a check that runs on no machine guards nothing."""
    if is_over_limit(terminalreporter, config):
        skips = terminalreporter.stats["skipped"]
        limit = config.getoption("--skips-max")
        terminalreporter.section(f"{len(skips)} tests skipped, {limit} are allowed", red=True)
        reasons = Counter(skip.longrepr[2] for skip in skips)
        for reason, count in reasons.most_common():
            terminalreporter.line(f"{count:4}  {reason}")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run that skipped too many tests; workers of pytest-xdist have no reporter."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter and is_over_limit(reporter, session.config) and session.exitstatus == 0:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def is_over_limit(reporter: pytest.TerminalReporter, config: pytest.Config) -> bool:
    """Return whether more tests were skipped than `--skips-max` allows."""
    limit = config.getoption("--skips-max")
    return limit is not None and len(reporter.stats.get("skipped", ())) > limit


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """Do once what holds for every test of this process.

    Ignored signals are restored: a background shell ignores some, and children inherit that.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    _allow_loopback_only()
    config: Any = session.config  # pytest's own fixture alone may ask for this, at a price a test
    MACHINES.base = config._tmp_path_factory.getbasetemp()


class Machines:
    """Makes the folders of each test: its working directory, and beside it a home.

    What a test left as it was is renamed for the next: to make a folder may take thirty times as
    long, a third of a millisecond.
    """

    def __init__(self) -> None:
        self.base = Path()
        self._unused: list[tuple[Path, Path]] = []

    @contextlib.contextmanager
    def new(self) -> Generator[tuple[Path, Path]]:
        """Make the folder of the current test, of the name that pytest gives it, and a home.

        pytest looks for the number among the folders of all earlier tests: 5 ms after 3,000 of
        them.
        """
        test = os.environ["PYTEST_CURRENT_TEST"].partition("::")[2].removesuffix(" (setup)")
        name = re.sub(r"\W", "_", test)[:30]
        while True:
            folder = self.base / f"{name}{FOLDERS[name]}"
            FOLDERS[name] += 1
            if not folder.exists():  # "test_a" and 10 are "test_a1" and 0, too
                break
        places = folder, folder.with_name(f"{folder.name}-home")
        if self._unused:
            for before, now in zip(self._unused.pop(), places, strict=True):
                before.rename(now)
        else:
            folder.mkdir(mode=0o700)
            places[1].mkdir()
        new = [*map(_state, places)]
        yield places
        if [*map(_state, places)] == new and not any(map(os.listdir, places)):
            self._unused.append(places)


MACHINES = Machines()


def _state(folder: Path) -> Sequence[float]:
    """Return what differs once anything was done to a folder, as far as its clock can tell."""
    with contextlib.suppress(FileNotFoundError):
        found = folder.stat()
        return found.st_ino, found.st_mode, found.st_uid, found.st_gid, found.st_ctime_ns
    return ()


@pytest.fixture(autouse=True)
def _new_machine() -> Iterator[Path]:
    """Give the test a new machine; fail it if it tried to leave that, or left a process running.

    One fixture that asks for no other, because pytest's own work for each takes longer than that of
    most of them. Signal handlers are restored because a run keeps them for its process, which here
    is the test's. Other fixtures end first.
    """
    REFUSED.clear()
    with MACHINES.new() as (folder, home), _moved_in(folder, home):
        before = running_children()
        handlers = {number: signal.getsignal(number) for number in STOP_SIGNALS}
        yield folder
        for number, handler in handlers.items():
            signal.signal(number, handler)
        left = _end_children(before)
    faults = [f"the test left processes running: {left}"] if left else []
    if REFUSED:
        faults.append(f"the test tried to reach {', '.join(REFUSED)}")
    if faults:
        pytest.fail("; ".join(faults))


@pytest.fixture
def tmp_path(_new_machine: Path) -> Path:
    """Return the test's folder."""
    return _new_machine


@contextlib.contextmanager
def _moved_in(folder: Path, home: Path) -> Generator[None]:
    """Give the test an empty home; *folder* is the working directory."""
    wanted = {
        "HOME": str(home),
        "XDG_CONFIG_HOME": f"{home}/.config",
        "XDG_DATA_HOME": f"{home}/.local/share",
        "XDG_STATE_HOME": f"{home}/.local/state",
        "XDG_CACHE_HOME": f"{home}/.cache",
        "TERM": "xterm-256color",
        # The program changes the PATH of its process, which here is the test's.
        "PATH": path_with_python(),
    }
    unwanted = [
        name
        for name in os.environ
        if name.startswith(SETTINGS_PREFIXES) or name.upper() in SETTINGS_NAMES
    ]
    before = {name: os.environ.pop(name, None) for name in {*unwanted, *wanted}}
    os.environ.update(wanted)
    programs._USERS.path = None
    here = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(here)
        programs._USERS.path = None
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


@functools.cache
def path_with_python() -> str:
    """Return PATH, with a `python3` for hook scripts: a machine may have `python3.14` alone.

    A script in its place, such as pyenv's, starts twenty programs to find the interpreter.
    """
    path = os.environ.get("PATH", os.defpath)
    found = shutil.which("python3", path=path)
    if not found:
        return os.pathsep.join([path, str(Path(sys.executable).parent)])
    with Path(found).open("rb") as program:
        is_script = program.read(2) == b"#!"
    real = Path(sys.executable).resolve().parent
    return os.pathsep.join([str(real), path]) if is_script and (real / "python3").exists() else path


def _allow_loopback_only() -> None:
    """Refuse every connection that leaves this machine, and note it.

    The program turns a refused connection into a message, so the test asks at its end, too.
    """
    connect, connect_ex = socket.socket.connect, socket.socket.connect_ex
    resolve: Any = socket.getaddrinfo  # passed on unchanged; its overloads do not matter here

    def check(host: object) -> None:
        if not is_loopback(host):
            REFUSED.append(repr(host))
            raise ConnectionRefusedError(f"tests may not reach {host!r}, only this machine")

    def guarded_connect(self: socket.socket, address: Address) -> None:
        check(address[0] if isinstance(address, tuple) else None)
        connect(self, address)

    def guarded_connect_ex(self: socket.socket, address: Address) -> int:
        check(address[0] if isinstance(address, tuple) else None)
        return connect_ex(self, address)

    def guarded_resolve(host: object, *rest: Any, **named: Any) -> Any:
        check(host)
        return resolve(host, *rest, **named)

    for place, name, guarded in (
        (socket.socket, "connect", guarded_connect),
        (socket.socket, "connect_ex", guarded_connect_ex),
        (socket, "getaddrinfo", guarded_resolve),
    ):
        setattr(place, name, guarded)


def _end_children(before: dict[int, str]) -> Sequence[str]:
    """Kill the processes started since *before*, after a wait; return their command lines."""
    ended = time.monotonic()
    # An unclosed workspace is released with the test's objects. Old ones come last: looking through
    # them takes a second of a worker that ran many tests.
    left = _without(before, running_children())
    for generation, limit_s in ((1, CHILDREN_SOON_S), (2, CHILDREN_GRACE_S)):
        if left:
            gc.collect(generation)
            left = _without(before, running_children())
        while left and time.monotonic() < ended + limit_s:
            time.sleep(0.01)
            left = _without(before, running_children())
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return [*left.values()]


def is_loopback(host: object) -> bool:
    """Whether connecting to *host* stays on this machine; None stands for a local socket."""
    name = host.decode() if isinstance(host, bytes) else host
    if name in (None, "", "localhost"):
        return True
    try:
        return ipaddress.ip_address(str(name)).is_loopback
    except ValueError:
        return False


def running_children() -> dict[int, str]:
    """Return pid → command line of this process's children; empty where /proc does not list them.

    The servers that fork programs and launchers are not among them, but their forks for us are. A
    process that has ended does not count, reaped or not; one just starting does, and has no command
    line yet.
    """
    servers = server_pids()
    # Text, not paths: this runs three times for each test.
    pids = {int(child) for pid in ("self", *servers) for child in _children(pid)} - importer_pids()
    if launcher_server.cache_info().currsize:
        pids = (pids | running_launchers()) - {launcher_server()[0]}
    return {
        pid: _read(Path(f"/proc/{pid}/cmdline")).replace("\0", " ") for pid in pids if _runs(pid)
    }


def _children(pid: object) -> Iterator[str]:
    """Yield the children of each thread of a process."""
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - for speed
            with (
                contextlib.suppress(OSError),
                open(f"/proc/{pid}/task/{thread}/children") as children,  # noqa: PTH123 - as above
            ):
                yield from children.read().split()


def _runs(pid: int) -> bool:
    # "pid (name) state ...": the name may contain anything, so split after the last ")".
    return _read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()[:1] not in ([], ["Z"], ["X"])


def _without(before: dict[int, str], now: dict[int, str]) -> dict[int, str]:
    return {pid: command for pid, command in now.items() if pid not in before}


def _read(path: Path) -> str:
    """Return a file of /proc; "" if its thread or process is gone by now."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
