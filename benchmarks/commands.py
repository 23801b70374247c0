"""The cost of a command's turn beyond its sandbox, and whether commands run concurrently.

Targets, ratios in one run and medians: a turn that runs `true` in the sandbox takes no longer than
a turn that reads a file, plus once `bwrap … /bin/true`, plus 5 ms; four `sleep 0.5` in one reply
take 0.56 s from the reply's end to the next request; of 5,000 starts of `/bin/true` none hangs. The
CPU time of each part is printed too: on a busy machine the wall time depends on other programs.
"""

import asyncio
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from agent_cli.sandbox import Sandbox, SandboxPolicy
from agent_cli.sandbox.secret_files import is_secret
from agent_cli.system.launching import KeeperLink, Launcher, Order
from benchmarks._program import empty_home, own_s, run
from tests.messages_api import FakeMessagesApi, reply, serve_in_thread, tool_use
from tests.waiting import wait_until

TURNS = 40
STARTS = 5_000
SLACK_MS = 5.0
NAPS_S = 0.56
_HANG_S = 20.0


def turn_ms(tool: str, given: dict[str, str]) -> float:
    """Return the median from a reply to the next request, if each reply calls *tool* once."""
    calls = [reply(tool_use(tool, dict(given))) for _ in range(TURNS)]
    with serve_in_thread(*calls, reply("done")) as api:
        _run(api)
    return statistics.median(own_s(api.requests[5:])) * 1000


def naps_s() -> float:
    """Return the duration of four calls in one reply that each sleep half a second."""
    naps = [tool_use("bash", {"command": "sleep 0.5"}) for _ in range(4)]
    took: list[float] = []
    for _ in range(3):
        first = reply(tool_use("bash", {"command": "true"}))
        with serve_in_thread(first, reply(*naps), reply("done")) as api:
            _run(api)
        took.append([*own_s(api.requests)][1])
    return statistics.median(took)


@contextmanager
def own_bubblewrap() -> Generator[list[str]]:
    """Yield the sandbox's own command line up to the command; empty if bubblewrap does not work."""
    with tempfile.TemporaryDirectory(prefix="agent-cli-bench-") as folder:
        home, root = Path(folder), Path(folder, "ws")
        root.mkdir()
        policy = SandboxPolicy((root,), home=home, own=(home / "own",), is_secret=is_secret)
        sandbox = Sandbox(lambda: policy, mode="auto", state_dir=home / "own")
        confinement = asyncio.run(sandbox.confine(root))
        words = list(confinement.prefix) if confinement and confinement.nested else []
        if "--seccomp" in words:  # the filter comes through a descriptor of the launcher
            at = words.index("--seccomp")
            del words[at : at + 2]
        yield words
        sandbox.close()


def bare_ms(prefix: list[str]) -> float:
    """Return the median time of `/bin/true` behind *prefix*."""
    took: list[float] = []
    for _ in range(TURNS):
        begun = time.perf_counter()
        subprocess.run([*prefix, "/bin/true"], check=True, stdin=subprocess.DEVNULL)
        took.append((time.perf_counter() - begun) * 1000)
    return statistics.median(took)


def cpu_ms(prefix: list[str], command: list[str]) -> float:
    """Return the CPU time of *command*, of its children and of the launcher's part in it."""
    launcher = Launcher()
    for _ in range(TURNS):
        order = Order(arguments=[*prefix, *command], cwd="/", environment={}, nested=bool(prefix))
        finish(*launcher.launch(order))
    return spent_s(launcher) / TURNS * 1000


def spent_s(launcher: Launcher) -> float:
    """Close *launcher*; return the CPU time of all its processes."""
    before, children = _ended_children_s(), _children()
    launcher.close()
    wait_until(lambda: len(_children()) < len(children), "the launcher's end")
    return _ended_children_s() - before


def _ended_children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _children() -> list[str]:
    """Return the processes that this one has started and not yet reaped."""
    listed = Path("/proc/self/task").glob("*/children")
    return [child for children in listed for child in children.read_text().split()]


def finish(link: KeeperLink, reading: int, *, limit_s: float = _HANG_S) -> bool:
    """Wait for the end of a command; return whether it came in time."""
    link.socket.settimeout(limit_s)
    try:
        while not link.found("status") and not link.is_closed:
            link.take(link.socket.recv(4096))
    except TimeoutError:
        return False
    finally:
        link.end(limit_s)
        os.close(reading)
    return True


def hangs() -> tuple[int, float]:
    """Return how many of many starts did not end in time, and the cost of one in ms."""
    launcher, count = Launcher(), 0
    begun = time.perf_counter()
    for _ in range(STARTS):
        order = Order(arguments=["/bin/true"], cwd="/", environment={})
        count += not finish(*launcher.launch(order))
    each_ms = (time.perf_counter() - begun) / STARTS * 1000
    launcher.close()
    return count, each_ms


def _run(api: FakeMessagesApi) -> None:
    with empty_home() as environment:
        Path(environment["HOME"], "a.txt").write_text("x\n")
        environment |= {"ANTHROPIC_BASE_URL": api.base_url}
        workspace = Path(environment["HOME"], "ws")
        workspace.mkdir()
        (workspace / "a.txt").write_text("x\n")
        finished = run(["-p", "go", "--permission-mode", "yolo"], environment, str(workspace))
        assert finished.cpu_s > 0


def main() -> int:
    """Print the figures; return 1 if a target is missed by more than a fifth."""
    if sys.platform != "linux":
        print("measured on Linux only")
        return 0
    with own_bubblewrap() as prefix:
        if not prefix:
            print("bubblewrap does not work here, so there is nothing to compare with")
            return 0
        bare = bare_ms(prefix)
        parts = {
            "launcher and /bin/true": cpu_ms([], ["/bin/true"]),
            "the same with bwrap": cpu_ms(prefix, ["/bin/true"]),
        }
    read, bash = turn_ms("read", {"path": "a.txt"}), turn_ms("bash", {"command": "true"})
    naps, (hung, start_ms) = naps_s(), hangs()
    allowed = read + bare + SLACK_MS
    rows = [
        ("bash turn, sandboxed", f"{bash:.1f} ms", f"{allowed:.1f} ms", bash / allowed),
        ("four sleep 0.5 in one reply", f"{naps:.2f} s", f"{NAPS_S} s", naps / NAPS_S),
        (f"{STARTS:,} starts", f"{hung} hang", "0 hang", 1.0 + hung),
    ]
    print(f"a read turn {read:.1f} ms, bwrap … /bin/true {bare:.1f} ms, a start {start_ms:.1f} ms")
    print("CPU: " + ", ".join(f"{name} {spent:.1f} ms" for name, spent in parts.items()))
    for name, figure, target, ratio in rows:
        print(f"{name:<30} {figure:>10}   target {target:>10}   {ratio:.2f} × the target")
    return int(any(ratio > 1.2 for *_, ratio in rows))


if __name__ == "__main__":
    sys.exit(main())
