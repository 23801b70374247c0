"""From the timeline to messages and to the API's format; pure, stable, lossy on purpose."""

import copy

import pytest

from agent_cli.contracts.errors import ConversationError
from agent_cli.contracts.messages import (
    LEFT_OUT,
    WITHDRAWN,
    CustomMessage,
    ToolResultMessage,
    UserMessage,
)
from agent_cli.contracts.timeline import (
    Block,
    CompactionOutput,
    FileOutput,
    Json,
    ReplyOutput,
    Success,
    ToolOutput,
    UserOutput,
    WidgetOutput,
    text_block,
    text_of,
)
from agent_cli.core.api_messages import to_api
from agent_cli.core.conversation import Conversation
from agent_cli.core.projection import CUT_TEXT, context, is_summary, messages, shown
from tests.fakes import calls, problems, says, tool_use
from tests.tables import each_row


def sent(conversation: Conversation) -> list[Block]:
    return to_api([m for m in conversation.context() if not isinstance(m, CustomMessage)])


def looked() -> Conversation:
    """Return a conversation of one prompt, one call and an answer."""
    conversation = Conversation()
    conversation.begin(UserMessage.of("go"))
    conversation.add_reply(calls(tool_use("look"), text="I look."))
    conversation.settle_call("t1", Success((text_block("a tree"),), details={"seen": 1}))
    conversation.add_reply(says("A tree.", thinking="Hm."))
    return conversation


def test_text_calls_and_results_become_alternating_messages() -> None:
    """S2-05, S2-06, S1-09: the complete request, as it is sent."""
    assert sent(looked()) == [
        {"role": "user", "content": [text_block("go")]},
        {"role": "assistant", "content": [text_block("I look."), tool_use("look")]},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": [text_block("a tree")]}
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "s"},
                text_block("A tree."),
            ],
        },
    ]


def test_projection_is_repeatable_and_changes_no_entry() -> None:
    """S2-09: projection is a pure function of the record."""
    conversation = looked()
    before = copy.deepcopy(list(conversation.prompts))

    first, second = sent(conversation), sent(conversation)

    assert first == second
    assert list(conversation.prompts) == before


def test_appended_entries_do_not_change_earlier_messages() -> None:
    """S2-14: prompt caches and signed thinking depend on it."""
    conversation = looked()
    before = sent(conversation)

    conversation.begin(UserMessage.of("more"))
    conversation.add_reply(says("ok"))

    assert sent(conversation)[: len(before)] == before


def test_widgets_and_notes_are_not_sent() -> None:
    """S2-08, S3-02: only people see them."""
    conversation = looked()
    before = sent(conversation)

    conversation.attach(WidgetOutput("w", 1, "t1", "chart", {}, "a chart"))
    conversation.note(CustomMessage("notification", "mail"))

    assert sent(conversation) == before


def test_file_output_is_sent_as_a_summary_in_its_tool_result() -> None:
    """S2-07, C23: a file is not a turn of its own, and it counts from the next request on."""
    conversation = looked()
    assert "file for the user" not in str(sent(conversation))

    conversation.attach(FileOutput("f", 1, "t1", "/out.png", "image/png", "a green tree"))

    assert sent(conversation)[2]["content"] == [
        {
            "type": "tool_result",
            "tool_use_id": "t1",
            "content": [
                text_block("a tree"),
                text_block("[file for the user: /out.png] a green tree"),
            ],
        }
    ]


def test_interrupted_reply_is_sent_with_a_note_and_a_failed_one_is_left_out() -> None:
    """S0-64: the user has read the text of the first one and may refer to it."""
    conversation = looked()
    conversation.begin(UserMessage.of("more"))
    conversation.discard_reply("half of", "error", error="gone")
    assert sent(conversation)[-1]["content"] == [text_block("more")]
    conversation.discard_reply("Option A\nOption B \n", "aborted")
    note = text_block("[The user interrupted the reply here.]")

    assert sent(conversation)[-3:] == [
        {"role": "user", "content": [text_block("more")]},
        {"role": "assistant", "content": [text_block("Option A\nOption B")]},
        {"role": "user", "content": [note]},
    ]
    conversation.begin(UserMessage.of("again"))
    conversation.discard_reply(" \n", "aborted")
    assert sent(conversation)[-1] == {"role": "user", "content": [note, text_block("again"), note]}


def test_a_compaction_keeps_the_first_message_and_the_tail() -> None:
    """S1-40, S1c-5: a summary replaces the middle."""
    conversation = looked()
    second = conversation.begin(UserMessage.of("second"))
    conversation.add_reply(says("ok"))
    conversation.begin(UserMessage.of("third"))
    assert second.input is not None

    conversation.compact("they looked", second.input.id)

    assert [text for message in sent(conversation) for text in _texts(message)] == [
        "go",
        "[Summary of the conversation up to here]\nthey looked",
        "second",
        "ok",
        "third",
    ]
    assert problems(sent(conversation)) == []


def test_a_summary_that_the_server_signed_goes_with_its_block() -> None:
    """A later one in words has none: its text stands for both."""
    conversation = looked()
    second = conversation.begin(UserMessage.of("second")).input
    assert second is not None
    block: Json = {"type": "compaction", "content": "sealed"}
    signed: Json = {"model": "claude-opus-5-5", "block": block}

    conversation.compact("they looked", second.id, words="go", signed=signed)
    with_block = conversation.context()[1]
    conversation.compact("they looked", second.id)
    without = conversation.context()[1]

    assert isinstance(with_block, UserMessage) and isinstance(without, UserMessage)
    assert (with_block.signed and with_block.signed.block, without.signed) == (block, None)


def test_signed_summary_of_a_refused_prompt_goes_with_its_block() -> None:
    """Nothing of the refused prompt is sent; the block stands for all before it."""
    conversation = looked()
    refused = conversation.begin(UserMessage.of("refuse this")).input
    conversation.discard_reply("", "refusal")
    assert refused is not None
    block: Json = {"type": "compaction", "content": "sealed"}

    conversation.compact("they looked", refused.id, signed={"model": "m", "block": block})

    summary = conversation.context()[1]
    assert isinstance(summary, UserMessage) and summary.signed
    assert summary.signed.block == block


def test_signed_summary_of_nothing_changes_nothing() -> None:
    """A cut that begins with the first message leaves no place for a summary."""
    conversation = Conversation()
    first = conversation.begin(UserMessage.of("go")).input
    assert first is not None
    before = conversation.context()

    conversation.compact(
        "it looked", first.id, signed={"model": "m", "block": {"type": "compaction"}}
    )

    assert conversation.context() == before


def test_compaction_during_a_refused_prompt_stays_in_effect() -> None:
    """S1-40: the refused exchange is left out; the compacted messages stay compacted."""
    for kept in ("last", "refused"):
        conversation = looked()
        last = conversation.begin(UserMessage.of("second")).input
        conversation.add_reply(says("ok"))
        refused = conversation.begin(UserMessage.of("refuse this")).input
        conversation.discard_reply("", "refusal")
        cut = last if kept == "last" else refused
        assert cut is not None
        conversation.compact("they looked", cut.id)
        conversation.begin(UserMessage.of("third"))

        shown = [text for message in sent(conversation) for text in _texts(message)]
        tail = ["second", "ok", "third"] if kept == "last" else ["third"]
        assert shown == ["go", "[Summary of the conversation up to here]\nthey looked", *tail]


def test_message_withdrawn_before_sending_is_never_sent() -> None:
    """The record keeps it; a cut that would begin with it begins with the next message."""
    for is_cut in (False, True):
        conversation = looked()
        conversation.add_user(UserMessage.of("a secret"))
        secret = conversation.prompts[-1].output[-1]
        conversation.add_user(UserMessage.of("and this"))
        assert isinstance(secret, UserOutput)
        assert conversation.withdraw(secret, "no secrets")
        if is_cut:
            conversation.trim(secret.id, removed_messages=1)

        texts = [text for message in sent(conversation) for text in _texts(message)]
        assert "a secret" not in texts
        assert texts[-1] == "and this"
        assert problems(sent(conversation)) == []
        assert "a secret" in [m.text for m in conversation.messages() if isinstance(m, UserMessage)]


def test_prompt_goes_with_its_withdrawn_input() -> None:
    """Without input there is no prompt; that of an earlier one goes alone."""
    conversation = Conversation()
    first = conversation.begin(UserMessage.of("a secret")).input
    second = conversation.begin(UserMessage.of("go")).input
    assert first
    assert second

    assert conversation.withdraw(first, "no secrets")
    assert [text for message in sent(conversation) for text in _texts(message)] == ["go"]
    assert not conversation.withdraw(second, "no secrets")
    assert sent(conversation) == []


def test_uncompact_restores_compacted_and_trimmed_messages() -> None:
    """S1-40: the record has lost nothing; a second `/uncompact` changes nothing."""
    conversation = looked()
    second = conversation.begin(UserMessage.of("second")).input
    assert second is not None
    before = sent(conversation)
    assert not conversation.uncompact()
    conversation.compact("they looked", second.id)
    conversation.trim(second.id, removed_messages=1)
    assert sent(conversation) != before

    assert conversation.uncompact()

    assert sent(conversation) == before
    assert not conversation.uncompact()


def test_uncompact_and_summaries_without_counts_claim_no_tokens() -> None:
    """What a session saved is counted from these entries."""
    conversation = looked()

    conversation.compact("they looked", conversation.prompts[0].output[-1].id)
    conversation.uncompact()

    entries = conversation.prompts[-1].output
    made = [entry for entry in entries if isinstance(entry, CompactionOutput)]
    assert [each.summary for each in made] == ["they looked", ""]
    assert [(each.tokens_before, each.tokens_after) for each in made] == [(0, 0), (0, 0)]


def test_message_about_what_was_left_out_is_no_summary() -> None:
    """The next summary takes the last one in; a trim has left nothing to take in."""
    summarized, trimmed = looked(), looked()
    for conversation in (summarized, trimmed):
        conversation.begin(UserMessage.of("second"))
    second = summarized.prompts[-1].input, trimmed.prompts[-1].input
    assert second[0] and second[1]
    summarized.compact("they looked", second[0].id)
    trimmed.trim(second[1].id, removed_messages=3, note=f"{CUT_TEXT}]")

    texts = [_texts(sent(each)[0])[1] for each in (summarized, trimmed)]

    assert [is_summary(text) for text in texts] == [True, False]
    assert [is_summary(text, or_cut=True) for text in texts] == [True, True]


def _texts(message: Block) -> list[str]:
    content = message["content"]
    assert isinstance(content, list)
    return [str(b["text"]) for b in content if isinstance(b, dict) and b["type"] == "text"]


def test_trim_keeps_the_first_message_and_drops_whole_rounds() -> None:
    """C7, S1-32: no pair is split; `context` is a function of the prompts alone."""
    conversation = looked()
    conversation.begin(UserMessage.of("second"))
    kept = conversation.prompts[-1].input
    assert isinstance(kept, UserOutput)
    conversation.trim(kept.id, removed_messages=3)

    assert [m.text for m in context(shown(conversation.prompts)) if isinstance(m, UserMessage)] == [
        "go",
        "second",
    ]
    assert isinstance(conversation.prompts[0].output[1], ToolOutput)


def test_timestamps_of_results_in_call_order_never_decrease() -> None:
    """S3-25: the last call to finish may be the first one."""
    first = ToolOutput("1", 1, "r", tool_use("look", {}, "t1"), Success(()), ended_at_ms=9)
    second = ToolOutput("2", 1, "r", tool_use("look", {}, "t2"), Success(()), ended_at_ms=5)

    told = messages([first, second, ReplyOutput("3", 1, "r", "m", "tool_use")])

    assert [message.timestamp for message in told] == [1, 9, 9]


def test_entry_without_a_time_is_a_message_without_one() -> None:
    """S3-25: an imported history need not say when; nothing is made up."""
    told = messages([UserOutput("1", 0, (text_block("go"),)), UserOutput("2", 7, ())])
    call = ToolOutput("1", 0, "r", tool_use("look"), Success(()))
    answered = messages([call, ReplyOutput("2", 0, "r", "m", "tool_use")])

    assert [message.timestamp for message in told] == [0, 7]
    assert [message.timestamp for message in answered] == [0, 0]


def test_notes_leave_out_what_they_name_and_nothing_else_does() -> None:
    """A note of a plugin may hold anything, and one of a newer version what is not known yet."""
    conversation = looked()
    call = conversation.call("t1")
    before = conversation.context()

    conversation.note(CustomMessage("plugin", {call.id: 3}))
    conversation.note(CustomMessage(WITHDRAWN, {"message": call.id}))
    conversation.note(CustomMessage(WITHDRAWN, ["entry"]))
    others = [each for each in conversation.context() if not isinstance(each, CustomMessage)]
    conversation.note(CustomMessage(LEFT_OUT, {call.id: 3}))

    assert others == before
    result = next(m for m in conversation.context() if isinstance(m, ToolResultMessage))
    assert "was left out to save tokens" in text_of(result.content)
    assert "recall with entry 3" in text_of(result.content)


def test_text_of_blocks_is_that_of_the_text_blocks_joined() -> None:
    """An imported block may lack its text."""
    unknown: Block = {"type": "text"}
    blocks = (text_block("a"), unknown, tool_use("look"), text_block("b"))

    assert text_of(blocks) == "ab"


@each_row("stop_reason", ["tool_use", "end_turn", "max_tokens"])
def test_prompt_without_input_continues_from_results(
    stop_reason: str,
) -> None:
    """C23: results are already a user message; a placeholder after them would be noise."""
    conversation = Conversation()
    conversation.begin(UserMessage.of("go"))
    conversation.add_reply(calls(tool_use("look"), stop_reason=stop_reason))
    conversation.settle_call("t1", Success((text_block("a tree"),)))
    conversation.begin()

    assert [message.role for message in conversation.context()] == [
        "user",
        "assistant",
        "toolResult",
    ]


def test_cut_at_an_unknown_entry_is_refused_and_changes_nothing() -> None:
    """S2-05: recorded, it would make every later request impossible."""
    conversation = looked()
    before = sent(conversation)

    with pytest.raises(ConversationError, match="no entry 'gone' in this conversation"):
        conversation.compact("they looked", "gone")
    with pytest.raises(ConversationError, match="no entry 'gone' in this conversation"):
        conversation.trim("gone", removed_messages=1)

    assert sent(conversation) == before


def test_cut_in_a_conversation_of_refused_prompts_shows_nothing() -> None:
    """S2-05: the cut stays, the prompt does not."""
    conversation = Conversation()
    said = conversation.begin(UserMessage.of("go")).input
    assert said is not None
    conversation.trim(said.id, removed_messages=0)
    conversation.discard_reply("", "refusal")
    conversation.complete()

    assert sent(conversation) == []


def test_trim_at_the_first_prompt_changes_nothing() -> None:
    """S2-05: the first prompt is always sent; such a trim must not send it twice."""
    conversation = looked()
    before = sent(conversation)
    first = conversation.prompts[0].input
    assert first is not None

    conversation.trim(first.id, removed_messages=0)

    assert sent(conversation) == before


def test_note_of_a_thinking_level_is_the_effort_of_the_message_beside_it() -> None:
    """Behind it, or before it where a prompt follows; other notes are none of the model's."""
    conversation = Conversation()
    conversation.begin(UserMessage.of("go"))
    conversation.note(CustomMessage("effort", {"level": "high"}))
    conversation.add_reply(says("Done."))
    conversation.note(CustomMessage("effort", {"level": "low"}))
    conversation.note(CustomMessage("other", {"level": "max"}))
    conversation.begin(UserMessage.of("more"))

    assert [
        (text_of(each.content), each.effort)
        for each in conversation.context()
        if isinstance(each, UserMessage)
    ] == [("go", "high"), ("more", "low")]
