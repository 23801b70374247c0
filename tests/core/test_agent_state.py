"""The state of an agent follows from its events alone."""

from agent_cli.contracts import events
from agent_cli.contracts.messages import AssistantMessage, UserMessage
from agent_cli.contracts.provider import TextDelta
from agent_cli.contracts.timeline import text_block
from agent_cli.contracts.tooling import ToolResult
from agent_cli.core.run import Activity

HALF = AssistantMessage((text_block("half"),), "")
WHOLE = AssistantMessage((text_block("whole"),))


def partial_of(activity: Activity) -> AssistantMessage | None:
    return activity.partial() if activity.partial else None


def test_is_streaming_is_set_from_agent_start_to_agent_end() -> None:
    """S0-32, S0-35: the error remains until the next start."""
    activity = Activity()
    activity.track(events.AgentStart())
    assert (activity.is_streaming, activity.error) == (True, None)

    activity.track(events.AgentEnd((), "error", "broken"))
    assert (activity.is_streaming, activity.error) == (False, "broken")

    activity.track(events.AgentStart())
    assert (activity.is_streaming, activity.error) == (True, None)


def test_partial_message_is_set_from_message_start_to_message_end() -> None:
    """S0-33: a user's message is never partial."""
    activity = Activity()
    activity.track(events.MessageStart(UserMessage.of("go")))
    assert partial_of(activity) is None

    activity.track(events.MessageStart(HALF))
    assert partial_of(activity) is HALF
    activity.track(events.MessageUpdate(lambda: WHOLE, TextDelta(0, "x")))
    assert partial_of(activity) is WHOLE
    activity.track(events.MessageEnd(WHOLE))
    assert partial_of(activity) is None


def test_call_is_pending_from_execution_start_to_execution_end() -> None:
    """S0-34: calls are told apart by id; the end of a call that is not pending changes nothing."""
    activity = Activity()
    for id in ("t1", "t2"):
        activity.track(events.ToolExecutionStart(id, "look", {}))
    assert activity.pending == {"t1", "t2"}

    for id in ("t1", "t1", "t9"):
        activity.track(events.ToolExecutionEnd(id, "look", ToolResult.of("ok"), is_error=False))

    assert activity.pending == {"t2"}
