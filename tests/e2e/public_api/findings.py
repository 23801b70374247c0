"""What came of random programs: counts, and the contracts that did not hold."""

import threading
from collections import Counter
from dataclasses import dataclass, field

VIOLATIONS_MAX = 50


@dataclass
class Findings:
    """What came of the operations; any thread may count.

    Attributes:
        operations: Operations by name.
        refused: Those that ended with a documented error, by name; wrong arguments are not among
            them, because each of those must.
        violations: Sentences; there should be none.
        ran: Calls that ran: "as written", "approved" or "edited".
        reactions: What listeners did, by the kind of event.
        facts: Anything else that a program came across, for the figures.
    """

    operations: Counter[str] = field(default_factory=Counter[str])
    refused: Counter[str] = field(default_factory=Counter[str])
    ran: Counter[str] = field(default_factory=Counter[str])
    reactions: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    facts: Counter[str] = field(default_factory=Counter[str])
    violations: list[str] = field(default_factory=list[str])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, counter: Counter[str], key: str, by: int = 1) -> None:
        """Count *key*; a Counter alone loses counts of another thread."""
        with self._lock:
            counter[key] += by

    def react(self, kind: str, action: str) -> None:
        """Count what a listener did at an event."""
        with self._lock:
            self.reactions[kind, action] += 1

    def violate(self, sentence: str) -> None:
        """Keep a violation, the first ones whole."""
        with self._lock:
            if len(self.violations) < VIOLATIONS_MAX:
                self.violations.append(sentence)
