"""Calls that the server ran, and citations, as events that each front end shows."""

from agent_cli.contracts.events import (
    Event,
    MessageEnd,
    MessageUpdate,
    ToolExecutionEnd,
    ToolExecutionStart,
)
from agent_cli.contracts.messages import AssistantMessage
from agent_cli.contracts.provider import BlockEnd, TextDelta
from agent_cli.contracts.timeline import Block
from agent_cli.terminal.hosted_view import HostedView, cited_text
from tests.messages_api import cited, fetched, search

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
