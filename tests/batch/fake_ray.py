"""What `ray_driver` needs of Ray; installed as a package named `ray` for its process.

The name of a task determines how it ends, the address whether there is a cluster.
"""

import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from types import ModuleType
from typing import Any


class TaskCancelledError(Exception):
    pass


class WorkerCrashedError(Exception):
    pass


class RayTaskError(Exception):
    pass


class RuntimeEnvSetupError(Exception):
    pass


# Modules, which can be hashed: Hypothesis 6.140 puts all that are loaded into a set.
exceptions, util = ModuleType("exceptions"), ModuleType("util")
exceptions.TaskCancelledError = TaskCancelledError  # type: ignore[attr-defined]
exceptions.WorkerCrashedError = WorkerCrashedError  # type: ignore[attr-defined]
exceptions.RayTaskError = RayTaskError  # type: ignore[attr-defined]
exceptions.RuntimeEnvSetupError = RuntimeEnvSetupError  # type: ignore[attr-defined]
util.scheduling_strategies = ModuleType("scheduling_strategies")  # type: ignore[attr-defined]
sys.modules[f"{__name__}.exceptions"] = exceptions
sys.modules[f"{__name__}.util"] = util
sys.modules[f"{__name__}.util.scheduling_strategies"] = util.scheduling_strategies
ENDS: dict[str, Exception | str] = {
    "done": "",
    "crashed": WorkerCrashedError("The worker died.\nMore about it."),
    "alien": RayTaskError("ray::run_on_node()\n  trace\nNo module named 'agent_cli'\n"),
    "refused": "the Ray node a cannot see /tasks",
}


class _Task:
    def __init__(self, name: str) -> None:
        self.end: Future[str] = Future()
        if name == "fatal":
            os._exit(1)
        found = ENDS.get(name)
        if isinstance(found, Exception):
            threading.Timer(0.01, self.end.set_exception, (found,)).start()
        elif found is not None:
            threading.Timer(0.01, self.end.set_result, (found,)).start()

    def future(self) -> Future[str]:
        return self.end


class _Named:
    def __init__(self, name: str) -> None:
        self._name = name

    def remote(self, order: dict[str, Any]) -> _Task:
        return _Task(self._name.removeprefix("agent-cli "))


class _Function:
    def options(self, *, name: str) -> _Named:
        return _Named(name)


def init(address: str, **_options: Any) -> None:
    print("Ray greets on stdout")
    if address == "auto":
        raise ConnectionError("Could not find any running Ray instance.\nLook again.")
    if os.environ.get("FAKE_RAY_HANGS"):
        time.sleep(600)


def remote(**_options: Any) -> Callable[[object], _Function]:
    return lambda _function: _Function()


def cancel(task: _Task, *, force: bool) -> None:
    task.end.set_exception(TaskCancelledError("Task was cancelled"))


def cluster_resources() -> dict[str, float]:
    return {"CPU": 3.0, "memory": 1.0}


def shutdown() -> None:
    print("Ray says goodbye on stdout")
