"""/goal: work until a check of the user's passes."""

import math
import re
from typing import Any, Final

from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.goals import Goal
from agent_cli.contracts.money import USD_MAX, dollars, in_microdollars
from agent_cli.contracts.wording import counted, one_line, whole_seconds
from agent_cli.repl.commands.spec import Command, Context, OutgoingPrompt

_OPTION: Final = re.compile(r"--([\w-]+)(?:=|\s+|$)(\"[^\"]*\"|'[^']*'|\S*)\s*")
_TIME: Final = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)(s|m|h)?")
_SECONDS: Final = {"": 1, "s": 1, "m": 60, "h": 3_600}
_ROUNDS_MAX: Final = 1_000
_OFF: Final = "off"


def _goal(context: Context, argument: str) -> None:
    if not argument:
        context.writer.aside(_status(context))
        return
    if argument == _OFF:
        context.app.goals.drop()
        context.writer.aside(_status(context))
        return
    goal = goal_of(argument)
    opening = context.app.goals.begin(goal)
    context.send(OutgoingPrompt(f"{opening}\n{goal.text}"))


def goal_of(argument: str) -> Goal:
    """Return the goal typed as *argument*: options first, then the text.

    Raises:
        UsageError: An option is unknown or has no such value, or the text is missing.
    """
    found: dict[str, Any] = {}  # Any: fields are set by name
    while option := _OPTION.match(argument):
        name, value = option[1], option[2].strip("\"'")
        match name:
            case "check" if value:
                found["check"] = value
            case "rounds" if value.isascii() and value.isdigit() and 0 < int(value) <= _ROUNDS_MAX:
                found["rounds_max"] = int(value)
            case "max-cost" if 0 < _number(value) <= USD_MAX:
                found["cost_max_usd"] = _number(value)
            case "time" if (passed := _TIME.fullmatch(value)) and float(passed[1]):
                found["time_max_s"] = float(passed[1]) * _SECONDS[passed[2] or ""]
            case "check" | "rounds" | "max-cost" | "time":
                raise UsageError(f"--{name} cannot be {one_line(value) or 'empty'}; {_USAGE}")
            case _:
                raise UsageError(f"/goal has no option --{name}; {_USAGE}")
        argument = argument[option.end() :]
    if not argument.strip():
        raise UsageError(f"/goal needs what is to be reached; {_USAGE}")
    return Goal(text=argument.strip(), **found)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _status(context: Context) -> str:
    progress = context.app.goals.progress
    if progress is None:
        return f"no goal; {_USAGE}"
    goal = progress.goal
    passed = whole_seconds(int(progress.elapsed_s))
    most = f" of {whole_seconds(int(goal.time_max_s))}" if goal.time_max_s else ""
    limits = [f"{progress.rounds} of {counted(goal.rounds_max, 'round')}", f"{passed}{most}"]
    if goal.cost_max_usd:
        limits.append(f"at most {dollars(in_microdollars(goal.cost_max_usd))}")
    check = [f"check: {goal.check}"] if goal.check else []
    state = f"{progress.state}: {progress.reason}" if progress.reason else progress.state
    ends = ["/goal off ends it"] if progress.state == "active" else []
    return "\n".join([f"goal ({state}): {goal.text}", *check, " · ".join(limits), *ends])


_USAGE: Final = (
    "/goal [--check 'make test'] [--max-cost USD] [--rounds N] [--time 1h] TEXT, or /goal off"
)

GOAL_COMMAND: Final = Command(
    "goal",
    "work until a check of yours passes, or a limit is reached",
    _goal,
    "[--check CMD] [--max-cost USD] [--rounds N] [--time 1h] TEXT",
    asks_the_model=True,
    choices=lambda _app: {_OFF: "end the goal"},
    more="The check runs in the sandbox whenever the model ends its turn; while it fails, the model"
    " reads its output and goes on. Without a name, /goal shows how far it is.",
)
