"""Ask a person to approve tool calls: all waiting calls in one list, or each by itself."""

import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, Literal, TypeAlias

from agent_cli.contracts.dialogs import Approved, Decision, Rejected
from agent_cli.contracts.errors import SettingsError, UsageError
from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.permissions_port import PermissionsPort
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import Tool
from agent_cli.core.declining import NOBODY_ALLOWS, STOPPED, UNWANTED, unwanted_because
from agent_cli.repl.approval.changes import Row
from agent_cli.repl.approval.editing import Editor, edited_input, edited_part
from agent_cli.repl.approval.preview import folded, write_rows
from agent_cli.repl.approval.titles import titled
from agent_cli.repl.dialogue import Choice, Questions
from agent_cli.system.paths import exists, shown
from agent_cli.terminal.sanitize import reveal
from agent_cli.terminal.writer import Lines

# Slash commands typed out of habit are not comments for the model; paths have a second slash.
_COMMAND: Final = re.compile(r"!|/[^\s/]+(?:\s|\Z)")
# Rows around the calls: the question, its choices, and the rows around the prompt.
_OTHER_ROWS: Final = 12
_INDENT: Final = 2
_MARGIN: Final = "   "
_PREVIEW_ROWS_MIN: Final = 6
# The title of a call, the reason and the facts.
_ABOUT_ROWS: Final = 3
_CHANGES_FILES: Final = "changes files"
_NO_SANDBOX: Final = "sandbox: none"
_IN_WORDS: Final = {
    "edit(./**)": "edits in this folder",
    "write(./**)": "files written in this folder",
}
_COMMANDS: Final = re.compile(r"bash\((.+) \*\)")


_Calls: TypeAlias = Mapping[int, ToolCall]
_Decisions: TypeAlias = dict[int, Decision]
_Action: TypeAlias = Literal["yes", "session", "project", "edit", "each", "view", "no"] | int


@dataclass(frozen=True, slots=True)
class _Shown:
    """A call on the screen: `what` it does may be folded, title, reason and facts never are."""

    title: str
    beside: str
    what: tuple[Row, ...]
    reason: str
    facts: tuple[str, ...]


class Approvals:
    """Asks a person about waiting calls, after showing exactly what each would do."""

    def __init__(
        self,
        *,
        questions: Questions,
        writer: Lines,
        permissions: PermissionsPort,
        tools: Sequence[Tool],
        workspace: Path,
        before_asking: Callable[[], None] = lambda: None,
        editor: Editor | None = None,
        who: str = "",
        draw: Callable[[Sequence[Row]], None] | None = None,
    ) -> None:
        """Ask nothing yet; without an *editor*, inputs cannot be edited.

        *before_asking* is called after rows were written that the user must see at once. *who*
        names the agent that made the calls, if it is a subagent. *draw* shows rows where there is
        a screen; by default they are lines for the writer.
        """
        self._questions = questions
        self._writer = writer
        self._permissions = permissions
        self._tools = tools
        self._workspace = workspace
        self._before_asking = before_asking
        self._editor = editor
        self._who = f"{reveal(who)}: " if who else ""
        self._draw = draw or partial(write_rows, writer=writer)
        self._has_written = False

    async def decide(self, calls: Sequence[ToolCall]) -> list[Decision]:
        """Return the decision about each of *calls*; "don't ask again" rules are stored first.

        Raises:
            EOFError: The session ends without a decision.
        """
        if not self._questions.can_ask:
            names = ", ".join(dict.fromkeys(call.name for call in calls))
            self._writer.notice(
                f"{names} skipped: cannot ask here; use --allow or --permission-mode", "error"
            )
            return [Rejected(NOBODY_ALLOWS)] * len(calls)
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
        """Return the calls decided neither by the person nor by a rule just stored."""
        return {
            number: call
            for number, call in calls.items()
            if number not in decided and not self._permissions.is_remembered(call)
        }

    async def _ask(self, calls: _Calls) -> _Decisions:
        """Show *calls* and ask until at least one of them is decided."""
        whole = {number: self._shown(call) for number, call in calls.items()}
        fitting = _fitting(whole)
        offered = self._offered(calls, is_folded=fitting != whole)
        self._write(fitting)
        one = len(calls) == 1
        while True:
            self._before_asking()
            answer = await self._questions.select(
                "allow? " if one else f"allow all {len(calls)}? ",
                list(offered),
                text=f"decline {'' if one else f'all {len(calls)} '}and tell the model why",
            )
            if isinstance(answer, str):
                if _is_command(answer):
                    self._writer.notice(f"{reveal(answer)}: answer this question first", "warning")
                    continue
                return dict.fromkeys(calls, Rejected(unwanted_because(answer.strip())))
            action = offered[answer]
            if action == "view":
                self._write(whole)
            elif isinstance(action, int):
                return await self._ask({action: calls[action]})
            elif action == "each":
                return await self._ask_about_each(calls)
            elif decisions := await self._decided(action, calls):
                return decisions

    async def _ask_about_each(self, calls: _Calls) -> _Decisions:
        """Ask about one call after the other, except those that a rule just stored allows."""
        decided: _Decisions = {}
        for number, call in calls.items():
            if not self._permissions.is_remembered(call):
                decided |= await self._ask({number: call})
        return decided

    async def _decided(self, action: _Action, calls: _Calls) -> _Decisions:
        """Return the decisions of *action*; none if the question must be asked again."""
        try:
            match action:
                case "no":
                    return dict.fromkeys(calls, Rejected(UNWANTED))
                case "edit":
                    [(number, call)] = calls.items()
                    edited = await self._edited(call)
                    return {} if edited is None else {number: Approved(edited)}
                case "session":
                    for call in calls.values():
                        self._permissions.remember(call)
                case "project":
                    for call in calls.values():
                        if not self._permissions.is_remembered(call):
                            self._permissions.remember_for_project(call)
                case _:
                    pass
        except (SettingsError, UsageError) as error:
            self._writer.notice(str(error), "error")
            return {}
        return dict.fromkeys(calls, Approved())

    async def _edited(self, call: ToolCall) -> Json:
        """Let the user edit the input of *call*; return the new input, None if unchanged."""
        assert self._editor
        edited = await edited_input(call, self._tools, self._editor)
        if edited is None:
            self._writer.notice("nothing was changed", "dim")
        else:
            now = titled(replace(call, input=edited), self._tools)
            self._draw([Row(now.title, "title", beside="as you edited it"), *_indented(now.rows)])
        return edited

    def _offered(self, calls: _Calls, *, is_folded: bool) -> dict[Choice, _Action]:
        """Return the possible answers, "yes" first."""
        one = len(calls) == 1
        yes = "Yes" if one else f"Yes, run all {len(calls)}"
        rules = [self._permissions.asked_about(call).rules for call in calls.values()]
        listed = ", ".join(dict.fromkeys(rule_in_words(rule) for each in rules for rule in each))
        offered: dict[Choice, _Action] = {Choice(yes, ("y", "yes")): "yes"}
        if all(rules):
            # Never a single letter: a typing slip must not store a permanent rule.
            label = f"{yes}, and {listed} this session"
            offered[Choice(label, ("y session", "yes session"))] = "session"
            if file := self._permissions.project_file:
                label = f"{yes}, and {listed} in this project from now on (kept in {shown(file)})"
                offered[Choice(label, ("y project", "yes project"))] = "project"
        if one and self._editor:
            part = edited_part(*calls.values())
            label = "Change it first" if part == "input" else f"Change the {part} first"
            offered[Choice(label, ("e", "edit"))] = "edit"
        if not one:
            offered[Choice("One by one (or type the number of one)", ("each",))] = "each"
        for number in () if one else calls:
            offered[Choice("", (str(number),))] = number
        if is_folded:
            offered[Choice("Show all of it", ("v", "view"))] = "view"
        offered[Choice("No" if one else "No, none of them", ("n", "no"))] = "no"
        return _numbered(offered) if one else offered

    def _shown(self, call: ToolCall) -> _Shown:
        """Return what to show about *call*."""
        asked = self._permissions.asked_about(call)
        where = [f"in {shown(self._workspace)}"] if "command" in call.arguments else []
        call_shown = titled(call, self._tools)
        says_nothing = call_shown.is_change and call.reason == _CHANGES_FILES
        return _Shown(
            call_shown.title,
            call_shown.beside,
            call_shown.rows,
            "" if says_nothing else reveal(call.reason),
            tuple(reveal(fact) for fact in (*where, *asked.facts)),
        )

    def _write(self, calls: Mapping[int, _Shown]) -> None:
        if self._has_written:
            self._writer.aside("")  # below the answer before
        self._has_written = True
        if len(calls) == 1:
            [call] = calls.values()
            rows = [Row(f"{self._who}{call.title}", "title", beside=call.beside)]
            rows += [*_indented(call.what), *_about(call.reason, call.facts)]
            self._draw(rows)
            return
        shared = _shared(calls.values())
        rows = [Row(f"{self._who}{len(calls)} calls", "title"), *_about("", shared)]
        for number, call in calls.items():
            end = f"   {call.beside}" if call.beside else ""
            rows.append(Row(f"{number:>{_INDENT}} {call.title}{end}", "label"))
            own = [fact for fact in call.facts if fact not in shared]
            rows += _indented((*call.what, *_about(call.reason, own)))
        self._draw(rows)


def _is_command(answer: str) -> bool:
    """Return whether *answer* looks like a command, and not like a sentence about a path."""
    return bool(_COMMAND.match(answer)) and not exists(Path(answer.split(maxsplit=1)[0]))


def _about(reason: str, facts: Sequence[str]) -> list[Row]:
    """Return the rows below a call: why it asks, and in faint letters what holds it."""
    rows = [Row(f"{_MARGIN}{reason}")] if reason else []
    for is_danger in (False, True):
        some = [fact for fact in facts if fact.startswith(_NO_SANDBOX) == is_danger]
        if some:
            rows.append(Row(f"{_MARGIN}{' · '.join(some)}", "warning" if is_danger else "dim"))
    return rows


def _shared(calls: Iterable[_Shown]) -> tuple[str, ...]:
    """Return the facts of several calls that are the same for all that have any: said once."""
    first, *others = [call.facts for call in calls if call.facts] or [()]
    return tuple(fact for fact in first if others and all(fact in other for other in others))


def _numbered(offered: Mapping[Choice, _Action]) -> dict[Choice, _Action]:
    """Return *offered* with a digit before each answer, which selects it too."""
    return {
        choice._replace(number=number, lines=(*choice.lines, str(number))): each
        for number, (choice, each) in enumerate(offered.items(), 1)
    }


def rule_in_words(rule: str) -> str:
    """Return what the *rule* lets run, for an answer: its exact text, unless words say the same."""
    if rule in _IN_WORDS:
        return _IN_WORDS[rule]
    if (command := _COMMANDS.fullmatch(rule)) is not None:
        return f"commands that begin with `{reveal(command[1])}`"
    return f"all that {reveal(rule)} covers"


def _indented(rows: Sequence[Row]) -> list[Row]:
    return [
        row._replace(
            text=f"{' ' * _INDENT}{row.text}",
            marks=tuple((start + _INDENT, end + _INDENT) for start, end in row.marks),
        )
        for row in rows
    ]


def _fitting(calls: Mapping[int, _Shown]) -> dict[int, _Shown]:
    """Return *calls*, folded to fit on the screen; short ones leave room for the others."""
    size = shutil.get_terminal_size()
    room = size.lines - _OTHER_ROWS - _ABOUT_ROWS * len(calls)
    fitting = dict(calls)
    shortest_first = sorted(calls.items(), key=lambda entry: len(entry[1].what))
    for count, (number, call) in zip(range(len(calls), 0, -1), shortest_first, strict=True):
        rows_max = max(room // count, _PREVIEW_ROWS_MIN)
        what = folded(call.what, rows_max=rows_max, columns=size.columns - _INDENT)
        fitting[number] = replace(call, what=what)
        room -= len(what)
    return fitting
