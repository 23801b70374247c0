"""`agent-cli mcp ...`, as typed, with real servers."""

import json
import os
import re
import shlex
import sys
from collections.abc import Sequence
from contextlib import closing
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import pytest

from agent_cli.cli.mcp import CommandContext
from agent_cli.cli.mcp.command_line import run
from agent_cli.contracts.errors import SettingsError, UsageError
from agent_cli.contracts.timeline import Json
from agent_cli.mcp_client.browsers import pasting_browser
from agent_cli.mcp_client.config import ServerConfig, ServerProblem
from agent_cli.mcp_client.entries import read_config_file
from agent_cli.mcp_client.user_servers import local_file, user_file
from agent_cli.trust.store import TrustStore
from tests.e2e.program import AGENT_CLI, agent_cli, environment, forked_agent_cli
from tests.forked import arguments_of
from tests.mcp_client.conftest import RAW_SERVER, SDK_SERVER
from tests.mcp_client.sign_in_server import sign_in_server
from tests.messages_api import serve_in_thread
from tests.repl.terminal import Terminal

if TYPE_CHECKING:
    from tests.forked import arguments_of
from tests.mcp_client.conftest import HttpServer
from tests.tables import each_row

FULL_SERVER = str(Path(__file__).parents[2] / "mcp_client" / "full_server.py")


HOSTILE = "evil\x1b[2J\x1b]0;owned\x07\u202e"


def hostile_server() -> None:
    """Configure a server with control sequences in its name and a token in its arguments."""
    user_file().parent.mkdir(parents=True, exist_ok=True)
    entry = {"command": "no-such-program", "args": ["--token", "${TOKEN_OF_MINE}", "-v"]}
    user_file().write_text(json.dumps({"mcpServers": {HOSTILE: entry}}))


@pytest.mark.parametrize("scope", ["project", "user"])
def test_a_pipe_in_the_place_of_the_file_of_servers_is_not_waited_for(scope: str) -> None:
    path = user_file() if scope == "user" else Path.cwd() / ".mcp.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(path)

    ran = agent_cli("mcp", "add", "--scope", scope, "x", "true")

    assert ran.code == 2
    assert f"{path} cannot be read: it is a named pipe, a device or a socket" in ran.stderr


@pytest.mark.parametrize("words", [("mcp", "list"), ("mcp", "test"), ("doctor",)], ids=" ".join)
def test_control_characters_in_a_server_name_are_escaped(words: tuple[str, ...]) -> None:
    """Threat 7: a stranger's file may name the servers; a token is not shown."""
    hostile_server()

    with serve_in_thread() as api:
        ran = agent_cli(*words, api=api, TOKEN_OF_MINE="CANARY-token")

    said = ran.stdout + ran.stderr
    assert "evil\\x1b[2J" in said
    assert not {"\x1b", "\x07", "\u202e"} & set(said)
    assert "CANARY" not in said


def context(out: TextIO) -> CommandContext:
    def configured() -> list[ServerConfig | ServerProblem]:
        found = read_config_file(user_file(), os.environ)
        return [*found.servers, *found.problems]

    return CommandContext(
        environment=dict(os.environ),
        configured=configured,
        workspace=Path.cwd(),
        is_strangers=lambda _path: False,
        out=out,
        err=out,
    )


def mcp(*words: str) -> tuple[int, str]:
    """Run the command in this process; return its exit code and its output."""
    said = StringIO()
    code = run(words, context(said))
    return code, said.getvalue().rstrip("\n")


def on_terminal(*words: str) -> str:
    """Return the screen after a command on a terminal."""
    with Terminal(AGENT_CLI, "mcp", *words, **environment(None, {})) as terminal:
        terminal.exit_code()
        return terminal.text


def configure(*, disabled: bool = False, **servers: list[str]) -> None:
    entries = {
        name: {"command": sys.executable, "args": args, "disabled": disabled}
        for name, args in servers.items()
    }
    user_file().parent.mkdir(parents=True, exist_ok=True)
    user_file().write_text(json.dumps({"mcpServers": entries, "other": 1}))


def test_a_server_is_added_tested_listed_and_removed() -> None:
    """S1-42: the user's own servers work in every directory; the file is the user's alone."""
    arguments = arguments_of(SDK_SERVER, "stdio")
    add = ("add", "fix", "--env", "A=b", "--", sys.executable, *arguments)
    added = mcp(*add)
    tested = agent_cli("mcp", "test", "fix")
    listed = mcp("list")
    with pytest.raises(UsageError, match="already; remove it first"):
        mcp(*add)
    entry = json.loads(user_file().read_text())["mcpServers"]["fix"]
    mode = user_file().stat().st_mode & 0o777
    removed = mcp("remove", "fix")

    assert added == (0, f"fix is added to {user_file()}; try it: agent-cli mcp test fix")
    assert entry == {"command": sys.executable, "args": arguments, "env": {"A": "b"}}
    assert mode == 0o600
    assert (tested.code, tested.stderr) == (0, "")
    assert tested.stdout.startswith("fix  ready  7  ")
    assert listed == (0, f"fix  stdio  {shlex.join([sys.executable, *arguments])}  {user_file()}")
    assert removed == (0, f"fix is removed from {user_file()}")
    assert mcp("list") == (0, "no MCP servers; add one: agent-cli mcp add NAME COMMAND|URL")


@pytest.mark.parametrize(
    "words",
    [("add", "new", "no-such-program"), ("add-json", "new", '{"command": "no-such-program"}')],
)
def test_server_whose_program_is_not_there_is_added_with_a_remark(words: Sequence[str]) -> None:
    """Only the next start told; the program may be installed later, or for others."""
    assert mcp(*words) == (
        0,
        f"new is added to {user_file()}; try it: agent-cli mcp test new\n"
        "the command 'no-such-program' was not found; install it or give its path",
    )


def test_program_of_a_server_is_looked_for_as_at_its_start(tmp_path: Path) -> None:
    """By a PATH of its own, and below its directory."""
    (tmp_path / "mine").write_text("")
    (tmp_path / "mine").chmod(0o700)
    entry = {"command": "mine", "env": {"PATH": str(tmp_path)}}

    added = mcp("add-json", "new", json.dumps(entry))

    assert added == (0, f"new is added to {user_file()}; try it: agent-cli mcp test new")


@pytest.mark.parametrize(
    ("words", "entry"),
    [
        ("npx -y pkg --env x .", {"command": "npx", "args": ["-y", "pkg", "--env", "x", "."]}),
        ("--env=A=b npx -y", {"command": "npx", "args": ["-y"], "env": {"A": "b"}}),
        ("--env=A=b B=c -- npx", {"command": "npx", "args": [], "env": {"A": "b", "B": "c"}}),
        (
            "-s user -e A=b -t stdio -- npx -y",
            {"command": "npx", "args": ["-y"], "env": {"A": "b"}},
        ),
        ("--env A=b -- npx -y", {"command": "npx", "args": ["-y"], "env": {"A": "b"}}),
        (
            "https://x/mcp --header A:b --transport sse",
            {"type": "sse", "url": "https://x/mcp", "headers": {"A": "b"}},
        ),
    ],
)
def test_mcp_add_leaves_options_after_the_command_to_the_server(
    words: str, entry: dict[str, object]
) -> None:
    """Users paste the command from a server's page; after a URL, options are ours."""
    assert agent_cli("mcp", "add", "new", *words.split()).code == 0

    assert json.loads(user_file().read_text())["mcpServers"]["new"] == entry


@pytest.mark.parametrize("wrap", ["{}", '{{"mcpServers": {{"new": {}}}}}'], ids=["entry", "file"])
def test_a_server_is_added_from_json_shown_and_switched_off_here(wrap: str) -> None:
    """The values of variables are not shown; a switch counts in this workspace alone."""
    entry = {"command": "npx", "args": ["-y"], "env": {"KEY": "CANARY"}}
    assert mcp("add-json", "new", wrap.format(json.dumps(entry)))[0] == 0

    shown = mcp("get", "new")
    switched = mcp("disable", "new")
    listed, here = (
        agent_cli("mcp", "list"),
        json.loads(agent_cli("mcp", "get", "new", "--json").stdout),
    )
    again = mcp("enable", "new")

    assert json.loads(user_file().read_text())["mcpServers"]["new"] == entry
    assert shown == (
        0,
        f"new\n  transport: stdio\n  command: npx -y\n  env: KEY\n  source: {user_file()}\n"
        "  switched: on",
    )
    assert switched == (0, f"new is switched off in {Path.cwd()}, from the next start on")
    assert "switched off" in listed.stdout
    assert here["enabled"] is False
    assert again[0] == 0
    assert "switched off" not in agent_cli("mcp", "list").stdout


def test_a_server_that_is_added_again_says_that_its_name_was_switched_off() -> None:
    """The switch outlives the removal: the new server did not start, and nothing said why."""
    entry = ("add-json", "new", '{"command": "npx"}')
    mcp(*entry)
    mcp("disable", "new")
    mcp("remove", "new")

    code, said = mcp(*entry)

    assert (code, said.splitlines()[-1]) == (
        0,
        "new was switched off in this folder: agent-cli mcp enable new",
    )


def test_mcp_test_says_why_a_server_failed_and_exits_with_1() -> None:
    configure(bad=["-c", "import sys; sys.exit('no key')"])

    code, said = mcp("test")

    assert code == 1
    assert said == (
        "bad  failed  -  -  did not start: it ended (exit code 1) before it was"
        ' ready; the end of its stderr: "no key"'
    )


def test_stderr_of_a_server_that_exited_is_shown_in_full() -> None:
    """The reason may be far above the end: package runners end with the path of their log."""
    configure(bad=["-c", "import sys; sys.exit('no such package\\n1\\n2\\n\\x1b[1m3\\x1b[0m')"])

    code, tested = mcp("test", "bad")
    assert code == 1
    assert tested.endswith('"1 / 2 / 3"  │ no such package  │ 1  │ 2  │ 3')
    for command in ("exercise", "approve"):
        code, said = mcp(command, "bad")

        assert code == 1
        assert said.endswith('"1 / 2 / 3"\n  │ no such package\n  │ 1\n  │ 2\n  │ 3')


def test_program_in_the_workspace_is_not_run_as_a_server() -> None:
    """Threat 13: PATH may lead into a stranger's repository here, too."""
    add = mcp("add", "own", "own-server")
    Path("own-server").write_text("#!/bin/sh\ntouch CANARY\n")
    Path("own-server").chmod(0o755)

    tested = agent_cli("mcp", "test", PATH=f"{Path.cwd()}:.:{os.environ['PATH']}")

    assert add[0] == 0
    assert tested.code == 1
    assert "the command 'own-server' was not found" in tested.stdout
    assert not Path("CANARY").exists()


@each_row(
    ("words", "complaint"),
    [
        (["add", "a b", "x"], "'a b' is not a valid server name"),
        (["add", "a", "--env", "B", "x"], "--env 'B': write NAME=VALUE"),
        (["add", "a", "https://x", "--env", "B=c"], "an address takes no arguments and no --env"),
        (["add", "a", "https://x", "y"], "an address takes no arguments and no --env"),
        (["add", "a", "--header", "B:c", "x"], "--header and --transport are for an address"),
        (["add", "-s", "here", "a", "x"], "invalid choice: 'here'"),
        (["add", "a", "--client-id", "i", "x"], "--callback-port are for an address"),
        (["add", "a", "--client-secret", "https://x"], "--client-secret belongs to a --client-id"),
        (
            ["add", "-s", "project", "a", "--client-id", "i", "--client-secret", "https://x"],
            "a project's .mcp.json is no place for a secret",
        ),
        (["add", "a", "-t", "stdio", "https://x"], "and is not stdio"),
        (["add-json", "a", "{"], "the entry of a is not JSON"),
        (["add", "a", "./a.mcpb"], "./a.mcpb is a bundle for Claude Desktop: unpack it"),
        (["add", "a", "./a.MCPB"], "./a.MCPB is a bundle for Claude Desktop: unpack it"),
        (["add", "a", "wss://x"], "servers over WebSocket cannot be used"),
        (["add", "a", "postgres://x"], "postgres://... is not the address of a server"),
        (["add", "a", "--url", "x.com/mcp"], "--url 'x.com/mcp' is no address: begin it with"),
        (["add", "a", "--url"], "--url '' is no address"),
        (["add", "a", "--url", "https://x", "y"], "an address takes no arguments"),
        (["add", "a", "--bearer-token-env-var", "T", "y"], "are for an address"),
        (["add-json", "a", '{"mcpServers": {"b": {}, "c": {}}}'], "must be an object"),
        (
            ["add-json", "a", '{"url": "https://x", "headers": {"K": "${input:my-key}"}}'],
            '"headers.K" uses ${input:my-key}, which only VS Code asks for; write ${MY_KEY}',
        ),
        (["add-json", "a", '{"command": 7}'], "command"),
        (["get", "gone"], "there is no MCP server 'gone'; there are: none"),
        (["disable", "gone"], "there is no MCP server 'gone'; there are: none"),
        (["remove", "gone"], "has no server 'gone'; it has: none"),
        (["test", "gone"], "there is no MCP server 'gone'; there are: none"),
        (["exercise", "gone"], "there is no MCP server 'gone'; there are: none"),
        (["approve", "gone"], "there is no MCP server 'gone'; there are: none"),
        (["exercise", "http://x", "--call", "a={"], "--call a: its arguments are not JSON"),
        (["exercise", "http://x", "--timeout", "0"], "--timeout: '0' is not a number of seconds"),
        (
            ["exercise", "http://x", "--oauth-browser", ""],
            "--oauth-browser '': it is not a command",
        ),
        (["dance"], "invalid choice: 'dance'"),
    ],
)
def test_invalid_mcp_arguments_are_refused_with_the_reason(
    words: list[str], complaint: str
) -> None:
    with pytest.raises(UsageError) as caught:
        mcp(*words)

    assert complaint in str(caught.value)


def test_server_is_not_added_to_a_file_whose_line_is_wrong() -> None:
    """A comment is read, but would be lost."""
    user_file().parent.mkdir(parents=True)
    user_file().write_text('{"mcpServers": {}\n// mine\n}')

    with pytest.raises(SettingsError) as caught:
        mcp("add", "a", "x")

    fault = f"{user_file()}:2 is not valid JSON: Expecting ',' delimiter, at column 1"
    assert str(caught.value) == f"{fault}; correct it, and leave out comments"
    assert user_file().read_text() == '{"mcpServers": {}\n// mine\n}'


@pytest.mark.parametrize(
    ("words", "entry"),
    [
        (
            ["add", "a", "--url", "https://x", "--bearer-token-env-var", "TOKEN"],
            {"type": "http", "url": "https://x", "headers": {"Authorization": "Bearer ${TOKEN}"}},
        ),
        (["add", "a", "--url=https://x"], {"type": "http", "url": "https://x"}),
        (
            ["add", "a", "x", "--url", "https://x"],
            {"command": "x", "args": ["--url", "https://x"]},
        ),
        (
            ["add", "a", "--env", "B=1", "C=2", "D=3", "--", "x", "E=4"],
            {"command": "x", "args": ["E=4"], "env": {"B": "1", "C": "2", "D": "3"}},
        ),
        (
            ["add", "-e", "B=1", "C=2", "a", "x", "-e", "B=1", "C=2"],
            {"command": "x", "args": ["-e", "B=1", "C=2"], "env": {"B": "1", "C": "2"}},
        ),
        (
            ["add-json", "a", '{"servers": {"b": {"command": "x",},},} // VS Code\'s file'],
            {"command": "x"},
        ),
        (["add-json", "a", '{"httpUrl": "https://x"}'], {"httpUrl": "https://x"}),
        (
            ["add-json", "a", '{"type": "local", "command": "x", "args": ["${env:HOME}"]}'],
            {"type": "local", "command": "x", "args": ["${HOME}"]},
        ),
        (
            ["add-json", "a", '{"mcp": {"b": {"command": ["x", "y"], "environment": {"C": "1"}}}}'],
            {"command": "x", "args": ["y"], "env": {"C": "1"}},
        ),
    ],
)
def test_server_is_added_as_pages_for_other_programs_write_it(
    words: list[str], entry: dict[str, Json]
) -> None:
    """Claude Code, Codex, VS Code, Gemini CLI, Copilot CLI."""
    code, _ = mcp(*words)

    assert code == 0
    assert json.loads(user_file().read_text())["mcpServers"] == {"a": entry}


def test_client_secret_without_a_terminal_names_the_variable() -> None:
    """It was an internal error."""
    words = ("mcp", "add", "a", "--client-id", "i", "--client-secret", "https://x")
    ran = forked_agent_cli(*words)

    assert ran.code == 2
    assert ran.stderr.endswith("the client secret is empty: type it, or set MCP_CLIENT_SECRET\n")


def test_unknown_mcp_command_exits_with_2() -> None:
    ran = agent_cli("mcp", "dance")

    assert ran.code == 2
    assert "invalid choice: 'dance'" in ran.stderr
    assert len(ran.stderr.splitlines()) == 1


def test_mcp_approve_shows_and_approves_changed_tools() -> None:
    """A hidden character is shown as a change, too."""
    Path("description").write_text("Replies")
    configure(raw=["-I", "-S", RAW_SERVER, '{"describe": "description"}'])
    unchanged = mcp("approve", "raw")
    mcp("exercise", "raw", "--call", "reply={}")
    Path("description").write_text("Replies\u200b")
    shown = mcp("approve", "raw", "--dry-run")
    approved = mcp("approve", "raw")

    assert unchanged == (0, "raw: nothing changed since it was approved")
    assert shown[0] == 0
    assert "-Replies\n+Replies\\u200b" in shown[1]
    assert shown[1].endswith("raw: reply changed; nothing is approved")
    assert approved[1].endswith("raw: reply approved as shown")
    assert mcp("approve", "raw") == unchanged


def test_mcp_sign_in_is_kept_until_sign_out() -> None:
    """A program that requests the page plays the user's browser."""
    Path("browser.py").write_text(
        "import sys, urllib.request\nurllib.request.urlopen(sys.argv[1]).read()\n"
    )
    user_file().parent.mkdir(parents=True)
    with sign_in_server() as web:
        entry = {"url": web.url, "protocol": "legacy"}
        user_file().write_text(json.dumps({"mcpServers": {"web": entry}}))
        browser = shlex.join([sys.executable, str(Path("browser.py").absolute()), "%s"])
        signed_in = agent_cli("mcp", "login", "web", BROWSER=browser)
        tested, signed_out = mcp("test", "web"), mcp("logout", "web")
        again, refused = mcp("logout", "web"), mcp("test", "web")

    assert signed_in.code == 0
    assert signed_in.stdout.endswith("web: signed in, 1 tool, about 9 tokens\n")
    assert tested[0] == 0
    assert (signed_out, again) == ((0, "web: signed out"), (0, "web: there was no sign-in"))
    assert refused[0] == 1


async def test_redirect_address_from_a_remote_browser_can_be_pasted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Over SSH the redirect leads to the wrong machine."""
    monkeypatch.setenv("BROWSER", "true %s")
    said: list[str] = []
    ours, theirs = os.openpty()
    os.write(ours, b"\nhttp://localhost:1/callback?code=c\n")

    with os.fdopen(ours), os.fdopen(theirs) as keyboard:
        pasted = await pasting_browser(said.append, keyboard)("https://web/sign-in")

    assert pasted == "http://localhost:1/callback?code=c"
    assert said[0] == "Sign in at https://web/sign-in"


def test_mcp_import_adds_servers_of_other_programs_once() -> None:
    """Our servers of the same name stay unchanged."""
    configure(fs=[RAW_SERVER, "{}"])
    home = user_file().parents[2]
    entries = {"fs": {"command": "theirs"}, "new": {"url": "https://x/mcp"}}
    for folder in (Path(".cursor"), home / ".cursor"):
        folder.mkdir()
        (folder / "mcp.json").write_text(json.dumps({"mcpServers": entries}))

    dry = mcp("import", "--dry-run")
    imported = mcp("import", "cursor")

    servers = json.loads(user_file().read_text())
    assert dry[1].endswith("1 to import")
    assert "new would be imported" in dry[1]
    assert imported[1].endswith(f"1 imported to {user_file()}")
    assert servers["mcpServers"]["fs"]["command"] == sys.executable
    assert servers["mcpServers"]["new"] == {"url": "https://x/mcp"}
    assert servers["other"] == 1


def test_mcp_import_skips_unusable_servers_with_the_reason() -> None:
    """They would cause a warning at every start."""
    Path("theirs.json").write_text(
        json.dumps(
            {
                "mcp": {
                    "servers": {
                        "empty": {"args": []},
                        "needy": {"command": "x", "env": {"T": "${NOT_SET}"}},
                        "old": {"url": "https://x/mcp", "auth": {"CLIENT_ID": "us"}},
                    }
                }
            }
        )
    )

    code, said = mcp("import", "--file", "theirs.json")
    missing = agent_cli("mcp", "import", "--file", "nowhere.json")

    servers = json.loads(user_file().read_text())["mcpServers"]
    assert code == 1
    assert "empty is left out (theirs.json): MCP server 'empty': \"command\" is missing" in said
    assert "needy is left out (theirs.json): " in said
    assert servers == {"old": {"url": "https://x/mcp", "oauth": {"clientId": "us"}}}
    assert missing.code == 2
    assert "nowhere.json does not exist" in missing.stderr


def test_mcp_import_skips_servers_of_an_untrusted_workspace() -> None:
    """Threat 10: they would run in every directory. A file named by the user has been reviewed."""
    Path(".vscode").mkdir()
    file = Path(".vscode", "mcp.json").absolute()
    file.write_text(json.dumps({"servers": {"evil": {"command": "evil"}}}))

    imported = agent_cli("mcp", "import")
    named = mcp("import", "--file", str(file))

    assert imported.stdout == (
        f"{file} is left out: this workspace is not trusted; --file takes it\n"
        f"0 imported to {user_file()}\n"
    )
    assert named[1] == f"evil is imported ({file})\n1 imported to {user_file()}"


def test_exercise_calls_tools_and_answers_questions_without_a_model() -> None:
    """The public conformance suite and `/mcp doctor` rely on it."""
    configure(full=arguments_of(FULL_SERVER, "stdio"))

    code, said = mcp(
        *("exercise", "full", "--call", "ask={}", "--call", "where={}"),
        *("--elicit", "accept-defaults"),
    )

    assert code == 0
    assert "mcp__full__ask {}: ok: accept: {'colour': 'green', 'count': 1}" in said
    assert f"mcp__full__where {{}}: ok: {Path.cwd().as_uri()}" in said


def test_exercise_calls_only_tools_marked_read_only_by_default() -> None:
    """A tool with made-up arguments may delete a file or end a process, and no one is asked."""
    configure(fix=arguments_of(SDK_SERVER, "stdio"))

    careful = mcp("exercise", "fix", "--call-all")
    unasked = mcp("exercise", "fix", "--call-all", "--destructive")

    for code, said in (careful, unasked):
        assert code == 0
        assert 'mcp__fix__add {"a": 1, "b": 1}: ok: 2' in said
        assert "mcp__fix__die {" not in said
    assert "not called, because they may change or delete something: mcp__fix__count" in careful[1]
    assert (
        "they are not called: there is no terminal to ask on; --yes answers for you" in unasked[1]
    )


def test_exercise_calls_every_tool_and_notices_a_server_that_dies() -> None:
    """A tool's error is an answer, a lost connection is not. The server is not started again."""
    configure(fix=arguments_of(SDK_SERVER, "stdio"))

    everything = ("--call-all", "--destructive", "--yes")
    code, said = mcp("exercise", "fix", *everything, "--call", "mcp__fix__add={}")

    assert code == 1
    assert 'mcp__fix__add {"a": 1, "b": 1}: ok: 2' in said
    assert "mcp__fix__count: … counting (1 of 1)" in said
    assert "mcp__fix__die {}: error: MCP server 'fix' ended during the call" in said
    assert "MCP server 'fix' was lost" in said


def test_exercise_notices_a_server_that_dies_in_the_last_call() -> None:
    """S1c-1: exit 0 means that the server survived. A disabled server can be exercised, too."""
    configure(disabled=True, raw=["-I", "-S", RAW_SERVER, '{"stderr": "out of memory\\n"}'])

    code, said = mcp("exercise", "raw", "--call", 'reply={"reply": "die"}')

    assert code == 1
    assert 'mcp__raw__reply {"reply": "die"}: error: MCP server \'raw\' ended during' in said
    assert said.endswith(
        "'raw' was lost: it ended (killed by SIGKILL); the end of its stderr: \"out of memory\""
    )


def test_mcp_list_and_test_print_tables_on_a_terminal() -> None:
    """The reason of a failure is shown below the table, over its whole width."""
    configure(bad=["-c", "import sys; sys.exit('no key')"], fix=arguments_of(SDK_SERVER, "stdio"))
    broken = json.loads(user_file().read_text())
    broken["mcpServers"]["odd"] = {"args": []}
    user_file().write_text(json.dumps(broken))

    listed, tested = on_terminal("list"), on_terminal("test")

    assert "server   transport   command or URL" in listed
    assert re.search(r"^odd  \S", listed, re.MULTILINE)
    assert '"command" is missing' in " ".join(listed.split())
    assert re.search(r"^server +state +tools +tokens$", tested, re.MULTILINE)
    assert re.search(r"^fix +ready +7 +[\d,]+$", tested, re.MULTILINE)
    assert re.search(r"^odd +misconfigured$", tested, re.MULTILINE)
    assert re.search(r"^bad +did not start: ", tested, re.MULTILINE)


def test_mcp_exercise_prints_a_table_on_a_terminal() -> None:
    """A progress bar counts the calls and disappears at the end."""
    configure(fix=arguments_of(SDK_SERVER, "stdio"))

    shown = on_terminal("exercise", "fix", "--call-all")

    assert re.search(r'^mcp__fix__add +\{"a": 1, "b": 1\} +ok +2$', shown, re.MULTILINE)
    assert re.search(r"^fix +ready +7 ", shown, re.MULTILINE)
    assert "calling tools" not in shown


def test_mcp_list_test_and_exercise_print_json_without_secrets() -> None:
    """The JSON has the complete results."""
    configure(bad=["-c", "import sys; sys.exit('no key')", "--token", "CANARY"])
    broken = json.loads(user_file().read_text())
    broken["mcpServers"]["odd"] = {"args": []}
    user_file().write_text(json.dumps(broken))
    listed, tested = mcp("list", "--json"), mcp("test", "--json")
    configure(full=arguments_of(FULL_SERVER, "stdio"))
    exercised = mcp("exercise", "full", "--call", "where={}", "--json")

    [bad, odd] = json.loads(listed[1])
    assert bad == {
        "name": "bad",
        "transport": "stdio",
        "source": str(user_file()),
        "enabled": True,
        "command": sys.executable,
        "args": ["-c", "import sys; sys.exit('no key')", "--token", "***"],
    }
    assert odd["name"] == "odd"
    assert "is missing" in odd["problem"]
    assert tested[0] == 1
    assert {each["name"]: each["state"] for each in json.loads(tested[1])} == {
        "bad": "failed",
        "odd": "misconfigured",
    }
    report = json.loads(exercised[1])
    assert (exercised[0], report["survived"], report["state"]) == (0, True, "ready")
    assert report["calls"] == [
        {
            "tool": "mcp__full__where",
            "arguments": {},
            "outcome": "ok",
            "text": Path.cwd().as_uri(),
        }
    ]


def test_exercise_accepts_a_url(http_server: HttpServer) -> None:
    """S1c-1: a failing tool is accepted; an unannounced end of the server is not."""
    add = ("exercise", http_server.url, "--call", 'add={"a": 2, "b": 3}')
    code, said = mcp(*add, "--call", "explode={}")
    dead, last_words = mcp(*add, "--call", "die={}")

    assert (code, dead) == (0, 1), (said, last_words)
    assert "mcp__127_0_0_1__add" in said
    assert "ok: 5" in said
    assert "error: " in said
    assert "MCP server '127.0.0.1', list of its tools: " in last_words


def test_exercise_answers_the_questions_of_a_server_by_its_url() -> None:
    """S1c-1: what it would store stays in memory; the rest is as for a configured server."""
    with closing(HttpServer("http", FULL_SERVER)) as server:
        ask = ("exercise", server.url, "--call", "ask={}", "--call", "where={}")
        code, said = mcp(*ask, "--elicit", "accept-defaults", "--protocol", "legacy")

    assert code == 0
    assert "{}: ok: accept: {'colour': 'green', 'count': 1}" in said
    assert f"{{}}: ok: {Path.cwd().as_uri()}" in said


def test_local_server_is_yours_in_this_folder_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes before the project's and your own of the same name; `remove` finds it."""
    mcp("add", "docs", "everywhere")
    added = mcp("add", "-s", "local", "docs", "here")
    here = agent_cli("mcp", "get", "docs").stdout
    with pytest.raises(UsageError, match="several files, say which with --scope"):
        mcp("remove", "docs")
    path = local_file(Path.cwd())
    Path("other").mkdir()
    with monkeypatch.context() as elsewhere:
        elsewhere.chdir("other")
        there = agent_cli("mcp", "get", "docs").stdout
    removed = mcp("remove", "-s", "local", "docs")

    assert added[1].startswith(f"docs is added to {path}")
    assert ("command: here" in here, "command: everywhere" in there) == (True, True)
    assert removed == (0, f"docs is removed from {path}")
    assert "command: everywhere" in mcp("get", "docs")[1]
    assert path.stat().st_mode & 0o777 == 0o600


def test_server_of_a_folder_above_is_named_when_it_is_to_be_removed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is listed here, and stands in none of the files that `remove` changes."""
    Path(".git").mkdir()
    Path(".git/HEAD").touch()
    above = Path.cwd() / ".mcp.json"
    above.write_text('{"mcpServers": {"docs": {"command": "true"}}}')
    TrustStore.of_user().trust(Path.cwd())
    Path("api").mkdir()
    monkeypatch.chdir("api")

    refused = agent_cli("mcp", "remove", "docs")

    assert (refused.code, refused.stderr.strip()) == (
        2,
        f"agent-cli: docs comes from {above}: remove it there, or switch it off here:"
        " agent-cli mcp disable docs",
    )


def test_project_server_keeps_the_trust_of_a_folder_and_gives_none() -> None:
    """Your own change is no reason to ask again; another one beside it is."""
    file, store = Path(".mcp.json"), TrustStore.of_user()
    untrusted = mcp("add", "-s", "project", "one", "first")
    file.chmod(0o664)
    store.trust(Path.cwd())
    trusted = mcp("add", "-s", "project", "two", "second")
    kept = store.is_trusted(Path.cwd())
    file.write_text(file.read_text().replace("second", "evil"))
    changed = mcp("remove", "two")

    told = ".mcp.json counts once you trust this folder: agent-cli trust"
    assert [told in said for _, said in (untrusted, trusted, changed)] == [True, False, True]
    assert (kept, store.is_trusted(Path.cwd())) == (True, False)
    assert json.loads(file.read_text()) == {"mcpServers": {"one": {"command": "first", "args": []}}}
    assert file.stat().st_mode & 0o777 == 0o664


def test_client_of_a_server_is_given_without_its_secret_on_the_command_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MCP_CLIENT_SECRET", "s3cret")
    client = ("--client-id", "mine", "--client-secret", "--callback-port", "8123")
    mcp("add", "web", *client, "https://example.org/mcp")

    entry = json.loads(user_file().read_text())["mcpServers"]["web"]
    assert entry["oauth"] == {"clientId": "mine", "clientSecret": "s3cret", "callbackPort": 8123}
    assert "s3cret" not in mcp("get", "web")[1]
