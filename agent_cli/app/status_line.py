"""The user's command for the status line: whether it may run, and how."""

import asyncio
import os
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agent_cli.app.hooks import environment_of_hooks
from agent_cli.app.startup import StartupContext
from agent_cli.contracts.timeline import Json

if TYPE_CHECKING:
    from agent_cli.core.application import StatusCommand

_MESSAGE_CHARS_MAX: Final = 200
_UNTRUSTED: Final = (
    "status line: its command names a file of this workspace, which is not trusted;"
    " `agent-cli trust` or --trust changes that"
)


def status_line(startup: StartupContext) -> "StatusCommand | None":
    """Return the runner of the command in the settings, or None without a command."""
    from agent_cli.core.application import StatusCommand  # most set none

    command = startup.loaded.settings.status_line.command
    if command is None:
        return None

    async def run(data: Mapping[str, Json]) -> str:
        if not startup.trusted and status_scripts(startup):
            return _UNTRUSTED
        return await _answer(command, startup, data)

    return StatusCommand(run, startup.loaded.settings.status_line.refresh_s)


def status_scripts(startup: StartupContext) -> tuple[Path, ...]:
    """Return the workspace files named by the command, which runs outside the sandbox."""
    command = startup.loaded.settings.status_line.command
    if command is None:
        return ()
    from agent_cli.settings.hook_files import scripts_of_command  # most set none

    return scripts_of_command(command, None, startup.workspace)


async def _answer(command: str, startup: StartupContext, data: Mapping[str, Json]) -> str:
    """Return the first line of the command's output, or a sentence about its failure."""
    from agent_cli.system.asked_program import TooMuchOutput, ask_program, sent_json

    settings = startup.loaded.settings.status_line
    environment = environment_of_hooks(startup)
    shell = shutil.which("bash", path=environment.get("PATH", os.defpath)) or "/bin/sh"
    try:
        async with asyncio.timeout(settings.timeout_s):
            ran = await ask_program(
                [shell, "-c", command],
                sent_json(data),
                environment=environment,
                workspace=startup.workspace,
            )
    except TimeoutError:
        return f"status line: its command took longer than {settings.timeout_s:g} s"
    except TooMuchOutput:
        return "status line: its command printed more than 1 MB"
    except OSError as error:
        return f"status line: it cannot be started ({error.strerror or error})"
    if ran.code:
        message = " ".join(ran.stderr.split())[:_MESSAGE_CHARS_MAX] or shlex.quote(command)
        return f"status line: its command ended with exit code {ran.code}: {message}"
    return ran.stdout.partition("\n")[0]
