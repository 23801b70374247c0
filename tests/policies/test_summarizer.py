"""The request for a summary, and the validation of its reply."""

import json
from dataclasses import replace

import pytest

from agent_cli.contracts.errors import ContextOverflow, ModelError
from agent_cli.contracts.events import Retry
from agent_cli.contracts.media_files import document_block
from agent_cli.contracts.messages import (
    AssistantMessage,
    CustomMessage,
    Message,
    ToolResultMessage,
    UserMessage,
)
from agent_cli.contracts.provider import (
    Model,
    ModelRequest,
    Reply,
    ReplyStart,
    Retrying,
    TextDelta,
)
from agent_cli.contracts.timeline import Block, Json, ModelUsage, Usage, text_block
from agent_cli.policies.compaction import Summary
from agent_cli.policies.summarizer import (
    MAX_INPUT_CHARS,
    PART_CHARS,
    Summarizer,
    parts_of,
    summary_request,
)
from agent_cli.providers.anthropic.output_format import output_format
from tests.fakes import MODEL, ScriptedModel, Step, calls, returns, says, stream_of, tool, tool_use
from tests.policies.histories import Listener
from tests.tables import each_row

IMAGE: Block = {"type": "image", "source": {"type": "base64", "data": "A" * 9_000}}
SMALL = Model("small-model")
LOOK = tool("look", returns("seen"))


def input_of(messages: list[Message], focus: str = "") -> str:
    [part] = parts_of(messages)
    [message] = summary_request(part, model=MODEL, focus=focus).messages
    return message.text


def test_summary_input_shortens_tool_calls_but_not_messages() -> None:
    """S1c-4: results 500 head and 200 tail, inputs 200; user and model text stays."""
    given: Json = {"path": "p" * 400}
    text = input_of(
        [
            UserMessage.of("u" * 2_000, [IMAGE, document_block(b"%PDF-", "a.pdf", pages=3)]),
            AssistantMessage((text_block("a" * 2_000), tool_use("read", given))),
            ToolResultMessage("t1", "read", (text_block("h" * 600 + "t" * 300),), is_error=True),
            ToolResultMessage("t2", "grep", (text_block("r" * 700),)),
            CustomMessage("note", "not sent"),
        ]
    )

    expected = (
        f"<conversation>\nUser: {'u' * 2_000}\n[image]\n[document a.pdf (3 pages)]\n\n"
        f"Assistant: {'a' * 2_000}\n"
        f'[calls read with {{"path": "{"p" * 190} [… 212 characters …] ]\n\n'
        f"Error of read: {'h' * 500} [… 200 characters …] {'t' * 200}\n\n"
        f"Result of grep: {'r' * 700}\n</conversation>\n\nWrite the notes."
    )
    assert text == expected


def test_every_character_of_a_long_conversation_is_in_one_of_its_parts() -> None:
    """Nothing is cut out of the joined text: what does not fit one request goes into the next."""
    messages: list[Message] = [UserMessage.of("u" * 90_000), UserMessage.of("v" * 50_000)]
    messages += [AssistantMessage((text_block("a" * 90_000),)), UserMessage.of("0")]

    parts = list(parts_of(messages))

    joined = "".join(parts)
    assert [joined.count(letter) for letter in "uv0"] == [90_000, 50_000, 1]
    assert max(map(len, parts)) <= PART_CHARS
    assert len(parts) == 5


def test_summary_request_is_capped() -> None:
    """S1c-4: at most 100,000 characters, with the longest part, notes and focus."""
    request = summary_request("p" * PART_CHARS, model=MODEL, focus="f" * 99_999, notes="n" * 99_999)

    assert len(request.messages[0].text) <= MAX_INPUT_CHARS == 100_000


async def test_parts_are_summarized_in_order_each_with_the_notes_so_far() -> None:
    """The last reply is the summary, and every reply is paid for."""
    scripted = ScriptedModel(says("first", usage=Usage(1, 2)), says("both", usage=Usage(3, 4)))
    messages = [UserMessage.of("u" * PART_CHARS), UserMessage.of("LAST")]

    summary = await Summarizer(scripted).summarize(messages, model=MODEL, focus="", emit=Listener())

    first, second = (str(request.messages) for request in scripted.requests)
    assert summary == Summary("both", Usage(4, 6))
    assert ("<notes>" in first, "LAST" in first) == (False, False)
    assert "<notes>\\nfirst\\n</notes>" in second
    assert "LAST" in second


def test_summary_request_has_no_tools_and_its_own_instructions() -> None:
    """S1c-4, S1-41: 4096 tokens, no temperature a server would refuse; key facts asked for."""
    request = summary_request("User: hi", model=SMALL, focus="the port")

    assert (request.model, request.max_tokens, request.tools) == (SMALL, 4096, ())
    assert (request.temperature, request.stands_alone) == (None, True)
    assert "The user asks to keep above all: the port" in str(request.messages)
    for fact in ("decisions", "file paths", "URLs", "numbers", "scores", "open tasks"):
        assert fact in request.system[0].lower().replace("urls", "URLs")


NOTES = {
    "task": "Build it.",
    "decisions": "",
    "facts": "- port 8080\n",
    "state": " ",
    "open_tasks": "1. test",
}


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        pytest.param(
            json.dumps(NOTES),
            "## Task\nBuild it.\n\n## Facts\n- port 8080\n\n## Open tasks\n1. test",
            id="form",
        ),
        pytest.param(json.dumps(dict.fromkeys(NOTES, "")), "", id="empty form"),
        pytest.param("## Task\nBuild it.", "## Task\nBuild it.", id="Markdown"),
        pytest.param('{"task": "x"}', '{"task": "x"}', id="another object"),
        pytest.param("[" * 100_000, "[" * 100_000, id="no JSON"),
        pytest.param("7", "7", id="no object"),
    ],
)
async def test_notes_in_the_form_that_was_asked_for_become_markdown(answer: str, text: str) -> None:
    """The API writes the form; a compatible server, or one that refused it, writes Markdown."""
    summary, scripted = await summary_of(says(answer))

    [request] = scripted.requests
    schema = request.output_schema
    assert summary.text == text
    assert schema is not None
    assert schema["required"] == list(NOTES)
    assert output_format(schema) == {"type": "json_schema", "schema": schema}


@each_row(
    ("accepted", "level"),
    [
        (frozenset[str](), "off"),
        (frozenset({"enabled", "disabled"}), "off"),
        (frozenset({"adaptive", "between_tools"}), "off"),
        (frozenset({"adaptive"}), "minimal"),
    ],
)
def test_summary_request_uses_as_little_thinking_as_the_model_allows(
    accepted: frozenset[str], level: str
) -> None:
    """Thinking counts against the 4096 tokens; some models refuse a request to disable it."""
    model = Model("m", thinking=accepted)

    assert summary_request("User: hi", model=model).thinking_level == level


async def summary_of(*steps: object, model: Model | None = None) -> tuple[Summary, ScriptedModel]:
    scripted = ScriptedModel(*steps)  # type: ignore[arg-type]  # any step of a script
    strategy = Summarizer(scripted, model=model)
    summary = await strategy.summarize(
        [UserMessage.of("hi")], model=MODEL, focus="", emit=Listener()
    )
    return summary, scripted


async def test_summary_is_the_models_reply_with_its_usage() -> None:
    """S1-41: the strategy `summarize`; without a separate model it uses the run's."""
    summary, scripted = await summary_of(says("  It was so.\n", usage=Usage(7, 3)))

    assert summary == Summary("It was so.", Usage(7, 3))
    assert scripted.requests[0].model == MODEL


async def test_configured_summary_model_is_used_instead_of_the_runs_model() -> None:
    """A summary does not need the largest model."""
    _, scripted = await summary_of(says("ok"), model=SMALL)

    assert scripted.requests[0].model == SMALL


@each_row(
    ("reply", "fault"),
    [
        (says("So far", stop_reason="max_tokens"), "the summary was cut off after 4,096 tokens"),
        (says(" ", stop_reason="max_tokens"), "the summary was cut off after 4,096 tokens"),
        (says("I cannot", stop_reason="refusal"), "the model refused to write a summary"),
        (says("  "), "the model wrote no summary"),
    ],
)
async def test_truncated_or_refused_summary_is_not_used(reply: object, fault: str) -> None:
    """S1c-6: half a summary would lose the rest, and a refusal be taken for facts."""
    summary, _ = await summary_of(reply)

    assert (summary.text, summary.fault) == ("", fault)


REQUEST = ModelRequest(
    model=MODEL, messages=(UserMessage.of("the whole"),), system=("rules",), tools=(LOOK.spec,)
)


async def summary_at_the_end(*steps: Step, model: Model | None = None) -> tuple[Summary, list[str]]:
    """Return the summary, and the kind of each request that was made for it."""
    scripted = ScriptedModel(*steps)
    summary = await Summarizer(scripted, model=model).summarize(
        [UserMessage.of("older")], model=MODEL, focus="", emit=Listener(), request=REQUEST
    )
    whole = (REQUEST.system, REQUEST.tools, REQUEST.max_tokens, REQUEST.messages[0])
    kinds = [
        "whole" if (r.system, r.tools, r.max_tokens, r.messages[0]) == whole else "text"
        for r in scripted.requests
    ]
    return summary, kinds


@pytest.mark.parametrize(
    ("steps", "kinds", "text"),
    [
        pytest.param([says("notes")], ["whole"], "notes", id="answered"),
        pytest.param(
            [calls(tool_use("look")), says("notes")], ["whole"] * 2, "notes", id="a call first"
        ),
        pytest.param(
            [calls(tool_use("look", id="a")), calls(tool_use("look", id="b")), says("of text")],
            ["whole", "whole", "text"],
            "of text",
            id="calls only",
        ),
        pytest.param(
            [ContextOverflow("too long"), says("of text")], ["whole", "text"], "of text", id="long"
        ),
        pytest.param([says("x", stop_reason="max_tokens")], ["whole"], "", id="cut off"),
    ],
)
async def test_the_runs_model_is_asked_at_the_end_of_the_unchanged_request(
    steps: list[Step], kinds: list[str], text: str
) -> None:
    """The cache is read and all is seen; only what cannot be asked this way is sent as text."""
    summary, asked = await summary_at_the_end(*steps)

    assert (summary.text, asked) == (text, kinds)


@each_row(("declined", "is_kept"), [("", True), ("another", False)])
async def test_block_is_kept_only_where_the_requested_model_signed_it(
    declined: str, is_kept: bool
) -> None:
    """The model would refuse what another signed; the text is the summary all the same."""
    block: Block = {"type": "compaction", "content": "notes"}
    signed = Reply("m", "another", (block,), "compaction", declined=declined)

    summary, _kinds = await summary_at_the_end(signed)

    assert (summary.text, bool(summary.signed)) == ("notes", is_kept)


DECLINED = replace(
    says("notes", usage=Usage(1, 2)), beside=(ModelUsage("declined", Usage(30, 40)),)
)


@pytest.mark.parametrize(
    ("steps", "model", "usage"),
    [
        ([DECLINED], None, Usage(31, 42)),
        ([DECLINED], SMALL, Usage(31, 42)),
        (
            [replace(calls(tool_use("look")), beside=DECLINED.beside), DECLINED],
            None,
            Usage(71, 87),
        ),
    ],
    ids=["at the end", "text", "a call first"],
)
async def test_summary_costs_also_what_a_model_used_that_declined(
    steps: list[Step], model: Model | None, usage: Usage
) -> None:
    """The server asked another one for the same reply."""
    summary, _ = await summary_at_the_end(*steps, model=model)

    assert summary == Summary("notes", usage)


async def test_a_form_is_asked_for_only_where_no_cache_is_read() -> None:
    """What the API caches belongs to the form of the answer: another one reads nothing."""
    scripted = ScriptedModel(ContextOverflow("too long"), says("of text"))

    await Summarizer(scripted).summarize(
        [UserMessage.of("older")], model=MODEL, focus="", emit=Listener(), request=REQUEST
    )

    assert [bool(request.output_schema) for request in scripted.requests] == [False, True]


async def test_another_model_for_summaries_gets_text() -> None:
    """It cannot read the cache of the session's model."""
    _, asked = await summary_at_the_end(says("notes"), model=SMALL)

    assert asked == ["text"]


async def test_summary_stream_that_ends_too_early_is_an_error() -> None:
    """S1c-6: an incomplete summary is worse than none."""
    with pytest.raises(ModelError, match="ended too early"):
        await summary_of([ReplyStart("m"), TextDelta(0, "half")])


async def test_retry_of_a_summary_request_is_reported() -> None:
    """A minute of silence looks like a hang."""
    listener = Listener()
    steps = [Retrying(1, 5, 10.0, "rate limited", restarted=True), *stream_of(says("ok"))]

    await Summarizer(ScriptedModel(steps)).summarize(
        [UserMessage.of("hi")], model=MODEL, focus="", emit=listener
    )

    assert listener.events == [Retry(1, 5, 10.0, "rate limited", False)]


@each_row(
    ("given", "longest"),
    [({"focus": "#"}, 2_000), ({"entries": "#"}, 3_500), ({"notes": "#"}, 22_000)],
)
def test_what_goes_with_a_part_is_whole_up_to_its_limit(
    given: dict[str, str], longest: int
) -> None:
    """Beyond it something is left out: the request is for the part."""

    def marks(size: int) -> int:
        sizes = {name: text * size for name, text in given.items()}
        [message] = summary_request("p", model=MODEL, **sizes).messages
        return message.text.count("#")

    assert [marks(longest), marks(longest + 1), marks(2 * longest)] == [longest] * 3
    assert "[… 1 characters …]" in str(
        summary_request("p", model=MODEL, **dict.fromkeys(given, "#" * (longest + 1))).messages
    )


@each_row(
    ("given", "ends"),
    [({"entries": "#"}, ("#" * 500, "#" * 3_000)), ({"notes": "#"}, ("#" * 20_000, "#" * 2_000))],
)
def test_the_newest_entries_and_the_oldest_notes_stay(
    given: dict[str, str], ends: tuple[str, str]
) -> None:
    """Entries are listed in time; notes begin with what the task is."""
    [message] = summary_request(
        "p", model=MODEL, **{name: text * 30_000 for name, text in given.items()}
    ).messages
    head, _, tail = message.text.partition(" [… ")

    assert head.endswith(ends[0]) and not head.endswith("#" + ends[0])
    assert tail.partition("…] ")[2].startswith(ends[1])
    assert tail.count("#") == len(ends[1])


@each_row(("size", "count"), [(70_000, 1), (70_001, 2)])
def test_a_part_takes_what_one_request_has_room_for(size: int, count: int) -> None:
    """More parts cost more requests, each with the notes of those before."""
    message = UserMessage.of("u" * (size - len("User: ")))

    assert len(list(parts_of([message]))) == count
