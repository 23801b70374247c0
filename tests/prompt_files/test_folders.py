"""Folders of prompt files: links in them that cannot be followed, files with a byte order mark."""

from pathlib import Path

import pytest

from agent_cli.agents.definitions import AgentCatalogue, AgentFolder
from agent_cli.plugins.output_styles import find_styles
from agent_cli.prompt_files import entries_of, markdown_files
from agent_cli.prompt_files.command_files import CommandFiles, CommandFolder
from agent_cli.prompt_files.skill_files import SkillFolder, find_skills

TEXT = "---\nname: good\ndescription: does it\n---\nDo it.\n"
TOO_LONG = "a" * 300


@pytest.fixture
def folder() -> Path:
    """Return a folder with one good file of each kind, and with links to names too long."""
    (Path("folder") / "good").mkdir(parents=True)
    (Path("folder") / "linked").mkdir()
    for name in ("good.md", "good/SKILL.md"):
        (Path("folder") / name).write_text(TEXT)
    for name in ("bad.md", "bad", "linked/SKILL.md"):
        (Path("folder") / name).symlink_to(TOO_LONG)
    return Path("folder")


def test_commands_beside_a_link_that_cannot_be_followed_are_found(folder: Path) -> None:
    """The lookup of every line with a slash used to fail."""
    commands = CommandFiles([CommandFolder(folder, "yours")]).commands()
    skills = CommandFiles([CommandFolder(folder, "yours", holds_skills=True)]).commands()

    assert [command.name for command in commands] == ["good", "good:SKILL"]
    assert [command.name for command in skills] == ["good"]


def test_skills_styles_and_agents_beside_such_a_link_are_found(folder: Path) -> None:
    """One link in a repository used to hide the user's own ones as well."""
    warnings: list[str] = []
    agents = AgentCatalogue([AgentFolder(folder)], warn=warnings.append)

    assert [
        [*found]
        for found in (find_skills([SkillFolder(folder)])[0], find_styles([(folder, "")])[0])
    ] == [
        ["good"],
        ["good"],
    ]
    assert agents.get("good")
    assert warnings == []


def test_folder_that_is_such_a_link_is_empty() -> None:
    """As a folder that does not exist."""
    Path("link").symlink_to(TOO_LONG)

    assert [*entries_of(Path("link")), *markdown_files(Path("link"))] == []


def test_files_with_a_byte_order_mark_and_crlf_are_read() -> None:
    """Editors on Windows write both; the front matter begins behind the mark."""
    (Path("folder") / "good").mkdir(parents=True)
    for name in ("good.md", "good/SKILL.md"):
        text = TEXT.replace("\n", "\r\n")
        (Path("folder") / name).write_bytes(text.encode("utf-8-sig"))
    agents = AgentCatalogue([AgentFolder(Path("folder"))], warn=pytest.fail)

    skills, problems = find_skills([SkillFolder(Path("folder"))])

    assert problems == []
    assert skills["good"].read() == "Do it."
    assert [*find_styles([(Path("folder"), "")])[0]] == ["good"]
    assert agents.get("good")
