"""Rules about hosts, `network(HOST)`, and what they let the model's server search and read.

    network(example.com)         that host, at the ports 80 and 443
    network(*.example.com)       every host below it
    network(example.com:8443)    that host, at this port
    network(registries)          package registries and git hosts, as in `REGISTRIES`
    network                      every host of the internet

Rules that deny or ask hold for every port.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from agent_cli.contracts.permissions import NETWORK, Rule, RuleKind
from agent_cli.contracts.tooling import WEB_FETCH_TOOL, Hosted
from agent_cli.policies.permission_rules import HOST_GROUP, RuleSet, touches_subject
from agent_cli.system.addresses import HTTP_PORT, HTTPS_PORT
from agent_cli.system.records import dataclass

_HOLDING_BACK: Final[tuple[RuleKind, ...]] = ("deny", "ask")
_KINDS: Final = (*_HOLDING_BACK, "allow")

REGISTRIES: Final[Mapping[str, tuple[str, ...]]] = {
    "PyPI": ("pypi.org", "files.pythonhosted.org"),
    "npm": ("registry.npmjs.org", "registry.yarnpkg.com"),
    "crates.io": ("crates.io", "index.crates.io", "static.crates.io"),
    "Rust": ("static.rust-lang.org",),
    "Go modules": ("proxy.golang.org", "sum.golang.org"),
    "RubyGems": ("rubygems.org", "index.rubygems.org"),
    "Maven": ("repo.maven.apache.org", "repo1.maven.org"),
    "Gradle": ("plugins.gradle.org", "services.gradle.org"),
    "NuGet": ("api.nuget.org",),
    "Packagist": ("packagist.org", "repo.packagist.org"),
    "Hex": ("hex.pm", "repo.hex.pm"),
    "JSR": ("jsr.io", "npm.jsr.io"),
    "CPAN": ("www.cpan.org", "cpan.metacpan.org"),
    "CRAN": ("cran.r-project.org", "cloud.r-project.org"),
    "conda": ("conda.anaconda.org", "repo.anaconda.com"),
    "GitHub": (
        *("github.com", "codeload.github.com", "raw.githubusercontent.com"),
        *("objects.githubusercontent.com", "release-assets.githubusercontent.com"),
    ),
    "GitLab": ("gitlab.com",),
    "Bitbucket": ("bitbucket.org",),
    "Codeberg": ("codeberg.org",),
}
"""The hosts of the group, by the service that they belong to."""


def rule_about_host(rules: RuleSet, host: str, port: int) -> tuple[RuleKind, Rule] | None:
    """Return the strongest rule about *host* at *port*, with its kind; None without one."""
    for kind in _KINDS:
        for rule in rules.of(kind):
            if covers_host(rule, kind, host, port):
                return kind, rule
    return None


def covers_host(rule: Rule, kind: RuleKind, host: str, port: int) -> bool:
    """Return whether *rule* is about *host* at *port*; `allow = ["*"]` is about tools only."""
    if rule.tool != NETWORK and (kind == "allow" or not rule.names(NETWORK)):
        return False
    is_usual = kind != "allow" or port in (HTTP_PORT, HTTPS_PORT)
    if rule.text is None:
        return is_usual
    if rule.text == HOST_GROUP:
        return is_usual and service_of(host) is not None
    name, colon, written = rule.text.lower().partition(":")
    fits = host.endswith(name[1:]) if name.startswith("*.") else host == name
    return fits and (port == int(written) if colon else is_usual)


def covers_page(rule: Rule, kind: RuleKind, tool: str, subject: str) -> bool:
    """Return whether *rule* is about the server that a call of *tool* about *subject* asks."""
    group, _, host = subject.partition(":")
    is_page = tool == WEB_FETCH_TOOL and group == "domain"
    return is_page and covers_host(rule, kind, host, HTTPS_PORT)


def guards_page(rules: RuleSet, host: str) -> bool:
    """Return whether one of *rules* denies pages of *host*, or asks about them."""
    subject = f"domain:{host}"
    return any(
        covers_page(rule, kind, WEB_FETCH_TOOL, subject)
        or touches_subject(rule, WEB_FETCH_TOOL, subject)
        for kind in _HOLDING_BACK
        for rule in rules.of(kind)
    )


def service_of(host: str) -> tuple[str, tuple[str, ...]] | None:
    """Return the service of the group that *host* belongs to, and all its hosts."""
    return next(((name, hosts) for name, hosts in REGISTRIES.items() if host in hosts), None)


def rules_for(hosts: Sequence[str], port: int) -> tuple[str, ...]:
    """Return the rules, as written, that allow *hosts* at *port*."""
    suffix = "" if port in (HTTP_PORT, HTTPS_PORT) else f":{port}"
    return tuple(f"{NETWORK}({host}{suffix})" for host in hosts)


# Nobody is asked about a single call there, and no hook sees one before it is made. So a tool is
# open only where a rule allows it from the first request, and domains of rules are passed on. A
# rule that cannot be held that way closes it.
_DOMAIN: Final = "domain:"


@dataclass(frozen=True, slots=True)
class Outlook:
    """The verdict of rules on a tool that the server runs.

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
    if text == HOST_GROUP:
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
