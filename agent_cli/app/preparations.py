"""Start-up work that the first request need not wait for.

Most are imports. A model takes about half a second until its first token, and a module that only
the first call imports makes that call wait: for one call of each tool, 90 modules and a third of a
second.
"""

import asyncio
import shlex
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Final

from agent_cli.app import logs
from agent_cli.app.workspace.session_workspace import SessionWorkspace
from agent_cli.contracts.late_models import building
from agent_cli.core.listeners import HeldEvents
from agent_cli.system.event_loop import in_background
from agent_cli.system.loading import without_collections
from agent_cli.system.sanitize import reveal
from agent_cli.system.temporary_files import remove_left_folders

# A model takes ten times as long until its first token. A run that has its answer sooner, from a
# server of canned ones, calls no tool that would be worth the imports.
_REPLY_IS_LATE_S: Final = 0.05
_REMOVAL_LIMIT_S: Final = 1.0
REPLY_MODULES: Final = (
    "agent_cli.providers.anthropic.reply_builder",
    "agent_cli.providers.events",
    "agent_cli_tools.excerpts",
)
"""For every reply, and for read, the most frequent call."""

TOOL_MODULES: Final = (
    "agent_cli.policies.shell.syntax",
    "agent_cli.policies.shell.read_only",
    "agent_cli.policies.shell.judgement",
    "agent_cli.policies.receipts",
    "tree_sitter_bash",
    "tree_sitter",
    "agent_cli.system.launcher",
    "agent_cli.sandbox.aftermath",
    "agent_cli.sandbox.denials",
    "agent_cli.undo.stopped_calls",
    "agent_cli_tools.command_run",
    "agent_cli_tools.folding",
    "agent_cli_tools.search_runs",
    "agent_cli_tools.job_reading",
    "agent_cli_tools.matching",
    "agent_cli_tools.diffs",
    "agent_cli_tools.misfits",
    "agent_cli_tools.atomic_write",
    "agent_cli_tools.snapshots.journal",
    "agent_cli_tools.snapshots.kept_versions",
    "agent_cli_tools.snapshots.taking_back",
    "glob",  # `Path.glob` imports it since Python 3.15
    "agent_cli.system.path_patterns",
    "agent_cli.app.agents.worker",
)


class Preparations:
    """Work done once: from `started` on in a REPL, else while a one-shot run waits for its reply.

    Attributes:
        log: A listener that logs events; it holds them back until the logs are loaded.
    """

    def __init__(self, session_workspace: SessionWorkspace, *, one_shot: bool) -> None:
        """Begin nothing yet; a *one_shot* program waits for its request to be sent."""
        self.log = HeldEvents(logs.log_event)
        self._sandbox = session_workspace.sandbox
        self._launcher = session_workspace.workspace.shared.launcher
        self._tell_left = partial(
            tell_left_worktrees, session_workspace.workspace.root, session_workspace.warn
        )
        self._one_shot = one_shot
        self._imports = EarlyImports()
        self._while_waiting: asyncio.TimerHandle | None = None
        self._removal: asyncio.Future[None] | None = None
        if not one_shot:  # behind the prompt, in the thread that makes the program
            deque(building(), maxlen=0)

    def started(self) -> None:
        """Begin the work, unless the program is one-shot."""
        if not self._one_shot:
            self._load_logs()
            self._begin()

    def request_sent(self) -> None:
        """Use the time until the first reply, once, for what the reply and its calls will need."""
        if self._while_waiting is None:
            loop = asyncio.get_running_loop()
            loop.call_soon(self._imports.begin, REPLY_MODULES)
            if self._one_shot:
                self._load_logs()
            self._while_waiting = loop.call_later(_REPLY_IS_LATE_S, self._use_the_wait)

    async def aclose(self) -> None:
        """Begin nothing more, and log the records that were held back.

        Folders of killed programs are gone then, if that takes a second at most: a program that
        has its answer at once would leave them to the next one, which may be as quick.
        """
        if self._while_waiting:
            self._while_waiting.cancel()
        self._imports.stop()
        self.log.release()
        await asyncio.wait({self._begin_removal()}, timeout=_REMOVAL_LIMIT_S)

    def _use_the_wait(self) -> None:
        if self._one_shot:
            self._begin()
        self._imports.begin(TOOL_MODULES, first=building())

    def _begin(self) -> None:
        self._sandbox.start()
        # Ahead of the first command, which would have to wait for it.
        in_background(self._launcher.start)
        self._tell_left()
        self._begin_removal()

    def _begin_removal(self) -> "asyncio.Future[None]":
        """Begin, once, to remove what killed programs left; no command may come that does."""
        if self._removal is None:
            self._removal = in_background(_remove_left_folders)
        return self._removal

    def _load_logs(self) -> None:
        loading = in_background(partial(logs.load, spare_rich=self._one_shot))
        loading.add_done_callback(lambda _loaded: self.log.release())


def _remove_left_folders() -> None:
    """Remove what killed programs left in the temporary folder, as well as possible."""
    with suppress(OSError):
        remove_left_folders()


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
    from agent_cli.system.worktrees import take_left_worktrees  # in the thread

    return take_left_worktrees(workspace)


class EarlyImports:
    """Imports modules in the running event loop, one each time the loop is idle.

    In a thread, an import could meet one of the loop's own thread halfway (see
    `system.loading.load`), and would compete with the loop for the interpreter all the same.
    """

    def __init__(self) -> None:
        self._is_stopped = False

    def begin(self, modules: Sequence[str], first: Iterable[object] = ()) -> None:
        """Begin to import *modules*, after each step of *first*."""
        self._take_next(chain(first, map(import_module, modules)))

    def stop(self) -> None:
        """Import nothing more."""
        self._is_stopped = True

    def _take_next(self, steps: Iterator[object]) -> None:
        if self._is_stopped:
            return
        try:
            with without_collections():
                is_over = next(steps, None) is None
        except OSError:  # too many open files; where it is needed, the user is told
            return
        if not is_over:
            asyncio.get_running_loop().call_soon(self._take_next, steps)
