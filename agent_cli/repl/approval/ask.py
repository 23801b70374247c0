"""Ask a person to approve tool calls: all waiting calls in one list, or each by itself."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias, TypeVar

from agent_cli.contracts.dialogs import (
    Approved,
    Decision,
    Rejected,
    RemoteAnswersPort,
    first_answer,
)
from agent_cli.contracts.errors import SettingsError, UsageError
from agent_cli.contracts.events import EventSink, Notice, ToolCall
from agent_cli.contracts.permissions import PermissionsPort
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import Tool
from agent_cli.core.call_decisions import NOBODY_ALLOWS, STOPPED, UNWANTED, unwanted_because
from agent_cli.repl.approval.answers import Action, answers_to, objection_to
from agent_cli.repl.approval.call_rows import (
    ShownCall,
    fitting,
    indented,
    rows_of_all,
    rows_of_one,
    rows_of_parts,
    rows_of_several,
    titled,
)
from agent_cli.repl.approval.input_edit import (
    ProposedFile,
    edited_input,
    edited_part,
    failures,
    outdated,
    proposed_file,
    unless_outdated,
)
from agent_cli.repl.approval.preview import Row
from agent_cli.repl.dialogue import Choice, DialogParts
from agent_cli.system.paths import shown
from agent_cli.system.sanitize import reveal

_CHANGES_FILES: Final = "changes files"
_ALLOWING: Final[tuple[Action, ...]] = ("yes", "session", "project")

T = TypeVar("T")
_Calls: TypeAlias = Mapping[int, ToolCall]
_Decisions: TypeAlias = dict[int, Decision]
_Files: TypeAlias = Mapping[int, ProposedFile | None]
_Keep: TypeAlias = Callable[[_Decisions], None]
Record: TypeAlias = Callable[[ToolCall, Decision], None]


class _AnsweredElsewhere(Exception):
    """A person decided about a call elsewhere, while it was asked about here."""

    def __init__(self, call_id: str, decision: Decision) -> None:
        self.call_id = call_id
        self.decision = decision


Announced: TypeAlias = Callable[[], AbstractContextManager[None]]
"""Entered with the turn of a dialog: announces it, and keeps the run from printing."""


class Approvals:
    """Asks a person about waiting calls, after showing exactly what each would do."""

    def __init__(
        self,
        parts: DialogParts,
        *,
        permissions: PermissionsPort,
        tools: Sequence[Tool],
        workspace: Path,
        publish: EventSink,
        asker: str = "",
        elsewhere: RemoteAnswersPort | None = None,
        announced: Announced = nullcontext,
    ) -> None:
        """Ask nothing yet; without an editor, inputs cannot be edited.

        *publish* receives answers from *elsewhere*, which are taken while a question is open,
        perhaps while another dialog asks. *asker* names the agent that made the calls, if it is a
        subagent. *announced* is entered together with the turn.
        """
        self._parts = parts
        self._permissions = permissions
        self._tools = tools
        self._workspace = workspace
        self._publish = publish
        self._asker = f"{reveal(asker)}: " if asker else ""
        self._elsewhere = elsewhere
        self._announced = announced
        self._has_written = False

    async def decide(
        self, calls: Sequence[ToolCall], record: Record = lambda _call, _decision: None
    ) -> list[Decision]:
        """Return the decision about each of *calls*; "don't ask again" rules are stored first.

        *record* is called with each decision, once or more, while other calls still wait.

        Raises:
            EOFError: The session ends without a decision.
        """
        if not self._parts.questions.can_ask:
            names = ", ".join(dict.fromkeys(call.name for call in calls))
            self._parts.lines.notice(
                f"{names} skipped: cannot ask here; use --allow or --permission-mode", "error"
            )
            return [Rejected(NOBODY_ALLOWS)] * len(calls)
        for call in calls:
            await self._permissions.recall(call, self._tools)
        numbered = dict(enumerate(calls, 1))
        decided: _Decisions = {}

        def keep(found: _Decisions) -> None:
            decided.update(found)
            if waiting := self._waiting(numbered, decided):
                for number in numbered.keys() - waiting.keys():
                    record(numbered[number], decided.get(number, Approved()))

        try:
            while waiting := self._waiting(numbered, decided):
                keep(await self._ask_in_turn(waiting, keep))
        except KeyboardInterrupt:
            return [Rejected(STOPPED, stop=True)] * len(calls)
        return [decided.get(number, Approved()) for number in numbered]

    async def _ask_in_turn(self, calls: _Calls, keep: _Keep) -> _Decisions:
        try:
            async with self._holding_turn(calls):
                # The dialog before may have stored a rule that allows them.
                if not (waiting := self._waiting(calls, {})):
                    return {}
                with self._announced():
                    return await self._ask(waiting, keep)
        except _AnsweredElsewhere as answer:
            return self._of_elsewhere(calls, answer)

    def _of_elsewhere(self, calls: _Calls, answer: _AnsweredElsewhere) -> _Decisions:
        [number] = [number for number, call in calls.items() if call.id == answer.call_id]
        verdict = "allowed" if isinstance(answer.decision, Approved) else "declined"
        self._publish(Notice("info", f"{calls[number].name}: {verdict} from elsewhere"))
        return {number: answer.decision}

    @asynccontextmanager
    async def _holding_turn(self, calls: _Calls) -> AsyncGenerator[None]:
        """Wait for other dialogs, and keep them waiting while the body asks about *calls*.

        Raises:
            _AnsweredElsewhere: One of *calls* was answered from elsewhere meanwhile.
        """
        has_turn = False

        async def take_turn() -> None:
            nonlocal has_turn
            has_turn = await self._parts.turn.acquire()

        try:
            await self._unless_answered(calls, take_turn)
            yield
        finally:
            if has_turn:
                self._parts.turn.release()

    async def _unless_answered(self, calls: _Calls, dialog: Callable[[], Awaitable[T]]) -> T:
        """Return the result of *dialog* at this terminal.

        Raises:
            _AnsweredElsewhere: One of *calls* was answered from elsewhere first.
        """
        elsewhere = self._elsewhere
        if elsewhere is None:
            return await dialog()

        def take() -> _AnsweredElsewhere | None:
            found = elsewhere.take(list(calls.values()))
            return _AnsweredElsewhere(*found) if found else None

        answer = await first_answer(dialog, take)
        if isinstance(answer, _AnsweredElsewhere):
            raise answer
        return answer

    def _waiting(self, calls: _Calls, decided: _Decisions) -> _Calls:
        """Return the calls decided neither by the person nor by a rule just stored."""
        return {
            number: call
            for number, call in calls.items()
            if number not in decided and not self._permissions.is_remembered(call)
        }

    async def _ask(self, calls: _Calls, keep: _Keep, *, of: int = 0) -> _Decisions:
        """Show *calls* and ask until at least one call is decided.

        Where each is asked about alone, *keep* gets the decisions as they are made. One that was
        opened from a list *of* several has an answer that leads back, undecided. They are shown
        anew when a file that they change has changed: only what was shown can be allowed. A call
        that can only fail since is declined with its error.
        """
        files, found, offered = await self._found(calls, of=of)
        one, anew = len(calls) == 1, False
        while True:
            if names := outdated(files):
                if failing := await failures(files):
                    return {number: Rejected(error) for number, error in failing.items()}
                self._parts.lines.notice(
                    f"{', '.join(names)} changed meanwhile: shown anew", "warning"
                )
                files, found, offered = await self._found(calls, of=of)
            self._parts.before_asking()
            question = partial(
                self._parts.questions.select,
                "allow? " if one else f"allow all {len(calls)}? ",
                list(offered),
                text=f"decline {'' if one else f'all {len(calls)} '}and tell the model why",
                # An agent in the background may ask while the session does nothing, or anything.
                ctrl_c=f"stops the {'agent and any run' if self._asker else 'run'}",
                anew=anew,
            )
            answer = await self._unless_answered(calls, partial(unless_outdated, files, question))
            if anew := answer is None:
                continue
            if isinstance(answer, str):
                if objection := objection_to(answer):
                    self._parts.lines.notice(objection, "warning")
                    continue
                return dict.fromkeys(calls, Rejected(unwanted_because(answer.strip())))
            action = offered[answer]
            if action == "back":
                return {}
            if action == "view":
                self._parts.draw(rows_of_all(found))
            elif action == "explain":
                self._parts.draw([*self._explained(calls)])
            elif isinstance(action, int):
                if decisions := await self._ask({action: calls[action]}, keep, of=len(calls)):
                    return decisions
                self._write(found)
            elif action == "each":
                return await self._ask_about_each(calls, keep)
            elif action in _ALLOWING and outdated(files):
                continue
            elif decisions := await self._decided(action, calls):
                return decisions

    async def _found(
        self, calls: _Calls, *, of: int
    ) -> tuple[_Files, Mapping[int, ShownCall], dict[Choice, Action]]:
        """Show *calls*; return the files as they would leave them, the calls, and the answers."""
        files = {n: await proposed_file(call, self._tools) for n, call in calls.items()}
        found = {number: self._shown(call, files[number]) for number, call in calls.items()}
        self._write(found)
        return files, found, self._offered(calls, found, files, of=of)

    async def _ask_about_each(self, calls: _Calls, keep: _Keep) -> _Decisions:
        """Ask about one call after the other, except calls allowed by a rule stored just now."""
        decided: _Decisions = {}
        for number, call in calls.items():
            if not self._permissions.is_remembered(call):
                decided |= await self._ask({number: call}, keep)
                keep(decided)
        return decided

    async def _decided(self, action: Action, calls: _Calls) -> _Decisions:
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
            self._parts.lines.notice(str(error), "error")
            return {}
        return dict.fromkeys(calls, Approved())

    async def _edited(self, call: ToolCall) -> Json:
        """Let the user edit the input of *call*; return the new input, None if unchanged."""
        assert self._parts.editor
        edited = await edited_input(call, self._tools, self._parts.editor)
        if edited is None:
            self._parts.lines.notice("nothing was changed", "dim")
        else:
            call = replace(call, input=edited)
            now = titled(call, self._tools, await proposed_file(call, self._tools))
            self._parts.draw(
                [Row(now.title, "title", beside="as you edited it"), *indented(now.rows)]
            )
        return edited

    def _offered(
        self,
        calls: _Calls,
        found: Mapping[int, ShownCall],
        files: _Files,
        *,
        of: int,
    ) -> dict[Choice, Action]:
        part = ""
        if self._parts.editor and len(calls) == 1:
            [(number, call)] = calls.items()
            part = edited_part(call, files[number])
        return answers_to(
            list(calls),
            rules=[self._permissions.asked_about(call).rules for call in calls.values()],
            project_file=self._permissions.project_file,
            edited=part,
            is_folded=any(fitting(each) != each.titled.rows for each in found.values()),
            can_explain=any(map(self._permissions.explain, calls.values())),
            of=of,
            news=lambda: self._news(calls),
        )

    def _news(self, calls: _Calls) -> str:
        """Return the change that a mode or rule chosen since the question began makes to it.

        It does not answer by itself: the way to plan mode leads through auto-edit.
        """
        mode, them = self._permissions.mode, "it" if len(calls) == 1 else "them"
        facts = [*map(self._permissions.asked_about, calls.values())]
        if any(mode in each.refusing_modes for each in facts):
            return f"{mode} mode refuses {'it' if len(calls) == 1 else 'changes'} all the same"
        if all(mode in each.looser_modes for each in facts):
            why = f"{mode} would not ask"
        elif all(map(self._permissions.is_remembered, calls.values())):
            why = f"a rule allows {them} now"
        else:
            return ""
        return f"{why}: Enter runs {them}"

    def _explained(self, calls: _Calls) -> Iterator[Row]:
        for number, call in calls.items():
            if parts := self._permissions.explain(call):
                title = "Part by part" if len(calls) == 1 else f"{number} · part by part"
                yield from rows_of_parts(parts, title)

    def _shown(self, call: ToolCall, file: ProposedFile | None) -> ShownCall:
        """Return the rows to show about *call*."""
        described = titled(call, self._tools, file)
        says_nothing = described.is_change and call.reason == _CHANGES_FILES
        reason = "" if says_nothing else reveal(call.reason)
        asked = self._permissions.asked_about(call)
        where = [f"in {shown(self._workspace)}"] if "command" in call.arguments else []
        facts = tuple(reveal(fact) for fact in (*where, *asked.facts))
        return ShownCall(described, reason, facts, asked.is_danger)

    def _write(self, calls: Mapping[int, ShownCall]) -> None:
        if self._has_written:
            self._parts.lines.aside("")  # below the answer before
        self._has_written = True
        if len(calls) == 1:
            [call] = calls.values()
            self._parts.draw(rows_of_one(call, self._asker))
        else:
            self._parts.draw(rows_of_several(calls, self._asker))
