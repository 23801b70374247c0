"""How an earlier conversation ended: what somebody who goes on with it wants to see first."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from agent_cli.contracts.messages import AssistantMessage
from agent_cli.contracts.timeline import FileOutput, Prompt, WidgetOutput, typed_in
from agent_cli.core.conversation import Conversation
from agent_cli.terminal.narration import one_line, side_output

EARLIER_ROWS_MAX: Final = 20


class Earlier(NamedTuple):
    """The last exchange of a conversation, and in `about` how many prompts it has."""

    about: str
    said: str
    handed_over: Sequence[FileOutput | WidgetOutput]
    answer: str


def earlier_in(conversation: Conversation) -> Earlier | None:
    """Return the last prompt, what its tools handed over, and the last answer; None without one."""
    prompts = typed_prompts(conversation)
    if not prompts:
        return None
    return Earlier(
        f"{len(prompts)} prompt{'' if len(prompts) == 1 else 's'} so far; the last one:",
        said_in(prompts[-1]),
        [out for out in prompts[-1].output if isinstance(out, FileOutput | WidgetOutput)],
        last_answer(conversation) or "",
    )


def recalled(conversation: Conversation) -> str:
    """Return the last exchange as lines, a long answer from its end; "" for a new conversation."""
    earlier = earlier_in(conversation)
    if earlier is None:
        return ""
    rows = [row for out in earlier.handed_over for row in side_output(out).split("\n")]
    begin = [earlier.about, f"you> {earlier.said}", *rows[-EARLIER_ROWS_MAX:]]
    return "\n".join([*begin, *the_end_of(earlier.answer.split("\n"))]).rstrip()


def the_end_of(rows: Sequence[str]) -> Sequence[str]:
    """Return the last of *rows*, and a mark for what is left out."""
    return rows if len(rows) <= EARLIER_ROWS_MAX else ["…", *rows[-EARLIER_ROWS_MAX:]]


def typed_prompts(conversation: Conversation) -> list[Prompt]:
    """Return the prompts that somebody typed, oldest first."""
    return [prompt for prompt in conversation.prompts if prompt.visible and prompt.input]


def said_in(prompt: Prompt) -> str:
    """Return what a prompt said, on one line."""
    return one_line(typed_in(prompt.input.content)) if prompt.input else ""


def last_answer(conversation: Conversation) -> str | None:
    """Return the model's last words as it wrote them; None when it has said nothing yet."""
    texts = (
        message.text
        for message in reversed(conversation.messages())
        if isinstance(message, AssistantMessage) and message.error is None
    )
    return next((text for text in texts if text.strip()), None)
