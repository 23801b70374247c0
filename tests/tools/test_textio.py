"""Bytes survive: decoding, encoding, and writing despite concurrent changes."""

import errno
import os
import resource
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_cli.contracts.errors import ToolError
from agent_cli.system.paths import state_dir
from agent_cli.system.temporary_files import is_temporary_name, noted, remove_noted, temporary_name
from agent_cli_tools import textio
from agent_cli_tools.atomic_write import write_atomic
from agent_cli_tools.textio import (
    decode,
    encode,
    failure,
    looks_binary,
    read_bytes,
    require_writable,
)
from tests.tables import each_row

OLD, NEW = b"old\n" * 500, b"new content\n" * 500


@given(st.binary())
def test_decoding_and_encoding_gives_the_same_bytes(raw: bytes) -> None:
    text, encoding = decode(raw)

    assert encode(text, encoding) == raw


@each_row(
    ("raw", "expected"),
    [
        (b"caf\xc3\xa9", ("café", "utf-8")),
        (b"\xef\xbb\xbfa", ("a", "utf-8-sig")),
        (b"caf\xe9", ("café", "latin-1")),
        (b"\xef\xbb\xbf\xff", ("ï»¿ÿ", "unknown")),
    ],
)
def test_decode_detects_the_encoding(raw: bytes, expected: tuple[str, str]) -> None:
    assert decode(raw) == expected


LETTERS = {
    **dict.fromkeys(("gbk", "gb18030", "big5"), "# 中文注意：你好\nx = 1\n"),
    **dict.fromkeys(("shift_jis", "euc_jp"), "# 日本語のテスト、カタカナ\nx = 1\n"),
    **dict.fromkeys(("euc_kr", "cp949", "johab"), "# 한국어 주석입니다\nx = 1\n"),
    **dict.fromkeys(("cp1251", "koi8_r", "cp866"), "# Комментарий\nx = 1\n"),
    "iso2022_jp": "# 日本語のテスト\nx = 1\n",
    "iso2022_jp_1": "# 丂\nx = 1\n",
    "iso2022_kr": "# 한국어\nx = 1\n",
    "cp1253": "# Σχόλιο\nx = 1\n",
    "cp1255": "# הערה\nx = 1\n",
    "tis_620": "# ความเห็น\nx = 1\n",
    "cp850": "# Grüße\nx = 1\n",
}


@each_row(("encoding", "text"), LETTERS.items(), ids=LETTERS)
def test_text_that_latin_1_shows_wrongly_is_unknown_and_keeps_its_bytes(
    encoding: str, text: str
) -> None:
    """The model must not take the letters for real ones, and an edit must not harm them."""
    raw = text.encode(encoding)

    shown, found = decode(raw)

    assert found == "unknown"
    assert encode(shown.replace("x = 1", "x = 2"), found) == raw.replace(b"x = 1", b"x = 2")


@each_row("text", ["Grüße", "déjà créé", "“5 €” – non…", "un œuf, Œdipe", "¿Qué? ¡Sí!", "Åsa, Þór"])
def test_western_text_is_latin_1(text: str) -> None:
    """Quotes, dashes and ligatures of Windows do not make its letters unknown."""
    assert decode(text.encode("cp1252"))[1] == "latin-1"


def test_only_ascii_is_added_to_a_file_of_unknown_encoding() -> None:
    """Any other letter would be in another encoding than the rest of the file."""
    require_writable("x ï", "unknown", old="ï")
    require_writable("x é", "latin-1")
    with pytest.raises(ToolError, match=r"neither UTF-8 nor Latin-1.*U\+00E9"):
        require_writable("x é", "unknown", old="x")


def test_error_for_a_character_the_encoding_lacks_names_the_character() -> None:
    with pytest.raises(ToolError, match=r"latin-1.*U\+20AC"):
        encode("5 €", "latin-1")
    with pytest.raises(ToolError, match=r"U\+D800"):
        encode("\ud800", "utf-8")


def test_content_with_nul_looks_binary() -> None:
    assert looks_binary(b"\x7fELF\0\0")
    assert not looks_binary("Grüße\r\n".encode())


def test_atomic_write_replaces_the_content_and_keeps_the_mode(tmp_path: Path) -> None:
    path = tmp_path / "a.sh"
    path.write_bytes(OLD)
    path.chmod(0o751)

    write_atomic(path, NEW, before=OLD)

    assert path.read_bytes() == NEW
    assert stat.S_IMODE(path.stat().st_mode) == 0o751
    assert [other.name for other in tmp_path.iterdir()] == ["a.sh"]


def test_new_file_gets_the_mode_allowed_by_the_umask(tmp_path: Path) -> None:
    old_umask = os.umask(0o027)
    try:
        write_atomic(tmp_path / "a", NEW, before=None)
    finally:
        os.umask(old_umask)

    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to somebody else")
def test_atomic_write_keeps_the_owner(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(OLD)
    os.chown(path, 12345, 23456)

    write_atomic(path, NEW, before=OLD)

    assert (path.stat().st_uid, path.stat().st_gid) == (12345, 23456)


def test_atomic_write_keeps_extended_attributes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that cannot be copied does not cost the others."""
    path = tmp_path / "a"
    path.write_bytes(OLD)
    try:
        os.setxattr(path, "user.note", b"kept")
    except OSError:
        pytest.skip("no extended attributes on this file system")
    monkeypatch.setattr(os, "listxattr", lambda _file: ["user.gone", "user.note"])

    write_atomic(path, NEW, before=OLD)

    assert os.getxattr(path, "user.note") == b"kept"


def test_atomic_write_keeps_hard_links_together(tmp_path: Path) -> None:
    """Replacing one name would leave the other with the old content."""
    path, other = tmp_path / "a", tmp_path / "b"
    path.write_bytes(NEW + OLD)
    other.hardlink_to(path)

    write_atomic(path, NEW, before=NEW + OLD)

    assert other.read_bytes() == NEW
    assert other.samefile(path)


@pytest.mark.parametrize("is_linked", [False, True])
def test_atomic_write_works_where_the_file_system_syncs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_linked: bool
) -> None:
    """FUSE and 9p: `write` and `edit` blamed the path."""

    def refuse(_descriptor: int) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    path = tmp_path / "a"
    path.write_bytes(OLD)
    if is_linked:
        (tmp_path / "b").hardlink_to(path)
    monkeypatch.setattr(os, "fsync", refuse)

    write_atomic(path, NEW, before=OLD)

    assert path.read_bytes() == NEW


@pytest.mark.parametrize("is_linked", [False, True])
def test_file_changed_in_the_meantime_is_not_overwritten(tmp_path: Path, is_linked: bool) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"by somebody else")
    if is_linked:
        (tmp_path / "b").hardlink_to(path)

    with pytest.raises(ToolError, match="changed by someone else"):
        write_atomic(path, NEW, before=OLD)

    assert path.read_bytes() == b"by somebody else"
    assert not list(tmp_path.glob(".agt-*"))


def test_file_created_in_the_meantime_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(OLD)

    with pytest.raises(ToolError, match="changed by someone else"):
        write_atomic(tmp_path / "a", NEW, before=None)

    assert (tmp_path / "a").read_bytes() == OLD


def test_temporary_files_of_killed_programs_are_removed_after_an_hour(tmp_path: Path) -> None:
    old, young = tmp_path / ".agt-0123456789abcdef", tmp_path / ".agt-fedcba9876543210"
    notes = tmp_path / ".agt-notes"
    for stray in (old, young, notes):
        stray.write_bytes(b"")
    two_hours_ago = time.time() - 7200
    for stray in (old, notes):
        os.utime(stray, (two_hours_ago, two_hours_ago))

    write_atomic(tmp_path / "a", NEW, before=None)

    assert not old.exists()
    assert young.exists()
    assert notes.exists()


@pytest.mark.parametrize("is_linked", [False, True])
def test_full_disk_leaves_the_file_unchanged(tmp_path: Path, is_linked: bool) -> None:
    """A limit on file sizes stands in for the disk: the write fails half way, with EFBIG."""
    path = tmp_path / "a"
    path.write_bytes(OLD)
    if is_linked:
        (tmp_path / "b").hardlink_to(path)
    script = (
        "import sys; from pathlib import Path\n"
        "from agent_cli_tools.atomic_write import write_atomic\n"
        "path = Path(sys.argv[1])\n"
        "write_atomic(path, b'x' * 100_000, before=path.read_bytes())"
    )

    run = subprocess.run(
        [sys.executable, "-c", script, str(path)],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192)),
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert "ToolError: The disk is full" in run.stderr
    assert path.read_bytes() == OLD
    assert not list(tmp_path.glob(".agt-*"))


def test_sigkill_during_a_write_leaves_the_old_or_the_new_content(tmp_path: Path) -> None:
    """Ten kills at arbitrary moments of a program that does nothing but write."""
    kill_in_mid_write(tmp_path, times=10)


@pytest.mark.parametrize("before", [None, OLD])
@pytest.mark.parametrize("is_named", [False, True])
def test_the_next_start_removes_what_a_kill_left(
    tmp_path: Path, before: bytes | None, is_named: bool
) -> None:
    """Killed when the temporary file has a name and does not yet replace the other."""
    path = tmp_path / "a"
    if before is not None:
        path.write_bytes(before)
    script = (
        "import os, signal, sys; from pathlib import Path\n"
        "from agent_cli_tools.atomic_write import write_atomic\n"
        "before = Path(sys.argv[1]).read_bytes() if Path(sys.argv[1]).exists() else None\n"
        f"{'os.O_TMPFILE = 0  # opening a folder fails' if is_named else ''}\n"
        "os.replace = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)\n"
        "write_atomic(Path(sys.argv[1]), b'new', before=before)"
    )
    living = tmp_path / temporary_name()
    living.write_bytes(b"of a program that still writes")

    subprocess.run([sys.executable, "-c", script, str(path)], check=False)
    left = {other.name for other in tmp_path.iterdir()} - {"a", living.name}
    with noted(living):
        remove_noted()

    assert len(left) == 1
    assert is_temporary_name(*left)
    content = {other.name: other.read_bytes() for other in tmp_path.iterdir()}
    assert content == {living.name: b"of a program that still writes"} | (
        {} if before is None else {"a": before}
    )
    assert not list((state_dir() / "unfinished").iterdir())


@pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="only Linux has unnamed files")
@pytest.mark.parametrize("before", [None, OLD])
def test_sigkill_before_the_new_content_is_whole_leaves_no_file(
    tmp_path: Path, before: bytes | None
) -> None:
    path = tmp_path / "a"
    if before is not None:
        path.write_bytes(before)
    script = (
        "import os, signal, sys; from pathlib import Path\n"
        "from agent_cli_tools.atomic_write import write_atomic\n"
        "before = Path(sys.argv[1]).read_bytes() if Path(sys.argv[1]).exists() else None\n"
        "os.fsync = lambda _file: os.kill(os.getpid(), signal.SIGKILL)\n"
        "write_atomic(Path(sys.argv[1]), b'new', before=before)"
    )

    subprocess.run([sys.executable, "-c", script, str(path)], check=False)

    content = {other.name: other.read_bytes() for other in tmp_path.iterdir()}
    assert content == ({} if before is None else {"a": before})


@pytest.mark.parametrize("is_there", [False, True])
def test_without_unnamed_files_a_write_takes_a_named_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    """Network file systems have none, and a container may have no /proc to name one by."""
    path = tmp_path / "a"
    if is_there:
        path.write_bytes(OLD)

    def refuse(*_args: object, **_options: object) -> None:
        raise FileNotFoundError(errno.ENOENT, "no /proc")

    monkeypatch.setattr(os, "link", refuse)
    write_atomic(path, NEW, before=OLD if is_there else None)

    assert {other.name: other.read_bytes() for other in tmp_path.iterdir()} == {"a": NEW}


@pytest.mark.slow
def test_eighty_sigkills_during_writes_leave_no_corrupt_file(tmp_path: Path) -> None:
    """The bar to pass: with writes in place, 54 of 80 files were corrupt."""
    kill_in_mid_write(tmp_path, times=80)


# For each line on stdin it forks a process that writes for ever, and says which.
_WRITERS = """
import os, sys
from pathlib import Path
from agent_cli_tools.atomic_write import write_atomic
path, old, new = Path(sys.argv[1]), b"old\\n" * 500, b"new content\\n" * 500
for _ in sys.stdin:
    if pid := os.fork():
        print(pid, flush=True)
        os.waitpid(pid, 0)
    else:
        if path.read_bytes() == new:
            old, new = new, old
        while True:
            write_atomic(path, new, before=old)
            old, new = new, old
"""


def kill_in_mid_write(tmp_path: Path, *, times: int) -> None:
    """Kill a writer *times* times, each a fraction of a millisecond later, and check the file."""
    path = tmp_path / "a"
    path.write_bytes(OLD)
    with subprocess.Popen(
        [sys.executable, "-c", _WRITERS, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as writers:
        assert writers.stdin is not None
        assert writers.stdout is not None
        for attempt in range(times):
            print("go", file=writers.stdin, flush=True)
            pid = int(writers.stdout.readline())
            if not attempt:
                while path.read_bytes() != NEW:
                    pass
            time.sleep(attempt / 3000)  # The moment matters; this is not waiting.
            os.kill(pid, signal.SIGKILL)

            assert path.read_bytes() in (OLD, NEW)

    assert {other.name[:5] for other in tmp_path.iterdir()} <= {"a", ".agt-"}


def test_a_named_pipe_is_refused_at_once(tmp_path: Path) -> None:
    """Opening the pipe normally would wait for a writer for ever."""
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(ToolError, match="not a regular file"):
        read_bytes(tmp_path / "pipe", bytes_max=10)


def test_symlink_in_place_of_a_checked_file_is_not_followed(tmp_path: Path) -> None:
    """An attacker may swap the file between the check of a path and its opening."""
    (tmp_path / "secret").write_text("no")
    (tmp_path / "a").symlink_to("secret")

    with pytest.raises(ToolError):
        read_bytes(tmp_path / "a", bytes_max=10)


def test_file_that_is_too_large_is_refused_before_reading(tmp_path: Path) -> None:
    with (tmp_path / "a").open("wb") as file:
        file.truncate(10**12)

    with pytest.raises(ToolError, match="1,000,000,000,000 bytes"):
        read_bytes(tmp_path / "a", bytes_max=textio._SNIFFED_BYTES)


@each_row(
    ("number", "words"),
    [(errno.ENOSPC, "disk is full"), (errno.EROFS, "no permission"), (errno.EIO, "could not be")],
)
def test_operating_system_errors_become_plain_sentences(number: int, words: str) -> None:
    assert words in str(failure(OSError(number, os.strerror(number)), Path("/ws/a.txt")))
