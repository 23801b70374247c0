"""What a plugin is, what it gets and what it gives back. Third parties write against this module.

A plugin is a value, not a class to inherit from:

    from agent_cli import Plugin, PluginContext

    def prepare(ctx: PluginContext) -> None:
        ctx.add_context("The staging server is down today.")

    plugin = Plugin(name="status", prepare=prepare)

A package offers it (or a function that takes the workspace's path and returns it) under the
entry-point group `agent_cli.plugins`; tools alone go under `agent_cli.tools`.
"""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

from pydantic import BaseModel, ValidationError

from agent_cli.contracts.errors import PluginError
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import Tool
from agent_cli.core.agent import Agent
from agent_cli.core.conversation import Conversation
from agent_cli.core.hook_values import Maybe

S = TypeVar("S", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class PluginState(Generic[S]):
    """The state a plugin owns: typed, checked at every write, kept in the conversation's record.

    In `prepare` and in tools alike: `NOTES.read(ctx.state)`, `NOTES.write(ctx.state, notes)`. Of
    calls beside each other the changes to different keys are kept, and a second change to the same
    key is an error; a tool whose calls must not meet sets `parallel_safe=False`.

    Attributes:
        plugin: The plugin's name.
        model: The state's shape; its defaults are what a new conversation starts with.
        version: Of that shape; what was recorded under another version is migrated.
        migrate: (recorded value, its version) -> value of this version. Without it, or when what
            it returns does not fit, the state is reset, and the user is told.
    """

    plugin: str
    model: type[S]
    version: int = 1
    migrate: Callable[[dict[str, Json], int], dict[str, Json]] | None = None

    def read(self, state: Mapping[str, Json]) -> S:
        """Return this plugin's part of *state*; what is done to it counts only once written."""
        return self.check(state.get(self.plugin, {}))

    def write(self, state: MutableMapping[str, Json], value: S) -> None:
        """Put *value* in its place.

        Raises:
            PluginError: It does not fit the model; names the plugin and the field.
        """
        # Warnings off: what does not fit is about to be refused with a sentence.
        state[self.plugin] = value.model_dump(mode="json", warnings=False)

    def check(self, value: Json) -> S:
        """Return *value* as the model.

        Raises:
            PluginError: It does not fit; names the plugin and the field.
        """
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
    """One round, as one plugin sees it. Nothing of it is left in the next round except `state`.

    Attributes:
        conversation: What happened so far; read only.
        state: By name, the state of every plugin, as those before this one left it in this round.
            Reading gives copies; a write is checked and recorded at once.
        latest_input: The text of the user's latest message; "" when there is none.
        secrets: Values of the variables the plugin declared, and of no others.
    """

    conversation: Conversation
    state: MutableMapping[str, Json]
    latest_input: str
    secrets: Mapping[str, str] = field(default_factory=dict[str, str])
    tools: list[Tool] = field(default_factory=list[Tool])
    context: list[str] = field(default_factory=list[str])
    messages: list[str] = field(default_factory=list[str])

    def add_tool(self, tool: Tool) -> None:
        """Offer *tool* in this round. A set of tools that changes costs the prompt cache."""
        self.tools.append(tool)

    def add_context(self, text: str) -> None:
        """Tell the model *text* in this round, behind the stable system prompt.

        Text that differs from the last round's makes the model read the conversation anew.
        """
        self.context.append(text)

    def add_message(self, text: str) -> None:
        """Say *text* once, at the end of the conversation, where it stays; this costs no cache."""
        self.messages.append(text)


Prepare: TypeAlias = Callable[[PluginContext], Maybe[None]]
Watch: TypeAlias = Callable[[Agent], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """What somebody adds to the program.

    Attributes:
        name: Unique; as settings and messages call it.
        version: For people.
        prepare: Called before every model call, in the order of the plugins; may be a coroutine
            function. An `AgentCliError` ends the run; any other exception costs the plugin its
            part in this round, and the user is told once.
        tools: Offered in every round; those that come and go are added in `prepare`.
        state: The state it owns, if any.
        services: What its tools find in `ToolContext.services`, beside what the program puts there:
            "workspace", the folder (a `Path`), and "sandbox", what holds commands (a `Sandbox`).
        secrets: Variables it needs. While one is missing, the plugin is off.
        watch: Runs beside the conversation until the program ends; may start prompts without
            input by `agent.trigger()`.
    """

    name: str
    version: str = ""
    prepare: Prepare | None = None
    tools: Sequence[Tool] = ()
    # Any: plugins of all kinds stand in one list, and who reads a state names its type.
    state: PluginState[Any] | None = None
    services: Mapping[str, object] = field(default_factory=dict[str, object])
    secrets: tuple[str, ...] = ()
    watch: Watch | None = None
