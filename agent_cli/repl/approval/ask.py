"""Asking a person whether tools may run: all that wait in one list, and each alone if wanted."""

import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol, TypeAlias

from agent_cli.contracts.errors import SettingsError, UsageError
from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.tooling import Tool
from agent_cli.repl.approval.changes import Row
from agent_cli.repl.approval.preview import folded, preview, write_rows
from agent_cli.repl.approval.refusals import STOPPED, UNWANTED, unwanted_because
from agent_cli.repl.approval.rewording import Editor, reworded
from agent_cli.repl.permissions import Permissions
from agent_cli.terminal.sanitize import reveal
from agent_cli.terminal.writer import Lines

_NOBODY: Final = (
    "This call needs a person's approval and nobody can be asked here. Go on without it, and say"
    " at the end what was left out."
)
_TWO_DIGITS: Final = 10
# Typed out of habit, and no comment for the model; a path goes on behind its first name.
_COMMAND: Final = re.compile(r"!|/[a-z-]+(?: |\Z)")
_WORDS: Final = {"yes": "y", "always": "a", "project": "p", "no": "n", "edit": "e"}
# What stands around the calls: the question itself, the keys, and the prompt's surroundings.
_OTHER_ROWS: Final = 10
_INDENT: Final = 2
_PREVIEW_ROWS_MIN: Final = 6


class Questions(Protocol):
    """What the dialogue needs of a prompt; see `Asking.choose`."""

    @property
    def can_ask(self) -> bool:
        """Whether somebody is there to answer."""
        ...

    async def choose(self, message: str, keys: str) -> str:
        """Return one of *keys* or other text."""
        ...


@dataclass(frozen=True, slots=True)
class Approved:
    """The call may run."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """The call may not run, for *reason*; `stop` when the person wants the prompt back."""

    reason: str
    stop: bool = False


Decision: TypeAlias = Approved | Rejected
_Calls: TypeAlias = Mapping[int, ToolCall]
_Decisions: TypeAlias = dict[int, Decision]


@dataclass(frozen=True, slots=True)
class _Shown:
    """A call on the screen: `what` happens may be folded, the `facts` about it never are."""

    name: str
    what: tuple[Row, ...]
    facts: tuple[Row, ...]


class Approvals:
    """Puts waiting calls to a person, and shows before what exactly would happen."""

    def __init__(
        self,
        *,
        questions: Questions,
        writer: Lines,
        permissions: Permissions,
        tools: Sequence[Tool],
        workspace: Path,
        editor: Editor | None = None,
    ) -> None:
        """Ask nothing yet; without an *editor* nobody can ask for another input."""
        self._questions = questions
        self._writer = writer
        self._permissions = permissions
        self._tools = tools
        self._workspace = workspace
        self._editor = editor

    async def decide(self, calls: Sequence[ToolCall]) -> list[Decision]:
        """Return what a person decides about each of *calls*; "always" is remembered before.

        Raises:
            EOFError: The session ends; nothing is decided.
        """
        if not self._questions.can_ask:
            names = ", ".join(dict.fromkeys(call.name for call in calls))
            self._writer.notice(
                f"{names} not run: it needs an approval and nobody can be asked", "error"
            )
            return [Rejected(_NOBODY)] * len(calls)
        for call in calls:
            await self._permissions.recall(call, self._tools)
        numbered = dict(enumerate(calls, 1))
        decided: _Decisions = {}
        try:
            while waiting := self._waiting(numbered, decided):
                decided |= await self._ask(waiting)
        except KeyboardInterrupt:
            return [Rejected(STOPPED, stop=True)] * len(calls)
        return [decided.get(number, Approved()) for number in numbered]

    def _waiting(self, calls: _Calls, decided: _Decisions) -> _Calls:
        """Return the calls nobody has decided about, nor a rule that was just remembered."""
        return {
            number: call
            for number, call in calls.items()
            if number not in decided and not self._permissions.is_remembered(call)
        }

    async def _ask(self, calls: _Calls) -> _Decisions:
        """Show *calls* and ask, until something is decided about one of them at least."""
        offered = self._offered(calls)
        whole = {number: self._shown(call) for number, call in calls.items()}
        fitting = _fitting(whole)
        if fitting != whole:
            offered["v"] = "view all of it"
        self._write(fitting, offered)
        question = "allow? " if len(calls) == 1 else f"allow all {len(calls)}? "
        keys = "".join(offered) + _numbers(calls)
        while True:
            answer = (await self._questions.choose(question, keys)).strip()
            key = _WORDS.get(answer.lower(), answer.lower())
            if key == "v":
                self._write(whole, offered)
            elif key in offered:
                if decisions := await self._decided(key, calls):
                    return decisions
            elif key.isdecimal() and len(calls) > 1:
                if int(key) in calls:
                    return await self._ask({int(key): calls[int(key)]})
            elif _COMMAND.match(answer):
                self._writer.notice(f"{reveal(answer)} waits: answer this first", "warning")
            elif len(answer) > 1:  # one letter that is no key is a slip
                return dict.fromkeys(calls, Rejected(unwanted_because(answer)))

    async def _decided(self, key: str, calls: _Calls) -> _Decisions:
        """Return what *key* stands for; nothing when it has to be asked again."""
        try:
            match key:
                case "n":
                    return dict.fromkeys(calls, Rejected(UNWANTED))
                case "e":
                    [(number, call)] = calls.items()
                    wanted = await reworded(call, self._editor) if self._editor else None
                    return {number: Rejected(wanted)} if wanted else {}
                case "a":
                    for call in calls.values():
                        self._permissions.remember(call)
                case "p":
                    for call in calls.values():
                        if not self._permissions.is_remembered(call):
                            self._permissions.remember_for_project(call)
        except (SettingsError, UsageError) as error:
            self._writer.notice(str(error), "error")
            return {}
        return dict.fromkeys(calls, Approved())

    def _offered(self, calls: _Calls) -> dict[str, str]:
        """Return the keys that answer, and what each of them stands for."""
        one = len(calls) == 1
        rules = [self._permissions.asked_about(call).rules for call in calls.values()]
        listed = reveal(", ".join(dict.fromkeys(rule for each in rules for rule in each)))
        offered = {}
        if all(rules):
            offered["a"] = f"always this session: {listed}"
            if file := self._permissions.project_file:
                offered["p"] = f"always for this project, kept in {file}: {listed}"
        offered |= {"y": "yes", "n": "no"} if one else {"y": "yes to all", "n": "no to all"}
        if one and self._editor:
            offered["e"] = "edit it first"
        return offered

    def _shown(self, call: ToolCall) -> _Shown:
        """Return what there is to know about *call*."""
        asked = self._permissions.asked_about(call)
        is_command = isinstance(call.input, dict) and "command" in call.input
        where = f" in {self._workspace}" if is_command else ""
        why = [f"why it asks: {call.reason}"] if call.reason else []
        return _Shown(
            reveal(f"{call.name}{where}"),
            tuple(preview(call, self._tools)),
            tuple(Row(reveal(fact)) for fact in (*why, *asked.facts)),
        )

    def _write(self, calls: Mapping[int, _Shown], offered: Mapping[str, str]) -> None:
        several = len(calls) > 1
        rows = [Row(f"{len(calls)} calls ask to run:")] if several else []
        for number, call in calls.items():
            rows.append(Row(f"{number}. {call.name}" if several else f"{call.name} asks to run:"))
            rows += [Row(f"  {row.text}", row.style) for row in (*call.what, *call.facts)]
        rows += [Row(f"{key} = {offered[key]}") for key in "ap" if key in offered]
        keys = [f"{key} = {offered[key]}" for key in "ynev" if key in offered]
        keys += ["a number = that one alone"] if several else []
        rows += [Row(" · ".join(keys)), Row("any other text = no, and the model reads it")]
        write_rows(rows, self._writer)


def _fitting(calls: Mapping[int, _Shown]) -> dict[int, _Shown]:
    """Return *calls*, folded so that all fit on the screen; short ones leave their room."""
    size = shutil.get_terminal_size()
    room = size.lines - _OTHER_ROWS - sum(len(call.facts) + 1 for call in calls.values())
    fitting = dict(calls)
    shortest_first = sorted(calls.items(), key=lambda entry: len(entry[1].what))
    for count, (number, call) in zip(range(len(calls), 0, -1), shortest_first, strict=True):
        rows_max = max(room // count, _PREVIEW_ROWS_MIN)
        what = folded(call.what, rows_max=rows_max, columns=size.columns - _INDENT)
        fitting[number] = replace(call, what=what)
        room -= len(what)
    return fitting


def _numbers(calls: _Calls) -> str:
    """Return the numbers that answer alone; those of two digits need Enter, and so do all then."""
    return "".join(map(str, calls)) if len(calls) > 1 and max(calls) < _TWO_DIGITS else ""
