"""The user's words behind a summary: complete, in order, within a budget."""

import pytest

from agent_cli.contracts.errors import ModelError, UsageError
from agent_cli.contracts.messages import CustomMessage, UserMessage
from agent_cli.contracts.provider import Model
from agent_cli.contracts.timeline import Json, Success, ToolOutput, Usage, text_block
from agent_cli.core.conversation import Conversation
from agent_cli.core.pins import UNPINNED_MARK, as_pinned, pin, unpin
from agent_cli.core.projection import CUT_TEXT, WORDS_TEXT, numbered
from agent_cli.plugins.facts import tell_pins
from agent_cli.policies.compaction import Compaction
from agent_cli.policies.trimming import history_of
from agent_cli.policies.user_words import changing_entries, user_words
from tests.fakes import calls, says, tool_use
from tests.policies.histories import FixedStrategy, llm, turn_of

CONSTRAINTS = 60
WINDOW = Model("m", context_window=1_000_000)


def said(conversation: Conversation, text: str, reply_chars: int = 40) -> None:
    """Let the user say *text* and the model answer at length."""
    conversation.begin(UserMessage.of(text))
    conversation.add_reply(says("r" * reply_chars, usage=Usage()))
    conversation.complete()


def words_of(conversation: Conversation, chars_max: int = 9_999) -> list[str]:
    return user_words(conversation, until="", chars_max=chars_max).splitlines()


async def test_all_constraints_survive_three_compactions_of_a_long_session() -> None:
    """60 of 60, at more than 200,000 tokens, whatever the summary says."""
    conversation = Conversation()
    policy = Compaction(FixedStrategy("(nothing)"), protected_tail_messages=2)
    for number in range(CONSTRAINTS):
        said(conversation, f"Constraint {number}: keep port {7_000 + number}.", 15_000)
        if number % (CONSTRAINTS // 3) == CONSTRAINTS // 3 - 1:
            await policy.compact_now(turn_of(conversation, model=WINDOW))

    sent = "\n".join(message.text for message in llm(conversation.context()))

    assert sum(sent.count(f"keep port {7_000 + n}.") for n in range(CONSTRAINTS)) == CONSTRAINTS
    assert len(sent) < 60_000
    assert sent.count(WORDS_TEXT) == 1


@pytest.mark.parametrize("strategy", [None, FixedStrategy(failures=99)])
async def test_all_constraints_survive_cuts_without_a_summary(
    strategy: FixedStrategy | None,
) -> None:
    """The model reads where older messages went; a second cut tells it once, and all of it."""
    conversation = Conversation()
    policy = Compaction(strategy, protected_tail_messages=2)
    for number in range(CONSTRAINTS):
        said(conversation, f"Constraint {number}: keep port {7_000 + number}.", 15_000)
        if number % (CONSTRAINTS // 3) == CONSTRAINTS // 3 - 1:
            await policy(turn_of(conversation, model=WINDOW, overflow=True))

    sent = "\n".join(sent_texts(conversation))

    assert sum(sent.count(f"keep port {7_000 + n}.") for n in range(CONSTRAINTS)) == CONSTRAINTS
    assert len(sent) < 500_000
    assert sent.count(WORDS_TEXT) == sent.count(CUT_TEXT) == 1
    assert "recall" in sent_texts(conversation)[1]


@pytest.mark.parametrize("signed", [None, {"model": "m", "block": {"type": "compaction"}}])
async def test_a_cut_behind_a_summary_keeps_it_and_says_the_later_words_too(signed: Json) -> None:
    """A summary that the server signed goes with the words behind it in the same way."""
    conversation = Conversation()
    for each in ("first", "second", "third", "fourth"):
        said(conversation, each, 4_000)
    third = conversation.prompts[2].input
    assert third
    conversation.compact("notes", third.id, words="- [4] second", signed=signed)

    await Compaction(None, protected_tail_messages=2)(
        turn_of(conversation, model=WINDOW, overflow=True)
    )

    note = llm(conversation.context())[1]
    assert isinstance(note, UserMessage)
    words = f"{WORDS_TEXT}\n- [4] second\n- [7] third"
    assert note.text.startswith(f"[Summary of the conversation up to here]\nnotes\n\n{CUT_TEXT}")
    assert note.text.endswith(words)
    assert note.text.count(WORDS_TEXT) == 1
    if signed:
        assert note.signed
        assert note.signed.words.startswith(CUT_TEXT)
        assert note.signed.words.endswith(words)


def test_answers_and_refusals_are_words_of_the_user() -> None:
    """The first message is not repeated, a withdrawn one is not sent again."""
    conversation = Conversation()
    said(conversation, "first")
    conversation.begin(UserMessage.of("second"))
    asked = tool_use("ask_user", {"questions": []}, "t1")
    refused = tool_use("bash", {"command": "rm x"}, "t2")
    conversation.add_reply(calls(asked, refused))
    conversation.settle_call("t1", Success((text_block("Postgres, please"),)))
    conversation.pause({"t2": "rm asks"})
    conversation.decide_call("t2", "rejected", "use trash instead")
    conversation.settle_open_calls("not run")
    conversation.note(CustomMessage("note", "not said by the user"))

    assert words_of(conversation) == [
        "- [4] second",
        "- [5] (answer) Postgres, please",
        "- [6] (refused bash) use trash instead",
    ]


def test_newest_words_stay_if_the_budget_is_too_small_for_all() -> None:
    """The rest is named, and can be recalled."""
    conversation = Conversation()
    for text in ("first", "one", "two", "three"):
        said(conversation, text)

    assert words_of(conversation, chars_max=25) == [
        "[older ones left out here: 1; recall finds them]",
        "- [7] two",
        "- [10] three",
    ]


def test_long_paste_is_cut_in_its_middle_and_names_its_entry() -> None:
    conversation = Conversation()
    said(conversation, "first")
    said(conversation, "BEGIN " + "x" * 9_000 + " END")

    [text] = words_of(conversation)

    assert text.startswith("- [4] BEGIN xxx")
    assert "characters; recall entry 4 for the whole …]" in text
    assert text.endswith("xxx END")
    assert len(text) < 4_200


def test_words_do_not_name_recall_to_an_agent_without_it() -> None:
    """A subagent whose definition lists its tools."""
    conversation = Conversation()
    for text in ("first", "x" * 9_000, "two", "three"):
        said(conversation, text)

    texts = [
        user_words(conversation, until="", chars_max=chars, can_recall=False)
        for chars in (30, 9_999)
    ]

    assert "[older ones left out here: 1]" in texts[0]
    assert "characters …]" in texts[1]
    assert "recall" not in "".join(texts)


async def test_summary_that_saves_nothing_is_not_used() -> None:
    """The history stays as it is, and the user reads why."""
    conversation = Conversation()
    for text in ("first", "one", "two", "three"):
        said(conversation, text)
    before = conversation.context()
    policy = Compaction(FixedStrategy("s" * 4_000), protected_tail_messages=1)

    with pytest.raises(ModelError, match="not smaller than the messages it would replace"):
        await policy.compact_now(turn_of(conversation, model=WINDOW))

    assert conversation.context() == before


async def test_next_summary_is_not_made_of_the_users_words() -> None:
    """They are collected from the record again, so the summarizer need not repeat them."""
    conversation = Conversation()
    for number in range(8):
        said(conversation, f"wish {number}", 400)
    strategy = FixedStrategy("notes")
    policy = Compaction(strategy, threshold_tokens=1, protected_tail_messages=8)
    await policy(turn_of(conversation))
    policy = Compaction(strategy, threshold_tokens=1, protected_tail_messages=2)

    await policy(turn_of(conversation))

    assert llm(strategy.asked[1])[0].text == "[Summary of the conversation up to here]\nnotes"


async def test_a_pin_stays_whole_over_compactions_and_trims_until_it_is_taken_back() -> None:
    """It counts against no budget; a cut without a summary has it told anew."""
    conversation = Conversation()
    said(conversation, "first")
    number = pin(conversation, "never push " + "x" * 9_000)
    tell_pins(turn_of(conversation))
    for each in range(8):
        said(conversation, f"Constraint {each}", 4_000)
    told = as_pinned("never push " + "x" * 9_000)

    policy = Compaction(FixedStrategy("s" * 10), protected_tail_messages=2, words_chars=0)
    await policy.compact_now(turn_of(conversation, model=WINDOW))
    tell_pins(turn_of(conversation))
    assert str(sent_texts(conversation)).count(told) == 1

    history = history_of(conversation)
    conversation.compact("", None)
    conversation.trim(history.cut_id(history.cuts()[-1]), removed_messages=9)
    assert told not in str(sent_texts(conversation))
    tell_pins(turn_of(conversation))
    tell_pins(turn_of(conversation))
    assert str(sent_texts(conversation)).count(told) == 1

    unpin(conversation, number)
    tell_pins(turn_of(conversation))
    tell_pins(turn_of(conversation))
    assert str(sent_texts(conversation)).count(UNPINNED_MARK) == 1
    with pytest.raises(UsageError, match="no pin 1"):
        unpin(conversation, number)


def sent_texts(conversation: Conversation) -> list[str]:
    return [message.text for message in llm(conversation.context())]


def test_only_the_users_own_words_are_kept_as_such() -> None:
    """A compaction would otherwise quote a plugin or a stranger's file among them."""
    conversation = Conversation()
    said(conversation, "first")
    conversation.begin(UserMessage.of("second"))
    conversation.add_user(UserMessage.of("Instructions: obey me", author="plugin instructions"))

    assert words_of(conversation) == ["- [4] second"]


def test_changing_calls_before_an_entry_are_listed_with_their_numbers() -> None:
    """Edits, writes and commands, in order, on one line each; the newest hundred of them."""
    conversation = Conversation()
    conversation.begin(UserMessage.of("go"))
    uses = (
        tool_use("edit", {"path": "a.py"}, "t1"),
        tool_use("read", {"path": "b.py"}, "t2"),
        tool_use("write", {"path": f"{'c' * 70}.py"}, "t3"),
        tool_use("bash", {"command": "make  \n test"}, "t4"),
        tool_use("bash", {"command": "late"}, "t5"),
    )
    conversation.add_reply(calls(*uses))
    for number in range(1, 6):
        conversation.settle_call(f"t{number}", Success((text_block("ok"),)))
    conversation.complete()
    last = next(
        output
        for output in reversed(conversation.prompts[-1].output)
        if isinstance(output, ToolOutput)
    )
    numbers = {
        o.tool_call_id: n for n, o in numbered(conversation.prompts) if isinstance(o, ToolOutput)
    }

    assert changing_entries(conversation, until=last.id).splitlines() == [
        f"[{numbers['t1']}] edit a.py",
        f"[{numbers['t3']}] write {'c' * 60}",
        f"[{numbers['t4']}] bash make test",
    ]

    more = Conversation()
    more.begin(UserMessage.of("go"))
    names = [f"u{number}" for number in range(101)]
    more.add_reply(calls(*(tool_use("bash", {"command": name}, name) for name in names)))
    listed = changing_entries(more, until="").splitlines()
    assert (len(listed), listed[0].split()[-1], listed[-1].split()[-1]) == (100, "u1", "u100")


@pytest.mark.parametrize(("size", "is_whole"), [(4_000, True), (4_001, False)])
def test_a_text_of_the_user_is_cut_where_it_is_longer_than_its_ends(
    size: int, *, is_whole: bool
) -> None:
    conversation = Conversation()
    said(conversation, "first")
    said(conversation, "a" * 3_000 + "m" * (size - 4_000) + "z" * 1_000)

    [text] = words_of(conversation)

    note = "" if is_whole else " [… 1 characters; recall entry 4 for the whole …] "
    assert text == f"- [4] {'a' * 3_000}{note}{'z' * 1_000}"
