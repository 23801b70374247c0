"""`agent-cli permissions explain`, run as a command."""

import json
import os
from dataclasses import replace
from pathlib import Path

from agent_cli.mcp_client import Host, ServerConfig
from agent_cli.mcp_client.host import READS_ONLY
from tests.e2e.program import agent_cli
from tests.tables import each_row


def explained(*words: str) -> dict[str, str]:
    run = agent_cli("permissions", "explain", *words)
    assert (run.code, run.stderr) == (0, "")
    found: dict[str, str] = {}
    for line in run.stdout.splitlines():
        title, _, text = line.partition(":")
        found[title] = f"{found[title]} | {text.strip()}" if title in found else text.strip()
    return found


def test_permissions_explain_names_the_rule_its_line_and_each_command() -> None:
    """One of several commands in a script decides."""
    rules = Path(os.environ["XDG_CONFIG_HOME"], "agent-cli", "permissions.toml")
    rules.parent.mkdir(parents=True)
    rules.write_text('ask = []\ndeny = ["bash(git push *)"]\n')

    told = explained("bash", "cd src && sudo git push origin")

    sandbox = told.pop("sandbox")
    assert sandbox
    assert told == {
        "verdict": "deny",
        "why": "denied by the rule bash(git push *)",
        "rule": f"bash(git push *)  ({rules}:2)",
        "command": "cd src | sudo git push origin",
        "mode": "ask",
        "workspace": f"{Path.cwd()} (not trusted)",
    }


EXPLAINED = [
    (("bash", "ls | sort"), "allow", "only reads"),
    (("bash", "echo x > out.txt"), "ask", "writes out.txt"),
    (("bash", "expr 1 + 2"), "allow if it only reads, else ask", "runs read-only first"),
    (("bash", '{"command": "ls", "unsandboxed": true}'), "ask", "outside the sandbox"),
    (("read", "a.txt"), "allow", "only reads"),
    (("grep", "src"), "allow", "only reads"),
    (("glob", "src"), "allow", "only reads"),
    (("read", '{"path": ".env"}'), "deny", ".env may hold secrets"),
    (("edit", ".env", "--permission-mode", "yolo"), "deny", ".env may hold secrets"),
    (("read", "/etc/passwd"), "ask", "/etc/passwd is outside the workspace"),
    (("read", "../x", "--allow", "read"), "ask", "x is outside the workspace"),
    (("read", "/etc/passwd", "--allow", "read(/etc/*)"), "allow", "the rule read(/etc/*)"),
    (("edit", "a.txt"), "ask", "changes files"),
    (("edit", "a.txt", "--permission-mode", "auto-edit"), "allow", "mode auto-edit"),
    (("edit", "a.txt", "--permission-mode", "plan"), "deny", "plan mode"),
    (("write", ".git/config", "--permission-mode", "yolo"), "deny", "git's own data"),
    (("bash", "cat notes.txt"), "ask", "notes.txt, which may hold secrets"),
    (("mcp__web__search", "{}"), "ask", "may have side effects"),
    (("mcp__web__search", "{}", "--allow", "mcp__web__*"), "allow", "the rule mcp__web__*"),
]


def test_permissions_explain_gives_the_verdict_and_the_reason() -> None:
    """Plain commands and paths are accepted; JSON has all details."""
    Path(".env").write_text("KEY=x")
    Path("notes.txt").hardlink_to(".env")

    told = [(words, verdict, why, explained(*words)) for words, verdict, why in EXPLAINED]

    wrong = [row for row in told if (row[1], True) != (row[3]["verdict"], row[2] in row[3]["why"])]
    assert wrong == []


@each_row(
    ("words", "complaint"),
    [
        (("lok", "x"), "there is no tool lok; there are read, edit, write, bash"),
        (("edit", '{"path": 1}'), "edits: Field required.\n"),
        (("bash", "ls", "--deny", "bash("), "flag --deny: 'bash(' is not a rule"),
    ],
)
def test_permissions_explain_refuses_invalid_input_with_the_reason(
    words: tuple[str, ...], complaint: str
) -> None:
    """The exit code is 2, as for every mistake on the command line."""
    run = agent_cli("permissions", "explain", *words)

    assert (run.code, run.stdout) == (2, "")
    assert complaint in run.stderr


def test_permissions_explain_escapes_control_characters() -> None:
    """Threats 7 and 8: a pasted command may hold escape sequences."""
    run = agent_cli("permissions", "explain", "bash", json.dumps({"command": "ls \x1b[2J\u202e"}))

    assert run.code == 0
    assert "\x1b" not in run.stdout
    assert "\u202e" not in run.stdout


def test_mcp_tool_approved_as_read_only_is_allowed() -> None:
    """The server is not started; another program of that name was not approved."""
    server = ServerConfig(name="docs", transport="stdio", command="docs-server")
    settings = Path(os.environ["XDG_CONFIG_HOME"], "agent-cli", "appsettings.toml")
    settings.parent.mkdir(parents=True)
    settings.write_text('[[mcp.servers]]\nname = "docs"\ncommand = "docs-server"\n')
    host = Host()
    host.pins.vouch(server, "search", f"search\n\n{READS_ONLY}")
    host.pins.vouch(server, "remove", "remove\n\n")
    host.pins.vouch(replace(server, command="other"), "list", f"list\n\n{READS_ONLY}")

    verdicts = {
        tool: explained(f"mcp__docs__{tool}", "{}")["verdict"]
        for tool in ("search", "remove", "list")
    }

    assert verdicts == {"search": "allow", "remove": "ask", "list": "ask"}
