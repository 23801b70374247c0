"""Agents, skills, commands and output styles in a folder of Claude Code's layout."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from agent_cli.agents.catalogue import AgentCatalogue, AgentFolder
from agent_cli.app.imports.findings import Findings, shortened
from agent_cli.plugins.instruction_files import (
    InstructionFile,
    InstructionFiles,
    in_force,
    patterns_of,
)
from agent_cli.plugins.project_instructions import BYTES_MAX
from agent_cli.prompt_files.command_files import FILE_BYTES_MAX, CommandFiles, CommandFolder
from agent_cli.prompt_files.front_matter import split
from agent_cli.prompt_files.output_style_files import find_styles
from agent_cli.prompt_files.skill_files import FILE, find_skills
from agent_cli.system import paths
from agent_cli_tools.secret_files import is_secret

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
        findings.cannot("agents", "", _without(problem, f"agent {folder}/"), folder)


def read_skills(findings: Findings, folder: Path) -> None:
    """Note the skills in *folder*."""
    skills, problems = find_skills([folder])
    findings.used("skills", skills, "read where they lie", folder)
    for problem in problems:
        findings.cannot("skills", "", _without(problem, f"skill {folder}/"), folder)
    _lost_parts(
        findings, "skills", {name: skill.folder / FILE for name, skill in skills.items()}, folder
    )


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
        findings.cannot("output styles", "", _without(problem, f"output style {folder}/"), folder)


def read_instructions(findings: Findings, files: list[Path], workspace: Path) -> None:
    """Note instruction files that are read where they lie, and the files they name by `@path`."""
    problems: list[str] = []
    found = InstructionFiles(
        workspace,
        workspace,
        user_files=(),
        user_rules=None,
        is_secret=is_secret,
        is_kept_back=lambda _path: False,
        warn=problems.append,
        bytes_max=BYTES_MAX,
    )
    for path in filter(paths.is_file, files):
        if (other := in_force(path)) != path:
            findings.cannot("instructions", path.name, f"{other.name} stands in its place", path)
            continue
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
        problems.clear()


def _lost_parts(findings: Findings, kind: str, files: Mapping[str, Path], folder: Path) -> None:
    """Note what the files of used skills or commands ask for and do not get, by part."""
    wanting: dict[str, list[str]] = {part: [] for part in _LOST}
    for name, path in files.items():
        with path.open(encoding="utf-8-sig", errors="replace") as stream:
            fields, body = split(stream.read(FILE_BYTES_MAX))
        is_written = {part: part in (fields or {}) for part in _LOST}
        is_written[_COMMAND] = re.search(r"(?<!\S)!`[^`\n]+`", body) is not None
        for part in filter(is_written.__getitem__, _LOST):
            wanting[part].append(name)
    for part, names in wanting.items():
        if names:
            findings.cannot(kind, f"{part} of {shortened(names)}", _LOST[part], folder)


def _without(problem: str, prefix: str) -> str:
    return problem.removeprefix(prefix)
