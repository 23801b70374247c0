"""Real programs and a real server as hooks: whatever they do becomes an outcome, in time."""

import asyncio
import contextlib
import json
import os
import sys
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from agent_cli.contracts.timeline import Json
from agent_cli.hooks.answers import HookOutcome
from agent_cli.hooks.definition import Hook
from agent_cli.hooks.run import HookEnvironment, run_hook
from tests.waiting import LIMIT_S, at_growing_limits

PAYLOAD = {"hook_event_name": "PreToolUse", "tool_name": "Bash"}


def script(path: Path, text: str, *, mode: int = 0o755) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


async def ran(workspace: Path, command: str, **more: Any) -> HookOutcome:
    hook = Hook(event="PreToolUse", command=command, **more)
    return await run_hook(hook, PAYLOAD, HookEnvironment(workspace, os.environ))


async def test_hook_gets_json_on_stdin_and_the_project_directory(tmp_path: Path) -> None:
    found = await ran(tmp_path, 'cat; echo "$CLAUDE_PROJECT_DIR $PWD" >&2; exit 2')

    assert json.loads(found.stdout) == PAYLOAD
    assert found.stderr == f"{tmp_path} {tmp_path}\n"
    assert (found.code, found.fault) == (2, "")


async def test_hook_without_a_json_parser_finds_fields_as_claude_code_writes_them(
    tmp_path: Path,
) -> None:
    """Public scripts end their loop by `"stop_hook_active":true`; a blank in it kept them going."""
    event: dict[str, Json] = {"hook_event_name": "Stop", "stop_hook_active": True, "cwd": "/w"}
    script = r"""grep -q '"stop_hook_active":true' || exit 1"""
    hook = Hook(
        event="Stop", command=f'tee cwd | {script}; sed \'s/.*"cwd":"\\([^"]*\\)".*/\\1/\' cwd'
    )

    found = await run_hook(hook, event, HookEnvironment(tmp_path, os.environ))

    assert (found.code, found.stdout) == (0, "/w")


async def test_hook_gets_keys_and_passwords_only_if_it_names_them(tmp_path: Path) -> None:
    """Threat 9: the user's `.env` and shell hold keys that concern no hook."""
    hook = Hook(event="PreToolUse", command="env", allowed_variables=("NPM_TOKEN", "UNSET"))
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": "/home/me",
        "LC_ALL": "C",
        "PYTHONSAFEPATH": "1",
        "ANTHROPIC_API_KEY": "sk",
        "GITHUB_TOKEN": "gh",
        "NPM_TOKEN": "npm",
        "LD_PRELOAD": "x",
    }
    around = HookEnvironment(tmp_path, environment, lambda: {"TRACEPARENT": "00-1"})

    found = await run_hook(hook, PAYLOAD, around)

    names = {line.partition("=")[0] for line in found.stdout.splitlines()}
    assert names - {"PWD", "OLDPWD", "SHLVL", "_", "STARTED_BY_AGENT_CLI"} == {
        *("PATH", "HOME", "LC_ALL", "PYTHONSAFEPATH", "NPM_TOKEN", "TRACEPARENT"),
        "CLAUDE_PROJECT_DIR",
    }


async def test_exec_form_passes_arguments_without_shell_expansion(tmp_path: Path) -> None:
    script(tmp_path / "show", '#!/bin/sh\nprintf "%s|" "$@"\n')

    found = await ran(tmp_path, "${CLAUDE_PROJECT_DIR}/show", args=("a b", "$HOME; ls"))

    assert (found.stdout, found.fault) == ("a b|$HOME; ls|", "")


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("./guard.sh", "chmod +x"),
        ("./gone.sh", "there is no"),
        ("no-such-program-anywhere", "was not found"),
        ("exit 3", "exit code 3"),
        ("kill -SEGV $$", "exit code 139"),
        ("yes", "more than 1 MB"),
        ("echo \ud83d", "surrogates not allowed"),
    ],
)
async def test_hook_that_cannot_run_reports_the_cause(
    tmp_path: Path, command: str, named: str
) -> None:
    """The message has the cause and the remedy in one sentence."""
    script(tmp_path / "guard.sh", "#!/bin/sh\n", mode=0o644)

    assert named in (await ran(tmp_path, command)).fault


async def test_hook_over_its_time_limit_is_killed_with_its_children(tmp_path: Path) -> None:
    pid = tmp_path / "pid"

    async def run(limit_s: int) -> str:
        command = "sleep 3600 & echo $! > pid.new; mv pid.new pid; wait"
        found = await ran(tmp_path, command, timeout_s=float(limit_s))
        assert f"longer than {limit_s} s" in found.fault
        return found.fault

    await at_growing_limits(run, lambda _fault: pid.exists())

    assert await _is_gone(int(pid.read_text()))


async def test_a_hook_is_killed_when_its_run_is_cancelled(tmp_path: Path) -> None:
    """After Ctrl-C during a hook, the run does not wait, and no process is left."""
    pid = tmp_path / "pid"
    waiting = asyncio.create_task(ran(tmp_path, "echo $$ > pid.new; mv pid.new pid; sleep 3600"))
    while not pid.exists():  # noqa: ASYNC110 - a file tells nobody that it is there
        await asyncio.sleep(0.01)

    waiting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await waiting

    assert await _is_gone(int(pid.read_text()))


async def _is_gone(pid: int) -> bool:
    deadline = time.monotonic() + LIMIT_S
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    return not Path(f"/proc/{pid}").exists()


class _Server(BaseHTTPRequestHandler):
    asked: list[tuple[str, str]] = []  # noqa: RUF012 - a server of one test

    def do_POST(self) -> None:
        sent = self.rfile.read(int(self.headers["content-length"]))
        self.asked.append((sent.decode(), self.headers.get("x-token", "")))
        status = int(self.path.removeprefix("/"))
        body = b'{"decision": "block"}' if status == 200 else b""
        self.send_response(status)
        if status == 302:
            self.send_header("location", "/200")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@pytest.fixture
def address() -> Iterator[str]:
    _Server.asked = []
    with ThreadingHTTPServer(("127.0.0.1", 0), _Server) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


async def test_http_hook_gets_the_payload_and_only_allowed_variables(
    tmp_path: Path, address: str
) -> None:
    hook = Hook(
        event="PreToolUse",
        url=f"{address}/200",
        headers=(("x-token", "Bearer $SECRET $OTHER"),),
        allowed_variables=("SECRET",),
    )
    around = HookEnvironment(tmp_path, {"SECRET": "s3", "OTHER": "not this"})

    found = await run_hook(hook, PAYLOAD, around)

    assert (found.stdout, found.fault) == ('{"decision": "block"}', "")
    assert _Server.asked == [(json.dumps(PAYLOAD, separators=(",", ":")), "Bearer s3")]


@pytest.mark.parametrize("status", [302, 500])
async def test_error_status_or_redirect_of_an_http_hook_is_a_fault(
    tmp_path: Path, address: str, status: int
) -> None:
    """A redirect would send the call to an address that was not approved."""
    hook = Hook(event="PreToolUse", url=f"{address}/{status}")

    found = await run_hook(hook, PAYLOAD, HookEnvironment(tmp_path, {}))

    assert f"status {status}" in found.fault
    assert len(_Server.asked) == 1


@pytest.mark.parametrize(
    ("port", "named"),
    [
        (9, "(connection refused); check that it runs"),
        (99_999, "cannot be run (connect(): port must be"),
    ],
)
async def test_http_hook_that_cannot_be_reached_is_a_fault(
    tmp_path: Path, port: int, named: str
) -> None:
    """A port that no machine has ended the session, if the hook ran at its start."""
    hook = Hook(event="SessionStart", url=f"http://127.0.0.1:{port}/x")

    found = await run_hook(hook, PAYLOAD, HookEnvironment(tmp_path, {}))

    assert named in found.fault


async def test_service_that_answers_only_in_part_is_not_one_that_cannot_be_reached(
    tmp_path: Path,
) -> None:
    """The advice was to check that it runs."""
    ok = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n"
    faults = {
        b"": "(Server disconnected without sending a response)",
        ok + b"\r\n{": "received 1 bytes, expected 5",
        b"SSH-2.0-x\r\n\r\n": "illegal status line",
        ok + b"content-encoding: gzip\r\n\r\nhello": "incorrect header check",
    }
    for sent, reason in faults.items():

        async def answer(
            reader: asyncio.StreamReader, writer: asyncio.StreamWriter, sent: bytes = sent
        ) -> None:
            await reader.readuntil(b"}")
            writer.write(sent)
            writer.close()

        async with await asyncio.start_server(answer, "127.0.0.1", 0) as listening:
            url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/x"
            hook = Hook(event="PreToolUse", url=url)
            found = await run_hook(hook, PAYLOAD, HookEnvironment(tmp_path, {}))

        assert found.fault.startswith(f"{url} gave no whole answer ("), found.fault
        assert reason in found.fault


async def test_header_that_cannot_be_sent_is_not_shown(tmp_path: Path, address: str) -> None:
    """The error of the HTTP library quotes it, and it may be a token with a line break."""
    headers = (("x-token", "Bearer $SECRET"),)
    hook = Hook(
        event="PreToolUse", url=f"{address}/200", headers=headers, allowed_variables=("SECRET",)
    )

    found = await run_hook(hook, PAYLOAD, HookEnvironment(tmp_path, {"SECRET": "s3cret\nX: y"}))

    assert found.fault == (
        "a header has a line break or another character that HTTP forbids; correct it"
    )


@pytest.mark.parametrize("host", ["169.254.169.254", "10.1.2.3", "[fe80::1]", "[::ffff:a00:1]"])
async def test_project_hook_may_not_address_the_internal_network(tmp_path: Path, host: str) -> None:
    """Its author could have the session sent to a service in the user's own network."""
    hook = Hook(event="PreToolUse", url=f"http://{host}:9/x", is_project=True)

    outcome = await run_hook(hook, {}, HookEnvironment(tmp_path, os.environ))

    assert outcome.fault == (
        f"{host.strip('[]')} is inside your own network; define this hook in your own settings to"
        " allow it"
    )


async def test_project_hook_may_address_a_server_on_this_machine(
    tmp_path: Path, address: str
) -> None:
    hook = Hook(event="PreToolUse", url=f"{address}/200", is_project=True)

    assert (await run_hook(hook, {}, HookEnvironment(tmp_path, os.environ))).fault == ""


@pytest.mark.parametrize("url", ["http://[::1/x", "http://a..b/x"])
async def test_invalid_url_of_an_http_hook_is_a_fault(tmp_path: Path, url: str) -> None:
    """Any file may define one; it must not end the run."""
    hook = Hook(event="PreToolUse", url=url, is_project=True)

    found = await run_hook(hook, {}, HookEnvironment(tmp_path, os.environ))

    assert "is not a valid URL" in found.fault


async def test_international_host_of_a_project_hook_is_checked_as_it_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python's own codec makes "fass" of it: the name of another machine."""

    async def inside(host: str) -> list[str]:
        return ["10.0.0.1"] if host == "xn--fa-hia.example" else ["8.8.8.8"]

    monkeypatch.setattr("agent_cli.hooks.run.resolve", inside)
    hook = Hook(event="PreToolUse", url="http://faß.example/x", is_project=True)

    found = await run_hook(hook, {}, HookEnvironment(tmp_path, os.environ))

    assert found.fault.startswith("xn--fa-hia.example is inside your own network")


async def test_project_hook_is_posted_to_the_address_that_was_checked(
    tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threat 18: its author's name may lead into the user's network once it was looked up.

    Here the name is known to the check alone: who looks it up again finds nothing.
    """

    async def find(host: str) -> list[str]:
        return ["127.0.0.1"] if host == "hook.example" else []

    monkeypatch.setattr("agent_cli.hooks.run.resolve", find)
    port = address.rpartition(":")[2]
    hook = Hook(event="PreToolUse", url=f"http://hook.example:{port}/200", is_project=True)

    found = await run_hook(hook, PAYLOAD, HookEnvironment(tmp_path, os.environ))
    other = Hook(event="PreToolUse", url=f"http://localhost:{port}/200", is_project=True)
    unknown = await run_hook(other, PAYLOAD, HookEnvironment(tmp_path, os.environ))

    assert (found.stdout, found.fault) == ('{"decision": "block"}', "")
    assert "localhost has no address" in unknown.fault
    assert len(_Server.asked) == 1


@pytest.mark.parametrize("is_project", [False, True])
@pytest.mark.parametrize(
    ("variable", "value", "fault"),
    [
        ("SSL_CERT_FILE", "/nowhere.pem", "the certificates cannot be read (No such file or dir"),
        ("ALL_PROXY", "socks5://127.0.0.1:1", "a SOCKS proxy needs one more package: pip install"),
        ("HTTPS_PROXY", "ftp://127.0.0.1:1", "the proxy settings cannot be used: Unknown scheme"),
    ],
)
async def test_proxies_and_certificates_that_cannot_be_used_are_no_fault_of_the_hook(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    value: str,
    fault: str,
    *,
    is_project: bool,
) -> None:
    """The sentence used to advise checking its command, which it has not."""

    async def find(_host: str) -> list[str]:
        return ["93.184.216.34"]

    monkeypatch.setattr("agent_cli.hooks.run.resolve", find)
    monkeypatch.setenv(variable, value)
    monkeypatch.setitem(sys.modules, "socksio", None)
    hook = Hook(event="PreToolUse", url="https://hook.example/", is_project=is_project)

    found = await run_hook(hook, PAYLOAD, HookEnvironment(tmp_path, os.environ))

    assert found.fault.startswith(fault)
