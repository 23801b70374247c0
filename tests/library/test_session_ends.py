"""A session that has ended leaves nothing open in the process of the program that used it."""

import gc
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_cli import SessionOptions, query
from tests.messages_api import reply, serve_in_thread, tool_use
from tests.waiting import open_descriptors

CALLS = (
    tool_use("write", {"path": "a.txt", "content": "a\n"}),
    tool_use("bash", {"command": "seq 20000"}),
)


@pytest.fixture
def _uncollected() -> Iterator[None]:
    """Free nothing in the test that only a collection finds, which may come late."""
    gc.disable()
    yield
    gc.enable()


def open_files() -> set[str]:
    """Return the files and folders that this process holds open."""
    found = {path for _number, path in open_descriptors()}
    return {path for path in found if path.startswith("/") and not path.startswith("/proc/")}


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="lists no open files")
@pytest.mark.usefixtures("_uncollected")
@pytest.mark.parametrize("keep", [True, False])
async def test_ended_session_holds_no_file_and_leaves_no_folder(
    keep: bool, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record of its changes passed for that of an open session until it was collected."""
    temporary = tmp_path_factory.mktemp("temporary")
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    before = open_files()
    with serve_in_thread(reply(*CALLS), reply("done")) as api:
        options = SessionOptions(
            environment={"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": api.base_url},
            permission_mode="yolo",
            sandbox="off",
            keep_session=keep,
        )

        result = await query("go", options)

    assert result.text == "done"
    assert open_files() - before == set()
    assert list(temporary.iterdir()) == []
