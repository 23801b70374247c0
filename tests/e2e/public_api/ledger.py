"""Which calls may run, and with which input: each at most once, as written or as a person edited
it; and what the requests say about them.

Every call has a number in its input, by which a tool that runs finds it.
"""

import itertools
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from agent_cli import Json, ToolContext
from agent_cli.system.shapes import is_mapping
from tests.e2e.public_api.findings import Findings

ASKING: Final = "danger"
"""The tool whose calls a person has to approve."""


@dataclass
class Call:
    """A call: the inputs that it may run with, and how often it ran."""

    name: str
    written: dict[str, Json]
    is_imported: bool
    approved: list[Json] = field(default_factory=list[Json])
    is_denied: bool = False
    runs: int = 0
    has_ended: bool = False


class Ledger:
    """All calls of all programs; any thread may ask."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._edits = itertools.count(1)
        self._calls: dict[int, Call] = {}

    def write(self, name: str, *, imported: bool = False) -> dict[str, Json]:
        """Return the input of a new call; an *imported* one may not run."""
        with self._lock:
            number = next(self._numbers)
            self._calls[number] = Call(name, {"call": number}, imported)
            return {"call": number}

    def edit(self, shown: Json) -> dict[str, Json]:
        """Return another input for the call that *shown* is the input of."""
        with self._lock:
            return {"call": _number(shown), "edit": next(self._edits)}

    def call(self, shown: object) -> Call | None:
        """Return the call with the input *shown*."""
        return self._calls.get(_number(shown))

    def approve(self, shown: Json, edited: Json) -> None:
        """Note that a person approves a call; before it happens."""
        if call := self.call(shown):
            with self._lock:
                call.approved.append(edited or call.written)

    def take_back(self, shown: Json, edited: Json) -> None:
        """Note that an approval was refused."""
        if call := self.call(shown):
            with self._lock:
                call.approved.remove(edited or call.written)

    def deny(self, shown: Json) -> None:
        """Note that a person has rejected a call, unless another one approved it meanwhile."""
        call = self.call(shown)
        if call and not call.approved and not call.runs:
            call.is_denied = True

    def run(self, id: str, given: Json, context: ToolContext) -> None:
        """Check a call that begins to run."""
        violate, call = self.findings.violate, self.call(given)
        if call is None:
            violate(f"a call ran with an input that nobody wrote: {given}")
            return
        with self._lock:
            call.runs += 1
        where = f"{context.tool_name} {given}"
        if call.runs > 1:
            violate(f"a call ran {call.runs} times: {where}")
        if context.tool_name != call.name or context.tool_call_id != id:
            violate(f"a call ran as another one: {where}, {call.name}")
        if call.is_denied:
            violate(f"a denied call ran: {where}")
        permitted = call.approved or ([] if call.name == ASKING else [call.written])
        if call.is_imported and not call.approved:
            violate(f"an imported call ran: {where}")
        elif given not in permitted:
            violate(f"a call ran as it was not to: {where}, permitted: {permitted}")
        if context.is_approved and not call.approved:
            violate(f"a call counts as approved, and is not: {where}")
        kind = "as written" if not call.approved else "edited" if "edit" in where else "approved"
        self.findings.count(self.findings.ran, kind)

    def end(self, given: Json) -> None:
        """Note that a call has ended well."""
        if call := self.call(given):
            call.has_ended = True

    def check_request(self, body: Mapping[str, Any]) -> None:
        """Check that each call of a request has one result, in place, that says what happened."""
        messages = _merged(body["messages"])
        if messages[-1]["role"] == "assistant":
            self.findings.violate("a request ends with a reply")
        for message, answer in itertools.pairwise(messages):
            if message["role"] == "assistant":
                uses = [block for block in message["content"] if block["type"] == "tool_use"]
                self._check_answers(uses, answer["content"])

    def _check_answers(self, uses: list[dict[str, Any]], answers: list[dict[str, Any]]) -> None:
        asked = [use["id"] for use in uses]
        if [block.get("tool_use_id") for block in answers[: len(asked)]] != asked or any(
            block["type"] == "tool_result" for block in answers[len(asked) :]
        ):
            self.findings.violate(f"calls and results do not match: {asked}, {answers}")
            return
        for use, answer in zip(uses, answers, strict=False):
            call = self.call(use["input"])
            if call is None or use["input"] != call.written or use["name"] != call.name:
                self.findings.violate(f"a request holds another call than was written: {use}")
            elif not (call.is_imported or answer.get("is_error") or call.has_ended):
                self.findings.violate(f"a call that did not end has a good result: {answer}")


def _number(shown: object) -> int:
    number = shown.get("call") if is_mapping(shown) else None
    return number if isinstance(number, int) else 0


def _merged(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return *messages* with neighbours of one role as one, as the API reads them."""
    found: list[dict[str, Any]] = []
    for message in messages:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else [*content]
        if found and found[-1]["role"] == message["role"]:
            found[-1]["content"] += blocks
        else:
            found.append({"role": message["role"], "content": blocks})
    return found
