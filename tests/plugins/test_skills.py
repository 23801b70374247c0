"""Skills: found, listed, read on demand, and shown again after compaction removed them."""

import os
from pathlib import Path

import pytest

from agent_cli.plugins.skills import ACTIVE, skills
from agent_cli.plugins.states import PluginStates
from agent_cli.prompt_files.skill_files import SkillFolder, find_skills
from tests.fakes import calls, says, tool_use
from tests.plugins.contributing import Contributing, tool_results


def skill(folder: Path, name: str, text: str) -> Path:
    (folder / name).mkdir(parents=True)
    (folder / name / "SKILL.md").write_text(text)
    return folder / name


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    folder = tmp_path / "skills"
    pdf = skill(folder, "pdf", "---\nname: pdf\ndescription: Fill in forms\n---\nUse the script.")
    (pdf / "forms.md").write_text("All about forms")
    skill(folder, "mail", '---\nname: "mail"\ndescription: >\n  Write\n  letters\n---\nDear X,')
    return folder


async def test_skill_text_is_shown_only_once_the_model_calls_the_skill(
    shelf: Path,
) -> None:
    """S2-20: this is progressive disclosure; the text is the tool's result and stays there."""
    run = Contributing(
        [skills([SkillFolder(shelf)], warn=print)],
        calls(tool_use("skill", {"name": "pdf"})),
        says("done"),
    )
    await run.prompt()

    listed = (
        "Skills, to be read with the tool `skill` before doing what they describe:\n"
        "- mail: Write letters\n- pdf: Fill in forms"
    )
    assert run.contexts() == [[listed], [listed]]
    assert run.offered() == [["skill"], ["skill"]]
    assert tool_results(run) == [
        f"[skill pdf, folder {shelf / 'pdf'}]\nUse the script.\n\n"
        "Other files of this skill: forms.md"
    ]
    assert run.notices() == []


async def test_skill_for_the_user_alone_is_not_offered_to_the_model(shelf: Path) -> None:
    """`disable-model-invocation`: it deploys, or costs something."""
    text = "---\nname: ship\ndescription: Ship it\ndisable-model-invocation: true\n---\nShip."
    skill(shelf, "ship", text)
    run = Contributing(
        [skills([SkillFolder(shelf)], warn=print)],
        calls(tool_use("skill", {"name": "ship"})),
        says("done"),
    )
    await run.prompt()

    assert "ship" not in str(run.contexts())
    assert tool_results(run) == ["There is no skill 'ship'; there are: mail, pdf."]


async def test_skill_tool_reads_files_of_the_skill_folder_only(shelf: Path) -> None:
    """The third step of disclosure; a pipe, which would be waited for, is refused."""
    (shelf.parent / "secret").write_text("private")
    os.mkfifo(shelf / "pdf" / "pipe.md")
    run = Contributing(
        [skills([SkillFolder(shelf)], warn=print)],
        calls(
            tool_use("skill", {"name": "pdf", "file": "forms.md"}, "t1"),
            tool_use("skill", {"name": "pdf", "file": "../../secret"}, "t2"),
            tool_use("skill", {"name": "pdf", "file": "gone.md"}, "t3"),
            tool_use("skill", {"name": "dance"}, "t4"),
            tool_use("skill", {"name": "pdf", "file": "pipe.md"}, "t5"),
        ),
        says("done"),
    )
    await run.prompt()

    assert tool_results(run) == [
        "All about forms",
        "../../secret of the skill 'pdf' cannot be read: ../../secret is not in the folder of the"
        " skill.",
        "gone.md of the skill 'pdf' cannot be read: No such file or directory.",
        "There is no skill 'dance'; there are: mail, pdf.",
        "pipe.md of the skill 'pdf' cannot be read: it is a named pipe, a device or a socket.",
    ]


async def test_active_skill_is_shown_again_after_compaction(shelf: Path) -> None:
    """S2-17, S2-42: active skills are state; their text is shown again only if it is missing."""
    run = Contributing(
        [skills([SkillFolder(shelf)], warn=print)],
        calls(tool_use("skill", {"name": "pdf"})),
        says("done"),
        says("still"),
    )
    await run.prompt()
    states = PluginStates(run.agent.conversation, {}, lambda _event: None)
    assert ACTIVE.read(states).active == {"pdf": "t1"}
    last = run.agent.conversation.prompts[-1].output[-1]
    run.agent.conversation.compact("it was about forms", last.id)
    await run.prompt()

    *_, last_told = run.told()
    assert f"[skill pdf, folder {shelf / 'pdf'}]\nUse the script." in str(last_told[0])


async def test_forgotten_skill_that_cannot_be_read_any_more_is_told_once(shelf: Path) -> None:
    """Another branch has none; the error ended this run and each later one."""
    warnings: list[str] = []
    run = Contributing(
        [skills([SkillFolder(shelf)], warn=warnings.append)],
        calls(tool_use("skill", {"name": "pdf"})),
        says("done"),
        says("still"),
        says("on"),
    )
    await run.prompt()
    last = run.agent.conversation.prompts[-1].output[-1]
    run.agent.conversation.compact("it was about forms", last.id)
    (shelf / "pdf" / "SKILL.md").unlink()

    await run.prompt()
    await run.prompt()

    assert warnings == ["SKILL.md of the skill 'pdf' cannot be read: No such file or directory."]


async def test_forgotten_skills_are_checked_together_and_told_why_they_are_left_out(
    shelf: Path,
) -> None:
    """A check reads all acting files of the workspace, and each skill had its own in each round."""
    checks: list[str] = []
    warnings: list[str] = []
    why = ""

    def objection() -> str:
        checks.append(why)
        return why

    run = Contributing(
        [skills([SkillFolder(shelf, objection=objection)], warn=warnings.append)],
        calls(tool_use("skill", {"name": "pdf"}), tool_use("skill", {"name": "mail"}, id="t2")),
        says("done"),
        says("still"),
        says("on"),
    )
    await run.prompt()
    last = run.agent.conversation.prompts[-1].output[-1]
    run.agent.conversation.compact("it was about forms", last.id)
    checks.clear()

    await run.prompt()
    once = len(checks)
    why = "it changed"
    await run.prompt()

    assert once == 1
    assert warnings == [
        f"SKILL.md of the skill {name!r} cannot be read: it changed." for name in ("mail", "pdf")
    ]


async def test_skill_that_must_not_be_used_any_more_is_not_read(shelf: Path) -> None:
    """Trust in a project ends when its files change, as `git pull` does during a session."""
    why = ""
    warnings: list[str] = []
    folder = SkillFolder(shelf, objection=lambda: why)
    run = Contributing([skills([folder], warn=warnings.append)], says("done"))
    before = find_skills([folder])

    why = "it changed"
    after = find_skills([folder])
    with pytest.raises(ValueError, match="it changed"):
        before[0]["pdf"].read()
    await run.prompt()

    assert [*before[0]] == ["mail", "pdf"]
    assert after == ({}, ["skills of this project are not used: it changed"])
    assert (warnings, run.contexts()[0]) == (after[1], [])


async def test_skill_tool_and_text_are_absent_without_skills(tmp_path: Path) -> None:
    """Missing skills must cost no tokens."""
    run = Contributing([skills([SkillFolder(tmp_path / "none")], warn=print)], says("done"))
    await run.prompt()

    assert (run.offered(), run.contexts()) == ([[]], [[]])


async def test_unusable_skill_is_left_out_with_one_warning(tmp_path: Path, shelf: Path) -> None:
    """The others are available; of two with one name the first counts, the user's."""
    project = tmp_path / "project"
    skill(project, "pdf", "---\nname: pdf\ndescription: Other\n---\n")
    skill(project, "bare", "no front matter")
    skill(project, "LOUD", "---\nname: LOUD!\ndescription: x\n---\n")
    skill(project, "mute", "---\nname: mute\n---\n")
    skill(project, "typo", "---\n# ours\nname: typo\ndescription Fill in forms\n---\n")
    (tmp_path / "SKILL.md").write_text("---\nname: out\ndescription: x\n---\n")
    (project / "out").symlink_to(tmp_path)
    (project / "pipe").mkdir()
    os.mkfifo(project / "pipe/SKILL.md")
    warnings: list[str] = []

    folders = [SkillFolder(shelf), SkillFolder(project, (project,))]
    run = Contributing([skills(folders, warn=warnings.append)], says("a"), says("b"))
    await run.prompt()
    await run.prompt()

    [context, _same] = run.contexts()
    assert "- pdf: Fill in forms" in context[0]
    assert "Other" not in context[0]
    assert "- out" not in context[0]
    assert [warning.removeprefix(f"skill {project}/") for warning in warnings] == [
        "LOUD/SKILL.md is not used: its name 'LOUD!' may hold only lowercase letters, digits, -"
        " and _",
        "bare/SKILL.md is not used: it does not begin with front matter between two lines of ---",
        "mute/SKILL.md is not used: it has no description",
        "out/SKILL.md is not used: it leads out of its folder",
        "pipe/SKILL.md is not used: it is a named pipe, a device or a socket; replace or remove it",
        "typo/SKILL.md is not used: it has no description; line 4, 'description Fill in forms', is"
        " not of the form name: value",
    ]


async def test_skill_whose_name_is_a_title_is_called_by_its_folder(tmp_path: Path) -> None:
    """As published ones are written; a name may also be missing."""
    skill(tmp_path, "hook-rules", "---\nname: Writing Hook Rules\ndescription: Rules\n---\n")
    skill(tmp_path, "bare", "---\ndescription : Nameless\n---\n")
    run = Contributing([skills([SkillFolder(tmp_path)], warn=print)], says("a"))
    await run.prompt()

    [[context]] = run.contexts()
    assert "- bare: Nameless\n- hook-rules: Rules" in context


async def test_skill_description_is_capped_and_a_large_skill_is_refused(tmp_path: Path) -> None:
    """Skills must not fill the model's window."""
    skill(tmp_path, "big", f"---\nname: big\ndescription: {'d' * 999}\n---\n{'x' * 300_000}")
    run = Contributing(
        [skills([SkillFolder(tmp_path)], warn=print)],
        calls(tool_use("skill", {"name": "big"})),
        says("done"),
    )
    await run.prompt()

    assert run.contexts()[0][0].count("d") < 330
    assert tool_results(run) == [
        "SKILL.md of the skill 'big' cannot be read: it has more than 256 KB."
    ]


async def test_skills_of_the_user_may_be_links_to_anywhere(tmp_path: Path, shelf: Path) -> None:
    """As people have them who keep their files in a repository of dotfiles."""
    own = tmp_path / "own"
    kept = tmp_path / "dotfiles" / "review"
    skill(kept.parent, "review", "---\nname: review\ndescription: Review it\n---\nLook twice.")
    (kept / "list.md").write_text("all of it")
    (own / "review").mkdir(parents=True)
    (own / "review" / "SKILL.md").symlink_to(kept / "SKILL.md")
    (own / "review" / "list.md").symlink_to(kept / "list.md")
    (own / "review" / "key").symlink_to(tmp_path / "key")
    (own / "pdf").symlink_to(shelf / "pdf")

    found, problems = find_skills([SkillFolder(own)])

    assert (set(found), problems) == ({"pdf", "review"}, [])
    assert found["pdf"].read("forms.md") == "All about forms"
    assert [found["review"].read(), found["review"].read("list.md")] == ["Look twice.", "all of it"]
    with pytest.raises(ValueError, match="key is not in the folder"):
        found["review"].read("key")


def test_a_projects_skill_may_be_a_link_to_another_of_its_folders(
    tmp_path: Path, shelf: Path
) -> None:
    """As installers of skills lay them out, each linked for a second program."""
    linked = tmp_path / ".claude"
    linked.mkdir()
    (linked / "pdf").symlink_to(shelf / "pdf")

    assert find_skills([SkillFolder(linked, (linked, shelf))])[0].keys() == {"pdf"}
    assert find_skills([SkillFolder(linked, (linked,))])[0] == {}


def test_skills_may_lie_in_folders_of_their_kind(shelf: Path) -> None:
    """One level down, as Codex and pi read them; a skill's own folders hold no skills."""
    skill(shelf / "office", "sheet", "---\ndescription: Add it up\n---\n")
    skill(shelf / "pdf", "examples", "---\ndescription: No skill\n---\n")
    skill(shelf / ".system", "hidden", "---\ndescription: Of the program\n---\n")
    skill(shelf / "a" / "b", "deep", "---\ndescription: Too deep\n---\n")

    found, problems = find_skills([SkillFolder(shelf)])

    assert (sorted(found), problems) == (["mail", "pdf", "sheet"], [])


def test_skill_file_may_be_written_in_lowercase(shelf: Path) -> None:
    """Case does not count on macOS, so that it works there; it was passed over in silence."""
    low = skill(shelf, "low", "")
    (low / "SKILL.md").rename(low / "skill.md")
    (low / "skill.md").write_text("---\ndescription: Low\n---\nDo it.")

    found, problems = find_skills([SkillFolder(shelf, (shelf,))])

    assert (sorted(found), problems) == (["low", "mail", "pdf"], [])
    assert found["low"].whole() == f"[skill low, folder {low}]\nDo it."
