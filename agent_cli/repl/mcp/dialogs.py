"""Dialogs with MCP servers: forms, pages to visit, sampling requests.

They are lines and keys, not lists: no server's question looks like one of the program's own.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Final, TypeVar

from agent_cli.contracts.dialogs import Action, Filled, Form
from agent_cli.contracts.events import EventSink, Notice
from agent_cli.contracts.servers import SamplingRequest
from agent_cli.contracts.wording import first_named, one_line
from agent_cli.repl.approval.preview import Row
from agent_cli.repl.dialogue import DialogParts, Dialogue
from agent_cli.repl.mcp import named, page_rows, quoted_rows, shown_text, web_host
from agent_cli.repl.mcp.form_dialog import FormDialog, label
from agent_cli.system.desktop import open_page
from agent_cli.system.sanitize import reveal

_ACTIONS: Final[dict[str, Action]] = {"y": "accept", "n": "decline"}
_NAMED_MAX: Final = 5
AnswerT = TypeVar("AnswerT")


class ServerQuestions:
    """Asks servers' questions one at a time; implements `dialogs.ServerDialogs`."""

    def __init__(
        self,
        prompt: Dialogue,
        parts: DialogParts,
        *,
        publish: EventSink,
        begin: Callable[[], None] = lambda: None,
        asking: Callable[[], AbstractContextManager[None]] = nullcontext,
        on_change: Callable[[], None] = lambda: None,
        open_page: Callable[[str], Awaitable[None]] = open_page,
    ) -> None:
        """Ask nothing yet.

        Args:
            prompt: Asks the user.
            parts: Shared by all dialogs of the front end.
            publish: Receives notices that need no answer.
            begin: Called before each dialog: adds a blank row, rings the bell.
            asking: Entered while a question is open.
            on_change: Called when a server's state has changed.
            open_page: Opens a URL in a browser.
        """
        self._prompt = prompt
        self._parts = parts
        self._publish = publish
        self._begin = begin
        self._asking = asking
        self._on_change = on_change
        self._open_page = open_page

    async def fill_form(self, form: Form) -> Filled:
        """Let the user fill in *form*, or decline; Ctrl-C cancels at any field."""
        fields = first_named([*map(label, form.fields)], _NAMED_MAX)

        async def ask() -> Filled:
            self._parts.draw([Row(f"{named(form.server)} asks you", "title")])
            self._show(
                [
                    *quoted_rows(form.message),
                    *([f"it wants: {fields}"] if fields else []),
                ],
                f"y = {'fill it in' if fields else 'yes'} · n = decline, then Enter"
                " · Ctrl-C = cancel",
            )
            action = await self._action(form.server, "answer?")
            if action != "accept" or not form.fields:
                return Filled(action)
            return await FormDialog(form, self._prompt, self._show).fill()

        return await self._put(form.server, ask, nobody=Filled("decline"), stopped=Filled("cancel"))

    async def visit_page(self, *, server: str, message: str, url: str) -> Action:
        """Show a URL in full with its host, and open it if the user agrees."""
        if not web_host(url):
            where = one_line(reveal(url))
            self._warn(f"{named(server)} may not open {where}: no web page")
            return "decline"

        async def ask() -> Action:
            self._parts.draw([Row(f"{named(server)} wants you to visit a page", "title")])
            self._show(
                [*quoted_rows(message), *page_rows(url)],
                "y = open it in the browser · n = decline, then Enter · Ctrl-C = cancel",
            )
            action = await self._action(server, "open it?")
            if action == "accept":
                await self._open_page(url)
            return action

        return await self._put(server, ask, nobody="decline", stopped="cancel")

    async def allow_sampling(self, request: SamplingRequest, *, model: str) -> bool:
        """Show a sampling request; only an explicit yes allows it."""

        async def ask() -> bool:
            conversation = [("system", request.system_prompt)]
            conversation += [(role, shown_text(blocks)) for role, blocks in request.messages]
            title = f"{named(request.server)} wants to ask {model} at your expense"
            most = f"at most {request.max_tokens:,} tokens"
            self._parts.draw([Row(title, "title", beside=most)])
            self._show(
                [row for role, text in conversation for row in quoted_rows(text, role)],
                "y = allow it · n = refuse, then Enter",
            )
            return await self._action(request.server, "allow?") == "accept"

        return await self._put(request.server, ask, nobody=False, stopped=False)

    def servers_changed(self) -> None:
        """Refresh the display of the servers."""
        self._on_change()

    async def _put(
        self,
        server: str,
        ask: Callable[[], Awaitable[AnswerT]],
        *,
        nobody: AnswerT,
        stopped: AnswerT,
    ) -> AnswerT:
        """Ask when no other dialog is open; without an answer return *nobody* or *stopped*."""
        if not self._prompt.can_ask:
            self._warn(f"{named(server)} asked a question, declined: there is no user to answer it")
            return nobody
        async with self._parts.turn:
            try:
                with self._asking():
                    self._begin()
                    return await ask()
            except (KeyboardInterrupt, EOFError):
                self._parts.lines.aside(f"{reveal(server)}: not answered", "dim")
                return stopped
            except asyncio.CancelledError:
                self._parts.lines.aside(f"{reveal(server)} no longer waits for an answer", "dim")
                raise

    async def _action(self, server: str, question: str) -> Action:
        key = await self._prompt.choose_key(f"{reveal(server)}: {question} (y/n) ", "yn")
        return _ACTIONS[key]

    def _show(self, rows: Iterable[str], keys: str = "") -> None:
        """Show *rows*, and faint below them what the *keys* do."""
        self._parts.lines.aside("\n".join(rows))
        if keys:
            self._parts.lines.aside(keys, "dim")
        self._parts.before_asking()

    def _warn(self, text: str) -> None:
        self._publish(Notice("warning", text))
