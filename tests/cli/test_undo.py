"""`agent-cli undo`: earlier versions of files, from the records that sessions left."""

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_cli.system.paths import changes_dir
from agent_cli.undo.stopped_calls import why_missing
from agent_cli_tools import command_run
from agent_cli_tools.snapshots.kept_versions import bound_store, kept_versions
from tests.e2e.program import agent_cli
from tests.tools.test_undo_commands import Session

pytestmark = pytest.mark.skipif(why_missing() != "", reason=why_missing() or "-")


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    """Record in the folder of all sessions, as the program does."""
    monkeypatch.setattr(command_run, "may_gain_rights", lambda *_, **_more: False)
    made = Session(Path.cwd().resolve(), changes_dir())
    made.run()
    yield made
    made.close()


def test_deleted_and_overwritten_files_are_listed_shown_and_restored(session: Session) -> None:
    """Also after the session, one file at a time; what is there now is moved aside."""
    Path("data").mkdir()
    Path("data/a.csv").write_text("lost\n")
    Path("data/a.csv").chmod(0o640)
    Path("b.txt").write_text("one\n")
    os.utime("data/a.csv", ns=(5, 1_000_000_000))
    asyncio.run(session.bash("rm -r data; echo two > b.txt"))
    asyncio.run(session.write("b.txt", "three\n"))
    session.close()

    rows = json.loads(agent_cli("undo", "list", "--json").stdout)
    named = agent_cli("undo", "list", "data").stdout
    shown = agent_cli("undo", "show", "data/a.csv").stdout
    restored = agent_cli("undo", "restore", "data/a.csv")
    again = agent_cli("undo", "restore", "data/a.csv").stdout
    folder = agent_cli("undo", "restore", "data")
    first = next(row["id"] for row in rows if row["path"].endswith("b.txt") and row["bytes"] == 4)
    other = agent_cli("undo", "restore", first)

    assert [Path(row["path"]).name for row in rows] == ["b.txt", "b.txt", "a.csv"]
    assert "before: rm -r data; echo two > b.txt" in named
    assert shown == "lost\n"
    assert restored.code == 0
    assert Path("data/a.csv").read_text() == "lost\n"
    found = Path("data/a.csv").stat()
    assert (found.st_mode & 0o777, found.st_mtime_ns) == (0o640, 1_000_000_000)
    assert again.endswith("nothing to do\n")
    assert folder.code == 1
    assert "data is a folder: name a file of it, or an id; see: agent-cli undo list data" in (
        folder.stderr
    )
    assert Path("b.txt").read_text() in ("one\n", "two\n")
    aside = Path(other.stdout.rpartition("kept as ")[2].strip())
    assert aside.read_text() == "three\n"


def test_earlier_version_is_not_put_behind_a_link(session: Session, tmp_path: Path) -> None:
    """Threat 24: a command deletes a file of its own, and has its folder lead to ~/.ssh."""
    outside = tmp_path.with_name(f"{tmp_path.name}-home") / ".ssh"
    outside.mkdir()
    Path("conf/new").mkdir(parents=True)
    for name in ("conf/authorized_keys", "conf/new/key"):
        Path(name).write_text("theirs\n")
    asyncio.run(
        session.bash(f"rm conf/authorized_keys conf/new/key; rm -r conf; ln -s '{outside}' conf")
    )
    session.close()

    ids = [row["id"] for row in json.loads(agent_cli("undo", "list", "--json").stdout)]
    restored = [agent_cli("undo", "restore", id) for id in ids]

    assert [each.code for each in restored] == [1, 1]
    assert all(f"leads to {outside}" in each.stderr for each in restored)
    assert [*outside.iterdir()] == []


@pytest.mark.parametrize("words", [("show", "nothing"), ("restore", "nothing"), ("what",)])
def test_unknown_version_is_one_clear_sentence(words: tuple[str, ...]) -> None:
    run = agent_cli("undo", *words)

    assert run.code in (1, 2)
    assert run.stderr.count("\n") == 1
    assert "undo" in run.stderr


def test_kept_files_are_bounded_and_backups_leave_them_out(session: Session) -> None:
    """The oldest command's files go first; what this program recorded stays."""
    for name in ("old", "new"):
        Path(name).write_bytes(bytes(100_000))
        asyncio.run(session.bash(f"rm {name}"))
    session.close()
    logs = sorted(
        changes_dir().glob("s-1/commands/*/log.jsonl"), key=lambda log: log.stat().st_mtime
    )
    os.utime(logs[0], (1, 1))
    os.utime(logs[1], (2, 2))
    store, here = changes_dir(), Path.cwd().resolve()

    bound_store(store, but="s-1", days_max=30, bytes_max=150_000, since_s=2)

    assert [each.path.name for each in kept_versions(store, here)] == ["new"]
    assert (store / "CACHEDIR.TAG").read_bytes().startswith(b"Signature: 8a477f597d28d17278")
    bound_store(store, but="s-1", days_max=30, bytes_max=1, since_s=2)
    assert [each.path.name for each in kept_versions(store, here)] == ["new"]
    bound_store(store, but="other", days_max=30, bytes_max=1, since_s=3)
    assert kept_versions(store, here) == []
