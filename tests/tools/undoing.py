"""A small repository with files of each kind, what is to be restored of it, and its sessions."""

import functools
import hashlib
import os
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import pytest

from agent_cli.contracts.events import PromptStarted, SessionOpened
from agent_cli.contracts.file_changes import TakenBack
from agent_cli.contracts.timeline import Json
from agent_cli.core.conversation import Conversation
from agent_cli_tools import Workspace, command_run
from agent_cli_tools.snapshots import Snapshots
from tests.tools.calling import Tools

Made = TypeVar("Made", bound="ToolSession")


class ToolSession:
    """A session with tools in a workspace; `run` begins a run, `again` is a restart."""

    def __init__(self, root: Path, state: Path) -> None:
        self.root, self.state = root, state
        self._opened: list[Workspace] = []
        self.again()

    def keeper(self) -> Snapshots:
        """Return what keeps the files for /undo from a start on."""
        raise NotImplementedError

    def again(self, id: str | None = "s-1") -> None:
        self.snapshots = self.keeper()
        if id:
            self.snapshots(SessionOpened(id, "path"))
        self.workspace = Workspace(self.root, keeper=self.snapshots)
        self._opened.append(self.workspace)
        self.tools = Tools(self.workspace)

    def run(self) -> str:
        prompt = Conversation().begin()
        self.snapshots(PromptStarted(prompt))
        return prompt.id

    async def bash(self, command: str, **more: Json) -> str:
        return await self.tools.text("bash", command=command, **more)

    async def write(self, path: str, text: str) -> None:
        if (self.root / path).exists():
            await self.tools.text("read", path=path)
        await self.tools.text("write", path=path, content=text)

    def undo(self, *, in_part: bool = False) -> TakenBack:
        return self.snapshots.take_back(in_part=in_part)

    def close(self) -> None:
        for workspace in self._opened:
            workspace.close()


def of_edits(made: type[Made], folder: Path) -> Iterator[Made]:
    """Yield a session in an empty folder."""
    root = folder / "work"
    root.mkdir()
    session = made(root, folder / "state")
    yield session
    session.close()


def of_commands(made: type[Made], folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Made]:
    """Yield a session without a sandbox, of an ordinary user too: no command is to use sudo."""
    monkeypatch.setattr(command_run, "may_gain_rights", _never)
    fill(folder / "work")
    session = made(folder / "work", folder / "state")
    yield session
    session.close()


def _never(_sandbox: Sequence[str], *, restricts_itself: bool) -> bool:
    del restricts_itself
    return False


def fill(root: Path) -> None:
    """Make a repository with a branch, files of each kind, and files that git does not hold."""
    _write_files(root)
    _restore(_committed(), root)
    with (root / "src/a3.py").open("a") as file:
        file.write("changed\n")
    (root / "untracked.txt").write_text("new\n")


def repository(root: Path, script: str) -> None:
    """Make *root* as *script* leaves an empty folder: plain files, and a repository."""
    _restore(_left_by(script), root)


def _restore(files: dict[str, bytes], root: Path) -> None:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    # As after the commit: the index knows the files.
    subprocess.run(["git", "update-index", "--refresh"], cwd=root, check=True)


def _write_files(root: Path) -> None:
    (root / "src/deep").mkdir(parents=True, exist_ok=True)
    (root / "data").mkdir()
    for number in range(8):
        (root / f"src/a{number}.py").write_text(f"x = {number}\n" * 20)
        (root / f"data/p{number}.bin").write_bytes(bytes(range(100)) * number)
    (root / "src/deep/tool").write_text("tool")
    (root / "src/deep/tool").chmod(0o751)
    (root / "link").symlink_to("src/a1.py")
    (root / "hard").hardlink_to(root / "src/a2.py")
    with (root / "sparse").open("wb") as file:
        file.seek(500_000)
        file.write(b"x")


@functools.cache
def _committed() -> dict[str, bytes]:
    """Return the files of `.git` after a commit."""
    with tempfile.TemporaryDirectory() as folder:
        _write_files(Path(folder))
        script = (
            "git init -q --template= . && git config user.name a && git config user.email a@b"
            " && git add src link && git commit -q -m x && git branch other"
        )
        return _made(Path(folder), script, ".git")


@functools.cache
def _left_by(script: str) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        return _made(Path(folder), script, ".")


def _made(folder: Path, script: str, below: str) -> dict[str, bytes]:
    """Run *script* and return what it left; once each: git takes longer than most tests."""
    subprocess.run(["bash", "-c", script], cwd=folder, check=True)
    found = (folder / below).rglob("*")
    return {str(f.relative_to(folder)): f.read_bytes() for f in found if f.is_file()}


def tree(root: Path) -> dict[str, tuple[object, ...]]:
    """Return each path with content, mode, owner, links, times and attributes.

    Objects of git only grow, so they are left out.
    """
    found: dict[str, tuple[object, ...]] = {}
    for folder, folders, files in os.walk(root):
        if "objects" in folders and folder.endswith(".git"):
            folders.remove("objects")
        for name in (".", *folders, *files):
            path = Path(folder, name)
            state = path.lstat()
            kind: object = stat.S_IFMT(state.st_mode)
            if path.is_symlink():
                kind = path.readlink()
            elif path.is_file():
                kind = hashlib.sha256(path.read_bytes()).hexdigest()
            about = (oct(state.st_mode), state.st_uid, state.st_mtime_ns)
            links = 0 if path.is_dir() else state.st_nlink
            found[str(path.relative_to(root))] = (kind, *about, links)
    return found
