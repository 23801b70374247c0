"""The sentences that tell the user what happens."""

import pytest

from agent_cli.contracts import events
from agent_cli.contracts.events import (
    Event,
    MessageEnd,
    MessageUpdate,
    ToolExecutionEnd,
    ToolExecutionStart,
)
from agent_cli.contracts.messages import AssistantMessage
from agent_cli.contracts.provider import BlockEnd, TextDelta
from agent_cli.contracts.timeline import Block, text_block
from agent_cli.contracts.tooling import Tool
from agent_cli.contracts.wording import seconds
from agent_cli.core.run import RunResult
from agent_cli.terminal.narration import (
    HostedView,
    Sentence,
    ago,
    cited_text,
    describe_call,
    narrate,
    narrate_end,
    words,
)
from tests.messages_api import cited, fetched, search
from tests.tables import each_row


async def _nothing(*_given: object) -> str:
    return ""


def test_warning_of_an_agents_agent_names_that_agent_once() -> None:
    """The agents above it say nothing about it."""
    warning = events.Notice("warning", "write skipped")
    inner = events.AgentEvent("a2", "explore", "t2", warning)

    told = narrate(events.AgentEvent("a1", "general", "t1", inner))

    assert told == Sentence("warning", "agent explore: write skipped")


def test_retry_message_says_which_attempt_and_how_long_the_wait_is() -> None:
    """S1-21: `attempt i/5, waiting n s`, on one line."""
    retry = events.Retry(2, 5, 20.0, "rate limited", restarted=False)

    assert narrate(retry) == Sentence("warning", "rate limited; retry 2 of 5 in 20 s")


def test_retry_message_says_if_the_answer_starts_again() -> None:
    """C16: the user must see where the answer begins again."""
    retry = events.Retry(1, 5, 1.5, "the connection broke", restarted=True)

    assert narrate(retry) == Sentence(
        "warning",
        "the connection broke; retry 1 of 5 in 1.5 s; the reply so far is discarded, and starts"
        " again",
    )


def test_notices_and_errors_are_narrated_and_other_events_are_not() -> None:
    """S1-33, S1-36, C17: a warning is an event; the narration is one of its subscribers."""
    assert narrate(events.Notice("warning", "3 removed")) == Sentence("warning", "3 removed")
    assert narrate(events.Notice("info", "connected")) == Sentence("dim", "connected")
    assert narrate(events.ErrorShown("broken")) == Sentence("error", "broken")
    assert narrate(events.Compacted(4, 9_000, 1_000)) == Sentence(
        "dim", "compacted 4 messages: about 9,000 → 1,000 tokens"
    )
    assert narrate(events.Compacted(4, 9_000, 1_000, 2_125)) == Sentence(
        "dim",
        "compacted 4 messages: about 9,000 → 1,000 tokens; 2,125 were sent for the summary",
    )
    assert narrate(events.TurnStart()) is None


@each_row(
    ("stop_reason", "error", "sentence"),
    [
        ("end_turn", None, None),
        ("aborted", None, Sentence("warning", "interrupted")),
        ("error", "overloaded (request req_1)", Sentence("error", "overloaded (request req_1)")),
        ("error", None, Sentence("error", "the run ended in an error")),
        ("max_rounds", "stopped after 3", Sentence("warning", "stopped after 3")),
    ],
)
def test_end_of_a_run_is_narrated_with_its_reason(
    stop_reason: str, error: str | None, sentence: Sentence | None
) -> None:
    """S1-30: in one line; a normal end has none."""
    assert narrate_end(RunResult((), None, 1, stop_reason, error)) == sentence


@pytest.mark.parametrize("stop_reason", ["end_turn", "tool_use"])
def test_run_with_an_empty_reply_is_reported(stop_reason: str) -> None:
    """Otherwise the prompt would return as if no question had been asked.

    Some servers announce a call (`finish_reason: tool_calls`) that never comes.
    """
    silent, spoken = AssistantMessage(()), AssistantMessage((text_block("done"),))

    sentence = narrate_end(RunResult((silent,), silent, 1, stop_reason))
    assert sentence == Sentence("dim", 'empty reply; "go on" may help')
    assert narrate_end(RunResult((spoken,), spoken, 1, stop_reason)) is None


def test_tool_call_is_described_in_one_short_line() -> None:
    """S4-23: label and summary; without them the name and the first text of its input."""
    schema = {"type": "object", "required": ["path"]}
    read = Tool(
        name="read",
        label="Read",
        description="",
        parameters=schema,  # type: ignore[arg-type]  # dict is invariant
        execute=_nothing,
        summary=lambda given: f"{given['path']}:1",
    )

    assert describe_call([read], "read", {"path": "a\nb.py"}) == "Read a b.py:1"
    assert describe_call([read], "read", {"file": "c.py"}) == "Read c.py"
    assert describe_call([], "mcp__x__y", {"n": 1, "q": "z" * 200}) == "mcp__x__y " + "z" * 89 + "…"


@each_row(
    ("elapsed_s", "shown"),
    [(0.04, "0.0 s"), (9.94, "9.9 s"), (12.3, "12 s"), (185, "3 min 5 s"), (7205, "2 h 0 min")],
)
def test_duration_is_rounded_to_a_useful_precision(elapsed_s: float, shown: str) -> None:
    """S4-23."""
    assert seconds(elapsed_s) == shown


@each_row(
    ("elapsed_s", "shown"),
    [
        (-5, "just now"),
        (59, "just now"),
        (60, "1 min ago"),
        (3_599, "59 min ago"),
        (3_600, "1 h ago"),
        (86_400, "1 day ago"),
        (200_000, "2 days ago"),
    ],
)
def test_age_is_rounded_to_one_unit(elapsed_s: float, shown: str) -> None:
    """A clock that was set back must not give a negative time."""
    assert ago(elapsed_s) == shown


@each_row("text", ["", "one", " two  words\n\n\tand a tab ", "\n", "naïve 漢字 🙂"])
def test_words_of_a_text_joined_give_the_text_back(text: str) -> None:
    """S4-20: byte for byte, cut after whitespace."""
    assert "".join(words(text)) == text
    assert all(not word[:-1].rstrip() or " " not in word.strip() for word in words(text))


NEWS, OTHER = ("What's\n new", "https://docs.python.org"), ("", "https://b.org")
SEARCH = search("python", NEWS, OTHER)
TEXT: tuple[Block, ...] = (
    cited("Out", NEWS),
    {"type": "text", "text": ", "},
    cited("fast", OTHER, NEWS),
)
LISTED = "[1] What's new https://docs.python.org\n[2] https://b.org"


def shown(*blocks: Block) -> list[Event]:
    """Return the added events of one reply of *blocks*."""
    view, message = HostedView(), AssistantMessage(blocks)
    ends = [MessageUpdate(lambda: message, BlockEnd(at, each)) for at, each in enumerate(blocks)]
    given: list[Event] = [*ends, MessageEnd(message)]
    return [each for event in given for each in view(event) if each not in given]


def test_search_is_a_call_with_what_it_found() -> None:
    start, end = shown(*SEARCH)

    assert isinstance(start, ToolExecutionStart) and isinstance(end, ToolExecutionEnd)
    assert (start.tool_name, start.args) == ("web_search", {"query": "python"})
    assert (end.tool_name, end.is_error) == ("web_search", False)
    assert end.result.details == {"kind": "web", "results": 2}
    assert end.result.text == "What's new https://docs.python.org\nhttps://b.org"


def test_error_inside_a_result_is_a_failed_call_in_words() -> None:
    _, end = shown(*fetched("https://a.org", "", error="url_not_in_prior_context"))

    assert isinstance(end, ToolExecutionEnd) and end.is_error
    sentence = "neither you nor a search named this address (url_not_in_prior_context)"
    assert end.result.text == sentence


def test_result_behind_a_pause_is_named_by_its_kind() -> None:
    [end] = shown(SEARCH[1])

    assert isinstance(end, ToolExecutionEnd) and end.tool_name == "web_search"


def test_citations_are_numbered_through_the_reply_and_listed_behind_it() -> None:
    added = [e.event for e in shown(*TEXT) if isinstance(e, MessageUpdate)]

    assert [e.delta for e in added if isinstance(e, TextDelta)] == [
        " [1]",
        " [2] [1]",
        f"\n\n{LISTED}",
    ]
    assert cited_text(TEXT) == f"Out [1], fast [2] [1]\n\n{LISTED}"


def test_text_without_citations_stays_as_it_is() -> None:
    plain: Block = {"type": "text", "text": "a [1] \n"}

    assert (shown(plain), cited_text((plain,))) == ([], "a [1] \n")
