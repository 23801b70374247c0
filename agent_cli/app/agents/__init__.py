"""Subagents of a session: which are available, and which are at work, as shown to the user."""

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from agent_cli.agents.children import WAITS, AgentActivity, Assignment
from agent_cli.agents.definitions import AgentCatalogue, AgentDefinition, AgentFolder
from agent_cli.app.startup import StartupContext
from agent_cli.contracts.agents import AgentInfo, AgentServer, AgentWork
from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.servers import ServerState
from agent_cli.contracts.wording import one_line, whole_seconds
from agent_cli.core.agent import Agent
from agent_cli.system import paths
from agent_cli.system.records import dataclass, field
from agent_cli.system.repositories import in_each, project_folders
from agent_cli.trust.store import AGENT_FOLDERS

_ENDED_MAX: Final = 20
_TITLE_CHARS_MAX: Final = 120


@dataclass(slots=True, eq=False)
class _Listed:
    number: int
    assignment: Assignment
    root_call_id: str
    agent: Agent | None = None
    doing: str = WAITS
    started_s: float = field(default_factory=time.monotonic)
    ended_s: float | None = None
    servers: Callable[[], Sequence[ServerState]] = tuple

    def has_servers_of(self, definition: AgentDefinition) -> bool:
        is_running = self.ended_s is None
        return is_running and self.assignment.definition is definition and bool(self.servers())

    def is_parent_of(self, assignment: Assignment) -> bool:
        return self.agent is not None and self.agent.conversation.id == assignment.parent

    def note(self, doing: str) -> None:
        self.doing = doing

    def info(self) -> AgentInfo:
        end_s = time.monotonic() if self.ended_s is None else self.ended_s
        passed = whole_seconds(int(end_s - self.started_s))
        is_running, is_stopping = self.ended_s is None, self.assignment.stop.cancelled
        doing = "stopping" if is_stopping else self.doing
        how = f"{doing} · {passed}" if is_running else f"ended after {passed}"
        title = one_line(self.assignment.who, _TITLE_CHARS_MAX)
        call_id = self.assignment.tool_call_id
        return AgentInfo(
            self.number,
            title,
            how,
            is_running,
            call_id,
            self.root_call_id,
            is_stopping=is_running and is_stopping,
            is_asking=is_running and bool(self.agent and self.agent.conversation.questions()),
        )


class AgentList:
    """Agents at work or waiting for their turn, and the last that ended, by number."""

    def __init__(self, definitions: Callable[[], Sequence[AgentDefinition]]) -> None:
        """List no agents yet; *definitions* returns the agents that may start MCP servers."""
        self._definitions = definitions
        self._listed: list[_Listed] = []
        self._last = 0

    @contextmanager
    def working(self, assignment: Assignment) -> Generator[None]:
        """List an agent for *assignment* as working while the body runs."""
        self._last += 1
        above = (each.root_call_id for each in self._listed if each.is_parent_of(assignment))
        listed = _Listed(self._last, assignment, next(above, assignment.tool_call_id))
        ended = [each for each in self._listed if each.ended_s is not None]
        forgotten = ended[: max(0, len(ended) - _ENDED_MAX)]
        self._listed = [*(each for each in self._listed if each not in forgotten), listed]
        try:
            yield
        finally:
            listed.ended_s = time.monotonic()

    def note(self, assignment: Assignment, doing: str) -> None:
        """Show *doing* as the activity of the agent for *assignment*."""
        self._of(assignment).note(doing)

    @contextmanager
    def following(self, assignment: Assignment, agent: Agent) -> Generator[None]:
        """Show the activity and the work of *agent*; the activity while the body runs."""
        listed = self._of(assignment)
        listed.agent = agent
        unsubscribe = agent.subscribe(AgentActivity(listed.note, lambda: agent.state.tools))
        try:
            yield
        finally:
            unsubscribe()

    def uses(self, assignment: Assignment, servers: Callable[[], Sequence[ServerState]]) -> None:
        """Show *servers*, used by the agent for *assignment* alone, while it works."""
        self._of(assignment).servers = servers

    def servers(self) -> Sequence[AgentServer]:
        """Return the servers of working agents, and the servers that start with other agents."""
        found: list[AgentServer] = []
        for definition in self._definitions():
            running = [each for each in self._listed if each.has_servers_of(definition)]
            for each in running:
                who = f"{definition.name} {each.number}"
                found += [AgentServer(who, state.name, state) for state in each.servers()]
            if not running:
                found += [AgentServer(definition.name, name) for name in definition.own_servers]
        return found

    @property
    def is_any_working(self) -> bool:
        """Whether any agent is working."""
        return any(each.ended_s is None for each in self._listed)

    def all(self) -> Sequence[AgentInfo]:
        """Return the agents in the order they were started."""
        return [each.info() for each in self._listed]

    def work(self, number: int) -> AgentWork:
        """Return the work of an agent so far; raises `UsageError` if there is no such agent."""
        listed = self._named(number)
        info, task = listed.info(), listed.assignment.task
        if listed.agent is None:
            return AgentWork(info, task)
        return AgentWork(info, task, listed.agent.conversation.prompts, listed.agent.state.tools)

    def stop(self, number: int) -> AgentInfo:
        """Stop an agent and all its subagents; raises `UsageError` if there is no such agent."""
        listed = self._named(number)
        if listed.ended_s is None:
            listed.assignment.stop.cancel()
            if listed.agent:
                listed.agent.abort()
        return listed.info()

    def _named(self, number: int) -> _Listed:
        for each in self._listed:
            if each.number == number:
                return each
        raise UsageError(f"there is no agent {number}; /agents lists them")

    def _of(self, assignment: Assignment) -> _Listed:
        return next(each for each in self._listed if each.assignment is assignment)


def catalogue(startup: StartupContext, warn: Callable[[str], None]) -> AgentCatalogue:
    """Return the available agents; agents of the workspace only if it is trusted."""
    around = project_folders(startup.workspace)
    project = [AgentFolder(path, inside=around[-1]) for path in in_each(around, AGENT_FOLDERS)]
    own = [AgentFolder(folder / "agents") for folder in paths.own_dirs()]
    folders = [*own, *(project if startup.trusted else ())]
    return AgentCatalogue(
        folders, of_program=startup.agents, warn=warn, objection=startup.objection
    )


def plugin_agents(
    startup: StartupContext, packages: Mapping[str, Path]
) -> Mapping[str, Sequence[AgentFolder]]:
    """Return the agent directories of the plugins that the user added, and of *packages*."""
    added = {
        plugin.name: [AgentFolder(path, filling=plugin.filled) for path in plugin.folders["agents"]]
        for plugin in startup.plugins
        if plugin.folders["agents"]
    }
    return {**added, **{name: [AgentFolder(path)] for name, path in packages.items()}}
