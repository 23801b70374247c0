"""Record the changes of a hook as those of the model's commands are recorded: for `/undo`.

Its keeper asks before it deletes or overwrites much, and its time limit stands still meanwhile.
"""

import asyncio
import shlex
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from agent_cli.hooks.definition import Hook
from agent_cli.hooks.run import PreparedHook
from agent_cli.sandbox import Confinement
from agent_cli.system.asked_program import ProgramAnswer, ask_watched
from agent_cli.system.keeper import LEFT_DESCRIPTOR
from agent_cli.system.launching import Order, Watched
from agent_cli.undo.logs import question_of

if TYPE_CHECKING:
    from agent_cli_tools import Workspace

# A shell finds the program, and says so if it cannot be started. In a process namespace it tells
# that the sandbox is built.
_PLAIN: Final = ("/bin/sh", "-c", 'exec "$@"', "sh")
_NESTED: Final = (
    *("/bin/sh", "-c", f'echo >&{LEFT_DESCRIPTOR}; exec "$@" {LEFT_DESCRIPTOR}>&-', "sh"),
)


class HookRecording:
    """The recording of one run of a hook."""

    def __init__(
        self,
        workspace: "Workspace",
        hook: Hook,
        command: Sequence[str],
        ran: Callable[[Path | None], None] = lambda _log: None,
        recorded: Callable[[Path], None] = lambda _log: None,
    ) -> None:
        """Record nothing yet; *command* is the command line of *hook*.

        *ran* is called when it ends, with the folder of its log; None if it is not watched.
        *recorded* is called with the log of one of which only the named files are kept, too.
        """
        self._workspace = workspace
        self._ran, self._recorded = ran, recorded
        self._command = command
        self._is_watched = False
        is_shell = hook.args is None
        self._text = hook.command if is_shell else shlex.join([hook.command, *(hook.args or ())])

    @asynccontextmanager
    async def running(self) -> "AsyncGenerator[Watched | None]":
        """Run the hook in the body; the value is how to record it."""
        async with self._workspace.running(self._text, by_hook=True) as watched:
            try:
                yield watched
            finally:
                self._ran(Path(watched.folder) if watched and self._is_watched else None)
                if watched:
                    self._recorded(Path(watched.folder))

    async def around(
        self, prepared: PreparedHook, watched: Watched, confinement: Confinement | None
    ) -> PreparedHook:
        """Return *prepared*, recorded if that is possible, in *confinement* if there is one."""
        from agent_cli_tools.command_run import recorded  # with a hook

        confinement = confinement or Confinement()
        order = await recorded(self._workspace, self._text, watched, confinement)
        self._is_watched = order is not None and order.named is None
        if order is None:
            return prepared

        async def ask(
            sent: bytes, environment: Mapping[str, str], limit: asyncio.Timeout
        ) -> ProgramAnswer:
            return await self._ask(order, confinement, sent, environment, limit)

        return replace(prepared, ask=ask)

    async def _ask(
        self,
        watched: Watched,
        confinement: Confinement,
        sent: bytes,
        environment: Mapping[str, str],
        limit: asyncio.Timeout,
    ) -> ProgramAnswer:
        shell = _NESTED if confinement.nested else _PLAIN
        order = Order(
            arguments=[*confinement.prefix, *shell, *self._command],
            cwd=str(self._workspace.root),
            environment=environment,
            files=confinement.files,
            restriction=confinement.restriction,
            nested=confinement.nested,
            watched=watched,
        )

        async def decide(question: dict[str, Any]) -> bool:
            left_s = (limit.when() or 0.0) - asyncio.get_running_loop().time()
            if not limit.expired():
                limit.reschedule(None)
            try:
                return await self._workspace.decides(self._text, question_of(question))
            finally:
                if not limit.expired():
                    limit.reschedule(asyncio.get_running_loop().time() + left_s)

        return await ask_watched(order, sent, self._workspace.shared.launcher, decide)
