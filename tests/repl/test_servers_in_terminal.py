"""MCP servers in a real terminal, during a run."""

from tests.repl.terminal import Terminal

CTRL_U, ESCAPE = "\x15", "\x1b"


def test_input_that_needs_a_server_waits_for_the_run_and_is_never_lost() -> None:
    """A resource is read before its message is sent, and /mcp changes no server during a run."""
    with Terminal() as terminal:
        terminal.until("logs: agent.log")
        terminal.send("see @docs:note://never\r")
        terminal.until("resource note://never: there is none")
        terminal.until(lambda: terminal.last_row == "you> see @docs:note://never")
        terminal.send(f"{CTRL_U}forever\r")
        terminal.until("working on it")
        terminal.send("/mcp reconnect docs\r")
        terminal.until("  when done: /mcp reconnect docs")
        terminal.send("/mcp\r")
        terminal.until("docs     ready       3         -           -    1,204")
        terminal.send("and @docs:note://today\r")
        terminal.until("  when done: and @docs:note://today")
        terminal.send(ESCAPE)
        terminal.until(lambda: terminal.last_row == "you> and @docs:note://today")
        terminal.send("\r")
        terminal.until("with @docs:note://today: 22 characters")
        terminal.until("buy milk")
