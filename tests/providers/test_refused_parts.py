"""Calls repeated without the images or tools that the API refused; its refusal costs nothing."""

from base64 import b64encode

import pytest

from agent_cli.contracts.errors import ContextOverflow, ModelError
from agent_cli.contracts.media_files import document_block, image_block
from agent_cli.contracts.messages import (
    AssistantMessage,
    LlmMessage,
    ToolResultMessage,
    UserMessage,
)
from agent_cli.contracts.timeline import Block, text_block
from agent_cli.contracts.tooling import ToolSpec
from agent_cli.providers.anthropic.betas import (
    BETAS,
    FAST_MODE,
    TASK_BUDGETS,
    THINKING_BINDING,
    Beta,
    usable,
)
from agent_cli.providers.anthropic.connection import Connection
from agent_cli.providers.anthropic.models import model_by_id, model_table
from agent_cli.providers.anthropic.platforms import ANTHROPIC, BEDROCK
from agent_cli.providers.anthropic.refused_parts import LEFT_OUT, RefusedParts
from agent_cli.providers.failures import CallFailed
from tests.messages_api import FakeMessagesApi, ReceivedRequest, Reply, error, reply
from tests.providers.asking import asker, request

FAST = "claude-opus-5-5-fast"
CALL: Block = {"type": "tool_use", "id": "t1", "name": "read", "input": {}}
HISTORY = (
    UserMessage.of("look", [image_block(b"old", "image/png")]),
    AssistantMessage((text_block("a cat"), CALL), "tool_use"),
    ToolResultMessage("t1", "read", (image_block(b"new", "image/png"),)),
)
UNNAMED = error(400, "invalid_request_error", "Could not process image")


def images(got: ReceivedRequest) -> list[str]:
    """Return which images the request holds; "-" for one that was left out."""
    body = str(got.body["messages"])
    names = {b64encode(name.encode()).decode(): name for name in ("old", "new")}
    found = {body.index(data): name for data, name in names.items() if data in body}
    found |= {at: "-" for at in range(len(body)) if body.startswith(LEFT_OUT, at)}
    return [found[at] for at in sorted(found)]


def named(index: int) -> str:
    return f"messages.{index}.content.0.image.source.base64.data: exceed max size: 2000 pixels"


@pytest.mark.parametrize(
    ("said", "kept"),
    [("Could not process image", ["old", "-"]), (named(2), ["old", "-"]), (named(0), ["-", "new"])],
)
async def test_image_that_the_api_refuses_does_not_end_the_session(
    said: str, kept: list[str]
) -> None:
    """A damaged screenshot, or a large one among many, made every later request fail."""
    refusal = error(400, "invalid_request_error", said)
    later: tuple[LlmMessage, ...] = (AssistantMessage((text_block("ok"),)), UserMessage.of("more"))
    async with FakeMessagesApi(refusal, reply("ok"), reply("ok")) as api, asker(api) as it:
        first = await it.ask(request(*HISTORY))
        second = await it.ask(request(*HISTORY, *later))

    assert (first.text, second.text, it.waits_s) == ("ok", "ok", [])
    assert [images(each) for each in api.requests] == [["old", "new"], kept, kept]


@pytest.mark.parametrize(
    "said",
    [
        "messages.0.content.1.pdf.source.base64.data: The PDF specified is password protected.",
        "Could not process PDF",
        "messages.0.content.1.document: not supported on this platform",
    ],
)
async def test_pdf_that_the_api_refuses_does_not_end_the_session(said: str) -> None:
    """The image beside it stays; the model reads how to get the text."""
    paper = document_block(b"%PDF-1.7", "paper.pdf", pages=3)
    history = (UserMessage.of("look", [image_block(b"old", "image/png"), paper]),)
    refusal = error(400, "invalid_request_error", said)
    async with FakeMessagesApi(refusal, reply("ok"), reply("ok")) as api, asker(api) as it:
        for _ in range(2):
            assert (await it.ask(request(*history))).text == "ok"

    kinds = [[part["type"] for part in got.body["messages"][0]["content"]] for got in api.requests]
    assert kinds == [["text", "image", "document"], *[["text", "image", "text"]] * 2]
    assert "paper.pdf (3 pages) was left out here: the API refused it" in str(api.requests[1].body)


async def test_all_images_are_left_out_if_it_was_not_the_newest() -> None:
    async with FakeMessagesApi(UNNAMED, UNNAMED, reply("ok")) as api, asker(api) as it:
        asked = await it.ask(request(*HISTORY))

    assert asked.text == "ok"
    assert images(api.requests[-1]) == ["-", "-"]


async def test_older_images_are_left_out_of_a_request_with_too_many_bytes() -> None:
    """A proxy may accept less than the API; compaction alone would not make the request smaller."""
    refusal = error(413, "request_too_large", "Request exceeds the maximum size")
    first, second = (image_block(bytes([n]) * 100_000, "image/png") for n in (1, 2))
    history = [UserMessage.of("look", [first]), UserMessage.of("and", [second])]
    async with FakeMessagesApi(refusal, reply("ok"), refusal, refusal) as api, asker(api) as it:
        asked = await it.ask(request(*history))
        gave_up = await it.ask(request(*history))

    assert asked.text == "ok"
    sent = [each["type"] for each in api.requests[1].body["messages"][0]["content"]]
    assert sent == ["text", "text", "text", "image"]
    assert "newer ones fill the space" in str(api.requests[1].body)
    assert isinstance(gave_up.error, ContextOverflow)  # what is left is too small to matter


@pytest.mark.parametrize(("chars", "requests"), [(249_996, 1), (250_000, 2)])
async def test_request_of_small_images_is_not_sent_again_without_them(
    chars: int, requests: int
) -> None:
    """Its text is too large then, so a second refusal would only cost time."""
    refusal = error(413, "request_too_large", "Request exceeds the maximum size")
    image = image_block(bytes(chars // 4 * 3), "image/png")
    async with FakeMessagesApi(refusal, reply("ok")) as api, asker(api) as it:
        await it.ask(request(UserMessage.of("look", [image])))

    assert len(api.requests) == requests


async def test_five_named_images_are_left_out_one_by_one_then_all() -> None:
    """A server that names each of many images alone would be asked for each of them."""
    history = [
        UserMessage.of("look", [image_block(f"image {n}".encode(), "image/png")]) for n in range(8)
    ]
    answer = AssistantMessage((text_block("ok"),))
    spread = [message for each in history for message in (each, answer)]
    refusals = [error(400, "invalid_request_error", named(2 * n)) for n in range(6)]
    async with FakeMessagesApi(*refusals, reply("ok")) as api, asker(api) as it:
        asked = await it.ask(request(*spread, UserMessage.of("more")))

    assert asked.text == "ok"
    assert [images(each).count("-") for each in api.requests] == [0, 1, 2, 3, 4, 5, 8]


async def test_refusal_is_reported_if_no_image_is_left() -> None:
    async with FakeMessagesApi(UNNAMED, UNNAMED, UNNAMED) as api, asker(api) as it:
        asked = await it.ask(request(*HISTORY))

    assert "Could not process image" in str(asked.error)
    assert len(api.requests) == 3


async def test_tool_that_the_api_refuses_does_not_end_the_session() -> None:
    """A server's schema by a rule that the API does not document."""
    odd, good = (ToolSpec(name, "", {"type": "object"}) for name in ("mcp__s__odd", "good"))
    mended = ToolSpec("mcp__s__odd", "", {"type": "object", "properties": {}})
    refusal = error(400, "invalid_request_error", "tools.1.custom.input_schema: is invalid")
    async with FakeMessagesApi(refusal, *[reply("ok")] * 3) as api, asker(api) as it:
        for tools in ((good, odd), (good, odd), (good, mended)):
            assert (await it.ask(request(tools=tools))).text == "ok"

    sent = [[tool["name"] for tool in got.body["tools"]] for got in api.requests]
    assert sent == [["good", odd.name], ["good"], ["good"], ["good", odd.name]]


async def test_own_tool_is_never_left_out() -> None:
    """A gateway that knows no cache markers would leave the agent without any tool."""
    refusal = error(400, "invalid_request_error", "tools.0.cache_control: not permitted")
    async with FakeMessagesApi(refusal) as api, asker(api) as it:
        asked = await it.ask(request(tools=(ToolSpec("read", "", {"type": "object"}),)))

    assert "tools.0.cache_control" in str(asked.error)


async def test_temperature_that_a_model_refuses_is_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """C20: settings of older programs have one; every request would fail. A sentence says so."""
    async with FakeMessagesApi(reply("ok"), reply("ok")) as api, asker(api) as it:
        for _ in range(2):
            assert (await it.ask(request(temperature=0.5))).text == "ok"

    assert ["temperature" in each.body for each in api.requests] == [True, False, False]
    refusal = "the API refused the request (400: temperature: "
    assert f"temperature is not sent any more: {refusal}" in caplog.text


@pytest.mark.parametrize("beta", [THINKING_BINDING, TASK_BUDGETS], ids=lambda beta: beta.name)
@pytest.mark.parametrize("by_header", [True, False])
async def test_beta_that_a_server_refuses_is_off_for_the_session(
    beta: Beta, by_header: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A gateway passes no unknown header on, or an organisation has switched the feature off."""
    said = f"Unexpected value(s) `{beta.header}` for the `anthropic-beta` header."
    said = said if by_header else f"a.b.{beta.fields[0]}: Extra inputs are not permitted"
    refusal = error(400, "invalid_request_error", said)
    asked = request(task_budget=50_000)
    async with FakeMessagesApi(refusal, reply("ok"), reply("ok")) as api, asker(api) as it:
        for _ in range(2):
            assert (await it.ask(asked)).text == "ok"

    (other,) = {THINKING_BINDING, TASK_BUDGETS} - {beta}
    headers = [got.headers["anthropic-beta"] for got in api.requests]
    assert headers == [f"{THINKING_BINDING.header},{TASK_BUDGETS.header}", *[other.header] * 2]
    assert [beta.fields[0] in str(got.body) for got in api.requests] == [True, False, False]
    assert caplog.text.count("beta off") == 1


async def test_input_of_tools_arrives_whole_from_a_server_that_sends_it_in_no_other_way(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Amazon Bedrock refused the mark for months after it was said to be for all platforms."""
    said = "tools.0.custom.eager_input_streaming: Extra inputs are not permitted"
    refusal = error(400, "invalid_request_error", said)
    asked = request(tools=(ToolSpec("write", "Write a file", {"type": "object"}),))
    async with FakeMessagesApi(refusal, reply("ok"), reply("ok")) as api, asker(api) as it:
        for _ in range(2):
            assert (await it.ask(asked)).text == "ok"

    marked = ["eager_input_streaming" in got.body["tools"][0] for got in api.requests]
    assert (marked, it.waits_s) == ([True, False, False], [])
    assert caplog.text.count("beta off") == 1


@pytest.mark.parametrize(
    ("refusal", "warning"),
    [
        (
            error(400, "invalid_request_error", "speed: this model has no fast mode"),
            "fast mode: not used any more",
        ),
        (
            error(429, "rate_limit_error", "This request would exceed your limit of fast tokens"),
            "fast mode: not used for the next 10 min",
        ),
        (
            error(529, "overloaded_error", "Overloaded", headers={"retry-after": "900"}),
            "fast mode: not used for the next 15 min",
        ),
    ],
)
async def test_fast_mode_that_is_refused_or_used_up_is_off(
    refusal: Reply, warning: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The call is repeated at once, at the usual speed and price."""
    asked = request(model=FAST)
    figures = {"input_tokens": 1_000, "output_tokens": 1_000}
    answers = (reply("ok", usage=figures) for _ in range(2))
    async with FakeMessagesApi(refusal, *answers) as api, asker(api) as it:
        costs = [(await it.ask(asked)).reply.usage.cost_microdollars for _ in range(2)]

    assert (costs, it.waits_s) == ([24_000] * 2, [])
    assert [each.body["model"] for each in api.requests] == ["claude-opus-5-5"] * 3
    assert [each.body.get("speed") for each in api.requests] == ["fast", None, None]
    headers = [FAST_MODE.header in each.headers["anthropic-beta"] for each in api.requests]
    assert headers == [True, False, False]
    assert caplog.text.count(warning) == 1


def test_pause_of_fast_mode_is_told_for_the_models_that_have_it() -> None:
    now_s = 0.0
    refused = RefusedParts(Connection(), lambda: now_s)
    asked = request(model=FAST)
    limit = CallFailed(ModelError("limit", status=429), retryable=True)
    usual = request(model=FAST.removesuffix("-fast")).model

    before = refused.lacking(asked.model)
    refused.retry(asked, refused.parameters(asked), limit, tries=0)
    now_s = 120.0
    during = [refused.lacking(each) for each in (asked.model, usual)]
    now_s = 600.0

    assert during == ["fast mode: not used for the next 8 min", ""]
    assert [before, refused.lacking(asked.model)] == ["", ""]


@pytest.mark.parametrize(
    ("asked_delay_s", "pause_s"), [(None, 600.0), (3.0, 600.0), (900.0, 900.0)]
)
def test_fast_mode_comes_back_after_the_pause_that_its_limit_asks_for(
    asked_delay_s: float | None, pause_s: float
) -> None:
    """One limit that was reached ended it for the session; a short pause would cost the cache."""
    times_s = iter([*[0.0] * 5, pause_s - 1, pause_s])
    refused = RefusedParts(Connection(), lambda: next(times_s))
    asked = request(model=FAST)
    limit = CallFailed(ModelError("limit", status=429), retryable=True, asked_delay_s=asked_delay_s)

    sent = refused.parameters(asked)
    assert refused.retry(asked, sent, limit, tries=0) is asked
    speeds = [sent.get("speed")]
    speeds += [refused.parameters(asked).get("speed") for _ in range(3)]

    assert speeds == ["fast", None, None, "fast"]


@pytest.mark.parametrize(
    ("status", "refusal"),
    [
        (400, "tools.0.custom.eager_input_streaming: Extra inputs are not permitted"),
        (400, "speed: this model has no fast mode"),
        (429, "This request would exceed your limit of fast tokens"),
    ],
)
def test_calls_that_are_refused_at_once_are_all_repeated(
    status: int, refusal: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The first refusal of several agents failed all but one of them."""
    refused = RefusedParts(Connection())
    asked = request(model=FAST, tools=(ToolSpec("bash", "Run", {"type": "object"}),))
    limit = CallFailed(ModelError(refusal, status=status), retryable=False)

    sent = [refused.parameters(asked) for _ in range(2)]
    retried = [refused.retry(asked, each, limit, tries=0) for each in sent]

    assert retried == [asked, asked]
    assert caplog.text.count("not used") == 1
    if status == 400:
        assert refused.retry(asked, refused.parameters(asked), limit, tries=1) is None


async def test_other_models_than_the_fast_one_answer_at_the_usual_speed() -> None:
    """And the same model without fast mode is none to fall back on."""
    others = ("claude-opus-5-5", "claude-sonnet-5-5", "claude-fable-5-2-fast")
    fallbacks = tuple(map(model_by_id, others))
    async with FakeMessagesApi(reply("ok"), reply("ok")) as api, asker(api) as it:
        await it.ask(request(model="claude-opus-5-5-fast", fallbacks=fallbacks))
        await it.ask(request(fallbacks=fallbacks[2:]))

    models = [each.body["fallbacks"] for each in api.requests]
    assert models == [
        [{"model": name, "speed": None} for name in ("claude-sonnet-5-5", "claude-fable-5-2")],
        [{"model": "claude-fable-5-2"}],
    ]


async def test_refused_fallbacks_are_off_and_older_replies_lose_their_mark() -> None:
    """Some models have none."""
    mark: Block = {"type": "fallback", "trigger": None}
    mark |= {"from": {"model": "claude-sonnet-5-5"}, "to": {"model": "claude-opus-5"}}
    answer = AssistantMessage((text_block("Let"), mark, text_block("Yes.")))
    asked = request(
        *(UserMessage.of("hi"), answer, UserMessage.of("go on")),
        fallbacks=(model_by_id("claude-opus-5"),),
    )
    refusal = error(400, "invalid_request_error", "fallbacks: not supported for this model")
    async with FakeMessagesApi(refusal, reply("ok")) as api, asker(api) as it:
        assert (await it.ask(asked)).text == "ok"

    with_mark, without = (got.body["messages"][1]["content"] for got in api.requests)
    assert [block["type"] for block in with_mark] == ["text", "fallback", "text"]
    assert [block["type"] for block in without] == ["text", "text"]
    assert ["fallbacks" in got.body for got in api.requests] == [True, False]


def test_compatible_servers_and_unknown_models_get_no_beta() -> None:
    known = [model_by_id(name) for name in model_table().models]
    assert all(
        any(beta in usable(each, ANTHROPIC, compat=False) for each in known) for beta in BETAS
    )
    assert not any(usable(each, ANTHROPIC, compat=True) for each in known)
    assert not usable(model_by_id("other"), ANTHROPIC, compat=False)
    assert TASK_BUDGETS not in usable(model_by_id("claude-opus-5-5"), BEDROCK, compat=False)
