"""Run tasks on a Ray cluster, through a child process that is connected to it: `ray_driver`."""

import asyncio
import itertools
import json
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Mapping
from contextlib import AbstractContextManager, AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Final, Self

from agent_cli.batch import GRACE_S, STDERR, NotStarted, Origin, TaskRun
from agent_cli.batch.ray_worker import write_bundle
from agent_cli.contracts.errors import AgentCliError, UsageError
from agent_cli.system.loading import is_installed
from agent_cli.system.programs import users_path
from agent_cli.system.supervisor import supervised
from agent_cli.version import __version__

LOCAL: Final = "local"
DRIVER: Final = (sys.executable, "-P", "-m", "agent_cli.batch.ray_driver")
CONNECT_LIMIT_S: Final = 180.0
CPUS_PER_RUN: Final = 0.1
"""An agent waits for the model nearly all the time."""
_ROUNDING: Final = 1e-6
_REACH_LIMIT_S: Final = 10.0
_END_LIMIT_S: Final = 10.0
# The driver kills workers five seconds after the grace period.
_GIVE_UP_S: Final = GRACE_S + 15
_PORT_MAX: Final = 65_535
_LOG: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
# Credentials, settings and traces; everything else is the node's.
_SENT: Final = (
    *("ANTHROPIC_", "AGENT_CLI_", "CLAUDE_CODE_", "AWS_", "GOOGLE_", "CLOUDSDK_", "CLOUD_ML_"),
    *("VERTEX_", "AZURE_", "OTEL_", "TRACEPARENT", "TRACESTATE"),
)

_Message = dict[str, Any]


def ray_address(requested: str | None) -> str:
    """Return the address of the cluster: *requested*, else RAY_ADDRESS, else `LOCAL`.

    Raises:
        UsageError: The extra is not installed, or the address is none that can be used.
    """
    if not is_installed("ray"):
        raise UsageError("--engine ray needs one more package: pip install 'agent-cli-repl[ray]'")
    address = requested or os.environ.get("RAY_ADDRESS") or LOCAL
    host, _, port = address.rpartition(":")
    is_port = port.isascii() and port.isdigit() and int(port[:6]) <= _PORT_MAX
    if address in (LOCAL, "auto") or (host and "/" not in host and is_port):
        return address
    raise UsageError(
        f"Ray's address is HOST:PORT, auto or local, not {address!r}: run the batch on a machine of"
        " the cluster"
    )


def sent_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that the tasks get on every node."""
    return {name: value for name, value in environment.items() if name.startswith(_SENT)}


class RayEngine:
    """Each run is a task of Ray; one whose worker or node is lost has ended without a result.

    Attributes:
        jobs: How many runs the cluster's processors take at a time, once it is connected.
    """

    def __init__(
        self,
        address: str,
        log: Path,
        *,
        cpus: int | None = None,
        share: float = CPUS_PER_RUN,
        variables: Mapping[str, str] | None = None,
        limit_s: float = CONNECT_LIMIT_S,
        copies: bool = False,
    ) -> None:
        """Start nothing yet.

        Args:
            address: HOST:PORT, "auto", or `LOCAL` to start a cluster that ends with the batch.
            log: The file for messages of Ray.
            cpus: Processors of a local cluster; None for those of this machine.
            share: Processors that a run takes of those of the cluster.
            variables: Variables of the runs, besides those that all nodes get.
            limit_s: Limit of the time until the driver is connected.
            copies: Whether the nodes do not see this machine's files.
        """
        self.jobs = 1
        self.copies = copies
        self._bundles = Bundles()
        self._address = address
        self._log = log
        self._cpus = cpus
        self._share = share
        self._limit_s = limit_s
        self._process: asyncio.subprocess.Process | None = None
        self._runs: dict[int, asyncio.Future[_Message]] = {}
        self._numbers = itertools.count(1)
        self._variables = {**sent_variables(os.environ), **(variables or {})}
        self._connected: asyncio.Future[_Message] | None = None
        self._is_connected = self._is_stopping = False
        self._fault = ""
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Connect.

        Raises:
            UsageError: There is no connection within the limit.
        """
        if self._is_stopping:
            return self
        await self._reach()
        self._connected = asyncio.get_running_loop().create_future()
        async with AsyncExitStack() as stack:
            stack.enter_context(self._bundles)
            process = await self._started(stack)
            group = asyncio.TaskGroup()
            await stack.enter_async_context(group)
            stack.push_async_callback(self._end, process)
            group.create_task(self._read(process, self._connected))
            if not (fault := await self._connect(self._connected)):
                self._stack = stack.pop_all()
        if fault:  # Raised here, because a task group would wrap it.
            raise UsageError(fault)
        return self

    async def __aexit__(self, *_failure: object) -> None:
        await self._stack.aclose()

    async def collect(self) -> None:
        """Do nothing: runs end with the batch."""

    async def run(self, work: TaskRun) -> None:
        """Run *work* and wait for its end; see `batch.Engine`."""
        if self._fault:
            raise NotStarted(self._fault)
        number = next(self._numbers)
        ended = self._runs[number] = asyncio.get_running_loop().create_future()
        order = {
            "options": [*work.options],
            "cwd": str(work.cwd),
            "output_dir": str(work.output_dir),
            "variables": self._variables,
            "version": __version__,
        }
        run: _Message = {"run": number, "name": f"agent-cli {work.output_dir.parent.name}"}
        try:
            if work.origin:
                run["bundle"] = str(await self._bundles.of(work.origin))
                # For a node that does not see this machine's files.
                order |= {
                    "commit": work.origin.commit,
                    "inside": str(work.origin.inside),
                    "prompt": work.origin.prompt,
                }
            if self._is_stopping:  # the driver has cancelled what it had, and would start this
                raise NotStarted("it was stopped before it began")
            self._send({**run, "order": order})
            message = await ended
        finally:
            del self._runs[number]
        # The run creates it when it starts.
        stderr = work.output_dir / STDERR
        if failed := message.get("failed"):
            raise (AgentCliError if stderr.exists() else NotStarted)(failed)
        if message.get("is_cancelled") and not stderr.exists():
            raise NotStarted("it was cancelled before it began")
        if lost := message.get("lost"):
            with suppress(OSError), stderr.open("a", encoding="utf-8") as file:
                file.write(f"Ray lost the run: {lost}\n")
        if fault := message.get("fault"):
            raise AgentCliError(fault)

    def stop(self) -> None:
        """Cancel all runs; Ray's workers ask them to end, and kill them soon after."""
        if self._is_stopping:
            return
        self._is_stopping = True
        self._send({"stop": True})
        if self._connected and not self._connected.done():
            self._connected.set_result({})
        asyncio.get_running_loop().call_later(
            _GIVE_UP_S, self._give_up, {"lost": "Ray did not end it"}
        )

    async def _reach(self) -> None:
        """Check that something listens at the address: Ray itself would wait for minutes."""
        host, _, port = self._address.rpartition(":")
        if not host:
            return
        try:
            async with asyncio.timeout(_REACH_LIMIT_S):
                _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
        except OSError as error:
            # asyncio replaces the text of a refusal by one with the address.
            number = error.errno or 0
            known = os.strerror(number) if number > 0 else error.strerror
            why = known or "it does not answer"
            raise UsageError(
                f"no Ray cluster can be reached at {self._address} ({why}): check the address, or"
                " start one with `ray start --head`"
            ) from error
        writer.close()

    async def _started(self, stack: AsyncExitStack) -> asyncio.subprocess.Process:
        environment = {**os.environ, "PATH": users_path(), "RAY_USAGE_STATS_ENABLED": "0"}
        temporary = ""
        if self._address == LOCAL:
            # Its ports are open to the network, so nobody else may know the token. The sockets
            # need a short path.
            environment |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
            temporary = tempfile.mkdtemp(prefix="ray-", dir="/tmp")
            remove = partial(shutil.rmtree, temporary, ignore_errors=True)
            stack.push_async_callback(partial(asyncio.to_thread, remove))
        try:
            with os.fdopen(os.open(self._log, _LOG, 0o600), "ab") as log:
                process = await asyncio.create_subprocess_exec(
                    *supervised(DRIVER),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=log,
                    env=environment,
                    cwd="/",  # Ray makes its workers import from here
                    start_new_session=True,
                )
        except OSError as error:
            raise AgentCliError(f"no process can be started: {error}") from error
        self._process = process
        cpus = self._cpus or os.cpu_count() or 1
        cluster = {"address": self._address, "cpus": cpus, "temporary": temporary}
        self._send({**cluster, "share": self._share})
        return process

    async def _connect(self, connected: asyncio.Future[_Message]) -> str:
        """Wait for the first message of the driver; return a sentence if there is no connection."""
        try:
            async with asyncio.timeout(self._limit_s):
                message = await connected
        except TimeoutError:
            return (
                f"Ray ({self._address}) did not answer within {self._limit_s:g} s: check the"
                f" cluster with `ray status`, see {self._log}, or give --ray-wait more seconds"
            )
        if failed := message.get("failed"):
            return f"Ray ({self._address}) cannot be used: {failed}; see {self._log}"
        if cpus := message.get("cpus"):
            # Of a share like 0.1, one processor holds ten, not the nine of its binary fraction.
            self.jobs = max(1, int(cpus / self._share + _ROUNDING))
        self._is_connected = "cpus" in message
        return ""

    async def _read(
        self, process: asyncio.subprocess.Process, connected: asyncio.Future[_Message]
    ) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            message = json.loads(line)
            if not connected.done():
                connected.set_result(message)
            elif (run := self._runs.get(message.get("ended", 0))) and not run.done():
                run.set_result(message)
        self._fault = (
            f"the connection to Ray was lost (see {self._log}): the same command goes on once the"
            " cluster is back"
        )
        if not connected.done():
            connected.set_result({"failed": "its process ended"})
        fault = "" if self._is_stopping else self._fault
        self._give_up({"lost": "the connection was lost", "fault": fault})

    def _give_up(self, message: _Message) -> None:
        for run in self._runs.values():
            if not run.done():
                run.set_result(message)

    def _send(self, message: _Message) -> None:
        if self._process and self._process.stdin and not self._process.stdin.is_closing():
            self._process.stdin.write(json.dumps(message).encode() + b"\n")

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        """Let the driver disconnect; its supervisor kills what remains of driver and cluster."""
        self._send({"end": True})
        # One that is not connected yet does not read the message.
        limit_s = _END_LIMIT_S if self._is_connected else 0.0
        for end in (process.terminate, process.kill):
            try:
                async with asyncio.timeout(limit_s):
                    await process.wait()
            except TimeoutError:
                limit_s = _END_LIMIT_S
                with suppress(ProcessLookupError):
                    end()
            else:
                return
        await process.wait()


class Bundles(AbstractContextManager["Bundles"]):
    """A bundle for each commit of the tasks, written once, to a folder that ends with the batch."""

    def __init__(self) -> None:
        self._folder: TemporaryDirectory[str] | None = None
        self._files: dict[tuple[Path, str], Path] = {}
        self._lock = asyncio.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._folder:
            self._folder.cleanup()

    async def of(self, origin: Origin) -> Path:
        """Return the bundle of the commit of *origin*.

        Raises:
            GitError: It cannot be written.
        """
        async with self._lock:
            key = origin.repository, origin.commit
            if key not in self._files:
                if self._folder is None:
                    self._folder = TemporaryDirectory(prefix="agent-cli-")
                file = Path(self._folder.name) / f"{len(self._files)}.bundle"
                await asyncio.to_thread(write_bundle, *key, file)
                self._files[key] = file
            return self._files[key]
