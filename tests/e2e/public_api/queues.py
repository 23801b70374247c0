"""The messages queued for one agent: each arrives once, in order, or is dropped as documented."""

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias

from agent_cli import Agent, Event, Message, UserMessage
from tests.e2e.public_api.findings import Findings

Kind: TypeAlias = Literal["steer", "follow up"]
_MARK: Final = "queued "
_numbers = itertools.count(1)


class Queues:
    """What was queued for *agent*, what arrived, and what its conversation shows of it.

    Every operation that changes a queue or the conversation goes through here and holds the lock
    meanwhile, so that what is kept here has the order in which it happened.
    """

    def __init__(self, agent: Agent, findings: Findings) -> None:
        self._agent = agent
        self._findings = findings
        self._lock = threading.RLock()
        self._accepted: list[str] = []
        self._arrived: list[str] = []
        self._dropped: set[str] = set()
        self._shown: list[str] = []

    def put(self, kind: Kind) -> None:
        """Queue a message."""
        with self._lock:
            text = f"{_MARK}{next(_numbers)} {kind}"
            (self._agent.steer if kind == "steer" else self._agent.follow_up)(text)
            self._accepted.append(text)
            self._findings.count(self._findings.facts, "queued")

    def clear(self, clear: Callable[[], list[UserMessage]]) -> None:
        """Drop what *clear* says that it dropped."""
        with self._lock:
            self._dropped |= {message.text for message in clear()}

    def reset(self) -> None:
        """Drop everything, if the agent may be reset now."""
        with self._lock:
            self._agent.reset()
            self._dropped |= set(self._accepted) - set(self._arrived)
            self._shown = []

    def replace(self, messages: Iterable[Message]) -> None:
        """Replace the conversation; the queues stay."""
        imported = tuple(messages)
        with self._lock:
            self._agent.replace_messages(imported)
            users = (each for each in imported if isinstance(each, UserMessage))
            self._shown = [each.text for each in users if each.text.startswith(_MARK)]

    def hear(self, event: Event) -> None:
        """Note a message that arrives."""
        if event.type == "message_start" and isinstance(event.message, UserMessage):
            text = event.message.text
            if text.startswith(_MARK):
                with self._lock:
                    self._arrived.append(text)
                    self._shown.append(text)

    def settle(self) -> None:
        """Empty the queues; check that each message arrived once, in order, or was dropped."""
        with self._lock:
            left = [message.text for message in self._agent.clear_all_queues()]
            ways = Counter([*self._arrived, *self._dropped, *left])
            for text in self._accepted:
                if ways[text] != 1:
                    self._findings.violate(f"{text!r} arrived, or was dropped, {ways[text]} times")
            for name, found in (("arrived", self._arrived), ("waited", left)):
                for kind in ("steer", "follow up"):
                    mine = [text for text in found if text.endswith(kind)]
                    order = [text for text in self._accepted if text in set(mine)]
                    if mine != order:
                        self._findings.violate(f"messages {name} out of order: {mine}")
            self._findings.count(self._findings.facts, "arrived", len(self._arrived))
            self._accepted, self._arrived, self._dropped = [], [], set()

    def check_request(self, body: Mapping[str, Any]) -> None:
        """Check that a request of this agent holds what arrived, in order."""
        texts: list[str] = []
        for message in body["messages"]:
            blocks = message["content"] if isinstance(message["content"], list) else []
            texts += [block["text"] for block in blocks if block["type"] == "text"]
        found = [text for text in texts if text.startswith(_MARK)]
        if found != self._shown:
            self._findings.violate(f"a request shows {found}, and {self._shown} arrived")
