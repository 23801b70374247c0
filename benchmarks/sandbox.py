"""The overhead of the sandbox for a command, and the cost of detecting which sandbox works.

Minimum and 25th percentile of the wall time of `bash -c true`: the machine may be busy. There is no
bar, because a model needs seconds to produce a command.
"""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from agent_cli.sandbox import Confinement, Sandbox, SandboxPolicy
from agent_cli.sandbox.backends import Backend, backends
from agent_cli.sandbox.secret_files import is_secret
from agent_cli.system.launching import Launcher, Order
from benchmarks.commands import finish

RUNS = 60
BASH = shutil.which("bash") or "/bin/bash"
SECRETS = 20


def wall_ms(launcher: Launcher, confinement: Confinement, cwd: Path) -> float:
    order = Order(
        arguments=[*confinement.prefix, BASH, "--noprofile", "--norc", "-c", "true"],
        cwd=str(cwd),
        environment={**os.environ, **confinement.environment},
        files=confinement.files,
        restriction=confinement.restriction,
        nested=confinement.nested,
    )
    begun = time.perf_counter()
    assert finish(*launcher.launch(order)), "a command that does nothing hangs"
    return (time.perf_counter() - begun) * 1000


def show(name: str, times_ms: list[float]) -> None:
    times_ms.sort()
    print(f"{name:<44} {times_ms[0]:6.1f} ms least  {times_ms[len(times_ms) // 4]:6.1f} ms p25")


async def measure(backend: Backend, root: Path, home: Path, *, note: str = "") -> None:
    own = home / ".local" / "state" / "agent-cli"
    policy = SandboxPolicy((root,), home=home, own=(own,), is_secret=is_secret)
    sandbox = Sandbox(
        lambda: policy, mode="auto", state_dir=own, find=lambda _writable, _state: [backend]
    )
    begun = time.perf_counter()
    report = await sandbox.ready()
    probed_ms = (time.perf_counter() - begun) * 1000
    name = f"{backend.program or backend.state}{note}"
    if not report.holds:
        print(f"{name}: does not work here: {report.sentence}")
        return
    preparing: list[float] = []
    running: list[float] = []
    launcher = Launcher()
    for _ in range(RUNS):
        begun = time.perf_counter()
        confinement = await sandbox.confine(root)
        preparing.append((time.perf_counter() - begun) * 1000)
        assert confinement is not None
        running.append(wall_ms(launcher, confinement, root))
        confinement.release()
    launcher.close()
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
        launcher = Launcher()
        show("no sandbox", [wall_ms(launcher, Confinement(), root) for _ in range(RUNS)])
        launcher.close()
        found = [each for each in backends([root], home / "state") if isinstance(each, Backend)]
        for backend in found:
            await measure(backend, root, home / backend.state)
        for number in range(SECRETS):
            (root / f"{number}.key").touch()
        if found:
            await measure(found[0], root, home / "secrets", note=f", {SECRETS} secrets hidden")


if __name__ == "__main__":
    asyncio.run(main())
