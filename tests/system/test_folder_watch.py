"""The kernel tells which folders changed, or the watch says that it cannot tell."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_cli.system import folder_watch
from agent_cli.system.folder_watch import FolderWatch

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")


class Noted:
    """A listener that notes what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def changed(self, path: str) -> None:
        self.told.append(f"{Path(path).name} changed")

    def lost(self, path: str) -> None:
        self.told.append(f"{Path(path).name} lost")

    def missed(self) -> None:
        self.told.append("missed")

    def news(self, watch: FolderWatch) -> set[str]:
        self.told.clear()
        watch.collect()
        return {*self.told}


@pytest.fixture
def watch() -> Iterator[FolderWatch]:
    watch = FolderWatch()
    yield watch
    watch.close()


def add(watch: FolderWatch, path: Path, listener: Noted) -> bool:
    path.mkdir(exist_ok=True)
    return watch.add(str(path), path.stat().st_dev, listener)


def test_each_listener_is_told_which_of_its_folders_changed(
    tmp_path: Path, watch: FolderWatch
) -> None:
    one, two = Noted(), Noted()
    assert all([add(watch, tmp_path / "a", one), add(watch, tmp_path / "b", one)])
    assert add(watch, tmp_path / "a", two)
    (tmp_path / "a" / "x").touch()

    assert (one.news(watch), two.told) == ({"a changed"}, ["a changed"])
    (tmp_path / "a" / "x").write_text("content is no entry")
    assert one.news(watch) == set()
    (tmp_path / "a" / "x").rename(tmp_path / "b" / "x")
    assert one.news(watch) == {"a changed", "b changed"}
    (tmp_path / "b" / "x").chmod(0o600)
    assert one.news(watch) == set()
    (tmp_path / "b").chmod(0o500)
    assert one.news(watch) == {"b changed"}
    watch.drop(str(tmp_path / "a"), two)
    two.told.clear()
    (tmp_path / "a" / "y").touch()
    assert (one.news(watch), two.told) == ({"a changed"}, [])


def test_deleted_folder_is_lost_and_can_be_watched_again(
    tmp_path: Path, watch: FolderWatch
) -> None:
    noted = Noted()
    add(watch, tmp_path / "a", noted)
    (tmp_path / "a").rmdir()

    assert noted.news(watch) == {"a lost"}
    assert add(watch, tmp_path / "a", noted)
    (tmp_path / "a" / "x").touch()
    assert noted.news(watch) == {"a changed"}


def test_more_changes_than_the_kernel_keeps_are_told_as_missed(
    tmp_path: Path, watch: FolderWatch
) -> None:
    """Threat 4: each of them could be a new secret."""
    noted = Noted()
    add(watch, tmp_path, noted)
    queued_max = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if queued_max > 20_000:
        pytest.skip(f"{queued_max} events fit")
    one, two = tmp_path / "a", tmp_path / "b"
    one.touch()
    for _ in range(queued_max // 4 + 10):  # a rename is two events
        one.rename(two)
        two.rename(one)

    assert "missed" in noted.news(watch)


def test_folder_is_not_watched_beyond_a_limit_or_on_a_file_system_of_others(
    tmp_path: Path, watch: FolderWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not watch.add("/proc/self", Path("/proc/self").stat().st_dev, Noted())
    assert not watch.add(str(tmp_path / "missing"), tmp_path.stat().st_dev, Noted())
    monkeypatch.setattr(folder_watch, "_new_watch", lambda: None)
    beyond = FolderWatch()
    assert not beyond.add(str(tmp_path), tmp_path.stat().st_dev, Noted())
    beyond.collect()
    watch.close()
    assert not watch.add(str(tmp_path), tmp_path.stat().st_dev, Noted())


def test_without_proc_no_folder_is_watched(tmp_path: Path) -> None:
    """Mounts go unnoticed there, so a real process without /proc looks at its folders."""
    code = (
        "import os, sys; from agent_cli.system.folder_watch import FolderWatch;"
        "watch = FolderWatch();"
        "print(watch.add(sys.argv[1], os.stat(sys.argv[1]).st_dev, None)); watch.collect()"
    )
    bare = f"mount -t tmpfs none /proc && exec {sys.executable} -c '{code}' {tmp_path}"
    ended = subprocess.run(
        ["unshare", "--map-root-user", "--mount", "sh", "-c", bare],
        capture_output=True,
        text=True,
        check=False,
    )
    if "unshare" in ended.stderr or "mount:" in ended.stderr:
        pytest.skip("this machine gives no mount namespace")
    assert (ended.stdout, ended.stderr) == ("False\n", "")
