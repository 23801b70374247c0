"""Limits on a long conversation: truncation, trimming, compaction, and rounds."""

import json
import re
from typing import Any

import pytest

from agent_cli.core.projection import WORDS_TEXT
from tests.e2e.program import (
    Finished,
    agent_cli,
    asks_for_summary,
    results_in,
    said_by_user,
    text_of,
)
from tests.messages_api import (
    Answer,
    FakeMessagesApi,
    error,
    reply,
    serve_in_thread,
    tool_use,
)
from tests.messages_api.script import Payload

YOLO = ("--permission-mode", "yolo")
THRESHOLD = 10_000
LONG = "word " * 1_200
SUMMARY = "Decided: sqlite. See https://example.invalid/42. Score 7."


def compacting(
    *script: Answer, prompts: list[str], **settings: str
) -> tuple[Finished, FakeMessagesApi]:
    with serve_in_thread(*script) as api:
        run = agent_cli(
            api=api,
            script="".join(f"{prompt}\n" for prompt in prompts),
            AGENT_CLI_COMPACTION__THRESHOLD_TOKENS=str(THRESHOLD),
            AGENT_CLI_COMPACTION__PROTECTED_TAIL_MESSAGES="2",
            **settings,
        )
    assert run.code == 0
    assert api.refusals == []
    return run, api


def counted(text: str, tokens: int) -> Answer:
    """A reply after which prompt and reply together count *tokens*."""
    return reply(text, usage={"input_tokens": tokens - 10, "output_tokens": 10})


def summarising(api: FakeMessagesApi) -> list[Payload]:
    """Return the requests for a summary."""
    return [request.body for request in api.requests if asks_for_summary(request.body)]


def test_oversized_tool_result_is_truncated_with_a_notice() -> None:
    """S1-34, S1-35, S1-36: the real length, thousands separators, the tool's name; one warning."""
    command = "head -c 120000 /dev/zero | tr '\\0' Q"
    with serve_in_thread(reply(tool_use("bash", {"command": command})), reply("Long.")) as api:
        run = agent_cli("-p", "go", *YOLO, api=api, AGENT_CLI_HISTORY__MAX_TOOL_RESULT_CHARS="1500")

    text = text_of(results_in(api.requests[1].body)[0])
    shown, _, notice = text.rpartition("\n\n[OUTPUT TRUNCATED: ")
    gap = re.search(r"\n(\[… .* characters left out; .*\])\n", shown)
    ending = shown[shown.rindex("\n[exit 0 · ") :]
    assert gap
    total = 120_000 + len(ending)
    assert 1_200 < len(shown) <= 1_500
    assert shown.count("Q") + int(gap[1][3:].partition(" ")[0].replace(",", "")) == 120_000
    assert notice == f"Showing {len(shown):,} of {total:,} characters from bash]"
    [warning] = [line for line in run.stderr.splitlines() if "was cut to" in line]
    assert warning == f"the result of bash was cut to {len(shown):,} of {total:,} characters"


def test_oldest_messages_are_dropped_at_the_limit_with_a_warning() -> None:
    """S1-32, S1-33: at most the limit, the first stays, roles alternate; one line each time."""
    prompts = ["first", "second", "third", "fourth"]
    with serve_in_thread(*[reply(f"To {prompt}.") for prompt in prompts]) as api:
        run = agent_cli(
            api=api,
            script="\n".join(prompts),
            AGENT_CLI_HISTORY__MAX_CONVERSATION_MESSAGES="4",
        )

    assert api.refusals == []
    assert [len(request.body["messages"]) <= 4 for request in api.requests] == [True] * 4
    assert said_by_user(api.requests[-1].body)[0] == "first"
    assert said_by_user(api.requests[-1].body)[-1] == "fourth"
    warnings = [line for line in run.stderr.splitlines() if "dropped the oldest" in line]
    assert warnings
    assert all("max_conversation_messages = 4" in line for line in warnings)


@pytest.mark.parametrize(("rule", "finds"), [("recall", False), ("grep", True)])
def test_note_of_dropped_messages_names_recall_only_to_an_agent_that_may_use_it(
    rule: str, finds: bool
) -> None:
    """The model called what a rule denies, because the note told it to."""
    with serve_in_thread(*[reply(f"To {number}.") for number in range(4)]) as api:
        agent_cli(
            "--deny",
            rule,
            api=api,
            script="first\nsecond\nthird\nfourth",
            AGENT_CLI_HISTORY__MAX_CONVERSATION_MESSAGES="4",
        )

    assert ("recall" in str(api.requests[-1].body["messages"])) == finds


def test_context_above_the_threshold_is_compacted_into_one_summary() -> None:
    """S1-38, S1-39, S1-40, S1-41, S1c-3, S1c-4, S1c-5: first and last messages are untouched."""
    prompts = [f"{LONG}{number}" for number in range(3)]
    run, api = compacting(
        *[counted(f"ok {number}", 1_000) for number in range(2)],
        counted("ok 2", THRESHOLD + 1),
        reply(SUMMARY),
        counted("ok 3", 1_000),
        prompts=[*prompts, "go"],
    )

    [asked] = summarising(api)
    last = api.requests[-1].body
    contents = [message["content"] for message in last["messages"]]
    before = api.requests[-3].body
    assert (asked["tools"], asked["system"]) == (before["tools"], before["system"])
    assert texts(asked["messages"][0]["content"]) == texts(before["messages"][0]["content"])
    assert all(word in str(asked["compaction"]).lower() for word in ("decision", "url"))
    [block] = contents[0]
    assert (block["type"], block["content"]) == ("compaction", SUMMARY)
    first, words = texts(contents[1])
    assert first.startswith(prompts[0].strip())
    assert words.startswith(f"{WORDS_TEXT}\n")
    assert words.endswith(" word 2")  # the newest words; all would exceed half of the middle
    assert [texts(content) for content in contents[2:]] == [["ok 2"], ["go"]]
    assert prompts[1].strip() not in str(contents)
    assert "compacted" in run.stderr


@pytest.mark.parametrize("is_taken", [True, False])
def test_summary_of_a_text_has_the_form_that_was_asked_for(is_taken: bool) -> None:
    """A server that refuses the form gets the request again without it, then none any more."""
    notes = {"task": "Ship it.", "decisions": SUMMARY, "facts": "", "state": "", "open_tasks": ""}

    def answer(request: Any) -> Answer:  # Any: ReceivedRequest
        body = request.body
        if not asks_for_summary(body):
            return counted("ok", THRESHOLD + 1 if len(body["messages"]) > 4 else 1_000)
        if "format" not in body.get("output_config", {}):
            return reply(SUMMARY)
        if not is_taken:
            return error(400, "invalid_request_error", "output_config.format: not supported")
        return reply(json.dumps(notes))

    with serve_in_thread(answer=answer) as api:
        run = agent_cli(
            api=api,
            script="".join(f"{LONG}{number}\n" for number in range(7)),
            AGENT_CLI_COMPACTION__THRESHOLD_TOKENS=str(THRESHOLD),
            AGENT_CLI_COMPACTION__PROTECTED_TAIL_MESSAGES="2",
            AGENT_CLI_COMPACTION__MODEL="small",
        )

    forms = ["format" in body.get("output_config", {}) for body in summarising(api)]
    written = f"## Task\nShip it.\n\n## Decisions\n{SUMMARY}" if is_taken else SUMMARY
    last = "\n".join(texts(api.requests[-1].body["messages"][0]["content"]))
    assert (run.code, api.refusals) == (0, [])
    assert forms == ([True, True] if is_taken else [True, False, False])
    assert written in last
    assert run.stderr.count("compacted") == 2


def texts(content: Any) -> list[str]:  # Any: a string, or a list of blocks
    return [content] if isinstance(content, str) else [block.get("text", "") for block in content]


def test_huge_tool_result_triggers_compaction_then_trimming() -> None:
    """S1-04, S1-10: both happen before the next request, also between two tool rounds."""
    listing = tool_use("bash", {"command": "printf 'word %.0s' $(seq 8000)"})
    with serve_in_thread(
        reply("ok 0"),
        reply("ok 1"),
        reply(listing, usage={"input_tokens": 3_000, "output_tokens": 10}),
        reply(SUMMARY),
        reply("Seen."),
    ) as api:
        run = agent_cli(
            *YOLO,
            api=api,
            script=f"{LONG}0\n{LONG}1\n{LONG}2\n",
            AGENT_CLI_COMPACTION__THRESHOLD_TOKENS=str(THRESHOLD),
            AGENT_CLI_COMPACTION__PROTECTED_TAIL_MESSAGES="2",
            AGENT_CLI_HISTORY__MAX_CONVERSATION_MESSAGES="3",
        )

    kinds = [not asks_for_summary(request.body) for request in api.requests]
    assert api.refusals == []
    assert run.stdout == "ok 0\nok 1\nSeen.\n"
    assert kinds == [True, True, True, False, True]
    assert len(results_in(api.requests[-1].body)) == 1


def test_failing_compaction_falls_back_to_trimming_and_stops_after_3_tries() -> None:
    """S1c-6: a warning each time, the turn continues, and three failures are the limit."""
    full = counted("ok", THRESHOLD + 1_000)
    broken = error(400, "invalid_request_error", "no summary today")
    calls = 0

    def answer(request: Any) -> Answer:  # Any: ReceivedRequest
        nonlocal calls
        if not asks_for_summary(request.body):
            return full
        calls += 1
        return broken

    with serve_in_thread(answer=answer) as api:
        run = agent_cli(
            api=api,
            script="".join(f"{LONG}{number}\n" for number in range(8)),
            AGENT_CLI_COMPACTION__THRESHOLD_TOKENS=str(THRESHOLD),
            AGENT_CLI_COMPACTION__PROTECTED_TAIL_MESSAGES="2",
        )

    assert run.stdout == "ok\n" * 8
    assert api.refusals == []
    assert calls == 3
    assert run.stderr.count("compaction failed") == 3
    assert "dropped the oldest" in run.stderr


def test_compact_command_summarizes_and_usage_command_prints_tokens() -> None:
    """Both work in the whole program; /compact takes text to keep."""
    run, api = compacting(
        *[reply("ok " * 99)] * 3,
        reply(SUMMARY),
        reply("Yes."),
        prompts=["one", "two", "three", "/compact the score", "/usage", "four"],
    )

    [asked] = summarising(api)
    assert "the score" in str(asked["compaction"])
    assert SUMMARY in str(api.requests[-1].body["messages"])
    assert "input" in run.stderr


def test_signed_summary_goes_back_as_it_came_after_a_resume() -> None:
    """Byte for byte, from the record; a second summary replaces the block."""
    long = [reply("ok " * 99)] * 3
    with serve_in_thread(*long, reply(SUMMARY), *long, reply("New."), reply("Yes.")) as api:
        tail = {"AGENT_CLI_COMPACTION__PROTECTED_TAIL_MESSAGES": "2"}
        first = agent_cli(api=api, script="one\ntwo\nthree\n/compact\nfour\n", **tail)
        again = agent_cli("-c", api=api, script=f"{LONG}\nfive\n/compact\nsix\n", **tail)

    assert (first.code, again.code, api.refusals) == (0, 0, [])
    blocks = [
        block
        for request in api.requests
        for block in request.body["messages"][0]["content"]
        if block["type"] == "compaction"
    ]
    assert [block["content"] for block in blocks] == [*[SUMMARY] * 4, "New."]
    assert all(block == blocks[0] for block in blocks[:4])


def test_where_nothing_is_left_to_leave_out_the_advice_fits_the_door() -> None:
    """/compact, which was named, finds nothing to replace, and -p has no commands."""
    too_long = error(400, "invalid_request_error", "prompt is too long: 9 > 8 maximum")
    with serve_in_thread(
        answer=lambda r: too_long if LONG[:50] in str(r.body) else reply("Ah.")
    ) as api:
        printed = agent_cli("-p", LONG, api=api)
        typed = agent_cli(script=f"{LONG}\n/compact\n/rewind 1\nhello\n", api=api)

    reason = "the conversation is too large for the model (prompt is too long: 9 > 8 maximum)"
    assert (
        f"{reason}; start over with a shorter message, or use a model with a larger window"
        in printed.stderr
    )
    assert (
        f"{reason}; /rewind takes a long message back, /clear starts over, /model chooses a model"
        " with a larger window" in typed.stderr
    )
    assert typed.stdout.endswith("Ah.\n")


def test_a_refused_request_names_commands_only_where_they_can_be_typed() -> None:
    with serve_in_thread(answer=lambda _request: error(400, "invalid_request_error", "no")) as api:
        printed = agent_cli("-p", "hello", api=api)
        typed = agent_cli(script="hello\n", api=api)

    assert "(400: no); change it, or start over" in printed.stderr
    assert "(400: no); change it with /rewind, or start over with /clear" in typed.stderr


def test_a_refused_key_says_at_the_prompt_how_to_go_on_with_another() -> None:
    """A key that expires amid a session: a program that runs does not read it again."""
    refusal = error(401, "authentication_error", "expired")
    with serve_in_thread(answer=lambda _request: refusal) as api:
        printed = agent_cli("-p", "hello", api=api)
        typed = agent_cli(script="hello\n", api=api)

    refused = "API key rejected (expired); check ANTHROPIC_API_KEY"
    assert f"{refused} (request" in printed.stderr
    assert f"{refused}: leave, set a valid one, and go on: agent-cli -c (request" in typed.stderr


def test_a_limit_of_cost_too_low_for_any_call_has_the_name_of_its_setting() -> None:
    """ "(max_cost)" is the name of no setting and of no option; only the prompt has a next step."""
    with serve_in_thread(answer=lambda _request: reply("Never asked for.")) as api:
        printed = agent_cli("-p", "hello", "--max-cost", "0.000001", api=api)
        typed = agent_cli("--max-cost", "0.000001", script="hello\n", api=api)

    assert (
        "is left (max_cost_usd); no such call fits into the limit, so raise that" in printed.stderr
    )
    assert (
        "is left (max_cost_usd); no such call fits into the limit: leave, and go on with a higher"
        " one: agent-cli -c --max-cost USD" in typed.stderr
    )
    assert (printed.code, api.requests) == (4, [])
