"""Measure the batch program with many tasks on many nodes; Ray and the agents are stand-ins.

    python -m tests.e2e.batch_scale TASKS NODES

The program, its folder, its budget and its process for Ray are the real ones. In that process a
package named `ray` ends each task after a moment, having written what an agent writes. Halfway it
is killed, and the same command goes on. Prints a line of JSON.
"""

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Final

from agent_cli.batch.folder import RESULTS

RECORD_CHARS: Final = 20_000
RAY: Final = """
import heapq, json, os, threading, time
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
import sys

class _Error(Exception): pass
names = ("TaskCancelledError", "RayTaskError", "RuntimeEnvSetupError")
exceptions = SimpleNamespace(**{{name: _Error for name in names}})
sys.modules["ray.exceptions"] = exceptions
_waiting, _changed = [], threading.Condition()

def _end_all():
    while True:
        with _changed:
            while not _waiting:
                _changed.wait()
            at, number, order, end = _waiting[0]
            left = at - time.monotonic()
            if left > 0:
                _changed.wait(left)
                continue
            heapq.heappop(_waiting)
        folder = Path(order["output_dir"])
        (folder / "stderr.log").write_text("")
        (folder / "session.jsonl").write_text("x" * {record})
        found = {{"type": "app.result", "exit_code": 0, "stop_reason": "end_turn", "text": "Done.",
                 "cost_usd": 0.001, "session_id": "s" * 12, "trouble": ""}}
        (folder / "result.json").write_text(json.dumps(found))
        end.set_result("")

class _Task:
    def __init__(self, order):
        self.end = Future()
        with _changed:
            heapq.heappush(_waiting, (time.monotonic() + 0.5, id(self), order, self.end))
            _changed.notify()
    def future(self): return self.end

class _Function:
    def options(self, name): return self
    def remote(self, order): return _Task(order)

def init(**_options): threading.Thread(target=_end_all, daemon=True).start()
def remote(**_options): return lambda _function: _Function()
def cluster_resources(): return {{"CPU": float(os.environ["NODES"])}}
def cancel(task, force): pass
def shutdown(): pass
"""


class Sampler(threading.Thread):
    """Keeps the largest memory and number of open files of processes, by kind."""

    def __init__(self, pid: int, mark: Path) -> None:
        super().__init__(daemon=True)
        self.pid = pid
        self._mark = os.fsencode(mark)
        self.found: dict[str, int] = {}
        self.driver = 0

    def run(self) -> None:
        """Sample until the process has ended."""
        while Path(f"/proc/{self.pid}/fd").exists():
            for kind, pid in (("batch", self.pid), ("driver", self._driver())):
                if pid:
                    self._sample(kind, pid)
            time.sleep(0.05)

    def _driver(self) -> int:
        if not self.driver:
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    words = path.read_bytes().split(b"\0")
                    is_ours = self._mark in (path.parent / "environ").read_bytes()
                except OSError:
                    continue
                if is_ours and b"agent_cli.batch.ray_driver" in words[:5]:
                    self.driver = int(path.parent.name)
        return self.driver

    def _sample(self, kind: str, pid: int) -> None:
        try:
            status = Path(f"/proc/{pid}/status").read_text()
            files = len([*Path(f"/proc/{pid}/fd").iterdir()])
        except OSError:
            return
        peak_kb = int(status.partition("VmHWM:")[2].split()[0]) if "VmHWM" in status else 0
        for name, value in ((f"{kind}_peak_mb", peak_kb // 1024), (f"{kind}_files", files)):
            self.found[name] = max(self.found.get(name, 0), value)


def main(tasks: int, nodes: int) -> None:
    """Run the batch twice, the first time until its driver is killed."""
    with tempfile.TemporaryDirectory(prefix="scale-") as made:
        folder = Path(made)
        package = folder / "packages" / "ray"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(RAY.format(record=RECORD_CHARS))
        lines = (json.dumps({"id": f"t{n}", "prompt": f"Task {n}"}) for n in range(tasks))
        (folder / "tasks.jsonl").write_text("\n".join(lines))
        found: dict[str, object] = {"tasks": tasks, "nodes": nodes}
        for run, kill_at in (("first", tasks // 2), ("resumed", 0)):
            found |= {
                f"{run}_{name}": value for name, value in _run(folder, nodes, kill_at).items()
            }
        ids = [json.loads(line)["id"] for line in _results(folder)]
        found |= {"results": len(ids), "once": len(set(ids)) == len(ids) == tasks}
    print(json.dumps(found))


def _run(folder: Path, nodes: int, kill_at: int) -> dict[str, object]:
    command = (
        *(sys.executable, "-m", "agent_cli", "batch", "tasks.jsonl", "--engine", "ray"),
        *("--permission-mode", "plan", "--budget", "1000", "--max-cost", "0.1"),
    )
    home = {"HOME": str(folder), "XDG_STATE_HOME": str(folder / "state")}
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("XDG_")},
        **home,
        "ANTHROPIC_API_KEY": "k",
        "NODES": str(nodes),
        "PYTHONPATH": os.pathsep.join((str(folder / "packages"), *sys.path[1:])),
    }
    began, cpu_s = time.monotonic(), _cpu_s()
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        sampler = Sampler(process.pid, folder)
        sampler.start()
        while kill_at and process.poll() is None:
            if len(_results(folder)) >= kill_at and sampler.driver:
                os.kill(sampler.driver, signal.SIGKILL)
                break
            time.sleep(0.1)
        assert process.stderr is not None
        told = process.stderr.read().decode().strip()
    return {
        **sampler.found,
        "exit_code": process.returncode,
        "told": told[-200:],
        "wall_s": round(time.monotonic() - began, 1),
        "cpu_s": round(_cpu_s() - cpu_s, 1),
        "results": len(_results(folder)),
    }


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _results(folder: Path) -> list[str]:
    try:
        text = (folder / "tasks.batch" / RESULTS).read_text()
    except FileNotFoundError:
        return []
    return text.splitlines()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
