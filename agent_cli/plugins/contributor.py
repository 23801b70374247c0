"""One `prepare` contributor for all plugins, including plugins of installed packages.

Tools and context are collected anew before every model call, in the order of the plugins: the
built-in ones, then those of a Python program, then the installed ones by name.

The context that a conversation begins with stands in the system prompt, always as it was then. A
notice behind what is cached tells of each change, and is repeated once a summary has removed it.
"""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import EntryPoint, distributions, entry_points
from operator import attrgetter
from pathlib import Path
from typing import Final, cast

from agent_cli.contracts.authors import NOTICE
from agent_cli.contracts.errors import AgentCliError, UsageError
from agent_cli.contracts.messages import UserMessage, typed_in
from agent_cli.contracts.timeline import UserOutput
from agent_cli.contracts.tooling import Tool
from agent_cli.contracts.wording import once
from agent_cli.core.agent import Agent
from agent_cli.core.conversation import Conversation
from agent_cli.core.lasting_tools import LastingTools
from agent_cli.core.projection import has_reply
from agent_cli.core.returned_values import settled
from agent_cli.core.turn import Turn
from agent_cli.plugins.api import Plugin, PluginContext, Watch, check_additions
from agent_cli.plugins.states import PluginStates
from agent_cli.system.event_loop import in_background
from agent_cli.system.logger import logger
from agent_cli.system.records import dataclass

LOAD_LIMIT_S = 10.0
_log = logger(__name__)
_AUTHOR: Final = f"{NOTICE}: context of plugin "

Contexts = Mapping[str, Sequence[str]]
"""Plugin → the texts of its context."""


# A package that cannot be used yields one sentence that names it; the others still load.
@dataclass(frozen=True, slots=True)
class DiscoveredPlugins:
    """The usable plugins, sorted by name, and a sentence about each unusable one."""

    plugins: tuple[Plugin, ...] = ()
    problems: tuple[str, ...] = ()


class Plugins:
    """The loaded plugins; leaving `async with` ends the tasks they started.

    Installed plugins are imported in a thread from `start` on; the first model call waits for
    them, up to a limit. Without `start`, only the built-in ones are active.
    """

    def __init__(
        self,
        shipped: Sequence[Plugin],
        *,
        of_program: Sequence[Plugin] = (),
        find: Callable[[], DiscoveredPlugins] = DiscoveredPlugins,
        environment: Mapping[str, str] | None = None,
        disabled: Collection[str] = (),
        warn: Callable[[str], None],
        load_limit_s: float = LOAD_LIMIT_S,
    ) -> None:
        """Add the built-in plugins.

        Args:
            shipped: The built-in plugins, which come first.
            of_program: Those of a Python program, next; `UsageError` if the name of one is taken.
            find: Imports the installed ones; called once, in a thread.
            environment: Holds the secrets that plugins declare.
            disabled: Names of plugins to leave out.
            warn: Receives one sentence per problem with a plugin, each once.
            load_limit_s: The longest time a model call waits for plugins being imported.
        """
        self._plugins: list[Plugin] = []
        self._find = find
        self._environment = environment or {}
        self._disabled = disabled
        self._warn = once(warn)
        self._load_limit_s = load_limit_s
        self._group = asyncio.TaskGroup()
        self._tasks: list[asyncio.Task[None]] = []
        self._loaded = asyncio.Event()
        self._loaded.set()
        self._contributed: list[Tool] = []
        self._contexts = PluginContexts()
        self._tools = LastingTools()
        self._add(shipped)
        self._shipped = len(self._plugins)
        if twice := self._add(of_program):
            raise UsageError(f"more than one plugin is named {twice[0]!r}: rename or remove one")

    async def __aenter__(self) -> "Plugins":
        await self._group.__aenter__()
        return self

    async def __aexit__(self, *_failure: object) -> None:
        for task in self._tasks:
            task.cancel()
        # Hide the body's exception, which the task group would wrap; the tasks are cancelled.
        await self._group.__aexit__(None, None, None)

    def start(self, agent: Agent) -> None:
        """Import the installed plugins, then run the plugins' `watch` tasks beside *agent*."""
        self._loaded.clear()
        self._tasks.append(self._group.create_task(self._load(agent)))

    def load(self) -> None:
        """Import the installed plugins synchronously, for callers that only need `report`."""
        try:
            self._take(self._find())
        except Exception as error:
            self._warn_not_found(error)

    async def wait_loaded(self, limit_s: float) -> bool:
        """Wait at most *limit_s* for the installed plugins; return whether they are loaded."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await self._loaded.wait()
        return self._loaded.is_set()

    def tools(self) -> tuple[Tool, ...]:
        """Return the plugins' tools: fixed tools, and tools added in the last turn."""
        fixed = {tool.name: tool for plugin in self._active() for tool in plugin.tools}
        return tuple((fixed | {tool.name: tool for tool in self._contributed}).values())

    def agent_folders(self) -> Mapping[str, Path]:
        """Return plugin → its directory of agent definitions, for plugins that have one."""
        return {plugin.name: plugin.agents for plugin in self._active() if plugin.agents}

    def report(self) -> tuple[tuple[str, str], ...]:
        """Return each plugin's name with its version or "on", or the variables it lacks."""
        return tuple((plugin.name, self._state(plugin)) for plugin in self._plugins)

    async def __call__(self, turn: Turn) -> None:
        """Let every plugin contribute to *turn*.

        Raises:
            AgentCliError: A plugin ends the run.
        """
        if not await self.wait_loaded(self._load_limit_s):
            self._warn("plugins are still being imported; this reply is made without them")
        active = list(self._active())
        kinds = {plugin.name: plugin.state for plugin in active if plugin.state}
        services = {name: each for plugin in active for name, each in plugin.services.items()}
        turn.config = replace(
            turn.config,
            state=PluginStates(turn.conversation, kinds, turn.emit),
            services={**turn.config.services, **services},
        )
        self._contributed = []
        before = len(turn.tools)
        contexts: dict[str, Sequence[str]] = {}
        latest_input = _latest_input(turn)
        for plugin in active:
            ctx = self._context(plugin, turn, latest_input)
            if await self._prepared(plugin, ctx):
                contexts[plugin.name] = [text for text in ctx.context if text.strip()]
                self._contribute(plugin, ctx, turn)
        own, turn.tools[before:] = turn.tools[before:], []
        turn.tools += self._tools.offered(turn, own, may_change=self._may_change())
        self._contexts.send(turn, contexts)

    def _may_change(self) -> bool:
        """Return whether tools may come or go; the built-in plugins' tools do not."""
        installed = self._plugins[self._shipped :]
        return not self._loaded.is_set() or any(plugin.prepare for plugin in installed)

    async def _load(self, agent: Agent) -> None:
        try:
            self._take(await in_background(self._find))
        except Exception as error:
            self._warn_not_found(error)
        finally:
            self._loaded.set()
        for plugin in self._active():
            if plugin.watch:
                watching = self._run_beside(plugin.name, plugin.watch, agent)
                self._tasks.append(self._group.create_task(watching))

    def _warn_not_found(self, error: Exception) -> None:
        _log.info("plugins not found", exc_info=True)
        self._warn(f"no installed plugin is used: {type(error).__name__}: {error}")

    def _take(self, found: DiscoveredPlugins) -> None:
        for problem in found.problems:
            self._warn(problem)
        for name in self._add(found.plugins):
            self._warn(f"plugin {name!r} is left out: the name is taken")

    def _add(self, plugins: Sequence[Plugin]) -> list[str]:
        """Add *plugins*; return the names that were taken already: their plugins are left out."""
        left_out = list[str]()
        for plugin in plugins:
            if any(plugin.name == each.name for each in self._plugins):
                left_out.append(plugin.name)
            elif plugin.name not in self._disabled:
                self._plugins.append(plugin)
        return left_out

    def _active(self) -> Iterator[Plugin]:
        return (plugin for plugin in self._plugins if not self._missing(plugin))

    def _missing(self, plugin: Plugin) -> list[str]:
        return [name for name in plugin.secrets if not self._environment.get(name)]

    def _state(self, plugin: Plugin) -> str:
        missing = self._missing(plugin)
        return f"off: {', '.join(missing)} not set" if missing else plugin.version or "on"

    def _context(self, plugin: Plugin, turn: Turn, latest_input: str) -> PluginContext:
        return PluginContext(
            turn.conversation,
            turn.config.state,
            latest_input,
            {name: self._environment[name] for name in plugin.secrets},
            tools=list(plugin.tools),
        )

    async def _prepared(self, plugin: Plugin, ctx: PluginContext) -> bool:
        """Let *plugin* prepare; False if it failed and must not contribute."""
        try:
            if plugin.prepare:
                await settled(plugin.prepare(ctx))
            check_additions(ctx)
        except AgentCliError:
            raise
        except (Exception, SystemExit) as error:
            _log.info("plugin failed", plugin=plugin.name, exc_info=True)
            reason = f"{type(error).__name__}: {error}"
            self._warn(f"plugin {plugin.name!r} failed and is left out of this reply: {reason}")
            return False
        for texts in (ctx.context, ctx.messages, ctx.notices):
            texts[:] = filter(str.strip, texts)  # no request takes a text without words
        return True

    def _contribute(self, plugin: Plugin, ctx: PluginContext, turn: Turn) -> None:
        taken = {tool.name for tool in turn.tools}
        for tool in ctx.tools:
            if tool.name in taken:
                what = f"its tool {tool.name!r} is left out: there is one of that name"
                self._warn(f"plugin {plugin.name!r}: {what}")
                continue
            taken.add(tool.name)
            turn.tools.append(tool)
            self._contributed.append(tool)
        for message in ctx.messages:
            turn.tell_model(message, author=f"plugin {plugin.name}")
        for notice in ctx.notices:
            turn.tell_model(notice, author=f"{NOTICE} of plugin {plugin.name}")

    async def _run_beside(self, name: str, watch: Watch, agent: Agent) -> None:
        try:
            await watch(agent)
        except (Exception, SystemExit) as error:
            # Raised, the exception would end the other plugins' tasks, and the program with them.
            _log.info("plugin stopped", plugin=name, exc_info=True)
            self._warn(f"plugin {name!r} stopped watching: {type(error).__name__}: {error}")


def _latest_input(turn: Turn) -> str:
    for output in reversed(turn.conversation.between_replies):
        if isinstance(output, UserOutput) and output.is_typed:
            return typed_in(output.content)
    return ""


class PluginContexts:
    """The contexts that conversations began with, and the changes that their models are told."""

    def __init__(self) -> None:
        self._begun: dict[str, Contexts] = {}
        self._last: Contexts | None = None

    def send(self, turn: Turn, contexts: Contexts) -> None:
        """Add to *turn* the context it began with, and tell its model of changes to *contexts*."""
        begun = self._begun_with(turn.conversation, contexts)
        turn.system += [text for texts in begun.values() for text in texts]
        if turn.conversation.open_calls():
            return
        sent = _sent(turn.conversation)
        for name, texts in contexts.items():  # one that failed is not among them
            change = _change(name, texts)
            is_begun = [*begun.get(name, ())] == [*texts]
            if sent[name] != change if name in sent else not is_begun:
                turn.tell_model(change, author=f"{_AUTHOR}{name}")

    def _begun_with(self, conversation: Conversation, contexts: Contexts) -> Contexts:
        """Return the context that *conversation* began with; a copy began with its original's."""
        if conversation.id not in self._begun:
            replied = has_reply(conversation.prompts)
            self._begun[conversation.id] = (self._last if replied else None) or dict(contexts)
        self._last = self._begun[conversation.id]
        return self._last


def _change(name: str, texts: Sequence[str]) -> str:
    if not texts:
        return f"[agent-cli: what plugin {name} said before holds no longer.]"
    heading = f"[agent-cli: plugin {name} says from now on, in place of what it said before:]"
    return "\n\n".join([heading, *texts])


def _sent(conversation: Conversation) -> dict[str, str]:
    """Return the last change of each plugin's context that the model still sees.

    Most conversations have none, and are not projected for this.
    """
    messages = (out for out in conversation.between_replies if isinstance(out, UserOutput))
    if not any(out.author.startswith(_AUTHOR) for out in messages):
        return {}
    return {
        message.author.removeprefix(_AUTHOR): message.text
        for message in conversation.context()
        if isinstance(message, UserMessage) and message.author.startswith(_AUTHOR)
    }


PLUGINS_GROUP = "agent_cli.plugins"
TOOLS_GROUP = "agent_cli.tools"


def discover(workspace: Path, *, disabled: Collection[str] = ()) -> DiscoveredPlugins:
    """Import the plugins of installed packages; takes as long as their imports.

    Args:
        workspace: The argument for plugin factories.
        disabled: Names of entry points to skip without importing them.
    """
    plugins: list[Plugin] = []
    problems: list[str] = []
    for entry in _entry_points():
        if entry.name in disabled:
            continue
        try:
            plugins.append(_plugin(entry, workspace))
        # SystemExit too: a script registered by mistake would end the program.
        except (Exception, SystemExit) as error:
            _log.info("plugin not loaded", entry_point=entry.name, exc_info=True)
            problems.append(_problem(entry, error))
    return DiscoveredPlugins(tuple(plugins), tuple(problems))


def _entry_points() -> Sequence[EntryPoint]:
    """Return the entry points for plugins, then those for tools, by name.

    Most installations have none, and parsing what every package offers takes longest.
    """
    for package in distributions():
        offered = package.read_text("entry_points.txt") or ""
        if PLUGINS_GROUP in offered or TOOLS_GROUP in offered:
            found = (entry_points(group=group) for group in (PLUGINS_GROUP, TOOLS_GROUP))
            return [entry for group in found for entry in sorted(group, key=attrgetter("name"))]
    return ()


def _plugin(entry: EntryPoint, workspace: Path) -> Plugin:
    """Return the plugin of *entry*; tools become a plugin with the entry point's name.

    Raises:
        TypeError: The entry point offers something else.
    """
    # object: the module belongs to a third party, so its type is checked here.
    offered: object = entry.load()
    if callable(offered):
        offered = offered(workspace)
    if entry.group == PLUGINS_GROUP:
        if not isinstance(offered, Plugin):
            raise TypeError(f"it offers {type(offered).__name__}, not a Plugin")
        return offered
    is_one = not isinstance(offered, Sequence)
    several = [offered] if is_one else cast("Sequence[object]", offered)
    tools = tuple(each for each in several if isinstance(each, Tool))
    if len(tools) < len(several):
        raise TypeError(f"it offers {type(offered).__name__}, not tools")
    return Plugin(name=entry.name, version=_version(entry), tools=tools)


def _version(entry: EntryPoint) -> str:
    return entry.dist.version if entry.dist else ""


def _problem(entry: EntryPoint, error: BaseException) -> str:
    package = f"{entry.dist.name} {entry.dist.version}" if entry.dist else "an unknown package"
    reason = f"{type(error).__name__}: {error}"
    return (
        f"plugin {entry.name!r} of {package} is not used: {reason};"
        f" update {package.partition(' ')[0]}, or add {entry.name!r} to plugins.disabled"
    )
