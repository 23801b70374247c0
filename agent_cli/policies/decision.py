"""The decision about a call with its reasons, for the loop and for `permissions explain`."""

from collections.abc import Callable
from dataclasses import replace

from agent_cli.contracts.options import Mode, stricter
from agent_cli.contracts.permissions import Rule
from agent_cli.contracts.tooling import Allow, Ask, Deny, Verdict
from agent_cli.system.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A verdict and its reasons.

    Attributes:
        why: The reason for a person: one clause, no full stop.
        rule: The rule that decided, if one did.
        commands: The simple commands found in a shell command.
        by_mode: Only the mode asks, so "always" would stop it from asking again.
        opens: A path outside the workspace to open to the tools once the call may run, or "".
        rules: The rules that "always" adds, if they do not follow from the call alone.
        is_attempted: The call first runs unasked in a sandbox that prevents any change.
    """

    verdict: Verdict
    why: str
    rule: Rule | None = None
    commands: tuple[str, ...] = ()
    by_mode: bool = False
    opens: str = ""
    rules: tuple[str, ...] = ()
    is_attempted: bool = False


def allowed(why: str, *, rule: Rule | None = None, commands: tuple[str, ...] = ()) -> Decision:
    """Return the decision that the call may run."""
    return Decision(verdict=Allow(), why=why, rule=rule, commands=commands)


def asked(
    why: str, *, rule: Rule | None = None, commands: tuple[str, ...] = (), by_mode: bool = False
) -> Decision:
    """Return the decision that a person must decide, with *why* as the question."""
    verdict = Ask(why, by_mode=by_mode)
    return Decision(verdict=verdict, why=why, rule=rule, commands=commands, by_mode=by_mode)


def attempted(decision: Decision, failed: Callable[[], None]) -> Decision:
    """Return *decision*, a question that is due only if an attempt without effects *failed*."""
    verdict = Ask(decision.why, by_mode=decision.by_mode, attempt_failed=failed)
    return replace(decision, verdict=verdict, is_attempted=True)


def denied(
    why: str, reply: str, *, rule: Rule | None = None, commands: tuple[str, ...] = ()
) -> Decision:
    """Return the decision that the call must not run; the model reads *reply*."""
    return Decision(verdict=Deny(reply), why=why, rule=rule, commands=commands)


def denied_by(rule: Rule, commands: tuple[str, ...] = ()) -> Decision:
    """Return the decision that *rule* forbids the call."""
    reply = (
        f"The rule {rule} denies this call. Do not try it in another form: continue without it, or"
        " ask the user to change the rule."
    )
    return denied(f"denied by the rule {rule}", reply, rule=rule, commands=commands)


def denied_by_plan(commands: tuple[str, ...] = ()) -> Decision:
    """Return the decision that plan mode forbids the call."""
    reply = (
        "Plan mode: only reading is allowed. Look around with the tools and the commands that only"
        " read, then tell what you would change instead of changing it."
    )
    return denied("plan mode allows only reading", reply, commands=commands)


def during(verdict: Verdict, mode: Mode, current: Callable[[], Mode]) -> Verdict:
    """Return *verdict*, which holds until the *current* mode is stricter than *mode*."""
    if isinstance(verdict, Deny):
        return verdict
    return replace(verdict, holds=lambda: stricter(current(), mode) == mode)
