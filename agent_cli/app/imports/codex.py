"""The setup of Codex: `~/.codex`."""

import ast
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from agent_cli.app.imports import (
    NO_COUNTERPART,
    NO_THEME,
    NO_YOLO,
    NOT_READ,
    PROMPTS_FOUND,
    SESSIONS_LISTED,
    WRITE_AGENTS,
    Findings,
)
from agent_cli.app.imports.claude import read_commands, read_instructions, read_skills
from agent_cli.app.startup import StartupContext
from agent_cli.mcp_client.foreign import read_foreign
from agent_cli.system import paths
from agent_cli.system.shapes import is_array, is_object

_KINDS: Final = {"allow": "allow", "prompt": "ask", "forbidden": "deny"}
_EFFORTS: Final = ("minimal", "low", "medium", "high", "xhigh")
_READ: Final = (
    *("AGENTS.md", "AGENTS.override.md", "config.toml", "hooks.json", "rules", "skills"),
    *("prompts", "sessions", "archived_sessions"),
)
_REASONS: Final[Mapping[str, str]] = {
    "model": "a model of another provider: --model, or [provider] wire_api (docs/clouds.md)",
    "model_provider": "set [provider] and OPENAI_BASE_URL: docs/clouds.md",
    "model_providers": "set [provider] and OPENAI_BASE_URL: docs/clouds.md",
    "profiles": "use --settings FILE, one file for each profile",
    "profile": "use --settings FILE, one file for each profile",
    "notify": "a Notification or Stop hook runs a program: docs/hooks.md",
    "projects": "trust is asked here for the files that would act: agent-cli trust",
    "shell_environment_policy": "commands get no variable that holds a key here",
    "sandbox_workspace_write": "set sandbox.network; --add-dir DIR adds a folder",
    "model_instructions_file": "use --append-system-prompt, or AGENTS.md",
    "agents": WRITE_AGENTS,
    "marketplaces": "agent-cli plugins add SOURCE",
    "plugins": "a plugin is shown whole before it counts: agent-cli plugins add PATH",
}
_FILES: Final[Mapping[str, str]] = {
    "auth.json": "keys are never copied: set ANTHROPIC_API_KEY or OPENAI_API_KEY",
    "agents": WRITE_AGENTS,
    "memories": "put what should hold into AGENTS.md",
    "history.jsonl": PROMPTS_FOUND,
    "plugins": "a plugin is shown whole before it counts: agent-cli plugins add PATH",
    "themes": NO_THEME,
    "requirements.toml": "an administrator's file for Codex; it binds nothing here",
}
_NO_RULE: Final = "only prefix_rule with a plain pattern can be said here"
_STATE_ENDS: Final = (".sqlite", ".sqlite-wal", ".sqlite-shm", ".json", ".jsonl", ".lock", ".log")
_STATE: Final = ("log", "logs", "tmp", ".tmp", "shell_snapshots", "cache", "installation_id")


_PROJECT: Final[Mapping[str, str]] = {
    ".codex/config.toml": "write its servers into .mcp.json: docs/mcp.md",
    ".codex/agents": "write each as a Markdown file in .agent-cli/agents: docs/agents.md",
    ".codex/skills": "put them into .agents/skills",
}


def read_codex(startup: StartupContext) -> Findings:
    """Return everything found of Codex."""
    findings, home = Findings("codex"), paths.codex_dir()
    read_instructions(
        findings, [home / "AGENTS.md", home / "AGENTS.override.md"], startup.workspace
    )
    read_skills(findings, home / "skills")
    read_commands(findings, home / "prompts")
    if paths.is_file(path := home / "config.toml"):
        _config(findings, path, startup.workspace)
    if paths.is_file(path := home / "hooks.json"):
        document = findings.read("hooks", path.name, path, json.loads)
        _hooks(findings, path, document.get("hooks") if is_object(document) else None)
    for path in sorted((home / "rules").glob("*.rules")):
        _rules(findings, path)
    count = sum(1 for _ in home.glob("sessions/*/*/*/rollout-*.jsonl"))
    if count:
        findings.used("sessions", [f"{count:,}"], SESSIONS_LISTED, home / "sessions")
    if (path := home / "archived_sessions").is_dir():
        findings.cannot("sessions", path.name, "archived sessions are not listed", path)
    _others(findings, home)
    findings.not_of(startup.workspace, _PROJECT)
    return findings


def _config(findings: Findings, path: Path, workspace: Path) -> None:
    config = findings.read("setting", path.name, path, tomllib.loads)
    if config is None:
        return
    for key, value in config.items():
        if key == "mcp_servers":
            found = read_foreign(path, workspace=workspace)
            for name, entry in found.entries.items():
                findings.server(name, entry, path)
            for problem in found.problems:
                findings.cannot("MCP server", "", problem.removesuffix(f"; {path}"), path)
        elif key == "model_reasoning_effort" and value in _EFFORTS:
            findings.setting(key, "effort", value, path)
        elif key == "hooks":
            _hooks(findings, path, value)
        elif key in ("approval_policy", "sandbox_mode"):
            continue  # together, below
        elif key == "tui":
            findings.cannot("setting", key, "see [ui] in agent-cli config example", path)
        else:
            findings.cannot("setting", key, _REASONS.get(key, NO_COUNTERPART), path)
    _mode(findings, path, config.get("approval_policy"), config.get("sandbox_mode"))


def _mode(findings: Findings, path: Path, approval: object, sandbox: object) -> None:
    if approval is None and sandbox is None:
        return
    name = f"approval_policy {approval}, sandbox_mode {sandbox}"
    if sandbox == "danger-full-access" or (approval == "never" and sandbox is None):
        findings.cannot("permissions", name, NO_YOLO, path)
    else:
        mode = "auto-edit" if sandbox == "workspace-write" and approval != "untrusted" else "ask"
        findings.settings["permissions.mode"] = mode
        findings.translated("permissions", name, f'permissions.mode = "{mode}"', path)


def _hooks(findings: Findings, path: Path, events: object) -> None:
    """Translate hooks, which have the format of our settings; both files of Codex may hold them."""
    for event, groups in events.items() if is_object(events) else ():
        from agent_cli.hooks.definition import HookGroup, parse_hooks  # few have any

        listed = groups if is_array(groups) else [groups]
        hooks, problems = parse_hooks([HookGroup(event, each, str(path)) for each in listed])
        if hooks and not any(hook.fault for hook in hooks):
            before = findings.settings.get(f"hooks.{event}")
            findings.settings[f"hooks.{event}"] = [*(before if is_array(before) else ()), *listed]
            findings.translated("hooks", event, f"[[hooks.{event}]]", path)
        for problem in problems:
            findings.cannot("hooks", event, problem.removeprefix(f"{path}: "), path)


def _rules(findings: Findings, path: Path) -> None:
    """Translate `prefix_rule(pattern=[...], decision=...)`; the file is parsed, never run."""
    module = findings.read("permissions", path.name, path, ast.parse)
    for statement in module.body if module else ():
        call = statement.value if isinstance(statement, ast.Expr) else None
        written = ast.unparse(statement)
        ours = _prefix_rule(call) if isinstance(call, ast.Call) else None
        if ours is None:
            findings.cannot("permissions", written, _NO_RULE, path)
            continue
        kind, rules = ours
        for rule in rules:
            findings.rule(kind, written, rule, path, why_not=_NO_RULE)


def _prefix_rule(call: ast.Call) -> tuple[str, list[str]] | None:
    """Return the kind and our rules for a rule of Codex; a word may be a list of alternatives."""
    try:
        keywords = {each.arg: ast.literal_eval(each.value) for each in call.keywords}
    except ValueError:
        return None
    name = call.func.id if isinstance(call.func, ast.Name) else ""
    pattern, kind = keywords.get("pattern"), _KINDS.get(str(keywords.get("decision", "allow")))
    if name != "prefix_rule" or kind is None or not is_array(pattern) or not pattern:
        return None
    prefixes = [""]
    for word in pattern:
        words = [str(each) for each in word] if is_array(word) else [str(word)]
        prefixes = [f"{prefix} {each}".strip() for prefix in prefixes for each in words]
    return kind, [f"bash({prefix} *)" for prefix in prefixes]


def _others(findings: Findings, home: Path) -> None:
    state: list[str] = []
    for entry in sorted(home.iterdir()) if home.is_dir() else ():
        if entry.name in _FILES:
            findings.cannot("file", entry.name, _FILES[entry.name], entry)
        elif entry.name in _READ:
            continue
        elif entry.name in _STATE or entry.name.endswith(_STATE_ENDS):
            state.append(entry.name)
        else:
            findings.cannot("file", entry.name, NOT_READ, entry)
    findings.state(state, "Codex", home)
