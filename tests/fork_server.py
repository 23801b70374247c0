"""Run our programs as forks of one process that has imported everything: see tests/forked.py.

    python -P fork_server.py DESCRIPTOR

Each connection to the socket DESCRIPTOR asks for a server, which is a fork too: the workers of a
run share the imports. It sends one or two sockets, and the address of the server that forks the
programs' launchers: see tests/launcher_server.py. Each message on the first socket orders one
program, and each connection to the second another one: see tests/as_fork.py. A program runs in a
child that looks like a new process: streams, environment, directory, arguments, and a terminal if
it gets one. Only the imports are inherited, so everything the server opens or sets for itself is
undone in the child.
"""

import atexit
import contextlib
import ctypes
import fcntl
import functools
import gc
import importlib
import itertools
import json
import os
import pkgutil
import random
import runpy
import select
import signal
import socket
import struct
import sys
import sysconfig
import tempfile
import termios
import threading
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    MutableSequence,
    Sequence,
    Set,
)
from pathlib import Path
from typing import NamedTuple, NoReturn, TypeAlias

from prompt_toolkit.application import application
from prompt_toolkit.key_binding.defaults import load_key_bindings
from pydantic import BaseModel

from agent_cli.app import preparations
from agent_cli.app.preparations import REPLY_MODULES, TOOL_MODULES
from agent_cli.contracts.late_models import building, input_schema
from agent_cli.plugins import facts
from agent_cli.sandbox import Sandbox, SandboxPolicy
from agent_cli.sandbox.acting import note_imports
from agent_cli.sandbox.backends import Backend
from agent_cli.sandbox.secret_files import is_secret
from agent_cli.system import launching, loading, records
from tests.launcher_server import fork_launchers

HEADER = struct.Struct("!I")
# Of the address where launchers come from.
ADDRESS_BYTES = 128
# The three streams, and a pipe for the exit code.
DESCRIPTORS = 4
DESCRIPTORS_MAX = 1_024
LATE_S = 1.0
JSON_KINDS = (Collection, Iterable, Mapping, MutableMapping, MutableSequence, Sequence, Set)
JSON_VALUES: list[object] = [None, True, 1, 1.0, "", [], {}, ()]
# Of <linux/mman.h>, since Linux 6.1: older ones refuse, as does one with larger pages.
MADV_COLLAPSE = 25
PAGE_BYTES = 2 * 1024 * 1024
GIT_LIMIT_S = 60.0
REMOVAL_LIMIT_S = 60.0
# Libraries that are imported lazily on first use: a quarter of a run's time.
ON_FIRST_USE = (
    "anyio._backends._asyncio",
    "anyio.streams.tls",
    "encodings.utf_8_sig",
    "httpcore2",
    "mcp.server.mcpserver",
    "pypdf",
    "rich.traceback",
    "structlog",
    "truststore",
)

_key_bindings = functools.cache(load_key_bindings)

Replace: TypeAlias = Callable[[object, str, object], None]
"""Replaces an attribute, as `setattr`."""
Tried: TypeAlias = tuple[str, Path | None, bool]
"""A sandbox: its state and program, and whether it has a network."""

# `make coverage`: the launcher starts without site-packages and without an environment.
COUNTED = """
import os, sys
os.environ.update({variables!r})
sys.path.append({packages!r})
import coverage
coverage.process_startup()
"""


class Order(NamedTuple):
    """One program to run.

    `fresh` replaces the fork by the command, any command; otherwise the command begins with a
    Python script, which runs with the modules already imported.
    """

    command: list[str]
    environment: dict[str, str]
    directory: str
    in_terminal: bool
    fresh: bool


def main() -> None:
    """Import and serve; in a fork, be the program."""
    import_everything()
    try_sandboxes()
    rehearse()
    if sys.platform == "linux":
        use_large_pages()
    count_launchers()
    asked = fork_servers(socket.socket(fileno=int(sys.argv[1])))
    if asked is None:
        return
    (orders, *listeners), launchers = asked
    if listeners:
        fork_launchers(lambda: launchers)
    orders.sendall(HEADER.pack(os.getpid()))
    order = serve(orders, listeners)
    if order is None:
        _leave(0)
    if order.fresh:
        # Python ignores these signals, and an exec'd program would inherit that.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        os.execvpe(order.command[0], order.command, order.environment)
    code = 0
    try:
        run_script(order.command)
    except SystemExit as ended:
        if not isinstance(ended.code, int | None):
            raise
        code = ended.code or 0
    _leave(code)


def import_everything() -> None:
    """Import every module of ours and its dependencies; build the schemas of our tools."""
    gc.disable()  # What is imported stays: looking through it takes a sixth of the time.
    for package in map(importlib.import_module, ("agent_cli", "agent_cli_tools")):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    for name in (*ON_FIRST_USE, *REPLY_MODULES, *TOOL_MODULES):
        importlib.import_module(name)
    for _built in building():
        pass
    for model in _models():
        if model.__name__.endswith(("Parameters", "Input")):
            input_schema(model)
    # Each run would otherwise compile those of its records, a tenth of it, and its patterns.
    for each in gc.get_objects():
        if type(each) is records._Initializer:
            each.__get__(None, each._made)
        elif type(each) is loading._LatePattern:
            each.search  # noqa: B018 - compiles it
    # The answers are kept, and the first one asks each of 75 subclasses.
    for kind, value in itertools.product(JSON_KINDS, JSON_VALUES):
        isinstance(value, kind)
    # What a fork reads of each module is a page to copy.
    note_imports()
    allow_for_tests(setattr)
    skip_syncs(setattr)
    gc.collect()
    gc.freeze()
    gc.enable()


def allow_for_tests(replace: Replace) -> None:
    """Have programs prepare less, and wait longer than on a machine that is not busy."""
    prepare_less(replace)
    replace(facts, "_GIT_LIMIT_S", GIT_LIMIT_S)
    replace(preparations, "_REMOVAL_LIMIT_S", REMOVAL_LIMIT_S)


def prepare_less(replace: Replace) -> None:
    """Have programs do nothing ahead of a command or a late reply; most get neither."""
    # On a busy machine most servers of the tests take longer than that, and the programs would
    # prepare commands that never come: a third of their time.
    replace(preparations, "_REPLY_IS_LATE_S", LATE_S)
    # Most programs run no command, and the first one starts the launcher, too.
    replace(launching.Launcher, "start", lambda _self: None)
    share_key_bindings(replace)


def share_key_bindings(replace: Replace) -> None:
    """Have one set of prompt_toolkit's own key bindings for all applications, and so for all forks.

    It has 600, and each application makes them and wraps them twice: a tenth of a short session.
    """
    replace(application, "load_key_bindings", _key_bindings)


def skip_syncs(replace: Replace) -> None:
    """Have files only looked at where they would be written to the disk, milliseconds each.

    A killed program loses nothing. Only a loss of power would, and no test brings that about; one
    about what is synced, and when, puts its own function in this place.
    """
    replace(os, "fsync", os.fstat)


def use_large_pages() -> None:
    """Have the kernel join our pages to large ones, where it can.

    A fork copies the table of our 40,000 pages and drops it at its end: a fifth of a short run. Of
    large ones it copies 70, and splits those that it writes to.
    """
    advise = ctypes.CDLL(None).madvise
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, access, *_, name = line.split()
        begin, end = (int(each, 16) // PAGE_BYTES for each in span.split("-"))
        if access == "rw-p" and name in ("0", "[heap]"):  # of no file: its number comes last
            start, size = (begin + 1) * PAGE_BYTES, max(end - begin - 1, 0) * PAGE_BYTES
            advise(ctypes.c_void_p(start), ctypes.c_size_t(size), MADV_COLLAPSE)


def try_sandboxes() -> None:
    """Let the forks know which sandboxes hold, as the second start on a machine does.

    A try takes a fifth of a run. Only what holds here is known: the forks try anything else.
    """
    remember_sandboxes(setattr, set())
    with tempfile.TemporaryDirectory() as folder:
        home, root = Path(folder), Path(folder, "workspace")
        root.mkdir()
        policy = SandboxPolicy([root], home=home, own=[], is_secret=is_secret)
        sandbox = Sandbox(lambda: policy, mode="auto", state_dir=home / "state")
        sandbox.probe()
        sandbox.close()
    tempfile.tempdir = None  # each fork has its own


def rehearse() -> None:
    """Run the program: see tests/rehearsal.py. `make coverage` counts what the tests run alone."""
    if "COVERAGE_PROCESS_CONFIG" in os.environ:
        return
    with contextlib.suppress(Exception):  # a test tells what is wrong with the program
        importlib.import_module("tests.rehearsal").rehearse()
    tempfile.tempdir = None  # each fork has its own
    gc.collect()
    gc.freeze()


def remember_sandboxes(replace: Replace, held: set[Tried]) -> None:
    """Have the sandboxes in *held* not tried again, and those that hold added to it."""
    really_try = Sandbox._fault

    def fault(self: Sandbox, backend: Backend) -> str:
        key = (backend.state, backend.program, self._policy.network)
        if key in held:
            return ""
        reason = really_try(self, backend)
        if not reason:
            held.add(key)
        return reason

    replace(Sandbox, "_fault", fault)


def _models(base: type[BaseModel] = BaseModel) -> Iterator[type[BaseModel]]:
    for model in base.__subclasses__():
        yield model
        yield from _models(model)


def count_launchers() -> None:
    """Have the launchers that this process and its forks start counted, if it is counted."""
    variables = {name: value for name, value in os.environ.items() if name.startswith("COVERAGE_")}
    if "COVERAGE_PROCESS_CONFIG" in variables:
        begin = COUNTED.format(variables=variables, packages=sysconfig.get_path("purelib"))
        launching._PROGRAM = begin + launching._PROGRAM


def fork_servers(listener: socket.socket) -> tuple[list[socket.socket], bytes] | None:
    """Fork a server for each connection; return its sockets and the address in the fork.

    Returns:
        None at the end of standard input, which ends with the process that started us.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how servers end
    while sys.stdin not in select.select([listener, sys.stdin], [], [])[0]:
        connection, _ = listener.accept()
        with connection:
            address, descriptors, _, _ = socket.recv_fds(connection, ADDRESS_BYTES, 2)
        if descriptors and os.fork() == 0:
            listener.close()  # or its address would be taken for as long as the server runs
            return [socket.socket(fileno=each) for each in descriptors], address
        for each in descriptors:
            os.close(each)
    return None


def serve(
    orders: socket.socket, listeners: list[socket.socket], kept: Collection[int] = ()
) -> Order | None:
    """Fork for each order and return it in the fork; return None at the end of the orders.

    Every descriptor is closed in the fork, except for those that are *kept*.
    """
    ended = _wake_up_when_a_child_ends()
    running: dict[int, int] = {}
    sockets: list[socket.socket | int] = [orders, *listeners, ended]
    while True:
        ready, _, _ = select.select(sockets, [], [])
        if ended in ready:
            os.read(ended, 4_096)
            _tell_exit_codes(running)
        sources = [orders] if orders in ready else []
        sources += [listener.accept()[0] for listener in listeners if listener in ready]
        for source in sources:
            received = _receive(source)
            if received is None:
                if source is orders:
                    return None
                source.close()
                continue
            order, (*streams, status) = received
            child = os.fork()
            if child == 0:
                for each in (orders, *listeners, *sources):
                    each.detach()  # its descriptor is closed with all the others
                _become(order, streams, kept)
                return order
            for stream in streams:
                os.close(stream)
            running[child] = status
            with contextlib.suppress(ConnectionError):
                source.sendall(HEADER.pack(child))
            if source is not orders:
                source.close()


def run_script(command: list[str]) -> None:
    """Do what `python` does with *command*, a script and its arguments."""
    sys.argv = command
    more = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [str(Path(command[0]).parent), *filter(None, more)]
    runpy.run_path(command[0], run_name="__main__")


def _leave(code: int) -> NoReturn:
    """Exit as the interpreter does, but keep its modules: freeing them takes as long as a test."""
    threading._shutdown()  # type: ignore[attr-defined]  # only the interpreter and we call it
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        os._exit(120)
    os._exit(code)


def _wake_up_when_a_child_ends() -> int:
    """Return a descriptor that can be read from once a child has ended."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    return reading


def _tell_exit_codes(running: dict[int, int]) -> None:
    for child, status in list(running.items()):
        pid, how = os.waitpid(child, os.WNOHANG)
        if pid:
            with contextlib.suppress(BrokenPipeError):  # nobody reads the answer any more
                os.write(status, str(os.waitstatus_to_exitcode(how)).encode())
            os.close(status)
            del running[child]


def _receive(orders: socket.socket) -> tuple[Order, list[int]] | None:
    header, descriptors, _, _ = socket.recv_fds(orders, HEADER.size, DESCRIPTORS)
    if not header:
        return None
    (size,) = HEADER.unpack(header)
    data = bytearray()
    while len(data) < size:
        piece = orders.recv(size - len(data))
        if not piece:
            return None
        data += piece
    return Order(*json.loads(data)), list(descriptors)


def _become(order: Order, streams: list[int], kept: Collection[int]) -> None:
    """Make this fork look like a process that was just started."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if order.in_terminal:
        os.setsid()
        fcntl.ioctl(streams[0], termios.TIOCSCTTY, 0)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    for before, after in itertools.pairwise(sorted({2, *kept, DESCRIPTORS_MAX})):
        os.closerange(before + 1, after)
    os.chdir(order.directory)
    os.environ.clear()
    os.environ.update(order.environment)
    random.seed()
    # As the interpreter opens them; `fdopen` checks whether they are terminals.
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", 1, errors="backslashreplace", closefd=False)


if __name__ == "__main__":
    main()
