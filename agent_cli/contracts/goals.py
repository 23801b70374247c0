"""A goal: the agent goes on until a check of the user's passes, or a limit is reached."""

from dataclasses import asdict
from typing import Final, Literal, Protocol, TypeAlias

from agent_cli.contracts.timeline import Json
from agent_cli.system.records import dataclass

ROUNDS_MAX: Final = 10
GoalState: TypeAlias = Literal["active", "met", "blocked", "stopped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """A goal with its check and its limits.

    Attributes:
        text: The goal in the user's words.
        check: A command that exits with 0 once the goal is reached; "" if the model says so.
        rounds_max: How often the model may end its work before the goal is reached.
        cost_max_usd: The most that may be spent for it, by agents too; 0 is no limit.
        time_max_s: The most time that runs may take for it; 0 is no limit.
    """

    text: str
    check: str = ""
    rounds_max: int = ROUNDS_MAX
    cost_max_usd: float = 0
    time_max_s: float = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRun:
    """One run of a check; `exit_code` is None if it did not end by itself."""

    exit_code: int | None
    output: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalProgress:
    """The progress of a goal.

    Attributes:
        goal: The goal.
        state: "stopped": a limit was reached, nothing changed any more, or the user ended it.
        rounds: How often the model ended its work, with the time that it reached the goal.
        elapsed_s: The time that runs took for it.
        spent_before: What the conversation and its agents had cost then, in microdollars.
        exit_code: The exit code of the last check; None if there was none, or it did not end.
        failure: A digest of the last failure, without what differs each time.
        tree: A digest of the files after the last check; "" if unknown.
        reason: Why it ended.
    """

    goal: Goal
    state: GoalState = "active"
    rounds: int = 0
    elapsed_s: float = 0
    spent_before: int = 0
    exit_code: int | None = None
    failure: str = ""
    tree: str = ""
    reason: str = ""

    def receipt(self) -> dict[str, Json]:
        """Return the receipt as scripts read it."""
        return {
            "command": self.goal.check,
            "state": self.state,
            "exit_code": self.exit_code,
            "rounds": self.rounds,
            "elapsed_s": round(self.elapsed_s, 1),
            **({"reason": self.reason} if self.reason else {}),
        }

    def to_json(self) -> dict[str, Json]:
        """Return the goal in its recorded form."""
        return asdict(self)


class GoalsPort(Protocol):
    """Port to the goal of a session."""

    @property
    def progress(self) -> GoalProgress | None:
        """The current or last goal; None if there was none."""
        ...

    def begin(self, goal: Goal) -> str:
        """Pursue *goal* from now on; return what the model is to be told with the next prompt."""
        ...

    def drop(self) -> None:
        """End the current goal."""
        ...

    def rewound(self) -> bool:
        """End the goal whose own prompt was just taken back; return whether there was one."""
        ...
