"""Searches that the API makes: allowed by a rule or a person, shown, paid for, and kept."""

import json
from pathlib import Path
from typing import Any

from agent_cli.contracts.timeline import Usage
from agent_cli.providers.anthropic.models import cost_microdollars
from tests.e2e.program import Finished, agent_cli, in_terminal, results_in, started
from tests.messages_api import (
    FakeMessagesApi,
    Gate,
    ReceivedRequest,
    Reply,
    broken,
    cited,
    error,
    fetched,
    reply,
    search,
    serve_in_thread,
    tool_use,
)

ALLOW = ("--allow", "web_search")
NEWS = ("What's new", "https://docs.python.org/3.15")
OTHER = ("Release", "https://www.python.org/downloads")
SEARCH = search("python 3.15", NEWS, OTHER)
FOUND = reply(*SEARCH, "It is ", cited("out since October", NEWS), ".")
ASK = reply(tool_use("ask_for_web_search", {"query": "python 3.15"}, id="t1"))


def names(api: FakeMessagesApi, request: int = 0) -> list[str]:
    return [tool["name"] for tool in api.requests[request].body.get("tools", [])]


def ran(*arguments: str, api: FakeMessagesApi, **more: str) -> Finished:
    run = agent_cli(*arguments, api=api, **more)
    assert api.refusals == [], api.refusals
    return run


def test_allowed_search_is_declared_at_once_and_its_sources_are_printed() -> None:
    """One grammar with Claude's rules; a denied domain of `network` is passed on.

    A reply that breaks off in a search is retried as a whole.
    """
    rules = ("--allow", "WebSearch", "--deny", "network(evil.com)", "--max-cost", "1")
    with serve_in_thread(broken(FOUND, "drop", after=6), FOUND) as api:
        run = ran("-p", "news?", *rules, api=api)

    assert names(api)[0] == "web_search"
    assert api.requests[0].body["tools"][0]["blocked_domains"] == ["evil.com"]
    assert len(api.requests[1].body["messages"]) == 1
    assert run.code == 0
    assert run.stdout == (
        "It is out since October [1].\n\n[1] What's new https://docs.python.org/3.15\n"
    )


def test_session_of_a_search_is_told_and_goes_on_with_what_was_found() -> None:
    """In JSON with its cost, in the transcript, and after a resume and a fork.

    The server checks that nothing of it has changed; other servers read it as text. Without a rule
    nothing is offered: that would be a token of every request, and a cent a search.
    """
    usage = {"input_tokens": 1000, "output_tokens": 10}
    priced = reply(*FOUND.blocks, usage=usage)
    with serve_in_thread(priced, *map(reply, "abcd")) as api:
        rule = ("--allow", "web_search(domain:*.python.org)")
        found = ran("-p", "news?", *rule, "--output-format", "stream-json", api=api)
        id = str(found.result["session_id"])
        shown = agent_cli("sessions", "show", id)
        ran("--fork", id, "-p", "else", *ALLOW, api=api)
        ran("--resume", id, "-p", "more", *ALLOW, api=api)
        ran("--resume", id, "-p", "now without", api=api)
        ran("--resume", id, "-p", "more", *ALLOW, api=api, AGENT_CLI_PROVIDER__COMPAT="true")

    ends = [e["event"]["block"] for e in found.lines if e.get("event", {}).get("block")]
    assert [block["type"] for block in ends] == [
        "server_tool_use",
        "web_search_tool_result",
        "text",
        "text",
        "text",
    ]
    assert ends[1] == SEARCH[1]
    assert found.result["text"] == "It is out since October."
    assert found.result["usage"]["web_searches"] == 1
    tokens = cost_microdollars(api.requests[0].body["model"], Usage(1000, 10)) or 0
    assert round(found.result["cost_usd"] * 1e6) == tokens + 10_000
    assert "* web_search python 3.15, run by the API\n\n  2 results\n" in shown.stdout
    assert "    Release https://www.python.org/downloads" in shown.stdout
    assert "It is out since October." in shown.stdout
    assert "encrypted" not in shown.stdout
    assert api.requests[0].body["tools"][0]["allowed_domains"] == ["python.org"]
    for request in api.requests[1:4]:
        assert request.body["messages"][1]["content"][:2] == [*SEARCH]
    told = json.dumps(api.requests[4].body)
    assert "encrypted" not in told and "citations" not in told
    assert "- Release https://www.python.org/downloads" in told
    assert not any("web_search" in name for at in (3, 4) for name in names(api, at))


def test_session_that_asked_goes_on_where_a_rule_allows_it_and_back() -> None:
    """Without a rule `-p` cannot ask."""
    with serve_in_thread(ASK, reply("no"), FOUND, reply("ok")) as api:
        asked = ran("-p", "news?", api=api, AGENT_CLI_TOOLS__WEB_SEARCH="true")
        allowed = ran("-c", "-p", "again", *ALLOW, api=api)
        after = ran("-c", "-p", "more", api=api)

    assert "web_search skipped: cannot ask here; use --allow" in asked.stderr
    assert (asked.code, allowed.code, after.code) == (3, 0, 0)


def test_what_was_found_or_failed_is_told_to_each_model_as_it_can_read_it() -> None:
    """Another model of the API reads the finds as they came; an unknown one as text."""
    failed = search("python", error="max_uses_exceeded")
    lines = "odd?\nnews?\n/model claude-haiku-4-5\nmore\n/model my-own\nmore\n"
    replies = (reply(*failed, "I could not search."), FOUND, reply("a"), reply("b"))
    with serve_in_thread(*replies) as api:
        run = ran(*ALLOW, api=api, script=lines)

    assert "no more of these calls in one request (max_uses_exceeded)" in run.stdout + run.stderr
    assert "I could not search." in run.stdout
    seals = ["encrypted_content" in json.dumps(each.body) for each in api.requests]
    assert seals == [False, False, True, False]


def test_pages_are_read_by_the_api_only_where_a_rule_allows_it_and_it_can() -> None:
    """Nor is a search offered where a rule or a setting is against it."""
    fetch = {"AGENT_CLI_TOOLS__WEB_FETCH": "api"}
    allow = ("--allow", "web_fetch(domain:a.org)", *ALLOW)
    page = fetched("https://a.org/x", "text", title="A page")
    with serve_in_thread(reply(*page, "Read."), reply("ok"), reply("ok")) as api:
        read = ran("-p", "hi", *allow, "--deny", "web_search", api=api, **fetch)
        ran("-p", "hi", *ALLOW, api=api, **fetch, AGENT_CLI_TOOLS__WEB_SEARCH="false")
        ran("-p", "hi", *allow, api=api, **fetch, AGENT_CLI_PROVIDER__COMPAT="true")

    found = [
        next(tool for tool in each.body["tools"] if tool["name"] == "web_fetch")
        for each in api.requests
    ]
    assert read.stdout == "Read.\n"
    assert found[0]["allowed_domains"] == ["a.org"]
    assert ["input_schema" in tool for tool in found] == [False, True, True]
    assert not any("web_search" in name for at in range(3) for name in names(api, at))


def test_cost_limit_holds_the_price_of_searches_before_the_request() -> None:
    """Five searches and what they find; without room for them the request goes without."""
    with serve_in_thread(reply("ok")) as api:
        run = ran("-p", "hi", *ALLOW, "--max-cost", "0.12", api=api)

    assert run.code == 0
    assert "web_search" not in names(api)


def test_person_allows_it_once_for_the_conversation_and_may_stop_a_search() -> None:
    """The cache is read, and after Escape the conversation is valid."""
    gate = Gate()
    held = reply("Looking. ", *SEARCH, "Found.", gate=gate, hold_at=12)
    with (
        serve_in_thread(ASK, FOUND, reply("More."), held, reply("Fine.")) as api,
        in_terminal(api, AGENT_CLI_TOOLS__WEB_SEARCH="true") as terminal,
    ):
        terminal.send("news?\r")
        terminal.until("search the web for the rest of this conversation")
        terminal.until("❯ 1 Yes")
        terminal.send("\r")
        terminal.until("2 results")
        terminal.until("[1] What's new")
        terminal.send("and?\r")
        terminal.until("More.")
        terminal.until_prompt()
        terminal.send("look again\r")
        terminal.until(lambda: terminal.text.count("Search python 3.15") == 2)
        terminal.send("\x1b")
        terminal.until("interrupted")
        terminal.send("go on\r")
        terminal.until("Fine.")
        gate.open()

    assert api.refusals == []
    first, second, third = (each.body["tools"] for each in api.requests[:3])
    assert [t for t in second if not t.get("defer_loading")] == [
        t for t in first if not t.get("defer_loading")
    ]
    assert second == third and second[-1]["type"] == "web_search_20250305"
    told: Any = json.dumps(api.requests[4].body["messages"][-3:])
    assert "srvtoolu" not in told and "Looking." in told


def test_pause_in_the_middle_goes_on_and_counts_once() -> None:
    paused = reply("Wait. ", SEARCH[0], stop_reason="pause_turn", usage={"input_tokens": 10})
    with serve_in_thread(paused, reply(SEARCH[1], "Found.")) as api:
        run = ran("-p", "news?", *ALLOW, "--output-format", "json", api=api)

    assert (run.result["stop_reason"], run.result["text"]) == ("end_turn", "Wait. Found.")
    assert api.requests[1].body["messages"][-1]["content"][-1] == SEARCH[0]


def test_refusal_by_the_api_is_told_once_and_the_prompt_is_answered() -> None:
    refusal = error(400, "invalid_request_error", "Web search is not enabled for this workspace")
    with serve_in_thread(refusal, reply("one"), reply("two")) as api:
        run = agent_cli(*ALLOW, api=api, script="a\nb\n")

    assert [("web_search" in names(api, at)) for at in range(3)] == [True, False, False]
    assert run.stdout.count("one") == 1
    assert (run.stdout + run.stderr).count("the API refuses web_search") == 1


def test_answer_of_a_schema_may_search() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    Path("schema.json").write_text(json.dumps(schema))
    with serve_in_thread(reply(*SEARCH, '{"a": 1}')) as api:
        run = ran("-p", "go", *ALLOW, "--json-schema", "schema.json", api=api)

    assert json.loads(run.stdout) == {"a": 1}


def test_kill_in_the_middle_of_a_search_leaves_a_session_that_goes_on() -> None:
    gate = Gate()
    held = reply("Looking. ", *SEARCH, "Found.", gate=gate, hold_at=12)
    with serve_in_thread(held, reply("Fine.")) as api:
        with started("-p", "news?", *ALLOW, api=api) as program:
            assert gate.reached.wait(60)
            program.kill()
            program.wait()
        gate.open()
        run = ran("-c", "-p", "go on", *ALLOW, api=api)

    assert run.stdout == "Fine.\n"
    assert "srvtoolu" not in json.dumps(api.requests[1].body["messages"])


def test_compaction_leaves_no_half_of_a_search() -> None:
    turns = iter(range(100))

    def answer(_request: ReceivedRequest) -> Reply:
        at = next(turns)
        if at % 2 == 0 and at < 6:
            return reply(*search(f"q{at}", NEWS), cited(f"x{at}", NEWS), "word " * 3_000)
        return reply(f"plain {at}")

    with serve_in_thread(answer=answer) as api:
        run = ran(
            *ALLOW,
            api=api,
            script="".join(f"p{at}\n" for at in range(6)),
            AGENT_CLI_COMPACTION__THRESHOLD_TOKENS="4000",
            AGENT_CLI_COMPACTION__PROTECTED_TAIL_MESSAGES="2",
        )

    assert run.code == 0
    assert "compacted" in run.stdout + run.stderr


def test_agent_gets_it_only_if_it_lists_it() -> None:
    """`tools: WebSearch` in a definition, as in Claude Code."""
    home = Path.home() / ".config/agent-cli/agents"
    home.mkdir(parents=True, exist_ok=True)
    for name, tools in (("looker", "Read, WebSearch"), ("reader", "Read")):
        (home / f"{name}.md").write_text(
            f"---\nname: {name}\ndescription: x\ntools: {tools}\n---\nWork."
        )
    calls = [
        tool_use(
            "agent", {"subagent_type": name, "prompt": "go", "description": "d"}, id=f"t{name}"
        )
        for name in ("looker", "reader")
    ]
    with serve_in_thread(
        reply(calls[0]), reply("one"), reply(calls[1]), reply("two"), reply("done")
    ) as api:
        ran("-p", "go", *ALLOW, "--permission-mode", "yolo", api=api)

    assert names(api, 1) == ["web_search", "read"]
    assert names(api, 3) == ["read"]
    assert results_in(api.requests[-1].body)
