"""Only new messages are sent of what the server holds, and mean the same as the whole request."""

import asyncio
import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_cli.contracts.messages import AssistantMessage, LlmMessage, UserMessage
from agent_cli.contracts.provider import ModelRequest
from agent_cli.contracts.timeline import Json, Usage
from agent_cli.contracts.tooling import ToolSpec
from agent_cli.providers.anthropic.connection import Connection
from agent_cli.providers.anthropic.message_threads import MessageThreads
from agent_cli.providers.anthropic.models import model_by_id
from agent_cli.providers.anthropic.wire import parameters
from agent_cli.providers.anthropic.wire_parts import Translated
from tests.fakes import says
from tests.messages_api import Answer, FakeMessagesApi, broken, error, reply, thinking, tool_use
from tests.messages_api.prompt_cache import without_markers
from tests.messages_api.threads import THREADS_BETA
from tests.providers.asking import Asker, asker, request
from tests.providers.test_prompt_caching import answers_to
from tests.tables import each_row

THREADED: dict[str, Any] = {"threads_above_tokens": 1, "threads_elsewhere": True}
TOOLS = tuple(ToolSpec(f"tool_{n}", "Does it.", {"type": "object"}) for n in range(3))
SAID = says("yes", usage=Usage(10, 5))
SYSTEM = ("You are a coding agent.", "The workspace is /project.")


def asked_for(*history: LlmMessage, **options: Any) -> ModelRequest:
    options = {"system": SYSTEM, "tools": TOOLS, "session_id": "s", **options}
    return request(*history, **options)


def turn(number: int, calls: int = 2) -> Answer:
    uses = [tool_use("tool_1", {"n": n}, id=f"t{number}_{n}") for n in range(calls)]
    return reply(thinking(f"step {number}"), f"Now step {number}.", *uses)


def kinds(api: FakeMessagesApi) -> list[str]:
    """Return whether each request was a whole one, began a thread or continued one."""
    return [(each.body.get("thread") or {"type": "whole"})["type"] for each in api.posted]


async def session(it: Asker, turns: int, **options: Any) -> list[LlmMessage]:
    history: list[LlmMessage] = [UserMessage.of("Fix the bug.")]
    for _ in range(turns):
        asked = await it.ask(asked_for(*history, **options))
        assert asked.error is None
        history += answers_to(asked.reply)
    return history


async def test_thread_means_the_same_as_the_whole_request() -> None:
    """The server's reconstruction is byte for byte what is sent without threads."""
    script = [turn(number) for number in range(6)]
    async with FakeMessagesApi(*script) as plain, asker(plain) as it:
        await session(it, 6)
    async with FakeMessagesApi(*script) as api, asker(api, **THREADED) as it:
        await session(it, 6)

    assert (api.refusals, api.dropped_thinking) == ([], [])
    assert kinds(api) == ["whole", "create", *["continue"] * 4]
    for whole, rebuilt in zip(plain.requests, api.requests, strict=True):
        assert json.dumps(without_markers(rebuilt.body["messages"])) == json.dumps(
            without_markers(whole.body["messages"])
        )
        rest = {**whole.body, "messages": rebuilt.body["messages"]}
        assert {**rest, "thread": None} == {**rebuilt.body, "thread": None}
    posted = [each.body for each in api.posted]
    assert [len(body["messages"]) for body in posted] == [1, 3, 1, 1, 1, 1]
    assert ["system" in body or "tools" in body for body in posted] == [True, True, *[False] * 4]


async def test_thread_reads_the_cache_as_the_whole_request_does() -> None:
    """A reply of many blocks is out of a marker's reach, so the whole is sent then."""
    script = [turn(number, 25 if number == 3 else 1) for number in range(6)]
    async with FakeMessagesApi(*script) as api, asker(api, **THREADED) as it:
        history = await session(it, 6)

    assert kinds(api) == ["whole", "create", "continue", "continue", "create", "continue"]
    replies = [each for each in history if isinstance(each, AssistantMessage)]
    assert len(replies) == 6
    # None was read anew: each request reads all that the one before left in the cache.
    async with FakeMessagesApi(*script) as api, asker(api, **THREADED) as it:
        before = 0
        asked_history: list[LlmMessage] = [UserMessage.of("Fix the bug.")]
        for _ in range(6):
            usage = (await it.ask(asked_for(*asked_history))).reply
            assert usage.usage.cache_read_tokens >= before
            before = usage.usage.prompt_tokens - usage.usage.input_tokens
            asked_history += answers_to(usage)


@each_row(
    "code",
    [
        "thread_not_found",
        "thread_already_continued",
        "thread_continue_in_flight",
        "thread_fingerprint_mismatch",
    ],
)
async def test_refused_continuation_is_sent_as_a_whole(code: str) -> None:
    """At once, unseen by the user, and the conversation is held again from there."""
    script = [turn(number) for number in range(5)]
    async with FakeMessagesApi(*script) as api, asker(api, **THREADED) as it:
        history = await session(it, 2)
        api.threads.faults.append(code)
        for _ in range(2):
            asked = await it.ask(asked_for(*history))
            history += answers_to(asked.reply)
            assert (asked.error, asked.retries) == (None, [])

    assert kinds(api) == ["whole", "create", "continue", "create", "continue"]
    assert it.waits_s == []


async def test_server_that_keeps_no_thread_is_not_asked_for_a_third_one() -> None:
    """Each loss costs a request; some organisations may keep nothing."""
    async with FakeMessagesApi(*[turn(n) for n in range(6)]) as api, asker(api, **THREADED) as it:
        history = await session(it, 2)
        api.threads.faults += ["thread_not_found"] * 9
        for _ in range(4):
            history += answers_to((await it.ask(asked_for(*history))).reply)

    lost = ["continue", "create", "continue"]
    assert kinds(api) == ["whole", "create", *lost, "whole", "whole", "whole"]


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("This request cannot be held.", "thread_unsupported_request"),
        ("thread: Extra inputs are not permitted", None),
        (f"Unexpected value(s) `{THREADS_BETA}` for the `anthropic-beta` header.", None),
    ],
)
async def test_refused_threads_are_off_for_the_session(
    said: str, code: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    refusal = error(400, "invalid_request_error", said, code=code)
    script = [turn(0), refusal, turn(1), turn(2)]
    async with FakeMessagesApi(*script) as api, asker(api, **THREADED) as it:
        await session(it, 3)

    assert kinds(api) == ["whole", "create", "whole", "whole"]
    assert [THREADS_BETA in each.headers["anthropic-beta"] for each in api.posted] == [
        *(False, True, False, False)
    ]
    assert caplog.text.count("beta off") == 1


@each_row(
    ("connection", "options"),
    [
        ({"threads_above_tokens": 1}, {}),  # not Anthropic's own address
        ({**THREADED, "threads_above_tokens": 0}, {}),
        ({**THREADED, "threads_above_tokens": 1_000_000}, {}),
        ({**THREADED, "compat": True}, {}),
        (THREADED, {"model": "claude-fable-5-2"}),
        (THREADED, {"session_id": None}),
        (THREADED, {"fallbacks": (model_by_id("claude-opus-5"),)}),
    ],
    ids=["elsewhere", "off", "short", "compat", "model", "no session", "fallbacks"],
)
async def test_nothing_is_held_where_it_would_not_be_safe_or_of_use(
    connection: dict[str, Any], options: dict[str, Any]
) -> None:
    async with FakeMessagesApi(*map(turn, range(3))) as api, asker(api, **connection) as it:
        await session(it, 3, **options)

    assert kinds(api) == ["whole"] * 3


async def test_request_that_keeps_the_cache_warm_leaves_the_thread_alone() -> None:
    async with FakeMessagesApi(*map(turn, range(4))) as api, asker(api, **THREADED) as it:
        history = await session(it, 2)
        await it.ask(asked_for(*history[:-2], keeps_warm=True, max_tokens=1))
        await it.ask(asked_for(*history))

    assert kinds(api) == ["whole", "create", "whole", "continue"]


async def test_reply_that_broke_off_is_not_continued() -> None:
    """The server holds all of it or nothing."""
    half = broken(reply("half", "of it"), "drop", after=4)
    script = [turn(0), turn(1), half, turn(2)]
    async with FakeMessagesApi(*script) as api, asker(api, **THREADED) as it:
        history = await session(it, 2)
        await it.ask(asked_for(*history))

    assert kinds(api) == ["whole", "create", "continue", "create"]


@pytest.mark.parametrize(
    ("address", "later_s", "kind"),
    [
        ("https://api.anthropic.com", 200, "continue"),
        ("https://api.anthropic.com", 280, "create"),
        ("https://gateway.example/api.anthropic.com", 200, None),
    ],
)
def test_conversation_is_continued_only_in_time_and_at_the_apis_own_address(
    address: str, later_s: float, kind: str | None
) -> None:
    """It is held for five minutes at most; a gateway that drops the field would lose it."""
    now_s = [0.0]
    threads = MessageThreads(Connection(threads_above_tokens=1), clock=lambda: now_s[0])
    first = asked_for(UserMessage.of("hi"))
    second = asked_for(UserMessage.of("hi"), AssistantMessage(SAID.content), UserMessage.of("on"))
    sent = parameters(first, compat=False)
    threads.note(first, sent, sent, SAID)
    threads.note(first, sent, threads.shortened(first, sent, address=address), SAID)
    now_s[0] = later_s

    posted = threads.shortened(second, parameters(second, compat=False), address=address)

    thread = posted.get("thread")
    assert (thread["type"] if isinstance(thread, dict) else thread) == kind


def test_conversations_of_the_past_fill_no_memory() -> None:
    """Each agent has its own, and a long session starts hundreds."""
    now_s = [0.0]
    threads = MessageThreads(Connection(threads_above_tokens=1), clock=lambda: now_s[0])
    sent = parameters(asked_for(UserMessage.of("hi"), system=("x" * 100_000,)), compat=False)

    tracemalloc.start()
    for number in range(200):
        asked = asked_for(UserMessage.of("hi"), session_id=f"s{number}")
        threads.note(asked, sent, sent, SAID)
        address = "https://api.anthropic.com"
        threads.note(asked, sent, threads.shortened(asked, sent, address=address), SAID)
        now_s[0] += 10
    held_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert held_bytes < 1_000_000


def test_turn_digests_only_what_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of a long conversation: it has thousands of messages when the server holds it."""
    address, dumps, count = "https://api.anthropic.com", json.dumps, 0

    def counted(value: object) -> str:
        nonlocal count
        count += 1
        return dumps(value)

    monkeypatch.setattr(json, "dumps", counted)
    threads, translated = MessageThreads(Connection(threads_above_tokens=1)), Translated()
    said = AssistantMessage(UserMessage(SAID.content).content)  # frozen, as in the record
    history: list[LlmMessage] = [UserMessage.of("hi"), said] * 100
    history.append(UserMessage.of("go on"))
    counts: list[int] = []
    posted: dict[str, Json] = {}
    for _ in range(3):
        asked = asked_for(*history)
        sent = parameters(asked, compat=False, translated=translated)
        count = 0
        posted = threads.shortened(asked, sent, address=address)
        threads.note(asked, sent, posted, SAID)
        counts.append(count)
        history += [said, UserMessage.of("go on")]

    assert isinstance(posted["thread"], dict) and posted["thread"]["type"] == "continue"
    assert counts[0] < 2 and counts[1] > 200 and counts[2] < 20


EDITS = ("say", "rewind", "cut", "rewrite", "model", "system", "tools", "effort", "other", "fail")


@settings(deadline=None)
@given(edits=st.lists(st.sampled_from(EDITS), min_size=1, max_size=8))
def test_no_edit_of_the_history_reuses_a_thread_wrongly(edits: list[str]) -> None:
    """Compaction, rewind, fork, trimming, another model: the server gets what was meant."""

    async def play() -> None:
        async with (
            FakeMessagesApi(answer=lambda _request: reply("ok")) as api,
            asker(api, **THREADED) as it,
        ):
            history: list[LlmMessage] = []
            options: dict[str, Any] = {}
            for number, edit in enumerate(["say", "say", *edits, "say"]):
                match edit:
                    case "rewind":
                        history = history[:-2]
                    case "cut":
                        history = history[:1] + history[-1:]
                    case "rewrite" if history:
                        history[0] = UserMessage.of(f"other {number}")
                    case "model":
                        options["model"] = f"claude-{'opus' if number % 2 else 'sonnet'}-5-5"
                    case "system":
                        options["system"] = (f"Agent {number}.",)
                    case "tools":
                        options["tools"] = TOOLS[: number % 3 + 1]
                    case "effort":
                        options["thinking_level"] = "high" if number % 2 else "low"
                    case "other":
                        options["session_id"] = f"s{number % 2}"
                    case "fail":
                        api.threads.faults.append("thread_not_found")
                    case _:
                        pass
                history.append(UserMessage.of(f"number {number}"))
                asked = asked_for(*history, **options)
                answer = await it.ask(asked)
                assert answer.error is None
                meant = json.loads(json.dumps(parameters(asked, compat=False)))
                meant.pop("betas")
                got = {**api.requests[-1].body}
                got.pop("stream")
                assert json.dumps(without_markers(got["messages"])) == json.dumps(
                    without_markers(meant["messages"])
                )
                assert without_markers(got) == without_markers(meant)
                history.append(AssistantMessage(answer.reply.content))

    asyncio.run(play())
