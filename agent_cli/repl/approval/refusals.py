"""The words shown to the user for a failed call, in place of the model's sentence."""

import re
from typing import Final

from agent_cli.contracts.wording import one_line, seconds
from agent_cli.core.attempts import STOPPED_TRYING
from agent_cli.core.declining import (
    AGENT_STOPPED,
    CHANGE_PLAN,
    CLOSED,
    SAYING,
    STOPPED,
    UNDECIDED,
    UNWANTED,
)

# The executor's results for calls that were running when the run was stopped or steered.
_STOPPED_WHILE_RUNNING: Final = ("Stopped with the whole run.", "Stopped: the user sent")
# The words that open a sentence telling the model what to do next; the user needs none of it.
_ADVICE: Final = re.compile(
    r"(?<=[.!?])\s+(?:Add|Ask|Call|Change|Check|Choose|Copy|Correct|Delete|Do|End|Find|Free|Give|Go"
    r"|If it is|Let|Look|Make|Name|Read|Start|Tell|Try|Use|Wait|With all|Write)\b.*",
    re.DOTALL,
)
_NEVER_BEGAN: Final = re.compile(r"(Skipped|Not run): (?:the user (?=sent))?")
# A time shown as "0.0 s" is not worth mentioning: the call hardly ran, or never began.
_SHOWN_S_MIN: Final = 0.05


def was_stopped(answer: str) -> bool:
    """Return whether *answer* is the result of a call that was stopped while it ran."""
    return answer.startswith(_STOPPED_WHILE_RUNNING)


def failure(answer: str, elapsed_s: float | None) -> tuple[str, str]:
    """Return the outcome of a failed call with its reason, in words for the user.

    Args:
        answer: The model's result text, or its first line.
        elapsed_s: The duration of the call; None if it never began.
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
    if answer.startswith(AGENT_STOPPED):
        return f"stopped after {seconds(elapsed_s or 0)}", "you stopped it"
    if answer.startswith(STOPPED_TRYING):
        return f"stopped after {seconds(elapsed_s or 0)}", "it changed nothing"
    if was_stopped(answer):
        return f"stopped after {seconds(elapsed_s or 0)}", "may be half done"
    reason = one_line(_ADVICE.sub("", answer))
    if begun := _NEVER_BEGAN.match(reason):
        is_skipped, words = begun[1] == "Skipped", reason[begun.end() :].rstrip(".")
        return ("skipped", f"you {words}") if is_skipped else ("not run", words)
    if elapsed_s is None:
        return "not run", reason
    after = f" after {seconds(elapsed_s)}" if elapsed_s >= _SHOWN_S_MIN else ""
    return f"failed{after}", reason
