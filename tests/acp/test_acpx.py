"""acpx, a third-party client of the protocol, drives the real program."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.e2e.program import AGENT_CLI, environment
from tests.messages_api import reply, serve_in_thread, tool_use

_LIMIT_S = 120


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answers", "left"), [("--approve-all", "x = 2\n"), ("--deny-all", "x = 1\n")]
)
def test_acpx_answers_permission_requests(tmp_path: Path, answers: str, left: str) -> None:
    acpx = shutil.which("acpx")
    if acpx is None:
        pytest.skip("needs acpx: npm install --global acpx")
    (tmp_path / "app.py").write_text("x = 1\n")
    (tmp_path / "home").mkdir()
    change = tool_use("edit", {"path": "app.py", "edits": [{"old": "x = 1", "new": "x = 2"}]})

    with serve_in_thread(
        reply(tool_use("read", {"path": "app.py"})), reply(change), reply("Read and edited.")
    ) as api:
        run = subprocess.run(
            [acpx, "--agent", f"{AGENT_CLI} acp", answers, "--format", "quiet", "exec", "x is 2"],
            cwd=tmp_path,
            env=environment(api, {"HOME": str(tmp_path / "home")}),
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=False,
        )

    assert "Read and edited." in run.stdout, run.stderr
    assert api.refusals == []
    assert (tmp_path / "app.py").read_text() == left
