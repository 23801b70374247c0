"""Completion at the cursor, from any number of sources."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TypeAlias

from prompt_toolkit.completion import CompleteEvent, Completer, Completion, ThreadedCompleter
from prompt_toolkit.document import Document

from agent_cli.repl.commands.registry import commands_of
from agent_cli.repl.commands.spec import Command
from agent_cli.repl.live.input.certain import Certain
from agent_cli.repl.live.input.file_completion import (
    FileChoices,
    directories_at,
    outside_choices,
)
from agent_cli.repl.live.input.menu import Menu
from agent_cli.repl.live.input.server_choices import PromptChoices, ResourceChoices, asking
from agent_cli.repl.live.input.workspace_files import WorkspaceFiles
from agent_cli.repl.ports import Application
from agent_cli.system.logger import logger

_log = logger(__name__)
Source: TypeAlias = Callable[[str], Iterable[Completion]]
"""Gets the text before the cursor, in the completion thread; yields the best choices first."""


def offer_completions(menu: Menu, app: Application) -> None:
    """Connect *menu* to the completions of a session."""
    completions = Completions(sources_of(app, renewal(menu.show_again)))
    menu.use(ThreadedCompleter(completions), completions.only)


def renewal(show_again: Callable[[], object]) -> Callable[[], None]:
    """Return a function that any thread may call to run *show_again* in the running event loop."""
    loop = asyncio.get_running_loop()

    def renew() -> None:
        with suppress(RuntimeError):  # the session ended while the thread was listing
            loop.call_soon_threadsafe(show_again)

    return renew


def sources_of(app: Application, on_change: Callable[[], object]) -> Sequence[Source]:
    """Return the completion sources of a session; each adds its choices below the previous.

    Args:
        app: The program with the commands, servers and files to offer.
        on_change: Called, in any thread, when the choices of a source have changed.
    """
    ask = asking(asyncio.get_running_loop())
    return (
        command_choices(lambda: commands_of(app)),
        argument_choices(app),
        PromptChoices(app.servers, ask),
        ResourceChoices(app.servers, ask),
        FileChoices(WorkspaceFiles(), on_change),
        outside_choices,
    )


class Completions(Completer):
    """Queries each source in turn. A source may be slow, so use it in a `ThreadedCompleter`."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = sources
        self._answered: tuple[str, Completion | None] = ("", None)

    def get_completions(
        self,
        document: Document,
        complete_event: CompleteEvent,  # noqa: ARG002 - the base class's name
    ) -> Iterable[Completion]:
        """Yield the completions at the cursor."""
        before, found = document.text_before_cursor, 0
        completion: Completion | None = None
        for source in self._sources:
            try:
                for completion in source(before):
                    found += 1
                    yield completion
            except Exception:  # of a file, or a server: the others still help
                _log.info("no completions", exc_info=True)
        self._answered = before, completion if found == 1 else None

    def only(self, before: str) -> Completion | None:
        """Return the only completion of the text *before* the cursor, for Enter to take.

        None until every source has answered, because more may follow.
        """
        answered, completion = self._answered
        return completion if answered == before and isinstance(completion, Certain) else None


def command_choices(commands: Callable[[], Sequence[Command]]) -> Source:
    """Return a source of *commands* whose names begin as typed."""

    def choices(before: str) -> Iterator[Completion]:
        if not before.startswith("/") or " " in before or "\n" in before:
            return
        for command in commands():
            if command.name.startswith(before[1:]):
                yield Certain(command.name, 1 - len(before), f"/{command.name}", command.help)

    return choices


def argument_choices(app: Application) -> Source:
    """Return a source of command arguments."""

    def choices(before: str) -> Iterator[Completion]:
        name, blank, typed = before.partition(" ")
        if not name.startswith("/") or not blank or "\n" in before:
            return
        for command in commands_of(app):
            if command.name == name[1:]:
                if command.completes_directories:
                    yield from directories_at(typed)
                for choice, what in command.choices(app).items():
                    if choice.startswith(typed) and choice != typed:
                        yield Certain(choice, -len(typed), display_meta=what)

    return choices
