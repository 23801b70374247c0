"""Searches that the API makes: allowed by a rule or a person, shown, paid for, and kept."""

import json
from pathlib import Path
from typing import Any

import pytest

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


def test_nothing_is_offered_unless_a_rule_or_a_setting_wants_it() -> None:
    """A token of every request, and a cent a search, are for those who want them."""
    with serve_in_thread(reply("ok"), reply("ok"), reply("ok")) as api:
        ran("-p", "hi", api=api)
        ran("-p", "hi", *ALLOW, "--deny", "web_search", api=api)
        ran("-p", "hi", *ALLOW, api=api, AGENT_CLI_TOOLS__WEB_SEARCH="false")

    for at in range(3):
        assert not any("web_search" in name for name in names(api, at))


def test_allowed_search_is_declared_at_once_and_its_sources_are_printed() -> None:
    with serve_in_thread(FOUND) as api:
        run = ran("-p", "news?", *ALLOW, api=api)

    assert names(api)[0] == "web_search"
    assert run.code == 0
    assert run.stdout == (
        "It is out since October [1].\n\n[1] What's new https://docs.python.org/3.15\n"
    )


def test_claudes_rules_and_domains_hold() -> None:
    """One grammar; a domain that is denied is passed on, and so is one of `network`."""
    with serve_in_thread(reply("ok"), reply("ok")) as api:
        ran("-p", "hi", "--allow", "WebSearch", "--deny", "network(evil.com)", api=api)
        ran("-p", "hi", "--allow", "web_search(domain:*.python.org)", api=api)

    first, second = (each.body["tools"][0] for each in api.requests)
    assert first["blocked_domains"] == ["evil.com"]
    assert second["allowed_domains"] == ["python.org"]


def test_without_a_rule_p_ends_with_exit_code_3() -> None:
    with serve_in_thread(ASK, reply("I may not search.")) as api:
        run = ran("-p", "news?", api=api, AGENT_CLI_TOOLS__WEB_SEARCH="true")

    assert run.code == 3
    assert "web_search skipped: cannot ask here; use --allow" in run.stderr


def test_json_output_names_searches_their_cost_and_their_blocks() -> None:
    usage = {"input_tokens": 1000, "output_tokens": 10}
    priced = reply(*FOUND.blocks, usage=usage)
    with serve_in_thread(priced, reply("ok", usage=usage)) as api:
        found = ran("-p", "news?", *ALLOW, "--output-format", "stream-json", api=api)
        plain = ran("-p", "news?", "--output-format", "json", api=api)

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
    assert round(found.result["cost_usd"] - plain.result["cost_usd"], 6) == 0.01


def test_session_goes_on_with_what_was_found_after_a_resume_and_a_fork() -> None:
    """The server checks that nothing of it has changed."""
    with serve_in_thread(FOUND, reply("a"), reply("b"), reply("c")) as api:
        first = ran("-p", "news?", *ALLOW, "--output-format", "json", api=api)
        id = str(first.result["session_id"])
        ran("--resume", id, "-p", "more", *ALLOW, api=api)
        ran("--fork", id, "-p", "else", *ALLOW, api=api)
        ran("--resume", id, "-p", "now without", api=api)

    for request in api.requests[1:]:
        assert request.body["messages"][1]["content"][:2] == [*SEARCH]
    assert "web_search" not in names(api, 3)


def test_other_servers_read_what_was_found_as_text() -> None:
    with serve_in_thread(FOUND, reply("a")) as api:
        ran("-p", "news?", *ALLOW, api=api)
        ran("-c", "-p", "more", *ALLOW, api=api, AGENT_CLI_PROVIDER__COMPAT="true")

    told = json.dumps(api.requests[1].body)
    assert "encrypted" not in told and "citations" not in told
    assert "- Release https://www.python.org/downloads" in told
    assert "web_search" not in names(api, 1)


def test_search_that_failed_is_shown_and_the_answer_goes_on() -> None:
    failed = search("python", error="max_uses_exceeded")
    with serve_in_thread(reply(*failed, "I could not search.")) as api:
        run = ran(*ALLOW, api=api, script="news?\n")

    assert "no more of these calls in one request (max_uses_exceeded)" in run.stdout + run.stderr
    assert "I could not search." in run.stdout


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


@pytest.mark.parametrize("limit", ["0.12", "1"])
def test_cost_limit_holds_the_price_of_searches_before_the_request(limit: str) -> None:
    """Five searches and what they find; without room for them the request goes without."""
    with serve_in_thread(reply("ok")) as api:
        run = ran("-p", "hi", *ALLOW, "--max-cost", limit, api=api)

    assert run.code == 0
    assert ("web_search" in names(api)) == (limit == "1")


def test_reply_that_breaks_off_in_a_search_is_retried_as_a_whole() -> None:
    with serve_in_thread(broken(FOUND, "drop", after=6), FOUND) as api:
        run = ran("-p", "news?", *ALLOW, api=api)

    assert run.code == 0 and run.stdout.startswith("It is out")
    assert len(api.requests[1].body["messages"]) == 1


def test_answer_of_a_schema_may_search() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    Path("schema.json").write_text(json.dumps(schema))
    with serve_in_thread(reply(*SEARCH, '{"a": 1}')) as api:
        run = ran("-p", "go", *ALLOW, "--json-schema", "schema.json", api=api)

    assert json.loads(run.stdout) == {"a": 1}


def test_person_allows_it_once_for_the_conversation_and_the_cache_is_read() -> None:
    with (
        serve_in_thread(ASK, FOUND, reply("More.")) as api,
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

    assert api.refusals == []
    first, second, third = (each.body["tools"] for each in api.requests)
    assert [t for t in second if not t.get("defer_loading")] == [
        t for t in first if not t.get("defer_loading")
    ]
    assert second == third and second[-1]["type"] == "web_search_20250305"


def test_escape_in_the_middle_of_a_search_leaves_a_valid_conversation() -> None:
    gate = Gate()
    held = reply("Looking. ", *SEARCH, "Found.", gate=gate, hold_at=12)
    with (
        serve_in_thread(held, reply("Fine.")) as api,
        in_terminal(api, *ALLOW) as terminal,
    ):
        terminal.send("news?\r")
        terminal.until("Search python 3.15")
        terminal.send("\x1b")
        terminal.until("interrupted")
        terminal.send("go on\r")
        terminal.until("Fine.")
        gate.open()

    assert api.refusals == []
    told: Any = json.dumps(api.requests[1].body["messages"])
    assert "srvtoolu" not in told and "Looking." in told


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


def test_transcript_tells_what_was_found() -> None:
    with serve_in_thread(FOUND) as api:
        first = ran("-p", "news?", *ALLOW, "--output-format", "json", api=api)
    shown = agent_cli("sessions", "show", str(first.result["session_id"]))

    assert "* web_search python 3.15, run by the API\n\n  2 results\n" in shown.stdout
    assert "    Release https://www.python.org/downloads" in shown.stdout
    assert "It is out since October." in shown.stdout
    assert "encrypted" not in shown.stdout


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


def test_session_that_asked_goes_on_where_a_rule_allows_it_and_back() -> None:
    with serve_in_thread(ASK, reply("no"), FOUND, reply("ok")) as api:
        ran("-p", "news?", api=api, AGENT_CLI_TOOLS__WEB_SEARCH="true")
        allowed = ran("-c", "-p", "again", *ALLOW, api=api)
        after = ran("-c", "-p", "more", api=api)

    assert (allowed.code, after.code) == (0, 0)


def test_other_models_get_what_they_can_read() -> None:
    """Another model of the API reads the finds as they came; an unknown one as text."""
    lines = "news?\n/model claude-haiku-4-5\nmore\n/model my-own\nmore\n"
    with serve_in_thread(FOUND, reply("a"), reply("b")) as api:
        ran(*ALLOW, api=api, script=lines)

    seals = ["encrypted_content" in json.dumps(each.body) for each in api.requests]
    assert seals == [False, True, False]


def test_pages_are_read_by_the_api_only_where_a_rule_allows_it_and_it_can() -> None:
    fetch = {"AGENT_CLI_TOOLS__WEB_FETCH": "api"}
    allow = ("--allow", "web_fetch(domain:a.org)")
    page = fetched("https://a.org/x", "text", title="A page")
    with serve_in_thread(reply(*page, "Read."), reply("ok"), reply("ok")) as api:
        read = ran("-p", "hi", *allow, api=api, **fetch)
        ran("-p", "hi", api=api, **fetch)
        ran("-p", "hi", *allow, api=api, **fetch, AGENT_CLI_PROVIDER__COMPAT="true")

    found = [
        next(tool for tool in each.body["tools"] if tool["name"] == "web_fetch")
        for each in api.requests
    ]
    assert read.stdout == "Read.\n"
    assert found[0]["allowed_domains"] == ["a.org"]
    assert ["input_schema" in tool for tool in found] == [False, True, True]


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
