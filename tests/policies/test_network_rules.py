"""What rules let the model's server do itself, where no question holds a single call."""

from agent_cli.contracts.tooling import Hosted
from agent_cli.policies.network_rules import Outlook, hosted_outlook
from agent_cli.policies.permission_rules import RuleSet, parse_rule
from tests.tables import each_row


def outlook(tool: str = "web_search", *, allow: str = "", ask: str = "", deny: str = "") -> Outlook:
    """Return the outlook by rules, several of a kind joined by blanks."""
    allowed, asked, denied = (tuple(map(parse_rule, text.split())) for text in (allow, ask, deny))
    return hosted_outlook(RuleSet(allow=allowed, ask=asked, deny=denied), tool)


@each_row(
    ("kinds", "hosted"),
    [
        ({}, Hosted()),
        ({"allow": "web_search"}, Hosted(is_open=True)),
        ({"allow": "WebSearch"}, Hosted(is_open=True)),
        ({"allow": "web_search(domain:*)"}, Hosted(is_open=True)),
        ({"allow": "network(a.org)"}, Hosted()),
        (
            {"allow": "web_search(domain:a.org) web_search(domain:*.b.org)"},
            Hosted(is_open=True, domains=("a.org", "b.org")),
        ),
        (
            {"allow": "web_search", "deny": "web_search(domain:Evil.com) network(*.bad.com)"},
            Hosted(is_open=True, blocked=("evil.com", "bad.com")),
        ),
        ({"allow": "web_search", "ask": "web_search"}, Hosted()),
        (
            {"allow": "web_search", "ask": "web_search(domain:a.org)"},
            Hosted(is_open=True, blocked=("a.org",)),
        ),
        # The API takes no exceptions from a domain, so it is not allowed at all.
        (
            {
                "allow": "web_search(domain:a.org) web_search(domain:b.org)",
                "deny": "network(x.a.org)",
            },
            Hosted(is_open=True, domains=("b.org",), blocked=("x.a.org",)),
        ),
        ({"allow": "web_search", "deny": "network(a.org:8443)"}, Hosted(is_open=True)),
    ],
)
def test_rules_open_a_tool_of_the_server_or_leave_it_to_a_question(
    kinds: dict[str, str], hosted: Hosted
) -> None:
    assert outlook(**kinds).hosted == hosted


@each_row(
    ("kinds", "reason"),
    [
        ({"allow": "web_search", "deny": "web_search"}, "the rule deny web_search"),
        ({"allow": "web_search", "deny": "*"}, "the rule deny *"),
        ({"allow": "web_search", "deny": "network"}, "the rule deny network"),
        (
            {"allow": "web_search", "deny": "web_search(domain:*evil*)"},
            "the rule web_search(domain:*evil*) cannot be passed on to the API",
        ),
        (
            {"allow": "web_search(domain:a.org)", "deny": "network(a.org)"},
            "no domain of the rules can be passed on to the API",
        ),
    ],
)
def test_rule_that_the_server_cannot_hold_closes_its_tool(
    kinds: dict[str, str], reason: str
) -> None:
    """A guard that only seems to hold would be worse than no search."""
    assert outlook(**kinds) == Outlook(None, reason)


def test_rules_about_hosts_open_pages_and_the_group_of_registries_is_passed_on() -> None:
    """As for pages that are read here."""
    one = outlook("web_fetch", allow="network(a.org)").hosted
    many = outlook("web_fetch", allow="web_fetch", deny="network(registries)").hosted

    assert one == Hosted(is_open=True, domains=("a.org",))
    assert many and {"pypi.org", "github.com"} <= {*many.blocked}
