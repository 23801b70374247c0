"""Run a command so that it can change nothing, and tell whether that was enough for it.

A command of unknown effect runs unasked this way: the workspace and all else is read-only, the
person's files outside the workspace and secrets are hidden, there is no network, and what it writes
to its temporary folder is gone with it. Any sign that it wanted more makes it a question.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from agent_cli.contracts.errors import ToolError
from agent_cli.contracts.tooling import ToolContext, ToolResult
from agent_cli.sandbox import Sandbox
from agent_cli.sandbox.denials import is_refused
from agent_cli_tools.command_answers import Ended, finished, so_far, stopped
from agent_cli_tools.command_start import PacedUpdates, start_command
from agent_cli_tools.output import SPILL_BYTES_MAX, OutputBuffer
from agent_cli_tools.workspace import Workspace

LIMIT_S = 20.0
"""A longer run is likely to be work rather than a look, and would be lost if it then asks."""

NOTE = "ran read-only: it could change nothing and had no network"

# Caches and locks that programs would write beside the files they only read.
_WITHOUT_CACHES = {
    "GIT_OPTIONAL_LOCKS": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTEST_ADDOPTS": "-p no:cacheprovider",
    "RUFF_NO_CACHE": "true",
}


async def read_only_result(
    workspace: Workspace,
    sandbox: Sandbox,
    text: str,
    timeout_s: float,
    new_output: Callable[[], OutputBuffer],
    on_update: ToolContext,
) -> ToolResult | None:
    """Run the script *text* read-only; return its result, or None if it needs more or takes long.

    Raises:
        ToolError: It could not be started, or was cancelled: what it had printed; for the model.
    """
    for _ in range(2):
        with suppress(_NotBegun):
            return await _once(workspace, sandbox, text, timeout_s, new_output(), on_update)
    return None


class _NotBegun(Exception):
    """The sandbox was not built: a path to hide has vanished meanwhile."""


async def _once(
    workspace: Workspace,
    sandbox: Sandbox,
    text: str,
    timeout_s: float,
    output: OutputBuffer,
    on_update: ToolContext,
) -> ToolResult | None:
    try:
        confinement = await sandbox.confine_read_only(workspace.root, workspace.shared.opened)
    except OSError:
        return None  # what prevents this one is said when the command itself runs
    if confinement is None:
        return None
    updates = PacedUpdates(lambda: on_update(so_far(output)))
    began_s = time.monotonic()
    try:
        command = await start_command(
            workspace, text, confinement, output, updates.due, _WITHOUT_CACHES
        )
    except BaseException:
        updates.stop()
        raise
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(min(timeout_s, LIMIT_S)):
                await command.wait()
        if (code := command.exit_code) is not None:
            await command.drain()
        left = command.others()
    except asyncio.CancelledError:
        raise ToolError(stopped(output, time.monotonic() - began_s)) from None
    finally:
        updates.stop()
        await command.stop()
    if not command.has_begun:
        raise _NotBegun
    if code is None or left or command.ended_with_it:
        return None
    if await asyncio.to_thread(_is_refused, output):
        return None
    ended = Ended(code, time.monotonic() - began_s, timeout_s, notes=[NOTE])
    return _marked(finished(output, ended))


def _marked(result: ToolResult) -> ToolResult:
    """Return *result* with details that say it ran read-only; screens then omit the note."""
    details = result.details
    if not isinstance(details, dict) or "status" not in details:
        return result
    return replace(
        result, details={**details, "read_only": True, "status": f"{details['status']}\n{NOTE}"}
    )


def _is_refused(output: OutputBuffer) -> bool:
    text = output.text()
    if not output.is_excerpt:
        return is_refused(text)
    if output.spill_path is None or output.total_bytes > SPILL_BYTES_MAX:
        return True
    return is_refused(output.spill_path.read_text(errors="replace"))
