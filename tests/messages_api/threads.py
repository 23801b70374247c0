"""Conversations that the server holds: a request that continues one becomes the whole of it."""

import json
from dataclasses import dataclass, field, replace

from tests.messages_api.prompt_cache import without_markers
from tests.messages_api.received import ReceivedRequest
from tests.messages_api.refusals import Refusal, bad
from tests.messages_api.script import Payload

THREADS_BETA = "message-threads-2026-08-12"
_FINGERPRINT = ("model", "thinking", "output_config", "metadata", "cache_control")


@dataclass(slots=True)
class HeldThreads:
    """The conversations up to each reply; every reply can be continued once.

    `faults` are the codes with which the next requests that continue one are refused.
    """

    faults: list[str] = field(default_factory=list[str])
    _held: dict[str, Payload] = field(default_factory=dict[str, Payload])
    _continued: set[str] = field(default_factory=set[str])

    def whole(self, request: ReceivedRequest) -> ReceivedRequest | Refusal:
        """Return *request* with all that the server holds of its conversation."""
        thread = request.body.get("thread")
        if thread is None:
            return request
        if THREADS_BETA not in request.headers.get("anthropic-beta", ""):
            return bad("thread", "thread: Extra inputs are not permitted")
        sent = {name: value for name, value in request.body.items() if name != "thread"}
        if thread != {"type": "create"}:
            found = self._continue(thread, sent)
            if isinstance(found, Refusal):
                return found
            sent = found
        return replace(request, body=sent, raw=json.dumps(sent).encode())

    def remember(
        self, posted: Payload, whole: Payload, reply_id: str, blocks: list[Payload]
    ) -> None:
        """Hold the conversation up to a reply."""
        if posted.get("thread"):
            answer = {"role": "assistant", "content": blocks}
            self._held[reply_id] = {**whole, "messages": [*whole["messages"], answer]}

    def _continue(self, thread: Payload, sent: Payload) -> Payload | Refusal:
        previous = str(thread.get("previous_message_id"))
        if set(thread) != {"type", "previous_message_id"} or thread["type"] != "continue":
            return bad("thread", "thread.type: Input should be 'create' or 'continue'")
        if {"system", "tools"} & set(sent):
            return bad("thread", "system and tools are those of the thread")
        if self.faults:
            return _refusal(self.faults.pop(0))
        if (held := self._held.get(previous)) is None:
            return _refusal("thread_not_found")
        if previous in self._continued:
            return _refusal("thread_already_continued")
        if any(held.get(name) != sent.get(name) for name in _FINGERPRINT):
            return _refusal("thread_fingerprint_mismatch")
        self._continued.add(previous)
        fixed: Payload = {name: held[name] for name in ("system", "tools") if name in held}
        messages = [*without_markers(held["messages"]), *sent["messages"]]
        return {**sent, **fixed, "messages": messages}


def _refusal(code: str) -> Refusal:
    if code == "thread_not_found":
        return Refusal("thread", 404, "not_found_error", "No usable state was found", code)
    return Refusal("thread", 400, "invalid_request_error", f"This request failed: {code}", code)
