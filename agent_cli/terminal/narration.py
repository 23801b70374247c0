"""Describe events, calls and their outcomes, and what the model's server ran, in sentences."""

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
from agent_cli.contracts.wording import counted, dollars, one_line, requested_duration, seconds
from agent_cli.core.attempts import STOPPED_TRYING
from agent_cli.core.call_decisions import (
    AGENT_STOPPED,
    CHANGE_PLAN,
    CLOSED,
    SAYING,
    STOPPED,
    UNDECIDED,
    UNWANTED,
)
from agent_cli.core.run import RunResult
from agent_cli.system.loading import late_pattern
from agent_cli.system.records import dataclass
from agent_cli.system.sanitize import clean, reveal
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


def describe_call(tools: Sequence[Tool], name: str, arguments: Json) -> str:
    """Return a call in one short line, e.g. `Read src/app.py`; it begins with `label_of`."""
    tool = _tool(tools, name)
    return reveal(one_line(f"{label_of(tools, name)} {_summary(tool, arguments)}"))


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


def _summary(tool: Tool | None, arguments: Json) -> str:
    if tool:
        try:
            summary = tool.summary(check_input(tool, arguments))
        except ToolError:
            summary = ""  # The call will fail with this error; the line only names the call.
        if summary:
            return summary
    values = arguments.values() if isinstance(arguments, dict) else [arguments]
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


# The executor's results for calls that were running when the run was stopped or steered.
_STOPPED_WHILE_RUNNING: Final = ("Stopped with the whole run.", "Stopped: the user sent")
# The words that open a sentence telling the model what to do next; the user needs none of it.
_ADVICE: Final = late_pattern(
    r"(?s)(?<=[.!?])\s+(?:Add|Ask|Call|Change|Check|Choose|Copy|Correct|Delete|Do|End|Find|Free|Give|Go"
    r"|If it is|Let|Look|Make|Name|Read|Start|Tell|Try|Use|Wait|With all|Write)\b.*"
)
_NEVER_BEGAN: Final = late_pattern(r"(Skipped|Not run): (?:the user (?=sent))?")
# A time shown as "0.0 s" is not worth mentioning: the call hardly ran, or never began.
_SHOWN_S_MIN: Final = 0.05


def was_stopped(answer: str) -> bool:
    """Return whether *answer* is the result of a call that was stopped while it ran."""
    return answer.startswith(_STOPPED_WHILE_RUNNING)


def describe_failure(answer: str, elapsed_s: float | None) -> tuple[str, str]:
    """Return the outcome of a failed call with its reason, in words for the user.

    Args:
        answer: The model's result text, or its first line.
        elapsed_s: The duration of the call; None if it never began.
    """
    if answer == UNWANTED:
        return "not run", "you said no"
    if answer == STOPPED:
        return "not run", "you stopped here"
    if answer == CLOSED:
        return "not answered", "you closed the question"
    if answer == UNDECIDED:
        return "not approved", "plan mode stays on"
    for begin, outcome in ((SAYING, "not run"), (CHANGE_PLAN, "not approved")):
        if answer.startswith(begin):
            return outcome, f"you said: {one_line(answer.removeprefix(begin))}"
    if answer.startswith(AGENT_STOPPED):
        return f"stopped after {seconds(elapsed_s or 0)}", "you stopped it"
    if answer.startswith(STOPPED_TRYING):
        return f"stopped after {seconds(elapsed_s or 0)}", "it changed nothing"
    if was_stopped(answer):
        return f"stopped after {seconds(elapsed_s or 0)}", "may be half done"
    reason = one_line(_ADVICE.sub("", answer))
    if begun := _NEVER_BEGAN.match(reason):
        is_skipped, words = begun[1] == "Skipped", reason[begun.end() :].rstrip(".")
        return ("skipped", f"you {words}") if is_skipped else ("not run", words)
    if elapsed_s is None:
        return "not run", reason
    after = f" after {seconds(elapsed_s)}" if elapsed_s >= _SHOWN_S_MIN else ""
    return f"failed{after}", reason


def outcome_of(details: Json) -> str:
    """Return the outcome of a call in a word or two, such as "+2 −1" or "exit 1", or ""."""
    match details:
        case {"kind": "diff", "added": int(added), "removed": int(removed)}:
            return f"+{added} −{removed}"
        case {"kind": "command", "exit_code": int(code), **more} if code or "read_only" in more:
            words = (f"exit {code}" if code else "", "read-only" if "read_only" in more else "")
            return " · ".join(filter(None, words))
        case {"kind": "command", "exit_code": None, "job": int(id)}:
            return f"job {id}, in the background"
        case {"job": int(id), **more} if "kind" not in more:  # of an agent
            return f"job {id}, in the background"
        case {"kind": "read", "lines": int(lines), "total": int(total)}:
            shown = "" if lines == total else f"{lines:,} of "
            return f"{shown}{counted(total, 'line')}"
        case {"kind": "pdf", "shown": str(shown)}:
            return shown
        case {"kind": "search", "matches": int(matches), "total": int(total), **more}:
            shown = "" if matches == total else f"{matches:,} of "
            stopped = " · stopped early" if more.get("cut") else ""
            return f"{shown}{counted(total, 'match', 'matches')}{stopped}"
        case {"agent": str(), "rounds": int(rounds), **more}:
            cost = more.get("cost_microdollars")
            spent = dollars(cost, decimals=4) if isinstance(cost, int) else ""
            return " · ".join(filter(None, (counted(rounds, "round"), spent)))
        case {"kind": "web", "results": int(results)}:
            return counted(results, "result")
        case {"kind": "directory", "entries": int(entries)}:
            return counted(entries, "entry", "entries")
        case _:
            return ""


def has_failed(details: Json) -> bool:
    """Return whether a successful call ran a command that failed."""
    match details:
        case {"kind": "command", "exit_code": int(code)}:
            return code != 0
        case _:
            return False
