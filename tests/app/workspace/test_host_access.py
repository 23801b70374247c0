"""Which hosts a command reaches: rules, one question for a service, and what the answer covers."""

import asyncio
import json
import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from agent_cli.app.person import ModelsPerson
from agent_cli.app.workspace.host_access import CommandHosts, HostAccess
from agent_cli.contracts.dialogs import Picked, UserQuestion
from agent_cli.contracts.errors import SettingsError
from agent_cli.contracts.permissions import Rule
from agent_cli.host_proxy.proxy import Contact
from agent_cli.policies.permission_rules import RuleSet, parse_rule
from agent_cli.policies.permissions import Permissions, ProjectRules
from agent_cli.policies.shell import Reach
from tests.app.test_person import Dialogs
from tests.e2e.program import agent_cli
from tests.messages_api import fetched, reply, serve_in_thread, tool_use
from tests.tables import each_row

PYPI, FILES, OTHER = "pypi.org", "files.pythonhosted.org", "example.com"


@dataclass
class Options(Dialogs):
    """Dialogs that also remember which answers were offered."""

    offered: list[list[str]] = field(default_factory=list[list[str]])

    async def ask(
        self, questions: Sequence[UserQuestion], *, asker: str = "the model"
    ) -> Sequence[str] | None:
        self.offered += [[option.label for option in each.options] for each in questions]
        await asyncio.sleep(0)
        return await Dialogs.ask(self, questions, asker=asker)


@dataclass
class Session:
    """A session whose user gives one answer; the rules that were stored."""

    access: HostAccess
    dialogs: Options
    stored: list[tuple[str, Sequence[str]]]
    stopped: list[str] = field(default_factory=list[str])

    @contextmanager
    def standing_still(self) -> Generator[None]:
        self.stopped.append("stop")
        yield
        self.stopped.append("go on")

    def command(self, text: str = "pip install x") -> CommandHosts:
        return CommandHosts(self.access, text, self.standing_still)


def session(answer: str | None, *rules: str, can_ask: bool = True) -> Session:
    """Return a session with *rules*, each as `KIND RULE`."""
    parsed: dict[str, list[Rule]] = {"allow": [], "ask": [], "deny": []}
    for each in rules:
        kind, _, written = each.partition(" ")
        parsed[kind].append(parse_rule(written, "test"))
    allow, ask, deny = map(tuple, parsed.values())
    stored: list[tuple[str, Sequence[str]]] = []
    keeping = ProjectRules(
        Path("/p"),
        lambda written: stored.append(("project", written)),
        lambda written: stored.append(("everywhere", written)),
    )
    permissions = Permissions(
        Reach(root=Path("/ws")),
        rules=RuleSet(allow=allow, ask=ask, deny=deny),
        project_rules=keeping,
    )
    person = ModelsPerson(lambda: permissions)
    person.dialogs = dialogs = Options(answer, can_ask)
    return Session(HostAccess(person, lambda: permissions), dialogs, stored)


async def test_first_contact_asks_once_about_all_hosts_of_the_service() -> None:
    """The connections wait meanwhile, and so do the time limits of the command."""
    it = session("Once")
    one = it.command()

    found = await asyncio.gather(*(one.decide(host, 443) for host in (PYPI, FILES, PYPI)))

    assert found == [""] * 3
    assert it.dialogs.asked == [
        "The command: `pip install x` wants to reach PyPI: pypi.org and files.pythonhosted.org."
    ]
    assert it.dialogs.offered == [["Once", "Session", "Project", "Always", "Registries", "No"]]
    assert it.stopped[0] == "stop"
    assert it.stopped[-1] == "go on"


@each_row(
    ("answer", "host", "stored", "asks_again"),
    [
        ("Once", OTHER, [], True),
        ("No", OTHER, [], True),
        (None, OTHER, [], True),
        ("Session", OTHER, [], False),
        ("Project", OTHER, [("project", ("network(example.com)",))], False),
        ("Always", PYPI, [("everywhere", (f"network({PYPI})", f"network({FILES})"))], False),
        ("Registries", PYPI, [("project", ("network(registries)",))], False),
    ],
)
async def test_answer_holds_as_far_as_it_says(
    answer: str | None, host: str, stored: list[object], *, asks_again: bool
) -> None:
    it = session(answer)
    first = [await it.command().decide(host, 443) for _ in "1"]

    second = await it.command("git fetch").decide(host, 443)

    is_refused = answer in (None, "No")
    assert [*first, second] == ([f"the user refused {host}"] * 2 if is_refused else ["", ""])
    assert it.stored == stored
    assert len(it.dialogs.asked) == 1 + asks_again


@dataclass
class Elsewhere:
    """Stands for `RemoteQuestions`: somebody far away picks *label* at once."""

    label: str
    offered: list[Sequence[str]] = field(default_factory=list[Sequence[str]])

    async def first(self, dialog: object, asker: str, text: str, labels: Sequence[str]) -> Picked:
        self.offered.append(labels)
        return Picked(self.label)


async def test_no_rule_is_stored_from_elsewhere() -> None:
    """Threat 27: a token decides about one command."""
    it = session("Always")
    assert it.access.person
    it.access.person.elsewhere = far = Elsewhere("Once")

    found = await it.command().decide(OTHER, 443)

    assert (found, it.stored, it.dialogs.asked) == ("", [], [])
    assert far.offered == [["Once", "No"]]


async def test_refusal_holds_for_the_command_and_may_have_words() -> None:
    it = session("use the mirror")
    one = it.command()

    found = [await one.decide(OTHER, 80) for _ in "12"]

    assert found == ["the user refused example.com: use the mirror"] * 2
    assert len(it.dialogs.asked) == 1


async def test_permissions_lists_at_most_a_thousand_hosts() -> None:
    """A command that tries names at random must not fill the memory."""
    it = session(None, can_ask=False)
    one = it.command()

    for number in range(1_001):
        one.note(Contact(f"a{number}.example.com", 443))
        await one.decide(f"a{number}.example.com", 443)

    assert [len(it.access.contacts), len(it.access.refused)] == [1_000, 1_000]
    assert "a999.example.com" in it.access.contacts
    one.note(Contact("a999.example.com", 443, "refused since"))
    assert it.access.contacts["a999.example.com"] == "refused since"


async def test_command_that_tries_many_names_does_not_ask_for_ever() -> None:
    it = session("No")
    one = it.command()

    found = [await one.decide(f"a{number}.example.com", 443) for number in range(9)]

    assert len(it.dialogs.asked) == 3
    assert len({each.startswith("the user refused") for each in found}) == 1
    assert await it.command().decide("b.example.com", 443) == "the user refused b.example.com"


@each_row(
    ("rule", "host", "port", "verdict"),
    [
        ("allow network(example.com)", OTHER, 443, ""),
        ("allow network(example.com)", "www.example.com", 443, "no rule allows"),
        ("allow network(*.example.com)", "a.b.example.com", 80, ""),
        ("allow network(*.example.com)", OTHER, 443, "no rule allows"),
        ("allow network(*.example.com)", "badexample.com", 443, "no rule allows"),
        ("allow network(EXAMPLE.com:8443)", OTHER, 8443, ""),
        ("allow network(example.com:8443)", OTHER, 443, "no rule allows"),
        ("allow network(example.com)", OTHER, 8443, "takes the permission rule"),
        ("allow network(example.com)", OTHER, 22, "no rule allows example.com:22"),
        ("allow network(registries)", "static.crates.io", 443, ""),
        ("allow network(registries)", "github.com", 22, "no rule allows"),
        ("allow network(registries)", OTHER, 443, "no rule allows"),
        ("allow network", OTHER, 443, ""),
        ("allow network", OTHER, 25, "takes the permission rule"),
        ("allow *", OTHER, 443, "no rule allows"),
        ("deny *", OTHER, 443, "is denied by the rule *"),
        ("deny network(example.com)", OTHER, 8443, "is denied by the rule network(example.com)"),
        ("ask network(registries)", PYPI, 443, "no rule allows"),
    ],
)
async def test_rules_decide_where_nobody_can_be_asked(
    rule: str, host: str, port: int, verdict: str
) -> None:
    """`-p` names the host and ends with 3."""
    it = session(None, rule, can_ask=False)

    found = await it.command().decide(host, port)

    assert verdict in found
    assert bool(found) == bool(verdict)
    assert [*it.access.refused] == ([found.split()[3].rstrip(",")] if "nobody" in found else [])


async def test_denying_and_asking_rules_win_over_an_answer() -> None:
    it = session("Session", "deny network(files.pythonhosted.org)", "ask network(example.com)")
    one = it.command()

    assert await one.decide(PYPI, 443) == ""
    assert "denied by the rule" in await one.decide(FILES, 443)
    await one.decide(OTHER, 443)

    assert "files" not in it.dialogs.asked[0]
    assert it.dialogs.offered[1] == ["Once", "No"]


@each_row("text", ["127.0.0.1", "[::1]", "localhost", "a b", "*.x*", "http://x.com"])
def test_rule_names_a_host_of_the_internet(text: str) -> None:
    with pytest.raises(SettingsError, match="names no host"):
        parse_rule(f"network({text})", "test")


def test_permissions_lists_hosts_of_pages_and_servers_too(tmp_path: Path) -> None:
    """What passed or was refused, whoever asked for it."""
    page = tool_use("web_fetch", {"url": "https://127.0.0.1/x"})
    servers = {"mcpServers": {"tools": {"type": "http", "url": "https://tools.example.com/mcp"}}}
    (tmp_path / "servers.json").write_text(json.dumps(servers))

    with serve_in_thread(reply(page), reply("Done.")) as api:
        run = agent_cli(
            *("--mcp-config", "servers.json", "--deny", "network(tools.example.com)"),
            api=api,
            script="go\n/permissions\n",
        )

    assert re.search(r"127\.0\.0\.1 +web_fetch +\S", run.stderr), run.stderr
    assert re.search(r"tools\.example\.com +MCP server tools +the rule deny", run.stderr)


def test_permissions_lists_hosts_of_pages_that_agents_and_the_api_read() -> None:
    """The model's server says itself why it read none."""
    page = tool_use("web_fetch", {"url": "https://127.0.0.1/x"})
    agent = tool_use("agent", {"description": "a", "prompt": "Look.", "subagent_type": "general"})
    with serve_in_thread(reply(agent), reply(page), reply("Seen."), reply("Done.")) as api:
        by_agent = agent_cli(api=api, script="go\n/permissions\n")
    read = fetched("https://a.org/x", "text")
    missed = fetched("https://b.org/x", "", error="url_not_accessible")
    allow = ("--allow", "web_fetch(domain:a.org)", "--allow", "web_fetch(domain:b.org)")
    with serve_in_thread(reply(*read, *missed, "Read.")) as api:
        by_api = agent_cli(
            *allow, api=api, script="go\n/permissions\n", AGENT_CLI_TOOLS__WEB_FETCH="api"
        )

    assert re.search(r"127\.0\.0\.1 +web_fetch +\S", by_agent.stderr), by_agent.stderr
    assert re.search(r"a\.org +web_fetch +reached", by_api.stderr), by_api.stderr
    assert re.search(r"b\.org +web_fetch +the page cannot be reached", by_api.stderr)
