"""A request as it arrived."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.messages_api.script import Payload


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """A request as it arrived; `disconnected` is set if the client left before the end."""

    method: str
    path: str
    headers: Mapping[str, str]
    raw: bytes
    body: Payload
    at_s: float
    disconnected: threading.Event = field(default_factory=threading.Event)
