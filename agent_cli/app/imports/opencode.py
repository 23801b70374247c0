"""The setup of OpenCode: `~/.config/opencode`."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from agent_cli.app.imports import (
    NO_COUNTERPART,
    NO_KEYBINDINGS,
    NO_THEME,
    NOT_READ,
    WRITE_AGENTS,
    Findings,
)
from agent_cli.app.startup import StartupContext
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import WEB_FETCH_TOOL, WEB_SEARCH_TOOL
from agent_cli.mcp_client.foreign import in_own_words
from agent_cli.prompt_files import prompt_text, split_front_matter
from agent_cli.system import paths
from agent_cli.system.json_text import load_commented
from agent_cli.system.shapes import is_object

_REASONS: Final[Mapping[str, str]] = {
    "provider": "keys are never copied; a server is set by [provider]: docs/clouds.md",
    "plugin": "there are no plugins of OpenCode here; docs/plugins.md",
    "keybinds": NO_KEYBINDINGS,
    "theme": NO_THEME,
    "agent": WRITE_AGENTS,
    "command": "write each as a Markdown file in ~/.config/agent-cli/commands",
    "instructions": "write @FILE for each into ~/.config/agent-cli/AGENTS.md",
    "share": "nothing is shared here: agent-cli sessions export ID html",
    "autoupdate": "update it with what installed it: docs/install.md",
}
_FOLDERS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("plugin", "plugins"), "there are no plugins of OpenCode here"),
    **dict.fromkeys(("tool", "tools"), "a tool is a plugin in Python here: docs/plugins.md"),
    **dict.fromkeys(("theme", "themes"), NO_THEME),
    **dict.fromkeys(("skill", "skills"), "put each folder into ~/.agents/skills"),
}
_AGENTS: Final = ("agent", "agents")
_COMMANDS: Final = ("command", "commands")
_TOOLS: Final[Mapping[str, str]] = {
    **{name: name for name in ("edit", "write", "bash", "read", "grep", "glob")},
    "list": "glob",
    "webfetch": WEB_FETCH_TOOL,
    "websearch": WEB_SEARCH_TOOL,
}
_WEB: Final = (WEB_FETCH_TOOL, WEB_SEARCH_TOOL)
_STATE: Final = ("node_modules", "package.json", "bun.lock", ".gitignore", "package-lock.json")
_NO_RULE: Final = "it cannot be said as a rule here"
_FILE: Final = "{file:"
_NO_FILE: Final = "its {file:...} is not read here: put the text into a variable of the environment"
_CONFIGS: Final = ("config.json", "opencode.json", "opencode.jsonc")


_PROJECT: Final[Mapping[str, str]] = {
    **dict.fromkeys(_CONFIGS[1:], "write its servers into .mcp.json: docs/mcp.md"),
    ".opencode": "put its skills into .agents/skills, agents and commands into .agent-cli",
}


def read_opencode(startup: StartupContext) -> Findings:
    """Return everything found of OpenCode."""
    home = paths.xdg_config_dir() / "opencode"
    findings = Findings("opencode")
    for entry in sorted(home.iterdir()) if home.is_dir() else ():
        name = entry.name
        if name == "AGENTS.md":
            findings.texts[name] = f"@{paths.shown(entry)}\n"
            findings.translated("instructions", name, "imported by an AGENTS.md", entry)
        elif name in _CONFIGS:
            _config(findings, entry)
        elif name in _AGENTS:
            for path, text in _texts(findings, "agents", entry):
                _agent(findings, path, text)
        elif name in _COMMANDS:
            for path, text in _texts(findings, "commands", entry):
                _command(findings, path, entry, text)
        else:
            reason = _FOLDERS.get(name, NOT_READ)
            reason = "state that OpenCode keeps for itself" if name in _STATE else reason
            findings.cannot("file", name, reason, entry)
    data = Path.home() / ".local" / "share" / "opencode"
    if data.is_dir():
        reason = "keys and sessions of OpenCode are not read here"
        findings.cannot("sessions", paths.shown(data), reason, data)
    findings.not_of(startup.workspace, _PROJECT)
    return findings


def _config(findings: Findings, path: Path) -> None:
    document = findings.read("setting", path.name, path, load_commented)
    for key, value in document.items() if is_object(document) else ():
        if key == "$schema":
            continue
        if key == "mcp" and is_object(value):
            for name, entry in value.items():
                if is_object(entry) and _FILE in json.dumps(entry):
                    findings.cannot("MCP server", name, _NO_FILE, path)
                elif is_object(entry):
                    findings.server(name, _server(entry), path)
        elif key == "permission" and is_object(value):
            for tool, setting in value.items():
                _rules(findings, path, tool, setting)
        elif key == "tools" and is_object(value):
            for tool, is_on in value.items():
                if is_on is False:
                    _rules(findings, path, tool, "deny")
                else:
                    findings.cannot("setting", f"{key}.{tool}", NO_COUNTERPART, path)
        elif key == "model" and str(value).startswith("anthropic/"):
            findings.setting(key, "model", str(value).removeprefix("anthropic/"), path)
        else:
            findings.cannot("setting", key, _REASONS.get(key, NO_COUNTERPART), path)


def _rules(findings: Findings, path: Path, tool: str, setting: object) -> None:
    patterns = setting if is_object(setting) else {"*": setting}
    for pattern, kind in patterns.items():
        written = f"{tool} {pattern}"
        ours = _TOOLS.get(tool, "")
        rule = ours if pattern == "*" else f"{ours}({pattern})"
        is_of_page = ours in _WEB and pattern != "*"  # theirs is a pattern, ours a server
        if kind not in ("allow", "ask", "deny") or not ours or is_of_page:
            findings.cannot("permissions", f"{kind} {written}", _NO_RULE, path)
            continue
        if pattern == "*" and is_object(setting) and len(setting) > 1:
            # There, the most special pattern wins; here, deny wins over ask and ask over allow.
            reason = "the mode decides here about what no rule names"
            findings.cannot("permissions", f"{kind} {written}", reason, path)
            continue
        findings.rule(str(kind), written, rule, path, why_not=_NO_RULE)


def _server(entry: Mapping[str, Json]) -> dict[str, Json]:
    ours = in_own_words(entry)
    names = ("command", "args", "env", "url", "headers")
    kept: dict[str, Json] = {name: ours[name] for name in names if name in ours}
    if entry.get("enabled") is False:
        kept["disabled"] = True
    return kept


def _texts(findings: Findings, kind: str, folder: Path) -> Iterator[tuple[Path, str]]:
    """Yield the Markdown files below *folder* with their texts."""
    for path in sorted(filter(paths.is_file, folder.rglob("*.md"))):
        try:
            text = prompt_text(path)
        except (OSError, ValueError) as error:
            findings.cannot(kind, path.stem, f"it cannot be read: {error}", path)
        else:
            yield path, text


def _agent(findings: Findings, path: Path, written: str) -> None:
    """Translate an agent: its name is the file's there, and its tools are a table."""
    fields, body = split_front_matter(written)
    about = (fields or {}).get("description", "")
    if not about or not body.strip():
        findings.cannot("agents", path.stem, "it has no description or no text", path)
        return
    if (fields or {}).get("mode") == "primary":
        reason = "it is no sub-agent: start with --append-system-prompt"
        findings.cannot("agents", path.stem, reason, path)
        return
    name = path.stem.lower().replace("_", "-")
    text = f"---\nname: {name}\ndescription: {about}\n---\n{body.strip()}\n"
    findings.texts[f"agents/{name}.md"] = text
    findings.translated("agents", path.stem, "copied; without its model and tools", path)


def _command(findings: Findings, path: Path, folder: Path, text: str) -> None:
    name = path.relative_to(folder).with_suffix("")
    if "!`" in text:
        reason = "it runs a command in its text, which is not done here"
        findings.cannot("commands", str(name), reason, path)
        return
    findings.texts[f"commands/{name}.md"] = text
    findings.translated("commands", f"/{':'.join(name.parts)}", "copied", path)
