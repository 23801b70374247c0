"""The tool that searches and reads what the model is no longer sent."""

import re
from collections.abc import Sequence

from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.timeline import Json, Usage
from agent_cli.core.conversation import Conversation
from agent_cli.plugins.recall import recall
from tests.fakes import calls, says, tool_use
from tests.plugins.contributing import Contributing, tool_results
from tests.tables import each_row


def compacted() -> Conversation:
    """Return a conversation whose older messages are replaced by a summary."""
    conversation = Conversation()
    for text in ("first", "Deploy to the RED cluster only.", "x" * 30_000 + " END", "last"):
        conversation.begin(UserMessage.of(text))
        conversation.add_reply(says("noted", usage=Usage()))
        conversation.complete()
    last = conversation.prompts[-1].input
    assert last
    conversation.compact("(nothing)", last.id)
    return conversation


async def matching(regex: str, lines: Sequence[str]) -> Sequence[int]:
    """Search as ripgrep does."""
    return [at for at, line in enumerate(lines) if re.search(regex, line)]


async def recalled(given: Json) -> str:
    """Return the answer of a call with the input *given*."""
    run = Contributing(
        [recall(matching)], calls(tool_use("recall", given)), says("ok"), conversation=compacted()
    )
    await run.prompt()
    [result] = tool_results(run)[-1:]
    return result


async def test_recall_is_there_before_anything_was_left_out() -> None:
    """A tool that came later would change the prefix of every request behind it."""
    before = Contributing([recall(matching)], says("ok"))
    after = Contributing([recall(matching)], says("ok"), conversation=compacted())

    await before.prompt()
    await after.prompt()

    assert (before.offered(), after.offered()) == ([["recall"]], [["recall"]])


async def test_recall_finds_entries_that_have_all_words() -> None:
    """Whatever their case, with the number of the entry and who said it."""
    assert await recalled({"words": "red DEPLOY"}) == "[4] user: Deploy to the RED cluster only."


async def test_recall_finds_lines_that_match_an_expression() -> None:
    """In any case, an entry once; beside words, both must fit."""
    found = "[4] user: Deploy to the RED cluster only."

    assert await recalled({"regex": r"red\s+\w+ter|deploy"}) == found
    assert await recalled({"regex": "^deploy", "words": "only"}) == found
    assert "No entry has all of: blue ^deploy." in await recalled(
        {"regex": "^deploy", "words": "blue"}
    )


async def test_recall_reads_a_long_entry_in_pages() -> None:
    """Bounded, and it says where to go on."""
    first = await recalled({"entry": 7})
    second = await recalled({"entry": 7, "offset": 20_000})

    assert first == "x" * 20_000 + "\n[10,004 characters follow; offset=20000]"
    assert second == "x" * 10_000 + " END"


async def test_recall_without_a_match_says_so() -> None:
    assert "No entry has all of: blue cluster." in await recalled({"words": "blue cluster"})
    assert "Entry 99 has no text:" in await recalled({"entry": 99})
    assert "recall needs words" in await recalled({})


def saying(*texts: str) -> Conversation:
    """Return a conversation in which the user said *texts*."""
    conversation = Conversation()
    for text in texts:
        conversation.begin(UserMessage.of(text))
        conversation.add_reply(says("noted", usage=Usage()))
        conversation.complete()
    return conversation


async def recalled_of(conversation: Conversation, given: Json) -> str:
    run = Contributing(
        [recall(matching)], calls(tool_use("recall", given)), says("ok"), conversation=conversation
    )
    await run.prompt("go")
    [result] = tool_results(run)[-1:]
    return result


@each_row(("entries", "older"), [(20, 0), (21, 1)])
async def test_recall_lists_the_newest_entries_and_counts_the_others(
    entries: int, older: int
) -> None:
    """A word that is everywhere must not bring the whole conversation back."""
    found = await recalled_of(saying(*(f"red {n}." for n in range(entries))), {"words": "red"})

    lines = found.splitlines()
    assert [line.split()[-1] for line in lines[-20:]] == [f"{n}." for n in range(older, entries)]
    told = [f"{older} older entries match too; use more words to see them."] if older else []
    assert lines[:-20] == told


@each_row(
    ("before", "after", "shown"),
    [
        (160, 157, f"{'b' * 160}red{'a' * 157}"),
        (161, 158, f"… {'b' * 160}red{'a' * 157} …"),
    ],
    ids=["at", "beyond"],
)
async def test_recall_shows_what_stands_around_a_word(before: int, after: int, shown: str) -> None:
    text = f"{'b' * before}red{'a' * after}"

    assert await recalled_of(saying(text), {"words": "red"}) == f"[1] user: {shown}"


async def test_recall_cuts_a_long_line_that_matches_an_expression() -> None:
    found = await recalled_of(saying("x" * 321), {"regex": "x+"})

    assert found == f"[1] user: {'x' * 320}"


@each_row("field", ["words", "regex"])
async def test_recall_refuses_a_question_longer_than_any_memory_of_words(field: str) -> None:
    refused = await recalled_of(saying("one"), {field: "y" * 501})
    answered = await recalled_of(saying("one"), {field: "y" * 500})

    assert "500 characters" in refused
    assert answered.startswith("No entry has all of: ")
