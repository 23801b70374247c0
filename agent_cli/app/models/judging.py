"""The judge of the mode auto: a small model says yes where nothing is at stake."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final, Protocol

from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.permission_modes import Mode
from agent_cli.contracts.provider import Model
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import Allow, Ask, Tool, Verdict
from agent_cli.core.conversation import Conversation
from agent_cli.core.returned_values import Maybe, settled
from agent_cli.policies.permission_rules import COMMAND_TOOL, command_of
from agent_cli.policies.permissions import Permissions

if TYPE_CHECKING:
    from agent_cli.policies.judge import Judge, JudgedCall
    from agent_cli.policies.shell import Reach

_MODEL: Final = "small"
_SHOWN_MAX: Final = 200
_USERS_OWN: Final = "the judge decides nothing that may be final, unclear or outside the workspace"
# One retry after a broken connection: the user answers sooner than a server that is overloaded.
_WAITS_S_MAX: Final = 2.0


class Models(Protocol):
    """The part of `ModelCalls` that a judge needs."""

    def named(self, name: str | None = None) -> Model:
        """Return the model *name*."""
        ...

    async def answer(
        self, model: Model, system: str, prompt: str, *, max_tokens: int, waits_s_max: float
    ) -> str:
        """Return the text that *model* answers; raises `AgentCliError`."""
        ...


class SessionJudge:
    """Wraps `authorize_tool` of the session's agents; nothing is imported before it is needed.

    Attributes:
        verdicts: Those of this session, the newest last.
    """

    def __init__(
        self,
        models: Models,
        permissions: Permissions,
        reach: "Reach",
        session: Callable[[], Conversation],
    ) -> None:
        """Judge nothing yet; *session* returns the conversation with the user."""
        self._reach = reach
        self._models = models
        self._permissions = permissions
        self._session = session
        self.verdicts: Sequence[JudgedCall] = ()

    def around(
        self,
        authorize: Callable[[ToolCall, Tool, object], Maybe[Verdict]],
        *,
        mode: Callable[[], Mode],
        agent: Callable[[], Conversation],
    ) -> Callable[[ToolCall, Tool, object], Awaitable[Verdict]]:
        """Return *authorize* with a judge behind it while *mode* returns "auto".

        Args:
            authorize: The permissions; a question of the mode alone goes to the judge, any other
                stays one. So does one that an attempt without effects may still answer.
            mode: Returns the mode that holds for the agent.
            agent: Returns the conversation of the agent that calls.
        """

        async def judged(call: ToolCall, tool: Tool, params: object) -> Verdict:
            verdict: Verdict = await settled(authorize(call, tool, params))
            if not isinstance(verdict, Ask) or not verdict.by_mode or verdict.attempt_failed:
                return verdict
            if mode() != "auto":
                return verdict
            if self._is_users_own(call, tool):
                self._permissions.add_fact(call, _USERS_OWN)
                return verdict
            found = await self._judge.judge(call, agent())
            if found not in self.verdicts:
                self.verdicts = (*self.verdicts, found)[-_SHOWN_MAX:]
            if found.is_allowed:
                return Allow(input=verdict.input, holds=verdict.holds)
            self._permissions.add_fact(call, found.reason)
            return verdict

        return judged

    def _is_users_own(self, call: ToolCall, tool: Tool) -> bool:
        """Return whether *call* cannot be undone, leaves the workspace, or is unclear.

        That is known from the text, and from a server that says so; no model may overrule it.
        """
        if tool.destroys or any(part.is_danger for part in self._permissions.explain(call)):
            return True
        from agent_cli.policies.shell import reserved

        if call.name == COMMAND_TOOL:
            return reserved.is_reserved(command_of(call), self._reach)
        return any(reserved.is_reserved_value(text, self._reach) for text in _texts(call.input))

    @cached_property
    def _judge(self) -> "Judge":
        from agent_cli.policies.judge import Judge  # in the mode auto only

        return Judge(self._ask, session=self._session)

    async def _ask(self, text: str) -> str:
        from agent_cli.policies.judge import INSTRUCTIONS, OUTPUT_TOKENS_MAX

        model = self._models.named(_MODEL)
        return await self._models.answer(
            model, INSTRUCTIONS, text, max_tokens=OUTPUT_TOKENS_MAX, waits_s_max=_WAITS_S_MAX
        )


def _texts(value: Json) -> Iterator[str]:
    """Yield the texts of an input, however deep they stand."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from (text for each in value.values() for text in _texts(each))
    elif isinstance(value, Sequence):
        yield from (text for each in value for text in _texts(each))
