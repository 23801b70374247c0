"""A plain session in this process: what `python scripted.py repl` does, without starting Python."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from io import StringIO
from typing import Final

from agent_cli.repl.dialogue import Choice, chosen
from agent_cli.repl.hosting import Interrupts
from agent_cli.repl.plain.shell import Shell
from agent_cli.terminal.writer import Writer
from tests.repl.scripted_app import Application

LIMIT_S: Final = 60


@dataclass
class Nobody:
    """A pipe instead of a person; any `answers` are typed one after the other."""

    answers: list[str] = field(default_factory=list[str])

    @property
    def can_ask(self) -> bool:
        return bool(self.answers)

    async def select(
        self,
        message: str,
        choices: Sequence[Choice],
        *,
        text: str,
        ctrl_c: str = "",
        anew: bool = False,
    ) -> Choice | str:
        line = await self.choose(message, "")
        return chosen(line, choices) or line

    async def choose(self, message: str, keys: str) -> str:
        return self.answers.pop(0)

    choose_next = choose

    async def choose_key(self, message: str, keys: Sequence[str], *, at_once: bool = False) -> str:
        while (key := await self.choose(message, "")) not in [*keys]:
            pass
        return key

    def above(self, write: Callable[[], None]) -> None:
        write()

    def lend(self, *, to_run: bool) -> None:
        pass


def converse(
    *lines: str, app: Application | None = None, answers: tuple[str, ...] = ()
) -> tuple[str, list[str]]:
    """Feed *lines* to a new session; return stdout, and the other output lines."""
    return asyncio.run(_converse(lines, app, answers))


def said(*lines: str, app: Application | None = None) -> list[str]:
    """Return the output of the commands in *lines* other than answers."""
    return converse(*lines, app=app)[1]


async def _converse(
    lines: tuple[str, ...], app: Application | None, answers: tuple[str, ...]
) -> tuple[str, list[str]]:
    out, err = StringIO(), StringIO()
    shell = Shell(
        app or Application(),
        prompt=Nobody(list(answers)),
        writer=Writer(out, err, color=False),
        interrupts=Interrupts(lambda _stop: None),
    )
    async with asyncio.timeout(LIMIT_S):
        for line in lines:
            if not await shell.handle(line):
                break
    return out.getvalue(), err.getvalue().splitlines()
