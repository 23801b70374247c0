"""How an earlier conversation ended: what somebody who goes on with it wants to see first."""

from typing import Final

from agent_cli.conversation import Conversation
from agent_cli.messages import AssistantMessage
from agent_cli.terminal.narration import one_line, side_output
from agent_cli.timeline import FileOutput, Prompt, WidgetOutput, text_of

_ROWS_MAX: Final = 20


def recalled(conversation: Conversation) -> str:
    """Return the last prompt, what its tools handed over, and the end of the last answer.

    Returns:
        Lines; "" for a new conversation.
    """
    prompts = typed_prompts(conversation)
    if not prompts:
        return ""
    count = f"{len(prompts)} prompt{'' if len(prompts) == 1 else 's'} so far; the last one:"
    begin = [count, f"you> {said_in(prompts[-1])}", *_handed_over(prompts[-1])]
    rows = (last_answer(conversation) or "").split("\n")
    cut = ["…"] if len(rows) > _ROWS_MAX else []
    return "\n".join([*begin, *cut, *rows[-_ROWS_MAX:]]).rstrip()


def _handed_over(prompt: Prompt) -> list[str]:
    """Return the last lines of files and widgets, as text."""
    outputs = [out for out in prompt.output if isinstance(out, FileOutput | WidgetOutput)]
    return [row for out in outputs for row in side_output(out).split("\n")][-_ROWS_MAX:]


def typed_prompts(conversation: Conversation) -> list[Prompt]:
    """Return the prompts that somebody typed, oldest first."""
    return [prompt for prompt in conversation.prompts if prompt.visible and prompt.input]


def said_in(prompt: Prompt) -> str:
    """Return what a prompt said, on one line."""
    return one_line(text_of(prompt.input.content)) if prompt.input else ""


def last_answer(conversation: Conversation) -> str | None:
    """Return the model's last words as it wrote them; None when it has said nothing yet."""
    texts = (
        message.text
        for message in reversed(conversation.messages())
        if isinstance(message, AssistantMessage) and message.error is None
    )
    return next((text for text in texts if text.strip()), None)
