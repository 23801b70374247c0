"""Find the plugins and tools that installed packages offer under our entry-point groups.

A package that cannot be used yields one sentence that names it; the others still load.
"""

from collections.abc import Collection, Sequence
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import cast

from agent_cli.contracts.tooling import Tool
from agent_cli.plugins.api import Plugin
from agent_cli.system.logger import logger
from agent_cli.system.records import dataclass

PLUGINS_GROUP = "agent_cli.plugins"
TOOLS_GROUP = "agent_cli.tools"
_log = logger(__name__)


@dataclass(frozen=True, slots=True)
class DiscoveredPlugins:
    """The usable plugins, sorted by name, and a sentence about each unusable one."""

    plugins: tuple[Plugin, ...] = ()
    problems: tuple[str, ...] = ()


def discover(workspace: Path, *, disabled: Collection[str] = ()) -> DiscoveredPlugins:
    """Import the plugins of installed packages; takes as long as their imports.

    Args:
        workspace: The argument for plugin factories.
        disabled: Names of entry points to skip without importing them.
    """
    plugins: list[Plugin] = []
    problems: list[str] = []
    offered = entry_points()  # reads the metadata of every installed package
    for group in (PLUGINS_GROUP, TOOLS_GROUP):
        for entry in sorted(offered.select(group=group), key=lambda entry: entry.name):
            if entry.name in disabled:
                continue
            try:
                plugins.append(_plugin(entry, workspace))
            # SystemExit too: a script registered by mistake would end the program.
            except (Exception, SystemExit) as error:
                _log.info("plugin not loaded", entry_point=entry.name, exc_info=True)
                problems.append(_problem(entry, error))
    return DiscoveredPlugins(tuple(plugins), tuple(problems))


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
