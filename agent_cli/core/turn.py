"""The inputs of one turn, rebuilt from the options before every model call."""

from collections.abc import Sequence

from agent_cli.contracts.authors import PROGRAM
from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import AgentCliError
from agent_cli.contracts.events import EventSink, MessageEnd, MessageStart
from agent_cli.contracts.messages import Message, UserMessage
from agent_cli.contracts.provider import Model
from agent_cli.contracts.timeline import Block
from agent_cli.contracts.tooling import Tool
from agent_cli.core.conversation import Conversation
from agent_cli.core.loop_config import LoopConfig
from agent_cli.core.run import ChatStateMachine
from agent_cli.system.records import dataclass, field


@dataclass(slots=True)
class Turn:
    """The inputs of one turn; `prepare` contributors change them.

    `system[0]` is the stable part; appended parts come after the cached prefix. `overflow` is True
    when the last call did not fit into the model's window.
    """

    config: LoopConfig
    conversation: Conversation
    emit: EventSink
    cancel: CancelToken
    phase: ChatStateMachine
    overflow: bool
    tools: list[Tool] = field(init=False)
    system: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self.tools = list(self.config.tools)
        self.system = [self.config.system_prompt] if self.config.system_prompt else []

    @property
    def model(self) -> Model:
        """The model to ask."""
        if self.config.model is None:
            raise AgentCliError("no model is set: give the agent one")
        return self.config.model

    def tell_model(self, text: str, *, author: str = PROGRAM, blocks: Sequence[Block] = ()) -> None:
        """Append a message that the user did not type to the conversation; no call may be open.

        *author* names the part of the program, or the plugin, that wrote *text*; *blocks* follow.
        """
        recorded = self.conversation.add_user(UserMessage.of(text, blocks, author=author))
        emit_message(self.emit, recorded)


def emit_message(emit: EventSink, message: Message) -> None:
    """Publish a message that is complete when it begins."""
    emit(MessageStart(message))
    emit(MessageEnd(message))
