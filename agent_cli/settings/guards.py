"""The settings of a project that only restrict the model: hooks that may block, rules that ask or
deny. They hold on when another part of their file is no longer trusted.
"""

from collections.abc import Iterable, Iterator, Sequence

from agent_cli.contracts.written_hooks import guards_on
from agent_cli.settings.rules import fold
from agent_cli.settings.sources import ENVIRONMENT_PREFIX, Entry

_RULES = ("ask", "deny")


def is_guard(path: Sequence[str]) -> bool:
    """Return whether the key *path*, as written in a file, sets a guard."""
    section, _, name = ".".join(path).partition(".")
    match fold(section):
        case "permissions":
            return fold(name) in _RULES
        case "hooks":
            return guards_on(name)
        case _:
            return False


def is_guard_variable(name: str) -> bool:
    """Return whether the environment variable *name* sets a guard."""
    setting = name.removeprefix(ENVIRONMENT_PREFIX)
    return setting != name and is_guard(setting.split("__"))


def only_guards(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Yield the *entries* that set guards."""
    return (entry for entry in entries if is_guard(entry.path))
