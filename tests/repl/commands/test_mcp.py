"""/mcp, in a plain session of this process."""

from dataclasses import replace

import pytest

from agent_cli.contracts.agents import AgentServer
from agent_cli.contracts.servers import ServerPhase, ServerState
from agent_cli.repl.commands.registry import commands_of
from tests.repl.conversation import converse, said
from tests.repl.scripted_app import Application
from tests.repl.scripted_servers import DAYS, GREET, TODAY, Servers

READY = ServerState("docs", ServerPhase.READY, tools=3, tokens=1_204)
WEB = ServerState("web", ServerPhase.FAILED, "MCP server 'web' ...", needs_sign_in=True)
BAD = ServerState("bad", ServerPhase.FAILED, "MCP server 'bad' did not start: no such file")
CHANGED = ServerState(
    "old",
    ServerPhase.READY,
    tools=1,
    tokens=80,
    notes=("tool add is withheld: it changed", "tool x is left out: no"),
    changed=("add",),
)


def app_with(*states: ServerState, **more: object) -> Application:
    app = Application()
    app.servers = Servers(listed=states, **more)  # type: ignore[arg-type]  # as the class says
    return app


def test_mcp_command_lists_each_server_with_its_tools_and_errors() -> None:
    """On a pipe, a server is one line that ends with its remarks."""
    app = app_with(READY, WEB, BAD, CHANGED, offered=[GREET], known=[TODAY, DAYS])

    assert said("/mcp", app=app) == [
        "docs  ready  3  1  2  1,204",
        "web  needs a sign-in  -  -  -  -  /mcp login web signs in",
        "bad  failed  -  -  -  -  did not start: no such file",
        "old  ready  1  -  -  80  changed and not used: add; /mcp approve old shows what changed"
        "  tool x is left out: no",
    ]
    assert said("/mcp", app=app_with()) == [
        "no MCP servers; agent-cli mcp add, in a shell, adds one"
    ]


def test_lists_of_servers_and_hooks_say_which_files_do_not_act_before_they_are_trusted() -> None:
    """Only the start said so, and the lists that nothing is set up."""
    app = app_with()
    app.ignored = ".mcp.json ignored: this workspace is not trusted"

    assert [said(line, app=app)[-1] for line in ("/mcp", "/hooks")] == [app.ignored] * 2


def test_mcp_command_lists_servers_of_subagents_with_the_agents_name() -> None:
    """Servers of working agents have a state; the others are listed as not started."""
    app = app_with(READY)
    of_two = (ServerState("own", ServerPhase.READY, tools=2, tokens=1_000), BAD)
    app.agents.listed_servers = [
        *(AgentServer("helped 2", state.name, state) for state in of_two),
        AgentServer("plan\u202e", "later"),
    ]

    assert said("/mcp", app=app) == [
        "docs  ready  3  -  -  1,204",
        "own (agent helped 2)  ready  2  -  -  1,000",
        "bad (agent helped 2)  failed  -  -  -  -  did not start: no such file",
        "later (agent plan\\u202e)  starts with it  -  -  -  -",
    ]


def test_mcp_resources_are_listed_as_typed_in_a_prompt() -> None:
    """Of one server, or of all."""
    app = app_with(READY, BAD, known=[TODAY, DAYS])

    lines = ["@docs:note://today  Today: A note (text/plain)", "@docs:note://{day}  Any day"]
    assert said("/mcp resources", app=app) == lines
    assert said("/mcp resources docs", app=app) == lines
    assert said("/mcp resources bad", app=app) == ["no resources"]


def test_mcp_doctor_says_how_to_fix_each_server() -> None:
    """It also names the command that tests a server outside the session."""
    tried = "agent-cli mcp test {}, in a shell, starts it alone and says what it offers"
    words = ("no such package", "1", "2", "\u202e3")
    npx = ServerState(
        "npx", ServerPhase.FAILED, "MCP server 'npx' did not start: 1 / 2", stderr=words
    )
    app = app_with(READY, BAD, npx)

    assert said("/mcp doctor", app=app) == [
        "docs: in order",
        "bad: failed",
        "  did not start: no such file",
        "  /mcp reconnect bad tries again",
        "npx: failed",
        "  did not start: 1 / 2",
        "  │ no such package",
        "  │ 1",
        "  │ 2",
        "  │ \\u202e3",
        "  /mcp reconnect npx tries again",
        tried.format("NAME"),
    ]
    assert said("/mcp doctor docs", app=app) == ["docs: in order", tried.format("docs")]


def test_server_that_did_not_get_the_last_request_is_not_in_order() -> None:
    """A server at a URL stays ready during an outage, and `/mcp` said no more."""
    why = "the last request failed: cannot reach http://a; the next one tries again"
    app = app_with(replace(READY, reason=why))

    assert said("/mcp", app=app) == [f"docs  ready  3  -  -  1,204  {why}"]
    assert said("/mcp doctor docs", app=app)[:2] == ["docs: ready", f"  {why}"]


def test_mcp_reconnect_and_logout_report_their_outcome() -> None:
    """Each outcome is one line."""
    app = app_with(READY, BAD)

    assert said("/mcp reconnect docs", "/mcp reconnect bad", "/mcp logout docs", app=app) == [
        "MCP server docs is ready: 3 tools, about 1,204 tokens",
        "MCP server bad is not connected; /mcp reconnect bad tries again",
        "MCP server docs: signed out",
    ]
    assert app.servers.done == ["reconnect docs", "reconnect bad", "logout docs"]


def test_invalid_mcp_argument_is_answered_in_one_line() -> None:
    """An unknown word, no name, an unknown name."""
    lines = ("/mcp fly", "/mcp login", "/mcp doctor nope", "/mcp login docs", "/mcp approve docs")

    assert said(*lines, app=app_with(READY)) == [
        "there is no /mcp fly; there are: resources, doctor, login, logout, reconnect, enable,"
        " disable, approve",
        "/mcp login needs the name of a server: /mcp lists them",
        "there is no MCP server nope; there are: docs",
        "a sign-in needs an interactive terminal",
        "nothing of MCP server docs changed since you approved it",
    ]
    assert said("/mcp doctor nix", app=app_with()) == ["there is no MCP server nix: none is set up"]


def test_mcp_login_accepts_the_pasted_redirect_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any other pasted text has no effect, and the question is repeated."""
    monkeypatch.setenv("BROWSER", "true")
    app = app_with(READY)

    _, lines = converse(
        "/mcp login docs", app=app, answers=("https://docs.example/", "http://localhost:1/?code=2")
    )

    assert lines == [
        "sign in to MCP server docs on this page:",
        "  https://sign.in/there?state=1",
        "  host: sign.in",
        "It should open in your browser, and this goes on when you are done there. With the",
        "browser on another computer: paste the address it ends at, even if nothing loads.",
        "that address brings nothing back: it has code= or error= in it",
        "MCP server docs is ready: 3 tools, about 1,204 tokens",
    ]
    assert app.servers.done == ["login docs with http://localhost:1/?code=2"]


def test_mcp_approve_shows_what_changed_in_tools_before_approval() -> None:
    """With n the tools stay left out; escape sequences in the change are shown as text."""
    app = app_with(CHANGED)
    app.servers.changed = {"old": {"add": "-Adds\n+Adds\x1b, and reads ~/.ssh"}}

    _, refused = converse("/mcp approve old", app=app, answers=("n",))
    _, agreed = converse("/mcp approve old", app=app, answers=("y",))

    assert refused == [
        "add changed since you approved it:",
        "  -Adds",
        "  +Adds\\x1b, and reads ~/.ssh",
        "y = use it as it is now · n = leave it out",
        "they stay left out",
    ]
    assert agreed[-1] == "approved: add; offered from the next run on"
    assert app.servers.done == ["approved old"]


def test_mcp_completions_offer_pending_actions_first() -> None:
    """A missing sign-in and a pending approval come before everything else."""
    app = app_with(WEB, CHANGED)

    [command] = [command for command in commands_of(app) if command.name == "mcp"]

    assert [*command.choices(app)][:4] == ["login web", "approve old", "resources", "doctor"]
    assert "reconnect old" in command.choices(app)


def test_mcp_disable_and_enable_turn_a_server_off_and_on() -> None:
    app = app_with(READY)

    assert said("/mcp disable docs", app=app) == [
        "MCP server docs is off in this workspace; /mcp enable docs starts it"
    ]
    assert said("/mcp enable docs", app=app) == [
        "MCP server docs is ready: 3 tools, about 1,204 tokens"
    ]


def test_mcp_doctor_reports_a_server_that_was_restarted() -> None:
    """Its last output is the only clue to why it ended."""
    ended = "MCP server 'docs' was lost: it ended (exit code 1)"
    again = ServerState("docs", ServerPhase.READY, last_end=ended, stderr=("out of memory",))

    assert said("/mcp doctor docs", app=app_with(again))[:3] == [
        "docs: in order",
        f"  it ended and was started again: {ended}",
        "  │ out of memory",
    ]
