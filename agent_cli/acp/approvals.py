"""Ask the client's user about waiting tool calls, one by one.

The rules are those of the terminal: only an explicit answer allows a call, "always" is offered
only if the policy could add a rule, and the question shows the whole effect of the call.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from agent_cli.acp.client import EditorClient, PermissionOption
from agent_cli.acp.content import text
from agent_cli.acp.framing import ConnectionLost, RpcFault
from agent_cli.acp.ports import Application
from agent_cli.contracts.dialogs import Approved, Decision, Rejected
from agent_cli.contracts.errors import SettingsError
from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.timeline import Json
from agent_cli.core.declining import NOBODY_ALLOWS, STOPPED, UNWANTED
from agent_cli.system.logger import logger
from agent_cli.terminal.sanitize import reveal

_ONCE: Final = PermissionOption("once", "Yes", "allow_once")
_NO: Final = PermissionOption("no", "No", "reject_once")
_SESSION: Final = "session"
_PROJECT: Final = "project"

_log = logger(__name__)


class QuestionClosed(Exception):
    """The user closed a question instead of answering: the prompt stops."""


class PermissionRequests:
    """Asks about waiting calls; a "don't ask again" rule is stored before the next question."""

    def __init__(
        self,
        app: Application,
        client: EditorClient,
        described: Callable[[ToolCall], dict[str, Json]],
        say: Callable[[str], None],
    ) -> None:
        """Ask nothing yet.

        Args:
            app: The application whose calls wait.
            client: The client to ask.
            described: Returns the fields that show a call.
            say: Shows a sentence.
        """
        self._app = app
        self._client = client
        self._described = described
        self._say = say

    async def decide(self, calls: Sequence[ToolCall]) -> list[Decision]:
        """Return the user's decision about each of *calls*.

        Raises:
            QuestionClosed: The user closed a question.
            ConnectionLost: The client is gone; nothing is decided.
        """
        permissions = self._app.permissions
        decisions: list[Decision] = []
        for call in calls:
            await permissions.recall(call, self._app.tools)
            is_allowed = permissions.is_remembered(call)
            decisions.append(Approved() if is_allowed else await self._ask(call))
        return decisions

    async def _ask(self, call: ToolCall) -> Decision:
        try:
            answer = await self._client.choose(self._shown(call), self._choices(call))
        except RpcFault as fault:
            _log.warning("permission not asked", reason=fault.message)
            self._say(f"{call.name} skipped: this client cannot ask ({fault.message})")
            return Rejected(NOBODY_ALLOWS)
        if answer is None:
            raise QuestionClosed
        return self._decision(call, answer)

    def _decision(self, call: ToolCall, answer: str) -> Decision:
        """Return the decision for *answer*; store the rule it asks for."""
        offered = {choice.id for choice in self._choices(call)}
        if answer not in offered or answer == _NO.id:
            return Rejected(UNWANTED)
        try:
            if answer == _SESSION:
                self._app.permissions.remember(call)
            elif answer == _PROJECT:
                self._app.permissions.remember_for_project(call)
        except SettingsError as error:
            self._say(f"The rule was not kept: {error}")
        return Approved()

    def _choices(self, call: ToolCall) -> list[PermissionOption]:
        choices = [_ONCE]
        if rules := self._app.permissions.asked_about(call).rules:
            listed = reveal(", ".join(rules))
            name = f"Yes, and don't ask again this session for {listed}"
            choices.append(PermissionOption(_SESSION, name, "allow_always"))
            if file := self._app.permissions.project_file:
                name = f"Yes, and don't ask again in this project for {listed} (kept in {file})"
                choices.append(PermissionOption(_PROJECT, name, "allow_always"))
        return [*choices, _NO]

    def _shown(self, call: ToolCall) -> dict[str, Json]:
        """Return the fields that show *call*, with the reason for asking before its effect."""
        described = self._described(call)
        planned = described["content"]
        assert isinstance(planned, list)
        why = [f"Why it asks: {call.reason}"] if call.reason else []
        facts = [*why, *self._app.permissions.asked_about(call).facts]
        lines: list[Json] = [{"type": "content", "content": text(reveal(fact))} for fact in facts]
        return {**described, "status": "pending", "content": [*lines, *planned]}


class AgentCalls:
    """Decides about calls of subagents; see `dialogs.CallDialogs`."""

    can_ask = True

    def __init__(self, requests: PermissionRequests, turn: asyncio.Lock) -> None:
        """Ask nothing yet; *turn* is held during a question."""
        self._requests = requests
        self._turn = turn

    async def decide_calls(self, calls: Sequence[ToolCall], who: str) -> Sequence[Decision]:
        """Return the user's decision about each of *calls*; the question names the agent *who*."""
        named = [replace(call, reason=f"{who}: {call.reason}") for call in calls]
        async with self._turn:
            try:
                return await self._requests.decide(named)
            except (QuestionClosed, ConnectionLost):
                return [Rejected(STOPPED, stop=True)] * len(calls)
