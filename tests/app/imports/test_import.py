"""The setup of another agent: everything is used, translated, or named with a reason."""

import json
import os
from pathlib import Path

import pytest

from agent_cli.prompt_files import FILE_BYTES_MAX
from agent_cli.system.config_text import FILE_CHARS_MAX
from tests.e2e.program import Finished, agent_cli, in_terminal
from tests.messages_api import reply, serve_in_thread

KEY = "ghp_0123456789abcdefghij0123456789"
AGENT = "---\nname: {}\ndescription: Looks at code.\n---\nLook at it.\n"
SKILL = "---\nname: {}\ndescription: Does a thing.\n---\nDo it.\n"
CLAUDE: dict[str, object] = {
    "CLAUDE.md": "Be kind.\n",
    "rules/python.md": "---\npaths: '*.py'\n---\nUse types.\n",
    "agents/reviewer.md": AGENT.format("reviewer"),
    "agents/Bad!Name.md": AGENT.format("Bad!Name"),
    "skills/pdf/SKILL.md": SKILL.format("pdf"),
    "skills/odd/SKILL.md": "no front matter\n",
    "commands/ship.md": "Ship it: $ARGUMENTS\n",
    "output-styles/terse.md": "---\nname: terse\n---\nBe terse.\n",
    "settings.json": {
        "model": "opus[1m]",
        "effortLevel": "high",
        "outputStyle": "terse",
        "theme": "light-daltonized",
        "editorMode": "vim",
        "statusLine": {"type": "command", "command": "echo hi"},
        "apiKeyHelper": "cat ~/.key",
        "somethingNew": 1,
        "env": {"GITHUB_TOKEN": KEY, "EDITOR": "vi"},
        "permissions": {
            "allow": ["Bash(npm test:*)", "WebFetch(domain:example.com)"],
            "deny": ["Read(./.env)", "Bash(* --force)"],
            "defaultMode": "acceptEdits",
            "additionalDirectories": ["/tmp"],
        },
        "hooks": {
            "Stop": [{"hooks": [{"type": "command", "command": "true"}]}],
            "TeammateIdle": [{"hooks": [{"type": "command", "command": "true"}]}],
        },
        "enabledPlugins": {"tidy@market": True},
    },
    "keybindings.json": {},
    ".credentials.json": {"claudeAiOauth": {"accessToken": KEY}},
    "plugins/installed_plugins.json": {"plugins": {"tidy@market": [{"installPath": "/p/tidy"}]}},
    "plugins/known_marketplaces.json": {"market": {}},
    "projects/-w/memory/MEMORY.md": "The user likes tea.\n",
    "todos/x.json": [],
    "projects/-w/4.jsonl": "{}",
    "something-new": "?",
}
STATE: dict[str, object] = {
    "mcpServers": {
        "files": {"command": "npx", "args": ["files"], "env": {"GITHUB_TOKEN": KEY, "LANG": "C"}},
        "web": {"type": "http", "url": "https://x.io", "headers": {"Authorization": f"B {KEY}"}},
        "odd": {"command": "serve", "args": ["--token", KEY]},
    }
}
CODEX: dict[str, object] = {
    "AGENTS.md": "Be brief.\n",
    "prompts/fix.md": "Fix $1\n",
    "config.toml": (
        'model = "gpt-5"\nmodel_reasoning_effort = "low"\nsandbox_mode = "workspace-write"\n'
        'approval_policy = "on-request"\n[mcp_servers.docs]\ncommand = "docs"\n'
    ),
    "rules/default.rules": (
        'prefix_rule(pattern=["git", ["push", "fetch"]], decision="prompt")\nother()\n'
    ),
    "auth.json": {"OPENAI_API_KEY": KEY},
    "brand_new": "?",
}
GEMINI: dict[str, object] = {
    "GEMINI.md": "Be gentle.\n",
    "settings.json": {
        "vimMode": True,
        "tools": {"allowed": ["run_shell_command(git status)", "magic"]},
        "mcpServers": {"g": {"httpUrl": "https://127.0.0.1:9"}},
    },
    "commands/plan/week.toml": 'description = "Plan"\nprompt = "Plan {{args}}"\n',
    "commands/run.toml": 'prompt = "!{ls}"\n',
}
OPENCODE: dict[str, object] = {
    "opencode.json": {
        "model": "anthropic/claude-opus-5-5",
        "permission": {"edit": "ask", "bash": {"*": "ask", "git push *": "deny"}},
        "mcp": {"o": {"type": "local", "command": ["o", "serve"], "enabled": False}},
    },
    "agent/helper.md": "---\ndescription: Helps.\n---\nHelp.\n",
    "command/go.md": "Go $ARGUMENTS\n",
}
FOLDERS: dict[str, dict[str, object]] = {
    ".claude": CLAUDE,
    ".codex": CODEX,
    ".gemini": GEMINI,
    ".config/opencode": OPENCODE,
    "": {".claude.json": STATE},
}


@pytest.fixture(autouse=True)
def _home() -> None:
    for folder, files in FOLDERS.items():
        for name, content in files.items():
            path = Path.home() / folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content if isinstance(content, str) else json.dumps(content))


def found(*arguments: str) -> dict[tuple[str, str], str]:
    """Return kind and name → verdict of what was found."""
    run = agent_cli("import", *arguments, "--json")
    assert run.code == 0, run.stderr
    assert all(row["detail"] for row in json.loads(run.stdout))
    return {(row["kind"], row["name"]): row["verdict"] for row in json.loads(run.stdout)}


def written() -> dict[str, str]:
    folder = Path.home() / ".config" / "agent-cli"
    return {
        str(path.relative_to(folder)): path.read_text(errors="replace")
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_everything_of_claude_code_is_used_or_named_with_its_reason() -> None:
    """No file and no key of the home directory is silent."""
    rows = found("claude", "--dry-run")
    names = " ".join(f"{name}" for _, name in rows)
    text = json.dumps([[*key, verdict] for key, verdict in rows.items()])

    assert written() == {}
    settings = CLAUDE["settings.json"]
    assert isinstance(settings, dict)
    keys = {*settings} - {"permissions", "hooks", "env", "enabledPlugins"}
    assert {key for key in keys if key not in names} == set()
    for each in ("GITHUB_TOKEN", "EDITOR", "npm test", ".env", "--force", "acceptEdits", "tidy"):
        assert each in names
    for each in ("Stop", "MEMORY.md", "market", "todos", "something-new", "keybindings.json"):
        assert each in names
    assert rows["agents", "reviewer"] == rows["skills", "pdf"] == "used as it is"
    assert rows["commands", "/ship"] == rows["output styles", "terse"] == "used as it is"
    assert rows["MCP server", "files"] == rows["permissions", "deny Read(./.env)"] == "translated"
    assert rows["permissions", "deny Bash(* --force)"] == rows["MCP server", "odd"] == "cannot"
    assert "Bad!Name" not in names  # its sentence has it
    assert rows["sessions", "1"] == "used as it is"
    assert KEY not in text


def test_rows_say_what_is_read_when_and_what_stands_in_a_places_stead() -> None:
    """An override, rules about paths, files named by @, and settings kept in the state."""
    claude, codex = Path.home() / ".claude", Path.home() / ".codex"
    (claude / "CLAUDE.md").write_text("Be kind. See @extra.md\n")
    (claude / "extra.md").write_text("Say moin.\n")
    (codex / "AGENTS.override.md").write_text("Be very brief.\n")
    answers = {"projects": {str(Path.cwd()): {"allowedTools": ["Bash(make:*)"]}}}
    state = {**STATE, **answers, "theme": "light", "editorMode": "vim"}
    (Path.home() / ".claude.json").write_text(json.dumps(state))
    settings = {"outputStyle": "Explanatory"}
    (claude / "settings.json").write_text(json.dumps(settings))
    run = agent_cli("import", "--dry-run", "--json")
    rows = {(row["kind"], row["name"]): row for row in json.loads(run.stdout)}
    with serve_in_thread(reply("ok")) as api:
        agent_cli("-p", "hi", api=api)
        sent = str(api.requests[0].body["system"])

    assert rows["instructions", "extra.md"]["detail"] == "read with CLAUDE.md, which names it by @"
    assert ("file", "extra.md") not in rows
    assert rows["instructions", "python.md"]["detail"] == "read once a tool comes to *.py"
    assert rows["instructions", "AGENTS.md"]["verdict"] == "cannot"
    assert rows["instructions", "AGENTS.override.md"]["verdict"] == "used as it is"
    assert ("Be very brief." in sent, "Be brief." in sent) == (True, False)
    assert rows["setting", "theme"]["verdict"] == "translated"
    assert rows["setting", "editorMode"]["verdict"] == "translated"
    assert rows["permissions", "allow Bash(make:*)"]["verdict"] == "cannot"
    assert rows["setting", "outputStyle = Explanatory"]["verdict"] == "cannot"


def test_row_says_what_a_session_does_with_the_thing() -> None:
    """Nothing is called used that a session refuses, or unread that it runs."""
    home, codex = Path.home() / ".claude", Path.home() / ".codex"
    (home / "CLAUDE.md").write_text("Read @notes/style.md and @gone.md\n")
    Path("CLAUDE.md").write_text("Read @/etc/hostname\n")
    for name in ("notes/style.md", "hooks/check.sh"):
        (home / name).parent.mkdir()
        (home / name).write_text("x")
    hook = {"type": "command", "command": "~/.claude/hooks/check.sh"}
    (home / "settings.json").write_text(json.dumps({"hooks": {"Stop": [{"hooks": [hook]}]}}))
    socket = {"mcpServers": {"socket": {"type": "ws", "url": "wss://x.io"}}}
    Path.home().joinpath(".claude.json").write_text(json.dumps(socket))
    (codex / "config.toml").write_text('[[hooks.Stop]]\nhooks = [{type="command", command="true"}]')
    (codex / "hooks.json").write_text(json.dumps({"hooks": {"Stop": [{"hooks": [hook]}]}}))

    rows = found("claude", "--dry-run")
    details = agent_cli("import", "claude", "--dry-run").stdout

    assert ("instructions", "hostname") not in rows
    assert "/etc/hostname is not read: it leads out of" in details
    assert "gone.md is not read" in details
    assert ("file", "notes") not in rows
    assert rows["file", "hooks"] == "used as it is"
    assert rows["MCP server", "socket"] == "cannot"
    assert "WebSocket" in details
    assert found("codex")["hooks", "Stop"] == "translated"
    hooks = json.loads(written()["imported/codex/appsettings.json"])["hooks"]["Stop"]
    assert [each["hooks"][0]["command"] for each in hooks] == ["true", hook["command"]]


def test_part_of_a_skill_or_command_that_does_nothing_here_is_named() -> None:
    home = Path.home() / ".claude"
    lost = "---\nname: {}\ndescription: d\nallowed-tools: Bash(git:*)\n---\n"
    (home / "commands" / "ship.md").write_text(lost.format("ship") + "On !`git status`: go\n")
    (home / "skills" / "pdf" / "SKILL.md").write_text(
        lost.format("pdf").replace("---\n", "---\ncontext: fork\n", 1) + "No `!`ls` here\n"
    )

    rows = found("claude", "--dry-run")

    assert rows["commands", "/ship"] == rows["skills", "pdf"] == "used as it is"
    assert {name for _kind, name in rows if " of " in name} == {
        "allowed-tools of /ship",
        "!`command` of /ship",
        "allowed-tools of pdf",
        "context of pdf",
    }


def test_server_of_one_folder_is_not_taken_over_for_all() -> None:
    """Claude Code starts it there alone; so does the program after `mcp import` there."""
    here = {"mcpServers": {"mine": {"command": "mine"}}}
    there = {"mcpServers": {"theirs": {"command": "theirs"}}}
    state = {**STATE, "projects": {str(Path.cwd()): here, str(Path.home() / "x"): there}}
    (Path.home() / ".claude.json").write_text(json.dumps(state))

    run = agent_cli("import", "claude", "--json")
    details = {row["name"]: row["detail"] for row in json.loads(run.stdout)}
    servers = written()["imported/claude/mcp.json"]
    kept = agent_cli("mcp", "import", "claude-code")

    assert "mine" not in servers
    assert details["mine"].startswith("yours in this folder alone: agent-cli mcp import")
    assert details["theirs"].startswith("yours in ~/x alone: agent-cli mcp import")
    assert "for this folder alone" in kept.stdout
    ours = written().items()  # beside each file lies its lock
    [local] = [text for name, text in ours if name.startswith("mcp-local/") and text]
    assert [*json.loads(local)["mcpServers"]] == ["mine"]
    assert "mine" not in written()["mcp.json"]


def test_first_start_beside_another_setup_says_once_where_to_look() -> None:
    """At the first start in a terminal, also after one of `-p`, and at no later one."""
    sentence = "`agent-cli import --dry-run` lists what counts"
    with serve_in_thread(reply("Ja."), reply("Moin.")) as api:
        printed = agent_cli("-p", "hi", api=api)
        assert (printed.code, sentence in printed.stderr) == (0, False)
        with in_terminal(api, TERM="xterm-256color") as terminal:
            terminal.until(sentence)
            terminal.send("hi\r")
            terminal.until("Moin.")
        with in_terminal(api, TERM="xterm-256color") as terminal:
            terminal.until("tools: read")
            terminal.send("/exit\r")
            assert terminal.exit_code() == 0
            later = terminal.text

    assert sentence not in later


def test_import_writes_what_is_translated_once_and_undo_takes_it_back() -> None:
    """Keys are never copied, and what is imported acts: settings, rules, commands, servers."""
    first = agent_cli("import")
    files = written()
    second = agent_cli("import")
    with serve_in_thread(reply("ok")) as api:
        run = agent_cli("-p", "/plan:week today", api=api)
    shown = agent_cli("config", "show", "--origin")
    servers = agent_cli("mcp", "list")
    undone = agent_cli("import", "--undo")

    assert (first.code, second.code, undone.code) == (0, 0, 0)
    assert written() == {}
    assert KEY not in str(files)
    assert "${GITHUB_TOKEN}" in files["imported/claude/mcp.json"]
    assert "is up to date" in second.stderr
    assert run.code == 0, run.stderr
    assert "Plan today" in str(api.requests[0].body["messages"])
    assert "Be gentle." in str(api.requests[0].body)
    assert 'theme = "light"' in shown.stdout
    for name in ("files", "docs", "g", "o"):
        assert name in servers.stdout


def test_your_own_settings_win_over_imported_ones_and_changed_files_are_kept() -> None:
    own = Path.home() / ".config" / "agent-cli" / "appsettings.toml"
    own.parent.mkdir(parents=True, exist_ok=True)
    own.write_text('[ui]\ntheme = "high-contrast"\n')
    agent_cli("import", "claude")
    shown = agent_cli("config", "show")
    imported = own.parent / "imported" / "claude" / "appsettings.json"
    imported.write_text(imported.read_text().replace("light", "none"))
    undone = agent_cli("import", "claude", "--undo")

    assert 'theme = "high-contrast"' in shown.stdout
    assert "which you changed, is kept in" in undone.stdout
    assert '"none"' in written()["changed-import-claude-1/appsettings.json"]
    assert own.read_text() == '[ui]\ntheme = "high-contrast"\n'


def test_codex_gemini_and_opencode_are_used_or_named() -> None:
    rows = {name: found(name, "--dry-run") for name in ("codex", "gemini", "opencode")}
    names = {program: str(sorted(of)) for program, of in rows.items()}

    for each in ("AGENTS.md", "/fix", "model", "docs", "auth.json", "brand_new", "other()"):
        assert each in names["codex"]
    assert rows["codex"]["setting", "model_reasoning_effort"] == "translated"
    for each in ("GEMINI.md", "vimMode", "git status", "magic", "/plan:week", "'run'"):
        assert each in names["gemini"]
    for each in ("model", "edit *", "git push", "helper", "/go", "'o'"):
        assert each in names["opencode"]


def test_denied_tools_of_gemini_and_opencode_stay_denied() -> None:
    """Their names differ from ours; without them a guard was lost."""
    gemini, opencode = Path.home() / ".gemini", Path.home() / ".config/opencode"
    excluded = ["web_fetch", "google_web_search", "WriteFileTool", "save_memory"]
    (gemini / "settings.json").write_text(json.dumps({"tools": {"exclude": excluded}}))
    permission = {"webfetch": "deny", "websearch": {"x*": "deny"}, "list": "ask", "lsp": "deny"}
    tools = {"write": False, "bash": True}
    (opencode / "opencode.json").write_text(json.dumps({"permission": permission, "tools": tools}))

    of_gemini, of_opencode = found("gemini"), found("opencode")
    folder = Path.home() / ".config" / "agent-cli" / "imported"
    rules = [
        json.loads((folder / name / "appsettings.json").read_text())["permissions"]
        for name in ("gemini", "opencode")
    ]

    assert rules == [
        {"deny": ["web_fetch", "web_search", "write"]},
        {"deny": ["web_fetch", "write"], "ask": ["glob"]},
    ]
    assert of_gemini["permissions", "deny save_memory"] == "cannot"
    assert [of_opencode["permissions", f"deny {it}"] for it in ("websearch x*", "lsp *")] == [
        "cannot",
        "cannot",
    ]
    assert of_opencode["setting", "tools.bash"] == "cannot"


def test_variables_in_servers_of_gemini_and_opencode_stay_variables() -> None:
    """Each program has its own form; ours would pass theirs on as a text."""
    gemini, opencode = Path.home() / ".gemini", Path.home() / ".config/opencode"
    theirs = {"command": "g", "env": {"A": "$A_B", "C": "${C}"}, "args": ["--at=$HOME/x"]}
    at_url = {"httpUrl": "https://$HOST/mcp"}
    (gemini / "settings.json").write_text(json.dumps({"mcpServers": {"g": theirs, "h": at_url}}))
    servers = {
        "o": {"command": ["o"], "environment": {"A": "{env:A_B}"}},
        "p": {"url": "https://p.io", "headers": {"Authorization": "Bearer {env:TOKEN}"}},
        "q": {"url": "https://q.io", "headers": {"Authorization": "{file:~/key}"}},
    }
    (opencode / "opencode.json").write_text(json.dumps({"mcp": servers}))

    found("gemini")
    rows = found("opencode")
    imported = Path.home() / ".config" / "agent-cli" / "imported"
    of_gemini, of_opencode = (
        json.loads((imported / name / "mcp.json").read_text())["mcpServers"]
        for name in ("gemini", "opencode")
    )

    assert of_gemini == {
        "g": {"command": "g", "env": {"A": "${A_B}", "C": "${C}"}, "args": ["--at=${HOME}/x"]},
        "h": {"type": "http", "url": "https://${HOST}/mcp"},
    }
    assert of_opencode == {
        "o": {"command": "o", "args": [], "env": {"A": "${A_B}"}},
        "p": {"url": "https://p.io", "headers": {"Authorization": "Bearer ${TOKEN}"}},
    }
    assert rows["MCP server", "q"] == "cannot"


def test_file_of_a_project_that_nothing_here_reads_is_named() -> None:
    """They were passed over in silence, and the project's instructions and servers were missing."""
    names = {
        "codex": [".codex/config.toml", ".codex/agents/look.toml", ".codex/skills/pdf/SKILL.md"],
        "gemini": ["GEMINI.md", ".gemini/settings.json", ".gemini/commands/ship.toml"],
        "opencode": ["opencode.json", ".opencode/agent/look.md"],
    }
    for name in (each for of in names.values() for each in of):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text("x")

    rows = {program: found(program, "--dry-run") for program in names}
    details = agent_cli("import", "--dry-run").stdout

    of_projects = {name for of in rows.values() for kind, name in of if kind == "project"}
    assert of_projects == {
        *(".codex/config.toml", ".codex/agents", ".codex/skills", "GEMINI.md"),
        *(".gemini/settings.json", ".gemini/commands", "opencode.json", ".opencode"),
    }
    assert "GEMINI.md  cannot  put @GEMINI.md into the project's AGENTS.md" in details


def test_file_of_opencode_that_is_no_prompt_is_named_and_the_others_are_copied() -> None:
    """One was read whole, and a pipe waited for."""
    folder = Path.home() / ".config/opencode"
    (folder / "command/big.md").write_text("x" * (FILE_BYTES_MAX + 1))
    (folder / "agent/big.md").write_text("x" * (FILE_BYTES_MAX + 1))
    os.mkfifo(folder / "command/pipe.md")

    rows = found("opencode", "--dry-run")

    assert rows["commands", "big"] == rows["agents", "big"] == "cannot"
    assert rows["commands", "/go"] == rows["agents", "helper"] == "translated"


def test_file_longer_than_settings_can_be_is_not_read() -> None:
    """It is read at the first start beside another setup, which must not wait for it."""
    huge = Path.home() / ".codex/config.toml"
    huge.parent.mkdir(parents=True, exist_ok=True)
    huge.write_text(" " * (FILE_CHARS_MAX + 1))

    rows = found("codex", "--dry-run")

    assert rows["setting", "config.toml"] == "cannot"


def test_no_setup_found_names_the_programs_that_were_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one program named, nothing is said about the others."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / ".config"))

    every = agent_cli("import", "--dry-run")
    one = agent_cli("import", "claude", "--dry-run")

    assert every.stdout == "no setup was found of claude, codex, gemini, opencode\n"
    assert one.stdout == "no setup was found of claude\n"
    assert (every.stderr, one.stderr) == ("", "")


@pytest.mark.parametrize("words", [("cursor",), ("claude", "codex")])
def test_unknown_program_is_one_sentence(words: tuple[str, ...]) -> None:
    run: Finished = agent_cli("import", *words)

    assert run.code == 2
    assert run.stderr.count("\n") == 1
