"""Definitions of subagents, from the program, files and plugins, and the catalogue of them all.

A definition is Markdown with front matter; the body is the system prompt. The fields are those of
Claude Code, plus `maxCost`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, get_args

from agent_cli.contracts.claude_tools import our_tool_name
from agent_cli.contracts.options import EFFORT_ALIASES, Effort, ThinkingLevel
from agent_cli.contracts.permission_modes import CLAUDE_MODES, Mode
from agent_cli.contracts.wording import USD_MAX
from agent_cli.prompt_files import (
    model_name,
    nested_markdown_files,
    prompt_text,
    split_front_matter,
    why_undescribed,
)
from agent_cli.prompt_files.written_servers import FIELD, written_servers
from agent_cli.system.loading import late_pattern
from agent_cli.system.paths import real_path
from agent_cli.system.records import dataclass, field

DESCRIPTION_CHARS_MAX: Final = 300
_NAME: Final = late_pattern(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_ITEM: Final = late_pattern(r"(?:^|\s)-\s")
_TO_BRACKET: Final = late_pattern(r"[^()]*+[()]?")
_ISOLATIONS: Final = {"none": False, "worktree": True}
_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0", "")
_MODES: Final[Mapping[str, Mode]] = {
    **CLAUDE_MODES,
    **{mode: mode for mode in get_args(Mode)},
}
LEVEL_OF_EFFORT: Final[Mapping[str, ThinkingLevel]] = {
    **{level: level for level in get_args(ThinkingLevel)},
    **EFFORT_ALIASES,
}

AGENTS_MAX: Final = 100
BUILT_IN: Final = ("explore", "plan", "general")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentDefinition:
    """An agent that can be started.

    Attributes:
        name: Letters from a to z, digits, "-", "_" and "."; the model starts it by this name.
        description: When to use it; the model reads it.
        prompt: Its system prompt.
        source: Its file, for messages.
        tools: Patterns of the only tools it may use; None allows all of its parent's.
        denied_tools: Patterns of tools that it may not use, though `tools` allows them.
        model: An alias or an id; "" means its parent's.
        effort: How much it thinks; None means as the settings say.
        mode: The permission mode; None, and a mode that allows more, mean its parent's.
        max_rounds: The limit of model calls; 0 means the limit of the settings.
        max_cost_usd: Its share of the cost limit; 0 sets none.
        skills: The names of skills whose text follows its system prompt.
        servers: The MCP servers whose tools it may use; None allows all.
        own_servers: The entries of MCP servers for this agent alone, by name.
        in_background: Whether it runs in the background, if possible.
        is_isolated: Whether it gets its own git worktree.
        has_instructions: Whether it gets the project's instructions.
        unknown: The fields of its file that nothing reads.
    """

    name: str
    description: str
    prompt: str
    source: str = "this program"
    tools: tuple[str, ...] | None = None
    denied_tools: tuple[str, ...] = ()
    model: str = ""
    effort: Effort | None = None
    mode: Mode | None = None
    max_rounds: int = 0
    max_cost_usd: float = 0
    skills: tuple[str, ...] = ()
    servers: tuple[str, ...] | None = None
    own_servers: Mapping[str, Mapping[str, object]] = field(
        default_factory=dict[str, Mapping[str, object]], hash=False
    )
    in_background: bool = False
    is_isolated: bool = False
    has_instructions: bool = True
    unknown: tuple[str, ...] = ()


def require_name(name: str) -> None:
    """Raise ValueError unless *name* can be an agent's."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"its name {name!r} must be of the letters a to z, digits, -, _ and .")


def parse_definition(text: str, source: str, *, stem: str = "") -> AgentDefinition:
    """Return the agent defined by *text*; *source* is its file, for messages.

    It is called *stem*, after its file, where its own name is missing or a title.

    Raises:
        ValueError: The text is not a valid definition; names the field and its allowed values.
    """
    written, body = split_front_matter(text)
    if written is None:
        raise ValueError("it does not begin with front matter between two lines of ---")
    fields = {name.strip().lower(): value.strip() for name, value in written.items()}
    name, description = fields.pop("name", ""), fields.pop("description", "")
    if not _NAME.fullmatch(name) and _NAME.fullmatch(stem):
        name = stem
    require_name(name)
    if not description:
        raise ValueError(why_undescribed(text))
    if not body.strip():
        raise ValueError("it has no text behind its front matter")
    agent = AgentDefinition(
        name=name,
        description=" ".join(description.split())[:DESCRIPTION_CHARS_MAX],
        prompt=body.strip(),
        source=source,
    )
    for name, (attribute, read) in _FIELDS.items():
        if name in fields:
            value: Any = read(fields.pop(name))  # each field has a type of its own
            agent = replace(agent, **{attribute: value})
    if servers := written_servers(text):
        agent = replace(agent, servers=servers.names, own_servers=servers.entries)
        fields.pop(FIELD.lower(), None)
    unknown = [each for each in written if each.strip().lower() in {*fields} - _SHOWN]
    return replace(agent, unknown=tuple(unknown))


def _listed(text: str) -> tuple[str, ...]:
    """Return the items of `a, b`, of `[a, b]`, or of a YAML list with dashes."""
    if text.startswith("-"):
        items = _ITEM.split(f" {text}")
    else:
        items = split_at_commas(text.removeprefix("[").removesuffix("]"))
    return tuple(item for item in (each.strip().strip("\"'") for each in items) if item)


def split_at_commas(text: str) -> list[str]:
    """Split *text* at its commas, but not at those in `Agent(a, b)`."""

    def marked(found: re.Match[str]) -> str:
        return found[0] if found[0].endswith(")") else found[0].replace(",", "\0")

    return _TO_BRACKET.sub(marked, text).split("\0")


def _tool_names(text: str) -> tuple[str, ...]:
    # `Agent(type)` and `Bash(git *)` are a tool with a rule; rules belong in the settings.
    return tuple(our_tool_name(item.partition("(")[0]) for item in _listed(text))


def _allowed_tools(text: str) -> tuple[str, ...] | None:
    names = _tool_names(text)
    is_empty_list = text.startswith("[")  # a field without a value says nothing
    return None if "*" in names or not (names or is_empty_list) else names


def _rounds(text: str) -> int:
    if not text.isdecimal():
        raise ValueError(f"its maxTurns must be a whole number, not {text!r}")
    return int(text)


def _cost(text: str) -> float:
    try:
        cost = float(text.removeprefix("$"))
    except ValueError:
        cost = -1
    if not 0 <= cost <= USD_MAX:
        raise ValueError(
            f"its maxCost must be a number of US dollars up to {USD_MAX:,}, not {text!r}"
        )
    return cost


def _is_true(field: str, text: str) -> bool:
    if text.lower() not in (*_TRUE, *_FALSE):
        raise ValueError(f"its {field} must be true or false, not {text!r}")
    return text.lower() in _TRUE


def _one_of(field: str, values: Mapping[str, object], text: str) -> object:
    found = values.get(text.lower())
    if found is None:
        raise ValueError(f"its {field} must be one of {', '.join(values)}, not {text!r}")
    return found


_FIELDS: Final[Mapping[str, tuple[str, Callable[[str], object]]]] = {
    "tools": ("tools", _allowed_tools),
    "disallowedtools": ("denied_tools", _tool_names),
    "model": ("model", model_name),
    "effort": ("effort", partial(_one_of, "effort", LEVEL_OF_EFFORT)),
    "permissionmode": ("mode", partial(_one_of, "permissionMode", _MODES)),
    "maxturns": ("max_rounds", _rounds),
    "maxcost": ("max_cost_usd", _cost),
    "skills": ("skills", _listed),
    "background": ("in_background", partial(_is_true, "background")),
    "isolation": ("is_isolated", partial(_one_of, "isolation", _ISOLATIONS)),
    "omitclaudemd": ("has_instructions", lambda text: not _is_true("omitClaudeMd", text)),
}
"""The field of a file, in lowercase → the attribute of the definition, and the reader."""
# Only the colour in which another program draws the agent.
_SHOWN: Final = frozenset({"color"})


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

    Definitions of a Python program win over both.

    Files are read once, on first use or when their plugin is added: the descriptions are part of
    every request, so they must not change.
    """

    def __init__(
        self,
        folders: Sequence[AgentFolder] = (),
        *,
        of_program: Sequence[AgentDefinition] = (),
        warn: Callable[[str], None],
        objection: Callable[[], str] = lambda: "",
    ) -> None:
        """Read nothing yet.

        Args:
            folders: The directories of definitions.
            of_program: Definitions of a Python program.
            warn: Receives a sentence about each unusable file, and about unknown fields.
            objection: Returns the reason not to use a workspace's definitions, or "".
        """
        self._folders = folders
        self._of_program = of_program
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
            of_program = {agent.name: agent for agent in self._of_program}
            self._found = {**found, **of_files, **of_program}
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
            agent = parse_definition(prompt_text(path), str(path), stem=path.stem)
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
