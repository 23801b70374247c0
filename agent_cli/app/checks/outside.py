"""Checks that ask a server: MCP servers, for `agent-cli mcp` too, and the models in use."""

from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TypeAlias

from agent_cli.app import parts
from agent_cli.app.agents import catalogue, plugin_agents
from agent_cli.app.checks import Check, check_access
from agent_cli.app.mcp import configured_servers, inherited_environment, servers_of_agent
from agent_cli.app.models import is_listed
from agent_cli.app.plugins import plugins
from agent_cli.app.startup import StartupContext
from agent_cli.contracts.agents import AgentServer
from agent_cli.contracts.errors import AgentCliError, ModelError
from agent_cli.contracts.listings import OfferedModel
from agent_cli.contracts.provider import Model
from agent_cli.contracts.servers import ServerPhase, ServerState
from agent_cli.contracts.wording import counted
from agent_cli.mcp_client import ServerConfig, ServerProblem
from agent_cli.mcp_client.limits import NO_RESTARTS
from agent_cli.mcp_client.pool import McpServers
from agent_cli.providers.anthropic.model_list import offered_models
from agent_cli.providers.anthropic.platforms import DATED_ID

_Configured: TypeAlias = Sequence[ServerConfig | ServerProblem]


async def check_servers(startup: StartupContext) -> list[Check]:
    """Start every server once; servers of agents for each definition, as their names may repeat."""
    checks = await _checked(startup, [*configured_servers(startup)])
    for agent, configured in _of_agents(startup):
        checks += [_marked(check, agent) for check in await _checked(startup, configured)]
    return checks


def server_problems(startup: StartupContext) -> list[Check]:
    """Return a check for each server whose entry cannot be used; starts none."""
    checks = [*_problems(configured_servers(startup))]
    for agent, configured in _of_agents(startup):
        checks += [_marked(check, agent) for check in _problems(configured)]
    return checks


def checks_of_running(
    states: Iterable[ServerState], of_agents: Iterable[AgentServer]
) -> Iterator[Check]:
    """Yield a check for each server of a running program."""
    yield from map(_check_of, states)
    for server in of_agents:
        if server.state is None:
            yield _marked(Check(f"mcp {server.name}", None, "starts with it"), server.agent)
        elif server.state.phase is not ServerPhase.MISCONFIGURED:  # among the problems already
            yield _marked(_check_of(server.state), server.agent)


async def _checked(startup: StartupContext, configured: _Configured) -> list[Check]:
    usable = [each for each in configured if isinstance(each, ServerConfig)]
    async with connected(inherited_environment(startup), usable) as servers:
        return [*_problems(configured), *map(_check_of, servers.states())]


def _of_agents(startup: StartupContext) -> Iterator[tuple[str, _Configured]]:
    """Yield the name of each agent that brings servers, with its servers."""
    settings = startup.loaded.settings
    if not (settings.agents.enabled and settings.mcp.enabled):
        return
    contributors = plugins(startup, warn=_ignore, one_shot=False)
    contributors.load()
    agents = catalogue(startup, warn=_ignore)
    agents.add_plugins(plugin_agents(startup, contributors.agent_folders()))
    for agent in agents.all():
        if entries := agent.own_servers:
            found = servers_of_agent(startup, entries, Path(agent.source), startup.workspace)
            yield agent.name, [*found]


def _ignore(_text: str) -> None:
    """Ignore a warning: others tell it."""


def _problems(configured: Iterable[ServerConfig | ServerProblem]) -> Iterator[Check]:
    for server in configured:
        if isinstance(server, ServerProblem):
            yield Check(f"mcp {server.name}", False, server.reason)


def _check_of(state: ServerState) -> Check:
    good = state.phase is ServerPhase.READY
    waits = state.phase in (ServerPhase.DISABLED, ServerPhase.CONNECTING)
    text = counted(state.tools, "tool") if good else state.cause or str(state.phase)
    return Check(f"mcp {state.name}", None if waits else good, text)


def _marked(check: Check, agent: str) -> Check:
    return replace(check, name=f"{check.name} (agent {agent})")


async def check_models(startup: StartupContext, model: Model) -> Sequence[Check]:
    """Return a check of *model* and the models of `[models]`; none without a key."""
    if not is_listed(model):
        return ()
    try:
        check_access(startup)
    except AgentCliError:
        return ()
    try:
        offered = await offered_models(parts.connection(startup))
    except ModelError as error:
        return (Check("models", None, str(error)),)  # other servers have no such list
    if not offered:
        return (Check("models", None, "the server lists none"),)
    aliases = startup.loaded.settings.models
    used = {model.id: "model", **{id: f"models.{a}" for a, id in aliases.items()}}
    faults = [*_faults(used, offered, date.today())]
    return faults or (Check("models", True, f"{len(offered)} offered, those in use among them"),)


def _faults(
    used: Mapping[str, str], offered: Sequence[OfferedModel], today: date
) -> Iterator[Check]:
    """Yield a check for each of the models *used*, ids to settings, that is going or unknown."""
    known = {name: each for each in offered for name in (DATED_ID.sub("", each.id), each.id)}
    for id, setting in used.items():
        found = known.get(id)
        if found is None:
            yield Check("models", None, f"{id} is not in the list of the server ({setting})")
        elif found.ends_soon(today):
            text = f"{id} {found.state}: name another in {setting}; agent-cli models lists them"
            yield Check("models", False, text)


# The limits of the servers do not include the time to import the SDK.
_LOADING_S = 5.0


def _ignore_count(_settled: int) -> None:
    """Ignore the count."""


@asynccontextmanager
async def connected(
    environment: Mapping[str, str],
    configs: Sequence[ServerConfig],
    on_settled: Callable[[int], None] = _ignore_count,
) -> AsyncGenerator[McpServers]:
    """Start *configs* once, wait until each is ready or has failed, and end them on exit.

    Args:
        environment: Inherited by stdio servers, without our own secrets.
        configs: The servers.
        on_settled: Called with the number of servers that are ready or have failed.
    """
    settled: set[str] = set()

    def note(state: ServerState) -> None:
        if state.phase is not ServerPhase.CONNECTING:
            settled.add(state.name)
            on_settled(len(settled))

    async with McpServers(environment, restarts=NO_RESTARTS, on_change=note) as servers:
        servers.start(configs)
        limit_s = max((each.startup_timeout_s for each in configs), default=0)
        await servers.wait_started(limit_s + _LOADING_S)
        yield servers
