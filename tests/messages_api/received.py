"""A request as it arrived."""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.messages_api.script import Payload


@dataclass(slots=True)
class AnsweredAt:
    """The time at which the last byte of an answer was written; 0 before."""

    at_s: float = 0.0

    def note(self) -> None:
        """Note the current time."""
        self.at_s = time.monotonic()


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """A request as it arrived, at `at_s`; `disconnected` is set if the client left before the end.

    `answered` is when the server had written its answer: until then the time is the server's.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    raw: bytes
    body: Payload
    at_s: float
    disconnected: threading.Event = field(default_factory=threading.Event)
    answered: AnsweredAt = field(default_factory=AnsweredAt)
