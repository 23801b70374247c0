"""The MCP servers of this program: start them, offer their tools to the model, report on them."""

import asyncio
from collections.abc import Callable, Collection, Mapping, MutableMapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

from agent_cli.app.checks.named_tools import belongs, dead_server_rules, denied, require
from agent_cli.app.mcp import configured_servers, inherited_environment
from agent_cli.app.mcp.host import ServerHost
from agent_cli.app.parts import permission_rules
from agent_cli.app.startup import StartupContext
from agent_cli.contracts.errors import AgentCliError
from agent_cli.contracts.events import AgentStart, Event, EventSink, Notice
from agent_cli.contracts.found_tools import (
    ADDITIONS,
    CALL_FOUND,
    HOW_TO_CALL,
    added_by,
    reference_to,
)
from agent_cli.contracts.servers import ServerPhase, ServerState, is_of_server
from agent_cli.contracts.timeline import Block, Json
from agent_cli.contracts.tooling import Tool
from agent_cli.contracts.wording import one_line
from agent_cli.core.projection import has_reply
from agent_cli.core.turn import Turn
from agent_cli.mcp_client import McpServers
from agent_cli.mcp_client.declared_tools import (
    SEARCH_TOOL,
    Deferral,
    Instructions,
    Withdrawals,
    gone_of,
)
from agent_cli.mcp_client.resource_tools import resource_tools
from agent_cli.system.sanitize import reveal

if TYPE_CHECKING:
    from agent_cli.contracts.dialogs import ServerDialogs

_REASON_CHARS_MAX: Final = 300
_LOAD_LIMIT_S: Final = 30.0
_SILENT_WAIT_S: Final = 3.0


class Servers:
    """The servers of a session; leaving `async with` stops all that were started.

    The set of servers and their instructions are fixed when a run begins. Only changes to the tools
    of these servers apply from the next turn, because some offer more tools on request. A run that
    no person watches has no later one: it waits longer, and takes in late servers from the next
    turn. What comes after the first request stands in a message, because a changed prefix is paid
    for again.

    Attributes:
        all: The servers themselves.
        refused: The names of tools that the model's API refuses.
    """

    def __init__(
        self,
        startup: StartupContext,
        host: ServerHost,
        *,
        publish: EventSink,
        one_shot: bool,
        own_tools: Callable[[], Collection[str]] = tuple,
        denies: Callable[[str], bool] = lambda _name: False,
    ) -> None:
        """Start nothing yet.

        Args:
            startup: The configured servers and their settings.
            host: Answers the servers' questions.
            publish: Receives notices.
            one_shot: The program answers one prompt, so its reply waits for the servers.
            own_tools: Returns the names of the tools that no server offers.
            denies: Returns whether a rule denies every call of a tool.
        """
        self._startup = startup
        self._host = host
        self._publish = publish
        self._one_shot = one_shot
        self._is_watched = not one_shot and startup.arguments.prompts_from is None
        self._own_tools = own_tools
        self._required_tools = startup.loaded.settings.mcp.require_tools if one_shot else ()
        self._deferral = Deferral(startup.loaded.settings.mcp.defer_beyond_tokens, denies)
        self._withdrawals = Withdrawals()
        self._started_at = 0.0
        self._run_begins = False
        self._awaited = False
        self._required: dict[str, str] = {}
        self._present: set[str] = set()
        self._tools: tuple[Tool, ...] = ()
        self._offered: tuple[Tool, ...] = ()
        self._instructions = Instructions()
        self._of_agents: WeakSet[McpServers] = WeakSet()
        self.refused: set[str] = set()
        self._listed: set[str] = set()
        self._announced: dict[str, Sequence[str]] = {}
        self.all = McpServers(
            inherited_environment(startup),
            on_change=self._changed,
            host=host.as_host(one_shot=one_shot),
        )

    async def __aenter__(self) -> "Servers":
        await self.all.__aenter__()
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self.all.__aexit__(*failure)

    def start(self) -> None:
        """Start the configured servers in the background; report servers that cannot be started."""
        servers = [*configured_servers(self._startup)]
        self._started_at = asyncio.get_running_loop().time()
        if not servers:
            return
        from agent_cli.mcp_client import ServerProblem  # with the first server

        for server in servers:
            problem = server.reason if isinstance(server, ServerProblem) else ""
            if problem:
                self._warn(problem)
            if server.required or any(belongs(each, server.name) for each in self._required_tools):
                self._required[server.name] = problem
        self.all.start(servers)

    def answer(self, dialogs: "ServerDialogs") -> None:
        """Let *dialogs* answer servers from now on, and show the current state."""
        self._host.dialogs = dialogs
        dialogs.servers_changed()

    def of_agent(self, roots: Callable[[], Sequence[Path]]) -> McpServers:
        """Return a pool for a subagent's own servers, which are answered as these are.

        Args:
            roots: Returns the directories that the subagent works in.
        """
        host = replace(self._host.as_host(one_shot=self._one_shot), roots=roots)
        pool = McpServers(inherited_environment(self._startup), host=host)
        self._of_agents.add(pool)
        return pool

    def tell_roots(self) -> None:
        """Tell the servers that a directory was added to the workspace."""
        self.all.tell_roots()

    def leave_out(self, tool: str, reason: str) -> None:
        """Stop offering a tool that the model's API refuses, and tell the user."""
        self.refused.add(tool)
        self._withdrawals.forget(tool)
        servers = (pool.leave_out(tool, reason) for pool in (self.all, *self._of_agents))
        if name := next(filter(None, servers), ""):
            shown, why = one_line(reveal(tool)), one_line(reveal(reason), _REASON_CHARS_MAX)
            self._warn(
                f"the model's API refuses {shown} of MCP server '{name}'; it is left out: {why}"
            )

    def note_run(self, event: Event) -> None:
        """React to the beginning of a run; an event sink."""
        if isinstance(event, AgentStart):
            self._run_begins = True

    async def __call__(self, turn: Turn) -> None:
        """Add tools and instructions to *turn*; a `prepare` contributor.

        Raises:
            AgentCliError: No person watches, and a required server or tool is not there.
        """
        if self._run_begins:
            await self._wait_for_start()
        if self._run_begins or self._one_shot:
            self._run_begins = False
            states = self.all.states()
            self._present = {s.name for s in states if s.phase is ServerPhase.READY or s.tools}
            self._instructions.current = self.all.instructions()
        await self.all.wait_listed()
        self._tools = self._available(self._present)
        self._require_tools()
        states = self.all.states()
        added = added_by(turn.conversation.context()) if states else None
        ready = {s.name for s in states if s.phase is ServerPhase.READY} & self._present
        self._offered = self._withdrawals.declared(
            self._chosen(self._tools, turn.config.state, added),
            is_new=not has_reply(turn.conversation.prompts),
            gone=gone_of(added or {}, self._tools, ready, {s.name for s in states} - ready),
        )
        if self._deferral.is_fixed:
            self._instructions.fix(added or ())
        if not turn.conversation.open_calls():
            self._tell_news(turn)
        announces = self._deferral.adds and all(tool.name != CALL_FOUND for tool in turn.tools)
        turn.tools += (*self._offered, *((ADDITIONS,) if announces else ()))
        if instructions := self._instructions.in_prompt():
            turn.system.append(instructions)  # behind the part that every session shares

    def _tell_news(self, turn: Turn) -> None:
        """Tell the model which tools came later, and what their servers say about them."""
        changes, changed = self._withdrawals.news(turn.conversation.context())
        news, added = self._deferral.news()
        if text := "\n\n".join(filter(None, (changes, news, self._instructions.news(added)))):
            blocks = [*changed, *(reference_to(tool.spec) for tool in added)]
            turn.tell_model(text, author="mcp", blocks=blocks)

    def _available(self, present: Collection[str] | None = None) -> tuple[Tool, ...]:
        """Return the tools of the *present* servers, and the tools for their resources."""
        readable = self.all.with_resources()
        if present is not None:
            readable = readable.intersection(present)
        tools = self.all.tools(present)
        return (*resource_tools(self.all, readable), *tools) if readable else tools

    def _chosen(
        self,
        tools: Sequence[Tool],
        state: MutableMapping[str, Json],
        added: Mapping[str, Block] | None = None,
    ) -> tuple[Tool, ...]:
        return self._deferral.offered(tools, state, always=self.all.always_loaded(), added=added)

    async def _wait_for_start(self) -> None:
        """Wait for starting servers, because a reply without their tools is of little use.

        The limit runs from their start, not from the prompt: a slow typist does not wait.
        """
        if self._awaited:
            return
        settings = self._startup.loaded.settings.mcp
        limit_s = settings.first_prompt_wait_s if self._is_watched else settings.headless_wait_s
        if not self._is_watched:
            # The limit is for the servers: on a busy machine it takes seconds to load the SDK.
            await self.all.wait_started(_LOAD_LIMIT_S, names=())
            self._started_at = asyncio.get_running_loop().time()
        late = await self._late_after(min(limit_s, _SILENT_WAIT_S))
        if late and limit_s > _SILENT_WAIT_S and not self._is_watched:
            self._tell(
                f"waiting for MCP servers still starting: {late}"
                f" ({limit_s:g} s at most, mcp.headless_wait_s)"
            )
        late = late and await self._late_after(limit_s)
        if self._one_shot:
            await self._require()
        if late:
            since = "the next request" if self._one_shot else "a later prompt"
            self._tell(
                f"MCP servers still starting after {limit_s:g} s, used from {since} on: {late}"
            )
        self._awaited = True

    async def _late_after(self, limit_s: float) -> str:
        """Wait until *limit_s* after the start; return the servers that are still starting."""
        left_s = limit_s - (asyncio.get_running_loop().time() - self._started_at)
        await self.all.wait_started(max(left_s, 0))
        late = [state.name for state in self.all.states() if state.phase is ServerPhase.CONNECTING]
        return ", ".join(one_line(reveal(name)) for name in late)

    async def _require(self) -> None:
        """Wait for the required servers, each as long as it may take to start.

        Raises:
            AgentCliError: One is not there.
        """
        await self.all.wait_started(names=self._required)
        states = {state.name: state for state in self.all.states()}
        for name, problem in self._required.items():
            state = states.get(name)
            if state is not None and state.phase is ServerPhase.READY:
                continue
            why = problem or (state.cause or f"it is {state.phase}" if state else "")
            shown = one_line(reveal(name))
            raise AgentCliError(f"MCP server '{shown}' is required, and not there: {why}")

    def _require_tools(self) -> None:
        """Check the required tools, once.

        Raises:
            AgentCliError: One is not offered.
        """
        required, self._required_tools = self._required_tools, ()
        if required:
            own = [*self._own_tools(), *(tool.name for tool in self._tools)]
            servers = [state.name for state in self.all.states()]
            forbidden = denied(permission_rules(self._startup), own)
            offered = [name for name in own if name not in forbidden]
            absent = {**self.all.absent_tools(), **forbidden}
            require(required, offered, absent=absent, servers=servers)

    def why_missing(self, tool: str) -> str:
        """Return why *tool* is not offered, for the model; "" if that is not known."""
        for state in self.all.states():
            if not is_of_server(tool, state.name):
                continue
            if state.phase is ServerPhase.CONNECTING:
                return f"MCP server '{state.name}' is still starting: try again later, or go on."
            if state.phase is not ServerPhase.READY:
                return (
                    f"MCP server '{state.name}' is not available ({state.phase}): go on without it."
                )
        if tool == CALL_FOUND:
            return HOW_TO_CALL
        if any(each.name == tool for each in self._tools):
            return f"{SEARCH_TOOL} must find it first: call that with its name."
        return ""

    def offered(self) -> Sequence[Tool]:
        """Return the tools last offered to the model; before the first run, all available tools."""
        return self._offered or self._chosen(self._available(), {})

    def for_agents(self) -> Sequence[Tool]:
        """Return the available tools; with a tool search, only the offered ones among them."""
        if not self._offered:
            return self.offered()
        there = self._available(self._present)
        names, always = {tool.name for tool in self._offered}, self.all.always_loaded()
        counted = [tool for tool in there if tool.name not in always]
        takes_all = SEARCH_TOOL not in names and self._deferral.takes_all(counted)
        return [tool for tool in there if takes_all or tool.name in names]

    def badges(self) -> Sequence[str]:
        """Return the number of ready servers for the status line."""
        states = self.all.states()
        ready = sum(state.phase is ServerPhase.READY for state in states)
        enabled = sum(
            state.phase not in (ServerPhase.DISABLED, ServerPhase.MISCONFIGURED) for state in states
        )
        return [f"MCP {ready}/{enabled}"] if enabled else []

    def _changed(self, state: ServerState) -> None:
        if state.phase is ServerPhase.FAILED or state.hung:
            self._warn(state.reason)
        if state.phase is ServerPhase.READY and state.name not in self._listed:
            self._listed.add(state.name)
            names = self.all.names_of(state.name)
            for text in dead_server_rules(self._startup, state.name, names, self.all.tools()):
                self._warn(text)
            if self._one_shot:  # with a person, /mcp shows them; changed tools are told below
                for note in (note for note in state.notes if "is withheld" not in note):
                    shown = one_line(reveal(note), _REASON_CHARS_MAX)
                    self._tell(f"MCP server '{one_line(reveal(state.name))}': {shown}")
        if state.changed and state.changed != self._announced.get(state.name):
            self._announced[state.name] = state.changed
            command = "agent-cli mcp" if self._one_shot else "/mcp"
            what = ", ".join(one_line(reveal(tool)) for tool in state.changed)
            self._warn(
                f"MCP server '{state.name}' changed since you approved it; not used for now:"
                f" {what}. {command} approve {state.name} shows what changed"
            )
        if self._host.dialogs is not None:
            self._host.dialogs.servers_changed()

    def _tell(self, text: str) -> None:
        self._publish(Notice("info", text))

    def _warn(self, text: str) -> None:
        self._publish(Notice("warning", text))
