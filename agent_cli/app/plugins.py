"""The plugins of this program, and the commands people wrote: what settings and trust let in."""

from collections.abc import Callable, Iterator
from functools import partial

from agent_cli.app.startup import StartupContext
from agent_cli.contracts.errors import SettingsError
from agent_cli.plugins.api import Plugin
from agent_cli.plugins.ask_user import Person, ask_user, present_plan
from agent_cli.plugins.contributor import Plugins
from agent_cli.plugins.discovery import discover
from agent_cli.plugins.project_instructions import project_instructions, workspace_root
from agent_cli.plugins.reminders import reminders
from agent_cli.plugins.skills import skills
from agent_cli.plugins.todo import todo
from agent_cli.prompt_files.command_files import CommandFiles, CommandFolder
from agent_cli.system import paths
from agent_cli.trust.store import COMMAND_FOLDERS, SKILL_FOLDERS
from agent_cli_tools.secret_files import is_secret


def plugins(
    startup: StartupContext,
    *,
    warn: Callable[[str], None],
    one_shot: bool,
    person: Person | None = None,
) -> Plugins:
    """Return the plugins that are switched on.

    Args:
        warn: Gets a sentence about each one that cannot be used.
        one_shot: Nobody waits for a later prompt: no reminders.
        person: Who answers the model; None where the plugins are only looked at.
    """
    wanted = startup.loaded.settings.plugins
    if not wanted.enabled:
        return Plugins((), warn=warn)
    return Plugins(
        (
            *_shipped_plugins(startup, warn, one_shot=one_shot),
            *((ask_user(person), present_plan(person)) if person else ()),
        ),
        find=partial(discover, startup.workspace, disabled=wanted.disabled),
        environment=startup.environment,
        disabled=wanted.disabled,
        warn=warn,
    )


def _shipped_plugins(
    startup: StartupContext, warn: Callable[[str], None], *, one_shot: bool
) -> Iterator[Plugin]:
    user_dir, workspace = paths.config_dir(), startup.workspace
    root = workspace_root(workspace)
    yield project_instructions(
        root,
        workspace,
        user_dir=user_dir,
        is_secret=is_secret,
        warn=warn,
        trusted=startup.trusted,
    )
    project_folders = [workspace / folder for folder in SKILL_FOLDERS] if startup.trusted else []
    yield skills([user_dir / "skills", *project_folders], warn=warn)
    yield todo()
    if startup.loaded.settings.plugins.reminders and not one_shot:
        yield reminders()


def command_files(startup: StartupContext) -> CommandFiles:
    """Return the commands the user wrote, and those of the workspace."""
    untrusted = "this workspace is not trusted; `agent-cli trust` or --trust changes that"

    def objection() -> str:
        try:
            if startup.is_unchanged():
                return ""
        except SettingsError as error:  # the other commands have to go on working
            return str(error)
        return "what acts in this workspace changed; `agent-cli trust` trusts it as it is now"

    project = [
        CommandFolder(
            startup.workspace / folder,
            "project",
            inside=startup.workspace,
            refusal="" if startup.trusted else untrusted,
            objection=objection,
        )
        for folder in COMMAND_FOLDERS
    ]
    return CommandFiles([CommandFolder(paths.config_dir() / "commands", "yours"), *project])
