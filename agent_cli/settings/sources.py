"""A setting as it was found, and where: in a file (`files`), a variable or an option.

Knows no setting: which keys exist and what they may be is decided in `layers`.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, TypeAlias

from agent_cli.contracts.errors import SettingsError

ENVIRONMENT_PREFIX = "AGENT_CLI_"
# Where Claude Code keeps hooks: the first in a home directory, both in a project.
CLAUDE_FILES = (".claude/settings.json", ".claude/settings.local.json")
RULE_KINDS = ("allow", "ask", "deny")

KeyPath: TypeAlias = tuple[str, ...]


class Entry(NamedTuple):
    """One value as it was found.

    Attributes:
        path: The key as it is written there, split at its dots.
        origin: Where: "FILE:LINE", "env NAME" or "flag --NAME".
        is_text: Variables and options hold text, which has to be read as the setting's type.
        from_project: A project's file said so, not the user.
        adds: A list is added to what the layers before it hold.
    """

    path: KeyPath
    value: object
    origin: str
    is_text: bool = False
    from_project: bool = False
    adds: bool = False


class Override(NamedTuple):
    """A setting given as an option; a repeated option has several values.

    Attributes:
        key: Dotted, as in the schema.
        value: Its text, texts, or the switch's meaning.
        flag: The option as the user typed it, with its dashes.
    """

    key: str
    value: str | tuple[str, ...] | bool
    flag: str


class WrittenRule(NamedTuple):
    """A permission rule as somebody wrote it; `kind` is one of `RULE_KINDS`, `origin` as above."""

    kind: str
    text: str
    origin: str


class WrittenHooks(NamedTuple):
    """A group of lifecycle hooks as somebody wrote it, not checked; `event` is Claude Code's."""

    event: str
    group: object
    origin: str
    from_project: bool = False


def text_of(path: Path) -> str:
    """Return the text of a file of settings.

    Raises:
        SettingsError: It cannot be read, or is not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        # Without the cause: its text would quote bytes of the file.
        raise SettingsError(f"{path} is not UTF-8 text; save it as UTF-8") from None
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from error


def environment_entries(
    variables: Mapping[str, str], project_names: Iterable[str]
) -> Iterator[Entry]:
    """Read `AGENT_CLI_<SECTION>__<KEY>`; *project_names* came out of the project's `.env`."""
    from_project = frozenset(project_names)
    for name, text in variables.items():
        if name.startswith(ENVIRONMENT_PREFIX):
            path = tuple(name.removeprefix(ENVIRONMENT_PREFIX).split("__"))
            yield Entry(path, text, f"env {name}", True, name in from_project)


def override_entries(overrides: Iterable[Override]) -> Iterator[Entry]:
    """Read options; a repeatable one adds to the list of the layers before it."""
    for key, value, flag in overrides:
        several = isinstance(value, tuple)
        yield Entry(
            tuple(key.split(".")), value, f"flag {flag}", isinstance(value, str), adds=several
        )
