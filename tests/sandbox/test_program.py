"""The sandbox in the program: on by default, reported by doctor, off on request."""

import asyncio
import os
from functools import partial
from pathlib import Path

import pytest

from agent_cli.app import parts
from agent_cli.app.app import App
from agent_cli.app.arguments import parse_arguments
from agent_cli.app.startup import start
from agent_cli.headless import run as headless
from agent_cli.sandbox import Sandbox
from tests.e2e.program import agent_cli
from tests.messages_api import reply, serve_in_thread, tool_use

YOLO = ("--permission-mode", "yolo")


def written_outside(*, unsandboxed: bool = False, **variables: str) -> str:
    """Let the model write beside the workspace; return the tool's answer."""
    use = tool_use("bash", {"command": "echo x > ../outside", "unsandboxed": unsandboxed})
    with serve_in_thread(reply(use), reply("Done.")) as api:
        run = agent_cli("-p", "go", *YOLO, api=api, **variables)
    assert run.code in (0, 3), run.stderr
    return str(api.requests[-1].body["messages"][-1])


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "ws").mkdir()
    monkeypatch.chdir(tmp_path / "ws")
    return tmp_path / "outside"


def doctor() -> str:
    with serve_in_thread() as api:
        return agent_cli("doctor", api=api).stdout


def test_models_commands_run_in_the_sandbox_by_default(outside: Path) -> None:
    """Threat 1: even in the mode that asks nothing."""
    if "none available" in doctor():
        pytest.skip("no sandbox here")

    written_outside()

    assert not outside.exists()


def test_unsandboxed_command_is_refused_without_a_user_to_ask(outside: Path) -> None:
    """Threat 19: not even yolo mode approves such a command."""
    answer = written_outside(unsandboxed=True)

    assert not outside.exists()
    assert "needs a person" in answer


def test_user_can_switch_the_sandbox_off(outside: Path) -> None:
    written_outside(AGENT_CLI_SANDBOX__MODE="off")

    assert outside.read_text() == "x\n"


def test_doctor_reports_which_sandbox_is_used() -> None:
    [line] = [line for line in doctor().splitlines() if " sandbox " in line]

    assert any(words in line for words in ("bubblewrap", "Landlock", "none available"))


def test_one_shot_run_warns_on_stderr_if_no_sandbox_is_available(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Threat 21: in a mode that asks nothing, a missing sandbox would go unnoticed."""
    monkeypatch.setattr(parts, "Sandbox", partial(Sandbox, find=lambda *_places: ()))

    assert "sandbox: none available" in warned_by_one_shot(monkeypatch, capfd)
    monkeypatch.setenv("AGENT_CLI_SANDBOX__MODE", "off")
    assert "sandbox" not in warned_by_one_shot(monkeypatch, capfd)


def warned_by_one_shot(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> str:
    """Let the program run a command in this process; return its stderr."""
    use = tool_use("bash", {"command": "true"})
    with serve_in_thread(reply(use), reply("Done.")) as api:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", api.base_url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
        startup = start(parse_arguments(["-p", "go", *YOLO]), may_ask=False)
        with Path(os.devnull).open() as nothing, monkeypatch.context() as patched:
            patched.setattr("sys.stdin", nothing)
            assert asyncio.run(headless.run("go", lambda: App(startup, one_shot=True))) == 0
    return capfd.readouterr().err
