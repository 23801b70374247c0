"""Requests hold only content the API accepts; the validator names what it would refuse."""

from agent_cli.contracts.messages import (
    AssistantMessage,
    LlmMessage,
    ToolResultMessage,
    UserMessage,
)
from agent_cli.contracts.timeline import Block, text_block
from agent_cli.core.api_messages import to_api
from tests.fakes import problems, tool_use
from tests.tables import each_row

USER = UserMessage.of("a")
ASKS = AssistantMessage((tool_use("look", {}, "t1"),), "tool_use")
RESULT = ToolResultMessage("t1", "look", (text_block("ok"),))
ANSWER = AssistantMessage((text_block("b"),))


@each_row(
    ("messages", "fault"),
    [
        ([USER], None),
        ([USER, USER], None),
        ([USER, ANSWER, USER], None),
        ([USER, ASKS, RESULT], None),
        ([USER, ASKS, RESULT, USER], None),
        ([USER, ANSWER], "the last message is not the user's"),
        ([ANSWER, USER], "the first message is not the user's"),
        ([USER, ASKS, USER], "answers"),
        ([USER, ASKS], "no results"),
        ([USER, RESULT], "answers"),
        ([USER, ASKS, RESULT, RESULT], "answers"),
        ([USER, ASKS, USER, RESULT], "before its tool results"),
        ([USER, ASKS, RESULT, ASKS, RESULT], "not unique"),
    ],
)
def test_validator_names_messages_the_api_would_refuse(
    messages: list[LlmMessage], fault: str | None
) -> None:
    """S1-31: the first message is the user's, ids are paired and unique, results come first."""
    found = problems(to_api(messages))

    assert found == [] if fault is None else fault in "; ".join(found)


def test_roles_alternate_and_no_message_is_empty() -> None:
    """S1-31: the validator checks what `to_api` already ensures."""
    found = problems(
        [
            {"role": "user", "content": [text_block("a")]},
            {"role": "user", "content": []},
        ]
    )

    assert found == ["message 1 is empty", "messages 0 and 1 have the same role"]


def test_error_results_are_marked_and_blank_text_is_left_out() -> None:
    """S1-31, S0-46: the API refuses blank text, and expects errors to be marked."""
    failed = ToolResultMessage("t1", "look", (), is_error=True)
    empty: list[Block] = [text_block("  "), text_block(""), {"type": "text"}]
    blank = AssistantMessage((*empty, tool_use("look", {}, "t1")), "tool_use")

    assert to_api([USER, blank, failed, UserMessage.of("")]) == [
        {"role": "user", "content": [text_block("a")]},
        {"role": "assistant", "content": [tool_use("look", {}, "t1")]},
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "t1",
                    "content": [text_block("(no output)")],
                    "is_error": True,
                }
            ],
        },
    ]


def test_error_with_an_image_is_no_error_for_the_api() -> None:
    """S0-46: it refuses such a result, and each later request of the conversation with it."""
    source: Block = {"type": "base64", "media_type": "image/png", "data": "aGk="}
    shot: Block = {"type": "image", "source": source}
    failed = ToolResultMessage("t1", "look", (text_block("no button"), shot), is_error=True)
    called = AssistantMessage((tool_use("look", {}, "t1"),), "tool_use")

    assert to_api([USER, called, failed])[-1]["content"] == [
        {
            "type": "tool_result",
            "tool_use_id": "t1",
            "content": [text_block("(The call failed.)"), text_block("no button"), shot],
        }
    ]


@each_row("tail", ["so far \n", "so far"])
def test_model_is_asked_to_go_on_behind_a_reply_that_paused_after_a_text(tail: str) -> None:
    """The API refuses a reply's text at the end; it stands as it was received."""
    said = AssistantMessage((text_block("one "), text_block(tail)), "pause_turn")
    sent = {"role": "assistant", "content": [text_block("one "), text_block(tail)]}

    paused = to_api([UserMessage.of("go"), said])
    assert paused[1:] == [sent, {"role": "user", "content": [text_block("(go on)")]}]
    assert problems(paused) == []
    assert to_api([UserMessage.of("go"), said, UserMessage.of("on")])[1] == sent


def test_reply_that_is_to_be_summarized_does_not_end_in_white_space() -> None:
    """The API refuses that too; earlier replies and their bytes stay as they are."""
    said = AssistantMessage((text_block("one \n"),), "end_turn")

    assert to_api([UserMessage.of("go"), said])[1]["content"] == [text_block("one")]
    followed = to_api([UserMessage.of("go"), said, UserMessage.of("on")])
    assert followed[1]["content"] == [text_block("one \n")]


def test_reply_that_paused_in_a_call_of_the_server_is_sent_as_it_is() -> None:
    """The server goes on with its own call."""
    use: Block = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
    said = AssistantMessage((text_block("Wait."), use), "pause_turn")

    assert to_api([UserMessage.of("go"), said])[-1]["content"] == [text_block("Wait."), use]
