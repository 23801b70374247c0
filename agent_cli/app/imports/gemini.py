"""The setup of Gemini CLI: `~/.gemini`."""

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from agent_cli.app.imports import (
    NO_COUNTERPART,
    NO_KEYBINDINGS,
    WRITE_AGENTS,
    Findings,
)
from agent_cli.app.startup import StartupContext
from agent_cli.contracts.claude_tools import OF_SERVERS
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import WEB_FETCH_TOOL, WEB_SEARCH_TOOL
from agent_cli.system import paths
from agent_cli.system.json_text import load_commented
from agent_cli.system.shapes import is_array, is_object

# By name, and by class as earlier versions had them.
_TOOLS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("run_shell_command", "ShellTool"), "bash"),
    **dict.fromkeys(("read_file", "read_many_files", "ReadFileTool", "ReadManyFilesTool"), "read"),
    **dict.fromkeys(("list_directory", "glob", "LSTool", "GlobTool"), "glob"),
    **dict.fromkeys(("search_file_content", "grep_search", "GrepTool"), "grep"),
    **dict.fromkeys(("replace", "EditTool"), "edit"),
    **dict.fromkeys(("write_file", "WriteFileTool"), "write"),
    **dict.fromkeys(("web_fetch", "WebFetchTool"), WEB_FETCH_TOOL),
    **dict.fromkeys(("google_web_search", "WebSearchTool"), WEB_SEARCH_TOOL),
}
_MODES: Final = {"default": "ask", "auto_edit": "auto-edit", "plan": "plan"}
_SERVER_KEYS: Final[Mapping[str, str]] = {
    **{key: key for key in ("command", "args", "env", "cwd", "headers")},
    "includeTools": "enabled_tools",
    "excludeTools": "disabled_tools",
}
_FILES: Final[Mapping[str, str]] = {
    "oauth_creds.json": "keys are never copied: set ANTHROPIC_API_KEY",
    "mcp-oauth-tokens.json": "keys are never copied: agent-cli mcp login NAME",
    ".env": "keys are never copied: set them in your environment",
    "extensions": "there are no extensions of Gemini here; agent-cli plugins takes Claude Code's",
    "skills": "put each folder into ~/.agents/skills, which several agents read",
    "agents": WRITE_AGENTS,
    "policies": "write them as rules: docs/permissions.md",
    "keybindings.json": NO_KEYBINDINGS,
    "trustedFolders.json": "trust is asked here for the files that would act: agent-cli trust",
}
_READ: Final = ("settings.json", "GEMINI.md", "commands")
_PROJECT: Final[Mapping[str, str]] = {
    "GEMINI.md": "put @GEMINI.md into the project's AGENTS.md",
    ".gemini/settings.json": "write its servers into .mcp.json: docs/mcp.md",
    ".gemini/commands": "write each as a Markdown file in .agent-cli/commands",
    ".gemini/skills": "put them into .agents/skills",
}
_UNSUPPORTED_MARKS: Final = ("!{", "@{")
_VARIABLE: Final = re.compile(r"\$([A-Za-z_]\w*)", re.ASCII)


def read_gemini(startup: StartupContext) -> Findings:
    """Return everything found of Gemini CLI."""
    findings, home = Findings("gemini"), Path.home() / ".gemini"
    if paths.is_file(path := home / "GEMINI.md"):
        findings.texts["AGENTS.md"] = "@~/.gemini/GEMINI.md\n"
        findings.translated("instructions", path.name, "imported by an AGENTS.md", path)
    if paths.is_file(path := home / "settings.json"):
        _settings(findings, path)
    for path in sorted((home / "commands").rglob("*.toml")):
        _command(findings, path, home / "commands")
    state: list[str] = []
    for entry in sorted(home.iterdir()) if home.is_dir() else ():
        if entry.name in _FILES:
            findings.cannot("file", entry.name, _FILES[entry.name], entry)
        elif entry.name not in _READ:
            state.append(entry.name)
    findings.state(state, "Gemini CLI", home)
    findings.not_of(startup.workspace, _PROJECT)
    return findings


def _settings(findings: Findings, path: Path) -> None:
    document = findings.read("setting", path.name, path, load_commented)
    for key, value in document.items() if is_object(document) else ():
        if key == "mcpServers" and is_object(value):
            for name, entry in value.items():
                if is_object(entry):
                    findings.server(name, _server(entry), path)
        elif key in ("general", "ui", "tools", "model") and is_object(value):
            for inner, setting in value.items():
                _setting(findings, path, f"{key}.{inner}", setting)
        else:
            _setting(findings, path, key, value)


def _setting(findings: Findings, path: Path, key: str, value: object) -> None:
    match key.rpartition(".")[2], value:
        case "vimMode", True:
            findings.setting(key, "ui.vi", value=True, path=path)
        case (("defaultApprovalMode" | "approvalMode"), str(mode)) if mode in _MODES:
            findings.setting(key, "permissions.mode", _MODES[mode], path)
        case (("allowed" | "allowedTools" | "autoAccept"), _) if is_array(value):
            for written in value:
                _rule(findings, path, "allow", str(written))
        case (("exclude" | "excludeTools"), _) if is_array(value):
            for written in value:
                _rule(findings, path, "deny", str(written))
        case "name", str(model):
            reason = f"{model} is a model of another provider: docs/clouds.md"
            findings.cannot("setting", key, reason, path)
        case _:
            findings.cannot("setting", key, NO_COUNTERPART, path)


def _rule(findings: Findings, path: Path, kind: str, written: str) -> None:
    tool, _, text = written.removesuffix(")").partition("(")
    ours = _TOOLS.get(tool, tool if tool.startswith(OF_SERVERS) else "")
    rule = f"{ours}({text} *)" if text else ours
    findings.rule(kind, written, rule, path, why_not=f"there is no tool {tool} here")


def _server(written: Mapping[str, Json]) -> dict[str, Json]:
    """Return the server *written* there as it is written here, with `$NAME` as `${NAME}`."""
    entry: dict[str, Json] = json.loads(_VARIABLE.sub(r"${\1}", json.dumps(written)))
    kept = {ours: entry[theirs] for theirs, ours in _SERVER_KEYS.items() if theirs in entry}
    if isinstance(url := entry.get("httpUrl"), str):
        return {**kept, "type": "http", "url": url}
    if isinstance(url := entry.get("url"), str):
        return {**kept, "type": "sse", "url": url}
    return kept


def _command(findings: Findings, path: Path, folder: Path) -> None:
    """Translate a prompt command: TOML there, Markdown here."""
    name = path.relative_to(folder).with_suffix("")
    written = findings.read("commands", str(name), path, tomllib.loads)
    if written is None:
        return
    prompt = written.get("prompt")
    if not isinstance(prompt, str) or any(mark in prompt for mark in _UNSUPPORTED_MARKS):
        reason = "it runs a command or brings a file into its text, which is not done here"
        findings.cannot("commands", str(name), reason, path)
        return
    about = json.dumps(str(written.get("description", "")), ensure_ascii=False)
    text = prompt.replace("{{args}}", "$ARGUMENTS")
    findings.texts[f"commands/{name}.md"] = f"---\ndescription: {about}\n---\n{text}\n"
    findings.translated("commands", f"/{':'.join(name.parts)}", "copied as Markdown", path)
