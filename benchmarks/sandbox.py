"""What the sandbox adds to a command, and what finding out which one works costs.

Least and 25th percentile of the wall time of `bash -c true`: the machine may be busy. No bar but
that of the eye: a command takes a model seconds to think of.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from agent_cli.sandbox import Confinement, Policy, Sandbox
from agent_cli.sandbox.backends import Backend, backends
from agent_cli_tools.secret_files import is_secret

RUNS = 60
SECRETS = 20


def wall_ms(confinement: Confinement, cwd: Path) -> float:
    took: list[float] = []

    def run() -> None:
        begun = time.perf_counter()
        if confinement.enter is not None:
            confinement.enter()
        subprocess.run(
            [*confinement.prefix, "bash", "--noprofile", "--norc", "-c", "true"],
            cwd=cwd,
            env={**os.environ, **confinement.environment},
            pass_fds=confinement.descriptors,
            check=True,
        )
        took.append((time.perf_counter() - begun) * 1000)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return took[0]


def show(name: str, times_ms: list[float]) -> None:
    times_ms.sort()
    print(f"{name:<44} {times_ms[0]:6.1f} ms least  {times_ms[len(times_ms) // 4]:6.1f} ms p25")


async def measure(backend: Backend, root: Path, home: Path, *, note: str = "") -> None:
    own = home / ".local" / "state" / "agent-cli"
    policy = Policy((root,), home=home, own=(own,), is_secret=is_secret)
    sandbox = Sandbox(policy, mode="auto", state_dir=own, find=lambda *_places: [backend])
    begun = time.perf_counter()
    report = await sandbox.ready()
    probed_ms = (time.perf_counter() - begun) * 1000
    name = f"{backend.program or backend.state}{note}"
    if not report.holds:
        print(f"{name}: does not work here: {report.sentence}")
        return
    preparing, running = [], []
    for _ in range(RUNS):
        begun = time.perf_counter()
        confinement = await sandbox.confine(root)
        preparing.append((time.perf_counter() - begun) * 1000)
        assert confinement is not None
        running.append(wall_ms(confinement, root))
        confinement.release()
    sandbox.close()
    show(name, running)
    show("  rules, placeholders, arguments", preparing)
    print(f"  the probe: {probed_ms:.0f} ms, once a boot, beside the prompt")


async def main() -> None:
    if sys.platform != "linux":
        print("measured on Linux only")
        return
    with tempfile.TemporaryDirectory(prefix="agent-cli-bench-") as folder:
        home = Path(folder)
        root = home / "ws"
        root.mkdir()
        await asyncio.to_thread(subprocess.run, ["git", "init", "--quiet"], cwd=root, check=True)
        show("no sandbox", [wall_ms(Confinement(), root) for _ in range(RUNS)])
        found = [each for each in backends([root], home / "state") if isinstance(each, Backend)]
        for backend in found:
            await measure(backend, root, home / backend.state)
        for number in range(SECRETS):
            (root / f"{number}.key").touch()
        if found:
            await measure(found[0], root, home / "secrets", note=f", {SECRETS} secrets hidden")


if __name__ == "__main__":
    asyncio.run(main())
