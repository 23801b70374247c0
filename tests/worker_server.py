"""Collect the tests once for all workers of a run, which are forks of the process that did.

A worker needs eight seconds of a processor to import the modules of the tests and to collect them,
and four workers did the same beside each other. pytest-xdist starts a worker as a Python
interpreter; here the interpreter is `as_fork.py`, and the worker takes over the session in which
the tests were collected. Where the collection ends early, as on a wrong option, each worker is an
interpreter of its own and reports why.
"""

import atexit
import gc
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import _pytest.config
import pytest
from _pytest.tmpdir import TempPathFactory

from tests.fork_server import _leave, run_script, serve

HERE = Path(__file__).parent
# In the order in which a worker does it: plugins are rewritten before anything imports them.
PROGRAM = """
import json, sys
from _pytest.config import _prepareconfig
orders, listener, sys.path[:], arguments = map(json.loads, sys.argv[1:])
config = _prepareconfig(arguments, None)
from tests.worker_server import collect
collect(config, orders, listener)
"""


def fork_workers(config: pytest.Config, specs: Sequence[Any]) -> None:
    """Have the workers of *specs* forked by a server, which ends with this process.

    Not for `make coverage`, which counts the lines that interpreters run from their start.
    """
    is_plain = all(each.popen and not (each.python or each.chdir or each.via) for each in specs)
    if sys.platform != "linux" or "COVERAGE_PROCESS_CONFIG" in os.environ or not is_plain:
        return
    orders, theirs = socket.socketpair()
    with theirs, socket.socket(socket.AF_UNIX) as listener:
        listener.bind("")  # the kernel chooses a name
        listener.listen()
        passed = [theirs.fileno(), listener.fileno()]
        arguments = [str(each) for each in config.invocation_params.args]
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *map(json.dumps, (*passed, sys.path, arguments))],
            pass_fds=passed,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        name = listener.getsockname().decode().removeprefix("\0")

    def end() -> None:
        orders.close()
        process.wait()

    atexit.register(end)
    start = [sys.executable, "-I", "-S", str(HERE / "as_fork.py"), name, str(HERE / "worker.py")]
    for spec in specs:
        spec.python = shlex.join(start)


def collect(config: pytest.Config, orders: int, listener: int) -> None:
    """Collect the tests as a worker does, and be the worker in each fork.

    Args:
        config: Of the run, not yet configured.
        orders: The descriptor of a socket whose other end the controller holds.
        listener: That of the socket to which `as_fork.py` connects for each worker.
    """
    # The controller has no use for it, and xdist's types are not known.
    from xdist.remote import setup_config  # type: ignore[import-untyped] # noqa: PLC0415

    setup_config(config, None)
    # Plugins ask for these before the workers get theirs.
    as_worker: Any = config
    as_worker.workerinput = {"workerid": "server", "workercount": 1, "testrunuid": ""}
    as_worker.workeroutput = {}
    sockets = (socket.socket(fileno=each) for each in (orders, listener))
    config.pluginmanager.register(Collected(config, *sockets))
    config.hook.pytest_cmdline_main(config=config)


class Collected:
    """A plugin: the session of a run whose tests are collected, and what that reported."""

    def __init__(
        self, config: pytest.Config, orders: socket.socket, listener: socket.socket
    ) -> None:
        self._config = config
        self._orders = orders
        self._listener = listener
        self._session: pytest.Session | None = None
        self._captured: object = None
        self._reports: list[pytest.CollectReport] = []
        self._warnings: list[Mapping[str, Any]] = []

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Keep a failure, for the workers."""
        if not report.passed:
            self._reports.append(report)

    def pytest_warning_recorded(
        self, warning_message: object, when: str, nodeid: str, location: object
    ) -> None:
        """Keep a warning, for the workers."""
        self._warnings.append(
            {"warning_message": warning_message, "when": when, "nodeid": nodeid}
            | {"location": location}
        )

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Fork the workers, in place of a loop; return None to leave the loop to a worker's own."""
        if self._session:
            return None
        self._session = session
        capture: Any = self._config.pluginmanager.getplugin("capturemanager")
        capture.suspend_global_capture(in_=True)
        # Not stopped: what an imported module holds as its sys.stderr stays open.
        self._captured, capture._global_capturing = capture._global_capturing, None
        sys.stdout.flush()
        sys.stderr.flush()
        gc.freeze()
        # Files that plugins have open, such as that of the logs.
        listed = [*Path("/proc/self/fd").iterdir()]
        kept = {int(each.name) for each in listed if each.exists()}
        kept -= {0, 1, self._orders.fileno(), self._listener.fileno()}
        # Ctrl-C is the workers' and the controller's, which then ends this process.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        order = serve(self._orders, [self._listener], kept)
        if order is None:
            _leave(0)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        setattr(_pytest.config, "_prepareconfig", lambda *_: self._config)  # noqa: B010 - for mypy
        try:
            run_script(order.command)
        except BaseException:  # the session is over, and its server's must not go on in here
            traceback.print_exc()
        # Not `_leave`: a thread that an interrupted test left would keep the worker for ever.
        atexit._run_exitfuncs()
        os._exit(0)

    @pytest.hookimpl(tryfirst=True)
    def pytest_cmdline_main(self, config: pytest.Config) -> int | None:
        """Run the collected tests as a worker, as `_pytest.main.wrap_session` does."""
        session = self._session
        if session is None:
            return None
        capture: Any = config.pluginmanager.getplugin("capturemanager")
        capture.start_global_capturing()
        capture.suspend_global_capture()
        setattr(config, "_tmp_path_factory", TempPathFactory.from_config(config, _ispytest=True))  # noqa: B010 - as above
        self._report_collection(session)
        try:
            config.hook.pytest_runtestloop(session=session)
            status = pytest.ExitCode.TESTS_FAILED if session.testsfailed else pytest.ExitCode.OK
        except (KeyboardInterrupt, pytest.exit.Exception):
            status = pytest.ExitCode.INTERRUPTED
        except BaseException:
            config.notify_exception(pytest.ExceptionInfo.from_current(), config.option)
            status = pytest.ExitCode.INTERNAL_ERROR
        session.exitstatus = status
        os.chdir(session.startpath)
        config.hook.pytest_sessionfinish(session=session, exitstatus=status)
        config._ensure_unconfigure()
        return status

    def _report_collection(self, session: pytest.Session) -> None:
        """Let the controller know what a worker of its own session would have reported."""
        plugins = self._config.pluginmanager.get_plugins()
        worker: Any = next(each for each in plugins if type(each).__name__ == "WorkerInteractor")
        worker.pytest_sessionstart(session)
        worker.pytest_collection()
        for report in self._reports:
            worker.pytest_collectreport(report)
        for warning in self._warnings:
            worker.pytest_warning_recorded(**warning)
        worker.pytest_collection_finish(session)
