"""The setup of Claude Code: `~/.claude`, `~/.claude.json` and `.claude` of the workspace.

Agents, skills, commands and output styles are read in any folder of that layout.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from agent_cli.agents.definitions import AgentCatalogue, AgentFolder
from agent_cli.app.hooks import defined_hooks
from agent_cli.app.imports import (
    NO_KEYBINDINGS,
    NO_THEME,
    NOT_READ,
    PROMPTS_FOUND,
    SESSIONS_LISTED,
    Findings,
    shortened,
)
from agent_cli.app.imports.claude_settings import read_settings, read_state
from agent_cli.app.startup import StartupContext
from agent_cli.contracts.timeline import Json
from agent_cli.mcp_client.foreign import foreign_files, read_foreign
from agent_cli.plugins.instruction_files import (
    InstructionFile,
    InstructionFiles,
    in_force,
    patterns_of,
)
from agent_cli.plugins.output_styles import find_styles
from agent_cli.prompt_files import FILE_BYTES_MAX, split_front_matter
from agent_cli.prompt_files.command_files import CommandFiles, CommandFolder
from agent_cli.prompt_files.skill_files import SkillFolder, find_skills, skill_file
from agent_cli.sandbox.secret_files import is_secret
from agent_cli.settings import CLAUDE_FILES, SERVERS_FILE
from agent_cli.system import paths
from agent_cli.system.json_text import json_object
from agent_cli.system.repositories import project_folders
from agent_cli.system.shapes import is_array, is_object

_COMMAND: Final = "!`command`"

_LOST: Final[Mapping[str, str]] = {
    "allowed-tools": "it allows nothing: your own rules do, or you are asked",
    "context": "it runs in the conversation, not in an agent of its own",
    "hooks": "its hooks do not run: put them into settings.json",
    _COMMAND: "the command is not run: the model sees it as text",
}
"""Parts of a skill or a command that do nothing here."""


def read_agents(findings: Findings, folder: Path) -> None:
    """Note the agents in *folder*."""
    problems: list[str] = []
    catalogue = AgentCatalogue([AgentFolder(folder)], warn=problems.append)
    names = [agent.name for agent in catalogue.all() if agent.source.startswith(f"{folder}/")]
    findings.used("agents", names, "read where they lie", folder)
    for problem in problems:
        findings.cannot("agents", "", problem.removeprefix(f"agent {folder}/"), folder)


def read_skills(findings: Findings, folder: Path) -> None:
    """Note the skills in *folder*."""
    skills, problems = find_skills([SkillFolder(folder)])
    findings.used("skills", skills, "read where they lie", folder)
    for problem in problems:
        findings.cannot("skills", "", problem.removeprefix(f"skill {folder}/"), folder)
    files = {name: skill_file(skill.folder) for name, skill in skills.items()}
    _lost_parts(findings, "skills", files, folder)


def read_commands(findings: Findings, folder: Path) -> None:
    """Note the prompt commands in *folder*."""
    found = CommandFiles([CommandFolder(folder, "theirs")]).commands()
    usable = [f"/{each.name}" for each in found if not each.problem]
    findings.used("commands", usable, "read where they lie", folder)
    for each in found:
        if each.problem:
            findings.cannot("commands", each.name, each.problem, folder)
    files = {f"/{each.name}": each.path for each in found if not each.problem}
    _lost_parts(findings, "commands", files, folder)


def read_styles(findings: Findings, folder: Path) -> None:
    """Note the output styles in *folder*."""
    styles, problems = find_styles([(folder, "yours")])
    findings.used("output styles", styles, "read where they lie", folder)
    for problem in problems:
        findings.cannot(
            "output styles", "", problem.removeprefix(f"output style {folder}/"), folder
        )


def read_instructions(findings: Findings, files: list[Path], workspace: Path) -> None:
    """Note instruction files that are read where they lie, and the files they name by `@path`."""
    for path in filter(paths.is_file, files):
        if (other := in_force(path)) != path:
            findings.cannot("instructions", path.name, f"{other.name} stands in its place", path)
            continue
        problems: list[str] = []
        found = InstructionFiles(workspace, workspace, is_secret=is_secret, warn=problems.append)
        of_project = path.is_relative_to(workspace) and workspace != Path.home()
        file = InstructionFile(path, "repository" if of_project else "user")
        text = found.text_of(file)
        patterns = patterns_of(file, text)
        when = f"once a tool comes to {', '.join(patterns[:3])}" if patterns else "at each start"
        findings.used("instructions", [path.name], f"read {when}", path)
        for named, _, by in found.imports_of(file, text, set()):
            if problems and problems[-1].startswith(f"{named.path} is not read: "):
                continue
            detail = f"read with {by.name}, which names it by @"
            findings.used("instructions", [named.path.name], detail, named.path)
        for problem in problems:
            findings.cannot("instructions", "", problem, path)


def _lost_parts(findings: Findings, kind: str, files: Mapping[str, Path], folder: Path) -> None:
    """Note the requests of used skills or commands that nothing meets, by part."""
    wanting: dict[str, list[str]] = {part: [] for part in _LOST}
    for name, path in files.items():
        with path.open(encoding="utf-8-sig", errors="replace") as stream:
            fields, body = split_front_matter(stream.read(FILE_BYTES_MAX))
        is_written = {part: part in (fields or {}) for part in _LOST}
        is_written[_COMMAND] = re.search(r"(?<!\S)!`[^`\n]+`", body) is not None
        for part in filter(is_written.__getitem__, _LOST):
            wanting[part].append(name)
    for part, names in wanting.items():
        if names:
            findings.cannot(kind, f"{part} of {shortened(names)}", _LOST[part], folder)


_UNTRUSTED: Final = "this workspace is not trusted: agent-cli trust shows all of it and asks"
_FOLDERS: Final[Mapping[str, Callable[[Findings, Path], None]]] = {
    "agents": read_agents,
    "skills": read_skills,
    "commands": read_commands,
    "output-styles": read_styles,
}
_READ: Final = (*_FOLDERS, "settings.json", "CLAUDE.md", "rules", "projects")
_NO_COUNTERPART: Final[Mapping[str, str]] = {
    ".credentials.json": "keys are never copied: set ANTHROPIC_API_KEY",
    "keybindings.json": NO_KEYBINDINGS,
    "history.jsonl": PROMPTS_FOUND,
    "workflows": "there are no workflows here; a prompt file in commands/ is the nearest",
    "themes": NO_THEME,
    "agent-memory": "agents keep no memory of their own here; write it into the agent's file",
    "settings.local.json": "Claude Code reads this file only where it is the workspace's",
    "loop.md": "there is no /loop here; remind lets the model come back to a task",
    "scheduled_tasks.json": "no task is started by the clock here: use cron with agent-cli -p",
}
# What the program itself writes, for itself.
_STATE: Final = frozenset(
    (
        *("backups", "cache", "chrome", "daemon", "debug", "downloads", "file-history", "ide"),
        *("jobs", "local", "logs", "paste-cache", "plans", "session-env", "sessions", "statsig"),
        *("shell-snapshots", "stats-cache.json", "tasks", "teams", "telemetry", "todos"),
        *("uploads", "usage-data", "mcp-needs-auth-cache.json", "policy-limits.json"),
        *("remote-settings.json", ".last-cleanup", ".update.lock", ".DS_Store"),
    )
)


def read_claude(startup: StartupContext) -> Findings:
    """Return everything found of Claude Code."""
    findings = Findings("claude")
    home = paths.claude_dir()
    own = [home / "CLAUDE.md", *sorted((home / "rules").rglob("*.md"))]
    read_instructions(findings, own, startup.workspace)
    for name, read in _FOLDERS.items():
        read(findings, home / name)
    read_settings(findings, home / "settings.json", startup, is_project=False)
    _hooks(findings, startup)
    _servers(findings, startup)
    _plugins(findings, home / "plugins")
    _sessions(findings, home / "projects")
    _others(findings, home)
    _project(findings, startup)
    return findings


def _project(findings: Findings, startup: StartupContext) -> None:
    workspace = startup.workspace
    if workspace == Path.home():
        return
    names = ("CLAUDE.md", "CLAUDE.local.md", ".claude/CLAUDE.md")
    rules = sorted((workspace / ".claude" / "rules").rglob("*.md"))
    read_instructions(findings, [*(workspace / name for name in names), *rules], workspace)
    for around in project_folders(workspace):
        _project_folder(findings, startup, around)
    for name in CLAUDE_FILES:
        path = workspace / name
        if startup.trusted:
            read_settings(findings, path, startup, is_project=True)
        elif paths.is_file(path):
            findings.cannot("setting", name, _UNTRUSTED, path)


def _project_folder(findings: Findings, startup: StartupContext, around: Path) -> None:
    """Note the parts of the workspace, or of a folder above it, that count."""
    for name, read in _FOLDERS.items():
        folder = around / ".claude" / name
        if startup.trusted:
            read(findings, folder)
        elif folder.is_dir():
            findings.cannot(name, f".claude/{name}", _UNTRUSTED, folder)
    servers = around / SERVERS_FILE
    if servers.is_file() and startup.trusted:
        findings.used("MCP server", [SERVERS_FILE], "read where it lies", servers)
    elif servers.is_file():
        findings.cannot("MCP server", SERVERS_FILE, _UNTRUSTED, servers)


def _hooks(findings: Findings, startup: StartupContext) -> None:
    files = [paths.claude_dir() / "settings.json"]
    files += [startup.workspace / name for name in CLAUDE_FILES]
    hooks, problems = defined_hooks(startup)
    for path in dict.fromkeys(files):
        of_file = [hook for hook in hooks if hook.origin.startswith(f"{path}:") and not hook.fault]
        names = dict.fromkeys(f"{hook.event} {hook.matcher}".strip() for hook in of_file)
        findings.used("hooks", names, "run where they lie; agent-cli hooks list", path)
        for problem in problems:
            if problem.startswith(f"{path}:"):
                findings.cannot("hooks", "", problem.removeprefix(f"{path}:"), path)


def _servers(findings: Findings, startup: StartupContext) -> None:
    files = foreign_files(
        "claude-code",
        home=Path.home(),
        workspace=startup.workspace,
        environment=startup.environment,
    )
    for path in filter(paths.is_file, files):
        found = read_foreign(path, workspace=startup.workspace)
        for name, entry in found.entries.items():
            findings.server(name, entry, path)
        if found.local:
            reason = "yours in this folder alone: agent-cli mcp import claude-code keeps that"
            findings.cannot("MCP server", ", ".join(found.local), reason, path)
        for folder, names in found.elsewhere.items():
            reason = f"yours in {paths.shown(folder)} alone: agent-cli mcp import claude-code there"
            findings.cannot("MCP server", ", ".join(names), reason, path)
        for problem in found.problems:
            findings.cannot("MCP server", "", problem.removesuffix(f"; {path}"), path)
        read_state(findings, path, startup.workspace)


def _plugins(findings: Findings, folder: Path) -> None:
    """Note plugins and marketplaces; each is shown whole before it counts, so none is copied."""
    marketplaces = _document(folder / "known_marketplaces.json")
    for name in marketplaces:
        reason = "name its plugins: agent-cli plugins add MARKETPLACE NAME"
        findings.cannot("marketplace", name, reason, folder / "known_marketplaces.json")
    installed = _document(folder / "installed_plugins.json")
    listed = installed.get("plugins")
    for name, entries in listed.items() if is_object(listed) else ():
        entry = entries[0] if is_array(entries) and entries else entries
        path = entry.get("installPath") if is_object(entry) else None
        where = paths.shown(str(path)) if path else "PATH"
        reason = f"it is shown whole before it counts: agent-cli plugins add {where}"
        findings.cannot("plugin", name, reason, folder / "installed_plugins.json")


def _sessions(findings: Findings, folder: Path) -> None:
    memories = sorted(folder.glob("*/memory/*.md"))
    for path in memories:
        reason = "it is read by no session here: put what should hold into AGENTS.md"
        findings.cannot("memory", f"{path.parents[1].name}/{path.name}", reason, path)
    count = sum(1 for _ in folder.glob("*/*.jsonl"))
    if count:
        findings.used("sessions", [f"{count:,}"], SESSIONS_LISTED, folder)


def _others(findings: Findings, home: Path) -> None:
    """Note all else in *home*: nothing is silent."""
    state: list[str] = []
    noted = {row.path for row in findings.rows}
    folders = {folder for path in noted for folder in path.parents}
    settings = home / "settings.json"
    named = settings.read_text(errors="replace") if paths.is_file(settings) else ""
    for entry in sorted(home.iterdir()) if home.is_dir() else ():
        name = entry.name
        if name in _NO_COUNTERPART:
            findings.cannot("file", name, _NO_COUNTERPART[name], entry)
        elif name in _STATE:
            state.append(name)
        elif name in _READ or name == "plugins" or entry in noted or entry in folders:
            continue
        elif re.search(rf"/\.claude/{re.escape(name)}(?![\w.-])", named):
            findings.used("file", [name], "settings.json names it", entry)
        else:
            findings.cannot("file", name, NOT_READ, entry)
    findings.state(state, "Claude Code", home)


def _document(path: Path) -> Mapping[str, Json]:
    try:
        return json_object(path.read_bytes()) or {}
    except OSError:
        return {}
