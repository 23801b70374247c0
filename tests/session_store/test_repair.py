"""Calls left open by a program that ended at any moment are closed, and the model reads why."""

from pathlib import Path

from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.timeline import Pending, Prompt, ReplyOutput, ToolOutput
from agent_cli.core.conversation import Conversation
from agent_cli.session_store import SessionStore
from agent_cli.session_store.history import NEVER_ANSWERED, NEVER_STARTED, repairs
from tests.fakes import calls, says, tool_use
from tests.session_store.recordings import faults, recorded


def test_repair_keeps_the_reason_of_a_rejection_the_model_has_not_read() -> None:
    """S2-33, S2-51: the program ended after the decision and before the run continued."""
    refused = ToolOutput(
        "1", 1, "r", tool_use("bash", {}, "t1"), Pending("queued", "use yarn"), decision="rejected"
    )
    approved = ToolOutput(
        "2", 1, "r", tool_use("bash", {}, "t2"), Pending("queued"), decision="approved"
    )
    end = ReplyOutput("3", 1, "r", "m", "tool_use")
    prompt = Prompt("p", "local", "m", 1, output=[refused, approved, end])

    first, second, completed = map(str, repairs([prompt]))

    assert "use yarn" in first and NEVER_STARTED not in first
    assert NEVER_STARTED in second
    assert "completed" in completed


def test_question_that_ran_waits_for_its_answer_but_not_in_a_copy() -> None:
    """S2-33: it had no effect but the question. Answered in both sessions, it would run twice."""
    conversation = Conversation()
    conversation.begin(UserMessage.of("go"))
    conversation.add_reply(calls(tool_use("ask_user", {}, "t1"), tool_use("bash", {}, "t2")))
    conversation.start_call("t1", asks_person=True)

    kept = [str(each) for each in repairs(conversation.prompts)]
    copied = [str(each) for each in repairs(conversation.prompts, keep_questions=False)]

    assert len(kept) == 2
    assert "'started_at_ms'" not in kept[0] or "'started_at_ms': None" in kept[0]
    assert "waiting_for_approval" in kept[1]
    assert NEVER_ANSWERED in copied[0] and NEVER_STARTED in copied[1]


def test_answer_is_kept_when_only_its_end_is_torn(tmp_path: Path) -> None:
    """The user has read it; the record of its end is the one that the program died in."""
    store = SessionStore(tmp_path)
    session = recorded(store, conversation := Conversation())
    conversation.begin(UserMessage.of("why?"))
    conversation.add_reply(says("Because.", thinking="Hm."))
    session.close()
    session.path.write_bytes(session.path.read_bytes()[:-20])

    again, resumed = store.resume(session.id)
    again.close()

    assert [out.kind for out in resumed.prompts[0].output] == ["thinking", "text", "reply"]
    assert resumed.last_reply().text == "Because."
    assert faults(resumed) == []
    assert store.read(session.id).prompts == resumed.prompts
