"""The cost of recording what commands change, per sandbox, against the same command unrecorded.

Ratios of wall time (least, median) and of processor time, measured alternately in one run: the
machine may be busy. `python -m benchmarks.undo NAME ...` measures only those loads; a load of your
own is a folder to copy and a command: `python -m benchmarks.undo FOLDER COMMAND`.
"""

import asyncio
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent_cli.sandbox import Confinement, Sandbox, SandboxPolicy
from agent_cli.sandbox.backends import Backend, backends
from agent_cli.sandbox.secret_files import is_secret
from agent_cli.system.launching import Launcher, Order, Watched
from benchmarks.commands import finish, spent_s

BASH = shutil.which("bash") or "/bin/bash"
FILES = 5_000
_HANG_S = 300.0  # a busy machine takes long for so many files


@dataclass(frozen=True, slots=True)
class Load:
    """A command, and what its folder holds before: made once, by a script, and copied."""

    name: str
    target: str
    command: str
    before: str = ":"
    rounds: int = 3
    source: Path | None = None


_REPOSITORY = (
    "git init -q . && git config user.email a@b && git config user.name a;"
    f" for i in {{1..{FILES}}}; do echo $i > f$i; done; git add -A; git commit -qm one;"
    " git rm -q -r --cached .; rm f*;"
    " echo x > x; git add -A; git commit -qm two"
)
LOADS = [
    Load("nothing", "+3 ms", ":", rounds=40),
    Load(
        "four writers",
        "1.3",
        "for w in 1 2 3 4; do (for i in {1..300}; do echo $i > w$w-$i; done) & done; wait",
        rounds=11,
    ),
    Load(f"git checkout of {FILES}", "1.4", "git checkout -q HEAD~1", _REPOSITORY),
    Load(
        f"tar x of {FILES}",
        "1.6",
        "tar xf t.tar",
        f"mkdir t; for i in {{1..{FILES}}}; do echo $i > t/f$i; done; tar cf t.tar t; rm -r t",
    ),
    Load(
        f"rm -rf of {FILES}",
        "0.08 ms a file",
        "rm -rf t",
        f"mkdir t; for i in {{1..{FILES}}}; do echo $i > t/f$i; done",
    ),
    Load(
        "nothing in 50,000 files",
        "as nothing",
        "echo x > new; rm new",
        "for d in {1..50}; do mkdir d$d; for i in {1..1000}; do : > d$d/f$i; done; done",
        rounds=20,
    ),
]


@dataclass(slots=True)
class Times:
    """The wall times of one way, and its processor time."""

    wall_s: list[float]
    cpu_s: float = 0.0


def run(
    launcher: Launcher,
    confinement: Confinement,
    order_of: Callable[[], Watched | None],
    command: str,
    cwd: Path,
) -> float:
    """Run *command*; return the seconds it took."""
    order = Order(
        arguments=[
            *confinement.prefix,
            BASH,
            "--noprofile",
            "--norc",
            "-c",
            f"echo >&3; {command}" if confinement.nested else command,
        ],
        cwd=str(cwd),
        environment={**os.environ, **confinement.environment},
        files=confinement.files,
        restriction=confinement.restriction,
        nested=confinement.nested,
        watched=order_of(),
    )
    begun = time.perf_counter()
    assert finish(*launcher.launch(order), limit_s=_HANG_S), "a command hangs"
    return time.perf_counter() - begun


async def measured(load: Load, sandbox: Sandbox | None, root: Path, state: Path) -> list[Times]:
    """Return the times without the record, and with it."""
    found = [Times([]), Times([])]
    launchers = [Launcher(), Launcher()]
    for launcher in launchers:  # the second keeper shares the imported modules
        run(launcher, Confinement(), lambda: watched(root, state), ":", root)
    for _ in range(load.rounds):
        for which, launcher in enumerate(launchers):
            if load.rounds < 20 or not found[1].wall_s:
                fill(load, root)
            confinement = (await sandbox.confine(root) if sandbox else None) or Confinement()
            order_of = (lambda: watched(root, state)) if which else (lambda: None)
            found[which].wall_s.append(run(launcher, confinement, order_of, load.command, root))
            confinement.release()
            shutil.rmtree(state / "commands", ignore_errors=True)
    for which, launcher in enumerate(launchers):
        found[which].cpu_s = spent_s(launcher)
    return found


def watched(root: Path, state: Path) -> Watched:
    """Return the order to record a command."""
    folder = state / "commands" / f"{time.time_ns():x}"
    folder.mkdir(parents=True)
    return Watched(
        module="agent_cli.undo.watch",
        folder=str(folder),
        roots=[str(root)],
        copy_bytes_max=100_000_000,
        header={"command": "benchmark"},
        ask_beyond_files=FILES * 100,  # counted, and never asked about
    )


def fill(load: Load, root: Path) -> None:
    """Make the folder as it is before the command."""
    made = root.parent / f"made-{load.name.replace(' ', '-').replace('/', '-')}"
    if load.source is not None:
        made = load.source
    elif not made.exists():
        made.mkdir()
        subprocess.run([BASH, "-c", load.before], cwd=made, check=True)
    for each in root.iterdir():
        subprocess.run(["rm", "-rf", str(each)], check=True)
    subprocess.run(["cp", "-a", f"{made}/.", str(root)], check=True)


def show(load: Load, name: str, times: Sequence[Times]) -> None:
    off, on = times
    least = [min(each.wall_s) * 1000 for each in times]
    median = [statistics.median(each.wall_s) * 1000 for each in times]
    extra = f"  {(least[1] - least[0]) / FILES:.3f} ms a file" if load.name.startswith("rm") else ""
    print(
        f"{load.name:<24} {name:<9} {least[0]:8.1f} → {least[1]:8.1f} ms"
        f"  least {least[1] / least[0]:5.2f}"
        f"  median {median[1] / median[0]:5.2f}  cpu {on.cpu_s / off.cpu_s:5.2f}"
        f" (+{(on.cpu_s - off.cpu_s) / len(on.wall_s) * 1000:.1f} ms)"
        f"  +{median[1] - median[0]:.1f} ms{extra}   (bar {load.target})",
        flush=True,
    )


async def measure(loads: Sequence[Load], backend: Backend | None, root: Path, home: Path) -> None:
    own = home / ".local" / "state" / "agent-cli"
    own.mkdir(parents=True, exist_ok=True)
    sandbox = None
    if backend is not None:
        policy = SandboxPolicy((root,), home=home, own=(own,), is_secret=is_secret)
        sandbox = Sandbox(
            lambda: policy, mode="auto", state_dir=own, find=lambda _writable, _state: [backend]
        )
        report = await sandbox.ready()
        if not report.holds:
            print(f"{backend.state}: does not work here: {report.sentence}")
            return
    for load in loads:
        times = await measured(load, sandbox, root, home / "state")
        show(load, backend.state if backend else "bare", times)
    if sandbox is not None:
        sandbox.close()


async def main() -> None:
    if sys.platform != "linux":
        print("measured on Linux only")
        return
    names = sys.argv[1:]
    loads = [load for load in LOADS if load.name in names] or [
        load for load in LOADS if not names or any(name in load.name for name in names)
    ]
    if not loads:
        source, command = names
        loads = [Load(command[:24], "", command, source=Path(source))]
    base = Path(tempfile.mkdtemp(prefix="agent-cli-bench-", dir=Path.home()))
    try:
        root, home = base / "ws", base / "home"
        root.mkdir()
        home.mkdir()
        seen: set[str] = set()
        found = [each for each in backends([root], home / "state") if isinstance(each, Backend)]
        for backend in [None, *found]:
            state = backend.state if backend else "bare"
            if state not in seen:
                seen.add(state)
                await measure(loads, backend, root, home)
    finally:
        shutil.rmtree(base, ignore_errors=True)


if __name__ == "__main__":
    asyncio.run(main())
