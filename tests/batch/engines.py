"""An engine without processes: a function determines the outcome of each run."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from agent_cli.batch import RESULT, TaskRun

DONE: dict[str, Any] = {
    "type": "app.result",
    "text": "Done.",
    "stop_reason": "end_turn",
    "cost_usd": 0.01,
    "exit_code": 0,
}


class ScriptedEngine:
    """Runs are steps of this process; `most` is the largest number of concurrent ones.

    The function gets the id of the task and the work; None leaves no result, as a lost run does.
    """

    def __init__(self, leave: Callable[[str, TaskRun], dict[str, Any] | None]) -> None:
        self.jobs = 1
        self.copies = False
        self.most = 0
        self.started: list[TaskRun] = []
        self.overlaps: list[tuple[Path, Path]] = []
        self.stops = 0
        self.stopped = asyncio.Event()
        self._leave = leave
        self._busy: list[Path] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_failure: object) -> None:
        assert self._busy == []

    async def collect(self) -> None:
        pass

    async def run(self, work: TaskRun) -> None:
        self.started.append(work)
        self.overlaps += [(work.cwd, other) for other in self._busy]
        self._busy.append(work.cwd)
        self.most = max(self.most, len(self._busy))
        for _ in range(3):
            await asyncio.sleep(0)
        try:
            left = self._leave(work.output_dir.parent.name, work)
        finally:
            self._busy.remove(work.cwd)
        if left is not None:
            (work.output_dir / RESULT).write_text(json.dumps(left))

    def stop(self) -> None:
        self.stops += 1
        self.stopped.set()
