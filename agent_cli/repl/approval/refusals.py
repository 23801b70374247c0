"""What stands on the screen in place of the sentence the model reads about a failed call."""

from typing import Final

from agent_cli.contracts.tooling import CALL_AGAIN
from agent_cli.core.declining import CHANGE_PLAN, CLOSED, SAYING, STOPPED, UNDECIDED, UNWANTED
from agent_cli.terminal.narration import one_line, seconds

# What the executor says of a call that ran when the run was stopped or steered.
_STOPPED_WHILE_RUNNING: Final = ("Stopped with the whole run.", "Stopped: the user sent")
# What is shown as "0.0 s" took no time worth a word, or never began.
_SHOWN_S_MIN: Final = 0.05


def failure(answer: str, elapsed_s: float) -> tuple[str, str]:
    """Return what became of a call that failed, and why, in words for a person.

    Args:
        answer: What the model reads, or its first line.
        elapsed_s: How long the call ran.
    """
    if answer == UNWANTED:
        return "not run", "you said no"
    if answer == STOPPED:
        return "not run", "you stopped here"
    if answer == CLOSED:
        return "not answered", "you closed the question"
    if answer == UNDECIDED:
        return "not approved", "plan mode stays on"
    for begin, outcome in ((SAYING, "not run"), (CHANGE_PLAN, "not approved")):
        if answer.startswith(begin):
            return outcome, f"you said: {one_line(answer.removeprefix(begin))}"
    if answer.startswith(_STOPPED_WHILE_RUNNING):
        return f"stopped after {seconds(elapsed_s)}", "may be half done"
    after = f" after {seconds(elapsed_s)}" if elapsed_s >= _SHOWN_S_MIN else ""
    return f"failed{after}", one_line(answer.removesuffix(CALL_AGAIN))
