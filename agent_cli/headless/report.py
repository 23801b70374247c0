"""The output of a run: its answer as text, or JSON that ends with the result.

stream-json has each event as a line, and both JSON formats end with the same object.

Every event has its fields under their own names, `type` first. Of a streaming reply only the new
piece is written, because repeating the whole would be quadratic.
"""

import dataclasses
import json
import math
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final, Literal, TypeAlias

from agent_cli.contracts.errors import AgentCliError, Trouble, trouble_of
from agent_cli.contracts.events import (
    AgentEvent,
    Event,
    MessageUpdate,
    ToolCall,
    UsageChanged,
    innermost,
)
from agent_cli.contracts.timeline import Json, Usage
from agent_cli.contracts.wording import in_usd
from agent_cli.core.call_decisions import DeniedCalls
from agent_cli.system.event_loop import in_background
from agent_cli.system.records import dataclass, field
from agent_cli.system.shapes import is_mapping, is_sequence
from agent_cli.system.stop_signals import exit_code_of
from agent_cli.terminal.writer import Writer

OutputFormat: TypeAlias = Literal["text", "json", "stream-json"]

EXIT_CODES: Final = {
    **dict.fromkeys(("error", "refusal", "invalid_output"), 1),
    **dict.fromkeys(("context_window", "model_context_window_exceeded"), 1),
    **dict.fromkeys(("check_failed", "blocked"), 4),
    **dict.fromkeys(("max_rounds", "max_cost", "max_tokens", "time_limit", "max_tokens_total"), 4),
    "waiting_for_approval": 3,
    "aborted": exit_code_of(signal.SIGINT),
}
"""Exit codes by stop reason; any other reason is a success."""


@dataclass(slots=True)
class RunReport:
    """The state of the run so far: the fields of `app.result`.

    Attributes:
        output: The value of an answer that fits `--json-schema`, as a 1-tuple.
        error: One sentence.
        trouble: The part of the world that failed, as in `AgentCliError`.
        declined_calls: Calls that needed an approval, with the reason; nobody could give it.
        denied_calls: Calls that a rule, a hook or the permission mode denied, with the reason.
        undecided_files: Files that make programs act, appeared beside a command, and wait for a
            person's decision.
        refused_commands: Commands that would have deleted or overwritten more than
            `undo.ask_beyond_files` or `undo.ask_beyond_mb`.
        refused_hosts: Hosts that commands tried to reach and no rule allows.
        check: The receipt of a goal: its command, how it ended, and after how many rounds.
        checks: The receipts of the model's own checks: command, counts, and how old they are.
        denials: Finds the denied calls in the events.
    """

    text: str = ""
    stop_reason: str = "error"
    rounds: int = 0
    usage: Usage = field(default_factory=Usage)
    session_id: str | None = None
    exit_code: int = 1
    output: tuple[Json] | None = None
    held_microdollars: int = 0
    error: str = ""
    trouble: Trouble | None = None
    declined_calls: list[dict[str, Json]] = field(default_factory=list[dict[str, Json]])
    denied_calls: list[dict[str, Json]] = field(default_factory=list[dict[str, Json]])
    undecided_files: Sequence[Path] = ()
    refused_commands: Sequence[str] = ()
    refused_hosts: Sequence[str] = ()
    check: dict[str, Json] | None = None
    checks: Sequence[dict[str, Json]] = ()
    denials: DeniedCalls = field(default_factory=DeniedCalls)

    @classmethod
    def of_failure(cls, error: AgentCliError) -> "RunReport":
        """Return the report of a run that could not begin."""
        return cls(exit_code=error.exit_code, error=str(error), trouble=trouble_of(error))

    def decline(self, call: ToolCall, agent: str) -> None:
        """Note that nobody could approve *call*; *agent* names the subagent behind it, if any."""
        self.declined_calls.append(_call(call, agent))

    def note(self, event: Event) -> None:
        """Add the usage that *event* tells of, or the call that was denied."""
        inner = innermost(event)
        if isinstance(inner, UsageChanged):
            self.usage += inner.reply
        elif denied := self.denials.ended_by(event):
            agent = event.agent if isinstance(event, AgentEvent) else ""
            self.denied_calls.append(_call(denied, agent))

    def to_json(self) -> dict[str, Json]:
        """Return the `app.result` object."""
        tokens: dict[str, Json] = asdict(self.usage)
        del tokens["cost_microdollars"], tokens["held_microdollars"]
        cost = self.usage.cost_microdollars
        return {
            "type": "app.result",
            "text": self.text,
            "stop_reason": self.stop_reason,
            "rounds": self.rounds,
            "usage": tokens,
            "cost_usd": None if cost is None else in_usd(cost),
            "session_id": self.session_id,
            "exit_code": self.exit_code,
            **({"error": self.error} if self.error else {}),
            **({"trouble": self.trouble} if self.trouble else {}),
            **({"output": self.output[0]} if self.output else {}),
            **({"check": self.check} if self.check else {}),
            **({"checks": [*self.checks]} if self.checks else {}),
            **({"declined_calls": [*self.declined_calls]} if self.declined_calls else {}),
            **({"denied_calls": [*self.denied_calls]} if self.denied_calls else {}),
            **({"undecided_files": [*map(str, files)]} if (files := self.undecided_files) else {}),
            **({"refused_commands": [*self.refused_commands]} if self.refused_commands else {}),
            **({"refused_hosts": [*self.refused_hosts]} if self.refused_hosts else {}),
            **({"held_usd": in_usd(self.held_microdollars)} if self.held_microdollars else {}),
        }


def _call(call: ToolCall, agent: str) -> dict[str, Json]:
    shown: dict[str, Json] = {
        "tool_call_id": call.id,
        "tool_name": call.name,
        "input": call.input,
        "reason": call.reason,
    }
    return shown | ({"agent": agent} if agent else {})


_NAMES: Final = ("type", "kind", "role", "state")


def to_json(event: Event) -> dict[str, Json]:
    """Return *event* as an object whose first key is `type`."""
    if isinstance(event, MessageUpdate):
        return {"type": event.type, "event": _value(event.event)}
    shown = _value(event)
    assert isinstance(shown, dict)
    return shown


def to_line(shown: dict[str, Json]) -> str:
    """Return *shown* as one line of printable ASCII.

    Readers that split at U+2028 get whole objects, and a terminal gets no control characters.
    """
    return json.dumps(shown, separators=(",", ":")).replace("\x7f", "\\u007f")


def _value(value: object) -> Json:
    if isinstance(value, float) and not math.isfinite(value):
        return None  # JSON has no such number; tools and servers may send one
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if is_mapping(value):
        return {str(key): _value(part) for key, part in value.items()}
    if is_sequence(value):
        return [_value(part) for part in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [name for name in _NAMES if hasattr(value, name)]
        fields = [field.name for field in dataclasses.fields(value)]
        return {name: _value(getattr(value, name)) for name in dict.fromkeys(names + fields)}
    raise TypeError(f"an event holds a {type(value).__name__}, which has no JSON form")


class RunOutput:
    """Prints one run; nothing is printed twice.

    Attributes:
        failure: The error of a write, such as of a full disk.
        has_answered: Whether the answer is printed whole, in the text format.
    """

    def __init__(self, output_format: OutputFormat, writer: Writer) -> None:
        """Print nothing yet."""
        self.failure: OSError | None = None
        self.has_answered = False
        self._format = output_format
        self._writer = writer
        self._answering: Awaitable[None] | None = None

    @property
    def is_lost(self) -> bool:
        """Whether nobody reads what is printed from now on."""
        return bool(self.failure or self._writer.stdout_closed)

    def event(self, event: Event) -> None:
        """Print *event*, if the format has events."""
        if self._format == "stream-json":
            self._print_json(to_json(event))

    async def answer_early(self, text: Callable[[], str]) -> None:
        """Print the final answer in the text format; do not wait for a reader of a pipe.

        What is closed meanwhile, such as the session, is not kept open by a slow reader.
        """
        if self._format != "text":
            return  # the result reports the closing as well
        self._answering = in_background(lambda: self._print_answer(text()))
        if sys.stdout.isatty():  # notices of the closing may follow in the same window
            await self._answering

    async def end(self, text: Callable[[], str], report: RunReport) -> None:
        """Print the result, or an answer that is not printed yet, and wait for its reader."""
        if self._answering:
            await self._answering
        elif self._format == "text":
            self._print_answer(text())
        else:
            self._print_json(report.to_json())

    def _print_answer(self, text: str) -> None:
        try:
            self._writer.answer(text)
            self._writer.end_answer()
        except OSError as error:
            self.failure = error
        else:
            self.has_answered = True

    def _print_json(self, shown: dict[str, Json]) -> None:
        try:
            self._writer.answer(to_line(shown) + "\n")
        except OSError as error:
            self.failure = error
