"""The one mutable object: the timeline, changed only by operations that keep it projectable.

Every change is published as an event the moment it is made, so that a session store that listens
has it on disk before anything else happens. Nothing here does I/O.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from contextlib import AbstractContextManager
from dataclasses import replace

from agent_cli.contracts.errors import ConversationError
from agent_cli.contracts.events import Event, EventSink, Notice, UsageHeld
from agent_cli.contracts.frozen import same_json
from agent_cli.contracts.messages import (
    WITHDRAWN,
    AssistantMessage,
    CustomMessage,
    Incoming,
    Message,
    ToolResultMessage,
    UserMessage,
    new_id,
)
from agent_cli.contracts.options import require, require_input
from agent_cli.contracts.provider import Model, Reply
from agent_cli.contracts.timeline import (
    NO_USAGE,
    UNKNOWN_MODEL,
    Block,
    BlockOutput,
    CallDecision,
    CompactionOutput,
    CustomOutput,
    DiscardedOutput,
    Error,
    FileOutput,
    Json,
    Output,
    Pending,
    Prompt,
    PromptState,
    ReplyOutput,
    Success,
    TextOutput,
    ThinkingOutput,
    ToolOutput,
    TrimOutput,
    Usage,
    UserOutput,
    WidgetOutput,
    text_block,
)
from agent_cli.contracts.wording import UNANSWERED, UNANSWERED_QUESTION
from agent_cli.core import projection
from agent_cli.core.incoming import check_content, checked_incoming
from agent_cli.core.record import Record
from agent_cli.system.logger import logger

_log = logger(__name__)

_BLOCK_OUTPUTS = {"text": TextOutput, "thinking": ThinkingOutput, "tool_use": ToolOutput}


class Conversation:
    """A timeline whose projection the API accepts whenever no call is open.

    A reply enters whole or not at all; each of its tool calls has exactly one result, pending until
    it is settled; outputs are appended to the prompt that is running.
    """

    def __init__(
        self, prompts: Iterable[Prompt] = (), *, id: str | None = None, user_id: str = "local"
    ) -> None:
        self.publish: EventSink = lambda _event: None
        self.taken_back = NO_USAGE  # the cost of prompts that were rewound
        self._record = Record(prompts, self._publish)
        self.id = id or new_id()
        self.user_id = user_id
        self.once = False  # whether the model is chosen for the next prompt alone
        self._reports: list[Notice] = []

    def _publish(self, event: Event) -> None:
        self.publish(event)  # a method, as a copy has its own

    @property
    def prompts(self) -> Sequence[Prompt]:
        """All prompts, oldest first. Read only."""
        return self._record.prompts

    @property
    def between_replies(self) -> Sequence[Output]:
        """The entries that are no part of a reply, nor beside a call, oldest first. Read only."""
        return self._record.between_replies

    @property
    def usage(self) -> Usage:
        """Usage of the whole conversation, rewound prompts included."""
        return projection.usage_of(self.prompts, self.taken_back)

    @property
    def waiting(self) -> bool:
        """True while a person has to decide about a call."""
        return bool(self.prompts) and self.prompts[-1].state == "waiting_for_approval"

    def shown(self) -> Sequence[Output]:
        """Return the entries that the next request shows; see `projection.shown`."""
        return self._record.shown()

    def context(self) -> list[Message]:
        """Return the messages of the next request; a message that stays is the same object."""
        return self._record.context()

    def messages(self) -> list[Message]:
        """Return every message, for people."""
        return list(projection.messages(projection.entries(self.prompts)))

    def has_call(self, tool_call_id: str) -> bool:
        """Return whether a tool call of a prompt that was not rewound has this id."""
        return tool_call_id in self._record.call_ids

    def call(self, tool_call_id: str) -> ToolOutput:
        """Return a call by its id; raise `ConversationError` if there is none."""
        return self._record.call(tool_call_id)

    def open_calls(self) -> list[ToolOutput]:
        """Return the calls of the last reply that have no result yet, in call order."""
        return self._record.open_calls()

    def questions(self) -> list[ToolOutput]:
        """Return the calls a person must decide about, in call order."""
        return [call for call in self.open_calls() if _waits_for_approval(call)]

    def require_ready_for(self, message: Incoming | None) -> None:
        """Raise `ConversationError` if a call waits for a decision, or *message* cannot be sent."""
        if isinstance(message, UserMessage):
            check_content(message)
        if self.waiting:
            waiting = ", ".join(call.tool_call_id for call in self.questions())
            raise ConversationError(f"a decision is due first: approve or reject {waiting}")

    def last_reply(self) -> AssistantMessage:
        """Return the message of the last complete reply."""
        return projection.last_reply(self.prompts[-1].output)[0]

    def results_of_last_reply(self) -> list[ToolResultMessage]:
        """Return the results so far of the last complete reply's calls, in call order."""
        last = self.prompts[-1:]
        return projection.last_reply(last[0].output)[1] if projection.has_reply(last) else []

    def set_state(self, state: PromptState) -> None:
        """Move the last prompt to *state*; raise `ConversationError` if it cannot get there."""
        self._record.set_state(state)

    def complete(self) -> None:
        """Mark the last prompt as completed, if it is running."""
        self._record.complete()

    def now(self) -> int:
        """Return the Unix time in ms, never before the last entry's if the clock stepped back."""
        return self._record.now()

    def dated(self, at_ms: int) -> AbstractContextManager[None]:
        """Give entries recorded in the body the Unix time *at_ms*."""
        return self._record.dated(at_ms)

    def begin(
        self,
        message: UserMessage | None = None,
        *,
        model: Model | None = None,
        visible: bool = True,
    ) -> Prompt:
        """Start a prompt, the system's own without *message*; raises as `require_ready_for`."""
        self.require_ready_for(message)
        self.answer_open_calls()
        self.complete()
        at_ms = self.now()
        entry = UserOutput(new_id(), at_ms, message.content, message.author) if message else None
        asked = model.id if model else UNKNOWN_MODEL
        prompt = Prompt(new_id(), self.user_id, asked, at_ms, visible, input=entry, once=self.once)
        self._record.start(prompt)
        return prompt

    def add_user(self, message: Incoming, *, model: Model | None = None) -> Incoming:
        """Append a steering message to the running prompt, or start a prompt with it.

        A refused prompt takes no message: the message would be left out of the context with it.

        Returns:
            The message as it is recorded, with the time it arrived.

        Raises:
            ConversationError: It cannot be sent.
        """
        message = checked_incoming(message)
        last = self.prompts[-1] if self.prompts else None
        is_new = last is None or last.state == "completed" or projection.is_refused(last)
        if isinstance(message, CustomMessage):
            if is_new:
                self.begin(model=model)
            return self.note(message)
        if is_new:
            entry = self.begin(message, model=model).input
        else:
            entry = UserOutput(new_id(), self.now(), message.content, message.author)
            self._record.append(entry)
        assert entry is not None
        return UserMessage(entry.content, entry.at_ms, entry.author)

    def add_reply(self, reply: Reply) -> None:
        """Append a complete reply; its calls are pending."""
        at_ms, reply_id = self.now(), new_id()
        for block in reply.content:
            kind = _BLOCK_OUTPUTS.get(str(block["type"]), BlockOutput)
            unique = _unique(block, self._record.call_ids)
            self._record.append(kind(new_id(), at_ms, reply_id, unique))
        self.prompts[-1].usage += reply.billed
        facts = (reply.model, reply.stop_reason, reply.usage, reply.request_id, reply.beside)
        self._record.append(ReplyOutput(new_id(), at_ms, reply_id, *facts, message_id=reply.id))

    def discard_reply(
        self, text: str, reason: str, *, error: str | None = None, usage: Usage = NO_USAGE
    ) -> AssistantMessage:
        """Record a reply that is not part of the history, and its cost."""
        self.prompts[-1].usage += usage
        output = DiscardedOutput(new_id(), self.now(), text, reason, error)
        self._record.append(output)
        [message] = projection.messages([output])
        assert isinstance(message, AssistantMessage)
        return message

    def add_usage(self, usage: Usage) -> None:
        """Count usage of a call that is no reply, such as one that wrote a summary."""
        prompt = self.prompts[-1]
        prompt.usage += usage
        self.publish(UsageHeld(prompt.id, prompt.usage.held_microdollars))

    def hold(self, microdollars: int, prompt_id: str) -> None:
        """Reserve the possible cost of a call until its usage is added; negative releases."""
        prompt = next(prompt for prompt in reversed(self.prompts) if prompt.id == prompt_id)
        prompt.usage += Usage(held_microdollars=microdollars)
        self.publish(UsageHeld(prompt_id, prompt.usage.held_microdollars))

    def start_call(
        self, tool_call_id: str, *, asks_person: bool = False, only_reads: bool = False
    ) -> None:
        """Record that a tool is about to run: from now on it may have had an effect.

        A call that *only_reads* or only asks a person has no effect; a question stays pending
        until it is answered.
        """
        call = replace(self.call(tool_call_id), started_at_ms=self.now())
        if asks_person:
            call = replace(call, result=Pending("approval", UNANSWERED_QUESTION))
        self._record.replace(call, only_reads=only_reads)

    def pause(self, questions: Mapping[str, str]) -> None:
        """Let the open calls wait for a person's decisions.

        *questions* has the id and the reason of each that needs one; the others wait behind them.
        """
        for call in self.open_calls():
            if call.decision:  # keep its reason: a decision is neither lost nor asked for twice
                continue
            reason = questions.get(call.tool_call_id)
            if reason is None:
                paused = replace(call, result=Pending("deferred"))
            else:
                result = Pending("approval", reason)
                paused = replace(call, result=result, asked_reason=reason, asked_at_ms=self.now())
            self._record.replace(paused)
        self.set_state("waiting_for_approval")

    def decide_call(
        self, tool_call_id: str, decision: CallDecision, reason: str = "", *, edited: Json = None
    ) -> bool:
        """Record a person's decision; False when the call does not wait for one, or no longer does.

        *edited* is the input to run with instead of the one shown; None keeps the one shown.

        Raises:
            ConversationError: There is no such call.
            AgentCliError: *edited* is no JSON object, or *reason* no text.
        """
        require(reason, str, what="the reason of a decision")
        require_input(edited, what="the edited input of a call")
        call = self.call(tool_call_id)
        if not _waits_for_approval(call):
            return False
        is_kept = edited is None or same_json(edited, call.input)
        used = call.edited_input if is_kept else edited
        decided = replace(call, result=Pending("queued", reason), edited_input=used)
        self._record.replace(replace(decided, decision=decision, decided_at_ms=self.now()))
        return True

    def change_input(self, tool_call_id: str, used: Json) -> ToolOutput:
        """Let an open call run with *used* in place of the model's input; return it."""
        call = self.call(tool_call_id)
        if not same_json(used, call.input):
            call = replace(call, edited_input=used)
            self._record.replace(call)
        return call

    def settle_call(self, tool_call_id: str, result: Success | Error) -> ToolOutput:
        """Record the result of a call; a second result is ignored."""
        call = self.call(tool_call_id)
        if isinstance(call.result, Pending):
            call = replace(call, result=result, ended_at_ms=self.now())
            self._record.replace(call)
        return call

    def attach(self, output: FileOutput | WidgetOutput) -> None:
        """Insert a side output behind its call's entry and the side outputs already there.

        An output without an id gets an id and the time, because tools know neither.
        """
        if not output.id:
            output = replace(output, id=new_id(), at_ms=self.now())
        self._record.attach(output)

    def compact(
        self,
        summary: str,
        first_kept_id: str | None,
        *,
        tokens: tuple[int, int] = (0, 0),
        words: str = "",
        signed: Json = None,
    ) -> None:
        """Project *summary* and the user's *words* in place of all before *first_kept_id*.

        Raises:
            ConversationError: No entry has that id.
        """
        if first_kept_id is not None:
            self._record.require_entry(first_kept_id)
        made = (summary, first_kept_id, *tokens, words, signed)
        self._record.append(CompactionOutput(new_id(), self.now(), *made))

    def uncompact(self) -> bool:
        """Restore the whole history to the model's context; False when nothing is left out."""
        marks = self.between_replies
        cuts = [out for out in marks if isinstance(out, CompactionOutput | TrimOutput)]
        if left_out := bool(cuts) and cuts[-1].first_kept_id is not None:
            self.compact("", None)
        return left_out

    def trim(self, first_kept_id: str, *, removed_messages: int, note: str = "") -> None:
        """Project *note* for all before *first_kept_id*, after any summary; raises as `compact`."""
        self._record.require_entry(first_kept_id)
        self._record.append(TrimOutput(new_id(), self.now(), first_kept_id, removed_messages, note))

    def note(self, message: CustomMessage) -> CustomMessage:
        """Append an entry of a kind the core does not know; return the recorded entry."""
        if not self.prompts:
            self.begin(visible=False)
            self.complete()
        entry = CustomOutput(new_id(), self.now(), message.role, message.data)
        self._record.append(entry)
        return CustomMessage(entry.name, entry.data, entry.at_ms)

    def withdraw(self, entry: UserOutput, error: str) -> bool:
        """Leave *entry*, which was not sent, out of the context; return whether a request is left.

        If *entry* is the input of the last prompt, the whole prompt counts as refused, for *error*.
        """
        if entry is self.prompts[-1].input:
            self.discard_reply("", "refusal", error=error)
            return False
        self.note(CustomMessage(WITHDRAWN, {"entry": entry.id}))
        return True

    def answer_open_calls(self) -> None:
        """Answer open calls with the user's rejection, or else an error, and report that."""
        open_calls = self.open_calls()
        for call in open_calls:
            refused = call.result if call.decision == "rejected" else None
            reason = refused.reason if isinstance(refused, Pending) else UNANSWERED
            self.settle_call(call.tool_call_id, Error((text_block(reason),)))
        if open_calls:
            ids = [call.tool_call_id for call in open_calls]
            _log.warning("history repaired", tool_call_ids=ids)
            warning = f"calls without a result were answered with an error: {', '.join(ids)}"
            self._reports.append(Notice("warning", warning))

    def take_reports(self) -> list[Notice]:
        """Return the pending reports about repairs, each once."""
        reports, self._reports = self._reports, []
        return reports


def _waits_for_approval(call: ToolOutput) -> bool:
    return isinstance(call.result, Pending) and call.result.why == "approval"


def _unique(block: Block, taken: Set[str]) -> Block:
    """Give a tool call a new id if the server sent none, or sent a used one."""
    if block["type"] == "tool_use" and (not block.get("id") or block["id"] in taken):
        return block | {"id": f"toolu_{new_id()}"}
    return block
