"""The plugin interface: `Plugin`, its context and its state. Third-party code uses this module.

A plugin is a value, not a class to inherit from:

    from agent_cli import Plugin, PluginContext

    def prepare(ctx: PluginContext) -> None:
        ctx.add_context("The staging server is down today.")

    plugin = Plugin(name="status", prepare=prepare)

A package offers the plugin (or a function that takes the workspace's path and returns it) under
the entry-point group `agent_cli.plugins`; tools alone go under `agent_cli.tools`.
"""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar

from agent_cli.contracts.errors import PluginError
from agent_cli.contracts.options import Function, require, require_all
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import Tool
from agent_cli.core.agent import Agent
from agent_cli.core.conversation import Conversation
from agent_cli.core.returned_values import Maybe
from agent_cli.system.records import dataclass, field

if TYPE_CHECKING:
    from pydantic import BaseModel

S = TypeVar("S", bound="BaseModel")


@dataclass(frozen=True, slots=True)
class PluginState(Generic[S]):
    """The state of a plugin: typed, checked at every write, recorded in the conversation.

    Use it in `prepare` and in tools: `NOTES.read(ctx.state)`, `NOTES.write(ctx.state, notes)`.
    Parallel calls may change different keys; a second change to the same key is an error. A tool
    whose calls must not run in parallel sets `parallel_safe=False`.

    Attributes:
        plugin: The plugin's name; the two must be the same.
        model: The type of the state; a new conversation starts with its defaults.
        version: The version of that type; a state recorded under another version is migrated.
        migrate: (recorded value, its version) -> value of this version. Without it, or if its
            result is invalid, the state is reset, and the user is told.
    """

    plugin: str
    model: type[S]
    version: int = 1
    migrate: Callable[[dict[str, Json], int], dict[str, Json]] | None = None

    def read(self, state: Mapping[str, Json]) -> S:
        """Return a copy of this plugin's part of *state*; `write` it to keep changes."""
        return self.check(state.get(self.plugin, {}))

    def write(self, state: MutableMapping[str, Json], value: S) -> None:
        """Store *value* in *state*.

        Raises:
            PluginError: *value* does not fit the model; names the plugin and the field.
        """
        # Warnings off: an invalid value is refused with a clear sentence anyway.
        state[self.plugin] = value.model_dump(mode="json", warnings=False)

    def check(self, value: Json) -> S:
        """Return *value* validated as the model.

        Raises:
            PluginError: *value* does not fit the model; names the plugin and the field.
        """
        from pydantic import ValidationError

        try:
            return self.model.model_validate(value)
        except ValidationError as error:
            faults = "; ".join(
                f"{'.'.join(map(str, fault['loc'])) or 'state'}: {fault['msg']}"
                for fault in error.errors()
            )
            raise PluginError(
                f"plugin {self.plugin!r}: its state does not fit: {faults}"
            ) from error


@dataclass(slots=True)
class PluginContext:
    """The context of one turn for one plugin. Only `state` lasts beyond the turn.

    Attributes:
        conversation: The conversation so far; read only.
        state: The state of every plugin, by name, with the changes of earlier plugins this turn.
            Reading gives copies; a write is checked and recorded at once.
        latest_input: What the user typed last, without attached files; "" if nothing was.
        secrets: Values of the variables the plugin declared, and of no others.
        tools: The plugin's own tools in this turn; one that is removed is not offered.
        context, messages, notices: What the methods added so far.
    """

    conversation: Conversation
    state: MutableMapping[str, Json]
    latest_input: str
    secrets: Mapping[str, str] = field(default_factory=dict[str, str])
    tools: list[Tool] = field(default_factory=list[Tool])
    context: list[str] = field(default_factory=list[str])
    messages: list[str] = field(default_factory=list[str])
    notices: list[str] = field(default_factory=list[str])

    def add_tool(self, tool: Tool) -> None:
        """Offer *tool* in this turn.

        One that comes or goes later keeps the prompt cache: messages add and withdraw it.
        """
        self.tools.append(tool)

    def add_context(self, text: str) -> None:
        """Add *text* to what holds in this turn, after the stable system prompt.

        The system prompt keeps the context that the conversation began with; a notice at the
        conversation's end tells the model of each change, which keeps the prompt cache.
        """
        self.context.append(text)

    def add_message(self, text: str) -> None:
        """Add *text* once as a message at the conversation's end; this keeps the prompt cache."""
        self.messages.append(text)

    def add_notice(self, text: str) -> None:
        """Add *text* once as a notice at the end: to the model the program's own words.

        A model that takes them gets them as a message of the system's. Never pass on the text of
        strangers: results of tools, files, web pages.
        """
        self.notices.append(text)


Prepare: TypeAlias = Callable[[PluginContext], Maybe[None]]
Watch: TypeAlias = Callable[[Agent], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """An extension of the program: tools, context, state and a task beside the conversation.

    Attributes:
        name: Unique; used in settings and messages.
        version: Shown to the user.
        prepare: Called before every model call, in the order of the plugins; may be a coroutine
            function. An `AgentCliError` ends the run; after any other exception this turn goes on
            without the plugin, and the user is told once.
        tools: Offered in every turn; add tools that come and go in `prepare`.
        state: The plugin's state, if it has one.
        services: Added to `ToolContext.services` for its tools, beside the program's own:
            "workspace", the directory (a `Path`), and "sandbox" for commands (a `Sandbox`).
        secrets: Environment variables it needs. While one is missing, the plugin is off.
        watch: Runs beside the conversation until the program ends; may start prompts without
            input by `agent.trigger()`.
        agents: A directory of agent definitions, `*.md` files in the format of docs/agents.md.
            An agent whose name is taken is called `plugin:name`.
    """

    name: str
    version: str = ""
    prepare: Prepare | None = None
    tools: Sequence[Tool] = ()
    # Any: plugins of all kinds share one list; the code that reads a state names its type.
    state: PluginState[Any] | None = None
    services: Mapping[str, object] = field(default_factory=dict[str, object])
    secrets: tuple[str, ...] = ()
    watch: Watch | None = None
    agents: Path | None = None

    def __post_init__(self) -> None:
        """Check the types, for authors without a type checker, and whose state it is.

        Raises:
            AgentCliError: A field has another type; the message names it.
            PluginError: Its state is that of another plugin.
        """
        for name, kinds in _KINDS.items():
            require(getattr(self, name), *kinds, what=f"{name} of the plugin {self.name!r}")
        require_all(self.tools, Tool, what=f"tools of the plugin {self.name!r}")
        require_all(self.secrets, str, what=f"secrets of the plugin {self.name!r}")
        if self.state and self.state.plugin != self.name:
            raise PluginError(
                f"plugin {self.name!r}: its state is that of a plugin {self.state.plugin!r};"
                " give both the same name"
            )


def check_additions(ctx: PluginContext) -> None:
    """Check the types of what a plugin added to *ctx*; raises TypeError."""
    _require_added(ctx.tools, Tool, "a tool")
    _require_added((*ctx.context, *ctx.messages, *ctx.notices), str, "a text")


def _require_added(added: Sequence[object], kind: type, what: str) -> None:
    for each in added:
        if not isinstance(each, kind):
            raise TypeError(f"{what} it added cannot be of type {type(each).__name__}")


_KINDS: Final[Mapping[str, tuple[type, ...]]] = {
    **dict.fromkeys(("name", "version"), (str,)),
    **dict.fromkeys(("prepare", "watch"), (Function, type(None))),
    "state": (PluginState, type(None)),
    "services": (Mapping,),
    "agents": (Path, type(None)),
}
