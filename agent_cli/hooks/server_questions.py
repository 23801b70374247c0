"""Ask hooks about the questions of MCP servers to the user, and about the user's answers."""

from collections.abc import Mapping

from agent_cli.contracts.dialogs import Filled
from agent_cli.contracts.timeline import Json
from agent_cli.hooks.answers import HookAnswer
from agent_cli.hooks.event_hooks import EventHooks


class ServerQuestionHooks:
    """Fills `app.mcp.host.QuestionHooks`."""

    def __init__(self, asking: EventHooks) -> None:
        """Use *asking*."""
        self._asking = asking

    async def asks(self, server: str, about: Mapping[str, Json]) -> Filled | None:
        """Return the answer of Elicitation hooks to a question; None to ask the user."""
        answer = await self._asking.ask("Elicitation", server, mcp_server_name=server, **about)
        return self._refusal("question", server, answer) or answer.filled

    def shown(self, server: str) -> None:
        """Tell Notification hooks that the user is asked."""
        told = f"MCP server {server} has a question"
        kind = "elicitation_dialog"
        self._asking.tell("Notification", kind, message=told, notification_type=kind)

    async def answered(self, server: str, about: Mapping[str, Json], filled: Filled) -> Filled:
        """Return what the server gets in place of the user's answer *filled*."""
        given: dict[str, Json] = {"action": filled.action, **about}
        if filled.values:
            given["content"] = dict(filled.values)
        answer = await self._asking.ask(
            "ElicitationResult", server, mcp_server_name=server, **given
        )
        return self._refusal("answer", server, answer) or answer.filled or filled

    def _refusal(self, what: str, server: str, answer: HookAnswer) -> Filled | None:
        if answer.decision != "deny" and not answer.stops:
            return None
        if not answer.fault:  # that is shown already
            why = answer.reason or answer.stops
            self._asking.warn(f"a hook declined the {what} for MCP server {server}: {why}")
        return Filled("decline")
