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
from typing import Final, NamedTuple

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


class _Part(NamedTuple):
    """The translation of successive messages, and the definitions of the tools for all messages.

    `referring` has those messages that refer to tools, as they were without any definition.
    """

    messages: list[Block]
    tools: list[Block]
    referring: list[Block]


@dataclass(frozen=True, slots=True)
class MessageTranslation:
    """The messages of the API and the definitions of the tools, and what the messages hold.

    The translation of later messages depends on the `referring` ones; see `_Part`.
    """

    messages: Sequence[Block] = ()
    tools: Sequence[Block] = ()
    referring: Sequence[Block] = ()
    has_media: bool = False
    adds_tools: bool = False
    changes_tools: bool = False
    has_fallback: bool = False
    is_signed: bool = False

    def followed_by(self, part: _Part) -> "MessageTranslation":
        """Return this translation and then *part*, whose definitions are those of both."""
        messages = part.messages
        return MessageTranslation(
            messages=[*self.messages, *messages],
            tools=part.tools,
            referring=[*self.referring, *part.referring],
            has_media=self.has_media or any(map(holds_media, messages)),
            adds_tools=self.adds_tools or any(map(_adds_tools, messages)),
            changes_tools=self.changes_tools or any(map(_changes_tools, messages)),
            has_fallback=self.has_fallback or any(map(_has_fallback, messages)),
            is_signed=self.is_signed or any(map(_is_signed_summary, messages)),
        )


_CONVERSATIONS_MAX: Final = 4


class Translated:
    """Translates the messages of requests; of a conversation that grows, only the new ones.

    **If the rest of a history begins with a reply, its translation is that of the messages before,
    followed by that of the rest**: a reply begins a new message of the API, whose form depends only
    on its own turn. So the messages before the last reply are translated once, for all requests
    that begin with the same objects. The exceptions:

    * tools that the API runs: the whole history is translated anew;
    * new references to tools, efforts, signed summaries: a rest with any does not stand alone;
    * messages that a program may change in place: none is kept.

    Threads may share it.
    """

    def __init__(self) -> None:
        self._prefixes: tuple[_Prefix, ...] = ()

    def translate(self, request: ModelRequest, form: MessageForm) -> MessageTranslation:
        """Translate the messages of *request*."""
        if any(tool.hosted for tool in request.tools):
            return MessageTranslation().followed_by(_part(request, form))
        prefixes = self._prefixes
        known = next((each for each in prefixes if each.begins(request, form)), None)
        prefix, part = known, known.rest_of(request) if known else None
        if prefix is None or part is None:
            prefix, part = _Prefix(form, request.tools), _part(request, form)
        if longer := prefix.until_last_reply(request, part):
            others = [each for each in prefixes if each is not known]
            self._prefixes = (longer, *others[: _CONVERSATIONS_MAX - 1])
        return prefix.translation.followed_by(part)


@dataclass(frozen=True, slots=True)
class _Prefix:
    """The messages before a reply of a request, and their translation; at first there are none."""

    form: MessageForm
    tools: Sequence[ToolSpec]
    history: Sequence[LlmMessage] = ()
    translation: MessageTranslation = MessageTranslation()

    def begins(self, request: ModelRequest, form: MessageForm) -> bool:
        """Return whether *request* begins with the same objects, for an equal *form*."""
        same = (self.form, self.tools) == (form, request.tools)
        is_longer = len(self.history) < len(request.messages)
        return same and is_longer and all(map(is_, self.history, request.messages))

    def rest_of(self, request: ModelRequest) -> _Part | None:
        """Translate what follows in *request*; None if that depends on more than this knows."""
        rest = request.messages[len(self.history) :]
        if not _stands_alone(rest, self.form):
            return None
        earlier = self.translation.referring
        part = _part(replace(request, messages=rest), self.form, earlier)
        return part if _begins_with_reply(part.messages) else None

    def until_last_reply(self, request: ModelRequest, part: _Part) -> "_Prefix | None":
        """Return all that stands before the last reply of *request*, of which *part* is the rest.

        None if that is no more than this, if it may change, or if the last reply by itself is
        translated in another way than in *request*.
        """
        rest = request.messages[len(self.history) :]
        is_reply = [isinstance(each, AssistantMessage) for each in rest]
        begins = (at for at in range(1, len(rest)) if is_reply[at] and not is_reply[at - 1])
        at = max(begins, default=0)
        is_more = is_hosted(rest) or hosted_in(rest) or any(map(_refers, rest[at:]))
        if not at or is_more or not all(map(_is_fixed, rest[:at])):
            return None
        earlier = [*self.translation.referring, *part.referring]
        last = _part(replace(request, messages=rest[at:]), self.form, earlier).messages
        before = part.messages[: -len(last)]
        is_whole = before and before[-1]["role"] != "assistant" and _begins_with_reply(last)
        if not is_whole or part.messages[len(before) :] != last:
            return None
        translation = self.translation.followed_by(part._replace(messages=before, tools=[]))
        history = request.messages[: len(self.history) + at]
        return _Prefix(self.form, self.tools, history, translation)


def _begins_with_reply(messages: Sequence[Block]) -> bool:
    return bool(messages) and messages[0]["role"] == "assistant"


def _stands_alone(history: Sequence[LlmMessage], form: MessageForm) -> bool:
    """Return whether *history* and what stands before it are translated each by itself."""
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


def _part(request: ModelRequest, form: MessageForm, earlier: Sequence[Block] = ()) -> _Part:
    """Translate the messages of *request*; *earlier* are the referring ones before them."""
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
    return _Part(with_system_messages(messages), definitions, [*filter(refers, made)])


def _has_fallback(message: Block) -> bool:
    """Return whether one model began the reply *message* and another ended it."""
    return any(block["type"] == FALLBACK for block in objects_in(message["content"]))


def _is_signed_summary(message: Block) -> bool:
    return any(block["type"] == "compaction" for block in objects_in(message["content"]))


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
    users = (each for each in messages if isinstance(each, UserMessage))
    return any(each.effort is not None for each in users)


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
