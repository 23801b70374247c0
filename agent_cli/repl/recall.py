"""The folded transcript of a resumed conversation, shown first."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from agent_cli.contracts.messages import (
    AssistantMessage,
    Message,
    UserMessage,
    typed_in,
    whole_answer,
)
from agent_cli.contracts.timeline import (
    DiscardedOutput,
    Error,
    FileOutput,
    Json,
    Prompt,
    TextOutput,
    ToolOutput,
    WidgetOutput,
)
from agent_cli.contracts.wording import counted, one_line
from agent_cli.core.conversation import Conversation
from agent_cli.terminal.narration import side_output

EARLIER_ROWS_MAX: Final = 20
FOLDED_ROWS: Final = 2
_EXCHANGES_MAX: Final = 8
_CUT_MAX: Final = 5


class Exchange(NamedTuple):
    """A prompt, the number of its tool calls, and the answer."""

    prompt_text: str
    calls: int
    answer: str

    @property
    def called(self) -> str:
        """The number of tool calls in words; "" for none."""
        return counted(self.calls, "tool call") if self.calls else ""


class Earlier(NamedTuple):
    """A resumed conversation: its last exchange, with its answer whole, and the exchanges before.

    `about` tells the number of prompts; `left_out` is the number of oldest ones not shown; `cut`
    names the calls that ran when the program was killed, or says that the answer is not complete.
    """

    about: str
    left_out: int
    before: Sequence[Exchange]
    last: Exchange
    handed_over: Sequence[FileOutput | WidgetOutput]
    cut: Sequence[str] = ()


def earlier_in(conversation: Conversation) -> Earlier | None:
    """Return the shown part of a resumed conversation; None without a prompt."""
    prompts = typed_prompts(conversation)
    if not prompts:
        return None
    before = prompts[:-1][-_EXCHANGES_MAX:]
    since = _since(prompts[-1], conversation)
    replies = [message for message in since if isinstance(message, AssistantMessage)]
    last = _exchange(prompts[-1])._replace(answer=_last_text(since) or "")
    return Earlier(
        about=f"{counted(len(prompts), 'prompt')} so far:",
        left_out=len(prompts) - 1 - len(before),
        before=[_exchange(prompt) for prompt in before],
        last=last._replace(calls=0) if conversation.waiting else last,  # they are asked about
        handed_over=[
            out for out in prompts[-1].output if isinstance(out, FileOutput | WidgetOutput)
        ],
        cut=cut_rows(prompts[-1]) or _open_end(replies, is_waiting=bool(conversation.waiting)),
    )


def cut_rows(prompt: Prompt) -> Sequence[str]:
    """Return rows for the calls of *prompt* whose end was not observed; none without any."""
    cut = [
        one_line(" ".join([out.name, *_first_text(out.input)]))
        for out in prompt.output
        if isinstance(out, ToolOutput)
        and isinstance(out.result, Error)
        and out.started_at_ms is not None
        and out.ended_at_ms is None
    ]
    if not cut:
        return ()
    few = [f"  {call}" for call in cut[:_CUT_MAX]]
    more = [f"  and {len(cut) - _CUT_MAX} more"] if len(cut) > _CUT_MAX else []
    return ["the program ended while these ran; check what they did:", *few, *more]


def _open_end(replies: Sequence[AssistantMessage], *, is_waiting: bool) -> Sequence[str]:
    """Return a row that says why the answer is not complete; none if it is."""
    if replies and replies[-1].stop_reason == "aborted":
        return ["interrupted"]
    if is_waiting:
        return ()
    if replies and replies[-1].tool_calls:
        return ["the run ended before it had an answer"]
    if not replies:
        return ["no answer yet; your next prompt is sent together with this one"]
    return ()


def _since(prompt: Prompt, conversation: Conversation) -> Sequence[Message]:
    """Return the messages from *prompt* on, the last that the user typed."""
    messages = conversation.messages()
    content = prompt.input.content if prompt.input else ()
    begins = (
        at
        for at in reversed(range(len(messages)))
        if isinstance(message := messages[at], UserMessage) and message.content == content
    )
    return messages[next(begins, 0) :]


def _first_text(arguments: Json) -> Sequence[str]:
    """Return the first text of an input, such as a command or a path, if there is one."""
    values = arguments.values() if isinstance(arguments, dict) else ()
    return [value for value in values if isinstance(value, str)][:1]


def _exchange(prompt: Prompt) -> Exchange:
    calls = sum(isinstance(output, ToolOutput) for output in prompt.output)
    texts = [
        out.text
        for out in prompt.output
        if isinstance(out, TextOutput)
        or (isinstance(out, DiscardedOutput) and out.reason == "aborted")
    ]
    answer = next((text for text in reversed(texts) if text and text.strip()), "")
    return Exchange(prompt_line(prompt), calls, answer.strip())


def recalled(conversation: Conversation) -> str:
    """Return the transcript as lines: older answers folded, the last with its end; or ""."""
    earlier = earlier_in(conversation)
    if earlier is None:
        return ""
    rows = [earlier.about, *left_out_row(earlier)]
    for exchange in earlier.before:
        first, *more = exchange.answer.split("\n")
        folded = f" … {counted(len(more), 'more line')}" if more else ""
        rows.append(f"you> {exchange.prompt_text}")
        rows += [f"  {row}" for row in (exchange.called, f"{first}{folded}") if row]
    side = [row for out in earlier.handed_over for row in side_output(out).split("\n")]
    called = [f"  {earlier.last.called}"] if earlier.last.called else []
    begin = [*rows, f"you> {earlier.last.prompt_text}", *called, *side[-EARLIER_ROWS_MAX:]]
    answer = earlier.last.answer.split("\n") if earlier.last.answer else ()
    end = [*_the_end_of(answer), *earlier.cut]
    return "\n".join([*begin, *end]).rstrip()


def left_out_row(earlier: Earlier) -> list[str]:
    """Return the row with the number of prompts not shown, if any."""
    return [f"… {earlier.left_out} older: /export writes them all"] if earlier.left_out else []


def _the_end_of(rows: Sequence[str]) -> Sequence[str]:
    """Return the last of *rows*, with a mark for the rows left out."""
    return rows if len(rows) <= EARLIER_ROWS_MAX else ["…", *rows[-EARLIER_ROWS_MAX:]]


def typed_prompts(conversation: Conversation) -> list[Prompt]:
    """Return the prompts that the user typed, oldest first."""
    return [
        prompt
        for prompt in conversation.prompts
        if prompt.visible and prompt.input and prompt.input.is_typed
    ]


def prompt_line(prompt: Prompt) -> str:
    """Return the text of a prompt on one line."""
    return one_line(typed_in(prompt.input.content)) if prompt.input else ""


def last_answer(conversation: Conversation) -> str | None:
    """Return the text of the model's last answer; None if there is none yet."""
    return _last_text(conversation.messages())


def _last_text(messages: Sequence[Message]) -> str | None:
    for at in reversed(range(len(messages))):
        last = messages[at]
        if isinstance(last, AssistantMessage) and last.error is None and last.text.strip():
            answer = whole_answer(messages[: at + 1])
            return answer.text if answer else None
    return None
