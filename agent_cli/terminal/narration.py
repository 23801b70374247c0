"""Describe events, and what the model's server ran, in sentences for all front ends."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from agent_cli.contracts import events
from agent_cli.contracts.errors import ToolError
from agent_cli.contracts.events import AgentEvent
from agent_cli.contracts.hosted_blocks import (
    WebPage,
    cited,
    error_of,
    is_result,
    is_use,
    shown_result,
    tool_of,
)
from agent_cli.contracts.messages import AssistantMessage
from agent_cli.contracts.provider import BlockEnd, TextDelta
from agent_cli.contracts.timeline import Block, FileOutput, Json, WidgetOutput
from agent_cli.contracts.tooling import Tool, check_input
from agent_cli.contracts.wording import counted, one_line, requested_duration
from agent_cli.core.run import RunResult
from agent_cli.system.loading import late_pattern
from agent_cli.system.records import dataclass
from agent_cli.terminal.sanitize import clean, reveal
from agent_cli.terminal.writer import Style

if TYPE_CHECKING:
    from agent_cli.core.branching import BranchPoint

_WORD: Final = late_pattern(r"\S+\s*|\s+")


@dataclass(frozen=True, slots=True)
class Sentence:
    """One line for the user at the terminal, with a style for its severity."""

    style: Style
    text: str


def narrate(event: events.Event) -> Sentence | None:
    """Return the sentence for *event*, or None."""
    match event:
        case events.Notice(level=level, text=text):
            return Sentence("warning" if level == "warning" else "dim", text)
        case events.ErrorShown(text=text):
            return Sentence("error", text)
        case events.Retry():
            return Sentence("warning", _retry(event))
        case events.Compacted():
            read = f"; {event.tokens_read:,} were sent for the summary" if event.tokens_read else ""
            return Sentence(
                "dim",
                f"compacted {counted(event.removed_messages, 'message')}: about "
                f"{event.tokens_before:,} → {event.tokens_after:,} tokens{read}",
            )
        case AgentEvent(event=AgentEvent() as inner):
            return narrate(inner)  # the agent at the end of the line is the one that tells it
        case AgentEvent(agent=name, event=inner):
            sentence = narrate(inner)
            if sentence is None or sentence.style not in ("warning", "error"):
                return None  # the steps of subagents are not shown
            return Sentence(sentence.style, f"agent {name}: {sentence.text}")
        case _:
            return None


def narrate_end(result: RunResult) -> Sentence | None:
    """Return why a run ended, or None if it was completed.

    This takes the result, not the event: after a bug, its exception has more detail.
    """
    match result.stop_reason:
        case "aborted":
            return Sentence("warning", "interrupted")
        case "error":
            return Sentence("error", result.error or "the run ended in an error")
        case _ if result.error:
            return Sentence("warning", result.error)
        case "end_turn" | "tool_use" if (final := result.final_message) and not (
            final.text.strip() or final.tool_calls
        ):
            return Sentence("dim", 'empty reply; "go on" may help')
        case _:
            return None


def describe_call(tools: Sequence[Tool], name: str, given: Json) -> str:
    """Return a call in one short line, e.g. `Read src/app.py`; it begins with `label_of`."""
    tool = _tool(tools, name)
    return reveal(one_line(f"{label_of(tools, name)} {_summary(tool, given)}"))


def label_of(tools: Sequence[Tool], name: str) -> str:
    """Return the display name of a tool; its plain name if the tool no longer exists."""
    tool = _tool(tools, name)
    return one_line(tool.label if tool else name)


def side_output(output: FileOutput | WidgetOutput) -> str:
    """Return a tool's output for the user as text: a widget's fallback, or a file's path."""
    if isinstance(output, FileOutput):
        about = " · ".join(text for text in (output.media_type, output.summary) if text)
        return f"file {output.path}: {about}" if about else f"file {output.path}"
    return output.fallback or f"[{output.widget}]"


def describe_branch_point(point: "BranchPoint") -> str:
    """Return a branch point on one line: `you> …`, or a reply's text and calls."""
    if point.prompt_text:
        return clean(f"you> {one_line(point.prompt_text)}")
    parts = (one_line(point.answered), ", ".join(point.called))
    return clean(f"  {' · '.join(part for part in parts if part) or 'an empty reply'}")


def words(text: str) -> list[str]:
    """Split *text* after each whitespace; joining the pieces gives *text*."""
    return _WORD.findall(text)


def ago(elapsed_s: float) -> str:
    """Return how long ago something was: `just now`, `5 min ago`, `3 h ago`, `12 days ago`."""
    minutes = max(0, int(elapsed_s / 60))
    hours, days = minutes // 60, minutes // (24 * 60)
    if days:
        return f"{counted(days, 'day')} ago"
    if hours:
        return f"{hours} h ago"
    return f"{minutes} min ago" if minutes else "just now"


def _retry(event: events.Retry) -> str:
    retry = f"retry {event.attempt} of {event.max_attempts} in {requested_duration(event.wait_s)}"
    restarted = "; the reply so far is discarded, and starts again" if event.restarted else ""
    return f"{event.reason}; {retry}{restarted}"


def _tool(tools: Sequence[Tool], name: str) -> Tool | None:
    return next((tool for tool in tools if tool.name == name), None)


def _summary(tool: Tool | None, given: Json) -> str:
    if tool:
        try:
            summary = tool.summary(check_input(tool, given))
        except ToolError:
            summary = ""  # The call will fail with this error; the line only names the call.
        if summary:
            return summary
    values = given.values() if isinstance(given, dict) else [given]
    return next((value for value in values if isinstance(value, str)), "")


class HostedView:
    """Adds events to a reply's own events; see `__call__`.

    Cited pages are numbered through one reply, and listed behind it.
    """

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._pages: dict[str, WebPage] = {}

    def __call__(self, event: events.Event) -> Iterator[events.Event]:
        """Yield *event* and the events to show beside it."""
        match event:
            case events.MessageUpdate(event=BlockEnd(index=index, block=block), snapshot=message):
                yield event
                yield from self._calls(block)
                if marks := _marks(block, self._pages):
                    yield events.MessageUpdate(message, TextDelta(index, marks))
            case events.MessageEnd(message=AssistantMessage() as message):
                if self._pages:
                    end = TextDelta(len(message.content), f"\n\n{_listed(self._pages)}")
                    yield events.MessageUpdate(lambda: message, end)
                self._pages = {}
                yield event
            case _:
                yield event

    def _calls(self, block: Block) -> Iterator[events.Event]:
        id = str(block.get("id") or block.get("tool_use_id"))
        if is_use(block):
            self._names[id] = str(block["name"])
            yield events.ToolExecutionStart(id, self._names[id], block.get("input"))
        elif is_result(block):
            name = self._names.pop(id, tool_of(block))
            yield events.ToolExecutionEnd(id, name, shown_result(block), bool(error_of(block)))


def cited_text(content: Sequence[Block]) -> str:
    """Return the text of *content* with a number behind each citation, and the pages at the end."""
    pages: dict[str, WebPage] = {}
    parts = [
        f"{block.get('text', '')}{_marks(block, pages)}"
        for block in content
        if block["type"] == "text"
    ]
    text = "".join(parts)
    return f"{text.rstrip()}\n\n{_listed(pages)}" if pages else text


def _marks(block: Block, pages: dict[str, WebPage]) -> str:
    """Return the numbers of the pages that *block* cites, and add new ones to *pages*."""
    found = cited(block)
    for source in found:
        pages.setdefault(source.url, source)
    numbers = [*pages]
    return "".join(f" [{numbers.index(source.url) + 1}]" for source in found)


def _listed(pages: dict[str, WebPage]) -> str:
    return "\n".join(
        f"[{number}] {' '.join(filter(None, (one_line(each.title), one_line(each.url, 500))))}"
        for number, each in enumerate(pages.values(), 1)
    )
