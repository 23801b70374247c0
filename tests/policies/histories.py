"""Conversations of every shape, turns to hand to a policy, and a strategy that calls no model."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from hypothesis import settings
from hypothesis import strategies as st

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import ModelError, Trouble
from agent_cli.contracts.events import Event, EventSink, Notice
from agent_cli.contracts.messages import CustomMessage, LlmMessage, Message, UserMessage
from agent_cli.contracts.provider import Model, ModelRequest, Reply
from agent_cli.contracts.timeline import Block, FileOutput, Success, Usage, text_block
from agent_cli.contracts.tooling import Tool
from agent_cli.core.api_messages import to_api
from agent_cli.core.conversation import Conversation
from agent_cli.core.loop_config import LoopConfig
from agent_cli.core.run import ChatStateMachine
from agent_cli.core.turn import Turn
from agent_cli.policies.accounts import Spent
from agent_cli.policies.compaction import Summary
from tests.fakes import MODEL, tool_use

REPEATABLE = settings(derandomize=True)

Step: TypeAlias = Literal["user", "steer", "trigger", "aborted", "refused", "note", "file"] | int
"""Something that happened; a number is a reply with so many calls, each answered."""

_KINDS: list[Step] = ["user", "user", "steer", "trigger", "aborted", "refused", "note", "file"]
steps: st.SearchStrategy[Step] = st.one_of(
    st.sampled_from(_KINDS),
    st.integers(0, 3),
    st.integers(0, 3),
)
histories = st.lists(steps, max_size=25)


def conversation_with(happened: Sequence[Step], *, last: str | None = "last") -> Conversation:
    """Return a conversation with all kinds of entries, and the user's new message *last*."""
    conversation = Conversation()
    for index, step in enumerate(happened):
        _happen(conversation, step, f"{index} " + "word " * index)
    if last:
        conversation.begin(UserMessage.of(last))
    return conversation


def _happen(conversation: Conversation, step: Step, text: str) -> None:
    match step:
        case "user":
            conversation.begin(UserMessage.of(text))
        case "steer":
            conversation.add_user(UserMessage.of(text))
        case "trigger":
            conversation.begin()
        case "aborted" | "refused":
            conversation.begin(UserMessage.of(text))
            reason = "aborted" if step == "aborted" else "refusal"
            conversation.discard_reply(text, reason)
            conversation.complete()
        case "note":
            conversation.note(CustomMessage("note", {"text": text}))
        case "file" | int():
            calls = 1 if step == "file" else step
            _reply(conversation, text, calls=calls, file=step == "file")


def _reply(conversation: Conversation, text: str, *, calls: int, file: bool) -> None:
    if not conversation.prompts:
        conversation.begin()
    blocks = [tool_use("look", {"at": text}, f"t{text}{n}") for n in range(calls)]
    reason = "tool_use" if calls else "end_turn"
    reply = Reply("msg", MODEL.id, (text_block(text), *blocks), reason)
    conversation.add_reply(reply)
    for call in conversation.open_calls():
        if file:
            output = FileOutput(text, 0, call.tool_call_id, "a.png", "image/png", "a picture")
            conversation.attach(output)
        conversation.settle_call(call.tool_call_id, Success((text_block(f"saw {text}"),)))


def sent(conversation: Conversation) -> list[Block]:
    """Return the messages of the next request as the API would get them."""
    return to_api(llm(conversation.context()))


def llm(messages: Sequence[Message]) -> list[LlmMessage]:
    return [message for message in messages if not isinstance(message, CustomMessage)]


@dataclass
class Listener:
    """An event sink that keeps its events."""

    events: list[Event] = field(default_factory=list[Event])

    def __call__(self, event: Event) -> None:
        self.events.append(event)

    @property
    def warnings(self) -> list[str]:
        return [e.text for e in self.events if isinstance(e, Notice) and e.level == "warning"]


def turn_of(
    conversation: Conversation,
    emit: EventSink | None = None,
    *,
    model: Model = MODEL,
    system: str = "",
    tools: Sequence[Tool] = (),
    cancel: CancelToken | None = None,
    overflow: bool = False,
) -> Turn:
    """Return a turn just before its model call."""
    return Turn(
        config=LoopConfig(model=model, system_prompt=system, tools=tools, convert_to_llm=llm),
        conversation=conversation,
        emit=emit or Listener(),
        cancel=cancel or CancelToken(),
        phase=ChatStateMachine(),
        overflow=overflow,
    )


@dataclass
class FixedStrategy:
    """An external strategy: the same summary each time, or a failure, or nothing."""

    text: str = "what was"
    usage: Usage = field(default_factory=Usage)
    failures: int = 0
    error: str = "the server is gone"
    trouble: Trouble | None = None
    asked: list[list[Message]] = field(default_factory=list[list[Message]])
    focus: str | None = None
    requests: list[ModelRequest | None] = field(default_factory=list["ModelRequest | None"])

    async def summarize(
        self,
        messages: Sequence[Message],
        *,
        model: Model,
        focus: str,
        emit: EventSink,
        request: ModelRequest | None = None,
        entries: str = "",
        spent: Spent,
    ) -> Summary:
        self.asked.append(list(messages))
        self.requests.append(request)
        self.focus = focus
        if self.failures:
            self.failures -= 1
            raise ModelError(self.error, trouble=self.trouble)
        spent(self.usage)
        return Summary(self.text, self.usage)
