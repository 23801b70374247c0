"""The plugins and prompt-file commands that settings and trust allow."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TypeAlias

from agent_cli.app import parts
from agent_cli.app.startup import StartupContext
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.wording import once
from agent_cli.core.conversation import Conversation
from agent_cli.plugins.api import Plugin, PluginContext
from agent_cli.plugins.ask_user import Person, ask_user, present_plan
from agent_cli.plugins.contributor import Plugins, discover
from agent_cli.plugins.instruction_files import InstructionFiles, LoadedInstructions
from agent_cli.plugins.output_styles import OutputStyle, OutputStyles, find_styles
from agent_cli.plugins.project_instructions import project_instructions
from agent_cli.plugins.recall import MatchLines, recall
from agent_cli.plugins.skills import skills
from agent_cli.plugins.todo import todo
from agent_cli.prompt_files.command_files import (
    CommandFiles,
    CommandFolder,
    Expanding,
    unchecked,
)
from agent_cli.prompt_files.skill_files import Skill, SkillFolder, find_skills
from agent_cli.sandbox.secret_files import holds_token, is_behind_a_secret, is_other_name, is_secret
from agent_cli.system import paths
from agent_cli.system.repositories import in_each, project_folders, repository_root
from agent_cli.trust.store import COMMAND_FOLDERS, STYLE_FOLDERS, skill_folders

TellHooks: TypeAlias = Callable[[str, str, Mapping[str, Json]], None]
"""Runs the hooks of an event: its name, what their matchers are compared with, their input."""


def plugins(
    startup: StartupContext,
    *,
    warn: Callable[[str], None],
    one_shot: bool,
    person: Person | None = None,
    tell_hooks: TellHooks = lambda _event, _matched, _about: None,
) -> Plugins:
    """Return the enabled plugins.

    Args:
        warn: Receives a sentence about each plugin that cannot be used.
        one_shot: No later prompt follows, so there are no reminders.
        person: Answers the model's questions; None where the plugins are only listed.
        tell_hooks: Runs InstructionsLoaded hooks.
    """
    plugin_settings = startup.loaded.settings.plugins
    passed = partial(
        Plugins,
        of_program=startup.python_plugins,
        environment=startup.environment,
        disabled=plugin_settings.disabled,
        warn=warn,
    )
    if not plugin_settings.enabled:
        return passed(())
    return passed(
        (
            *_shipped_plugins(startup, warn, tell_hooks, one_shot=one_shot),
            *((ask_user(person), present_plan(person)) if person else ()),
        ),
        find=partial(discover, startup.workspace, disabled=plugin_settings.disabled),
    )


def _shipped_plugins(
    startup: StartupContext, warn: Callable[[str], None], tell_hooks: TellHooks, *, one_shot: bool
) -> Iterator[Plugin]:
    yield _instructions(startup, warn, tell_hooks)
    yield skills(_skill_folders(startup), warn=warn)
    yield todo()
    yield recall(_matching(startup.workspace))
    if startup.loaded.settings.plugins.reminders and not one_shot:
        from agent_cli.plugins.reminders import reminders  # not with -p

        yield reminders()


def instructions_at_start(startup: StartupContext, tell: TellHooks) -> Sequence[str]:
    """Return the texts of instructions in a first request; *tell* hears of each file."""
    ctx = PluginContext(Conversation(), {}, "")
    prepare = _instructions(startup, lambda _problem: None, tell).prepare
    if prepare is not None:
        prepare(ctx)
    return [text for text in ctx.context if text]


def agent_plugins(
    startup: StartupContext,
    warn: Callable[[str], None],
    tell_hooks: TellHooks | None,
    *,
    recalls: bool,
) -> Plugins:
    """Return the plugins of a subagent.

    Args:
        startup: Its workspace and the settings.
        warn: Receives a sentence about each plugin that cannot be used.
        tell_hooks: Runs InstructionsLoaded hooks; None if it gets no instructions of the project.
        recalls: It may use the tool `recall`.
    """
    instructions = (_instructions(startup, warn, tell_hooks),) if tell_hooks else ()
    has_tool = recalls and startup.can_recall
    recalling = (recall(_matching(startup.workspace)),) if has_tool else ()
    return Plugins((*instructions, *recalling), warn=warn)


def _matching(workspace: Path) -> MatchLines:
    async def matching(regex: str, lines: Sequence[str]) -> Sequence[int]:
        from agent_cli_tools.output import LinePattern  # rare
        from agent_cli_tools.searches import searcher  # rare

        return await LinePattern(regex, searcher(workspace)).numbers(lines)

    return matching


def skill_texts(startup: StartupContext, names: Sequence[str]) -> Sequence[str]:
    """Return the full text of each skill, or a sentence that says why it cannot be read."""
    if not names:
        return ()
    found, _ = find_skills(_skill_folders(startup))
    return [_skill_text(found.get(name), name) for name in names]


def _skill_text(skill: Skill | None, name: str) -> str:
    try:
        text = skill.read() if skill else "there is no such skill"
    except (OSError, ValueError) as error:
        text = f"it cannot be read: {error}"
    return f"[skill {name}]\n{text}"


def output_styles(startup: StartupContext, warn: Callable[[str], None]) -> OutputStyles:
    """Return the output styles of the user and of a trusted workspace."""
    own = [(folder / "output-styles", "yours") for folder in paths.own_dirs()]
    own += [
        (folder, f"plugin {added.name}")
        for added in startup.plugins
        for folder in added.folders["outputStyles"]
    ]
    around = project_folders(startup.workspace)
    project = [(folder, "project") for folder in in_each(around, STYLE_FOLDERS)]
    warn_once = once(warn)

    def find() -> Mapping[str, OutputStyle]:
        styles, problems = find_styles([*own, *(project if startup.trusted else ())])
        for problem in problems:
            warn_once(problem)  # completion asks at each key
        return styles

    name = startup.loaded.settings.output_style
    return OutputStyles(find, name, warn=warn, objection=startup.objection)


def _instructions(
    startup: StartupContext, warn: Callable[[str], None], tell_hooks: TellHooks
) -> Plugin:
    workspace = startup.workspace
    rules = cache(partial(parts.permission_rules, startup))

    def is_kept_back(path: Path) -> bool:
        is_other = is_other_name(path, workspace, Path.home()) or is_behind_a_secret(path)
        hidden = rules().hides(path, workspace, kinds=("deny", "ask"))
        return is_other or hidden or holds_token(path)

    files = InstructionFiles(
        repository_root(workspace) or workspace,
        workspace,
        user_files=(
            paths.shared_instructions_file(),
            paths.config_dir() / "AGENTS.md",
            *(folder / "AGENTS.md" for folder in paths.imported_dirs()),
            paths.codex_dir() / "AGENTS.md",
            paths.claude_dir() / "CLAUDE.md",
        ),
        user_rules=paths.claude_dir() / "rules",
        is_secret=is_secret,
        is_kept_back=is_kept_back,
        warn=warn,
        trusted=startup.trusted,
    )
    return project_instructions(
        files, lambda each: tell_hooks("InstructionsLoaded", each.reason, _about(each))
    )


def _about(loaded: LoadedInstructions) -> dict[str, Json]:
    """Return the input of an InstructionsLoaded hook, in Claude Code's fields."""
    path = loaded.file.path
    of_repository = "Local" if path.name == "CLAUDE.local.md" else "Project"
    about: dict[str, Json] = {
        "file_path": str(path),
        "memory_type": "User" if loaded.file.source == "user" else of_repository,
        "load_reason": loaded.reason,
    }
    if loaded.patterns:
        about["globs"] = [*loaded.patterns]
    if loaded.because:
        about["trigger_file_path"] = str(loaded.because)
    if loaded.named_by:
        about["parent_file_path"] = str(loaded.named_by)
    return about


def _skill_folders(startup: StartupContext) -> Sequence[SkillFolder]:
    folders = skill_folders(project_folders(startup.workspace))
    return [
        *map(SkillFolder, _own_skill_folders()),
        *(
            SkillFolder(folder, folders, objection=startup.objection)
            for folder in folders
            if startup.trusted
        ),
        *(
            SkillFolder(folder, (folder,), added.name, added.filled)
            for added in startup.plugins
            for folder in added.folders["skills"]
        ),
    ]


def _own_skill_folders() -> Sequence[Path]:
    others = (folder / "skills" for folder in (paths.claude_dir(), paths.codex_dir()))
    return paths.skills_dir(), paths.shared_skills_dir(), *others


def command_files(startup: StartupContext, expanding: Expanding = unchecked) -> CommandFiles:
    """Return the commands and skills of the user and of the workspace.

    *expanding* may refuse the text of a command; see `CommandFolder`.
    """
    around = project_folders(startup.workspace)
    untrusted = "this workspace is not trusted; `agent-cli trust` or --trust changes that"
    project = CommandFolder(
        startup.workspace,
        "project",
        inside=around[-1],
        refusal="" if startup.trusted else untrusted,
        objection=startup.objection,
    )
    folders = [CommandFolder(folder / "commands", "yours") for folder in paths.own_dirs()]
    folders.append(CommandFolder(paths.codex_dir() / "prompts", "yours"))
    folders += [project._replace(path=path) for path in in_each(around, COMMAND_FOLDERS)]
    plugin_settings = startup.loaded.settings.plugins
    if plugin_settings.enabled and "skills" not in plugin_settings.disabled:
        own = CommandFolder(startup.workspace, "your skills", holds_skills=True)
        folders += [own._replace(path=path) for path in _own_skill_folders()]
        theirs = project._replace(source="project skills", holds_skills=True)
        shelves = skill_folders(around)
        folders += [theirs._replace(path=path, shelves=shelves) for path in shelves]
    for added in startup.plugins:
        of_plugin = CommandFolder(
            added.root, f"plugin {added.name}", prefix=added.name, filling=added.filled
        )
        folders += [of_plugin._replace(path=path) for path in added.folders["commands"]]
        holds_skills = of_plugin._replace(holds_skills=True)
        for path in added.folders["skills"]:
            folders.append(holds_skills._replace(path=path, shelves=(path,)))
    return CommandFiles([each._replace(expanding=expanding) for each in folders])
