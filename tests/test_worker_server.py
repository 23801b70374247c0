"""Workers of a run are forks of the process that collected the tests."""

import sys
from pathlib import Path

import pytest

from tests.test_isolation import run_pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only there workers are forked")

SOURCE = """
import os
import sys
from contextlib import suppress
from pathlib import Path
import pytest
HERE = Path(__file__).parent
STREAM = sys.stderr  # as a module holds it that is imported now
with (HERE / "imports").open("a") as imports:
    imports.write("once ")
@pytest.mark.parametrize("number", range(5))
def test_inner(number, tmp_path):
    (HERE / f"{os.getpid()} ran").touch()
    assert tmp_path.parent.name == "popen-" + os.environ["PYTEST_XDIST_WORKER"]
    for each in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # that of the list itself
            assert not os.readlink(f"/proc/self/fd/{each}").startswith("socket:")
    print("printed", number)
    assert not STREAM.closed
    assert number != 3, "a failure"
    if number == 0:
        os._exit(3)
"""


def test_workers_share_one_collection_and_are_replaced(tmp_path: Path) -> None:
    """Each has its own folder, and no socket of the server; a crash ends one worker alone.

    What the server could not import is an error of the run, which the workers report.
    """
    (tmp_path / "test_broken.py").write_text("import nothing_of_this_name\n")

    printed = run_pytest(
        tmp_path, SOURCE, *("-n", "2", "--continue-on-collection-errors", "test_broken.py")
    )

    assert "2 failed, 3 passed, 1 error" in printed, printed
    assert "crashed while running 'test_inner.py::test_inner[0]'" in printed
    assert "E       AssertionError: a failure" in printed
    assert "printed 3" in printed
    assert "No module named 'nothing_of_this_name'" in printed
    assert (tmp_path / "imports").read_text() == "once "
    assert len([*tmp_path.glob("* ran")]) > 1
    assert "exit code 1" in printed
