"""Plugins in Claude Code's format: shown whole, pinned by content, used in the whole program."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_cli.added_plugins import PluginStore
from agent_cli.added_plugins.plugin import read_plugin
from agent_cli.added_plugins.sources import Source, source_of
from agent_cli.app.arguments import parse_arguments
from agent_cli.cli.plugins import plugins
from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.timeline import Json
from agent_cli.system import paths
from tests.e2e.program import agent_cli
from tests.messages_api import reply, serve_in_thread, tool_use
from tests.system.test_worktrees import git
from tests.tables import each_row

GUARD = """
import json, os, sys
from pathlib import Path

here = Path(os.environ["CLAUDE_PLUGIN_ROOT"])
assert here.name == "shop"
word = (here / "words.txt").read_text().strip()
if word in json.load(sys.stdin)["tool_input"]["command"]:
    print(f"{word} is not wanted", file=sys.stderr)
    sys.exit(2)
"""
SERVER = """
from mcp.server.mcpserver import MCPServer

server = MCPServer("stock")


@server.tool(structured_output=False)
def count(name: str) -> str:
    return "7"


server.run()
"""


def written(folder: Path, name: str, value: Json) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value))


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A git repository that is a marketplace with one plugin that brings everything."""
    top = tmp_path / "market"
    plugin = top / "plugins" / "shop"
    said: dict[str, Json] = {"lspServers": {}, "description": "sells things"}
    entry: Json = {"name": "shop", "source": "./plugins/shop", **said}
    written(top, ".claude-plugin/marketplace.json", {"name": "m", "plugins": [entry]})
    written(plugin, ".claude-plugin/plugin.json", {"name": "shop", "version": "1.0", "themes": []})
    hook: Json = {"type": "command", "command": "python3 ${CLAUDE_PLUGIN_ROOT}/hooks/guard.py"}
    groups: Json = {"PreToolUse": [{"matcher": "Bash", "hooks": [hook]}]}
    written(plugin, "hooks/hooks.json", {"hooks": groups})
    written(plugin, "hooks/guard.py", GUARD)
    written(plugin, "words.txt", "touch")
    written(plugin, "agents/clerk.md", "---\nname: clerk\ndescription: sells\n---\nYou sell.")
    written(plugin, "skills/tax/SKILL.md", "---\nname: tax\ndescription: taxes\n---\nAdd 20 %.")
    written(plugin, "commands/open.md", "Open $1 with ${CLAUDE_PLUGIN_ROOT}/key.")
    stock: Json = {"command": sys.executable, "args": ["${CLAUDE_PLUGIN_ROOT}/s.py"]}
    written(plugin, ".mcp.json", {"stock": stock})
    written(plugin, "s.py", SERVER)
    git(top, "init", "-q", "-b", "main")
    git(top, "add", "-A")
    git(top, "commit", "-qm", "one")
    git(top, "tag", "v1")
    return top


def told(*words: str) -> int:
    return plugins(parse_arguments(["plugins", *words]))


def test_added_plugin_is_shown_whole_and_its_parts_work(
    shop: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Agents, skills, commands, a hook in the sandbox with its folder, and a server."""
    commit = git(shop, "rev-parse", "v1").strip()

    assert told("add", f"{shop}@v1", "shop", "--yes") == 0
    shown = capsys.readouterr().out
    assert told("list") == 0
    listed = capsys.readouterr().out
    calls = [
        tool_use("bash", {"command": "touch made"}),
        tool_use("mcp__plugin_shop_stock__count", {"name": "a"}),
        tool_use("skill", {"name": "tax"}),
        tool_use("agent", {"subagent_type": "clerk", "prompt": "sell", "description": "d"}),
    ]
    with serve_in_thread(reply(*calls), reply("Sold."), reply("Done.")) as api:
        run = agent_cli("-p", "/shop:open door", "--permission-mode", "yolo", api=api)
        requests: list[Any] = [request.body for request in api.requests]

    for line in (
        "agent agents/clerk.md",
        "skill skills/tax/SKILL.md",
        "command commands/open.md",
        "python3 ${CLAUDE_PLUGIN_ROOT}/hooks/guard.py; it gets this session's calls or messages"
        " (hook, PreToolUse Bash)",
        "${CLAUDE_PLUGIN_ROOT}/s.py (MCP server stock)",
        "shop 1.0: sells things",
        "brings themes, which nothing here uses",
        "brings lspServers, which nothing here uses",
        '    | word = (here / "words.txt").read_text().strip()',
        f"shop is added at {commit[:12]}",
    ):
        assert line in shown
    assert "1 agent, 1 command, 1 skill, 1 group of hooks, 1 MCP server" in listed
    assert (run.code, len(requests)) == (0, 3), run.stderr
    assert "Open door with " in json.dumps(requests[0]["messages"])
    assert "${CLAUDE_PLUGIN_ROOT}" not in json.dumps(requests[0]["messages"])
    assert "You sell." in json.dumps(requests[1]["system"])
    results = json.dumps(requests[2]["messages"][-1])
    for text in ("touch is not wanted", '"7"', "Add 20 %.", "Sold."):
        assert text in results
    assert not (tmp_path / "made").exists()


def test_plugin_whose_content_changed_is_left_out_with_a_sentence(shop: Path) -> None:
    told("add", f"{shop}@v1", "shop", "--yes")
    [pin] = PluginStore().pins().values()
    (PluginStore().folder_of("shop", pin) / "words.txt").write_text("nothing")

    with serve_in_thread(reply(tool_use("bash", {"command": "true"})), reply("Done.")) as api:
        run = agent_cli("-p", "go", "--permission-mode", "yolo", api=api)

    assert "plugin shop is not used: its files are not those that were shown" in run.stderr
    assert "tax" not in json.dumps(api.requests[0].body["system"])


def test_update_shows_what_changed_and_keeps_the_old_one_until_it_is_agreed_to(
    shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told("update") == 0
    assert "no plugins are added" in capsys.readouterr().out
    told("add", f"{shop}@main", "shop", "--yes")
    before = PluginStore().pins()["shop"]
    assert told("update", "shop") == 0
    assert "shop is up to date" in capsys.readouterr().out
    (shop / "plugins" / "shop" / "words.txt").write_text("rm")
    git(shop, "commit", "-qam", "two")

    with pytest.raises(UsageError, match="give --yes"):
        told("update", "shop")
    shown = capsys.readouterr().out
    assert PluginStore().pins()["shop"] == before
    assert told("update", "--yes") == 0

    assert "--- words.txt" in shown
    assert "-touch" in shown
    assert "+rm" in shown
    after = PluginStore().pins()["shop"]
    assert after.commit == git(shop, "rev-parse", "HEAD").strip()
    assert not PluginStore().folder_of("shop", before).exists()
    assert told("remove", "shop") == 0
    assert PluginStore().load() == ((), ())


COUNTING = """
import os, sys
from pathlib import Path

assert len(sys.argv) == 3 and sys.argv[1] == os.environ["CLAUDE_PLUGIN_DATA"], sys.argv
path = Path(sys.argv[1]) / sys.argv[2]
path.write_text(str(int(path.read_text()) + 1 if path.exists() else 1))
"""


def test_plugin_keeps_what_it_writes_to_its_folder_over_updates_and_no_other_has_it(
    tmp_path: Path,
) -> None:
    """Its hooks and servers write there; the model reads the path in its texts."""
    for name in ("one", "two"):
        plugin = tmp_path / name
        data, root = "${CLAUDE_PLUGIN_DATA}", "${CLAUDE_PLUGIN_ROOT}"
        run: Json = {"type": "command", "command": f'python3 {root}/n.py "{data}" hooks'}
        exact: Json = {"type": "command", "command": "python3", "args": [f"{root}/n.py", data, "a"]}
        server: Json = {"command": sys.executable, "args": [f"{root}/n.py", data, "server"]}
        written(plugin, ".claude-plugin/plugin.json", {"name": "shop"})
        written(plugin, "hooks/hooks.json", {"hooks": {"Stop": [{"hooks": [run, exact]}]}})
        written(plugin, ".mcp.json", {"stock": server})
        written(plugin, "commands/open.md", f"Open {data}/key.")
        written(plugin, "n.py", COUNTING)

    def counts() -> list[str]:
        with serve_in_thread(reply("Done.")) as api:
            run = agent_cli("-p", "/shop:open", api=api)
        data = PluginStore().data_of("shop", PluginStore().pin("shop"))
        assert run.code == 0, run.stderr
        assert f"Open {data}/key." in str(api.requests[0].body["messages"])
        return [(data / name).read_text() for name in ("hooks", "a", "server")]

    told("add", str(tmp_path / "one"), "--yes")
    first = counts()
    written(tmp_path / "one", "new.txt", "new")
    told("update", "--yes")
    second = counts()
    told("add", str(tmp_path / "two"), "--yes")
    other = counts()
    told("remove", "shop")

    assert (first, second, other) == (["1"] * 3, ["2"] * 3, ["1"] * 3)
    assert not (paths.plugins_dir() / "shop").exists()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("add", "market"), "is a marketplace; name one of its plugins too: shop"),
        (("add", "market", "shoe"), "has no plugin 'shoe'; it has: shop"),
        (("add", "market@v9", "shop"), "there is no branch, tag or commit 'v9'"),
        (("add", "market", "shop"), "nobody can be asked here"),
        (("add", "not a place"), "is no plugin: write owner/repo"),
        (("remove", "shop"), "there is no plugin 'shop'; there are: none"),
        (("frobnicate",), "write agent-cli plugins add"),
    ],
)
def test_what_cannot_be_added_is_said_in_a_sentence(
    words: tuple[str, ...], why: str, shop: Path
) -> None:
    del shop

    with pytest.raises(UsageError, match=why):
        told(*words)

    assert PluginStore().pins() == {}


@pytest.mark.parametrize(
    ("manifest", "link", "why"),
    [
        ({"name": "../x"}, "", "must be of lowercase letters"),
        ({"name": "a", "skills": "../../etc"}, "", "is outside its folder"),
        ("{", "", "cannot be read as JSON"),
        ({"name": "a"}, "/etc/passwd", "leads out of its folder"),
    ],
)
def test_plugins_that_reach_out_of_their_folder_are_refused(
    manifest: Json, link: str, why: str, tmp_path: Path
) -> None:
    plugin = tmp_path / "bad"
    written(plugin, ".claude-plugin/plugin.json", manifest)
    if link:
        (plugin / "x").symlink_to(link)

    with pytest.raises(UsageError, match=why):
        told("add", str(plugin), "--yes")


@each_row(
    ("text", "source"),
    [
        ("owner/repo", Source("https://github.com/owner/repo.git")),
        ("owner/repo@v1", Source("https://github.com/owner/repo.git", "v1")),
        ("https://a.org/x.git@main", Source("https://a.org/x.git", "main")),
        ("git@a.org:x/y.git", Source("git@a.org:x/y.git")),
        ("git@a.org:x/y.git@v2", Source("git@a.org:x/y.git", "v2")),
    ],
)
def test_sources_are_read_as_they_are_written(text: str, source: Source) -> None:
    assert source_of(text) == source


def test_setting_values_of_a_plugin_that_asks_for_none_is_refused(tmp_path: Path) -> None:
    """It ended without a word, as after values that were stored."""
    written(tmp_path / "plain", "commands/a.md", "A.")
    told("add", str(tmp_path / "plain"), "--yes")

    with pytest.raises(UsageError, match="plain asks for no values"):
        told("set", "plain")


def test_plugin_without_a_manifest_is_called_after_its_folder(tmp_path: Path) -> None:
    written(tmp_path / "plain", "commands/a.md", "A.")

    plugin = read_plugin(tmp_path / "plain")

    assert (plugin.name, plugin.folders["commands"]) == (
        "plain",
        (tmp_path / "plain" / "commands",),
    )
