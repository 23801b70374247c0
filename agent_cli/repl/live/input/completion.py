"""Completion at the cursor, from any number of sources."""

import asyncio
import re
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from functools import partial
from typing import Final, TypeAlias

from prompt_toolkit.completion import CompleteEvent, Completer, Completion, ThreadedCompleter
from prompt_toolkit.document import Document

from agent_cli.attachments.references import reference_before, reference_to
from agent_cli.contracts.errors import AgentCliError
from agent_cli.contracts.servers import ServerPrompt, ServerResource
from agent_cli.contracts.wording import one_line
from agent_cli.repl.commands import Command
from agent_cli.repl.commands.registry import commands_of
from agent_cli.repl.live.input.file_completion import (
    FileChoices,
    directories_at,
    outside_choices,
)
from agent_cli.repl.live.input.menu import Certain, Menu
from agent_cli.repl.live.input.workspace_files import WorkspaceFiles
from agent_cli.repl.mcp import ServersPort
from agent_cli.repl.mcp.offers import WORD, bare
from agent_cli.repl.ports import Application
from agent_cli.system.logger import logger
from agent_cli.system.sanitize import reveal

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
        FileChoices(WorkspaceFiles(app.workspace), on_change),
        partial(outside_choices, app.workspace),
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
            if command.name != name[1:]:
                continue
            if command.completes_directories:
                yield from directories_at(app.workspace, typed)
            for choice, meaning in command.choices(app).items():
                if choice.startswith(typed) and choice != typed:
                    yield Certain(choice, -len(typed), display_meta=meaning)

    return choices


# Completions from MCP servers: resources behind an @, arguments of their prompts.
#
# Called in the completion thread; requests to servers run in the event loop.

Ask: TypeAlias = Callable[[Coroutine[None, None, Sequence[str]]], Sequence[str]]
_LIMIT_S: Final = 2.5
_FOUND_MAX: Final = 50
_SHOWN_CHARS_MAX: Final = 100
_OPEN: Final = re.compile(r'(?<!\S)["\'][^"\']*\Z')
_NAME: Final = re.compile(r"\{[^\w{}]*+(\w++)[^{}]*+\}")


def asking(loop: asyncio.AbstractEventLoop) -> Ask:
    """Return a function with which a thread awaits answers from *loop*, with a time limit."""

    def ask(question: Coroutine[None, None, Sequence[str]]) -> Sequence[str]:
        try:
            answer = asyncio.run_coroutine_threadsafe(question, loop)
        except RuntimeError:  # the session ended while the thread was completing
            question.close()
            return ()
        try:
            return answer.result(_LIMIT_S)
        except (TimeoutError, CancelledError, AgentCliError):
            answer.cancel()
            return ()

    return ask


class ResourceChoices:
    """A completion source: servers behind an @, and behind `@server:` its resources."""

    def __init__(self, servers: ServersPort, ask: Ask) -> None:
        self._servers = servers
        self._ask = ask

    def __call__(self, before: str) -> Iterator[Completion]:
        """Yield the matches for the word behind the @ before the cursor."""
        at = reference_before(before)
        if at is None:
            return
        server, colon, typed = at.path.partition(":")
        resources = self._servers.resources()
        if not colon:
            for name in dict.fromkeys(each.server for each in resources):
                if name.lower().startswith(server.lower()):
                    yield Completion(f"{name}:", -at.length, f"{name}:", "resources of this server")
            return
        for uri, shown, about in self._fitting(server, typed, resources):
            text = reference_to(f"{server}:{uri}")
            yield Completion(text, -at.length, _short(shown), _short(about))

    def _fitting(
        self, server: str, typed: str, resources: Sequence[ServerResource]
    ) -> Iterator[tuple[str, str, str]]:
        """Yield (reference, label, description)."""
        folded = typed.lower()
        for each in [each for each in resources if each.server == server]:
            about = each.description or each.name
            if each.is_template and typed.startswith(each.uri.partition("{")[0]):
                yield from ((uri, uri, each.name) for uri in self._filled(each, typed))
            elif folded in f"{each.uri} {each.name}".lower():
                yield each.uri.partition("{")[0], each.uri, about

    def _filled(self, template: ServerResource, typed: str) -> Iterator[str]:
        """Yield template URIs with the current variable completed by the server."""
        literals, names = _NAME.split(template.uri)[::2], _NAME.findall(template.uri)
        for last in range(len(names) - 1, -1, -1):
            # Atomic: a template of many variables could otherwise take hours.
            begun = "".join(f"(?>(.+?){re.escape(each)})" for each in literals[1 : last + 1])
            found = re.fullmatch(f"({re.escape(literals[0])}{begun})(.*)", typed)
            if found is None:
                continue
            start, *typed_values, value = found.groups()
            known = dict(zip(names, typed_values, strict=False))
            for each in self._values(template, names[last], value, known):
                yield f"{start}{each}{literals[last + 1]}"
            return

    def _values(
        self, template: ServerResource, name: str, value: str, known: dict[str, str]
    ) -> Sequence[str]:
        question = _completed(self._servers, template.server, template.uri, name, value, known)
        return self._ask(question)[:_FOUND_MAX]


class PromptChoices:
    """A completion source: a server's suggestions for an argument of a prompt."""

    def __init__(self, servers: ServersPort, ask: Ask) -> None:
        self._servers = servers
        self._ask = ask

    def __call__(self, before: str) -> Iterator[Completion]:
        """Yield values for the current argument."""
        name, blank, typed = before.removeprefix("/").partition(" ")
        if not before.startswith("/") or not blank or "\n" in before:
            return
        prompt = next((each for each in self._servers.prompts() if each.command == name), None)
        if prompt is None:
            return
        *done, last = _words(typed)
        if len(done) >= len(prompt.arguments):
            return
        for value in self._values(prompt, done, last.strip("\"'")):
            text = f'"{value}"' if re.search(r"[\s'\\]", value) else value
            yield Completion(
                text, -len(last), _short(value), _short(prompt.arguments[len(done)].name)
            )

    def _values(self, prompt: ServerPrompt, done: Sequence[str], value: str) -> Sequence[str]:
        names = [argument.name for argument in prompt.arguments]
        known = dict(zip(names, done, strict=False))
        name = names[len(done)]
        found = self._ask(_completed(self._servers, prompt.server, prompt.name, name, value, known))
        return [each for each in found if '"' not in each][:_FOUND_MAX]


async def _completed(
    servers: ServersPort, server: str, name: str, argument: str, value: str, known: dict[str, str]
) -> Sequence[str]:
    return await servers.requests(server).complete(name, argument, value, known)


def _words(typed: str) -> list[str]:
    """Return the words behind a command; the last one is still being typed."""
    if open_quote := _OPEN.search(typed):
        return [*map(bare, WORD.findall(typed[: open_quote.start()])), open_quote[0]]
    words = WORD.findall(typed)
    last = words.pop() if typed[-1:].strip() else ""
    return [*map(bare, words), last]


def _short(text: str) -> str:
    return one_line(reveal(text), _SHOWN_CHARS_MAX)
