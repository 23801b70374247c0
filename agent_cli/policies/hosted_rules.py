"""What the permission rules let the model's server do itself: search the web, and read pages.

Nobody is asked about a single call there, and no hook sees one before it is made. So a tool is open
only where a rule allows it from the first request, and domains of rules are passed on. A rule that
cannot be held that way closes it.
"""

from collections.abc import Iterator
from typing import Final

from agent_cli.contracts.permissions import NETWORK, Rule, RuleKind
from agent_cli.contracts.tooling import WEB_FETCH_TOOL, Hosted
from agent_cli.policies.network_rules import GROUP, REGISTRIES
from agent_cli.policies.permission_rules import RuleSet
from agent_cli.system.records import dataclass

_DOMAIN: Final = "domain:"


@dataclass(frozen=True, slots=True)
class Outlook:
    """What rules say about a tool that the server runs.

    Attributes:
        hosted: How it is offered; None if it is not.
        reason: Why it is not offered, or asks, for a person; "" if it is open.
    """

    hosted: Hosted | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class _Domains:
    """Domains of rules; `unheld` is a rule that the server has no words for."""

    names: tuple[str, ...] = ()
    every: Rule | None = None
    unheld: Rule | None = None


def hosted_outlook(rules: RuleSet, tool: str, *, falls_back: bool = False) -> Outlook:
    """Return what *rules* let the server do with *tool*."""
    denied = _domains(rules, tool, "deny")
    asked, allowed = _domains(rules, tool, "ask"), _domains(rules, tool, "allow")
    if every := denied.every:
        return Outlook(None, f"the rule deny {every}")
    if unheld := denied.unheld or asked.unheld:
        return Outlook(None, f"the rule {unheld} cannot be passed on to the API")
    blocked = (*denied.names, *asked.names)
    asks = Hosted(blocked=blocked, falls_back=falls_back)
    if every := asked.every:
        return Outlook(asks, f"the rule ask {every}")
    if allowed.every:
        return Outlook(Hosted(is_open=True, blocked=blocked, falls_back=falls_back))
    if not (allowed.names or allowed.unheld):
        return Outlook(asks, "no rule allows it")
    # The API counts what is below a domain to it, and takes no exceptions.
    domains = tuple(
        name
        for name in allowed.names
        if not any(_is_within(one, other) for b in blocked for one, other in ((b, name), (name, b)))
    )
    if not domains:
        return Outlook(None, "no domain of the rules can be passed on to the API")
    return Outlook(Hosted(is_open=True, domains=domains, blocked=blocked, falls_back=falls_back))


def _domains(rules: RuleSet, tool: str, kind: RuleKind) -> _Domains:
    found = list(_listed(rules, tool, kind))
    return _Domains(
        tuple(dict.fromkeys(name for _, name in found if name not in ("*", ""))),
        next((rule for rule, name in found if name == "*"), None),
        next((rule for rule, name in found if name == ""), None),
    )


def _listed(rules: RuleSet, tool: str, kind: RuleKind) -> Iterator[tuple[Rule, str]]:
    """Yield rules of *kind* with their domain: "*" for all, "" for one without words there."""
    for rule in rules.of(kind):
        if rule.tool == NETWORK:
            if kind != "allow" or tool == WEB_FETCH_TOOL:
                for host in _hosts(rule):
                    yield rule, host
        elif rule.names(tool):
            yield rule, _domain(rule.text)


def _hosts(rule: Rule) -> Iterator[str]:
    text = rule.text
    if text == GROUP:
        for hosts in REGISTRIES.values():
            yield from hosts
    elif text is None:
        yield "*"
    elif ":" not in text or text.endswith(":443"):
        yield text.partition(":")[0].removeprefix("*.").lower()


def _domain(text: str | None) -> str:
    name = (text or f"{_DOMAIN}*").lower()
    if not name.startswith(_DOMAIN):
        return ""
    name = name.removeprefix(_DOMAIN)
    bare = name.removeprefix("*.")
    return name if name == "*" else "" if set(bare) & set("*?[") else bare


def _is_within(name: str, domain: str) -> bool:
    return name == domain or name.endswith(f".{domain}")
