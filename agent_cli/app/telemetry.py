"""OpenTelemetry of one session; its modules are imported only if it is enabled."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Final

from agent_cli.app import parts
from agent_cli.app.startup import StartupContext
from agent_cli.contracts.errors import SettingsError
from agent_cli.contracts.events import Event, EventSink
from agent_cli.contracts.provider import StreamFn
from agent_cli.contracts.side_events import CacheLost
from agent_cli.core.agent import Agent
from agent_cli.core.loop_config import LoopConfig
from agent_cli.providers.anthropic.connection import DEFAULT_BASE_URL
from agent_cli.system.loading import is_installed
from agent_cli.system.redaction import Redactor

if TYPE_CHECKING:
    from agent_cli.app.checks import Check
    from agent_cli.telemetry.agent_telemetry import AgentTelemetry
    from agent_cli.telemetry.otlp import OtlpExport

_NEEDED: Final = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http", "requests")
NOT_INSTALLED: Final = (
    "telemetry.enabled is set, but the extra otel is not installed, so nothing is sent; run:"
    " pip install 'agent-cli-repl[otel]'"
)


class SessionTelemetry:
    """The telemetry of a session; leaving `async with` exports the rest."""

    def __init__(self, startup: StartupContext, warn: Callable[[str], None]) -> None:
        """Read the settings; *warn* receives the reasons telemetry cannot be exported."""
        self._telemetry: AgentTelemetry | None = None
        self._export: OtlpExport | None = None
        settings = startup.loaded.settings.telemetry
        self._flush_limit_s = settings.flush_timeout_s
        if settings.enabled:
            try:
                self._build(startup, warn)
            except ImportError:
                warn(NOT_INSTALLED)
            except (SettingsError, OSError, ValueError) as error:
                warn(f"telemetry is off: {' '.join(str(error).split())}")

    def _build(self, startup: StartupContext, warn: Callable[[str], None]) -> None:
        from agent_cli.telemetry.target import is_disabled, target  # off for most

        settings = startup.loaded.settings.telemetry
        variables = startup.environment.without_project()
        if is_disabled(variables):
            return
        where = target(settings.endpoint, variables)
        from agent_cli.telemetry.agent_telemetry import AgentTelemetry
        from agent_cli.telemetry.conventions import Content
        from agent_cli.telemetry.otlp import OtlpExport
        from agent_cli.telemetry.runs import context_of

        process = {name.lower(): text for name, text in variables.items()}
        mask = Redactor.of(startup.environment)
        self._export = OtlpExport(where)
        for complaint in self._export.complaints:
            warn(f"telemetry: {complaint}")
        self._telemetry = AgentTelemetry(
            self._export.tracer_provider,
            self._export.meter_provider,
            content=Content(mask.value) if settings.content else None,
            parent=context_of(process),
            price=parts.price(startup),
            server=startup.environment.get("ANTHROPIC_BASE_URL") or DEFAULT_BASE_URL,
        )

    def stream(self, ask: StreamFn) -> StreamFn:
        """Return *ask* with its calls recorded."""
        return self._telemetry.stream(ask) if self._telemetry else ask

    def around_calls(self, config: LoopConfig) -> LoopConfig:
        """Return *config* with its permission decisions counted."""
        return self._telemetry.around_calls(config) if self._telemetry else config

    def follow(self, agent: Agent) -> None:
        """Record the runs of *agent* and of its subagents."""
        if self._telemetry:
            self._telemetry.follow(agent)

    def hearing(self, emit: EventSink) -> EventSink:
        """Return a sink that records losses of the prompt cache, then calls *emit*."""
        telemetry = self._telemetry
        if telemetry is None:
            return emit

        def heard(event: Event) -> None:
            if isinstance(event, CacheLost):
                telemetry.cache_lost(event)
            emit(event)

        return heard

    def part_of_trace(self, headers: Mapping[str, str]) -> AbstractContextManager[None]:
        """Make runs started in the body part of the trace in the W3C *headers*, if any."""
        if self._telemetry is None:
            return nullcontext()
        from agent_cli.telemetry.runs import part_of_trace

        return part_of_trace(headers)

    def command_variables(self) -> Mapping[str, str]:
        """Return the environment variables that make a command part of the current trace."""
        if self._telemetry is None:
            return {}
        from agent_cli.telemetry.runs import current_variables

        return current_variables()

    async def __aenter__(self) -> "SessionTelemetry":
        return self

    async def __aexit__(self, *_failure: object) -> None:
        if self._telemetry and self._export:
            self._telemetry.close()
            await self._export.aclose(self._flush_limit_s)


def telemetry_checks(startup: StartupContext) -> Iterator["Check"]:
    """Yield each telemetry destination and whether it can be reached, if telemetry is enabled."""
    from agent_cli.app.checks import Check  # with doctor

    settings = startup.loaded.settings.telemetry
    if not settings.enabled:
        return
    from agent_cli.telemetry.target import is_disabled, target

    variables = startup.environment.without_project()
    if is_disabled(variables):
        yield Check("telemetry", None, "off: OTEL_SDK_DISABLED is true")
        return
    if not all(map(is_installed, _NEEDED)):
        yield Check("telemetry", False, NOT_INSTALLED)
        return
    try:
        where = target(settings.endpoint, variables)
    except SettingsError as error:
        yield Check("telemetry", False, str(error))
        return
    for name, signal in (("traces", where.traces), ("metrics", where.metrics)):
        if signal:
            problem = signal.problem()
            text = f"{name} to {signal.shown}"
            yield Check("telemetry", not problem, f"{text}: {problem}" if problem else text)
