"""Cuts of the history: whole rounds, the first message protected, the user's words kept."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_cli.contracts.errors import ModelError, UsageError
from agent_cli.contracts.messages import CustomMessage, Message, ToolResultMessage, UserMessage
from agent_cli.contracts.options import USER_WORDS_CHARS
from agent_cli.contracts.provider import Model
from agent_cli.contracts.timeline import Json, Prompt, Success, ToolOutput, Usage, text_block
from agent_cli.core.api_messages import to_api
from agent_cli.core.conversation import Conversation
from agent_cli.core.loop_config import LoopConfig
from agent_cli.core.pins import UNPINNED_MARK, as_pinned, pin, unpin
from agent_cli.core.projection import CUT_TEXT, WORDS_TEXT, numbered
from agent_cli.plugins.facts import tell_pins
from agent_cli.policies.compaction import Compaction
from agent_cli.policies.history_cuts import (
    Trimming,
    changing_entries,
    history_of,
    trim_history,
    user_words,
)
from tests.fakes import calls, problems, returns, says, scripted_agent, tool, tool_use
from tests.plugins.test_recall import recalled_of
from tests.policies.histories import (
    REPEATABLE,
    FixedStrategy,
    Listener,
    Step,
    conversation_with,
    histories,
    llm,
    sent,
    turn_of,
)
from tests.tables import each_row

CONSTRAINTS = 60
WINDOW = Model("m", context_window=1_000_000)


def first_words(messages: list[Message]) -> list[str]:
    return [message.text.split()[0] for message in llm(messages)]


def test_trimming_removes_the_oldest_messages_after_the_first() -> None:
    """S1-32, S1-16, C7: the count is at most the limit; the first user message stays."""
    conversation = conversation_with(["user", 0, "user", 0, "user", 0])

    removed = trim_history(conversation, max_messages=6)

    assert removed == 2
    assert first_words(conversation.context()) == ["0", "[agent-cli:", "3", "4", "5", "last"]
    assert len(sent(conversation)) == 5  # the note is sent with the first message


def test_trimming_never_splits_a_round_even_above_the_limit() -> None:
    """C7: a result without its call is a 400; one round too many is not."""
    conversation = conversation_with(["user", 1, 3], last=None)

    removed = trim_history(conversation, max_messages=4)

    assert removed == 2
    assert [message.role for message in conversation.context()] == [
        "user",
        "user",
        "assistant",
        *["toolResult"] * 3,
    ]


def test_trimming_stops_at_the_limit_if_three_quarters_cannot_be_reached() -> None:
    """S1-32: a longer round stays, with as much before it as fits."""
    conversation = conversation_with(["user", 0, 0, 0, 5], last=None)

    assert trim_history(conversation, max_messages=8) == 2
    assert len(conversation.context()) == 9


async def test_between_cuts_each_request_extends_the_previous_one() -> None:
    """S1-32: the cached prefix stays the same for many turns."""
    rounds, limit = 100, 40
    agent, model, events = scripted_agent(
        *[calls(tool_use("look", id=f"t{n}")) for n in range(rounds)],
        says("done"),
        tools=[tool("look", returns("a tree"))],
        options=LoopConfig(prepare=[Trimming(max_messages=limit)]),
    )

    await agent.prompt("go")

    sent = [list(request.messages) for request in model.requests]
    changed = [a for a, b in pairwise(sent) if b[: len(a)] != a]
    assert max(map(len, sent)) <= limit
    assert len(changed) == sum(event.type == "app.notice" for event in events)
    assert 0 < len(changed) <= 2 * rounds / (limit // 4)


@each_row(("limit", "removed"), [(0, 0), (8, 0), (7, 2), (1, 6)])
def test_trimming_limit_counts_messages_and_0_disables_trimming(limit: int, removed: int) -> None:
    """S1-32: 8 messages: 4 of the user's, 2 answers, a call and its result."""
    conversation = conversation_with(["user", 0, "user", 1, "user", 0])

    assert len(conversation.context()) == 8
    assert trim_history(conversation, max_messages=limit) == removed
    assert len(conversation.context()) == 8 - removed + bool(removed)


def test_what_the_user_said_stays_word_for_word_when_messages_are_dropped() -> None:
    """Within the budget; the model is told of `recall` only if it has that."""
    for words_chars, can_recall in ((1_000, True), (0, False)):
        conversation = conversation_with(["user", 0, "user", 0, "user", 0])

        trim_history(conversation, max_messages=6, words_chars=words_chars, can_recall=can_recall)

        note = llm(conversation.context())[1].text
        assert ("\n- [4] 2 word word" in note) == bool(words_chars)
        assert ("recall" in note) == can_recall


def test_words_kept_by_trimming_take_a_tenth_of_the_window_at_most() -> None:
    conversation = Conversation()
    for number in range(10):
        said(conversation, f"{number}" * 200)

    Trimming(max_messages=2)(turn_of(conversation, model=Model("m", context_window=2_000)))

    note = llm(conversation.context())[1].text
    assert [number for number in range(10) if f"{number}" * 200 in note] == [7, 8, 9]


def test_notes_not_sent_to_the_model_do_not_count_for_trimming() -> None:
    """S1-32: only messages for the model count against the limit."""
    conversation = conversation_with(["user", "note", "note", 0])

    assert trim_history(conversation, max_messages=3) == 0


def test_one_warning_states_how_many_messages_were_dropped_and_the_limit() -> None:
    """S1-33: no warning if nothing is removed."""
    listener = Listener()
    conversation = conversation_with(["user", 0, "user", 0])

    Trimming(max_messages=3)(turn_of(conversation, listener))
    Trimming(max_messages=3)(turn_of(conversation, listener))

    assert listener.warnings == [
        "dropped the oldest 2 messages: the conversation exceeded max_conversation_messages = 3"
    ]


def test_trimming_keeps_the_summary() -> None:
    """C7: the summary stands for removed messages; losing it would lose them twice."""
    conversation = conversation_with(["user", 0, "user", 0, "user", 0])
    kept = conversation.prompts[1].input
    assert kept
    conversation.compact("what was", kept.id)

    trim_history(conversation, max_messages=5)

    texts = [message.text for message in llm(conversation.context())]
    assert "what was" in texts[1]
    assert [text.split()[0] for text in texts] == ["0", "[Summary", "5", "last"]


def test_a_summary_counts_as_one_message() -> None:
    """S1-32: at the limit nothing is removed; one message above it something is."""
    conversation = conversation_with(["user", 0, "user", 0, "user", 0])
    kept = conversation.prompts[1].input
    assert kept
    conversation.compact("what was", kept.id)
    length = len(conversation.context())

    assert trim_history(conversation, max_messages=length) == 0
    assert trim_history(conversation, max_messages=length - 1) > 0


def test_cut_stays_valid_when_a_triggered_prompt_ends() -> None:
    """A triggered prompt is in the history only while it runs; no cut may name it."""
    conversation = conversation_with(["user", 0])
    conversation.begin()

    trim_history(conversation, max_messages=1)
    conversation.complete()

    assert first_words(conversation.context())[0] == "0"


def test_nothing_is_trimmed_while_tool_calls_are_open() -> None:
    """The turn that resumes an approved batch makes no model call."""
    conversation = conversation_with(["user", 0, "user", 0], last="go")
    conversation.add_reply(calls(tool_use("look")))

    Trimming(max_messages=1)(turn_of(conversation))

    assert len(conversation.context()) == 6


@REPEATABLE
@given(histories, st.lists(st.integers(1, 30), min_size=1, max_size=3))
def test_any_trimmed_history_can_be_sent(happened: list[Step], limits: list[int]) -> None:
    """S1-32, C7: valid, first message and end unchanged, no pair split, nothing lost for good."""
    conversation = conversation_with(happened)
    before, recorded = conversation.context(), conversation.messages()
    assert problems(sent(conversation)) == []

    is_cut = False
    for limit in limits:
        length = len(llm(conversation.context()))
        removed = trim_history(conversation, max_messages=limit)
        after = conversation.context()

        assert problems(sent(conversation)) == []
        assert after[0] == before[0] or llm(after)[0] == llm(before)[0]
        is_first, is_cut = removed > 0 and not is_cut, is_cut or removed > 0
        tail = llm(after)[2 if is_cut else 1 :]
        assert tail == llm(before)[len(llm(before)) - len(tail) :]
        assert [m for m in llm(after) if m.text.startswith(CUT_TEXT)] == llm(after)[1:2][:is_cut]
        assert len(llm(after)) == length - removed + is_first
        assert removed == 0 or 1 + len(tail) <= limit or _is_one_round(tail)

    assert conversation.messages() == recorded
    conversation.compact("", None)
    assert conversation.context() == before


def _is_one_round(messages: Sequence[Message]) -> bool:
    return len([m for m in messages if not isinstance(m, ToolResultMessage)]) == 1


async def test_history_is_trimmed_before_every_request_of_a_run() -> None:
    """S1-04, S1-10: after tool results as well; the note is sent with the first message."""
    agent, model, events = scripted_agent(
        *[calls(tool_use("look", id=f"t{n}")) for n in range(4)],
        says("done"),
        tools=[tool("look", returns("a tree"))],
        options=LoopConfig(prepare=[Trimming(max_messages=3)]),
    )

    await agent.prompt("go")

    assert [len(request.messages) for request in model.requests] == [1, 3, 4, 4, 4]
    assert [len(to_api(llm(request.messages))) for request in model.requests] == [1, 3, 3, 3, 3]
    assert all(request.messages[0] == model.requests[0].messages[0] for request in model.requests)
    assert sum(event.type == "app.notice" for event in events) == 3


def test_without_a_limit_trimming_does_not_read_the_history() -> None:
    """The default; reading cost 50 ms before each call in a session of 10,000 entries."""

    class Unread(Conversation):
        @property
        def prompts(self) -> Sequence[Prompt]:
            pytest.fail("the history was read")

    assert trim_history(Unread(), max_messages=0) == 0


def said(conversation: Conversation, text: str, reply_chars: int = 40) -> None:
    """Let the user say *text* and the model answer at length."""
    conversation.begin(UserMessage.of(text))
    conversation.add_reply(says("r" * reply_chars, usage=Usage()))
    conversation.complete()


def words_of(conversation: Conversation, chars_max: int = 9_999) -> list[str]:
    return user_words(conversation, until="", chars_max=chars_max).splitlines()


def test_words_that_just_fit_are_all_kept() -> None:
    """One character less, and an older message is left out."""
    conversation = Conversation()
    for text in ("first", "second", "third"):
        said(conversation, text)
    words = words_of(conversation)
    chars = sum(map(len, words))

    assert words_of(conversation, chars) == words
    assert "[older ones left out here: 1" in words_of(conversation, chars - 1)[0]


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


@each_row("strategy", [None, FixedStrategy(failures=99)])
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


async def cut(conversation: Conversation, how: str, words_chars: int = USER_WORDS_CHARS) -> None:
    """Cut the history of *conversation* by a summary, because it overflowed, or by its length."""
    turn = turn_of(conversation, model=WINDOW, overflow=how == "overflow")
    if how == "length":
        Trimming(max_messages=8, words_chars=words_chars)(turn)
        return
    strategy = FixedStrategy("notes") if how == "summary" else None
    policy = Compaction(strategy, protected_tail_messages=2, words_chars=words_chars)
    await (policy(turn) if turn.overflow else policy.compact_now(turn))


@each_row("how", ["summary", "overflow", "length"])
async def test_cuts_soon_after_another_keep_the_words_that_it_kept(how: str) -> None:
    """Most of what such a cut replaces is the user's words: they are no measure for themselves."""
    conversation = Conversation()
    rules = [f"Constraint {n}: keep port {7_000 + n}{', please' * 40}." for n in range(CONSTRAINTS)]
    for rule in rules:
        said(conversation, rule, 4_000)
    for _ in range(3):
        await cut(conversation, how)
        for step in ("one", "two", "three"):
            said(conversation, f"step {step}", 600)
    said(conversation, "look", 100_000)
    await cut(conversation, how)

    sent = "\n".join(sent_texts(conversation))

    assert [rule for rule in rules if rule not in sent] == []
    assert sent.count(WORDS_TEXT) == 1


@each_row("how", ["summary", "overflow", "length"])
async def test_words_beyond_the_budget_are_counted_and_recalled_by_themselves(how: str) -> None:
    """Also after a second cut: the newest stay, the others are found with their own words."""
    conversation = Conversation()
    rules = [f"Constraint {n}: keep port {7_000 + n}." for n in range(CONSTRAINTS)]
    for rule in rules:
        said(conversation, rule, 4_000)
    await cut(conversation, how, words_chars=1_000)
    for step in ("one", "two", "three"):
        said(conversation, f"step {step}", 600)
    await cut(conversation, how, words_chars=1_000)

    sent = "\n".join(sent_texts(conversation))

    missing = [rule for rule in rules if rule not in sent]
    assert missing == rules[1 : 1 + len(missing)]
    assert f"[older ones left out here: {len(missing)}; recall finds them]" in sent
    assert missing
    for rule in missing:
        assert rule in await recalled_of(conversation, {"words": rule})


async def test_history_that_overflows_again_and_again_does_not_fill_with_words() -> None:
    """The server's window may be smaller than ours: half of what did not fit is for other text."""
    conversation = Conversation()
    policy = Compaction(None, protected_tail_messages=2)
    sizes: list[int] = []
    for number in range(200):
        said(conversation, f"{number} {'word ' * 100}", 500)
        if (size := sum(map(len, sent_texts(conversation)))) > 32_000:
            sizes.append(size)
            await policy(turn_of(conversation, model=WINDOW, overflow=True))
            sizes[-1] -= sum(map(len, sent_texts(conversation)))

    assert len(sizes) > 3
    assert min(sizes) > 10_000


def test_one_long_text_does_not_push_out_all_others_where_the_budget_is_small() -> None:
    """It takes at most half of the budget; the whole of it can be recalled."""
    conversation = Conversation()
    said(conversation, "first")
    for number in range(30):
        said(conversation, f"Constraint {number}.")
    said(conversation, "x" * 9_000)

    *items, paste = words_of(conversation, chars_max=1_600)

    assert len(items) == 30
    assert paste.startswith(f"- [94] {'x' * 600} [… 8,200 characters; recall entry 94")


def test_that_no_words_fit_is_said() -> None:
    """Without a budget they are not wanted, and nothing is said."""
    conversation = Conversation()
    for text in ("first", "one", "two"):
        said(conversation, text)

    assert words_of(conversation, chars_max=5) == [
        "[older ones left out here: 2; recall finds them]"
    ]
    assert words_of(conversation, chars_max=0) == []


@each_row("signed", [None, {"model": "m", "block": {"type": "compaction"}}])
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
    conversation.answer_open_calls()
    conversation.note(CustomMessage("note", "not said by the user"))

    assert words_of(conversation) == [
        "- [4] second",
        "- [5] (answer) Postgres, please",
        "- [6] (refused bash) use trash instead",
    ]


def test_files_that_the_user_attached_take_no_room_from_the_words() -> None:
    """They stand before what was typed, and the end of a long text alone was left of it."""
    typed = "Keep the API as it is. " * 60
    conversation = Conversation()
    said(conversation, "first")
    conversation.begin(UserMessage((text_block("a file\n" * 2_000), text_block(typed))))

    assert words_of(conversation) == [f"- [4] {typed.strip()}"]


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


def test_words_that_were_never_sent_are_left_out_and_those_behind_them_kept() -> None:
    """A refused prompt would be refused again with every summary; what follows it counts."""
    conversation = Conversation()
    said(conversation, "first")
    conversation.begin(UserMessage.of("refuse this"))
    conversation.discard_reply("", "refusal")
    conversation.complete()
    said(conversation, "third")

    assert [words.partition("] ")[2] for words in words_of(conversation)] == ["third"]


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


@each_row(("size", "is_whole"), [(4_000, True), (4_001, False)])
def test_a_text_of_the_user_is_cut_where_it_is_longer_than_its_ends(
    size: int, *, is_whole: bool
) -> None:
    conversation = Conversation()
    said(conversation, "first")
    said(conversation, "a" * 3_000 + "m" * (size - 4_000) + "z" * 1_000)

    [text] = words_of(conversation)

    note = "" if is_whole else " [… 1 characters; recall entry 4 for the whole …] "
    assert text == f"- [4] {'a' * 3_000}{note}{'z' * 1_000}"
