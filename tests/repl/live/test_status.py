"""The status line below the prompt."""

import asyncio
import threading
from dataclasses import replace
from pathlib import Path

from agent_cli.contracts.events import AgentEvent, Compacted, MessageEnd, UsageChanged
from agent_cli.contracts.listings import SessionInfo
from agent_cli.contracts.messages import AssistantMessage
from agent_cli.contracts.timeline import Usage
from agent_cli.core.conversation import Conversation
from agent_cli.repl.live.status import Status
from tests.fakes import LIMIT_S, MODEL, says, scripted_agent
from tests.tables import each_row

BADGES = ("ask", "1 job", "bubblewrap")
USAGE = Usage(1_000, 500, cache_read_tokens=3_000, cost_microdollars=1_234_567)


def used() -> Status:
    """Return the status line of an agent with some usage."""
    agent, *_ = scripted_agent(says("hello"))
    status = Status(agent)
    status(MessageEnd(AssistantMessage((), usage=USAGE)))
    status(UsageChanged(USAGE, USAGE))
    return status


def test_wide_status_line_shows_every_part() -> None:
    """Model, mode, context in per cent and tokens, cost, jobs, sandbox, cache share."""
    share = 4_500 / MODEL.context_window

    assert used().text(BADGES, urgent=["2 queued"], columns=200) == (
        f"2 queued · {MODEL.id} minimal · ask · context {share:.0%} (4.5k tokens) · $1.23"
        " · 1 job · bubblewrap · cache 75%"
    )


def test_status_line_never_wraps_and_drops_the_least_important_parts_first() -> None:
    """At 20 columns the permission mode and urgent items remain; jobs outlive the cache share."""
    status = used()

    for columns in range(1, 100):
        text = status.text(BADGES, urgent=["2 queued"], columns=columns)

        assert 0 < len(text) <= columns
        assert columns < 20 or text.startswith("2 queued · ")
        assert columns < 20 or "ask" in text
        assert "cache" not in text or "bubblewrap" in text
        assert "bubblewrap" not in text or "1 job" in text
        assert "1 job" not in text or "$1.23" in text
        assert "$" not in text or "(4.5k tokens)" in text
        assert columns < 52 or "context 2%" in text


@each_row(
    ("answers", "shown"),
    [
        ([], "claude-opus-5-5-fast"),
        (["claude-opus-5-5-fast"], "claude-opus-5-5-fast"),
        (["claude-opus-5-5"], "claude-opus-5-5"),
        (["claude-opus-5-5", "claude-opus-5-5-fast"], "claude-opus-5-5-fast"),
        (
            ["claude-sonnet-5-5"],
            "claude-opus-5-5-fast",
        ),  # it answered in place of one that declined
    ],
)
def test_status_line_shows_no_fast_mode_that_the_api_did_not_give(
    answers: list[str], shown: str
) -> None:
    """It refuses the mode, or the limit of it is used up."""
    agent, *_ = scripted_agent(says("hello"))
    agent.set_model(replace(MODEL, id="claude-opus-5-5-fast"))
    status = Status(agent)

    for model in answers:
        status(MessageEnd(AssistantMessage((), usage=USAGE, model=model)))

    assert status.text(BADGES, urgent=(), columns=200).startswith(f"{shown} minimal · ")
    assert status.model_id == shown

    agent.set_model(replace(MODEL, id="of-mine-fast"))
    status.refresh()

    assert status.text(BADGES, urgent=(), columns=200).startswith("of-mine-fast minimal · ")


def test_agent_that_still_works_after_clear_costs_the_new_conversation_nothing() -> None:
    """An agent in the background goes on, and its session is that of the conversation before."""
    agent, *_ = scripted_agent(says("hello"))
    status = Status(agent)
    costs = AgentEvent("a-1", "general", "call-1", UsageChanged(USAGE, USAGE))
    status(costs)
    before = status.cost_microdollars

    agent.reset()
    status.refresh()
    status(costs)

    assert (before, status.cost_microdollars) == (USAGE.cost_microdollars, 0)


def test_status_line_of_a_new_session_shows_only_known_values() -> None:
    """No zeros for unknown values."""
    agent, *_ = scripted_agent(says("hello"))

    assert Status(agent).text((), urgent=(), columns=80) == f"{MODEL.id} minimal"


async def test_status_line_updates_the_context_size_when_the_conversation_changes() -> None:
    """After /resume, /fork and /rewind the figure was missing, and after /uncompact wrong."""
    agent, *_ = scripted_agent(says("hello"))
    await agent.prompt("hi")
    sizes = [40, 30, 20]
    status = Status(agent, lambda: sizes.pop())

    def shown() -> str:
        return status.text((), urgent=(), columns=200)

    resumed = shown()
    agent.adopt(Conversation(agent.conversation.prompts))
    status.refresh()
    forked = shown()
    status.refresh()
    agent.subscribe(status)
    agent.conversation.compact("what was", None)

    assert [text.partition("(")[2] for text in (resumed, forked, shown())] == [
        "20 tokens)",
        "30 tokens)",
        "40 tokens)",
    ]
    agent.reset()
    status.refresh()
    assert "tokens" not in shown()


async def test_cost_of_earlier_agents_is_added_once_their_files_are_read() -> None:
    """50 files of 5 MB took four seconds, in which a resumed session took no key."""
    agent, *_ = scripted_agent(says("hello"))
    await agent.prompt("hi")
    may_read, changed = threading.Event(), asyncio.Event()

    def earlier() -> list[SessionInfo]:
        may_read.wait(LIMIT_S)
        return [SessionInfo("a-1", Path("a-1"), 0, usage=USAGE)]

    status = Status(agent, subagents=earlier, changed=changed.set)
    before = status.cost_microdollars or 0
    may_read.set()
    async with asyncio.timeout(LIMIT_S):
        await changed.wait()

    assert (status.cost_microdollars or 0) - before == USAGE.cost_microdollars


def test_only_replies_of_the_conversation_change_the_shown_context_size() -> None:
    """Summaries and sampling have a cost, but do not describe the window."""
    status = used()
    before = status.text((), urgent=(), columns=200)
    status(UsageChanged(Usage(9, 9), USAGE))
    aside = status.text((), urgent=(), columns=200)
    status(Compacted(3, 4_500, 1_200))

    assert aside == before
    assert "(1.2k tokens)" in status.text((), urgent=(), columns=200)
