"""The verdict about a script, and why: what `authorize_tool` and `permissions explain` show."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from agent_cli.policies.shell.destructive import destructions
from agent_cli.policies.shell.place import Place
from agent_cli.policies.shell.plain import Part, Unknown, parse
from agent_cli.policies.shell.read_only import objections
from agent_cli.policies.shell.readings import readings, seen_commands
from agent_cli.policies.shell.rules import CommandRule, strongest

_REASONS_MAX = 6
# "undecided": no rule and no knowledge of ours speaks; what happens is the mode's business.
ShellVerdict: TypeAlias = Literal["deny", "ask", "allow", "undecided"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A verdict and what it rests on.

    Attributes:
        reason: For a person: one clause, no full stop.
        rule: The rule that decided, as written between the brackets; None when none did.
        construct: What made the script unreadable, e.g. "redirect > out.txt"; None if it is plain.
        read_only: Every command only reads what the workspace shows; plan mode may run it.
        commands: The commands seen, in order; ? stands for words that the text does not tell.
    """

    verdict: ShellVerdict
    reason: str
    rule: str | None = None
    construct: str | None = None
    read_only: bool = False
    commands: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRules:
    """The user's rules about commands: what denies wins over what asks, that over what allows."""

    allow: Sequence[CommandRule] = ()
    ask: Sequence[CommandRule] = ()
    deny: Sequence[CommandRule] = ()


def judge(script: str, rules: CommandRules, place: Place) -> Judgement:
    """Return what *rules*, and our own knowledge of commands, say about *script* at *place*."""
    commands = parse(script, place.variables)
    construct = commands.construct if isinstance(commands, Unknown) else None
    verdict, reason, rule, read_only = _forbidden(script, rules, place) or _permitted(
        commands, rules, place
    )
    return Judgement(
        verdict=verdict,
        reason=reason,
        rule=rule.written if rule else None,
        construct=construct,
        read_only=read_only,
        commands=tuple(seen_commands(script)),
    )


_Finding: TypeAlias = tuple[ShellVerdict, str, CommandRule | None, bool]


def _forbidden(script: str, rules: CommandRules, place: Place) -> _Finding | None:
    """Return what speaks against *script* in every mode."""
    seen = list(readings(script))
    denied, deny = strongest(rules.deny, seen)
    if deny and denied == "yes":
        return "deny", f"denied by the rule {deny.written}", deny, False
    asked, ask = strongest(rules.ask, seen)
    if ask and asked == "yes":
        losses = destructions(seen, place.root)
        return "ask", _joined([f"the rule {ask.written} asks", *losses]), ask, False
    if losses := destructions(seen, place.root):
        return "ask", _joined(losses), None, False
    if maybe := deny or ask:
        return "ask", f"may run a command that the rule {maybe.written} covers", maybe, False
    return None


def _permitted(commands: Sequence[Part] | Unknown, rules: CommandRules, place: Place) -> _Finding:
    """Return "allow" if each command only reads or is allowed by a rule."""
    if isinstance(commands, Unknown):
        return "undecided", commands.construct, None, False
    used: CommandRule | None = None
    against: list[str] = []
    for command, objection in objections(commands, place):
        if objection is None:
            continue
        rule = next((rule for rule in rules.allow if rule.allows(command)), None)
        used = used or rule
        if rule is None:
            against.append(objection)
    if against:
        return "undecided", _joined(against), None, False
    if used:
        return "allow", f"allowed by the rule {used.written}", used, False
    return "allow", "only reads", None, True


def _joined(reasons: Sequence[str]) -> str:
    """Return all *reasons* as one: a person who reads only the first would miss the others."""
    different = list(dict.fromkeys(reasons))
    more = len(different) - _REASONS_MAX
    return "; ".join(different[:_REASONS_MAX]) + (f"; and {more} more reasons" if more > 0 else "")
