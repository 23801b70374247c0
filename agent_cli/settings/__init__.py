"""Settings from files, variables and options: checked, frozen, each with its origin.

The only package that uses tomllib and dotenv. Parsing the command line needs this module alone. It
knows no settings: `layers` decides about valid keys and values.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from agent_cli.contracts.errors import SettingsError
from agent_cli.system.config_text import TooLong, config_text

if TYPE_CHECKING:
    from pathlib import Path

    from agent_cli.contracts.timeline import Json
else:
    Json = object  # in quotes it would be compiled; see `app.arguments`


ENVIRONMENT_PREFIX = "AGENT_CLI_"
PROJECT_CREDENTIALS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_ADMIN_API_KEY")
"""Keys that a trusted project's `.env` may set: they only decide who pays."""
NOT_A_VARIABLE = "this line is not NAME=value; ignored"
"""The end of a notice about a line of a `.env`."""
# Claude Code's settings files: the first in the home directory, both in a project.
# TOML is the main format of this program, so it wins if both exist.
SETTINGS_FILES = ("appsettings.json", "appsettings.toml")
CLAUDE_FILES = (".claude/settings.json", ".claude/settings.local.json")
SERVERS_FILE = ".mcp.json"
RULE_KINDS = ("allow", "ask", "deny")
GUARD_KINDS = ("ask", "deny")

KeyPath: TypeAlias = tuple[str, ...]


class Entry(NamedTuple):
    """One value as found in its source.

    Attributes:
        path: The key as written there, split at its dots.
        origin: "FILE:LINE", "env NAME", "flag --NAME" or "argument NAME".
        is_text: The value is text (of a variable or option), to be parsed as the setting's type.
        from_project: The value comes from a project's file, not from the user.
        must_exist: An unknown key is an error, not a warning.
        adds: A list that is added to the lists of earlier layers.
    """

    path: KeyPath
    value: object
    origin: str
    is_text: bool = False
    from_project: bool = False
    adds: bool = False
    must_exist: bool = False


class Override(NamedTuple):
    """A setting given as an option; a repeated option has several values.

    Attributes:
        key: Dotted, as in the schema.
        value: Its text or its texts, which are added to those of earlier layers; from a program,
            any other value as a settings file would hold it.
        flag: The option as the user typed it, with its dashes; from a program, the argument.
    """

    key: str
    value: Json | tuple[str, ...]
    flag: str


class WrittenRule(NamedTuple):
    """A permission rule as written; `kind` is one of `RULE_KINDS`, `origin` as in `Entry`.

    A rule `of_claude` stands in a settings file of Claude Code, and is translated.
    """

    kind: str
    text: str
    origin: str
    of_claude: bool = False


class WrittenHooks(NamedTuple):
    """A group of lifecycle hooks as written, not validated; `event` is Claude Code's name.

    `root` is the folder of the plugin that brings it, or "", and `variables` are for its programs.
    """

    event: str
    group: object
    origin: str
    from_project: bool = False
    root: str = ""
    variables: tuple[tuple[str, str], ...] = ()


def read_file(path: "Path") -> str:
    """Return the text of a settings file.

    Raises:
        SettingsError: The file cannot be read, is not UTF-8, or is longer than settings can be.
    """
    try:
        return config_text(path)
    except UnicodeDecodeError:
        # Without the cause, whose text would quote bytes of the file.
        raise SettingsError(f"{path} is not UTF-8 text; save it as UTF-8") from None
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from error
    except TooLong as error:
        raise SettingsError(f"{path} has {error}; move it away") from error


def environment_entries(
    variables: Mapping[str, str], project_names: Iterable[str]
) -> Iterator[Entry]:
    """Read `AGENT_CLI_<SECTION>__<KEY>`; *project_names* are from the project's `.env`.

    An empty variable sets nothing: `${NAME:-}` in a script or a compose file makes one.
    """
    from_project = frozenset(project_names)
    for name, text in variables.items():
        if name.startswith(ENVIRONMENT_PREFIX) and text:
            path = tuple(name.removeprefix(ENVIRONMENT_PREFIX).split("__"))
            yield Entry(path, text, f"env {name}", True, name in from_project)


_MODEL_VARIABLES = (
    ("ANTHROPIC_DEFAULT_SONNET_MODEL", ("model",)),
    ("ANTHROPIC_DEFAULT_SONNET_MODEL", ("models", "normal")),
    ("ANTHROPIC_DEFAULT_OPUS_MODEL", ("models", "high")),
    ("ANTHROPIC_SMALL_FAST_MODEL", ("models", "small")),
    ("ANTHROPIC_DEFAULT_HAIKU_MODEL", ("models", "small")),
    ("ANTHROPIC_MODEL", ("model",)),
)
"""Variables of Claude Code, which guides to gateways and other servers set; the later wins."""


def model_entries(variables: Mapping[str, str], project_names: Iterable[str]) -> Iterator[Entry]:
    """Read the variables that name models for Claude Code; see `environment_entries`."""
    from_project = frozenset(project_names)
    for name, path in _MODEL_VARIABLES:
        if text := variables.get(name, "").strip():
            yield Entry(path, text, f"env {name}", True, name in from_project)


def override_entries(overrides: Iterable[Override]) -> Iterator[Entry]:
    """Read options; a repeatable one adds to the lists of earlier layers."""
    for key, value, flag in overrides:
        origin = f"flag {flag}" if flag.startswith("-") else f"argument {flag}"
        yield Entry(
            tuple(key.split(".")),
            value,
            origin,
            isinstance(value, str),
            adds=isinstance(value, tuple),
            must_exist=True,
        )
