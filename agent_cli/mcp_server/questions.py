"""Questions to the client's user, in both ways of the protocol.

Up to revision 2025-11-25 the server asks during the call. Since 2026-07-28 the call ends with the
questions and is repeated with the answers; meanwhile the run waits in its session.
"""

from collections.abc import Mapping
from typing import Final

from mcp import MCPError
from mcp.server.mcpserver import Context
from mcp_types import (
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
    InputResponses,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, Field

from agent_cli.mcp_server.runs import AnswersNeeded, Asker
from agent_cli.system.logger import logger

_log = logger(__name__)


class _Decision(BaseModel):
    """The form of a question."""

    allow: bool = Field(default=False, title="Allow this call")


_SCHEMA: Final = {
    "type": "object",
    "properties": {"allow": {"type": "boolean", "title": "Allow this call", "default": False}},
}


def asker_of(ctx: Context) -> Asker:
    """Return the asker for the user of *ctx*; any answer but yes means no."""
    if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return _BetweenCalls(ctx.input_responses or {})
    return _DuringCall(ctx)


def questions_for(session: str, questions: Mapping[str, str]) -> InputRequiredResult:
    """Return the result that makes the client ask, and repeat the call for *session*."""
    requests = {
        id: ElicitRequest(
            params=ElicitRequestFormParams(message=question, requested_schema=_SCHEMA)
        )
        for id, question in questions.items()
    }
    return InputRequiredResult(input_requests=dict(requests), request_state=session)


class _DuringCall:
    """Asks during the call."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx

    async def prepare(self, questions: Mapping[str, str]) -> None:
        """Do nothing: questions are asked one by one."""

    async def __call__(self, _id: str, question: str) -> bool:
        try:
            answer = await self._ctx.elicit(question, _Decision)
        except (MCPError, ValueError) as error:
            _log.info("the client did not ask its user", fault=str(error))
            return False
        return answer.action == "accept" and answer.data.allow


class _BetweenCalls:
    """Uses the answers that came with the call, each for one question."""

    def __init__(self, answers: InputResponses) -> None:
        self._answers = dict(answers)

    async def prepare(self, questions: Mapping[str, str]) -> None:
        """Raise AnswersNeeded unless each question has an answer."""
        if not questions.keys() <= self._answers.keys():
            raise AnswersNeeded(questions)

    async def __call__(self, id: str, _question: str) -> bool:
        match self._answers.pop(id):
            case ElicitResult(action="accept", content={"allow": True}):
                return True
            case _:
                return False
