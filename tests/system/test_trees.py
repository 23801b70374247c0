"""Trees of folders as a command may leave them: walked and deleted, however deep."""

import ctypes
import os
import struct
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent_cli.policies.shell.reach import _entries
from agent_cli.system.temporary_files import OwnFolder
from agent_cli.system.trees import remove_tree, walk
from tests.deep_trees import LEVELS, deep_tree, little_recursion


@pytest.fixture(autouse=True)
def _little_recursion() -> Generator[None]:
    with little_recursion():
        yield


def test_deep_tree_is_removed_and_nothing_outside_it(tmp_path: Path) -> None:
    """A command can make one in its temporary folder, with paths too long for the system."""
    tree, beside = tmp_path / "tree", tmp_path / "beside"
    for folder in (tree, beside):
        folder.mkdir()
    deep_tree(tree, "d" * 50)
    (tmp_path / "link").symlink_to(beside)
    (tmp_path / "file").touch()

    for name in ("tree", "link", "file", "missing"):
        remove_tree(tmp_path / name)

    assert [*tmp_path.iterdir()] == [beside]


@contextmanager
def as_ordinary_user() -> Generator[None]:
    """Take root's right to ignore permissions from this thread; others have no such right."""
    libc = ctypes.CDLL(None, use_errno=True)
    if os.geteuid() != 0 or not hasattr(libc, "capset"):
        yield
        return
    header, before = struct.pack("=Ii", 0x20080522, 0), ctypes.create_string_buffer(24)
    assert libc.capget(header, before) == 0
    effective, *others = struct.unpack("=6I", before.raw)
    without = effective & ~(1 << 1 | 1 << 2)  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
    assert libc.capset(header, struct.pack("=6I", without, *others)) == 0
    try:
        yield
    finally:
        assert libc.capset(header, before.raw) == 0


def test_folders_without_permissions_are_removed_too(tmp_path: Path) -> None:
    """Also as an ordinary user, who cannot move a folder that he may not write to."""
    inner = tmp_path / "tree" / "a" / "b"
    inner.mkdir(parents=True)
    (inner / "file").touch()
    for folder in (inner, inner.parent):
        folder.chmod(0)

    with as_ordinary_user():
        remove_tree(tmp_path / "tree")

    assert [*tmp_path.iterdir()] == []


def test_tree_is_walked_like_os_walk(tmp_path: Path) -> None:
    for name in ("a/b/c", "a/d", "skipped/e"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "file").touch()
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "a" / "loop").symlink_to("loop")

    def all_of(
        walked: Iterable[tuple[str, list[str], list[str]]],
    ) -> list[tuple[str, set[str], set[str]]]:
        found: list[tuple[str, set[str], set[str]]] = []
        for folder, folders, others in walked:
            found.append((folder, {*folders}, {*others}))
            folders[:] = [each for each in folders if each != "skipped"]
        return sorted(found)

    assert all_of(walk(tmp_path)) == all_of(os.walk(str(tmp_path)))


def test_deep_tree_is_walked_to_its_end(tmp_path: Path) -> None:
    """The check before a command raised a RecursionError, so no command ran in such a workspace."""
    deep_tree(tmp_path, "d")

    assert sum(1 for _ in _entries(str(tmp_path))) == 2 * LEVELS

    remove_tree(tmp_path)


def test_deep_tree_of_a_killed_session_does_not_stop_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its temporary folder is removed first; every later command failed with a RecursionError."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    left = tmp_path / "agent-cli-run-left"
    left.mkdir()
    deep_tree(left, "d")

    OwnFolder().remove()

    assert [*tmp_path.iterdir()] == []
