"""Events shown in live and in sequential display mode."""

from agent_cli.contracts import events
from agent_cli.contracts.events import Event
from agent_cli.contracts.messages import AssistantMessage
from agent_cli.contracts.provider import TextDelta, ThinkingDelta
from agent_cli.contracts.timeline import Block, text_block
from agent_cli.repl.live.backlog import StreamingFilter
from tests.tables import each_row

CALL: Block = {"type": "tool_use", "id": "1", "name": "read", "input": {}}


def delta(text: str, kind: type[TextDelta] | type[ThinkingDelta] = TextDelta) -> Event:
    return events.MessageUpdate(lambda: AssistantMessage(()), kind(0, text))


def through(sequence: StreamingFilter, *happened: Event) -> list[Event]:
    return [shown for event in happened for shown in sequence(event)]


def test_live_mode_passes_text_through_unchanged() -> None:
    """C2: the same object, unchanged."""
    piece = delta("Hel")

    assert through(StreamingFilter("live"), piece) == [piece]


@each_row(
    "pieces",
    [
        [],
        ["one"],
        [" ", "two  ", "words\n\n\t", "and ", "a ", "tab "],
        ["\n"],
        ["naïve ", "漢字 ", "🙂"],
    ],
)
def test_sequential_mode_shows_the_reply_word_by_word_once_it_is_complete(
    pieces: list[str],
) -> None:
    """S4-03, S4-20, C2: nothing before the reply is complete; then all of it, to the byte."""
    sequence, text = StreamingFilter("sequential"), "".join(pieces)
    end = events.MessageEnd(AssistantMessage((text_block(text),)))

    during = through(sequence, *(delta(character) for character in text), end)
    after = through(sequence, events.StateChanged("thinking", "responding"))

    assert during == []
    deltas = [each.event for each in after if isinstance(each, events.MessageUpdate)]
    assert deltas == [TextDelta(0, piece) for piece in pieces]
    assert after[-1] is end


def test_sequential_mode_shows_text_before_a_tool_call_in_one_piece() -> None:
    """S4-22, C25: not dropped, not streamed, and in its place."""
    sequence = StreamingFilter("sequential")
    end = events.MessageEnd(AssistantMessage((text_block("I look."), CALL)))
    planning = events.StateChanged("thinking", "planning_tools")
    announced = events.ToolCallsAnnounced((events.ToolCall("1", "read", {}),))

    shown = through(sequence, delta("I look."), end, planning, announced)

    assert shown == [end, planning, announced]


def test_sequential_mode_never_shows_a_broken_off_reply() -> None:
    """C16: the answer appears once, from the complete attempt."""
    sequence = StreamingFilter("sequential")
    broken = events.MessageEnd(AssistantMessage((text_block("half"),), error="it broke"))
    turn_end = events.TurnEnd(None, ())

    assert through(sequence, delta("half"), broken, turn_end) == [broken, turn_end]


def test_thinking_is_live_even_in_sequential_mode() -> None:
    """S4-21: it is shown as it arrives."""
    thought = delta("why?", ThinkingDelta)

    assert through(StreamingFilter("sequential"), thought) == [thought]
