"""Agents, skills, commands and output styles in a folder of Claude Code's layout."""

from pathlib import Path

from agent_cli.agents.catalogue import AgentCatalogue, AgentFolder
from agent_cli.app.imports.findings import Findings
from agent_cli.prompt_files.command_files import CommandFiles, CommandFolder
from agent_cli.prompt_files.output_style_files import find_styles
from agent_cli.prompt_files.skill_files import find_skills
from agent_cli.system import paths


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


def read_commands(findings: Findings, folder: Path) -> None:
    """Note the prompt commands in *folder*."""
    found = CommandFiles([CommandFolder(folder, "theirs")]).commands()
    usable = [f"/{each.name}" for each in found if not each.problem]
    findings.used("commands", usable, "read where they lie", folder)
    for each in found:
        if each.problem:
            findings.cannot("commands", each.name, each.problem, folder)


def read_styles(findings: Findings, folder: Path) -> None:
    """Note the output styles in *folder*."""
    styles, problems = find_styles([(folder, "yours")])
    findings.used("output styles", styles, "read where they lie", folder)
    for problem in problems:
        findings.cannot("output styles", "", _without(problem, f"output style {folder}/"), folder)


def read_instructions(findings: Findings, files: list[Path]) -> None:
    """Note instruction files that are read where they lie."""
    for path in filter(paths.is_file, files):
        findings.used("instructions", [path.name], "read at each start", path)


def _without(problem: str, prefix: str) -> str:
    return problem.removeprefix(prefix)
