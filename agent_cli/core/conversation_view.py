"""Read-only queries on a conversation: messages, open calls, questions."""

from agent_cli.contracts.errors import ConversationError
from agent_cli.contracts.messages import (
    AssistantMessage,
    Incoming,
    Message,
    ToolResultMessage,
    UserMessage,
)
from agent_cli.contracts.timeline import Pending, ReplyOutput, ToolOutput
from agent_cli.core import projection
from agent_cli.core.incoming import check_content
from agent_cli.core.recorded_calls import Record


class ConversationView(Record):
    """The view of a record for code that runs, shows or resumes it."""

    @property
    def waiting(self) -> bool:
        """True while a person has to decide about a call."""
        return bool(self._prompts) and self._prompts[-1].state == "waiting_for_approval"

    def messages(self) -> list[Message]:
        """Return every message, for people."""
        return list(projection.messages(projection.entries(self._prompts)))

    def context(self) -> list[Message]:
        """Return the messages of the next request."""
        return projection.context(self._prompts)

    def open_calls(self) -> list[ToolOutput]:
        """Return the calls of the last reply that have no result yet, in call order."""
        found: list[ToolOutput] = []
        reply_id = None
        for output in reversed(self._prompts[-1].output if self._prompts else ()):
            if isinstance(output, ReplyOutput):
                if reply_id is not None:
                    break
                reply_id = output.reply_id
            elif isinstance(output, ToolOutput) and isinstance(output.result, Pending):
                found.append(output)
        return found[::-1]

    def questions(self) -> list[ToolOutput]:
        """Return the calls a person must decide about, in call order."""
        waiting = [(c, c.result) for c in self.open_calls() if isinstance(c.result, Pending)]
        return [call for call, held in waiting if held.why == "approval"]

    def require_ready_for(self, message: Incoming | None) -> None:
        """Raise `ConversationError` if a call waits for a decision, or *message* cannot be sent."""
        if isinstance(message, UserMessage):
            check_content(message)
        if self.waiting:
            waiting = ", ".join(call.tool_call_id for call in self.questions())
            raise ConversationError(f"a decision is due first: approve or reject {waiting}")

    def call(self, tool_call_id: str) -> ToolOutput:
        """Return a call by its id.

        Raises:
            ConversationError: There is none.
        """
        try:
            prompt, index = self._find_call(tool_call_id)
        except LookupError:
            raise ConversationError(
                f"there is no tool call {tool_call_id!r} in this conversation"
            ) from None
        call = prompt.output[index]
        assert isinstance(call, ToolOutput)
        return call

    def last_reply(self) -> AssistantMessage:
        """Return the message of the last complete reply."""
        return projection.last_reply(self._prompts[-1].output)[0]

    def results_of_last_reply(self) -> list[ToolResultMessage]:
        """Return the results of the last complete reply's calls, in call order."""
        return projection.last_reply(self._prompts[-1].output)[1]
