"""Each rule of the fake server, violated by a raw request; the numbers are the reference's."""

import asyncio
import json
from typing import Any

import pytest

from tests.messages_api import FakeMessagesApi, Reply, cited, reply, search, thinking, tool_use
from tests.messages_api.script import Payload
from tests.tables import each_row

HEADERS = {"authorization": "Bearer k", "anthropic-version": "2026-10-21"}
BINDING_BETA = {"anthropic-beta": "thinking-binding-controls-2026-08-01"}
DROP: Payload = {
    "type": "adaptive",
    "block_binding": {"prefix_mismatch_behavior": "drop_block"},
}
SHORT: Payload = {"type": "ephemeral"}
LONG: Payload = {"type": "ephemeral", "ttl": "1h"}
TOOL: Payload = {"name": "read", "description": "d", "input_schema": {"type": "object"}}
CALL: Payload = {"type": "tool_use", "id": "t1", "name": "read", "input": {}}
RESULT: Payload = {"type": "tool_result", "tool_use_id": "t1", "content": "ok"}


def user(*content: str | Payload) -> Payload:
    return {"role": "user", "content": [_block(each) for each in content]}


def assistant(*content: str | Payload) -> Payload:
    return {"role": "assistant", "content": [_block(each) for each in content]}


def text(content: str, **more: Any) -> Payload:
    return {"type": "text", "text": content, **more}


def image(media_type: str = "image/png", data: str = "aGk=") -> Payload:
    return {
        "type": "image",
        "source": {"type": "base64", "media_type": media_type, "data": data},
    }


def _block(content: str | Payload) -> Payload:
    return text(content) if isinstance(content, str) else content


def request(**changes: Any) -> Payload:
    """Return a valid body with *changes*; None removes a field."""
    body: Payload = {
        "model": "claude-sonnet-5-5",
        "max_tokens": 100,
        "messages": [user("hi")],
        "stream": True,
        **changes,
    }
    return {name: value for name, value in body.items() if value is not None}


async def post(
    api: FakeMessagesApi,
    body: Payload | bytes,
    headers: dict[str, str] = HEADERS,
    path: str = "/v1/messages",
) -> tuple[int, str]:
    """Send *body* over a new socket; return the status and everything after it."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"POST {path} HTTP/1.1", f"content-length: {len(raw)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    reader, writer = await asyncio.open_connection("127.0.0.1", api.port)
    writer.write("\r\n".join([*lines, "", ""]).encode() + raw)
    try:
        async with asyncio.timeout(60):
            answer = await reader.readuntil(b"\r\n0\r\n\r\n")
    finally:
        writer.close()
        await writer.wait_closed()
    return int(answer.split(b" ", 2)[1]), answer.decode()


SEARCH: Payload = {"type": "web_search_20250305", "name": "web_search"}
CALLED, FOUND = search("q", ("Title", "https://a.org"))
SEALED: Payload = FOUND["content"][0]
CITED = cited("so", ("Title", "https://a.org"))


def searched(*blocks: Payload, then: str = "more", **tool: Any) -> Payload:
    """Return a request whose history holds *blocks* of a reply; *tool* changes the definition."""
    messages = [user("hi"), assistant(*(blocks or (CITED,))), user(then)]
    return request(messages=messages, tools=[{**SEARCH, **tool}, TOOL])


BROKEN: list[tuple[str, str, Payload, str]] = [
    ("R16", "a search without its result", searched(CALLED), "without a corresponding"),
    ("R16", "a result without its search", searched(FOUND), "unexpected `tool_use_id`"),
    (
        "R16",
        "a pause whose tool is gone",
        request(messages=[user("hi"), assistant(CALLED)], tools=[TOOL]),
        "no `web_search` tool was provided",
    ),
    (
        "seal",
        "a changed find",
        searched(CALLED, {**FOUND, "content": [{**SEALED, "title": "Other"}]}),
        "Invalid encrypted_content",
    ),
    (
        "seal",
        "a changed citation",
        searched(text("so", citations=[{**CITED["citations"][0], "cited_text": "x"}])),
        "Invalid encrypted_index",
    ),
    ("R1", "an unknown version", searched(type="web_search_20990101"), "does not match"),
    ("hosted", "another name", searched(name="search"), "should be 'web_search'"),
    ("hosted", "no domain", searched(allowed_domains=["https://a.org"]), "is not a domain"),
    (
        "hosted",
        "both kinds of domains",
        searched(allowed_domains=["a.org"], blocked_domains=["b.org"]),
        "only one of",
    ),
    ("hosted", "a field of another tool", searched(url_sources={}), "Extra inputs"),
    ("hosted", "no use at all", searched(max_uses=0), "greater than 0"),
    (
        "citations",
        "a format beside them",
        {**searched(), "output_config": {"format": {"type": "json_schema", "schema": {}}}},
        "cannot be used with a format",
    ),
    ("R1", "no model", request(model=None), "model: Field required"),
    ("R1", "no limit", request(max_tokens=None), "max_tokens: Field required"),
    ("R1", "limit is text", request(max_tokens="9"), "max_tokens: Input should be"),
    ("R1", "no messages", request(messages=[]), "at least one message"),
    ("R1", "role", request(messages=[{"role": "tool", "content": "x"}]), "messages.0.role"),
    ("R3", "assistant first", request(messages=[assistant("a"), user("b")]), "first message"),
    ("R4", "prefill", request(messages=[user("a"), assistant("b")]), "assistant message prefill"),
    (
        "R5",
        "whitespace at the end",
        request(model="claude-haiku-4-5", messages=[user("a"), assistant("b ")]),
        "trailing whitespace",
    ),
    ("R8", "empty text", request(messages=[user("")]), "must be non-empty"),
    ("R8", "empty system", request(system=[text("")]), "system: text content blocks"),
    (
        "R8",
        "empty text in a result",
        request(messages=[user("a"), assistant(CALL), user({**RESULT, "content": [text("")]})]),
        "must be non-empty",
    ),
    ("R9", "blank text", request(messages=[user(" \n")]), "non-whitespace text"),
    (
        "R10",
        "empty message",
        request(messages=[user("a"), assistant(), user("b")]),
        "messages.1: all messages must have non-empty content",
    ),
    ("R11", "temperature", request(temperature=1), "temperature: sampling parameters"),
    ("R11", "top_p", request(top_p=1), "top_p: sampling parameters"),
    (
        "R11",
        "document of the assistant",
        request(messages=[user("a"), assistant({"type": "document"}), user("b")]),
        "document blocks",
    ),
    ("R11", "citations", request(messages=[user(text("a", citations=[]))]), "citations"),
    ("R12", "limit", request(max_tokens=128_001), "128001 > 128000, which is the maximum"),
    (
        "R14",
        "unanswered call",
        request(messages=[user("a"), assistant(CALL), user("b")]),
        "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: t1",
    ),
    (
        "R14",
        "results not first",
        request(messages=[user("a"), assistant(CALL), user("b", RESULT)]),
        "without `tool_result` blocks immediately after: t1",
    ),
    ("R15", "unasked result", request(messages=[user(RESULT)]), "unexpected `tool_use_id`"),
    (
        "R15",
        "answered twice",
        request(messages=[user("a"), assistant(CALL), user(RESULT, RESULT)]),
        "messages.2.content.1: unexpected `tool_use_id`",
    ),
    (
        "R17",
        "id twice",
        request(messages=[user("a"), *[assistant(CALL), user(RESULT)] * 2]),
        "`tool_use` ids must be unique",
    ),
    ("R18", "tool name", request(tools=[{**TOOL, "name": "a.b"}]), "tools.0.custom.name"),
    ("R18", "tool twice", request(tools=[TOOL, TOOL]), "must be unique"),
    ("R18", "schema", request(tools=[{**TOOL, "input_schema": {}}]), "Input should be 'object'"),
    ("R19", "forced", request(tools=[TOOL], tool_choice={"type": "any"}), "not supported"),
    ("R21", "choice of none", request(tool_choice={"type": "auto"}), "while providing tools"),
    ("R29", "enabled", request(thinking={"type": "enabled"}), "thinking.type.enabled"),
    ("R29", "disabled", request(thinking={"type": "disabled"}), "thinking.type.disabled"),
    (
        "R29",
        "between tools",
        request(model="claude-opus-5-5", thinking={"type": "between_tools"}),
        "thinking.type.between_tools",
    ),
    (
        "R29",
        "adaptive on an older model",
        request(model="claude-haiku-4-5", thinking={"type": "adaptive"}),
        "adaptive thinking is not supported",
    ),
    (
        "R29",
        "budget above the limit",
        request(model="claude-haiku-4-5", thinking={"type": "enabled", "budget_tokens": 2000}),
        "budget_tokens",
    ),
    (
        "R34",
        "marker on thinking",
        request(
            messages=[
                user("a"),
                assistant({**thinking("hm"), "cache_control": SHORT}, "b"),
                user("c"),
            ]
        ),
        "thinking.cache_control",
    ),
    (
        "R35",
        "five markers",
        request(messages=[user(*[text(str(n), cache_control=SHORT) for n in range(5)])]),
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
    ),
    (
        "R36",
        "an hour after five minutes",
        request(
            system=[text("s", cache_control=SHORT)],
            messages=[user(text("a", cache_control=LONG))],
        ),
        "must not come after a ttl='5m'",
    ),
    (
        "R37",
        "automatic against explicit",
        request(messages=[user(text("a", cache_control=LONG))], cache_control=SHORT),
        "conflicts with the marker",
    ),
    ("R38", "marker on nothing", request(messages=[user(text("", cache_control=SHORT))]), "empty"),
    ("R39", "media type", request(messages=[user(image("image/tiff"))]), "media_type"),
    (
        "is_error",
        "error with an image",
        request(
            messages=[
                user("a"),
                assistant(CALL),
                user({**RESULT, "content": [image()], "is_error": True}),
            ],
        ),
        "all content must be type `text`",
    ),
    ("R39", "image size", request(messages=[user(image(data="A" * 10_485_761))]), "10 MB"),
    (
        "R18",
        "unknown field of a tool",
        request(tools=[{**TOOL, "eager": True}]),
        "tools.0.custom.eager: Extra inputs are not permitted",
    ),
    (
        "R18",
        "eager, but not whether",
        request(tools=[{**TOOL, "eager_input_streaming": "yes"}]),
        "tools.0.custom.eager_input_streaming: Input should be",
    ),
    ("fields", "unknown field", request(seed=1), "seed: Extra inputs are not permitted"),
    ("fields", "binding without its beta", request(thinking=DROP), "block_binding"),
    ("stream", "not streaming", request(stream=False), "only streams"),
    ("effort", "unknown effort", request(output_config={"effort": "max!"}), "output_config.effort"),
    (
        "effort",
        "effort on an older model",
        request(model="claude-haiku-4-5", output_config={"effort": "low"}),
        "output_config.effort",
    ),
]


@each_row(
    ("rule", "body", "message"),
    [(rule, body, message) for rule, _, body, message in BROKEN],
    ids=[f"{rule} {name}" for rule, name, _, _ in BROKEN],
)
async def test_fake_api_refuses_a_request_that_breaks_a_rule(
    rule: str, body: Payload, message: str
) -> None:
    """The error is as documented: status, type, message, and the request's id twice."""
    async with FakeMessagesApi(reply("never sent")) as api:
        status, answer = await post(api, body)

    error = json.loads(answer[answer.index("{") : answer.rindex("}") + 1])
    assert status == 400
    assert error["error"]["type"] == "invalid_request_error"
    assert message in error["error"]["message"]
    assert f"request-id: {error['request_id']}" in answer
    assert [refusal.rule for refusal in api.refusals] == [rule]
    assert len(api.script) == 1


async def test_fake_api_answers_valid_requests() -> None:
    """A server that refuses everything would pass the tests of the rules, too."""
    bodies = [
        request(),
        request(messages=[user("a"), user("b")]),  # R2: combined, not refused
        request(messages=[user("a"), assistant(CALL), user(RESULT, "and more")]),
        request(model="claude-haiku-4-5", messages=[user("a"), assistant("prefill")]),
        request(system="you", tools=[TOOL], cache_control=SHORT, tool_choice={"type": "auto"}),
        request(messages=[user(image())]),
        request(tools=[{**TOOL, "eager_input_streaming": True}]),
    ]
    async with FakeMessagesApi(answer=lambda _request: reply("fine")) as api:
        statuses = [(await post(api, body))[0] for body in bodies]

    assert statuses == [200] * len(bodies)


async def test_fake_api_refuses_a_too_large_body() -> None:
    """R7: the limit is 32 MB."""
    async with FakeMessagesApi() as api:
        status, answer = await post(api, b" " * (32 * 1024 * 1024 + 1))

    assert (status, "request_too_large" in answer) == (413, True)


async def test_fake_api_refuses_a_prompt_larger_than_the_context_window() -> None:
    """R13: the error is "prompt is too long"."""
    async with FakeMessagesApi(context_window=50) as api:
        status, answer = await post(api, request(messages=[user("long " * 100)]))

    assert (status, "prompt is too long: " in answer) == (400, True)


@each_row("headers", [{}, {"x-api-key": "k"}, {"authorization": "Bearer wrong"}])
async def test_fake_api_refuses_a_request_without_the_right_bearer_token(
    headers: dict[str, str],
) -> None:
    """The SDK sends keys as bearer tokens."""
    async with FakeMessagesApi(key="right") as api:
        status, answer = await post(api, request(), headers)

    assert (status, "authentication_error" in answer) == (401, True)


async def test_fake_api_refuses_wrong_path_missing_version_and_invalid_json() -> None:
    async with FakeMessagesApi() as api:
        elsewhere, _ = await post(api, request(), path="/v1/v1/messages")
        no_version, _ = await post(api, request(), {"authorization": "Bearer k"})
        no_json, _ = await post(api, b"{")

    assert (elsewhere, no_version, no_json) == (404, 400, 400)


THOUGHT = reply(thinking("let me see"), "so", tool_use("read", id="t1"))


async def second_request(
    first: Reply, messages: list[Payload], headers: dict[str, str] = HEADERS, **changes: Any
) -> tuple[str, str]:
    """Return the rule the second request broke, or "", and its answer."""
    async with FakeMessagesApi(first, reply("done")) as api:
        await post(api, request(messages=[user("hi")]))
        _, answer = await post(api, request(messages=messages, **changes), headers)
    return "".join(refusal.rule for refusal in api.refusals), answer


async def test_fake_api_accepts_thinking_sent_back_unchanged() -> None:
    rule, _ = await second_request(THOUGHT, [user("hi"), assistant(*THOUGHT.blocks), user(RESULT)])

    assert rule == ""


@pytest.mark.parametrize(
    "blocks",
    [
        (thinking("let me see", "sig_other"), *THOUGHT.blocks[1:]),
        ({**THOUGHT.blocks[0], "thinking": "let me"}, *THOUGHT.blocks[1:]),
        THOUGHT.blocks[1:],
    ],
    ids=["another signature", "another text", "left out"],
)
async def test_fake_api_refuses_modified_thinking_of_the_latest_reply(
    blocks: tuple[Payload],
) -> None:
    """R27: another signature, another text, or a missing block."""
    rule, answer = await second_request(THOUGHT, [user("hi"), assistant(*blocks), user(RESULT)])

    assert rule == "R27"
    assert "cannot be modified" in answer


async def test_fake_api_ignores_text_added_to_an_omitted_thinking_block() -> None:
    """R33: only the signature of such a block counts."""
    omitted = reply(thinking("", "sig_x"), "so")
    blocks = [{**omitted.blocks[0], "thinking": "added"}, omitted.blocks[1]]

    rule, _ = await second_request(omitted, [user("hi"), assistant(*blocks), user("go on")])

    assert rule == ""


async def test_fake_api_refuses_a_forged_thinking_signature() -> None:
    """R28: the signature was never sent by the server."""
    made_up = assistant(thinking("I am", "sig_made_up"), "else")

    rule, answer = await second_request(THOUGHT, [user("hi"), made_up, user("go on")])

    assert rule == "R28"
    assert "Invalid `signature` in `thinking` block" in answer


async def test_fake_api_refuses_thinking_after_a_changed_message() -> None:
    """R30: thinking is bound to the messages before it."""
    messages = [user("hello"), assistant(*THOUGHT.blocks), user(RESULT)]

    rule, answer = await second_request(THOUGHT, messages)

    assert rule == "R30"
    assert "bound to a different conversation" in answer


async def test_fake_api_drops_bound_thinking_if_the_request_allows_dropping() -> None:
    """R31: drop_block and its beta allow this; the answer lists the dropped blocks."""
    messages = [user("hello"), assistant(*THOUGHT.blocks), user(RESULT)]

    rule, answer = await second_request(
        THOUGHT, messages, {**HEADERS, **BINDING_BETA}, thinking=DROP
    )

    assert rule == ""
    assert '"path": "messages.1.content.0", "reason": "prefix_binding_mismatch"' in answer
