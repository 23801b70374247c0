"""Calls of the session's models, and what they cost.

The watches around the calls of each agent, single answers, those of the judge in the mode auto, and
requests that keep the prompt cache warm.
"""

import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Final, Protocol
from weakref import WeakSet

from agent_cli.app import parts
from agent_cli.app.models import Providers, unsent_images
from agent_cli.app.startup import StartupContext
from agent_cli.app.telemetry import SessionTelemetry
from agent_cli.contracts.errors import ModelError
from agent_cli.contracts.events import EventSink, ToolCall
from agent_cli.contracts.messages import INCOMPLETE, CustomMessage, UserMessage, is_cut_off
from agent_cli.contracts.permission_modes import Mode
from agent_cli.contracts.provider import Model, ModelRequest, StreamFn
from agent_cli.contracts.timeline import Json, Prompt, text_of
from agent_cli.contracts.tooling import Allow, Ask, Tool, Verdict
from agent_cli.contracts.wording import in_microdollars
from agent_cli.core.conversation import Conversation
from agent_cli.core.returned_values import Maybe, settled
from agent_cli.policies.accounts import Account, metered, spending_now
from agent_cli.policies.cache_watch import CacheWatch
from agent_cli.policies.ledger import Ledger
from agent_cli.policies.model_fallback import FallbackModels, ModelFallback
from agent_cli.policies.permission_rules import COMMAND_TOOL, command_of
from agent_cli.policies.permissions import Permissions
from agent_cli.policies.prefix_watch import Consent, PrefixWatch
from agent_cli.policies.side_questions import reply_to
from agent_cli.providers.anthropic.betas import SERVER_FALLBACK
from agent_cli.providers.anthropic.models import level_for, thinking_parameters
from agent_cli.system.records import dataclass

if TYPE_CHECKING:
    from agent_cli.app.workbench import Workbench
    from agent_cli.policies.judge import Judge, JudgedCall
    from agent_cli.policies.shell import Reach

_NO_ANSWER: Final = INCOMPLETE | {"tool_use"}


@dataclass(frozen=True, slots=True)
class AgentWatches:
    """The watches around the calls of one agent; `fallback` asks through `cache`.

    Attributes:
        cache: Reports the tokens that a reply read anew.
        prefix: Reports the tokens that a request will read anew, before it is sent.
        fallback: Asks another model where the agent's does not answer.
    """

    cache: CacheWatch
    prefix: PrefixWatch
    fallback: ModelFallback


class ModelCalls:
    """The connection to the provider behind the ledger of the session.

    Attributes:
        ledger: Holds the limits; every call of the session goes through it.
        stream: Asks a model.
        record: Counts usage in the prompt at work, and publishes it.
    """

    def __init__(
        self,
        startup: StartupContext,
        *,
        telemetry: SessionTelemetry,
        on_sent: Callable[[], None],
        on_refused_tool: Callable[[str, str], None],
        conversation: Callable[[], Conversation],
        of_agents: Callable[[Prompt], int],
        publish: EventSink,
    ) -> None:
        """Connect to nothing yet.

        Args:
            startup: The settings and the credentials.
            telemetry: Records the calls, and the losses of the prompt cache.
            on_sent: Called after each request.
            on_refused_tool: Called with the name of an MCP tool that the API refused, and why.
            conversation: Returns the conversation that bears the cost; it is built later.
            of_agents: Returns the cost of a prompt's subagents, in micro-dollars.
            publish: Receives the usage of answers that stand in no conversation, and notices.
        """
        self._startup = startup
        self.record = spending_now(conversation, publish)
        self._publish = publish
        self._hearing = telemetry.hearing(publish)
        self._prefixes: WeakSet[PrefixWatch] = WeakSet()
        limit = in_microdollars(startup.loaded.settings.max_cost_usd)
        providers = Providers(startup, on_sent=on_sent, on_refused_tool=on_refused_tool)
        self._provider = providers.provider
        self.ledger = Ledger(
            telemetry.stream(providers.stream),
            conversation,
            price=parts.price(startup),
            account=Account(limit, surcharge=parts.surcharge(startup)),
            of_agents=of_agents,
            count=self._provider.count_tokens,
        )
        self.stream = self.ledger.stream

    def named(self, name: str | None = None) -> Model:
        """Return the model *name*, an alias or an id; the settings' model without a name."""
        return parts.model(self._startup, name)

    async def answer(
        self,
        model: Model,
        system: str,
        prompt: str,
        *,
        max_tokens: int,
        waits_s_max: float = math.inf,
    ) -> str:
        """Return the text that *model* answers to *prompt* alone; the session bears the cost.

        Raises:
            AgentCliError: There is no whole answer, the waits before retries would be longer than
                *waits_s_max* together, or the limit of cost is reached.
        """
        self.ledger.check()
        request = ModelRequest(
            model=model,
            messages=(UserMessage.of(prompt),),
            system=(system,),
            max_tokens=min(max_tokens, model.max_output_tokens),
            stands_alone=True,
        )
        stream_fn = metered(self.stream, self.record)
        reply = await reply_to(request, stream_fn, self._publish, waits_s_max=waits_s_max)
        if reply.stop_reason in _NO_ANSWER or is_cut_off(reply.stop_reason):
            raise ModelError(f"the answer is not whole: {reply.stop_reason}")
        return text_of(reply.content)

    def watches(
        self,
        stream: StreamFn,
        conversation: Callable[[], Conversation],
        *,
        consent: Consent | None = None,
    ) -> AgentWatches:
        """Return the watches of the agent that has *conversation* and asks models by *stream*.

        *consent* asks a person whether to read much anew.
        """
        price = parts.price(self._startup)
        cache = CacheWatch(stream, price=price, emit=self._hearing, conversation=conversation)
        prefix = PrefixWatch(
            price,
            ask_above=in_microdollars(self._startup.loaded.settings.reread_question_usd),
            consent=consent,
            unsent=unsent_images(self._startup),
            effort_is_free=self.effort_is_free,
            on_told=cache.expect_loss,
        )
        self._prefixes.add(prefix)
        fallback = ModelFallback(
            cache.stream,
            self._fallback_models(),
            price=price,
            emit=self._publish,
            expect_loss=cache.expect_loss,
            on_answer=prefix.note_fallback,
        )
        return AgentWatches(cache, prefix, fallback)

    def forget_tool(self, name: str) -> None:
        """Note that requests are sent without the tool *name*, which the API refused."""
        for prefix in self._prefixes:
            prefix.forget_tool(name)

    def _fallback_models(self) -> FallbackModels:
        """Return the models to ask where another is overloaded or declines."""
        settings = self._startup.loaded.settings
        platform = parts.connection(self._startup).platform
        names = [name.strip() for each in settings.model_fallback for name in each.split(",")]
        return FallbackModels(
            models=tuple(self.named(name) for name in names if name),
            by_server=settings.provider.is_whole and platform.name in SERVER_FALLBACK.platforms,
            level_for=level_for
            if settings.provider.speaks_messages
            else (lambda _model, level: level),
        )

    def effort_is_free(self, model_id: str) -> bool:
        """Return whether a change of the effort leaves what the model has cached."""
        return self._provider.states_effort(self.named(model_id))

    def lacking(self, model: Model) -> str:
        """Return what requests for *model* do without now, as a sentence; "" if nothing."""
        return self._provider.lacking(model)

    def preload(self) -> None:
        """Import the provider's client in the background."""
        self._provider.preload()

    async def aclose(self) -> None:
        """Close the idle connections."""
        await self._provider.aclose()


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


@asynccontextmanager
async def kept_warm(
    bench: "Workbench", startup: StartupContext, *, one_shot: bool
) -> AsyncGenerator[None]:
    """Keep the cache of *bench* warm in the block; not after the only prompt of *one_shot*."""
    settings = startup.loaded.settings
    when = settings.keep_cache_warm
    if when == "off" or one_shot or not settings.provider.is_whole:
        yield
        return
    from agent_cli.policies.cache_warming import CacheWarming  # off by default

    def session_id() -> str:
        return bench.agent.options.session_id or bench.agent.conversation.id

    def left() -> float:
        account = bench.calls.ledger.account
        return account.left() if account.is_limited else math.inf

    def note_renewal(at_s: float) -> None:
        bench.watches.cache.note_renewal(at_s)
        bench.watches.prefix.note_renewal(at_s)

    warming = CacheWarming(
        when,
        metered(bench.answer_format.stream, bench.calls.record),
        price=parts.price(startup),
        session_id=session_id,
        can_repeat=lambda request: _thinks_without_budget(request) and _goes_on(bench, request),
        left=left,
        on_renewed=note_renewal,
    )
    bench.watches.cache.warming = warming
    unsubscribe = bench.agent.subscribe(warming.listen)
    try:
        async with warming:
            yield
    finally:
        unsubscribe()


def _goes_on(bench: "Workbench", request: ModelRequest) -> bool:
    """Return whether the next request will begin as *request* does.

    It will not after a compaction, a rewind, or a switch of the model, nor after a model answered
    for another that was overloaded: no request would use what is cached.
    """
    level, model = bench.agent.state.thinking_level, bench.model
    same_effort = request.thinking_level == level or bench.calls.effort_is_free(model.id)
    context = bench.agent.conversation.context()
    messages = [each for each in context if not isinstance(each, CustomMessage)]
    begins = tuple(messages[: len(request.messages)]) == request.messages
    return request.model == model and same_effort and begins


def _thinks_without_budget(request: ModelRequest) -> bool:
    """Return whether the limit of the reply is no part of what the cache knows the request by."""
    thinking = thinking_parameters(request, compat=False).get("thinking")
    return not (isinstance(thinking, dict) and thinking["type"] == "enabled")
