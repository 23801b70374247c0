"""What one command does, in verbs, for its explanation: those that only read too."""

from collections.abc import Sequence
from typing import Final

from agent_cli.policies.shell.effect_table import known_effect
from agent_cli.policies.shell.readings import SHELLS, Reading, base_name

_NAMED_MAX: Final = 3
# The names of files say more than the effect alone.
_WITH_NAMES: Final = frozenset(
    {
        *("rm", "rmdir", "unlink", "shred", "mkdir", "touch", "mv", "cp", "ln", "cat"),
        *("cd", "pushd", "tee", "source", ".", "ls", "chmod", "chown", "truncate", "patch"),
    }
)


def what_it_does(words: Reading) -> str:
    """Return what a simple command of *words* does, as a clause that begins with a verb.

    Returns:
        "" for a program that is not known. A word that is not known is left out.
    """
    head = words[0] if words else None
    if head is None:
        return ""
    name = base_name(head)
    known = [word for word in words[1:] if word is not None]
    if name in SHELLS:
        return "runs a shell script"
    found = known_effect(name, known)
    does = found.says if found else ""
    names = [word for word in known if not word.startswith("-")] if name in _WITH_NAMES else []
    return f"{does}: {_few(names)}" if does and names else does


def _few(names: Sequence[str]) -> str:
    more = len(names) - _NAMED_MAX
    return ", ".join(names[:_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
