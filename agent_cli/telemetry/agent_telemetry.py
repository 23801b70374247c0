"""Spans and metrics of agents, from their events, model calls and permission decisions."""

from collections.abc import AsyncIterator, Callable
from dataclasses import replace

from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import TracerProvider

from agent_cli.contracts.events import (
    AgentEnd,
    AgentEvent,
    AgentStart,
    ApprovalRequested,
    Event,
    PromptOutput,
    ToolCall,
    ToolExecutionEnd,
    ToolExecutionStart,
)
from agent_cli.contracts.options import require
from agent_cli.contracts.provider import (
    Model,
    ModelRequest,
    Price,
    Provider,
    ProviderRegistry,
    StreamEvent,
    StreamFn,
)
from agent_cli.contracts.side_events import CacheLost, ToolAttemptStart
from agent_cli.contracts.timeline import Pending, ToolOutput
from agent_cli.contracts.tooling import Ask, Tool, Verdict
from agent_cli.core.agent import Agent
from agent_cli.core.loop_config import LoopConfig
from agent_cli.core.returned_values import settled
from agent_cli.system.records import dataclass
from agent_cli.telemetry.conventions import Content, Instruments, word_for
from agent_cli.telemetry.runs import RunSpans, current_run
from agent_cli.telemetry.spans import ChatSpans, Recorder, ToolSpans
from agent_cli.version import __version__

_SCOPE = "agent_cli"


class AgentTelemetry:
    """Records agents' runs; the spans of subagents are children of the calls that start them.

    A library passes its own providers, or none to use the global ones:

        telemetry = AgentTelemetry()
        agent = Agent(telemetry.around(config))
        telemetry.follow(agent)
    """

    def __init__(
        self,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        *,
        content: Content | None = None,
        parent: Context | None = None,
        price: Price = lambda _model, _usage: None,
        server: str = "",
    ) -> None:
        """Record nothing yet.

        Args:
            tracer_provider: Receives the spans; None means the global one.
            meter_provider: Receives the metrics; None means the global one.
            content: Serialises prompts, replies, arguments and results; None leaves them out.
            parent: The trace for runs that start outside of any trace.
            price: Returns the price of a model's tokens in millionths of a dollar, None if unknown.
            server: The URL of the model's API.
        """
        tracer = trace.get_tracer(_SCOPE, __version__, tracer_provider)
        meter = metrics.get_meter(_SCOPE, __version__, meter_provider)
        self._instruments = Instruments(meter)
        recorder = Recorder(tracer, self._instruments, content)
        self._runs = RunSpans(tracer, parent)
        self._tools = ToolSpans(recorder)
        self._chats = ChatSpans(
            recorder, parent_context=lambda: self._runs.parent_context, price=price, server=server
        )
        self._counted: set[tuple[str, str]] = set()

    def around(self, config: LoopConfig) -> LoopConfig:
        """Return *config* with a span around each model call, and permission decisions counted."""
        require(config, LoopConfig, what="config")
        config = self.around_calls(config)
        return replace(
            config,
            stream_fn=config.stream_fn and self.stream(config.stream_fn),
            registry=config.registry and _TracedRegistry(config.registry, self.stream),
        )

    def stream(self, ask: StreamFn) -> StreamFn:
        """Return *ask* with a span around each call."""
        return self._chats.around(ask)

    def around_calls(self, config: LoopConfig) -> LoopConfig:
        """Return *config* with its permission decisions counted."""
        authorize = config.authorize_tool
        if authorize is None:
            return config

        async def counted(call: ToolCall, tool: Tool, params: object) -> Verdict:
            verdict: Verdict = await settled(authorize(call, tool, params))
            # An attempt comes before the decision.
            if not (isinstance(verdict, Ask) and verdict.attempt_failed):
                self._count(call.id, call.name, word_for(verdict))
            return verdict

        return replace(config, authorize_tool=counted)

    def follow(self, agent: Agent) -> Callable[[], None]:
        """Record the runs and tool calls of *agent* from now on; return a function to stop it."""
        require(agent, Agent, what="agent")
        return agent.subscribe(lambda event: self._hear(agent.conversation.id, event))

    def cache_lost(self, loss: CacheLost) -> None:
        """Record a loss of the prompt cache, in the run of the current task."""
        self._instruments.cache_lost(loss)
        if run := current_run():
            run.lost(loss)

    def close(self) -> None:
        """Close the spans of runs that wait for a decision; call it before spans are flushed."""
        self._runs.close()

    def _hear(self, conversation_id: str, event: Event) -> None:
        name = "agent-cli"
        while isinstance(event, AgentEvent):
            conversation_id, name, event = event.agent_id, event.agent, event.event
        match event:
            case AgentStart():
                self._runs.begin(conversation_id, name)
            case AgentEnd():
                self._runs.end(conversation_id, event)
            case ToolAttemptStart(tool_call_id=call_id):
                self._tools.attempted(conversation_id, call_id)
            case ApprovalRequested(call=call):
                self._tools.asked(conversation_id, call.id)
            case ToolExecutionStart():
                self._tools.begin(conversation_id, event)
            case ToolExecutionEnd():
                self._tools.end(conversation_id, event)
                self._counted = {each for each in self._counted if each[0] != event.tool_call_id}
            case PromptOutput(output=ToolOutput(result=Pending()) as call) if call.decision:
                self._count(call.tool_call_id, call.name, call.decision)
            case _:
                pass

    def _count(self, call_id: str, tool_name: str, decision: str) -> None:
        """Count a decision once, even if it is reported again while the call waits."""
        if (call_id, decision) not in self._counted:
            self._counted.add((call_id, decision))
            self._instruments.decided(tool_name, decision)


class _TracedRegistry(ProviderRegistry):
    """A registry whose providers record a span around each call."""

    def __init__(self, registry: ProviderRegistry, around: Callable[[StreamFn], StreamFn]) -> None:
        super().__init__()
        self._registry = registry
        self._around = around

    def register(self, api: str, provider: Provider) -> None:
        """Register *provider* for *api* in the registry itself."""
        self._registry.register(api, provider)

    def find(self, model: Model) -> Provider:
        """Return the provider of *model*, recorded; raises `ProviderNotFound`."""
        return _Traced(self._around(self._registry.find(model).stream))


@dataclass(frozen=True, slots=True)
class _Traced:
    """A provider that is a function."""

    ask: StreamFn

    def stream(self, request: ModelRequest) -> AsyncIterator[StreamEvent]:
        """Stream one reply."""
        return self.ask(request)
