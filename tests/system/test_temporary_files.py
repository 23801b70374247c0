"""A temporary directory that is removed with its program, however the program ends."""

import gc
import os
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from agent_cli.system.temporary_files import OwnFolder
from tests.forked import start

LIMIT_S = 60
ENDS = 10
ROOT = Path(__file__).parents[2]
# Prints the path of its folder, and stays until it is told to end or killed.
_OWNER = """
import sys
from agent_cli.system.temporary_files import OwnFolder
folder = OwnFolder()
(folder.path / "closed").mkdir()
(folder.path / "closed" / "file").touch()
(folder.path / "closed").chmod(0o000)
print(folder.path, flush=True)
sys.stdin.readline()
"""


@pytest.fixture(autouse=True)
def _temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))


def owner() -> "tuple[subprocess.Popen[str], Path]":
    process = subprocess.Popen(
        [sys.executable, "-c", _OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    path = process.stdout.readline().strip()
    assert path, "it could not begin"  # else the folder would be the current one
    return process, Path(path)


def test_temporary_folder_is_private_and_removed_with_its_owner(tmp_path: Path) -> None:
    """Threat 21: another user must not enter the folder, nor guess its name."""
    folder = OwnFolder()
    other = OwnFolder()
    mode = stat.S_IMODE(folder.path.stat().st_mode)
    folder.remove()
    folder.remove()
    del other
    gc.collect()

    assert mode == 0o700
    assert list(tmp_path.iterdir()) == []


def test_removing_the_folder_leaves_targets_of_its_links_unchanged(tmp_path: Path) -> None:
    """A command may put a link there, to a user's directory that is closed to others."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    elsewhere.chmod(0o555)  # mkdir obeys the umask
    folder = OwnFolder()
    (folder.path / "link").symlink_to(elsewhere)

    folder.remove()

    assert stat.S_IMODE(elsewhere.stat().st_mode) == 0o555
    assert list(tmp_path.iterdir()) == [elsewhere]


def test_temporary_folder_is_removed_when_the_program_ends(tmp_path: Path) -> None:
    process, path = owner()
    assert path.is_dir()
    with process:
        process.communicate("go\n")

    assert list(tmp_path.iterdir()) == []


def test_folder_of_a_killed_program_is_removed_by_the_next_program(tmp_path: Path) -> None:
    """Folders of running programs stay, and so do entries whose names only look alike."""
    (killed, left), (living, held) = owner(), owner()
    (tmp_path / "agent-cli-run-file").touch()
    (tmp_path / "agent-cli-run-link").symlink_to(held)
    with killed:
        killed.send_signal(signal.SIGKILL)
    assert left.is_dir()

    folder = OwnFolder()

    assert not left.exists()
    assert (held / "closed").is_dir()
    with living:
        living.communicate("go\n")
    assert sorted(os.listdir(tmp_path)) == sorted(  # noqa: PTH208 - names
        [folder.path.name, "agent-cli-run-file", "agent-cli-run-link"]
    )
    folder.remove()


# The end waits a second for a thread that makes a folder; a busy machine may hold that up longer.
PATIENT = f"""
from agent_cli.system import temporary_files
temporary_files._MAKING_LIMIT_S = {LIMIT_S}
"""


def ended(script: str, temporary: Path) -> None:
    """Run a script to its end, with a temporary folder of its own."""
    subprocess.run(
        [sys.executable, "-P", "-c", PATIENT + script],
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(temporary)},
        timeout=LIMIT_S,
        check=True,
    )


# The system may allow 256 open files, and each folder is one.
MAKING = """
import threading, time
from collections import deque
from agent_cli.system import stop_signals
from agent_cli.system.temporary_files import OwnFolder

kept = deque(maxlen=100)

def make():
    while True:
        kept.append(OwnFolder())

threading.Thread(target=make, daemon=True).start()
while not kept:
    time.sleep(0.001)
stop_signals.end(0)
"""


def test_folder_that_a_thread_makes_while_the_process_ends_is_removed(tmp_path: Path) -> None:
    """A signal came while the sandbox was tried: nobody waits for that thread."""
    script, temporary = tmp_path / "making.py", tmp_path / "temporary"
    script.write_text(PATIENT + MAKING)
    temporary.mkdir()
    for _ in range(ENDS):
        with start(str(script), environment={**os.environ, "TMPDIR": str(temporary)}) as process:
            _, told = process.communicate()
            assert (process.wait(), told) == (0, "")

    assert list(temporary.iterdir()) == []


FIRST = """
import tempfile, threading, time
from agent_cli.system import stop_signals
from agent_cli.system.temporary_files import OwnFolder

kept, made, make = [], threading.Event(), tempfile.mkdtemp

def make_slowly(**options):
    path = make(**options)
    made.set()
    time.sleep(0.1)
    return path

tempfile.mkdtemp = make_slowly
threading.Thread(target=lambda: kept.append(OwnFolder()), daemon=True).start()
made.wait()
stop_signals.end(0)
"""


def test_first_folder_that_a_thread_makes_while_the_process_ends_is_removed(tmp_path: Path) -> None:
    """Nothing was registered yet that would have waited for it, or removed it."""
    ended(FIRST, tmp_path)

    assert list(tmp_path.iterdir()) == []


REMOVED = """
import os, threading, time
from agent_cli.system import stop_signals
from agent_cli.system.temporary_files import OwnFolder

removing, remove = threading.Event(), os.rmdir

def remove_slowly(path, **options):
    if threading.current_thread() is not threading.main_thread():
        removing.set()
        time.sleep(LIMIT_S)
    remove(path, **options)

os.rmdir = remove_slowly
threading.Thread(target=OwnFolder().remove, daemon=True).start()
removing.wait()
stop_signals.end(0)
"""


def test_folder_that_a_thread_removes_while_the_process_ends_is_removed(tmp_path: Path) -> None:
    ended(REMOVED.replace("LIMIT_S", str(LIMIT_S)), tmp_path)

    assert list(tmp_path.iterdir()) == []


TRIED = """
import os, threading, time
from agent_cli.system import stop_signals
from agent_cli.system.temporary_files import remove_left_folders

made, remove = threading.Event(), os.unlink

def remove_slowly(path):
    made.set()
    time.sleep(0.1)
    remove(path)

os.unlink = remove_slowly
threading.Thread(target=remove_left_folders, daemon=True).start()
made.wait()
stop_signals.end(0)
"""


def test_file_that_tries_the_temporary_folder_while_the_process_ends_is_removed(
    tmp_path: Path,
) -> None:
    """Python writes it, in the thread that removes what killed programs left."""
    ended(TRIED, tmp_path)

    assert list(tmp_path.iterdir()) == []


HELD = """
from agent_cli.system import stop_signals
from agent_cli.system.temporary_files import OwnFolder

folder = OwnFolder()
stop_signals.hold(["a thread that reads"])
stop_signals.end(0)
"""


def test_folder_is_removed_where_a_thread_keeps_the_exit_functions_from_running(
    tmp_path: Path,
) -> None:
    """`acp` and `mcp serve` end like this while their client keeps its pipe open."""
    ended(HELD, tmp_path)

    assert list(tmp_path.iterdir()) == []
