"""The person in front of the program, as the model's tools reach them."""

from collections.abc import Callable, Sequence
from typing import Final

from agent_cli.contracts.dialogs import (
    CallDialogs,
    Decision,
    ModelDialogs,
    PlanApproved,
    Rejected,
)
from agent_cli.contracts.errors import ToolError
from agent_cli.contracts.events import ToolCall
from agent_cli.core.agent import Agent
from agent_cli.core.declining import CHANGE_PLAN, CLOSED, NOBODY_ALLOWS, UNDECIDED, apply_decisions
from agent_cli.core.run_result import RunResult
from agent_cli.plugins.ask_user import Question
from agent_cli.policies.permissions import Permissions

_NOBODY: Final = (
    "Nobody can answer in this run. Choose the most sensible reading, say which, and go on."
)
_NOBODY_DECIDES: Final = (
    "Nobody can approve a plan in this run. Give the plan as your answer and end there."
)
_NO_PLAN_MODE: Final = "Plan mode is off, so no plan needs approval. Go on with the work."


class ModelsPerson:
    """Answers the model; without dialogs nobody is there.

    Attributes:
        dialogs: Who answers; a front end sets it once its screen is up.
        calls: Who decides about calls of agents; set with it.
    """

    def __init__(self, permissions: Callable[[], Permissions]) -> None:
        """Answer nothing yet; *permissions* holds the mode, and is made later than this."""
        self.dialogs: ModelDialogs | None = None
        self.calls: CallDialogs | None = None
        self._permissions = permissions

    async def ask(self, questions: Sequence[Question]) -> Sequence[str]:
        """Return the person's answers.

        Raises:
            ToolError: Nobody is there, or the person closed the questions.
        """
        if self.dialogs is None or not self.dialogs.can_ask:
            raise ToolError(_NOBODY)
        answers = await self.dialogs.ask(questions)
        if answers is None:
            raise ToolError(CLOSED)
        return answers

    @property
    def can_decide(self) -> bool:
        """Whether somebody is there to decide about calls of agents."""
        return self.calls is not None and self.calls.can_ask

    async def decide(self, agent: Agent, who: str) -> RunResult:
        """Have the calls decided about that *agent* waits with, and go on with its run."""
        waiting = [ToolCall.of(call) for call in agent.conversation.questions()]
        decisions: Sequence[Decision] = [Rejected(NOBODY_ALLOWS)] * len(waiting)
        if self.calls is not None and self.can_decide:
            decisions = await self.calls.decide_calls(waiting, who)
        return await apply_decisions(agent, waiting, decisions)

    async def present(self, plan: str) -> str:
        """Have *plan* approved, which leaves plan mode, and return what the model is told.

        Raises:
            ToolError: It was not approved, or there is nothing to approve.
        """
        if self._permissions().mode != "plan":
            raise ToolError(_NO_PLAN_MODE)
        if self.dialogs is None or not self.dialogs.can_ask:
            raise ToolError(_NOBODY_DECIDES)
        decision = await self.dialogs.decide_plan(plan)
        if not isinstance(decision, PlanApproved):
            raise ToolError(f"{CHANGE_PLAN}{decision.wish}" if decision.wish else UNDECIDED)
        self._permissions().mode = decision.mode
        edited = f" They edited it; this is what holds:\n{decision.plan}"
        return f"The user approved the plan.{edited if decision.plan != plan else ''}"
