"""Dialogs of the model with the user during a run: questions, and plan approval."""

from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext
from typing import Final

from agent_cli.contracts.dialogs import (
    Decision,
    Option,
    PlanApproved,
    PlanDecision,
    PlanRefused,
    Rejected,
    UserQuestion,
)
from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.wording import one_line
from agent_cli.core.call_decisions import STOPPED
from agent_cli.repl.approval.ask import Announced, Approvals
from agent_cli.repl.approval.preview import Row
from agent_cli.repl.dialogue import Choice, DialogParts, chosen
from agent_cli.repl.mcp import quoted_rows
from agent_cli.system.sanitize import reveal

THE_MODEL: Final = "The model"
_LABEL_CHARS_MAX: Final = 300
_HEADER_CHARS_MAX: Final = 30
_SEVERAL: Final = "answer in your own words, or with several numbers: 1, 3"
_AUTO_EDIT: Final = Choice("Yes, and edit files without asking (auto-edit)", ("y", "yes", "auto"))
_ASK: Final = Choice("Yes, and ask before each change (ask)", ("a", "ask"))
_EDIT: Final = Choice("Edit the plan", ("e", "edit"))
_NO: Final = Choice("No, stay in plan mode", ("n", "no"))


class ModelQuestions:
    """Asks the user for the model; implements `dialogs.ModelDialogs`."""

    def __init__(
        self,
        parts: DialogParts,
        *,
        begin: Callable[[], None] = lambda: None,
        asking: Callable[[], AbstractContextManager[None]] = nullcontext,
        approvals: Callable[[str, Announced], Approvals] | None = None,
    ) -> None:
        """Ask nothing yet.

        Args:
            parts: Shared by all dialogs of the front end.
            begin: Called before each dialog: adds a blank row, rings the bell.
            asking: Entered while a question is open.
            approvals: Returns the dialog for calls of the named agent, which takes the turn.
        """
        self._parts = parts
        self._begin = begin
        self._asking = asking
        self._approvals = approvals

    @property
    def can_ask(self) -> bool:
        """Whether a person is there to answer."""
        return self._parts.questions.can_ask

    async def ask(
        self, questions: Sequence[UserQuestion], *, asker: str = THE_MODEL
    ) -> Sequence[str] | None:
        """Return the answers to *questions*; after a dismissed one, only those given before it."""
        answers: list[str] = []
        try:
            async with self._dialog():
                for number, question in enumerate(questions, 1):
                    if answers:
                        self._parts.lines.aside("")
                    of = f"{number} of {len(questions)}" if len(questions) > 1 else ""
                    answers.append(await self._answer(question, asker, of))
        except (KeyboardInterrupt, EOFError):
            self._parts.lines.aside("not answered", "dim")
        return answers or None

    async def decide_plan(self, plan: str) -> PlanDecision:
        """Show *plan* and return the user's decision."""
        try:
            async with self._dialog():
                return await self._decided(plan)
        except (KeyboardInterrupt, EOFError):
            self._parts.lines.aside("not decided; plan mode stays on", "dim")
            return PlanRefused()

    async def decide_calls(self, calls: Sequence[ToolCall], asker: str) -> Sequence[Decision]:
        """Return the user's decision about *calls* of the agent *asker*."""
        assert self._approvals
        try:
            # The approvals take the turn: an answer from elsewhere does not wait for it.
            return await self._approvals(asker, self._announced).decide(calls)
        except (KeyboardInterrupt, EOFError):
            return [Rejected(STOPPED, stop=True)] * len(calls)

    @asynccontextmanager
    async def _dialog(self) -> AsyncGenerator[None]:
        """Wait for the other dialogs, and announce this one."""
        async with self._parts.turn:
            with self._announced():
                yield

    @contextmanager
    def _announced(self) -> Generator[None]:
        with self._asking():
            self._begin()
            yield

    async def _answer(self, question: UserQuestion, asker: str, of: str) -> str:
        header = one_line(reveal(question.header), _HEADER_CHARS_MAX)
        about = " · ".join(filter(None, (header, of)))
        self._parts.draw([Row(f"{asker} asks you", "title", beside=about)])
        self._show(quoted_rows(question.question))
        offered = _offered(question.options)
        if question.multi_select:
            return await self._several(offered)
        text = (
            "answer in your own words" if asker == THE_MODEL else "decline and tell the model why"
        )
        answer = await self._select("answer? ", list(offered), text)
        return answer.strip() if isinstance(answer, str) else offered[answer].label

    async def _several(self, offered: Mapping[Choice, Option]) -> str:
        """Return the picked answers, typed one by one or together, and the user's own words.

        The last row shows the picked answers, and Enter alone accepts them: no row moves.
        """
        picked: list[Option] = []
        while True:
            rows = {
                choice._replace(
                    label=f"{'[x]' if option in picked else '[ ]'} {choice.label}",
                    is_checkbox=True,
                    is_checked=option in picked,
                ): option
                for choice, option in offered.items()
            }
            named = ", ".join(map(_label, picked))
            label = f"Done: {named}" if picked else "None of these"
            done = Choice(label, ("done", "none"), is_default=bool(picked))
            answer = await self._select("answers? ", [*rows, done], _SEVERAL)
            if isinstance(answer, Choice) and answer is not done:
                option = rows[answer]
                picked = [each for each in picked if each is not option] + (
                    [option] if option not in picked else []
                )
                continue
            in_order = [option.label for option in offered.values() if option in picked]
            if not isinstance(answer, str):
                return ", ".join(in_order) or "none of these"
            typed = [chosen(part, offered) for part in answer.split(",")]
            if all(typed):
                return ", ".join(offered[choice].label for choice in typed if choice)
            return "; ".join(filter(None, [", ".join(in_order), answer.strip()]))

    async def _select(self, message: str, choices: Sequence[Choice], text: str) -> Choice | str:
        return await self._parts.questions.select(
            message, choices, text=text, ctrl_c="closes the question"
        )

    async def _decided(self, plan: str) -> PlanDecision:
        choices = [_AUTO_EDIT, _ASK, *([_EDIT] if self._parts.editor else []), _NO]
        numbered = [choice.numbered(number) for number, choice in enumerate(choices, 1)]
        self._show_plan("The plan", plan)
        while True:
            answer = await self._select(
                "go ahead? ", numbered, "stay in plan mode and tell the model what to change"
            )
            if isinstance(answer, str):
                return PlanRefused(answer.strip())
            taken = choices[numbered.index(answer)]
            if taken == _AUTO_EDIT:
                return PlanApproved(plan, "auto-edit")
            if taken == _ASK:
                return PlanApproved(plan, "ask")
            if taken == _NO:
                return PlanRefused()
            plan = await self._edited(plan)

    async def _edited(self, plan: str) -> str:
        """Let the user edit *plan* and return it; an empty one counts as unchanged."""
        assert self._parts.editor
        try:
            saved = (await self._parts.editor(plan, ".md")).strip()
        except UsageError as error:
            self._parts.lines.notice(str(error), "error")
            return plan
        if not saved or saved == plan.strip():
            self._parts.lines.notice("nothing was changed", "dim")
            return plan
        self._show_plan("The plan as you edited it", saved)
        return saved

    def _show_plan(self, title: str, plan: str) -> None:
        self._parts.draw([Row(title, "title"), Row("")])
        self._parts.lines.markdown(reveal(plan).strip())
        self._parts.before_asking()

    def _show(self, rows: Iterable[str]) -> None:
        self._parts.lines.aside("\n".join(rows))
        self._parts.before_asking()


def _offered(options: Sequence[Option]) -> dict[Choice, Option]:
    """Return the answers that select each option: its label, and its number unless ambiguous.

    With numeric labels, `2` could be the second option or the one labelled 2.
    """
    labels = [" ".join(option.label.split()).casefold() for option in options]
    has_numbers = any(label.isdecimal() for label in labels)
    offered: dict[Choice, Option] = {}
    for number, (option, label) in enumerate(zip(options, labels, strict=True), 1):
        note = one_line(reveal(option.description or ""), _LABEL_CHARS_MAX)
        choice = Choice(_label(option) or str(number), (label,), note=note)
        if not has_numbers:
            choice = choice._replace(lines=(str(number), label), key=str(number))
        offered[choice] = option
    return offered


def _label(option: Option) -> str:
    return one_line(reveal(option.label), _LABEL_CHARS_MAX)
