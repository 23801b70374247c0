"""A workspace, a home with secrets, and a machine that listens; commands run in a sandbox there."""

import asyncio
import errno
import functools
import os
import secrets
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import ClassVar

import pytest

from agent_cli.sandbox import Confinement, PathRules, Sandbox, SandboxPolicy, State
from agent_cli.sandbox.backends import Backend, backends
from agent_cli.sandbox.bwrap import REPLACED
from agent_cli.sandbox.landlock import restrict_thread
from agent_cli.sandbox.sandbox import Mode
from agent_cli.sandbox.secret_files import is_secret
from tests.sandbox.creations import only_what_is_named

CANARY = "CANARY-SECRET"
LIMIT_S = 60.0
_CACHE = Path(__file__).parents[2] / ".pytest_cache"


@dataclass
class World:
    """The places of one test; none is below a directory that the sandbox replaces."""

    base: Path
    root: Path
    home: Path
    sandbox: Sandbox
    put_back: list[str] = field(default_factory=list[str])

    def run(self, command: str, **variables: str) -> "subprocess.CompletedProcess[str]":
        """Run *command* as the tool does, and return its outcome."""
        confinement = asyncio.run(self.sandbox.confine(self.root))
        assert confinement is not None
        try:
            with only_what_is_named(self.root, command):
                return run_confined(confinement, command, self.root, self._environment(variables))
        finally:
            done = confinement.release()
            self.put_back = [*done, *asyncio.run(self.sandbox.settle())]

    def output(self, command: str) -> str:
        run = self.run(command)
        return run.stdout + run.stderr

    def _environment(self, variables: dict[str, str]) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        return {**kept, "HOME": str(self.home), "PYTHON": sys.executable, **variables}


@dataclass
class Decider:
    """A person who gives the same *answer* each time, and is there or not."""

    answer: bool | None
    can_ask: bool = True
    asked: list[Path] = field(default_factory=list[Path])
    undecided: Sequence[Path] = ()

    async def decide_new_files(self, paths: Sequence[Path], _aside: Path, /) -> bool | None:
        self.asked += paths
        return self.answer

    @property
    def undecided_files(self) -> Sequence[Path]:
        return [path for path in self.undecided if path.exists()]

    def note_undecided(self, paths: Iterable[Path], /) -> None:
        self.undecided = [*self.undecided, *paths]


class _TriedOnce(Sandbox):
    """A sandbox that only the first world of its kind tries; the machine stays the same."""

    _faults: ClassVar[dict[tuple[State, bool], str]] = {}

    def _fault(self, backend: Backend) -> str:
        kind = (backend.state, self._policy.network)
        if kind not in self._faults:
            self._faults[kind] = super()._fault(backend)
        return self._faults[kind]


@contextmanager
def world(
    state: State,
    *,
    mode: Mode = "auto",
    network: bool = False,
    extra: Sequence[Path] = (),
    rules: Callable[[Path], PathRules] = lambda _root: PathRules(),
    person: Decider | None = None,
    change: Callable[[Backend], Backend] = lambda backend: backend,
) -> Generator[World]:
    """Yield a world with the sandbox *state*, *change*d; skip if this machine has none.

    By default a person has all undone that appeared or changed beside a command.
    """
    # Each worker has a folder: a sandbox cannot be built while worlds beside its own vanish.
    worlds = _CACHE / f"worlds-{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
    worlds.mkdir(parents=True, exist_ok=True)
    base = Path(tempfile.mkdtemp(prefix="sandbox-", dir=worlds))
    if any(map(base.is_relative_to, REPLACED)):
        shutil.rmtree(base)
        pytest.skip("the source lies in a directory that a sandbox replaces")
    root, home = base / "ws", base / "home"
    for folder in (root, home / ".ssh", home / ".aws", home / "files"):
        folder.mkdir(parents=True)
    for secret in (home / ".ssh" / "id_ed25519", home / ".aws" / "credentials", root / ".env"):
        secret.write_text(f"{CANARY}\n")
    (home / ".bashrc").write_text("# mine\n")
    (home / "files" / "letter").write_text("dear\n")
    _repository(root)
    own = home / ".local" / "state" / "agent-cli"
    policy = SandboxPolicy(
        (root, *extra),
        home=home,
        own=(own,),
        shown=(own / "skills",),
        is_secret=is_secret,
        path_rules=rules(root),
        network=network,
    )
    sandbox = _TriedOnce(
        lambda: policy,
        mode=mode,
        state_dir=own,
        find=lambda *folders: map(change, only(state, *folders)),
        person=person or Decider(answer=True),
    )
    try:
        report = asyncio.run(sandbox.ready())
        if report.state != state:
            pytest.skip(f"{state} does not hold here, `agent-cli doctor` says why: {report.reason}")
        yield World(base, root, home, sandbox)
    finally:
        sandbox.close()
        shutil.rmtree(base)


def only(state: State, workspace: Sequence[Path], state_dir: Path) -> list[Backend]:
    found = (each for each in backends(workspace, state_dir) if isinstance(each, Backend))
    return [backend for backend in found if backend.state == state]


def git(root: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=T", "-c", "user.email=t@example.com")
    subprocess.run(["git", *identity, *arguments], cwd=root, check=True, capture_output=True)


def _repository(root: Path) -> None:
    for name, mode, content in _committed():
        if content is None:
            (root / name).mkdir()
        else:
            (root / name).write_bytes(content)
            (root / name).chmod(mode)


@functools.cache
def _committed() -> Sequence[tuple[Path, int, bytes | None]]:
    """Return the files of a repository with one commit, which git made once; a folder has None."""
    if shutil.which("git") is None:
        pytest.skip("no git")
    with tempfile.TemporaryDirectory() as made:
        root = Path(made)
        git(root, "init", "--quiet")
        (root / ".gitignore").write_text(".env\n")
        git(root, "add", ".")
        git(root, "commit", "--quiet", "--message", "first")
        return [
            (
                path.relative_to(root),
                path.stat().st_mode,
                path.read_bytes() if path.is_file() else None,
            )
            for path in sorted(root.rglob("*"))
        ]


def run_confined(
    confinement: Confinement, command: str, cwd: Path, environment: dict[str, str]
) -> "subprocess.CompletedProcess[str]":
    done: list[subprocess.CompletedProcess[str]] = []
    # By a shell: opened between fork and exec, they would need a fork of this process, which takes
    # longer than the command.
    opened = " ".join(f"{number}<{shlex.quote(path)}" for number, path in confinement.files)
    opener = ("/bin/sh", "-c", f'exec "$@" {opened}', "sh")

    def run() -> None:
        if confinement.restriction is not None:
            restrict_thread(asdict(confinement.restriction))
        done.append(
            subprocess.run(
                [*opener, *confinement.prefix, "bash", "--noprofile", "--norc", "-c", command],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=LIMIT_S,
                check=False,
                cwd=cwd,
                env={**environment, **confinement.environment},
                # Of the open files, only these survive the start of the program.
                close_fds=False,
                start_new_session=True,
            )
        )

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    [result] = done
    return result


@dataclass(frozen=True)
class Machine:
    """Listeners outside of every sandbox, and a process with a secret in its environment."""

    tcp: socket.socket
    udp: socket.socket
    abstract: socket.socket
    path: socket.socket
    process: "subprocess.Popen[bytes]"

    def variables(self) -> dict[str, str]:
        """Return their addresses as variables for commands."""
        return {
            "TCP": str(self.tcp.getsockname()[1]),
            "UDP": str(self.udp.getsockname()[1]),
            "ABSTRACT": self.abstract.getsockname()[1:].decode(),
            "SOCKET": self.path.getsockname(),
            "PID": str(self.process.pid),
        }


@contextmanager
def machine() -> Generator[Machine]:
    """Yield listeners of all kinds.

    The Unix socket is in a directory that everybody may write, and that stays. Sandboxes hide it
    as a whole, so those that other tests build do not fail when the socket vanishes.
    """
    directory = _CACHE / "sockets"
    directory.mkdir(parents=True, exist_ok=True)
    directory.chmod(0o777)
    name = directory / secrets.token_hex(4)  # short: socket paths have at most 107 bytes
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
        socket.socket(socket.AF_UNIX) as abstract,
        socket.socket(socket.AF_UNIX) as path,
        subprocess.Popen(["sleep", "3600"], env={"SECRET": CANARY}) as process,
    ):
        udp.bind(("127.0.0.1", 0))
        udp.setblocking(False)
        abstract.bind(f"\0sandbox-{secrets.token_hex(8)}")
        abstract.listen()
        path.bind(str(name))
        path.listen()
        try:
            yield Machine(tcp, udp, abstract, path, process)
        finally:
            process.kill()
            name.unlink()


def keep_aside_on_another_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse to rename anything into a folder "aside", as if it were on another disk."""
    rename = os.rename

    def on_two_disks(source: str, target: str | Path, **folders: int) -> None:
        if "aside" in str(target):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        rename(source, target, **folders)

    monkeypatch.setattr(os, "rename", on_two_disks)
