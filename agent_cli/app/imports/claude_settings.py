"""Settings files of Claude Code: each key used, translated, or named with its reason."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from agent_cli.app.imports import NO_COUNTERPART, NO_YOLO, Findings
from agent_cli.app.startup import StartupContext
from agent_cli.contracts.errors import SettingsError
from agent_cli.contracts.permission_modes import our_mode_name
from agent_cli.contracts.timeline import Json
from agent_cli.plugins.output_styles import find_styles
from agent_cli.policies.claude_rules import translated
from agent_cli.settings import RULE_KINDS
from agent_cli.settings.files import ClaudeFile
from agent_cli.system import paths
from agent_cli.system.redaction import is_secret_name
from agent_cli.system.shapes import is_array, is_object

_EFFORTS: Final = {"low": "low", "medium": "medium", "high": "high", "max": "xhigh"}
_ALIASES: Final = ("haiku", "sonnet", "opus")
_ENVIRONMENT: Final = "set it where you start agent-cli, or in ~/.config/agent-cli/.env"
_REASONS: Final[Mapping[str, str]] = {
    "apiKeyHelper": "keys are never copied: set ANTHROPIC_API_KEY",
    "awsAuthRefresh": "credentials are never copied: docs/clouds.md",
    "awsCredentialExport": "credentials are never copied: docs/clouds.md",
    "cleanupPeriodDays": "sessions are kept here until agent-cli sessions delete",
    "includeCoAuthoredBy": "nothing is added to commits here",
    "attribution": "nothing is added to commits here",
    "language": "write it into ~/.config/agent-cli/AGENTS.md",
    "sandbox": "commands run in the sandbox here unless [sandbox] says otherwise",
    "alwaysThinkingEnabled": "--effort, and effort in the settings, say how much is thought",
    "autoUpdatesChannel": "update it with what installed it: docs/install.md",
    "enableAllProjectMcpServers": "servers of a repository start once you trust it",
    "enabledMcpjsonServers": "servers of a repository start once you trust it",
    "disabledMcpjsonServers": "use agent-cli mcp disable NAME",
    "forceLoginMethod": "no login is kept here: set ANTHROPIC_API_KEY",
    "spinnerTipsEnabled": "no tips are shown here",
    "feedbackSurveyRate": "no questions of ours are shown here",
}
# Claude Code keeps these two beside its counters; older versions had them in the settings.
_SETTINGS_IN_STATE: Final = ("theme", "editorMode")


def read_settings(
    findings: Findings, path: Path, startup: StartupContext, *, is_project: bool
) -> None:
    """Note the keys of the settings file at *path*; a project's are never copied.

    A project's rules that allow were chosen by whoever wrote the file.
    """
    if not paths.is_file(path):
        return
    try:
        document = ClaudeFile.read(path).document
    except SettingsError as error:
        findings.cannot("setting", path.name, str(error), path)
        return
    for key, value in document.items():
        if key == "permissions" and is_object(value):
            _permissions(findings, path, startup, value, is_project=is_project)
        elif key == "hooks":
            continue  # they have rows of their own
        elif is_project:
            reason = "settings of a repository for Claude Code are not taken: use appsettings.toml"
            findings.cannot("setting", key, reason, path)
        else:
            _setting(findings, path, key, value)


def _setting(findings: Findings, path: Path, key: str, value: object) -> None:
    match key, value:
        case "$schema", _:
            return
        case "model", str(model):
            name = model.removesuffix("[1m]")
            if name in _ALIASES or name.startswith("claude-"):
                findings.setting(key, "model", name, path)
            else:
                findings.cannot("setting", f"{key} = {model}", "there is no such alias here", path)
        case "effortLevel", str(level) if level in (*_EFFORTS, "xhigh"):
            findings.setting(key, "effort", _EFFORTS.get(level, level), path)
        case "outputStyle", str(style) if style.lower() not in _styles():
            findings.cannot("setting", f"{key} = {style}", "there is no such style here", path)
        case "outputStyle", str(style):
            findings.setting(key, "output_style", style, path)
        case "statusLine", {"command": str(command)}:
            findings.setting("statusLine", "status_line.command", command, path)
        case "theme", str(theme):
            dark = "light" if "light" in theme else "dark"
            findings.setting(key, "ui.theme", dark, path)
        case "editorMode", "vim":
            findings.setting(key, "ui.vi", value=True, path=path)
        case "disableAllHooks", _:
            findings.used("setting", [key], "its hooks do not run here either", path)
        case "env", _ if is_object(value):
            for name in value:
                is_key = is_secret_name(str(name))
                reason = "keys are never copied; " if is_key else ""
                findings.cannot("variable", str(name), f"{reason}{_ENVIRONMENT}", path)
        case (("enabledPlugins" | "extraKnownMarketplaces"), _) if is_object(value):
            reason = "a plugin is shown whole before it counts: agent-cli plugins add"
            findings.cannot("plugin", ", ".join(map(str, value)), reason, path)
        case _:
            findings.cannot("setting", key, _REASONS.get(key, NO_COUNTERPART), path)


def read_state(findings: Findings, path: Path, workspace: Path) -> None:
    """Note the settings, and the answers for the workspace, in `~/.claude.json`."""
    document = findings.read("state", path.name, path, json.loads)
    state = document if is_object(document) else {}
    for key in _SETTINGS_IN_STATE:
        if key in state:
            _setting(findings, path, key, state[key])
    projects = state.get("projects")
    project = projects.get(str(workspace)) if is_object(projects) else None
    for rule in _allowed_in(project):
        reason = "an answer to Claude Code: agent-cli asks once, and keeps your answer"
        findings.cannot("permissions", f"allow {rule}", reason, path)
    reason = "sign-in, counters and answers for each project; its servers are above"
    findings.cannot("state", path.name, reason, path)


def _allowed_in(project: Json) -> Sequence[Json]:
    allowed = project.get("allowedTools") if is_object(project) else None
    return allowed if is_array(allowed) else ()


def _styles() -> set[str]:
    folders = [(folder / "output-styles", "yours") for folder in paths.own_dirs()]
    return {"default", *find_styles(folders)[0]}


def _permissions(
    findings: Findings,
    path: Path,
    startup: StartupContext,
    permissions: Mapping[str, Json],
    *,
    is_project: bool,
) -> None:
    is_read = startup.loaded.settings.permissions.claude_files
    for key, value in permissions.items():
        if key in RULE_KINDS and is_array(value):
            for rule in value:
                _rule(findings, path, key, str(rule), is_used=is_read, is_project=is_project)
        elif key == "defaultMode" and isinstance(value, str) and not is_project:
            _mode(findings, path, value)
        elif key == "additionalDirectories":
            findings.cannot("permissions", key, "use --add-dir DIR, or /add-dir", path)
        else:
            findings.cannot("permissions", key, NO_COUNTERPART, path)


def _rule(
    findings: Findings, path: Path, kind: str, rule: str, *, is_used: bool, is_project: bool
) -> None:
    name = f"{kind} {rule}"
    found = translated(kind, rule)
    if not is_used:
        reason = "permissions.claude_files is false in your settings"
        findings.cannot("permissions", name, reason, path)
    elif is_project and kind == "allow":
        reason = "a repository may not allow its own calls: agent-cli asks, and keeps your answer"
        findings.cannot("permissions", name, reason, path)
    elif not found.rules:
        findings.cannot("permissions", name, found.note, path)
    else:
        ours = ", ".join(f"{of} {text}" for of, text in found.rules)
        note = f" ({found.note})" if found.note else ""
        findings.translated("permissions", name, f"holds already as {ours}{note}", path)


def _mode(findings: Findings, path: Path, mode: str) -> None:
    name, ours = f"defaultMode {mode}", our_mode_name(mode)
    if ours == "yolo":
        findings.cannot("permissions", name, NO_YOLO, path)
    elif ours in ("ask", "auto-edit", "plan"):
        findings.settings["permissions.mode"] = ours
        findings.translated("permissions", name, f'permissions.mode = "{ours}"', path)
    else:
        findings.cannot("permissions", name, "there is no such mode here", path)
