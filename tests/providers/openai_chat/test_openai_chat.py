"""The provider of the Chat Completions API, against a server over HTTP."""

import asyncio
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from agent_cli.contracts.errors import ContextOverflow, ModelError
from agent_cli.contracts.found_tools import CALL_FOUND, reference_to
from agent_cli.contracts.media_files import document_block
from agent_cli.contracts.messages import AssistantMessage, ToolResultMessage, UserMessage
from agent_cli.contracts.provider import (
    Model,
    ModelRequest,
    Reply,
    ReplyEnd,
    Retrying,
    StreamEvent,
    TextDelta,
)
from agent_cli.contracts.timeline import Block, Json, Usage, text_block
from agent_cli.contracts.tooling import INVALID_JSON, ToolSpec
from agent_cli.providers.openai_chat import API, ChatConnection, OpenAIChat
from agent_cli.providers.retries import RetryPolicy
from tests.providers.openai_chat.server import (
    ChatServer,
    Failure,
    Stream,
    chat_server,
    chunk,
    text,
    used,
)
from tests.tables import each_row

FIND = ToolSpec("find", "Find tools", {"type": "object"}, finds_tools=True)
FOUND = ToolSpec("mcp__s__ask", "Ask it.", {"type": "object"}, is_deferred=True)
READ = ToolSpec("read", "Read a file.", {"type": "object", "properties": {"path": {}}})
REQUEST = ModelRequest(
    model=Model("m-1", api=API), messages=(UserMessage.of("hi"),), system=("Be brief.", "In Kyiv.")
)
FINE = [chunk({"content": "fine"}), chunk({}, "stop")]
OVER = "This model's maximum context length is 8192 tokens"
PNG: Json = {"type": "base64", "media_type": "image/png", "data": "aGk="}


async def asked(
    server: ChatServer, request: ModelRequest = REQUEST, **options: Any
) -> list[StreamEvent]:
    """Return the events of *request*; the wait before a retry takes no time."""

    async def sleep(_seconds: float) -> None:
        """Continue at once."""

    connection = ChatConnection(base_url=server.url, api_key="sk-1", **options)
    provider = OpenAIChat(connection, RetryPolicy(max=1), sleep=sleep)
    try:
        return [event async for event in provider.stream(request)]
    finally:
        await provider.aclose()


def reply_of(events: list[StreamEvent]) -> Reply:
    """Return the complete reply, which is the last event."""
    assert isinstance(events[-1], ReplyEnd)
    return events[-1].reply


def call(index: int | None, id: str | None, name: str | None, arguments: Json) -> Mapping[str, Any]:
    """Return a piece of a tool call, with what the server gives of it."""
    function = {"arguments": arguments} | ({"name": name} if name else {})
    given = {"id": id, "type": "function"} if id else {}
    return {**given, **({"index": index} if index is not None else {}), "function": function}


async def test_text_is_streamed_and_the_usage_and_cost_are_told() -> None:
    """Cached tokens are part of the prompt's in this API, and beside them in ours."""
    pieces = [chunk({"content": "Hel"}), chunk({"content": "lo"})]
    with chat_server(Stream([*pieces, chunk({}, "stop"), used(9, 2, 4, 1)])) as server:
        events = await asked(server, price=lambda _model, usage: usage.output_tokens * 7)

    reply = reply_of(events)
    assert "".join(event.delta for event in events if isinstance(event, TextDelta)) == "Hello"
    assert (reply.content, reply.stop_reason) == ((text_block("Hello"),), "end_turn")
    assert reply.usage == Usage(5, 2, 4, cost_microdollars=14, thinking_tokens=1)
    assert server.received[0]["messages"] == [
        {"role": "system", "content": "Be brief.\n\nIn Kyiv."},
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
    ]
    assert server.headers[0]["authorization"] == "Bearer sk-1"


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param(
            [
                [call(0, "c1", "read", "")],
                [call(0, None, None, '{"path": ')],
                [call(0, None, None, '"a"}')],
                [call(1, "c2", "read", '{"path": "b"}')],
            ],
            id="in pieces",
        ),
        pytest.param(
            [[call(0, "c1", "read", '{"path": "a"}'), call(1, "c2", "read", '{"path": "b"}')]],
            id="in one chunk",
        ),
        pytest.param(
            [
                [call(None, "c1", "read", '{"path": "a"}')],
                [call(None, "c2", "read", '{"path": "b"}')],
            ],
            id="without numbers",
        ),
        pytest.param(
            [
                [call(0, "c1", "read", '{"path": "a"}')],
                [call(0, "c2", "read", '{"path": ')],
                [call(0, "c2", None, '"b"}')],
            ],
            id="with one number",
        ),
        pytest.param(
            [
                [call(0, "c1", "read", ""), call(0, None, "read", '{"path": "a"}')],
                [call(0, None, "read", ""), call(1, "c2", "read", "")],
                [call(1, None, "read", '{"path": '), call(1, None, "read", '"b"}')],
                [call(1, None, "read", "")],
            ],
            id="with the name in each piece",
        ),
        pytest.param(
            [[call(0, "c1", "read", {"path": "a"}), call(1, "c2", "read", {"path": "b"})]],
            id="as objects",
        ),
    ],
)
async def test_calls_are_read_however_a_server_cuts_them(pieces: list[list[Any]]) -> None:
    """Text, reasoning and calls become blocks in the order in which they came."""
    chunks = [
        chunk({"reasoning_content": "Two files."}),
        chunk({"content": "I look."}),
        *[chunk({"tool_calls": calls}) for calls in pieces],
        chunk({}, "stop"),  # some servers say "stop" here
    ]
    with chat_server(Stream(chunks)) as server:
        reply = reply_of(await asked(server, replace(REQUEST, tools=(READ,))))

    assert reply.stop_reason == "tool_use"
    assert reply.content == (
        {"type": "thinking", "thinking": "Two files.", "field": "reasoning_content"},
        text_block("I look."),
        {"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "a"}},
        {"type": "tool_use", "id": "c2", "name": "read", "input": {"path": "b"}},
    )
    assert server.received[0]["tools"][0]["function"]["name"] == "read"


async def test_arguments_that_are_no_json_are_marked_for_refusal() -> None:
    """As from every provider: `check_input` refuses them before a tool runs."""
    cut = chunk({"tool_calls": [call(0, "c1", "read", '{"pa')]})
    with chat_server(Stream([cut, chunk({}, "length")])) as server:
        reply = reply_of(await asked(server))

    assert reply.stop_reason == "max_tokens"
    assert reply.content[0]["input"] == {INVALID_JSON: '{"pa'}


async def test_a_pdf_of_another_provider_is_a_note() -> None:
    """A session that is continued here keeps its history; this API takes no PDF."""
    paper = document_block(b"%PDF-", "a.pdf", pages=3)
    call: Block = {"type": "tool_use", "id": "c1", "name": "read", "input": {}}
    history = (
        UserMessage.of("look", [paper]),
        AssistantMessage((call,), "tool_use"),
        ToolResultMessage("c1", "read", (text_block("[a.pdf: 3 pages]"), paper)),
    )

    with chat_server(text("ok")) as server:
        await asked(server, replace(REQUEST, system=(), messages=history))

    note = (
        "[The document a.pdf (3 pages) was left out here: this API takes no PDF. read with pages"
        " shows the text of a PDF.]"
    )
    user, _, result = server.received[0]["messages"]
    assert user["content"] == [{"type": "text", "text": "look"}, {"type": "text", "text": note}]
    assert result["content"] == f"[a.pdf: 3 pages]\n{note}"


async def test_history_with_calls_and_images_has_the_form_of_this_api() -> None:
    """Answers follow their calls at once; an image of a tool comes behind them."""
    history = (
        UserMessage.of("look"),
        AssistantMessage(
            content=(
                {"type": "thinking", "thinking": "hm", "signature": "x"},
                {"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "a.png"}},
            ),
            stop_reason="tool_use",
        ),
        ToolResultMessage("c1", "read", ({"type": "image", "source": PNG},)),
        UserMessage.of("and?"),
    )
    with chat_server(text("a cat")) as server:
        await asked(server, replace(REQUEST, system=(), messages=history))

    _asked, answered, result, rest = server.received[0]["messages"]
    assert answered["tool_calls"][0]["function"] == {
        "name": "read",
        "arguments": '{"path": "a.png"}',
    }
    assert (result["role"], result["tool_call_id"]) == ("tool", "c1")
    assert [part["type"] for part in rest["content"]] == ["image_url", "text"]
    assert rest["content"][0]["image_url"]["url"] == "data:image/png;base64,aGk="


@pytest.mark.parametrize(
    ("field", "sent_back"),
    [
        ("reasoning_content", [{"reasoning_content": ""}, {"reasoning_content": "hm"}]),
        ("reasoning", [{}, {}]),
    ],
)
async def test_reasoning_goes_back_in_the_field_that_asks_for_it(
    field: str, sent_back: list[dict[str, str]]
) -> None:
    """DeepSeek and Kimi refused the answer of each tool; Groq and Mistral refuse the field."""
    thinks = Stream(
        [
            chunk({field: "h"}),
            chunk({field: "m", "content": ""}),
            chunk({"tool_calls": [call(0, "c2", "read", "{}")]}, "tool_calls"),
        ]
    )
    other: Block = {"type": "tool_use", "id": "c1", "name": "read", "input": {}}
    earlier = (
        UserMessage.of("look"),
        AssistantMessage((other,), "tool_use"),
        ToolResultMessage("c1", "read", (text_block("a"),)),
    )
    with chat_server(thinks, text("ok")) as server:
        reply = reply_of(await asked(server, replace(REQUEST, messages=earlier)))
        answered = ToolResultMessage("c2", "read", (text_block("b"),))
        history = (*earlier, AssistantMessage(reply.content, "tool_use"), answered)
        await asked(server, replace(REQUEST, messages=history))

    replies = [each for each in server.received[1]["messages"] if each["role"] == "assistant"]
    common = {"role", "content", "tool_calls"}
    assert [{k: each[k] for k in each.keys() - common} for each in replies] == sent_back


async def test_signature_of_a_call_goes_back_with_it() -> None:
    """Gemini refused the answer of each tool."""
    signature = {"google": {"thought_signature": "c2ln"}}
    signed = {**call(0, "c1", "read", ""), "extra_content": signature}
    pieces = [signed, call(0, None, None, "{}"), call(1, "c2", "read", "{}")]
    calls = Stream([chunk({"tool_calls": pieces}), chunk({}, "tool_calls")])
    with chat_server(calls, text("ok")) as server:
        reply = reply_of(await asked(server))
        history = (
            UserMessage.of("hi"),
            AssistantMessage(reply.content, "tool_use"),
            ToolResultMessage("c1", "read", (text_block("b"),)),
            ToolResultMessage("c2", "read", (text_block("b"),)),
        )
        await asked(server, replace(REQUEST, messages=history))

    returned = server.received[1]["messages"][2]["tool_calls"]
    assert [each.get("extra_content") for each in returned] == [signature, None]


async def test_sealed_reasoning_goes_back_with_its_calls() -> None:
    """OpenRouter refused the answer of each tool that Gemini called."""
    seal = {"type": "reasoning.encrypted", "data": "c2ln", "id": "c1", "index": 0}
    told = {"type": "reasoning.text", "text": "hm", "index": 0}
    pieces = [
        chunk({"reasoning": "hm", "reasoning_details": [told]}),
        chunk({"tool_calls": [call(0, "c1", "read", "{}")]}),
        chunk({"reasoning_details": [seal], "content": ""}),
    ]
    with chat_server(Stream([*pieces, chunk({}, "tool_calls")]), text("ok")) as server:
        reply = reply_of(await asked(server))
        history = (
            UserMessage.of("hi"),
            AssistantMessage(reply.content, "tool_use"),
            ToolResultMessage("c1", "read", (text_block("b"),)),
        )
        await asked(server, replace(REQUEST, messages=history))

    assert server.received[1]["messages"][2]["reasoning_details"] == [seal]


async def test_find_changes_no_earlier_byte_and_the_found_tool_can_be_called() -> None:
    """One constant tool calls what was found; all but the server sees a call of the found tool."""
    given = '{"name": "mcp__s__ask", "input": {"a": 1}}'
    called = chunk({"tool_calls": [call(0, "c2", CALL_FOUND, given)]})
    found = AssistantMessage(({"type": "tool_use", "id": "c1", "name": "find", "input": {}},))
    finding = (
        *(UserMessage.of("hi"), found),
        ToolResultMessage("c1", "find", (text_block("These:"), reference_to(FOUND))),
    )
    with chat_server(text("ok"), Stream([called, chunk({}, "tool_calls")]), text("ok")) as server:
        await asked(server, replace(REQUEST, tools=(FIND, READ)))
        asking = replace(REQUEST, tools=(FIND, READ, FOUND), messages=finding)
        reply = reply_of(await asked(server, asking))
        calling = (
            *(*finding, AssistantMessage(reply.content)),
            ToolResultMessage("c2", FOUND.name, (text_block("done"),)),
        )
        await asked(server, replace(asking, messages=calling))

    first, second, third = server.received
    assert (reply.content[0]["name"], reply.content[0]["input"]) == (FOUND.name, {"a": 1})
    assert first["tools"] == second["tools"] == third["tools"]
    assert [tool["function"]["name"] for tool in first["tools"]] == ["find", "read", CALL_FOUND]
    assert second["messages"][: len(first["messages"])] == first["messages"]
    assert third["messages"][: len(second["messages"])] == second["messages"]
    assert '"description": "Ask it."' in second["messages"][-1]["content"]
    assert third["messages"][-2]["tool_calls"][0]["function"] == {
        "name": CALL_FOUND,
        "arguments": given,
    }


@each_row(
    "fault",
    [
        Failure(429, {"message": "slow down"}, {"retry-after": "1"}),
        Failure(503, "overloaded"),
        Stream([chunk({"content": "Hal"})], is_ended=False),
        Stream([chunk({"content": "Hal"}), "{"]),
        Stream([{"error": {"message": "busy", "type": "server_error", "code": 503}}]),
        Stream([{"error": {"message": "busy", "type": "InternalServerError", "code": 500}}]),
        Stream([{"error": {"message": "busy", "type": "rate_limit", "code": 429}}]),
        Stream([{"error": {"message": "busy", "type": "throttling", "code": "429"}}]),
        Stream([{"error": {"message": "busy", "type": "timeout", "code": 408}}]),
        Stream([chunk({"content": "Hal"}, "error")]),
        Stream([chunk({"tool_calls": [call(0, "c1", "read", "{}")]}, "abort"), used(10, 2)]),
        Stream([chunk({"content": "Hal"}, "insufficient_system_resource"), used(10, 2)]),
        Stream([chunk({"content": "Hal"}, "network_error")]),
        Stream([chunk({"content": "Hal"}), {"object": "error", "message": "busy", "code": 500}]),
        Stream([chunk({"role": "assistant", "content": ""})]),
    ],
)
async def test_failures_that_pass_are_retried(fault: Stream | Failure) -> None:
    with chat_server(fault, text("fine")) as server:
        events = await asked(server)

    assert [type(event) for event in events].count(Retrying) == 1
    assert reply_of(events).content == (text_block("fine"),)


@pytest.mark.parametrize(
    ("fault", "sentence", "trouble"),
    [
        (
            Failure(401, {"message": "Incorrect API key"}),
            "API key rejected (Incorrect API key); check OPENAI_API_KEY",
            "auth",
        ),
        (
            Failure(429, {"message": "You exceeded", "code": "insufficient_quota"}),
            "no credit left (You exceeded); check the billing settings",
            "billing",
        ),
        (
            Failure(404, {"message": "no such model"}),
            "unknown model 'm-1' or wrong URL (no such model); check the model id and"
            " OPENAI_BASE_URL",
            None,
        ),
        (
            Failure(400, {"message": "Provider returned error", "metadata": {"raw": "too warm"}}),
            "the API refused the request (400: Provider returned error: too warm); change it, or"
            " start over",
            None,
        ),
        (
            Failure(400, [{"error": {"message": "no such field"}}], is_bare=True),  # Gemini
            "the API refused the request (400: no such field); change it, or start over",
            None,
        ),
    ],
)
async def test_failures_that_stay_name_the_remedy(
    fault: Failure, sentence: str, trouble: str | None
) -> None:
    with chat_server(fault) as server, pytest.raises(ModelError) as raised:
        await asked(server)

    assert str(raised.value) == f"{sentence} (request req-1)"
    assert raised.value.trouble == trouble


async def test_error_of_a_gateway_with_status_200_is_shown() -> None:
    """The address was blamed, and the reason hidden."""
    fault = Failure(200, {"message": "no channel"})
    with chat_server(fault) as server, pytest.raises(ModelError) as raised:
        await asked(server)

    assert str(raised.value) == (
        f"{server.url} answered with an error and status 200 (no channel); look into that server,"
        " or change OPENAI_BASE_URL"
    )


async def test_whole_reply_of_a_gateway_that_cannot_stream_is_read() -> None:
    """The address was blamed."""
    message = {
        "role": "assistant",
        "content": "I look.",
        "tool_calls": [call(None, "c1", "read", '{"path": "a"}')],
    }
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    whole = {**used(10, 2), "choices": [choice]}
    with chat_server(Failure(200, whole, is_bare=True)) as server:
        reply = reply_of(await asked(server))

    assert (reply.stop_reason, reply.usage.prompt_tokens) == ("tool_use", 10)
    assert reply.content == (
        text_block("I look."),
        {"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "a"}},
    )


@each_row("fault", [Failure(400, {"message": OVER}), Failure(400, {"message": OVER}, is_bare=True)])
async def test_too_long_conversation_is_one_that_compaction_handles(fault: Failure) -> None:
    """Context overflow has a type of its own, by the server's words."""
    shown = re.escape(f"({OVER})")
    with chat_server(fault) as server, pytest.raises(ContextOverflow, match=shown):
        await asked(server)


async def test_server_that_does_not_answer_is_named_without_its_password() -> None:
    connection = ChatConnection(base_url="http://user:secret@127.0.0.1:1/v1")
    provider = OpenAIChat(connection, RetryPolicy(max=0))

    with pytest.raises(ModelError, match=r"cannot reach http://\*\*\*@127.0.0.1:1/v1") as raised:
        await anext(provider.stream(REQUEST))

    assert "secret" not in str(raised.value)


@each_row(
    "stream",
    [
        Stream([*FINE, used(10, 2)], is_ended=False, then="silence"),
        Stream([*FINE, used(10, 2)], is_ended=False, then="break"),
        Stream(FINE, is_ended=False, then="break"),
        Stream(FINE[:1]),  # the end marker, but no reason
        Stream([FINE[0], chunk({}, "eos")]),
    ],
)
async def test_complete_reply_is_kept_however_its_stream_ends(stream: Stream) -> None:
    """Not every server sends the end marker: the reply was thrown away, and paid for again."""
    with chat_server(stream) as server:
        events = await asked(server)

    assert Retrying not in [type(event) for event in events]
    reply = reply_of(events)
    assert (reply.content, reply.stop_reason) == ((text_block("fine"),), "end_turn")


@each_row("finish", ["content_filter", "length", "sensitive", "model_length"])
async def test_calls_of_a_reply_that_was_cut_off_do_not_run(finish: str) -> None:
    """The filter took away what else the model had written."""
    stops = {
        "content_filter": "refusal",
        "length": "max_tokens",
        "sensitive": "refusal",
        "model_length": "model_context_window_exceeded",
    }
    with chat_server(Stream([chunk({"tool_calls": [call(0, "c1", "read", "{}")]}, finish)])) as s:
        reply = reply_of(await asked(s))

    assert reply.stop_reason == stops[finish]


async def test_refusal_in_a_field_of_its_own_is_read() -> None:
    """The reply seemed to be empty."""
    with chat_server(Stream([chunk({"content": None, "refusal": "I cannot."}, "stop")])) as server:
        reply = reply_of(await asked(server))

    assert reply.content == (text_block("I cannot."),)


async def test_text_in_parts_and_an_error_that_is_none_are_read() -> None:
    """As servers with reasoning send content, and gateways fill every field."""
    parts = [{"type": "thinking", "thinking": []}, {"type": "text", "text": "fine"}]
    with chat_server(Stream([{**chunk({"content": parts}, "stop"), "error": None}])) as server:
        reply = reply_of(await asked(server))

    assert reply.content == (text_block("fine"),)


async def test_line_break_within_a_call_does_not_cut_it() -> None:
    """Some servers send one between the pieces."""
    pieces = [
        chunk({"tool_calls": [call(0, "c1", "read", '{"path": ')]}),
        chunk({"content": "\n"}),
        chunk({"tool_calls": [call(0, None, None, '"a"}')]}, "tool_calls"),
    ]
    with chat_server(Stream(pieces)) as server:
        reply = reply_of(await asked(server))

    assert [block["input"] for block in reply.content] == [{"path": "a"}]


@each_row("number", [0, None])
async def test_calls_without_ids_are_told_apart_by_their_whole_arguments(
    number: int | None,
) -> None:
    """Some gateways send neither ids nor numbers that differ: all calls were one, and refused."""
    first = [call(number, None, "read", '{"path": '), call(number, None, "read", '"a"}')]
    calls = [*first, call(number, None, "read", '{"path": "b"}')]
    with chat_server(Stream([chunk({"tool_calls": calls}, "tool_calls")])) as server:
        reply = reply_of(await asked(server))

    assert [block["input"] for block in reply.content] == [{"path": "a"}, {"path": "b"}]
    assert len({str(block["id"]) for block in reply.content}) == 2


async def test_pieces_of_calls_that_take_turns_are_a_broken_reply() -> None:
    """The rest of the first would otherwise be a call without a name."""
    mixed = [call(0, "c1", "read", '{"pa'), call(1, "c2", "read", "{}"), call(0, None, None, "1")]
    with chat_server(Stream([chunk({"tool_calls": mixed})]), text("fine")) as server:
        events = await asked(server)

    assert [type(event) for event in events].count(Retrying) == 1


def test_query_of_the_base_url_stays_behind_the_path() -> None:
    """Azure and gateways name a version there."""
    connection = ChatConnection(base_url="https://host/v1/?api-version=1&key=a/b")

    assert connection.endpoint == "https://host/v1/chat/completions?api-version=1&key=a/b"


def test_connection_is_reused_within_an_event_loop_and_ends_with_it() -> None:
    """No new handshake, and no new reading of certificates, for each turn."""
    with chat_server(*[text("yes")] * 5) as server:
        provider = OpenAIChat(ChatConnection(base_url=server.url, api_key="sk-1"))

        async def ask(times: int) -> None:
            for _ in range(times):
                assert reply_of([event async for event in provider.stream(REQUEST)])

        asyncio.run(ask(3))
        assert server.connections_made == 1
        asyncio.run(ask(2))

    assert server.connections_made == 2
