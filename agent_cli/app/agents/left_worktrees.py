"""Worktrees that agents of a killed program left."""

import asyncio
import shlex
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from agent_cli.system.background import in_background
from agent_cli.terminal.sanitize import reveal

_LEFT: Final = (
    "agents of a program that was killed left git worktrees; look for changes you need, then remove"
    " them"
)


def tell_left_worktrees(workspace: Path, warn: Callable[[str], None]) -> None:
    """Name the worktrees that agents of a killed program left, once, in the background."""

    def tell(found: asyncio.Future[list[Path]]) -> None:
        if found.cancelled() or found.exception() or not found.result():
            return
        commands = (
            f"`git worktree remove --force {shlex.quote(reveal(str(path)))}`"
            for path in found.result()
        )
        warn(f"{_LEFT}: {'; '.join(commands)}")

    in_background(partial(_taken, workspace)).add_done_callback(tell)


def _taken(workspace: Path) -> list[Path]:
    from agent_cli.system.worktrees import take_left_worktrees  # noqa: PLC0415 - in the thread

    return take_left_worktrees(workspace)
