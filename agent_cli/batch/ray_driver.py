"""Connect to a Ray cluster and hand it tasks; a process of its own, started by `ray_engine`.

    python -P -m agent_cli.batch.ray_driver

Ray's native code may end the process it runs in, wait without a limit, install signal handlers, or
write to stdout. None of this reaches the batch. Messages are JSON objects, one a line:

    stdin     {"address", "cpus", "temporary", "share"}
                                                   first; an address of "local" starts a cluster
              {"run", "name", "order"}             run a task; "run" is its number. With "bundle",
                                                   the file of its repository, the files it leaves
                                                   are written to the "output_dir" of its order
              {"stop"}                             cancel all tasks
              {"end"}                              disconnect
    stdout    {"cpus"} or {"failed"}               first
              {"ended", and perhaps "failed", "lost" or "is_cancelled"}

Ray repeats nothing itself, because each run needs its own share of the budget. An order holds
secrets. It travels as an argument of the task, which Ray neither shows nor logs, unlike the
variables of a runtime environment.
"""

import json
import os
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TextIO, TypeAlias

from agent_cli.batch import GRACE_S
from agent_cli.batch.ray_worker import PauseKeeper, run_on_node, write_files

FORCE_AFTER_S: Final = GRACE_S + 5
"""Seconds from a request to end until the worker processes are killed."""
_OPTIONS: Final = {"max_retries": 0, "scheduling_strategy": "SPREAD"}
_OBJECTS_BYTES: Final = 100 * 1024 * 1024
_SENTENCE_CHARS_MAX: Final = 200
_STDOUT, _STDERR = 1, 2

Ray = Any  # its types exist only where the extra is installed
_Left: TypeAlias = str | dict[str, bytes]
"""Why a node cannot run a task, "", or the files that a run left there."""


class _Driver:
    """Hands tasks to Ray and reports their ends, which arrive in threads of Ray's."""

    def __init__(self, ray: Ray, replies: "_Replies", share: float) -> None:
        self._ray = ray
        self._run_on_node = ray.remote(num_cpus=share, **_OPTIONS)(run_on_node)
        self._replies = replies
        self._running: dict[int, Any] = {}
        self._bundles: dict[str, Any] = {}
        self._keeper: Any = None
        self._kill = threading.Timer(FORCE_AFTER_S, self._cancel, kwargs={"is_forced": True})
        self._kill.daemon = True

    def take(self, message: dict[str, Any]) -> bool:
        """Carry out *message*; return whether to go on."""
        if "run" in message:
            number = message["run"]
            function = self._run_on_node.options(name=message["name"])
            more = self._copies(message["bundle"]) if "bundle" in message else ()
            self._running[number] = task = function.remote(message["order"], *more)
            output_dir = Path(message["order"]["output_dir"])
            task.future().add_done_callback(partial(self._report, number, output_dir))
        elif "stop" in message and not self._kill.is_alive():
            self._cancel(is_forced=False)
            self._kill.start()
        return "end" not in message

    def _copies(self, bundle: str) -> tuple[Any, Any]:
        """Return the bundle in Ray's object store, once for all its tasks, and the actor."""
        if self._keeper is None:
            here = self._ray.get_runtime_context().get_node_id()
            # Not on a node that may be lost while the batch goes on.
            stays = self._ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
                node_id=here, soft=True
            )
            keeper = self._ray.remote(num_cpus=0, scheduling_strategy=stays)(PauseKeeper)
            self._keeper = keeper.remote()
        if bundle not in self._bundles:
            self._bundles[bundle] = self._ray.put(Path(bundle).read_bytes())
        return self._bundles[bundle], self._keeper

    def _cancel(self, *, is_forced: bool) -> None:
        for task in [*self._running.values()]:
            self._ray.cancel(task, force=is_forced)

    def _report(self, number: int, output_dir: Path, future: "Future[_Left]") -> None:
        del self._running[number]
        outcome = outcome_of(future, self._ray.exceptions)
        try:
            if future.exception() is None and isinstance(left := future.result(), dict):
                write_files(left, output_dir)
        except OSError as error:
            outcome = {"failed": f"{output_dir} cannot be written: {error.strerror}"}
        self._replies.write({"ended": number, **outcome})


class _Replies:
    """The original stdout; several threads write lines to it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()

    def write(self, message: dict[str, Any]) -> None:
        with self._lock:
            self._stream.write(json.dumps(message) + "\n")
            self._stream.flush()


def outcome_of(future: "Future[_Left]", exceptions: Any) -> dict[str, Any]:
    """Return the fields that say how a task of Ray ended; *exceptions* is Ray's module."""
    error = future.exception()
    if error is None:
        left = future.result()
        return {"failed": left} if isinstance(left, str) and left else {}
    if isinstance(error, exceptions.TaskCancelledError):
        return {"lost": line_of(error), "is_cancelled": True}
    # The worker reports its own faults, so most often it cannot import our module. The last line is
    # the cause, below the traceback.
    if isinstance(error, exceptions.RayTaskError | exceptions.RuntimeEnvSetupError):
        why = line_of(error, -1)
        return {"failed": f"a Ray node cannot run tasks: {why}; install agent-cli on each node"}
    return {"lost": line_of(error)}


def line_of(error: BaseException, at: int = 0) -> str:
    """Return a line of what *error* says, or its name."""
    lines = [line.strip() for line in str(error).split("\n") if line.strip()]
    return lines[at][:_SENTENCE_CHARS_MAX].rstrip(".") if lines else type(error).__name__


def main() -> None:
    """Serve the process that started us until it says "end" or its side is closed."""
    replies = _Replies(os.fdopen(os.dup(_STDOUT), "w", encoding="utf-8"))
    os.dup2(_STDERR, _STDOUT)
    messages = _messages()
    try:
        config = next(messages)
        ray = _connected(config)
        cpus = int(ray.cluster_resources().get("CPU", 0))
    except Exception as error:
        replies.write({"failed": line_of(error)})
        return
    driver = _Driver(ray, replies, config["share"])
    replies.write({"cpus": cpus})
    for message in messages:
        if not driver.take(message):
            break
    ray.shutdown()


def _messages() -> Iterator[dict[str, Any]]:
    for line in sys.stdin.buffer:
        yield json.loads(line)


def _connected(config: dict[str, Any]) -> Ray:
    ray: Ray = import_module("ray")
    import_module("ray.exceptions")
    import_module("ray.util.scheduling_strategies")
    address = config["address"]
    options: dict[str, Any] = {"address": address, "log_to_driver": False}
    if address == "local":
        options |= {
            "num_cpus": config["cpus"],
            "num_gpus": 0,
            "object_store_memory": _OBJECTS_BYTES,
            "include_dashboard": False,
            "_temp_dir": config["temporary"],
            "_node_ip_address": "127.0.0.1",
        }
    ray.init(**options)
    return ray


if __name__ == "__main__":
    main()
