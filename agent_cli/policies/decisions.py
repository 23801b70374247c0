"""A decision about a call: the verdict, its reasons, and what a question about the call shows.

The reasons are for the loop and for `permissions explain`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.permission_modes import Mode, stricter
from agent_cli.contracts.permissions import ApprovalFacts, Rule
from agent_cli.contracts.tooling import Allow, Ask, Deny, Verdict
from agent_cli.policies.permission_rules import (
    COMMAND_TOOL,
    called_paths,
    command_of,
    leaves_sandbox,
    parse_rule,
    rule_for_file,
)
from agent_cli.policies.shell.reach import Reach
from agent_cli.sandbox.report import Report
from agent_cli.system.records import dataclass

WRITERS = frozenset({"edit", "write"})


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


def during(
    verdict: Verdict,
    mode: Mode,
    current: Callable[[], Mode],
    unless: Callable[[], bool] = lambda: False,
) -> Verdict:
    """Return *verdict*, which holds until *unless*, or until *current* is stricter than *mode*."""
    if isinstance(verdict, Deny):
        return verdict
    earlier = verdict.holds
    return replace(
        verdict,
        holds=lambda: earlier() and stricter(current(), mode) == mode and not unless(),
    )


def is_covered(asked: ApprovalFacts, allow: Sequence[Rule]) -> bool:
    """Return whether *allow* already has all the rules that "always" would add."""
    rules = {str(parse_rule(written)) for written in asked.rules}
    return bool(rules) and rules <= {str(rule) for rule in allow}


def session_rules(call: ToolCall, reach: Reach) -> tuple[str, ...]:
    """Return the rules that cover *call* and similar ones; none if their effect is unclear.

    A command is remembered by the first words of its parts, a change of a file by the folder of the
    workspace that it is in, and every other tool by its name.
    """
    if call.name in WRITERS:
        return tuple(_rules_for_folder(call, reach))
    if call.name != COMMAND_TOOL:
        return (f"{call.name}(*)" if "path" in call.arguments else call.name,)
    from agent_cli.policies.shell import session_prefixes  # with the first command

    prefixes = session_prefixes(command_of(call), reach)
    return tuple(f"{COMMAND_TOOL}({prefix})" for prefix in prefixes)


def _rules_for_folder(call: ToolCall, reach: Reach) -> Iterator[str]:
    """Yield the rule for the folder with the file of *call*; none if a link leads elsewhere.

    Files outside the workspace ask anyway.
    """
    paths = [Path(path) for path in called_paths(call, (), reach.root)]
    for folder in (reach.root, *reach.extra_dirs):
        if all(path.is_relative_to(folder) for path in paths):
            is_root = folder == reach.root
            yield f"{call.name}(./**)" if is_root else str(rule_for_file(call.name, folder, ""))
            return


def facts_about(
    call: ToolCall, rule: Rule | None, report: Report | None, reach: Reach
) -> tuple[str, ...]:
    """Return the facts a person should know about *call*.

    These are the rule that asks, the sandbox of a command, and the programs it starts, because few
    people read a long script to its end.
    """
    facts: list[str] = []
    if rule:
        facts.append(f"rule: {rule}  ({rule.origin})" if rule.origin else f"rule: {rule}")
    if call.name == COMMAND_TOOL:
        from agent_cli.policies.shell.explain import programs

        started = programs(command_of(call), reach.search_path)
        if len(started) > 1:
            facts.append(f"runs: {', '.join(started)}")
        outside = "none: runs with all your rights and the network"
        summary = report.summary if report else outside
        # The reason says the rest about a call that leaves it.
        facts.append(f"sandbox: {'none' if leaves_sandbox(call) else summary}")
    return tuple(facts)
