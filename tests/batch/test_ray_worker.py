"""Tasks on nodes that share no files: the repository goes as a bundle, the results come back."""

import asyncio
import json
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agent_cli.app.arguments import parse_arguments
from agent_cli.batch import ray_driver
from agent_cli.batch.ray_worker import (
    PauseKeeper,
    pause_socket,
    run_on_node,
    unpack_bundle,
    write_bundle,
    write_files,
)
from agent_cli.cli.batch import run_batch
from agent_cli.contracts.errors import UsageError
from agent_cli.system.shared_pauses import SharedPause
from agent_cli.trust.store import TrustStore, fingerprint
from agent_cli.version import __version__
from tests.messages_api import reply, serve_in_thread, tool_use
from tests.system.test_worktrees import git


class Handle:
    """A handle of an actor of Ray, whose method runs in another thread."""

    def __init__(self, keeper: PauseKeeper) -> None:
        self.take = SimpleNamespace(remote=self._remote)
        self._keeper = keeper

    def _remote(self, *arguments: Any) -> SimpleNamespace:
        future: Future[float] = Future()
        threading.Thread(target=lambda: future.set_result(self._keeper.take(*arguments))).start()
        return SimpleNamespace(future=lambda: future)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository whose first commit has a file in a folder, and that has moved on since."""
    folder = tmp_path / "shop"
    (folder / "src").mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    (folder / "src" / "a.py").write_text("one\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")
    git(folder, "tag", "v1")
    (folder / "src" / "a.py").write_text("two\n")
    git(folder, "commit", "-qam", "second")
    return folder


def test_bundle_holds_a_commit_with_its_history_and_leaves_the_repository_alone(
    repository: Path, tmp_path: Path
) -> None:
    refs, commit = git(repository, "show-ref"), git(repository, "rev-parse", "HEAD").strip()
    status = git(repository, "count-objects", "-v")
    write_bundle(repository, commit, tmp_path / "b")

    unpack_bundle(tmp_path / "b", tmp_path / "there", commit)

    assert (tmp_path / "there" / "src" / "a.py").read_text() == "two\n"
    assert git(tmp_path / "there", "log", "--format=%s").split() == ["second", "first"]
    assert git(repository, "show-ref") == refs
    assert git(repository, "count-objects", "-v") == status


def test_run_on_a_node_without_our_files_returns_results_and_patch(
    repository: Path, tmp_path: Path
) -> None:
    """Nothing is left on the node, and the folders of the batch are never read there."""
    commit = git(repository, "rev-parse", "v1").strip()
    write_bundle(repository, commit, tmp_path / "b")
    order: dict[str, Any] = {
        "options": ["--permission-mode=yolo"],
        "cwd": "/nowhere",
        "output_dir": "/nowhere",
        "version": __version__,
        "commit": commit,
        "inside": "src",
        "prompt": "go",
    }
    edit = tool_use("write", {"path": "b.py", "content": "new\n"})

    with serve_in_thread(reply(edit), reply("Done.")) as api:
        variables = {"ANTHROPIC_BASE_URL": api.base_url, "ANTHROPIC_API_KEY": "k"}
        left = run_on_node(
            {**order, "variables": variables}, (tmp_path / "b").read_bytes(), Handle(PauseKeeper())
        )
        assert api.refusals == [], left
        assert len(api.requests) == 2, left
        first = api.requests[0]

    assert isinstance(left, Mapping), left
    assert json.loads(left["result.json"])["text"] == "Done."
    assert b"+++ b/src/b.py" in left["changes.patch"]
    assert "go" in json.dumps(first.body["messages"])
    write_files(left, tmp_path / "results")
    git(repository, "checkout", "-q", "v1")
    git(repository, "apply", str(tmp_path / "results" / "changes.patch"))
    assert (repository / "src" / "b.py").read_text() == "new\n"
    assert {each.name for each in (tmp_path / "results").iterdir()} == {*left}


async def test_agents_of_all_nodes_share_the_pause_of_one_actor(tmp_path: Path) -> None:
    """What one agent was told on its node holds for another one on its own."""
    keeper = Handle(PauseKeeper())
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        await asyncio.sleep(0)
        if len(waits) == 3:
            await one.answered()

    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    async with (
        pause_socket(tmp_path / "a", keeper) as first,
        pause_socket(tmp_path / "b", keeper) as second,
    ):
        one, other = SharedPause(first), SharedPause(second, sleep=sleep)
        await one.turn()
        await one.failed(60.0)
        async with asyncio.timeout(30):
            await other.turn()

    assert len(waits) >= 3
    # The batch has ended: an agent that is left waits for nobody.
    await SharedPause(first).turn()


def test_driver_puts_a_bundle_into_the_object_store_once(tmp_path: Path) -> None:
    """The files of a run are written before its end is reported; the result is the last."""
    stored: list[bytes] = []
    sent: list[tuple[object, ...]] = []
    replies: list[dict[str, Any]] = []
    ended: Future[dict[str, bytes]] = Future()

    def remote(**_options: object) -> Any:
        def function(_function: object) -> Any:
            def call(*arguments: object) -> Any:
                sent.append(arguments)
                return SimpleNamespace(future=lambda: ended)

            return SimpleNamespace(
                options=lambda name: SimpleNamespace(remote=call), remote=lambda: "keeper"
            )

        return function

    def put(value: bytes) -> str:
        stored.append(value)
        return f"ref {len(stored)}"

    ray = SimpleNamespace(
        remote=remote,
        put=put,
        exceptions=None,
        get_runtime_context=lambda: SimpleNamespace(get_node_id=lambda: "head"),
        util=SimpleNamespace(
            scheduling_strategies=SimpleNamespace(
                NodeAffinitySchedulingStrategy=lambda node_id, soft: (node_id, soft)
            )
        ),
    )
    (tmp_path / "b").write_bytes(b"bundle")
    make_driver: Any = ray_driver._Driver
    driver = make_driver(ray, SimpleNamespace(write=replies.append), 0.1)
    for number in (1, 2):
        order = {"output_dir": str(tmp_path / str(number))}
        driver.take({"run": number, "name": "n", "order": order, "bundle": str(tmp_path / "b")})

    ended.set_result({"result.json": b"{}", "stderr.log": b"", "other": b"x"})

    assert stored == [b"bundle"]
    assert [arguments[1:] for arguments in sent] == [("ref 1", "keeper")] * 2
    assert replies == [{"ended": 1}, {"ended": 2}]
    assert sorted(each.name for each in (tmp_path / "2").iterdir()) == ["result.json", "stderr.log"]


@pytest.mark.parametrize(
    ("ref", "options", "told"),
    [
        ("", (), "has no ref, and --ray-copy sends repositories alone"),
        ("v1", ("--add-dir", "."), "--add-dir cannot be used with --ray-copy"),
        ("v1", (), "its guards too: give --trust"),
    ],
)
def test_batches_that_nodes_without_our_files_cannot_run_are_refused(
    ref: str,
    options: tuple[str, ...],
    told: str,
    repository: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("agent_cli.batch.ray_engine.is_installed", lambda _name: True)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    (repository / ".mcp.json").write_text('{"mcpServers": {}}')
    TrustStore.of_user().trust(repository, fingerprint(repository))
    task = {"id": "a", "prompt": "go", "cwd": str(repository), **({"ref": ref} if ref else {})}
    Path("tasks.jsonl").write_text(json.dumps(task))

    arguments = parse_arguments(["batch", "tasks.jsonl", "--engine", "ray", "--ray-copy", *options])

    with pytest.raises(UsageError, match=told):
        run_batch(arguments)
