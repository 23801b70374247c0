"""Send the model the texts that the user pinned, unless the request holds them anyway."""

from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.timeline import NOTICE
from agent_cli.core.pins import as_pinned, as_unpinned, pins, unpinned
from agent_cli.core.turn import Turn


def tell_pins(turn: Turn) -> None:
    """Append a message for each pin that the next request would not hold, and for each taken back.

    A `prepare` contributor, placed before compaction, which repeats the pins behind a summary.
    """
    prompts = turn.conversation.prompts
    held, gone = pins(prompts), unpinned(prompts)
    if not (held or gone) or turn.conversation.open_calls():
        return
    texts = [each.text for each in turn.conversation.context() if isinstance(each, UserMessage)]
    sent = "\n".join(texts)
    for text in held.values():
        if sent.rfind(as_pinned(text)) <= sent.rfind(as_unpinned(text)):
            turn.tell_model(as_pinned(text), author=NOTICE)
    for text in gone:
        if sent.rfind(as_pinned(text)) > sent.rfind(as_unpinned(text)):
            turn.tell_model(as_unpinned(text), author=NOTICE)
