"""The tool that searches and reads what the model is no longer sent."""

import re
from collections.abc import Sequence

from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.timeline import Json, Usage
from agent_cli.core.conversation import Conversation
from agent_cli.plugins.recall import recall
from tests.fakes import calls, says, tool_use
from tests.plugins.contributing import Contributing, tool_results


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
