"""The messages of a request that `wire` assembles, with system messages and signed summaries.

Until a system message is placed, a mark in the user's messages stands for it: neighbours of one
role become one message first. The API takes a system message only behind the whole of a user's
turn, and no two in a row. There it stays, so that a later message changes nothing that is cached.

An effort beside the messages would be part of each cached prompt. One in such a message holds from
the user's turn before it until the next one; the request itself then names none.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from operator import is_
from typing import Final

from agent_cli.contracts.found_tools import REFERENCE, hosted_in
from agent_cli.contracts.frozen import is_frozen
from agent_cli.contracts.messages import AssistantMessage, LlmMessage, UserMessage
from agent_cli.contracts.options import ThinkingLevel
from agent_cli.contracts.provider import Model, ModelRequest
from agent_cli.contracts.timeline import Block, Json, text_block
from agent_cli.contracts.tooling import ToolSpec
from agent_cli.core.api_messages import to_api
from agent_cli.providers.anthropic.accepted_history import FALLBACK, accepted
from agent_cli.providers.anthropic.betas import (
    COMPACTION,
    INLINE_TOOLS,
    SERVER_FALLBACK,
    SYSTEM_MESSAGES,
    TOOL_CHANGES,
    TOOL_REFERENCES,
    Beta,
)
from agent_cli.providers.anthropic.hosted_tools import hosted_request
from agent_cli.providers.anthropic.models import EFFORTS, standard_id, with_known_facts
from agent_cli.providers.anthropic.sent_images import holds_media
from agent_cli.providers.found_tools import refers, with_found
from agent_cli.providers.hosted_history import is_hosted
from agent_cli.system.records import dataclass
from agent_cli.system.shapes import objects_in

EFFORT_MARK: Final = "effort"
_NOTICE_MARK: Final = "notice"
_MARKS: Final = (EFFORT_MARK, _NOTICE_MARK)


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageForm:
    """The facts, beside the messages, that their form depends on."""

    model: Model
    betas: frozenset[Beta]
    compat: bool
    has_efforts: bool


@dataclass(frozen=True, slots=True)
class MadeMessages:
    """The messages of the API and the definitions of the tools, and what the messages hold.

    All that follow depend on the `referring` ones, kept as they were without any definition.
    """

    messages: Sequence[Block]
    tools: Sequence[Block] = ()
    referring: Sequence[Block] = ()
    has_media: bool = False
    adds_tools: bool = False
    changes_tools: bool = False
    has_fallback: bool = False

    def followed_by(
        self, messages: Sequence[Block], tools: Sequence[Block], referring: Sequence[Block]
    ) -> "MadeMessages":
        """Return these messages and then *messages*, with *tools*; *referring* are new ones."""
        return MadeMessages(
            messages=[*self.messages, *messages],
            tools=tools,
            referring=[*self.referring, *referring],
            has_media=self.has_media or any(map(holds_media, messages)),
            adds_tools=self.adds_tools or any(map(_adds_tools, messages)),
            changes_tools=self.changes_tools or any(map(_changes_tools, messages)),
            has_fallback=self.has_fallback or any(map(_has_fallback, messages)),
        )


@dataclass(frozen=True, slots=True)
class _Beginning:
    """The messages before the last reply of a request, and what was made of them."""

    form: MessageForm
    tools: Sequence[ToolSpec]
    history: Sequence[LlmMessage]
    made: MadeMessages

    def begins(self, request: ModelRequest, form: MessageForm) -> bool:
        """Return whether *request* begins with the same objects, for an equal *form*."""
        same = (self.form, self.tools) == (form, request.tools)
        is_longer = len(self.history) < len(request.messages)
        return same and is_longer and all(map(is_, self.history, request.messages))

    def rest(self, request: ModelRequest) -> ModelRequest:
        """Return *request* without these messages."""
        return replace(request, messages=request.messages[len(self.history) :])


_NOTHING: Final = MadeMessages(())
_CONVERSATIONS_MAX: Final = 4


class Translated:
    """The beginnings of the last conversations, so that a request makes only what follows.

    A reply begins a new message of the API, and what is made of a message depends on those of its
    own turn. Where more decides, all is made anew: with tools that the API runs, for new references
    to tools, and for efforts once there is a new message of the user. Messages of a program that it
    may still change in place are not kept either. Threads may share it.
    """

    def __init__(self) -> None:
        self._kept: tuple[_Beginning, ...] = ()

    def made(self, request: ModelRequest, form: MessageForm) -> MadeMessages:
        """Make the messages of *request*."""
        if any(tool.hosted for tool in request.tools):
            return _NOTHING.followed_by(*_conversation(request, form))
        kept = self._kept
        known = next((each for each in kept if each.begins(request, form)), None)
        before, rest = _NOTHING, request
        if known and _is_made_alone(known.rest(request).messages, form):
            before, rest = known.made, known.rest(request)
        messages, definitions, referring = _conversation(rest, form, before.referring)
        if rest is not request and not _begins_with_reply(messages):
            before, rest = _NOTHING, request
            messages, definitions, referring = _conversation(rest, form)
        made = before.followed_by(messages, definitions, referring)
        if found := _until_last_reply(rest, form, messages, made.referring):
            count, of = found
            beginning = before.followed_by(messages[:of], (), referring)
            new = len(request.messages) - len(rest.messages)
            history = request.messages[: new + count]
            first = _Beginning(form, request.tools, history, beginning)
            others = [each for each in kept if each is not known]
            self._kept = (first, *others[: _CONVERSATIONS_MAX - 1])
        return made


def _until_last_reply(
    request: ModelRequest, form: MessageForm, messages: list[Block], referring: Sequence[Block]
) -> tuple[int, int] | None:
    """Return how many messages stand before the last reply, and how many *messages* they became.

    None if there are none, if one may change, or if more than a turn decides about their form.
    """
    history = request.messages
    is_reply = [isinstance(each, AssistantMessage) for each in history]
    begins = (at for at in range(1, len(history)) if is_reply[at] and not is_reply[at - 1])
    at = max(begins, default=0)
    is_more = is_hosted(history) or hosted_in(history) or any(map(_refers, history[at:]))
    if not at or is_more or not all(map(_is_fixed, history[:at])):
        return None
    last, _, _ = _conversation(replace(request, messages=history[at:]), form, referring)
    of = len(messages) - len(last)
    is_clear = 0 < of < len(messages) and messages[of - 1]["role"] != "assistant"
    return (at, of) if is_clear and messages[of:] == last and _begins_with_reply(last) else None


def _begins_with_reply(messages: Sequence[Block]) -> bool:
    return bool(messages) and messages[0]["role"] == "assistant"


def _is_made_alone(history: Sequence[LlmMessage], form: MessageForm) -> bool:
    """Return whether the form of *history* depends on nothing before it."""
    return not any(
        _refers(each) or (isinstance(each, UserMessage) and (form.has_efforts or each.signed))
        for each in history
    )


def _is_fixed(message: LlmMessage) -> bool:
    """Return whether nothing in *message* can change, as in a deep copy of the record."""
    signed = message.signed if isinstance(message, UserMessage) else None
    return all(map(is_frozen, message.content)) and (not signed or is_frozen(signed.block))


def _refers(message: LlmMessage) -> bool:
    return any(block["type"] == REFERENCE for block in message.content)


def _conversation(
    request: ModelRequest, form: MessageForm, earlier: Sequence[Block] = ()
) -> tuple[list[Block], list[Block], list[Block]]:
    """Return messages of the API, definitions, and those messages that refer to tools.

    *earlier* are such messages before them.
    """
    betas = form.betas
    hosted = hosted_request(request.messages, request.tools, betas)
    marks_fallbacks = SERVER_FALLBACK in betas
    history = accepted(hosted.messages, compat=form.compat, marks_fallbacks=marks_fallbacks)
    if COMPACTION in betas:
        history = with_signed_summary(history, model_id=request.model.id)
    if SYSTEM_MESSAGES in betas:
        history = with_notice_marks(history)
    if form.has_efforts:
        model = with_known_facts(request.model)
        history = with_effort_marks(history, model=model, level=request.thinking_level)
    made = to_api(history)
    messages, tools = with_found(
        made,
        hosted.tools,
        earlier,
        tool_references=TOOL_REFERENCES in betas,
        tool_changes=TOOL_CHANGES in betas,
        inline_tools=INLINE_TOOLS in betas,
    )
    definitions = hosted.with_definitions(tools)
    return with_system_messages(messages), definitions, [*filter(refers, made)]


def _has_fallback(message: Block) -> bool:
    """Return whether one model began the reply *message* and another ended it."""
    return any(block["type"] == FALLBACK for block in objects_in(message["content"]))


def _adds_tools(message: Block) -> bool:
    """Return whether *message* adds tools that it defines."""
    return any("definition" in tool for tool in _tools_in(message))


def _changes_tools(message: Block) -> bool:
    """Return whether *message* withdraws tools, or offers them again."""
    return any("definition" not in tool for tool in _tools_in(message))


def _tools_in(message: Block) -> Iterator[Mapping[str, Json]]:
    """Yield the tools that *message* adds or withdraws, as a notice or as a signed summary does."""
    content = message["content"]
    for block in content if isinstance(content, list) else []:
        match block:
            case {"type": "tool_addition" | "tool_removal", "tool": dict(tool)}:
                yield tool
            case {"type": "compaction", "tool_changes": list(changes)}:
                yield from _tools_in({"content": changes})
            case _:
                pass


def with_notice_marks(messages: Sequence[LlmMessage]) -> tuple[LlmMessage, ...]:
    """Return *messages* with the texts of notices as marks; `with_system_messages` uses them."""
    return tuple(
        replace(each, content=tuple(map(_marked, each.content)))
        if isinstance(each, UserMessage) and each.is_notice
        else each
        for each in messages
    )


def messages_of(sent: Mapping[str, Json]) -> list[Block]:
    """Return the messages of a request, *sent* as its parameters."""
    return objects_in(sent["messages"])


def with_system_messages(messages: Sequence[Block]) -> list[Block]:
    """Return *messages* of the API with a message of the system's for the marks of each."""
    return list(_placed(messages))


def _placed(messages: Sequence[Block]) -> Iterator[Block]:
    waiting = _SystemMessage()
    for message in messages:
        if message["role"] == "system":  # it adds tools
            yield waiting.joined(message)
            waiting = _SystemMessage()
            continue
        yield from waiting.made()
        waiting = _SystemMessage()
        yield waiting.taken_from(message)
    yield from waiting.made()


class _SystemMessage:
    """The message that the marks of one message become."""

    def __init__(self) -> None:
        self._texts: list[Json] = []
        self._config: Json = None

    def taken_from(self, message: Block) -> Block:
        """Take the marks of *message*; return it without them."""
        content = message["content"]
        assert isinstance(content, list)
        if not any(isinstance(block, dict) and block["type"] in _MARKS for block in content):
            return message
        kept: list[Json] = []
        for block in content:
            match block:
                case {"type": "effort", "effort": level}:
                    self._config = {"effort": level}
                case {"type": "notice", "text": str(text)} if kept:
                    self._texts.append(text_block(text))
                case {"type": "notice", "text": str(text)}:
                    kept.append(text_block(text))  # behind nothing of the user's
                case _:
                    kept.append(block)
        return {**message, "content": kept}

    def joined(self, message: Block) -> Block:
        """Return *message* of the system's, with what was taken before it."""
        content = message["content"]
        assert isinstance(content, list)
        joined: Block = {**message, "content": [*self._texts, *content]}
        return joined if self._config is None else {**joined, "output_config": self._config}

    def made(self) -> Iterator[Block]:
        """Yield the message, if there is anything for it to say."""
        if self._texts or self._config is not None:
            yield self.joined({"role": "system", "content": []})


def _marked(block: Block) -> Block:
    return {**block, "type": _NOTICE_MARK} if block["type"] == "text" else block


def states_effort(messages: Sequence[LlmMessage]) -> bool:
    """Return whether *messages* say at which effort they were answered."""
    return any(isinstance(each, UserMessage) and each.effort is not None for each in messages)


def with_effort_marks(
    messages: Sequence[LlmMessage], *, model: Model, level: ThinkingLevel | None
) -> tuple[LlmMessage, ...]:
    """Return *messages* with a mark where the effort changes; see `with_system_messages`.

    A new message at the end is answered at *level*, also if it says otherwise.
    """
    effort, found = "", list(messages)
    for at, message in enumerate(messages):
        if not isinstance(message, UserMessage):
            continue
        asked = (level or "") if at == len(found) - 1 else message.effort
        next_effort = effort if asked in (None, "off") else _effort(asked, model, before=effort)
        if next_effort != effort:
            mark: Block = {"type": EFFORT_MARK, "effort": next_effort}
            found[at] = replace(message, content=(*message.content, mark))
            effort = next_effort
    return tuple(found)


def _effort(level: str, model: Model, *, before: str) -> str:
    """Return the API's word for *level*; the model's default only where something changes to it."""
    if level == "":
        return model.default_effort if before else ""
    effort = next((word for name, word in EFFORTS.items() if name == level), "")
    return effort if effort in model.efforts else before


# The API summarises what the request holds, reads it from the cache as any request does, and
# returns one signed block, which then stands first in place of what it covers. Elsewhere, and for
# another model, the summary is the text that the block holds.


def has_signed_summary(request: ModelRequest) -> bool:
    """Return whether the history of *request* begins with a summary that its model signed."""
    return any(_is_signed(each, request.model.id) for each in request.messages)


def with_signed_summary(messages: Sequence[LlmMessage], *, model_id: str) -> tuple[LlmMessage, ...]:
    """Return *messages* with the summary that *model_id* signed first, in place of its text."""
    first: list[LlmMessage] = []
    rest: list[LlmMessage] = []
    for message in messages:
        if not isinstance(message, UserMessage) or not message.signed:
            rest.append(message)
        elif not _is_signed(message, model_id):
            rest.append(replace(message, signed=None))
        else:
            signed = message.signed
            first.append(AssistantMessage((signed.block,)))
            words = (text_block(signed.words),) if signed.words else ()
            rest.append(replace(message, content=words, signed=None))
    return (*first, *rest)


def _is_signed(message: LlmMessage, model_id: str) -> bool:
    return (
        isinstance(message, UserMessage)
        and message.signed is not None
        and standard_id(message.signed.model) == standard_id(model_id)
    )
