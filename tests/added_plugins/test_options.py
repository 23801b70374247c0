"""The values that a plugin asks its user for: asked once, kept privately, never read as code."""

import io
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_cli.added_plugins import PluginStore
from agent_cli.added_plugins.options import in_hook, in_server, read_options
from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.timeline import Json
from agent_cli.system import paths
from tests.added_plugins.test_added_plugins import told, written
from tests.e2e.program import AGENT_CLI, agent_cli, environment
from tests.messages_api import reply, serve_in_thread, tool_use
from tests.repl.terminal import Terminal
from tests.tables import each_row

HOSTILE = "a'b\"; touch pwned; $(touch pwned) `touch pwned`"
ASKED: Json = {
    "token": {"title": "Token", "description": "for the shop", "sensitive": True, "required": True},
    "region": {"title": "Region", "default": "north"},
    "count": {"type": "number", "title": "Count", "min": 1, "max": 9},
}
# It ends at once, as a server that cannot be used.
SERVER = """
import os, sys
found = [sys.argv[1:], os.environ["KEY"], os.environ["CLAUDE_PLUGIN_OPTION_REGION"]]
open("server", "w").write(repr(found))
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A plugin whose every part refers to the values."""
    plugin = tmp_path / "shop"
    hooks: Json = [
        {"type": "command", "command": 'echo "${user_config.token}" ${user_config.count} > shell'},
        {"type": "command", "command": "bash", "args": ["-c", "echo ${user_config.token} > args"]},
        {
            "type": "command",
            "command": "/bin/sh",
            "args": ["${CLAUDE_PLUGIN_ROOT}/save", "${user_config.token}"],
        },
    ]
    groups: Json = {"PreToolUse": [{"matcher": "Bash", "hooks": hooks}]}
    written(plugin, ".claude-plugin/plugin.json", {"name": "shop", "userConfig": ASKED})
    written(plugin, "hooks/hooks.json", {"hooks": groups})
    text = "In ${user_config.region} from ${CLAUDE_PLUGIN_ROOT} by ${user_config.token}."
    written(plugin, "agents/clerk.md", f"---\nname: clerk\ndescription: sells\n---\nSell. {text}")
    written(plugin, "skills/tax/SKILL.md", f"---\nname: tax\ndescription: t\n---\nTax. {text}")
    written(plugin, "commands/open.md", f"Open. {text}")
    args: Json = ["${CLAUDE_PLUGIN_ROOT}/s.py", "${user_config.token}"]
    stock: Json = {"command": sys.executable, "args": args, "env": {"KEY": "${user_config.token}"}}
    written(plugin, ".mcp.json", {"stock": stock})
    written(plugin, "s.py", SERVER)
    written(plugin, "save", 'echo "$1" > file')
    return plugin


def typed(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))


def test_values_are_asked_for_once_and_reach_each_part_but_no_shell_reads_them_as_code(
    shop: Path, tmp_path: Path
) -> None:
    """A secret is not echoed, lies in a file for its user alone, and stands in no text."""
    with Terminal(AGENT_CLI, "plugins", "add", str(shop), **environment(None, {})) as terminal:
        terminal.until("Use the plugin shop, until it changes? [y/N]")
        assert "asks for token (string, required, secret): for the shop" in terminal.text
        terminal.send("y\r")
        terminal.until("Token (for the shop):")
        terminal.send(f"{HOSTILE}\r")
        terminal.until("Region [north]:")
        terminal.send("\r")
        terminal.until("Count:")
        terminal.send("12\r")
        terminal.until("count must be a number of at least 1 and at most 9")
        terminal.send("7\r")
        assert terminal.exit_code() == 0
        assert "touch pwned" not in terminal.text
    calls = [
        tool_use("bash", {"command": "true"}),
        tool_use("skill", {"name": "tax"}),
        tool_use("agent", {"subagent_type": "clerk", "prompt": "sell", "description": "d"}),
    ]
    with serve_in_thread(reply(*calls), reply("Sold."), reply("Done.")) as api:
        run = agent_cli("-p", "/shop:open", "--permission-mode", "yolo", api=api)
        bodies: list[Any] = [request.body for request in api.requests]

    values = paths.plugins_dir() / ".values.json"
    assert stat.S_IMODE(values.stat().st_mode) == 0o600
    assert (run.code, len(bodies)) == (0, 3), run.stderr
    [pin] = PluginStore().pins().values()
    place = f"In north from {PluginStore().folder_of('shop', pin)} by ${{user_config.token}}."
    assert f"Open. {place}" in str(bodies[0]["messages"])
    assert f"Sell. {place}" in str(bodies[1]["system"])
    results = str(bodies[2]["messages"][-1])
    assert f"Tax. {place}" in results
    assert (tmp_path / "server").read_text() == repr([[HOSTILE], HOSTILE, "north"])
    assert [(tmp_path / name).read_text() for name in ("shell", "args", "file")] == [
        f"{HOSTILE} 7\n",
        f"{' '.join(HOSTILE.split())}\n",
        f"{HOSTILE}\n",
    ]
    assert not (tmp_path / "pwned").exists()


def test_plugin_without_a_required_value_is_named_and_its_value_comes_from_a_pipe(
    shop: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Values are those of one source: another plugin of that name gets none of them."""
    told("add", str(shop), "--yes")
    added = capsys.readouterr().out
    _, [problem] = PluginStore().load()
    typed(monkeypatch, "12\n")
    with pytest.raises(UsageError, match="count must be a number of at least 1"):
        told("set", "shop", "count")
    with pytest.raises(UsageError, match="does not ask for 'x'; it asks for token, region, count"):
        told("set", "shop", "x")
    typed(monkeypatch, "secret\n")
    told("set", "shop", "token")
    [plugin], problems = PluginStore().load()
    told("show", "shop")
    shown = capsys.readouterr().out
    pin = PluginStore().pin("shop")
    other = PluginStore().values("shop", type(pin)(type(pin.source)("elsewhere"), "", ""))
    told("remove", "shop")
    told("add", str(shop), "--yes")

    assert "it is not used before it has a token: agent-cli plugins set shop token" in added
    assert "plugin shop is not used: it needs a value for token" in problem
    assert (dict(plugin.values), problems) == (
        {"token": "secret", "region": "north", "count": ""},
        (),
    )
    assert "token is ***" in shown
    assert "region is its default, 'north'" in shown
    assert "secret\n" not in shown
    assert other == {}
    assert PluginStore().values("shop", PluginStore().pin("shop")) == {}


VALUE = "${user_config.x}"
NAME = "CLAUDE_PLUGIN_OPTION_X"


@each_row(
    ("words", "expected"),
    [
        (["node", "a.js", VALUE], [f"${{{NAME}}}"]),
        (["docker", "run", "-e", f"K={VALUE}", "i"], [f"K=${{{NAME}}}"]),
        (["/bin/bash", "-lc", f"go {VALUE}"], [f"go ${{{NAME}-}}"]),
        (["env", "A=1", "sh", "-c", f"go {VALUE}", "sh", VALUE], [f"${{{NAME}-}}", f"${{{NAME}}}"]),
        (["python3", "-c", f"print('{VALUE}')"], [VALUE]),
        (["ssh", "host", f"run {VALUE}"], [VALUE]),
    ],
)
def test_value_in_the_code_of_a_program_is_a_variable_or_stays(
    words: list[str], expected: list[str]
) -> None:
    program, *args = words
    entry: dict[str, object] = {"command": program, "args": args}

    hook = str(in_hook({"hooks": [entry]}, {}))
    server = str(in_server(entry))

    for text in expected:
        assert text in hook
        assert text in server
    assert (VALUE in hook) == (VALUE in server) == (VALUE in "".join(expected))


@each_row(
    ("command", "expected"),
    [
        (f'go "{VALUE}" -e {VALUE}', f'go "${{{NAME}-}}" -e ${{{NAME}-}}'),
        (f'bash save "{VALUE}"', f'bash save "${{{NAME}-}}"'),
        (f'bash -c "save {VALUE}"', f'bash -c "save {VALUE}"'),
        (f'eval "save {VALUE}"', f'eval "save {VALUE}"'),
    ],
)
def test_value_in_a_shell_command_is_a_variable_or_stays(command: str, expected: str) -> None:
    """What stays makes the shell say `bad substitution`, and a guard block."""
    assert in_hook({"hooks": [{"command": command}]}, {}) == {"hooks": [{"command": expected}]}


@each_row(
    ("option", "text", "expected"),
    [
        ({"type": "boolean"}, "Yes", "true"),
        ({"type": "boolean"}, "maybe", "must be true or false"),
        ({"type": "number", "min": 0}, "-1", "must be a number of at least 0"),
        ({"type": "number"}, "nan", "must be a number"),
        ({"type": "file"}, "gone", "must be an existing file"),
        ({"options": ["a", "b"]}, "c", "must be one of a, b"),
        ({}, "a\x1b[2J", "must be one line of text"),
        ({}, "free text", "free text"),
    ],
)
def test_values_are_checked_by_kind(option: Json, text: str, expected: str) -> None:
    [read] = read_options({"x": option})

    try:
        found = read.checked(text)
    except UsageError as error:
        found = str(error).removeprefix("x ")

    assert found == expected


@each_row(
    ("written", "why"),
    [
        ([], "must be an object"),
        ({"a b": {}}, "its key a name"),
        ({"a": {"type": "date"}}, "type must be one of"),
        ({"a": {"min": "1"}}, "min and max must be numbers"),
        ({"a": {}, "A": {}}, "differ only in uppercase"),
    ],
)
def test_strange_options_are_refused_in_a_sentence(written: Json, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        read_options(written)
