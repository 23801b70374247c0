"""MCP servers for the REPL's tests: scripted features, recorded requests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agent_cli.contracts.errors import ToolError, UsageError
from agent_cli.contracts.servers import (
    PromptArgument,
    ServerPhase,
    ServerPrompt,
    ServerResource,
    ServerState,
)
from agent_cli.contracts.timeline import Block, text_block
from agent_cli.repl.mcp import Visit

GREET = ServerPrompt(
    server="docs",
    name="greet",
    command="mcp__docs__greet",
    description="Greet somebody",
    arguments=(PromptArgument("name", "Who", required=True), PromptArgument("style", "How")),
)
TODAY = ServerResource(
    server="docs", uri="note://today", name="Today", description="A note", media_type="text/plain"
)
DAYS = ServerResource(server="docs", uri="note://{day}", name="Any day", is_template=True)


@dataclass
class Requests:
    """Fills in a prompt with its arguments, and knows one resource."""

    blocks: Sequence[Block] = ()

    async def get_prompt(self, name: str, arguments: Mapping[str, str]) -> Sequence[Block]:
        given = " ".join(f"{key}={value}" for key, value in arguments.items())
        return self.blocks or [text_block(f"{name} {given}")]

    async def read_resource(self, uri: str) -> Sequence[Block]:
        if uri != TODAY.uri:
            raise ToolError(f"MCP server 'docs', resource {uri}: there is none")
        return self.blocks or [text_block(f"{uri}:\nbuy milk")]

    async def complete(
        self, name: str, argument: str, value: str, known: Mapping[str, str]
    ) -> Sequence[str]:
        values = {"style": ("warm", "cold"), "day": ("monday", "tuesday")}.get(argument, ())
        return [each for each in values if each.startswith(value)]


@dataclass
class Servers:
    """One server that is ready, unless a test changes that."""

    listed: Sequence[ServerState] = (ServerState("docs", ServerPhase.READY, tools=3, tokens=1_204),)
    offered: Sequence[ServerPrompt] = ()
    known: Sequence[ServerResource] = ()
    changed: dict[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    asked: Requests = field(default_factory=Requests)
    done: list[str] = field(default_factory=list[str])

    def states(self) -> Sequence[ServerState]:
        return self.listed

    def prompts(self) -> Sequence[ServerPrompt]:
        return self.offered

    def resources(self) -> Sequence[ServerResource]:
        return self.known

    def requests(self, server: str) -> Requests:
        self._state(server)
        return self.asked

    def changes(self) -> Mapping[str, Mapping[str, str]]:
        return self.changed

    async def approve_changes(self, server: str) -> None:
        del self.changed[server]
        self.done.append(f"approved {server}")

    async def login(self, name: str, visit: Visit) -> ServerState:
        pasted = await visit("https://sign.in/there?state=1")
        self.done.append(f"login {name} with {pasted}")
        return self._state(name)

    async def logout(self, name: str) -> bool:
        self.done.append(f"logout {name}")
        return True

    async def enable(self, name: str) -> ServerState:
        self.done.append(f"enable {name}")
        return self._state(name)

    async def disable(self, name: str) -> None:
        self._state(name)
        self.done.append(f"disable {name}")

    async def reconnect(self, name: str) -> ServerState:
        self.done.append(f"reconnect {name}")
        return self._state(name)

    def _state(self, name: str) -> ServerState:
        found = [state for state in self.listed if state.name == name]
        if not found:
            raise UsageError(f"no MCP server {name!r} is running; there are: docs")
        return found[0]
