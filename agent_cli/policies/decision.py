"""What was decided about a call, and why: for the loop, and for a person who wants to know."""

from dataclasses import dataclass

from agent_cli.contracts.permissions import Rule
from agent_cli.contracts.tooling import Allow, Ask, Deny, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A verdict and what it rests on.

    Attributes:
        why: For a person: one clause, no full stop.
        rule: The rule that decided, if one did.
        commands: The simple commands seen in a shell command.
        by_mode: Only the mode asks, so "always" would keep it from asking again.
        opens: A path outside the workspace that the call must reach, once it may run; else "".
        rules: What "always" adds, where the decision itself knows better than the call.
    """

    verdict: Verdict
    why: str
    rule: Rule | None = None
    commands: tuple[str, ...] = ()
    by_mode: bool = False
    opens: str = ""
    rules: tuple[str, ...] = ()


def allowed(why: str, *, rule: Rule | None = None, commands: tuple[str, ...] = ()) -> Decision:
    """Return that the call may run."""
    return Decision(verdict=Allow(), why=why, rule=rule, commands=commands)


def asked(
    why: str, *, rule: Rule | None = None, commands: tuple[str, ...] = (), by_mode: bool = False
) -> Decision:
    """Return that a person must decide, who reads *why*."""
    verdict = Ask(why, by_mode=by_mode)
    return Decision(verdict=verdict, why=why, rule=rule, commands=commands, by_mode=by_mode)


def denied(
    why: str, told: str, *, rule: Rule | None = None, commands: tuple[str, ...] = ()
) -> Decision:
    """Return that the call must not run; the model is *told* what to do instead."""
    return Decision(verdict=Deny(told), why=why, rule=rule, commands=commands)


def denied_by(rule: Rule, commands: tuple[str, ...] = ()) -> Decision:
    """Return that *rule* forbids the call."""
    told = (
        f"The rule {rule} denies this call. Do not try it in another form: continue without it, or"
        " ask the user to change the rule."
    )
    return denied(f"denied by the rule {rule}", told, rule=rule, commands=commands)


def denied_by_plan(commands: tuple[str, ...] = ()) -> Decision:
    """Return that the call must not run in the mode that changes nothing."""
    told = (
        "Plan mode: only reading is allowed. Look around with the tools and the commands that only"
        " read, then show the user what you would change with `present_plan`."
    )
    return denied("plan mode allows only reading", told, commands=commands)
