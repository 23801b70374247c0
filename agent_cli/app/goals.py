"""The goal of the session, whose check runs as the model's commands, and receipts of checks."""

import asyncio
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING

from agent_cli.app.workspace.session_workspace import SessionWorkspace
from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import AgentCliError, ToolError
from agent_cli.contracts.events import AgentEnd, AgentStart, Event, EventSink, Notice, ToolCall
from agent_cli.contracts.messages import GOAL, UserMessage
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import ToolContext, ToolResult, check_input
from agent_cli.core.conversation import Conversation
from agent_cli.core.projection import entries, noted
from agent_cli.core.returned_values import TakeMessages, as_result, queued
from agent_cli.core.turn import Turn
from agent_cli.policies.permission_rules import COMMAND_TOOL
from agent_cli.system.event_loop import in_background
from agent_cli.system.trees import tree_state

if TYPE_CHECKING:
    from agent_cli.contracts.goals import CheckRun, Goal, GoalProgress
    from agent_cli.policies.goal_pursuit import Pursuit
    from agent_cli.policies.receipts import Receipt


class SessionGoal:
    """The pursuit of a goal in one session; its modules are imported with the first goal."""

    def __init__(
        self, conversation: Callable[[], Conversation], pursue: "Callable[[], Pursuit]"
    ) -> None:
        """Pursue nothing yet; *pursue* makes the pursuit of a goal of the *conversation*."""
        self._conversation = conversation
        self._pursue = pursue
        self._without: Conversation | None = None

    @cached_property
    def _pursuit(self) -> "Pursuit":
        return self._pursue()

    @property
    def progress(self) -> "GoalProgress | None":
        """The current or last goal; None if there was none."""
        return self._pursuit.progress if self._is_any() else None

    @property
    def badge(self) -> str:
        """The round of the current goal, for the status line; "" without one."""
        return self._pursuit.badge if self._is_any() else ""

    def begin(self, goal: "Goal") -> str:
        """Pursue *goal* from now on; return what the model is to be told with the next prompt."""
        return self._pursuit.begin(goal)

    def drop(self) -> None:
        """End the current goal."""
        if self._is_any():
            self._pursuit.drop()

    def rewound(self) -> bool:
        """End the goal whose own prompt was just taken back; return whether there was one."""
        return self._is_any() and self._pursuit.rewound()

    def listen(self, event: Event) -> None:
        """Count the time of runs."""
        if isinstance(event, AgentStart | AgentEnd) and self._is_any():
            self._pursuit.listen(event)

    def __call__(self, turn: Turn) -> None:
        """Hold the limits of the goal before each model call."""
        if self._is_any():
            self._pursuit(turn)

    async def follow_ups(self) -> Sequence[UserMessage]:
        """Check whether the goal is reached; return what the model is told if it is not."""
        return await self._pursuit.follow_ups() if self._is_any() else ()

    def _is_any(self) -> bool:
        """Return whether the conversation has a goal, or had one.

        Only a pursuit records goals, so a conversation that came without is searched once. Each
        draw of the status line asks.
        """
        if "_pursuit" in self.__dict__:
            return True
        conversation = self._conversation()
        if self._without is conversation:
            return False
        has_goal = any(True for _ in noted(conversation.between_replies, GOAL))
        self._without = None if has_goal else conversation
        return has_goal


def session_goal(
    session_workspace: SessionWorkspace,
    conversation: Callable[[], Conversation],
    *,
    has_jobs: Callable[[], bool],
    cost_of_agents: Callable[[], int],
    publish: EventSink,
    one_shot: bool,
) -> SessionGoal:
    """Return the goal of a session; see `Pursuit` for the arguments."""

    def pursue() -> "Pursuit":
        from agent_cli.policies.goal_pursuit import Pursuit  # most have no goal

        return Pursuit(
            conversation,
            run_check=partial(_run_check, session_workspace),
            has_jobs=has_jobs,
            cost_of_agents=cost_of_agents,
            tree=partial(_tree, session_workspace),
            publish=publish,
            one_shot=one_shot,
            is_planning=lambda: session_workspace.permissions.mode == "plan",
        )

    return SessionGoal(conversation, pursue)


async def _run_check(
    session_workspace: SessionWorkspace, command: str, limit_s: float
) -> "CheckRun":
    """Run *command* in the sandbox, as the tool does.

    Raises:
        AgentCliError: No command can run here.
    """
    from agent_cli.contracts.goals import CheckRun  # with a goal

    tool = next((tool for tool in session_workspace.tools if tool.name == COMMAND_TOOL), None)
    if tool is None:
        raise AgentCliError(f"the goal's check needs the tool {COMMAND_TOOL}, which is off")
    params = check_input(tool, {"command": command, "timeout": limit_s})
    try:
        returned = await tool.execute("goal", params, CancelToken(), ToolContext())
    except ToolError as error:
        task = asyncio.current_task()
        if task and task.cancelling():  # the tool says what it had printed when it was stopped
            raise asyncio.CancelledError from None
        raise AgentCliError(f"the goal's check cannot run: {error}") from error
    result = as_result(tool.name, returned)
    details = result.details if isinstance(result.details, dict) else {}
    code = details.get("exit_code")
    return CheckRun(exit_code=code if isinstance(code, int) else None, output=result.text)


class SessionReceipts:
    """Receipts of the checks among the model's commands, each with the state of its files."""

    def __init__(
        self,
        session_workspace: SessionWorkspace,
        conversation: Callable[[], Conversation],
        publish: EventSink,
    ) -> None:
        """Know the checks of the conversation only; *publish* receives a notice after a run."""
        self._session_workspace = session_workspace
        self._conversation = conversation
        self._publish = publish

    async def add(self, call: ToolCall, result: ToolResult) -> ToolResult:
        """Return *result*, with a receipt in its details if the call was a check."""
        if call.name != COMMAND_TOOL:
            return result
        from agent_cli.policies.receipts import with_receipt  # with a command

        return await with_receipt(call, result, partial(_tree, self._session_workspace))

    async def to_json(self) -> Sequence[dict[str, Json]]:
        """Return the last receipts as scripts read them."""
        return [receipt.to_json() for receipt in await self._last()]

    async def _last(self) -> "Sequence[Receipt]":
        prompts = self._conversation().prompts
        if not any(output.kind == "tool" for output in entries(prompts)):
            return ()
        from agent_cli.policies.receipts import receipts  # with a command

        found = receipts(prompts, "")
        return receipts(prompts, await _tree(self._session_workspace)) if found else ()

    async def follow_ups(self) -> Sequence[UserMessage]:
        """Tell the user at the end of a run that changed files; the model is told nothing."""
        prompts = self._conversation().prompts
        if not any(output.kind == "tool" for output in prompts[-1].output):
            return ()
        from agent_cli.policies.receipts import has_changed_files

        if has_changed_files(prompts[-1]) and (found := await self._last()):
            self._publish(Notice("info", "; ".join(receipt.line() for receipt in found)))
        return ()


async def _tree(session_workspace: SessionWorkspace, since_ns: int | None = None) -> str:
    root = session_workspace.workspace.root
    return await in_background(lambda: tree_state(root, since_ns=since_ns))


def before(*sources: TakeMessages) -> TakeMessages:
    """Return a source that asks each of *sources* only if the earlier sources have no messages."""

    async def take() -> Sequence[UserMessage]:
        for source in sources:
            if messages := await queued(source):
                return messages
        return ()

    return take
