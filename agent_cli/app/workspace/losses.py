"""Ask the person before a command takes more than they expect: many files, or others' work.

And say what an undo would not cover.
"""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agent_cli.contracts.dialogs import Option, UserQuestion
from agent_cli.contracts.errors import ToolError
from agent_cli.contracts.wording import counted, first_named, one_line
from agent_cli.policies.permissions import Permissions
from agent_cli.system.git import GitError, git_output, status_rows

if TYPE_CHECKING:
    from agent_cli.app.person import ModelsPerson
    from agent_cli.sandbox import Report
    from agent_cli.settings.schema import UndoSettings
    from agent_cli.system.launching import NamedFiles
    from agent_cli.undo.logs import CommandQuestion, GeneratedFolder, Loss

_GO_ON, _REFUSE, _ALWAYS = "Go on", "Stop", "Always"
_RUN, _LEAVE = "Run it", "Leave it"
_ID_CHARS: Final = 8
_COMMAND_CHARS_MAX: Final = 80
_NAMED_MAX: Final = 3
_GIT_LIMIT_S: Final = 5.0


class LossDecider:
    """Decides whether commands of a session go on; does not ask about "always" allowed ones."""

    def __init__(
        self, person: "ModelsPerson | None", permissions: Callable[[], Permissions], root: Path
    ) -> None:
        """Ask *person*; without one, only what a rule of *permissions* allows goes on."""
        self._person = person
        self._permissions = permissions
        self._root = root
        self._always: set[str] = set()

    def allow(self, command: str) -> None:
        """Let *command* go on each time."""
        self._always.add(command)

    async def decide(self, command: str, loss: "CommandQuestion") -> bool:
        """Return whether *command* goes on with what it deletes and overwrites.

        Or, if it asks that, whether all in a folder can be built again.
        """
        if command in self._always or self._permissions().allows_every_effect(command):
            return True
        from agent_cli.undo.logs import GeneratedFolder  # with a command

        if isinstance(loss, GeneratedFolder):
            return await asyncio.to_thread(_can_be_built_again, loss)
        person = self._person
        if person is None:
            return False
        unheld = await asyncio.to_thread(_not_in_git, loss.paths, self._root)
        answer = await _answer(person, command, _question(command, loss, unheld, self._root))
        if answer == _ALWAYS:
            self._always.add(command)
        return answer in (_GO_ON, _ALWAYS)


class OthersWorkGuard:
    """Keeps commands off what other sessions in the folder have not committed, until allowed.

    Call it before a command. Once "always" was answered it asks nothing more.
    """

    def __init__(
        self,
        person: "ModelsPerson | None",
        permissions: Callable[[], Permissions],
        root: Path,
        others: Callable[[], Mapping[str, Sequence[Path]]],
    ) -> None:
        """Ask *person*; *others* returns the files that other open sessions changed; it blocks."""
        self._person = person
        self._permissions = permissions
        self._root = root
        self._others = others
        self._is_settled = False

    async def __call__(self, command: str) -> None:
        """Ask about *command* if it takes the work of another session as well.

        Raises:
            ToolError: It is not to run.
        """
        if self._is_settled or "git" not in command:
            return
        session, paths = await asyncio.to_thread(self._at_stake, command)
        if not paths or self._permissions().allows_every_effect(command):
            return
        names = ", ".join(_shown(path, self._root) for path in paths[:_NAMED_MAX])
        whose = f"session {session[:_ID_CHARS]}: {names}{', …' if len(paths) > _NAMED_MAX else ''}"
        person, answer = self._person, None
        if person is not None:
            answer = await _answer(person, command, _about_others(command, whose))
        self._is_settled = answer == _ALWAYS
        if answer not in (_RUN, _ALWAYS):
            raise ToolError(
                f"The command did not run: it takes what is not committed of another {whose}."
                " Name your own files instead, as in `git add FILE` or `git commit FILE`,"
                " or ask the user."
            )

    def _at_stake(self, command: str) -> tuple[str, Sequence[str]]:
        """Return a session with files that *command* takes and git does not hold; blocks."""
        from agent_cli.policies.shell.git import (  # with a command
            commits_staged,
            staged_names,
            taking_all,
        )

        takes_all, takes_staged = bool(taking_all(command)), commits_staged(command)
        # A file that it names is its own business; a folder may hold what others changed.
        named = {Path(os.path.normpath(self._root / name)) for name in staged_names(command)}
        folders = {self._root} if takes_all else named
        if not (folders or takes_staged):
            return "", ()
        of_sessions = self._others()
        if not any(of_sessions.values()):
            return "", ()
        uncommitted = _uncommitted(self._root)

        def is_taken(path: Path) -> bool:
            is_staged = uncommitted.get(str(path))
            if is_staged is None:
                return False
            is_committed = takes_staged and is_staged and path not in named
            return is_committed or not folders.isdisjoint(path.parents)

        at_stake = {
            session: [str(path) for path in paths if is_taken(path)]
            for session, paths in of_sessions.items()
        }
        return max(at_stake.items(), key=lambda each: len(each[1]))


async def _answer(person: "ModelsPerson", command: str, question: UserQuestion) -> str | None:
    """Return the answer to *question* about *command*, which is noted if nobody can be asked."""
    answer = await person.choose(question, "The command", steers=True)
    if answer is None and not person.can_ask:
        person.note_refused(command)
    return answer


def _uncommitted(root: Path) -> Mapping[str, bool]:
    """Return the files that differ from HEAD, untracked ones included, and which are staged."""
    if (top := _top(root)) is None:
        return {}
    try:
        rows = status_rows(root, "--untracked-files=all", limit_s=_GIT_LIMIT_S)
    except GitError:
        return {}
    return {f"{top}/{row[3:]}": row[0] not in " ?" for row in rows}


def _about_others(command: str, whose: str) -> UserQuestion:
    return UserQuestion(
        question=(
            f"`{one_line(command, _COMMAND_CHARS_MAX)}` also takes what is not committed of another"
            f" {whose}. That session is open in this folder."
        ),
        header="others' work",
        options=[
            Option(label=_RUN, description="their changes go with it"),
            Option(
                label=_LEAVE,
                description="the model is told; with --worktree a session has its own folder",
            ),
            Option(label=_ALWAYS, description="do not ask again in this session"),
        ],
    )


def left_out(leave_out: Sequence[str], command: str) -> str:
    """Return the entry of `undo.leave_out` that names *command*, or "".

    All that the command runs must be named, so that `make; rm -rf data` is still watched.

    Raises:
        SettingsError: An entry is no command.
    """
    if not leave_out:
        return ""
    from agent_cli.policies.shell.readings import readings  # with a command
    from agent_cli.policies.shell.rules import command_rule, strongest

    rules = [command_rule(written) for written in leave_out]
    found = [strongest(rules, [reading]) for reading in readings(command)]
    named = [rule.written for match, rule in found if match == "yes" and rule]
    return named[0] if named and len(named) == len(found) else ""


def why_unrecorded(commands: str, report: "Report | None") -> str:
    """Return why not all that commands change is recorded here, or ""; may try it, and block.

    *commands* is the setting, *report* that of the sandbox, once it is known.
    """
    from agent_cli.undo.watchable import may_gain_rights, why_unstopped  # with a command

    if why := why_unstopped():
        return why
    program = [str(report.program)] if report and report.program else []
    restricts_itself = report is not None and report.state == "landlock"
    if commands != "always" and may_gain_rights(program, restricts_itself=restricts_itself):
        return (
            "without a sandbox, sudo would fail in a command whose changes are recorded;"
            ' undo.commands = "always" records them all the same'
        )
    return ""


def unkept(
    limits: "UndoSettings",
    report: Callable[[], "Report | None"],
    named: Callable[[str, str], "NamedFiles | None"],
    command: str,
) -> str:
    """Return a fact for the question about *command*: what /undo would not cover, or "".

    *named* returns what is kept of the files that a command names, for a reason.
    """
    if limits.commands == "off":
        return ""
    if entry := left_out(limits.leave_out, command):
        return f"/undo does not cover it: undo.leave_out has {entry}"
    why = why_unrecorded(limits.commands, report())
    if not why:
        return ""
    found = named(command, why)
    if found is None:
        return f"/undo does not cover it: {why}"
    lost = [f"{path} ({reason})" for path, reason in found.unkept.items()]
    but = f", but not {first_named(lost, _NAMED_MAX)}" if lost else ""
    return f"/undo covers only the files that it names{but}: {why}"


def _can_be_built_again(generated: "GeneratedFolder") -> bool:
    """Return whether git holds no file in a folder, and ignores it if it has to."""
    path = Path(generated.folder)
    # A command may be in the midst of deleting it; what git holds stands in the index.
    held = git_output(path.parent, "ls-files", "-z", "--", path.name, limit_s=_GIT_LIMIT_S)
    if held is None:  # no repository, or one that git cannot read: then nobody knows
        is_in_none = not any(os.path.lexists(folder / ".git") for folder in path.parents)
        return generated.is_certain and is_in_none
    if held:
        return False
    ignored = ("check-ignore", "--quiet", f"{path.name}/")
    return (
        generated.is_certain
        or generated.ignores_itself
        or git_output(path.parent, *ignored, limit_s=_GIT_LIMIT_S) is not None
    )


def _not_in_git(paths: Sequence[str], root: Path) -> Sequence[str]:
    """Return the paths that git's index does not hold; without git, all paths."""
    if not paths:
        return ()
    listed = git_output(root, "ls-files", "-z", "--full-name", "--", *paths, limit_s=_GIT_LIMIT_S)
    if listed is None or (top := _top(root)) is None:
        return paths
    held = {f"{top}/{name}" for name in listed.split("\0")}
    return [path for path in paths if path not in held and "/.git/" not in path]


def _top(root: Path) -> str | None:
    top = git_output(root, "rev-parse", "--show-toplevel", limit_s=_GIT_LIMIT_S)
    return top and top.removesuffix("\n")


def _question(command: str, loss: "Loss", unheld: Sequence[str], root: Path) -> UserQuestion:
    parts: list[str] = []
    if loss.files:
        names = [_shown(path, root) for path in unheld[:_NAMED_MAX]]
        more = ", …" if len(unheld) > _NAMED_MAX else ""
        of = f" of the first {len(loss.paths)}" if loss.files > len(loss.paths) else ""
        size = _size(loss.bytes)
        held = f" ({len(unheld)}{of} not in git: {', '.join(names)}{more})" if unheld else ""
        parts.append(f"has deleted or overwritten {counted(loss.files, 'file')}{held}{size} and")
    parts.append(f"wants to go on with {_shown(loss.next, root)}{_size(loss.next_bytes)}")
    kept = (
        f"That file cannot be brought back: {loss.why_unkept}."
        if loss.why_unkept
        else "Everything is kept so far: /undo brings it back."
    )
    return UserQuestion(
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


def _size(size: int) -> str:
    return f" ({size / 1e6:.1f} MB)" if size >= 100_000 else ""
