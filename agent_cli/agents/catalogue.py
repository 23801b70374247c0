"""The available subagents: built in, the user's, of a trusted workspace, of plugins."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final

from agent_cli.agents.definition import AgentDefinition, parse_definition
from agent_cli.prompt_files import nested_markdown_files
from agent_cli.system.paths import real_path
from agent_cli.system.records import dataclass

FILE_BYTES_MAX: Final = 64 * 1024
AGENTS_MAX: Final = 100
BUILT_IN: Final = ("explore", "plan", "general")


@dataclass(frozen=True, slots=True)
class AgentFolder:
    """A directory of definitions; with *inside*, links that lead out of that are refused.

    *filling* returns a prompt with the folder of its plugin and the values of the plugin's user.
    """

    path: Path
    inside: Path | None = None
    filling: Callable[[str], str] = str


class AgentCatalogue:
    """Definitions by name; the first of a name wins, and files win over built-in ones.

    Those that a Python program gives win over all.

    Files are read once, on first use or when their plugin is added: the descriptions are part of
    every request, so they must not change.
    """

    def __init__(
        self,
        folders: Sequence[AgentFolder] = (),
        *,
        given: Sequence[AgentDefinition] = (),
        warn: Callable[[str], None],
        objection: Callable[[], str] = lambda: "",
    ) -> None:
        """Read nothing yet.

        Args:
            folders: The directories of definitions.
            given: Definitions of a Python program.
            warn: Receives a sentence about each unusable file, and about unknown fields.
            objection: Returns the reason not to use a workspace's definitions, or "".
        """
        self._folders = folders
        self._given = given
        self._warn = warn
        self._objection = objection
        self._found: dict[str, AgentDefinition] | None = None
        self._plugins: set[str] = set()

    def all(self) -> Sequence[AgentDefinition]:
        """Return the agents, the built-in ones first."""
        return [*self._by_name().values()]

    def get(self, name: str) -> AgentDefinition | None:
        """Return the agent *name*; None if there is none."""
        return self._by_name().get(name)

    def add_plugins(self, folders: Mapping[str, Sequence[AgentFolder]]) -> None:
        """Add the agents of plugins: plugin -> its directories of definitions.

        An agent whose name is taken is called `plugin:name`. A known plugin is not read again.
        """
        for plugin in [each for each in folders if each not in self._plugins]:
            self._plugins.add(plugin)
            for folder in folders[plugin]:
                self._add_plugin(plugin, folder)

    def _add_plugin(self, plugin: str, folder: AgentFolder) -> None:
        if not folder.path.is_dir():
            why = f"{folder.path} is not a directory"
            self._warn(f"agents of plugin {plugin!r} are not used: {why}")
            return
        found = self._by_name()
        taken = {*found}
        for agent in self._read(folder):
            name = f"{plugin}:{agent.name}" if agent.name in taken else agent.name
            found.setdefault(name, replace(agent, name=name))

    def _by_name(self) -> dict[str, AgentDefinition]:
        if self._found is None:
            found = {agent.name: agent for agent in built_in_agents()}
            of_files: dict[str, AgentDefinition] = {}
            for folder in self._folders:
                for agent in self._read(folder):
                    of_files.setdefault(agent.name, agent)
            given = {agent.name: agent for agent in self._given}
            self._found = {**found, **of_files, **given}
        return self._found

    def _read(self, folder: AgentFolder) -> Sequence[AgentDefinition]:
        paths = [*nested_markdown_files(folder.path)]
        if len(paths) > AGENTS_MAX:
            self._warn(
                f"{folder.path} holds {len(paths):,} agents; the first {AGENTS_MAX} are used:"
                " move the others away"
            )
        agents = [agent for path in paths[:AGENTS_MAX] if (agent := self._one(path, folder))]
        if agents and folder.inside and (why := self._objection()):
            self._warn(f"agents of {folder.path} are not used: {why}")
            return ()
        return agents

    def _one(self, path: Path, folder: AgentFolder) -> AgentDefinition | None:
        try:
            if folder.inside and not real_path(path).is_relative_to(real_path(folder.inside)):
                raise ValueError("it leads out of the workspace")
            if path.stat().st_size > FILE_BYTES_MAX:
                raise ValueError(f"it has more than {FILE_BYTES_MAX // 1024} KB")
            text = path.read_text(encoding="utf-8", errors="replace")
            agent = parse_definition(text, str(path))
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            self._warn(f"agent {path} is not used: {reason}")
            return None
        if agent.unknown:
            self._warn(f"agent {path}: unknown fields are ignored: {', '.join(agent.unknown)}")
        return replace(agent, prompt=folder.filling(agent.prompt))


@cache
def built_in_agents() -> tuple[AgentDefinition, ...]:
    """Return the built-in agents."""
    folder = files("agent_cli.agents")
    texts = ((folder / f"{name}.md").read_text(encoding="utf-8") for name in BUILT_IN)
    return tuple(parse_definition(text, "built in") for text in texts)
