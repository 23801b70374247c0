"""Send only the new messages of a long conversation that the server still holds.

The whole request is built each time, and shortened only if the server holds exactly the rest of it:
the same options, and byte for byte the messages of the last request and its reply. So after an edit
of the history (a compaction, a rewind, another model) the whole request is sent. A reply can be
continued once, so its position is forgotten before it is used, and after each failure.
"""

import json
import time
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Final
from urllib.parse import urlsplit

from agent_cli.contracts.provider import ModelRequest, Reply
from agent_cli.contracts.timeline import Block, Json
from agent_cli.providers.anthropic.betas import MESSAGE_THREADS
from agent_cli.providers.anthropic.connection import Connection
from agent_cli.providers.anthropic.wire_parts import messages_of
from agent_cli.providers.encoding import Pieces
from agent_cli.providers.failures import CallFailed
from agent_cli.system.logger import logger
from agent_cli.system.records import dataclass

HELD_S: Final = 270.0
"""The server holds a conversation at most five minutes after its last request."""
LOOKBACK_BLOCKS: Final = 20
"""So far back a cache marker finds what is cached; none can be set on what the server holds."""
_HOST: Final = "api.anthropic.com"
_SENT_AGAIN: Final = frozenset(
    {
        "thread_not_found",
        "thread_already_continued",
        "thread_continue_in_flight",
        "thread_fingerprint_mismatch",
    }
)
_OF_ONE_REQUEST: Final = frozenset({"messages", "diagnostics", "max_tokens", "thread"})
_HELD_REPLIES: Final = frozenset({"end_turn", "tool_use", "max_tokens", "stop_sequence"})
_LOST_MAX: Final = 2

_log = logger(__name__)


@dataclass(frozen=True, slots=True)
class _Held:
    """A conversation that the server holds up to a reply."""

    reply_id: str
    options: bytes
    messages: tuple[bytes, ...]
    at_s: float


class MessageThreads:
    """The conversations held by one server, by the session's id."""

    def __init__(
        self, connection: Connection, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Hold none yet; *clock* returns the time in seconds."""
        self._connection = connection
        self._clock = clock
        self._held: dict[str, _Held] = {}
        self._digests = Pieces(_digest)
        self._tokens: dict[str, int] = {}
        self._lost = 0

    def shortened(
        self, request: ModelRequest, sent: dict[str, Json], *, address: str
    ) -> dict[str, Json]:
        """Return *sent*, the whole of *request*, as what is to be posted to *address*.

        That is as a new thread if the conversation is long, or only its new messages if the server
        holds the others.
        """
        session = request.session_id
        if session is None or request.keeps_warm or not self._is_threaded(sent, address):
            return sent
        held = self._held.pop(session, None)
        limit = self._connection.threads_above_tokens
        if not limit or self._tokens.get(session, 0) < limit:
            return sent
        betas = sent.get("betas")
        others = betas if isinstance(betas, list) else []
        sent = {**sent, "betas": [*others, MESSAGE_THREADS.header]}
        if held is None or (new := self._new_messages(held, sent)) is None:
            return {**sent, "thread": {"type": "create"}}
        left = {name: value for name, value in sent.items() if name not in ("system", "tools")}
        thread: Json = {"type": "continue", "previous_message_id": held.reply_id}
        return {**left, "messages": [*new], "thread": thread}

    def note(
        self,
        request: ModelRequest,
        sent: Mapping[str, Json],
        posted: Mapping[str, Json],
        reply: Reply,
    ) -> None:
        """Note the *reply* to *posted*, which stood for the whole of *sent*."""
        session = request.session_id
        if session is None or request.keeps_warm or "compaction" in sent:
            return
        self._tokens[session] = reply.usage.prompt_tokens
        thread = posted.get("thread")
        if not isinstance(thread, dict):
            return
        if thread["type"] == "continue":
            self._lost = 0
        if reply.declined or reply.stop_reason not in _HELD_REPLIES:
            return  # the server does not hold it
        answer: Block = {"role": "assistant", "content": [*reply.content]}
        messages = (*self._digests.of(messages_of(sent)), _digest(answer))
        options = _options({**sent, "betas": posted["betas"]})
        self._held = {name: each for name, each in self._held.items() if self._is_in_time(each)}
        self._held[session] = _Held(reply.id, options, messages, self._clock())

    def is_sent_again(self, posted: Mapping[str, Json], failed: CallFailed) -> bool:
        """Return whether the request is to be sent as a whole, because the server does not hold it.

        Without a thread from the second loss in a row on: a server may be unable to keep any.
        """
        thread = posted.get("thread")
        if not isinstance(thread, dict) or failed.code not in _SENT_AGAIN:
            return False
        _log.info("conversation sent as a whole", reason=failed.code)
        if failed.code == "thread_not_found" or thread["type"] == "create":
            self._lost += 1
        return True

    def _is_threaded(self, sent: Mapping[str, Json], address: str) -> bool:
        # Not the connection's address: a profile of credentials may name a gateway.
        try:
            is_own = urlsplit(address).hostname == _HOST
        except ValueError:  # no address: sending the request says so
            return False
        return (
            (is_own or self._connection.threads_elsewhere)
            and self._lost < _LOST_MAX
            and "compaction" not in sent
            and "fallbacks" not in sent  # another model's reply cannot be continued
        )

    def _is_in_time(self, held: _Held) -> bool:
        return self._clock() - held.at_s <= HELD_S

    def _new_messages(self, held: _Held, sent: Mapping[str, Json]) -> list[Block] | None:
        """Return the messages that the server lacks; None if it does not hold all others."""
        if not self._is_in_time(held) or _options(sent) != held.options:
            return None
        messages = messages_of(sent)
        count = len(held.messages)
        if len(messages) <= count or tuple(self._digests.of(messages)[:count]) != held.messages:
            return None
        new = messages[count:]
        return new if sum(map(_blocks, messages[count - 1 :])) < LOOKBACK_BLOCKS else None


def _options(sent: Mapping[str, Json]) -> bytes:
    """Return a digest of all of *sent* that must be as it was when the server began to hold it."""
    kept = {name: each for name, each in sent.items() if name not in _OF_ONE_REQUEST}
    return sha256(json.dumps(kept).encode()).digest()


def _digest(message: Json) -> bytes:
    """Return a digest of *message* without cache markers, which are no part of it."""
    assert isinstance(message, dict)
    content = message["content"]
    if isinstance(content, list):
        bare: list[Json] = [
            {name: value for name, value in block.items() if name != "cache_control"}
            if isinstance(block, dict) and "cache_control" in block
            else block
            for block in content
        ]
        message = {**message, "content": bare}
    return sha256(json.dumps(message).encode()).digest()


def _blocks(message: Block) -> int:
    content = message["content"]
    return len(content) if isinstance(content, list) else 1
