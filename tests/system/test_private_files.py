"""Files of the user alone: replaced whole, or not at all."""

import errno
import os
import stat
import subprocess
import sys
import threading
from contextlib import nullcontext
from pathlib import Path

import pytest

from agent_cli.system.private_files import release, target_name, write_private
from tests.tables import each_row

OLD, NEW = b"old\n" * 5_000, b"new content\n" * 5_000

# Writes the same file in one folder per line of the module that a write executes, and is stopped
# there: by SIGKILL, or by an exception. What remains is for the test to see.
STOPPED_WRITERS = """
import itertools, os, signal, sys
from pathlib import Path
from agent_cli.system import private_files

def stopped_at(step, how):
    left = itertools.count(step, -1)
    def trace(frame, event, _):
        if frame.f_code.co_filename != private_files.__file__:
            return None
        if event == "line" and next(left) == 0:
            if how == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            raise OSError(28, "No space left on device")
        return trace
    return trace

def is_stopped(step, how):
    folder = Path(sys.argv[1], f"{how}-{step}")
    folder.mkdir()
    Path(folder, "a").write_bytes(b"old\\n" * 5_000)
    if pid := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0
    sys.settrace(stopped_at(step, how))
    try:
        private_files.write_private(Path(folder, "a"), b"new content\\n" * 5_000)
    except OSError:
        os._exit(1)
    os._exit(0)

for how in ("kill", "fail"):
    assert not all(is_stopped(step, how) for step in range(200)), "it never writes to the end"
"""


def test_a_write_stopped_at_any_step_leaves_the_old_or_the_new_content_whole(
    tmp_path: Path,
) -> None:
    """Killed or failed before every line of the module; after a failure no draft remains."""
    subprocess.run([sys.executable, "-c", STOPPED_WRITERS, str(tmp_path)], check=True)

    contents = {folder.name: (folder / "a").read_bytes() for folder in tmp_path.iterdir()}
    drafts = {
        folder.name: {target_name(file.name) for file in folder.iterdir() if file.name != "a"}
        for folder in tmp_path.iterdir()
    }
    assert set(contents.values()) == {OLD, NEW}
    assert set().union(*drafts.values()) == {"a"}, "no kill came while there was a draft"
    assert not any(left for name, left in drafts.items() if name.startswith("fail"))


def test_the_file_is_for_its_owner_alone_even_if_it_was_not_before(tmp_path: Path) -> None:
    (tmp_path / "a").touch(0o644)
    old = os.umask(0)
    try:
        write_private(tmp_path / "a", NEW)
        write_private(tmp_path / "new" / "b", b"")
    finally:
        os.umask(old)

    made = [tmp_path / "a", tmp_path / "new", tmp_path / "new" / "b"]
    assert [path.stat().st_mode & 0o777 for path in made] == [0o600, 0o700, 0o600]
    assert (tmp_path / "a").read_bytes() == NEW


def test_a_symlink_is_replaced_and_its_target_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(OLD)
    (tmp_path / "a").symlink_to("target")

    write_private(tmp_path / "a", NEW)

    assert not (tmp_path / "a").is_symlink()
    assert (tmp_path / "target").read_bytes() == OLD


def test_a_refused_write_leaves_no_draft(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()

    with pytest.raises(OSError, match="taken"):
        write_private(tmp_path / "taken", NEW)

    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


@pytest.mark.parametrize("code", [errno.EIO, errno.EINVAL, errno.ENOSYS, errno.ENOTSUP])
@pytest.mark.parametrize("of_folder", [True, False])
def test_a_failed_sync_is_reported_unless_none_is_possible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, *, of_folder: bool
) -> None:
    """The others are answers of file systems that never sync; they can hold files still."""

    def fail(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode) is of_folder:
            raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", fail)
    expected = pytest.raises(OSError, match="Input/output") if code == errno.EIO else nullcontext()

    with expected:
        write_private(tmp_path / "a", NEW)

    is_written = of_folder or code != errno.EIO
    assert (tmp_path / "a").exists() is is_written


def test_threads_that_write_the_same_file_never_mix_their_contents(tmp_path: Path) -> None:
    contents = [bytes([number]) * 20_000 for number in range(4)]
    writers = [
        threading.Thread(target=write_private, args=(tmp_path / "a", data))
        for data in contents
        for _ in range(5)
    ]

    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()

    assert (tmp_path / "a").read_bytes() in contents
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@each_row("name", ["a", ".a", ".lock.old", f"a.{'0' * 16}", f".{'0' * 16}"])
def test_only_a_draft_has_the_name_of_another_file(name: str) -> None:
    assert target_name(name) == name


def test_file_whose_lock_cannot_be_ended_is_closed_all_the_same(tmp_path: Path) -> None:
    """A run that is done ended with an error, for a network file system that was out of reach."""
    (tmp_path / "file").touch()
    descriptor = os.open(tmp_path / "file", os.O_PATH)  # takes no lock, so it ends none either

    release(descriptor)

    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
