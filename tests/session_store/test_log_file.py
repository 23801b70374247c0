"""The lines of a log file: writing, crash safety, and the writer's lock."""

import errno
import fcntl
import hashlib
import os
from pathlib import Path

import pytest

from agent_cli.contracts.errors import SessionError
from agent_cli.session_store.log_file import LogFile, read_log

RECORDS = [{"kind": "a", "text": "one"}, {"kind": "b", "text": "zwölf"}]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s.jsonl"


def written(path: Path) -> bytes:
    """Write two records and return the file."""
    log = LogFile.create(path)
    log.append(RECORDS, sync=True)
    log.close()
    return path.read_bytes()


def test_log_line_format_is_stable(path: Path) -> None:
    """Files of earlier versions must stay readable: this is a wire format."""
    assert written(path).decode() == (
        '{"sum":"0bdb7e6c7f41b8c5140e1d5a0e36ed6a","prev":"00000000000000000000000000000000",'
        '"kind":"a","text":"one"}\n'
        '{"sum":"9c53355b79aac9728fb62e4820903c3e","prev":"0bdb7e6c7f41b8c5140e1d5a0e36ed6a",'
        '"kind":"b","text":"zw\\u00f6lf"}\n'
    )


def test_append_writes_only_the_new_lines(path: Path) -> None:
    """O(new): the old bytes are a prefix of the new file."""
    before = written(path)

    log, _ = LogFile.open(path)
    log.append([{"kind": "c"}], sync=False)
    log.close()

    after = path.read_bytes()
    assert after.startswith(before)
    assert after.count(b"\n") == 3


def test_incomplete_last_line_is_removed_before_the_next_append(path: Path) -> None:
    before = written(path)
    path.write_bytes(before + before[:40])

    log, found = LogFile.open(path)
    log.append([{"kind": "c"}], sync=False)
    log.close()

    assert [record["kind"] for record in found.records] == ["a", "b"]
    again = read_log(path)
    assert ([record["kind"] for record in again.records], again.damage) == (["a", "b", "c"], None)


def test_a_damaged_line_is_neither_read_nor_overwritten(path: Path) -> None:
    """Data after the damage may still be rescued by hand."""
    damaged = written(path).replace(b"one", b"two")
    path.write_bytes(damaged)

    with pytest.raises(SessionError, match="line 1 does not match its checksum; nothing is before"):
        LogFile.open(path)

    assert path.read_bytes() == damaged


def test_log_file_can_be_open_in_only_one_process(path: Path) -> None:
    """A second writer would break the chain; it gets an error that names the options."""
    log = LogFile.create(path)

    with pytest.raises(SessionError, match=r"open in another agent-cli.*`agent-cli --fork s`"):
        LogFile.open(path)
    log.close()
    LogFile.open(path)[0].close()


def test_closed_log_file_is_free_although_a_child_has_a_copy_of_its_descriptor(path: Path) -> None:
    """As a process that is just being started: the next program found the session open."""
    log = LogFile.create(path)
    copy = os.dup(log._descriptor)

    log.close()

    LogFile.open(path)[0].close()
    os.close(copy)


def test_refused_open_leaves_no_lock(path: Path) -> None:
    path.write_bytes(written(path).replace(b"one", b"two"))

    with pytest.raises(SessionError):
        LogFile.open(path)

    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_log_file_is_readable_by_the_owner_only(path: Path) -> None:
    old = os.umask(0)
    try:
        written(path)
    finally:
        os.umask(old)

    assert path.stat().st_mode & 0o777 == 0o600


def test_line_with_a_valid_checksum_that_is_not_json_is_damage(path: Path) -> None:
    body = b'"prev":"' + b"0" * 32 + b'",oops'
    digest = hashlib.sha256(body).hexdigest()[:32].encode()
    path.write_bytes(b'{"sum":"' + digest + b'",' + body + b"\n")

    damage = read_log(path).damage

    assert damage is not None
    assert (damage.number, damage.problem) == (1, "is not JSON although its checksum matches")


def test_log_is_written_where_the_file_system_syncs_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FUSE and 9p: the session could not even start."""

    def refuse(_descriptor: int) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "fsync", refuse)

    log = LogFile.create(path)
    log.append([{"a": 1}], sync=True)
    log.close()

    assert len(read_log(path).records) == 1


def test_failed_creation_of_a_log_leaves_no_empty_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next attempt would take it for another program's session."""

    def refuse(_descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", refuse)

    with pytest.raises(OSError, match="Input/output"):
        LogFile.create(path)

    assert not path.exists()
