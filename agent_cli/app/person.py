"""The user at the terminal, as the model's tools reach them."""

import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, Protocol, TypeVar

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.dialogs import (
    CallDialogs,
    Decision,
    ModelDialogs,
    Option,
    Picked,
    PlanApproved,
    PlanDecision,
    PlanRefused,
    Rejected,
    Reread,
    UserQuestion,
)
from agent_cli.contracts.errors import Aborted, ToolError
from agent_cli.contracts.events import ToolCall
from agent_cli.core.agent import Agent
from agent_cli.core.call_decisions import (
    CHANGE_PLAN,
    NOBODY_ALLOWS,
    UNDECIDED,
    apply_decisions,
    closed_after,
    decline_and_stop,
)
from agent_cli.core.run import RunResult
from agent_cli.policies.permissions import Permissions

T = TypeVar("T")
_SHOWN_PATHS_MAX: Final = 10
_SEND, _WAIT = "Send it", "Not now"
_KEEP, _UNDO = "Keep", "Undo"
# From elsewhere a plan is approved for the stricter mode alone.
_ACCEPT, _REFUSE = "Yes, and ask before each change", "No"
_NOBODY: Final = (
    "Nobody can answer in this run. Choose the most sensible reading, say which, and go on."
)
_NOBODY_DECIDES: Final = (
    "Nobody can approve a plan in this run. Give the plan as your answer and end there."
)
_APPROVED: Final = "The user approved the plan."
_NO_PLAN_MODE: Final = "Plan mode is off, so no plan needs approval. Go on with the work."


class Elsewhere(Protocol):
    """Port to the answers that a person gives somewhere else; see `app.hooks.remote_answers`."""

    async def first(
        self, dialog: Callable[[], Awaitable[T]], asker: str, text: str, labels: Sequence[str]
    ) -> T | Picked:
        """Return the answer of *dialog*, or that of *labels* which is picked elsewhere first."""
        ...


class ModelsPerson:
    """Passes the model's questions to the user; without dialogs no one can answer.

    Attributes:
        dialogs: The front end's dialogs, set once its screen is up.
        calls: The front end's dialogs about calls of agents, set at the same time.
        elsewhere: Offers the questions to the user's hooks, if one of them passes answers on.
        steer: Sends the model the user's words with its next request.
        refused_commands: Commands that were not allowed to go on, because nobody could be asked,
            each with the rules that would allow it.
    """

    def __init__(self, permissions: Callable[[], Permissions]) -> None:
        """Answer nothing yet; an approved plan ends the plan mode of *permissions*."""
        self.dialogs: ModelDialogs | None = None
        self.calls: CallDialogs | None = None
        self.steer: Callable[[str], None] | None = None
        self.elsewhere: Elsewhere | None = None
        self._undecided: dict[Path, None] = {}
        self.refused_commands: dict[str, Sequence[str]] = {}
        self._permissions = permissions

    def note_refused(self, command: str) -> None:
        """Note that *command* was not allowed to go on, because nobody could be asked."""
        self.refused_commands[command] = self._permissions().rules_allowing(command)

    async def ask(self, questions: Sequence[UserQuestion]) -> Sequence[str]:
        """Return the user's answers.

        Raises:
            ToolError: No user is present, or they closed the questions.
        """
        if (dialogs := self._dialogs_of_person) is None:
            raise ToolError(_NOBODY)
        answers = await self._asked(partial(dialogs.ask, questions), questions, "The model")
        if answers is None or len(answers) < len(questions):
            before = zip((each.question for each in questions), answers or (), strict=False)
            raise ToolError(closed_after(before))
        return answers

    async def _asked(
        self,
        dialog: Callable[[], Awaitable[Sequence[str] | None]],
        questions: Sequence[UserQuestion],
        asker: str,
        lasting: Sequence[str] = (),
    ) -> Sequence[str] | None:
        """Return the answers of *dialog*, or the answer from elsewhere to a single question."""
        [question, *more] = questions
        if self.elsewhere is None or more or question.multi_select:
            return await dialog()
        labels = [each.label for each in question.options if each.label not in lasting]
        answers = await self.elsewhere.first(dialog, asker, question.question, labels)
        return [answers] if isinstance(answers, Picked) else answers

    @property
    def can_ask(self) -> bool:
        """Whether a person is there to answer questions."""
        return self._dialogs_of_person is not None

    @property
    def _dialogs_of_person(self) -> ModelDialogs | None:
        """The front end's dialogs if a person is there to answer."""
        return self.dialogs if self.dialogs is not None and self.dialogs.can_ask else None

    async def choose(
        self,
        question: UserQuestion,
        asker: str,
        *,
        steers: bool = False,
        lasting: Sequence[str] = (),
    ) -> str | None:
        """Return the answer to a *question* of *asker*; None without one.

        With *steers* words that are none of its options go to the model, too. Options that are
        *lasting* store a rule, and are for the terminal alone.
        """
        if (dialogs := self._dialogs_of_person) is None:
            return None
        dialog = partial(dialogs.ask, [question], asker=asker)
        answers = await self._asked(dialog, [question], asker, lasting)
        if answers is None:
            return None
        if steers and self.steer and answers[0] not in [each.label for each in question.options]:
            self.steer(answers[0])
        return answers[0]

    async def decide_new_files(self, paths: Sequence[Path], aside: Path, /) -> bool | None:
        """Ask whether a command made *paths*, so that they are undone; None without an answer."""
        answer = await self.choose(_about_new_files(paths, aside), "The sandbox", steers=True)
        return answer == _UNDO if answer in (_KEEP, _UNDO) else None

    async def pays(self, reread: Reread, /) -> bool | None:
        """Ask whether to pay for the tokens that a request reads anew; None without a person."""
        if not self.can_ask:
            return None
        answer = await self.choose(_about_reread(reread), "The prompt cache", steers=True)
        return answer == _SEND

    @property
    def undecided_files(self) -> Sequence[Path]:
        """The files that appeared beside commands, still exist, and await a person's decision."""
        return [path for path in (*self._undecided,) if os.path.lexists(path)]

    def note_undecided(self, paths: Iterable[Path], /) -> None:
        """Add *paths* to `undecided_files`."""
        self._undecided |= dict.fromkeys(paths)

    @property
    def can_decide(self) -> bool:
        """Whether a user is present to decide about calls of subagents."""
        return self.calls is not None and self.calls.can_ask

    async def decide(self, agent: Agent, asker: str, stop: CancelToken) -> RunResult:
        """Have the user decide the waiting calls of *agent*, and continue its run.

        Once *stop* is set, the calls are declined and the run ends.
        """
        waiting = [ToolCall.of(call) for call in agent.conversation.questions()]
        decisions: Sequence[Decision] = [Rejected(NOBODY_ALLOWS)] * len(waiting)
        if self.calls is not None and self.can_decide:
            try:
                async with stop.scope():
                    decisions = await self.calls.decide_calls(waiting, asker)
            except Aborted:
                return await decline_and_stop(agent, [call.id for call in waiting])
        return await apply_decisions(agent, waiting, decisions)

    async def present(self, plan: str, *, again: bool = False) -> str:
        """Ask for approval of *plan*, which ends plan mode; return the text for the model.

        *again*: it was asked in plan mode by a program that ended, so that mode goes on. Where
        nobody can be asked, the decision was made already.

        Raises:
            ToolError: The plan was not approved, or plan mode is off.
        """
        dialogs = self._dialogs_of_person
        if again:
            if dialogs is None:
                return _APPROVED  # by `sessions approve`, for example
            self._permissions().mode = "plan"
        if self._permissions().mode != "plan":
            raise ToolError(_NO_PLAN_MODE)
        if dialogs is None:
            raise ToolError(_NOBODY_DECIDES)
        decision = await self._decided(plan, dialogs)
        if not isinstance(decision, PlanApproved):
            self._permissions().mode = "plan"  # as the answers say, also if another was chosen
            raise ToolError(f"{CHANGE_PLAN}{decision.wish}" if decision.wish else UNDECIDED)
        self._permissions().mode = decision.mode
        edited = f" They edited it; this is what holds:\n{decision.plan}"
        return f"{_APPROVED}{edited if decision.plan != plan else ''}"

    async def _decided(self, plan: str, dialogs: ModelDialogs) -> PlanDecision:
        dialog = partial(dialogs.decide_plan, plan)
        if self.elsewhere is None:
            return await dialog()
        found = await self.elsewhere.first(dialog, "The model", plan, (_ACCEPT, _REFUSE))
        if isinstance(found, Picked):
            return PlanApproved(plan, "ask") if found == _ACCEPT else PlanRefused()
        return found


def _about_reread(reread: Reread) -> UserQuestion:
    text = f"{reread}. Send the prompt?"
    return UserQuestion(
        question=text[:1].upper() + text[1:],
        header="cost",
        options=[
            Option(label=_SEND, description="the request costs that much more"),
            Option(label=_WAIT, description="the prompt waits; /compact makes it cheaper"),
        ],
    )


def _about_new_files(paths: Sequence[Path], aside: Path) -> UserQuestion:
    more = len(paths) - _SHOWN_PATHS_MAX
    rows = [f"  {path}" for path in paths[:_SHOWN_PATHS_MAX]]
    rows += [f"  and {more} more"] if more > 0 else []
    text = (
        "While a command ran, these appeared or changed. They make other programs run commands,"
        " for example your editor or git. A command of the agent made them, or another program of"
        " yours did.\n" + "\n".join(rows)
    )
    return UserQuestion(
        question=text,
        header="new files",
        options=[
            Option(label=_KEEP, description="another program of mine made them, or I want them"),
            Option(label=_UNDO, description=f"move new ones to {aside}, put back changed ones"),
        ],
    )
