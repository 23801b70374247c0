"""The subagents available here: a Python program's, the user's, a trusted workspace's, built-in."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from agent_cli.agents.catalogue import AgentCatalogue, AgentFolder
from agent_cli.app.startup import StartupContext
from agent_cli.system import paths
from agent_cli.trust.store import AGENT_FOLDERS


def catalogue(startup: StartupContext, warn: Callable[[str], None]) -> AgentCatalogue:
    """Return the available agents; agents of the workspace only if it is trusted."""
    workspace = startup.workspace
    project = [AgentFolder(workspace / folder, inside=workspace) for folder in AGENT_FOLDERS]
    own = [AgentFolder(folder / "agents") for folder in paths.own_dirs()]
    folders = [*own, *(project if startup.trusted else ())]
    return AgentCatalogue(folders, given=startup.agents, warn=warn, objection=startup.objection)


def plugin_agents(
    startup: StartupContext, packages: Mapping[str, Path]
) -> Mapping[str, Sequence[AgentFolder]]:
    """Return the agent directories of the plugins: of those the user added, and of *packages*."""
    added = {
        plugin.name: [AgentFolder(path, filling=plugin.filled) for path in plugin.folders["agents"]]
        for plugin in startup.plugins
        if plugin.folders["agents"]
    }
    return {**added, **{name: [AgentFolder(path)] for name, path in packages.items()}}
