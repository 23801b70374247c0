"""Ten turns with tools: each request repeats the previous one byte for byte, from the cache."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.e2e.program import agent_cli, asks_for_summary
from tests.messages_api import ReceivedRequest, reply, serve_in_thread, thinking, tool_use
from tests.messages_api.prompt_cache import PromptCache, canonical, without_markers
from tests.messages_api.script import Payload, Reply

TURNS = 10


def prompt_bytes(request: ReceivedRequest) -> bytes:
    """Return the model's input, in cache order, without markers and closing brackets."""
    parts = [request.body[name] for name in ("tools", "system", "messages")]
    return canonical(parts).removesuffix(b"]]")


def test_each_request_repeats_the_previous_one_and_is_read_from_the_cache() -> None:
    """S1-18: byte for byte; at least 95 % of the earlier content is a cache read."""
    Path("text.txt").write_text("a line of text\n" * 50)
    calls = [
        tool_use("read", {"path": "text.txt", "limit": 20}),
        tool_use("bash", {"command": "ls; date +%N"}),
        tool_use("grep", {"pattern": "line", "path": "text.txt", "limit": 5}),
        tool_use("edit", {"path": "text.txt", "edits": [{"old": "no such", "new": "text"}]}),
    ]
    script = [
        answer
        for turn in range(TURNS)
        for answer in (
            reply(thinking(f"Turn {turn}."), f"Step {turn}.", calls[turn % len(calls)]),
            reply(thinking(f"Now {turn}."), f"Done {turn}."),
        )
    ]
    with serve_in_thread(*script) as api:
        run = agent_cli(
            "--permission-mode",
            "yolo",
            api=api,
            script="".join(f"Do step {turn}, please.\n" for turn in range(TURNS)),
        )

    assert run.code == 0
    assert api.refusals == []
    assert api.dropped_thinking == []
    assert len(api.requests) == 2 * TURNS
    cache, sent_before = PromptCache(), 0
    for before, after in zip(api.requests, api.requests[1:], strict=False):
        assert prompt_bytes(after).startswith(prompt_bytes(before))
        fixed: Payload = {"messages": [], "diagnostics": None}
        assert {**after.body, **fixed} == {**before.body, **fixed}
    for request in api.requests:
        usage = cache.usage(request.body)
        assert usage["cache_read_input_tokens"] >= 0.95 * sent_before
        sent_before = sum(
            usage[f"{kind}input_tokens"] for kind in ("", "cache_read_", "cache_creation_")
        )


@pytest.mark.parametrize(("reminders", "tokens_max"), [("false", 1_600), ("true", 2_000)])
def test_system_prompt_and_tools_stay_small(reminders: str, tokens_max: int) -> None:
    """At most 1,600 tokens by default, 2,000 with every plugin: bytes on the wire / 4.

    Without marks for the API, which the model does not read.
    """
    subprocess.run(["git", "init", "--quiet", "--initial-branch=feature/checkout"], check=True)
    with serve_in_thread(reply("Hi.")) as api:
        agent_cli(api=api, script="hi\n", AGENT_CLI_PLUGINS__REMINDERS=reminders)

    body = without_markers(api.requests[0].body)
    tools, system = (
        json.dumps(body[part], ensure_ascii=False, separators=(",", ":"))
        for part in ("tools", "system")
    )
    assert tools.encode() in api.requests[0].raw
    tools, marks = re.subn(',"eager_input_streaming":true', "", tools)
    assert marks
    assert str(Path.cwd()) in system
    assert "Git branch: feature/checkout" in system
    system = system.replace(str(Path.cwd()), "/home/ada/src/project")
    # On the day with the longest name, so that the test says the same on each day.
    system, days = re.subn(r"Today is \w+day,", "Today is Wednesday,", system)
    assert days == 1
    fixed = (tools + system).encode()
    assert len(fixed) / 4 <= tokens_max


@pytest.mark.slow
@pytest.mark.parametrize("model", ["claude-sonnet-5-5", "claude-haiku-5-5"])
def test_a_compaction_costs_little_more_than_reading_the_context_from_the_cache(model: str) -> None:
    """At most 1.2 times a cached read, beside its output; a read costs 0.1, a write 1.25.

    The second model signs no summaries: it is asked by a message.
    """
    prompts = [f"{number} " + "word " * 24_000 for number in range(6)]
    with serve_in_thread(*[reply("ok")] * 6, reply("The notes."), reply("Yes.")) as api:
        run = agent_cli(
            "--model", model, api=api, script="\n".join([*prompts, "/compact", "next"]) + "\n"
        )

    assert run.code == 0
    assert api.refusals == []
    cache = PromptCache()
    usages = [cache.usage(request.body) for request in api.requests]
    whole = sum(usages[5][f"{kind}input_tokens"] for kind in ("", "cache_read_", "cache_creation_"))
    summary = usages[6]
    cost = (
        summary["input_tokens"]
        + 0.1 * summary["cache_read_input_tokens"]
        + 1.25 * summary["cache_creation_input_tokens"]
    )
    assert whole > 100_000
    assert "The notes." in str(api.requests[7].body["messages"])
    assert cost <= 1.2 * 0.1 * whole


def _works_through(request: ReceivedRequest) -> Reply:
    """Read a file of 3,300 tokens for each constraint; then answer, or write short notes."""
    if asks_for_summary(request.body):
        return reply("The work goes on.")
    *_, last = [each for each in request.body["messages"] if each["role"] == "user"]
    if last["content"][-1].get("type") == "tool_result":
        return reply("Done.")
    return reply(tool_use("read", {"path": "large.txt"}))


@pytest.mark.slow
@pytest.mark.parametrize("compat", ["false", "true"])
def test_sixty_constraints_survive_three_compactions(compat: str) -> None:
    """Each is in the next request, word for word, with the API's summaries and without."""
    Path("large.txt").write_text("".join(f"{n:04} {'word ' * 19}\n" for n in range(132)))
    rules = [f"Constraint {n}: call every helper number {n * 7919} by its name." for n in range(60)]
    lines = [*rules[:20], "/compact", *rules[20:40], "/compact", *rules[40:], "/compact", "go on"]
    with serve_in_thread(answer=_works_through) as api:
        run = agent_cli(
            *("--permission-mode", "yolo"),
            api=api,
            script="\n".join(lines) + "\n",
            AGENT_CLI_PROVIDER__COMPAT=compat,
        )

    assert (run.code, api.refusals) == (0, [])
    summaries = [each.body for each in api.requests if asks_for_summary(each.body)]
    assert len(summaries) == 3
    assert ["compaction" in body for body in summaries] == [compat == "false"] * 3
    results = sum(
        len(str(block))
        for request in api.requests
        for block in request.body["messages"][-1]["content"]
        if block["type"] == "tool_result"
    )
    assert results / 4 > 200_000
    *_, last = api.requests
    missing = [rule for rule in rules if rule not in str(last.body["messages"])]
    assert missing == []
