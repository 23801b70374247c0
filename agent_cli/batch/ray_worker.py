"""Run a task on a node of a Ray cluster; Ray's worker processes import this module there.

A node that shares no files with the batch gets the repository as a bundle, and the prompt in the
order; what the run leaves goes back as the value of Ray's task, and the driver writes it where the
batch looks for it. The pause of such a batch is kept by one actor: an agent asks the socket of its
run, the worker behind it asks the actor.
"""

import asyncio
import json
import os
import signal
import socket
import tempfile
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

from agent_cli.batch import PATCH, PROMPT, RESULT, STDERR, LocalEngine, NotStarted, TaskRun
from agent_cli.system.event_loop import run_loop
from agent_cli.system.git import GitError, run_git
from agent_cli.system.private_files import write_private
from agent_cli.system.shared_pauses import PauseState, Step
from agent_cli.system.worktrees import Worktree, changes_in
from agent_cli.version import __version__

PAUSE_VARIABLE: Final = "AGENT_CLI_RETRY__SHARED_FILE"
SOCKET: Final = "pause.sock"
_LINE_BYTES_MAX: Final = 4_096


class PauseKeeper:
    """The state of the pause; an actor of Ray, so its methods run one at a time."""

    def __init__(self) -> None:
        self._state = PauseState()

    def take(self, step: Step, asked_delay_s: float | None) -> float:
        """Note *step*; see `PauseState.take`."""
        return self._state.take(step, asked_delay_s, time.time())


@asynccontextmanager
async def pause_socket(folder: Path, keeper: Any) -> AsyncGenerator[Path]:  # Any: a handle of Ray
    """Answer the steps of an agent with *keeper*; yield the socket it finds it at."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, ValueError):
            step, asked_delay_s = json.loads(await reader.readline())
            try:
                taken = keeper.take.remote(step, asked_delay_s)
                wait_s = await asyncio.wrap_future(taken.future())
            except Exception:
                wait_s = 0.0  # the node of the actor is lost: nothing is paused any more
            writer.write(f"{wait_s}\n".encode())
            await writer.drain()
        writer.close()

    path = folder / SOCKET
    server = await asyncio.start_unix_server(answer, path, limit=_LINE_BYTES_MAX)
    async with server:
        yield path


_BRANCH: Final = "refs/heads/task"  # of a bundle
_GIT_S: Final = 900.0
_KEPT: Final = (STDERR, "session.jsonl", "changes.diff", PATCH, RESULT)
"""The files that go back; the result last, for it says that the others are there."""


class NodeCheckout:
    """A folder on this node with a checkout of the task's commit; `close` removes it."""

    def __init__(self, order: Mapping[str, Any], bundle: bytes) -> None:
        """Unpack *bundle* and write the prompt. Blocking.

        Raises:
            GitError: The bundle cannot be unpacked.
            OSError: The disk is full.
        """
        self._folder = tempfile.TemporaryDirectory(prefix="agent-cli-", ignore_cleanup_errors=True)
        self.path = Path(self._folder.name)
        try:
            file = self.path / "repository.bundle"
            file.write_bytes(bundle)
            self._tree = Worktree(self.path / "tree", self.path / "tree", order["commit"])
            unpack_bundle(file, self._tree.path, order["commit"])
            file.unlink()
            output_dir = self.path / "output"
            output_dir.mkdir()
            prompt = output_dir / PROMPT
            prompt.write_text(order["prompt"], encoding="utf-8")
            options = [*order["options"], f"--prompt-file={prompt}"]
            self.work = TaskRun(options, self._tree.path / order["inside"], output_dir)
        except BaseException:
            self.close()
            raise

    def files(self) -> dict[str, bytes]:
        """Return the files of the run, and the patch of its changes, if there are any. Blocking."""
        output_dir = self.work.output_dir
        try:
            if patch := changes_in(self._tree):
                (output_dir / PATCH).write_bytes(patch)
        except (GitError, OSError) as error:
            with (output_dir / STDERR).open("a", encoding="utf-8") as stderr:
                stderr.write(f"the patch of the changes cannot be made: {error}\n")
        found = (output_dir / name for name in _KEPT)
        return {file.name: file.read_bytes() for file in found if file.is_file()}

    def close(self) -> None:
        """Remove the folder."""
        self._folder.cleanup()


def write_files(files: Mapping[str, bytes], output_dir: Path) -> None:
    """Write the files a run left on its node to *output_dir*; raises OSError. Blocking."""
    for name in _KEPT:
        if name in files:
            write_private(output_dir / name, files[name])


# Set by Ray for its own processes; a debugger or a token of Ray is none of the task's business.
_RAYS: Final = ("PYTHONBREAKPOINT", "SPT_NOENV")


def run_on_node(
    order: dict[str, Any],  # Any: JSON
    bundle: bytes | None = None,
    keeper: Any = None,  # Any: a handle of Ray
) -> str | dict[str, bytes]:
    """Run a task to its end; return the reason if it cannot be started on this node, else "".

    Ray cancels it by interrupting the main thread, which runs it: the task is then asked to end,
    and killed if it has not ended soon after. It is also killed when this process dies.

    Args:
        order: The fields of `TaskRun`, "variables" for its environment, and the "version" of the
            program that sent it.
        bundle: The repository of a task whose files this node does not see; then the files that
            the run leaves are returned.
        keeper: The actor that keeps the pause of such a batch.
    """
    if bundle is not None:
        return _copied(order, bundle, keeper)
    work = TaskRun(order["options"], Path(order["cwd"]), Path(order["output_dir"]))
    if fault := _fault(work, order["version"]):
        return f"the Ray node {socket.gethostname()} {fault}"
    return run_loop(_run(work, node_environment(os.environ, order["variables"])))


def _copied(order: dict[str, Any], bundle: bytes, keeper: Any) -> str | dict[str, bytes]:
    host = socket.gethostname()
    if fault := _version_fault(order["version"]):
        return f"the Ray node {host} {fault}"
    try:
        checkout = NodeCheckout(order, bundle)
    except (GitError, OSError) as error:
        return f"the Ray node {host} cannot unpack the repository: {error}"
    try:
        fault = run_loop(_run_apart(checkout, order["variables"], keeper))
        return fault or checkout.files()
    finally:
        checkout.close()


async def _run_apart(checkout: NodeCheckout, sent: Mapping[str, str], keeper: Any) -> str:
    async with pause_socket(checkout.path, keeper) as path:
        variables = {**sent, PAUSE_VARIABLE: str(path)}
        return await _run(checkout.work, node_environment(os.environ, variables))


def node_environment(node: Mapping[str, str], sent: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a task: the node's, without Ray's own variables, and *sent*."""
    kept = {
        name: value
        for name, value in node.items()
        if name not in _RAYS and not name.startswith("RAY_")
    }
    return {**kept, **sent}


def _fault(work: TaskRun, version: str) -> str:
    if fault := _version_fault(version):
        return fault
    for folder in (work.output_dir, work.cwd):
        if not folder.is_dir():
            return (
                f"cannot see {folder}: the folders of the tasks and of the results must be on a"
                " file system that all nodes share; --ray-copy sends repositories to the nodes"
            )
    return ""


def _version_fault(version: str) -> str:
    if version == __version__:
        return ""
    return f"has agent-cli {__version__}, and this machine {version}: install the same version"


async def _run(work: TaskRun, environment: Mapping[str, str]) -> str:
    async with LocalEngine(environment) as engine:
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, engine.stop)
        try:
            await engine.run(work)
        except NotStarted as error:
            return f"the Ray node {socket.gethostname()} cannot run tasks: {error}"
    return ""


def write_bundle(repository: Path, commit: str, file: Path) -> None:
    """Write *commit* of *repository* with its history to *file*; the repository is not touched.

    Raises:
        GitError: Git cannot write it; a shallow clone cannot be bundled.
    """
    objects = os.fsdecode(
        run_git(repository, "rev-parse", "--git-path", "objects", limit_s=_GIT_S)
    ).strip()
    with tempfile.TemporaryDirectory(prefix="agent-cli-") as folder:
        beside = Path(folder)
        run_git(beside, "init", "--quiet", "--bare", *_format_of(commit), limit_s=_GIT_S)
        # A bundle needs a ref. This repository has one, and the objects of the other.
        alternates = beside / "objects" / "info" / "alternates"
        alternates.parent.mkdir(exist_ok=True)
        alternates.write_text(f"{(repository / objects).resolve()}\n")
        run_git(beside, "update-ref", _BRANCH, commit, limit_s=_GIT_S)
        run_git(
            beside, "bundle", "create", "--quiet", str(file.absolute()), _BRANCH, limit_s=_GIT_S
        )


def unpack_bundle(file: Path, folder: Path, commit: str) -> None:
    """Check *commit* out of the bundle *file* in the new repository *folder*.

    Raises:
        GitError: Git cannot read it.
    """
    folder.mkdir(parents=True)
    run_git(folder, "init", "--quiet", *_format_of(commit), limit_s=_GIT_S)
    # No remote is asked for anything else, so the file must be allowed.
    allowed = {"GIT_ALLOW_PROTOCOL": "file"}
    fetched = ("fetch", "--quiet", "--no-tags", str(file.absolute()), _BRANCH)
    run_git(folder, *fetched, limit_s=_GIT_S, variables=allowed)
    run_git(folder, "checkout", "--quiet", "--detach", commit, limit_s=_GIT_S)


def _format_of(commit: str) -> tuple[str, ...]:
    return ("--object-format=sha256",) if len(commit) > 40 else ()
