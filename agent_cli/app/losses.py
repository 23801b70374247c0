"""Ask the person before a command deletes or overwrites more than they expect."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agent_cli.contracts.wording import one_line
from agent_cli.plugins.ask_user import Option, Question
from agent_cli.policies.permissions import Permissions
from agent_cli.system.git import git_output

if TYPE_CHECKING:
    from agent_cli.app.person import ModelsPerson
    from agent_cli.undo.logs import Loss

_GO_ON, _REFUSE, _ALWAYS = "Go on", "Stop", "Always"
_COMMAND_CHARS_MAX: Final = 80
_NAMED_MAX: Final = 3
_GIT_LIMIT_S: Final = 5.0


class LossDecider:
    """Decides whether commands of a session go on; those "always" allowed are not asked about."""

    def __init__(
        self, person: "ModelsPerson | None", permissions: Callable[[], Permissions], root: Path
    ) -> None:
        """Ask *person*; without one, only what a rule of *permissions* allows goes on."""
        self._person = person
        self._permissions = permissions
        self._root = root
        self._always: set[str] = set()

    async def decide(self, command: str, loss: "Loss") -> bool:
        """Return whether *command* goes on with what it deletes and overwrites."""
        if command in self._always or self._permissions().allows_every_effect(command):
            return True
        person = self._person
        if person is None:
            return False
        unheld = await asyncio.to_thread(_not_in_git, loss.paths, self._root)
        answer = await person.choose(_question(command, loss, unheld, self._root), "the command")
        if answer is None and not person.can_ask:
            person.refused_commands.append(one_line(command, _COMMAND_CHARS_MAX))
        if answer == _ALWAYS:
            self._always.add(command)
        return answer in (_GO_ON, _ALWAYS)


def _not_in_git(paths: Sequence[str], root: Path) -> Sequence[str]:
    """Return the paths that git's index does not hold; all of them where there is no git."""
    if not paths:
        return ()
    listed = git_output(root, "ls-files", "-z", "--full-name", "--", *paths, limit_s=_GIT_LIMIT_S)
    top = git_output(root, "rev-parse", "--show-toplevel", limit_s=_GIT_LIMIT_S)
    if listed is None or top is None:
        return paths
    held = {f"{top.rstrip()}/{name}" for name in listed.split("\0")}
    return [path for path in paths if path not in held and "/.git/" not in path]


def _question(command: str, loss: "Loss", unheld: Sequence[str], root: Path) -> Question:
    parts: list[str] = []
    if loss.files:
        names = [_shown(path, root) for path in unheld[:_NAMED_MAX]]
        more = ", …" if len(unheld) > _NAMED_MAX else ""
        of = f" of the first {len(loss.paths)}" if loss.files > len(loss.paths) else ""
        size = _size(loss.bytes)
        held = f" ({len(unheld)}{of} not in git: {', '.join(names)}{more})" if unheld else ""
        parts.append(f"has deleted or overwritten {_files(loss.files)}{held}{size} and")
    parts.append(f"wants to go on with {_shown(loss.next, root)}{_size(loss.next_bytes)}")
    kept = (
        f"That file cannot be brought back: {loss.why_unkept}."
        if loss.why_unkept
        else "Everything is kept so far: /undo brings it back."
    )
    return Question(
        question=f"`{one_line(command, _COMMAND_CHARS_MAX)}` {' '.join(parts)}. {kept}",
        header="many files",
        options=[
            Option(label=_GO_ON, description="let this command finish"),
            Option(
                label=_REFUSE, description="its further changes fail; /undo takes back the rest"
            ),
            Option(label=_ALWAYS, description="do not ask again about this command"),
        ],
    )


def _shown(path: str, root: Path) -> str:
    return path.removeprefix(f"{root}/")


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count} files"


def _size(size: int) -> str:
    return f" ({size / 1e6:.1f} MB)" if size >= 100_000 else ""
