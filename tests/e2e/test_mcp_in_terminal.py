"""The features and questions of MCP servers, on the screen of the whole program."""

import json
import re
import sys
import time
from pathlib import Path

from agent_cli.repl.live.asking import SILENCE_S
from tests.e2e.program import AGENT_CLI, environment, results_in, said_by_user, text_of
from tests.forked import arguments_of
from tests.messages_api import reply, serve_in_thread, tool_use
from tests.repl.terminal import Terminal

FULL_SERVER = str(Path(__file__).parents[1] / "mcp_client" / "full_server.py")


def answer(terminal: Terminal, question: str, keys: str) -> None:
    """Type *keys* once *question* has been shown long enough for a person to read it."""
    terminal.until(lambda: terminal.last_row == question)
    seen_at_s = time.monotonic()
    terminal.until(lambda: time.monotonic() - seen_at_s > SILENCE_S + 0.1)
    terminal.send(keys)


def test_forms_prompts_and_resources_of_an_mcp_server_work_at_the_prompt() -> None:
    """The form has a default and gets an invalid value; a page, a prompt and a resource follow.

    A sentence typed at a server's question is no answer, and comes back with the prompt.
    """
    full = {"command": sys.executable, "args": arguments_of(FULL_SERVER, "stdio")}
    Path("servers.json").write_text(json.dumps({"mcpServers": {"full": full}}))
    options = ("--mcp-config", "servers.json", "--permission-mode", "yolo")
    with (
        serve_in_thread(
            reply(tool_use("mcp__full__ask", {})),
            reply(tool_use("mcp__full__ask_to_visit", {})),
            reply("Asked."),
            reply("Greeted."),
            reply("Read."),
        ) as api,
        Terminal(AGENT_CLI, *options, **environment(api, {"TERM": "xterm-256color"})) as terminal,
    ):
        terminal.until("MCP 1/1")
        terminal.send("/mcp\r")
        terminal.until(lambda: re.search(r"full +ready +9 ", terminal.text) is not None)
        terminal.send("go\r")
        answer(terminal, "full: answer? (y/n)", "you may like teal\r")
        answer(terminal, "full: answer? (y/n) kept for your next message", "y\r")
        answer(terminal, "full: 1 Colour [green · - = empty]>", "\r")
        answer(terminal, "full: 2 Count>", "two\r")
        terminal.until("not taken: two is not a whole number")
        answer(terminal, "full: 2 Count>", "2\r")
        answer(terminal, "full: send? (y/n/number)", "y\r")
        answer(terminal, "full: open it? (y/n)", "n\r")
        terminal.until("Asked.")
        terminal.until(lambda: terminal.last_row == "you> you may like teal")
        terminal.send("\x15")
        terminal.until_prompt()
        terminal.send("/mcp__full__greet\r")
        answer(terminal, "full: name>", "Anna\r")
        terminal.until("Greeted.")
        terminal.until_prompt()
        terminal.send("see @full:note://tod")
        terminal.until("note://today  A note")
        terminal.send("\t")
        terminal.until(lambda: terminal.last_row == "you> see @full:note://today")
        terminal.send("\r")
        terminal.until("with @full:note://today: 22 characters")
        terminal.until("Read.")

    asked, visited = (text_of(*results_in(request.body)) for request in api.requests[1:3])
    assert asked == "accept: {'colour': 'green', 'count': 2}"
    assert visited == "decline"
    greeting, line = said_by_user(api.requests[3].body)[-2:]
    assert "Write a warm greeting for Anna." in greeting
    assert line == '/mcp__full__greet "Anna"'
    assert said_by_user(api.requests[4].body)[-2:] == [
        "note://today:\nbuy milk",
        "see @full:note://today",
    ]
