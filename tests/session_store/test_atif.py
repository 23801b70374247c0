"""Export of sessions as ATIF trajectories."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.timeline import Success, Usage, text_block
from agent_cli.core.conversation import Conversation
from agent_cli.core.imported_history import conversation_of
from agent_cli.session_store import SessionStore
from agent_cli.session_store.export import trajectory
from tests.fakes import calls, says, tool_use
from tests.session_store.recordings import a_long_talk, recorded
from tests.session_store.trajectories import trajectory_faults


async def test_trajectory_of_a_session_with_every_kind_of_entry_is_valid(tmp_path: Path) -> None:
    """A call's files and widgets, recorded before the end of its reply, come after it."""
    store = SessionStore(tmp_path)
    session, conversation = await a_long_talk(store)
    session.close()

    shown: dict[str, Any] = dict(trajectory(store.read(session.id)))

    assert trajectory_faults(shown) == []
    assert [step["source"] for step in shown["steps"][:4]] == ["user", "agent", "system", "system"]
    called = [call["tool_call_id"] for s in shown["steps"] for call in s.get("tool_calls", [])]
    assert called[:2] == ["t1", "t2"]
    assert shown["final_metrics"]["total_prompt_tokens"] == conversation.usage.prompt_tokens


def test_reply_becomes_a_trajectory_step_with_calls_results_and_tokens(tmp_path: Path) -> None:
    """Prompt tokens include the cached ones; non-object arguments become an object."""
    store = SessionStore(tmp_path)
    session = recorded(store, conversation := Conversation())
    conversation.begin(UserMessage.of("go"))
    conversation.add_reply(calls(tool_use("look", {"at": "x"}, "t1"), text="Looking."))
    conversation.settle_call("t1", Success((text_block("a tree"),)))
    usage = Usage(3, 5, cache_read_tokens=7, cost_microdollars=2_000_000)
    conversation.add_reply(says("Done.", thinking="Hm.", usage=usage))
    session.close()

    shown: dict[str, Any] = dict(trajectory(store.read(session.id)))

    user, first, last = shown["steps"]
    assert (user["source"], user["message"], first["message"]) == ("user", "go", "Looking.")
    assert first["tool_calls"] == [
        {"tool_call_id": "t1", "function_name": "look", "arguments": {"at": "x"}}
    ]
    assert first["observation"] == {"results": [{"source_call_id": "t1", "content": "a tree"}]}
    assert (last["message"], last["reasoning_content"]) == ("Done.", "Hm.")
    assert last["metrics"] == {
        "prompt_tokens": 10, "completion_tokens": 5, "cached_tokens": 7, "cost_usd": 2.0,
    }  # fmt: skip


def test_step_whose_time_is_no_date_has_none(tmp_path: Path) -> None:
    """A history may be imported with its times in nanoseconds; the format does not demand them."""
    store, in_ns = SessionStore(tmp_path), 1_795_813_143_506_000_000
    said = replace(UserMessage.of("go"), timestamp=in_ns)
    recorded(store, conversation_of([said])).close()

    shown: dict[str, Any] = dict(trajectory(store.read(store.files()[0].stem)))

    assert shown["steps"] == [{"step_id": 1, "source": "user", "message": "go"}]
    assert trajectory_faults(shown) == []


@pytest.mark.parametrize(
    "broken",
    [
        {"schema_version": "ATIF-v1.0"},
        {"more": 1},
        {"steps": [{"step_id": 2, "timestamp": "2026-01-01", "source": "user", "message": ""}]},
    ],
)
def test_trajectory_check_finds_broken_rules(tmp_path: Path, broken: dict[str, Any]) -> None:
    store = SessionStore(tmp_path)
    session = recorded(store, conversation := Conversation())
    conversation.begin(UserMessage.of("go"))
    session.close()

    assert trajectory_faults(dict(trajectory(store.read(session.id)))) == []
    assert trajectory_faults({**trajectory(store.read(session.id)), **broken}) != []
