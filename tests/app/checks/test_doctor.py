"""The `doctor` report about readiness, against a server on this machine."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO

import pytest

from agent_cli.app.arguments import Arguments
from agent_cli.app.checks.doctor import diagnosis, examine
from agent_cli.app.startup import start
from agent_cli.contracts.agents import AgentServer
from agent_cli.contracts.provider import Model
from agent_cli.contracts.servers import ServerPhase, ServerState
from agent_cli.providers.anthropic.models import prices_as_of
from agent_cli.system import paths
from agent_cli.undo.stopped_calls import why_missing
from tests.app.agents.test_agents import raw, with_servers
from tests.messages_api import error, reply, serve_in_thread
from tests.waiting import is_alive


async def test_doctor_names_each_fault_with_a_remedy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """S1-27: one line each; the restrictions of an untrusted workspace are no fault."""
    mine = paths.config_dir() / "commands/two words.md"
    theirs = Path(".agent-cli/commands/ship.md")
    for command in (mine, theirs):
        command.parent.mkdir(parents=True)
        command.write_text("x")
    Path("state").mkdir(mode=0o500)
    monkeypatch.setenv("XDG_STATE_HOME", str(Path("state").absolute()))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    monkeypatch.setattr("tempfile.TemporaryFile", refusing(errno.EACCES))  # root may write anywhere
    with serve_in_thread(error(404, "not_found_error", "model: x")) as api:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", api.base_url)
        code = await examine(start(Arguments(), may_ask=False))

    lines = capsys.readouterr().out.splitlines()
    failed = {line.split()[1]: line for line in lines if line.startswith("FAIL")}
    assert code == 1
    assert set(failed) >= {"sessions", "logs", "command", "endpoint"}
    assert "make " in failed["sessions"]
    assert "or set XDG_STATE_HOME" in failed["sessions"]
    assert "two words.md is not a command" in failed["command"]
    assert "check the model's name and ANTHROPIC_BASE_URL" in failed["endpoint"]
    assert any("not trusted, files ignored: 1; `agent-cli trust`" in line for line in lines)
    assert any(line.startswith("--    command") and "ship.md" in line for line in lines)


@pytest.mark.skipif(why_missing() != "", reason=why_missing() or "-")
@pytest.mark.parametrize(
    ("user", "commands", "told"),
    [
        (0, "auto", "tools and commands"),
        (1000, "auto", "delete or overwrite: without a sandbox, sudo would fail"),
        (1000, "always", "tools and commands"),
    ],
)
async def test_doctor_says_whose_commands_are_recorded_for_undo(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    user: int,
    commands: str,
    told: str,
) -> None:
    """An ordinary user's command outside a sandbox runs unwatched: see `undo/watchable`."""
    if "NoNewPrivs:\t1" in Path("/proc/self/status").read_text():
        pytest.skip("no command gains rights here")
    paths.user_settings_file().parent.mkdir(parents=True)
    paths.user_settings_file().write_text(f'undo.commands = "{commands}"\nsandbox.mode = "off"\n')
    monkeypatch.setattr("agent_cli.undo.watchable.os.geteuid", lambda: user)

    await examine(start(Arguments(), may_ask=False))

    [line] = [
        line for line in capsys.readouterr().out.splitlines() if line[2:].split()[0] == "undo"
    ]
    assert told in line


def refusing(number: int) -> Callable[..., IO[bytes]]:
    def refuse(*_given: object, **_more: object) -> IO[bytes]:
        raise OSError(number, os.strerror(number))

    return refuse


async def test_doctor_reports_a_full_disk(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The permissions of the folder allow writing, so it used to be "ok"."""
    monkeypatch.setattr("tempfile.TemporaryFile", refusing(errno.ENOSPC))

    code = await examine(start(Arguments(), may_ask=False))

    failed = [line for line in capsys.readouterr().out.splitlines() if line.startswith("FAIL")]
    assert code == 1
    assert [line.split()[1] for line in failed] == ["key", "sessions", "logs"]
    assert "(No space left on device): free space on its disk" in failed[1]


async def test_doctor_counts_a_sandbox_that_could_not_be_tested_as_a_fault(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It was "ok" beside the words "used untested"."""
    paths.state_dir().parent.mkdir(parents=True)
    paths.state_dir().write_text("a file where the folder should be")

    code = await examine(start(Arguments(), may_ask=False))

    lines = capsys.readouterr().out.splitlines()
    [sandbox] = [line for line in lines if line[6:].startswith("sandbox")]
    assert code == 1
    assert sandbox.startswith("FAIL")
    assert "used untested: " in sandbox


async def test_doctor_without_an_api_key_reports_only_the_key(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A new user sees this first: one fault, and its remedy."""
    code = await examine(start(Arguments(), may_ask=False))

    lines = capsys.readouterr().out.splitlines()
    assert code == 1
    assert [line.split()[1] for line in lines if line.startswith("FAIL")] == ["key"]
    assert any(line.startswith("--    endpoint") and "there is no key" in line for line in lines)
    [model] = (line.split(maxsplit=2)[2] for line in lines if line.startswith("--    model"))
    assert model == f"claude-sonnet-5-5, window 1,000,000 tokens, prices of {prices_as_of()}"


async def test_doctor_suspects_the_network_only_where_no_server_was_reached(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a region no server is asked, so no proxy is in the way."""
    monkeypatch.setenv("CLAUDE_CODE_USE_BEDROCK", "1")
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "k")
    await examine(start(Arguments(), may_ask=False))
    without_region = capsys.readouterr().out

    monkeypatch.setenv("AWS_REGION", "x")
    monkeypatch.setenv("ANTHROPIC_BEDROCK_MANTLE_BASE_URL", "http://127.0.0.1:1")
    await examine(start(Arguments(), may_ask=False))
    unreachable = capsys.readouterr().out

    assert "no AWS region is set" in without_region
    assert "HTTPS_PROXY" not in without_region
    assert "check HTTPS_PROXY and ANTHROPIC_BEDROCK_MANTLE_BASE_URL, too" in unreachable


async def test_doctor_in_a_running_program_reports_its_mcp_servers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No server is started again; without a terminal there is no complaint about the terminal."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    states = [
        ServerState("docs", ServerPhase.READY, tools=3),
        ServerState("slow", ServerPhase.CONNECTING),
        ServerState("web", ServerPhase.FAILED, "it is down"),
    ]
    with serve_in_thread(reply("ok")) as api:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", api.base_url)
        chosen = Model("somebody-elses", context_window=7)
        of_agents = [
            AgentServer("helped", "later"),
            AgentServer("helped 2", "own", ServerState("own", ServerPhase.READY, tools=1)),
        ]
        found = await diagnosis(start(Arguments(), may_ask=False), chosen, states, of_agents)
    report = "\n".join(found.lines())

    assert api.requests[0].body["model"] == "somebody-elses"
    assert "somebody-elses is not among the models known here" in report

    lines = [line.split(maxsplit=3) for line in report.splitlines()]
    assert ["ok", "mcp", "docs", "3 tools"] in lines
    assert ["--", "mcp", "slow", "connecting"] in lines
    assert ["FAIL", "mcp", "web", "it is down"] in lines
    assert "mcp later (agent helped) starts with it" in " ".join(report.split())
    assert "ok mcp own (agent helped 2) 1 tool" in " ".join(report.split())
    assert "stdout is not a terminal; it gets answers only" in report
    assert f"{api.base_url} answers" in report


async def test_doctor_starts_and_checks_mcp_servers_of_agents(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each is shown with its agent, as servers of two agents may have the same name."""
    with_servers(
        gone={"command": "there-is-no-such-server"},
        raw=raw({}),
        unset={"command": "${NEVER_SET_ANYWHERE}"},
    )

    code = await examine(start(Arguments(), may_ask=False))

    lines = [line for line in capsys.readouterr().out.splitlines() if "(agent helped)" in line]
    assert code == 1
    assert [line.split()[:3] for line in lines] == [
        ["FAIL", "mcp", "unset"],
        ["FAIL", "mcp", "gone"],
        ["ok", "mcp", "raw"],
    ]
    assert not is_alive(int(Path("pid").read_text()))
