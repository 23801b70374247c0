"""A server that answers by dice, and looks at each request."""

import itertools
import json
import random
import threading
from collections import deque
from typing import Any, Final

from tests.e2e.public_api.ledger import ASKING, Ledger
from tests.messages_api import Answer, Reply, broken, error, reply, tool_use
from tests.messages_api.received import ReceivedRequest

_FAULTS: Final = ("drop", "reset", "eof", "error", "bad_json")
_CUT_OFF_SHARE: Final = 0.3
"""Of the texts: each is a notice, which is rare else, and each kind of event needs a listener."""
_KEPT_REQUESTS: Final = 200
_NAMES: Final = ("look", "look", "state", "state", *(ASKING,) * 3, "fail", "slow", "gone")


class Server:
    """Answers with text, calls, errors, and replies that break off."""

    def __init__(self, seed: int, ledger: Ledger) -> None:
        self._dice = random.Random(seed)
        self._lock = threading.Lock()
        self._ids = itertools.count(1)
        self._ledger = ledger
        self._bodies: deque[dict[str, Any]] = deque(maxlen=_KEPT_REQUESTS)

    def answer(self, request: ReceivedRequest) -> Answer:
        """Return the answer to *request*."""
        with self._lock:
            self._bodies.append(request.body)
            self._ledger.check_request(request.body)
            return self._answer(request)

    def newest_body(self, text: str) -> dict[str, Any]:
        """Return the body of the newest request whose messages hold *text*."""
        with self._lock:
            newest_first = reversed(self._bodies)
            return next(body for body in newest_first if text in json.dumps(body["messages"]))

    def _answer(self, request: ReceivedRequest) -> Answer:
        dice, chance = self._dice, self._dice.random()
        if chance < 0.05:
            return error(529, "overloaded_error", "Overloaded")
        if chance < 0.1:
            return broken(self._reply(), dice.choice(_FAULTS), after=dice.randint(1, 4))
        if chance < 0.45 and request.body.get("tools"):
            return self._calls()
        return self._reply()

    def _reply(self) -> Reply:
        if self._dice.random() < 0.2:
            return self._calls()
        stop_reason = "max_tokens" if self._dice.random() < _CUT_OFF_SHARE else None
        pace = self._dice.choice([1, 4, 100])
        return reply("an answer", stop_reason=stop_reason, chunk_chars=pace)

    def _calls(self) -> Reply:
        names = [self._dice.choice(_NAMES) for _ in range(self._dice.randint(1, 4))]
        if self._dice.random() < 0.2:
            names = ["state"] * self._dice.randint(2, 4)  # side by side
        # An id that another reply had is not the API's way, but some servers have few.
        ids = ["again" if self._dice.random() < 0.02 else f"toolu_{next(self._ids)}" for _ in names]
        uses = [
            tool_use(name, self._ledger.write(name), id=id)
            for name, id in zip(names, ids, strict=True)
        ]
        return reply("I call.", *uses)
