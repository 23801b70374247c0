"""Run the tests in several processes: forks of the one that has collected them.

    python -m pytest --workers 3

A worker of pytest-xdist is a new interpreter, which imports, rewrites and collects everything once
more, which takes as long as a tenth of the tests. A fork has it all.
"""

import gc
import os
import signal
import struct
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import Any, NoReturn

import pytest

# Tests of one file follow each other in one worker, so that they share fixtures; but not so many
# that the others wait for it at the end.
TOGETHER_MAX = 12
END_LIMIT_S = 10.0
NUMBER = struct.Struct("!I")
QUEUE_MAX = 65_536 // NUMBER.size  # what a pipe holds

Batch = list[pytest.Item]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--workers`."""
    parser.addoption("--workers", type=int, default=0, help="run the tests in so many processes")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run the tests in workers if there are to be several."""
    gc.collect()
    gc.freeze()  # A collection need not look at a million objects that stay.
    count = int(session.config.getoption("--workers") or 0)
    if count < 2 or session.testsfailed or session.config.option.collectonly:
        return None
    batches = list(_batches(session.items))
    queue = _queue(len(batches))
    workers: list[_Worker] = []
    try:
        for _ in range(count):
            workers.append(_Worker(session, workers, batches, queue))
        _follow(session, workers, queue)
    finally:
        _empty(queue)
        os.close(queue)
        for worker in workers:
            worker.end()
    missing = len(session.items) - sum(worker.done for worker in workers)
    if missing and not session.shouldfail:
        session.shouldfail = f"{missing} tests did not run"
    if session.shouldfail:
        raise session.Failed(session.shouldfail)
    return True


def _batches(items: list[pytest.Item]) -> Iterator[Batch]:
    batch: Batch = []
    for item in items:
        if batch and (item.path != batch[0].path or len(batch) == TOGETHER_MAX):
            yield batch
            batch = []
        batch.append(item)
    yield batch


def _queue(length: int) -> int:
    """Return a pipe that yields the numbers up to *length*, each to one reader, and then ends."""
    assert length <= QUEUE_MAX
    reading, writing = os.pipe()
    os.write(writing, b"".join(map(NUMBER.pack, range(length))))
    os.close(writing)
    return reading


def _empty(queue: int) -> None:
    """Let each worker finish its batch and find no other."""
    while os.read(queue, 65_536):
        pass


class _Worker:
    """A process that runs tests, as its parent sees it.

    Attributes:
        done: The number of tests that it has run.
    """

    def __init__(
        self,
        session: pytest.Session,
        others: Sequence["_Worker"],
        batches: list[Batch],
        queue: int,
    ) -> None:
        self._running: tuple[str, tuple[str, int | None, str]] | None = None
        self._fault = ""
        self.done = 0
        base = session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        self.messages, sending = Pipe(duplex=False)
        sys.stdout.flush()
        sys.stderr.flush()
        self._pid = os.fork()
        if self._pid == 0:
            # If the parent dies, each worker ends when nobody is left to read its next message.
            for worker in (*others, self):
                worker.messages.close()
            _work(session, base / str(len(others)), _items(batches, queue), sending)
        sending.close()

    def take(self, session: pytest.Session) -> bool:
        """Pass a message on to the plugins of this process; return whether more may follow."""
        hook = session.config.hook
        try:
            kind, content = self.messages.recv()
        except EOFError:
            self._report_the_end(session)
            return False
        match kind:
            case "start":
                self._running = content
                hook.pytest_runtest_logstart(nodeid=content[0], location=content[1])
            case "report":
                report = hook.pytest_report_from_serializable(config=session.config, data=content)
                hook.pytest_runtest_logreport(report=report)
            case "broken":
                self._fault = content
            case _:
                self.done += 1
                self._running = None
                hook.pytest_runtest_logfinish(nodeid=content[0], location=content[1])
        return True

    def end(self) -> None:
        """Kill it if it still runs after a moment: Ctrl-C reaches it as well."""
        deadline = time.monotonic() + END_LIMIT_S
        while self._pid and time.monotonic() < deadline:
            if os.waitpid(self._pid, os.WNOHANG)[0]:
                self._pid = 0
            time.sleep(0.01)
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
        self.messages.close()

    def _report_the_end(self, session: pytest.Session) -> None:
        code = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        self._pid = 0
        if code:
            name, location = self._running or ("a worker", ("", None, ""))
            text = f"{self._fault}its process ended with code {code}"
            report = pytest.TestReport(name, location, {}, "failed", text, when="call")
            session.config.hook.pytest_runtest_logreport(report=report)


def _follow(session: pytest.Session, workers: list[_Worker], queue: int) -> None:
    """Pass on what the workers send until all have ended."""
    running = {worker.messages: worker for worker in workers}
    while running:
        for messages in wait(list(running)):
            assert isinstance(messages, Connection)
            if not running[messages].take(session):
                del running[messages]
        if session.shouldfail or session.shouldstop:
            _empty(queue)


def _items(batches: list[Batch], queue: int) -> Iterator[pytest.Item]:
    """Yield what this worker is to run, until the queue is empty."""
    while packed := os.read(queue, NUMBER.size):
        yield from batches[NUMBER.unpack(packed)[0]]


class _Reporter:
    """The plugin of a worker that sends its parent what happens."""

    def __init__(self, config: pytest.Config, sending: Connection) -> None:
        self._config = config
        self._sending = sending

    def pytest_runtest_logstart(self, nodeid: str, location: tuple[str, int | None, str]) -> None:
        self._sending.send(("start", (nodeid, location)))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data: dict[str, Any] | None = self._config.hook.pytest_report_to_serializable(
            config=self._config, report=report
        )
        self._sending.send(("report", data))

    def pytest_runtest_logfinish(self, nodeid: str, location: tuple[str, int | None, str]) -> None:
        self._sending.send(("finish", (nodeid, location)))


def _work(
    session: pytest.Session, base: Path, items: Iterator[pytest.Item], sending: Connection
) -> NoReturn:
    """Run *items* in this process, and end it."""
    code = 1
    config = session.config
    plugins = config.pluginmanager
    capturing: Any = plugins.getplugin("capturemanager")  # of no declared type
    try:
        # All workers share the parent's files. They stay open: modules may have kept `sys.stderr`.
        shared, capturing._global_capturing = capturing._global_capturing, None
        capturing.start_global_capturing()
        plugins.unregister(name="terminalreporter")
        plugins.register(_Reporter(config, sending))
        base.mkdir(mode=0o700)
        config._tmp_path_factory._basetemp = base  # type: ignore[attr-defined]
        try:
            for item, following in pairwise(chain(items, [None])):
                assert item is not None
                config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if session.shouldfail or session.shouldstop:
                    break
        finally:
            session._setupstate.teardown_exact(None)
        config._ensure_unconfigure()  # Objects that are not closed are found now.
        code = 0
        del shared
    except BaseException:
        sending.send(("broken", traceback.format_exc()))
    finally:
        os._exit(code)
