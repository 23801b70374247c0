"""The rows of waiting calls: one call with its whole effect, or several on one row each."""

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.permissions import ExplainedPart
from agent_cli.contracts.tooling import WEB_FETCH_TOOL, Tool
from agent_cli.repl.approval.input_edit import ProposedFile
from agent_cli.repl.approval.preview import Row, changes_of, cut_end, cut_middle, folded, values_of
from agent_cli.repl.markdown.styles import cells
from agent_cli.system.records import dataclass
from agent_cli.system.sanitize import reveal
from agent_cli.terminal.narration import describe_call, label_of
from agent_cli.terminal.planned_change import written_by
from agent_cli.terminal.writer import Style

# The title of a waiting call: verb and target, and the size of what it changes.

_COMMAND_CHARS_MAX: Final = 60
_RUN: Final = "Run"
_PATH: Final = "path: "
_NEW: Final = " (new file)"


class TitledCall(NamedTuple):
    """A waiting call as verb and target, with the size of the change, and the rows below it.

    Attributes:
        target: The rest of the title; "" if it is long, and the rows show it.
        brief: The target, or the beginning of a long one, for a row among others.
        is_change: The rows are the change of a file, so that "changes files" says nothing.
    """

    verb: str
    target: str
    beside: str
    rows: tuple[Row, ...]
    brief: str
    is_change: bool = False

    @property
    def title(self) -> str:
        """Verb and target."""
        return f"{self.verb} {self.target}".rstrip()


def titled(call: ToolCall, tools: Sequence[Tool], file: ProposedFile | None = None) -> TitledCall:
    """Return *call* for a question; title and rows together show the whole call.

    *file* is the `proposed_file` of the call.
    """
    target = written_by(call.name, call.input, tools)
    if target and (rows := changes_of(call.input, target, file.change if file else None)):
        return _change(label_of(tools, call.name), rows)
    shown = tuple(values_of(call.input))
    url = call.arguments.get("url")
    if call.name == WEB_FETCH_TOOL and isinstance(url, str) and len(url) <= _COMMAND_CHARS_MAX:
        besides = tuple(row for row in shown if not row.text.startswith("url: "))
        return TitledCall(label_of(tools, call.name), reveal(url), "", besides, reveal(url))
    command = call.arguments.get("command")
    if not isinstance(command, str):
        brief = describe_call(tools, call.name, call.input).removeprefix(label_of(tools, call.name))
        return TitledCall(reveal(call.name), "", "", shown, reveal(brief.strip()))
    first, *others = reveal(command).split("\n")
    if others or len(command) > _COMMAND_CHARS_MAX:
        size = f"{len(others) + 1} lines" if others else ""
        return TitledCall(_RUN, "", size, shown, first)
    return TitledCall(_RUN, first, "", tuple(r for r in shown if r.text[:2] != "$ "), first)


def _change(label: str, rows: Sequence[Row]) -> TitledCall:
    path = rows[0].text.removeprefix(_PATH)
    is_new = path.endswith(_NEW)
    added, removed = (sum(row.style == style for row in rows) for style in ("added", "removed"))
    size = f"+{added}" if is_new else f"+{added} −{removed}"
    beside = f"{size} new" if is_new else size
    path = path.removesuffix(_NEW)
    return TitledCall(label, path, beside, tuple(rows[1:]), path, is_change=True)


# Rows around a call: the question, its choices, and the rows around the prompt.
_OTHER_ROWS: Final = 15
_INDENT: Final = 2
_MARGIN: Final = "    "
_PREVIEW_ROWS_MIN: Final = 3
_COLUMNS_MAX: Final = 100
_GAP: Final = "  "
# The effect of a call stands behind it where this leaves enough room for the call itself.
_EFFECT_CELLS: Final = 32
_TARGET_CELLS_MIN: Final = 24
_STEP: Final = "  "
_WHERE_IT_RUNS: Final = ("in ", "sandbox: ")
_NO_SANDBOX: Final = "sandbox: none"


@dataclass(frozen=True, slots=True)
class ShownCall:
    """A waiting call for a question.

    Attributes:
        reason: Why it asks; "" where its rows say that.
        facts: What else to know, such as the sandbox.
        is_danger: It may do something that cannot be undone.
    """

    titled: TitledCall
    reason: str
    facts: tuple[str, ...]
    is_danger: bool = False


def rows_of_one(call: ShownCall, asker: str = "", *, whole: bool = False) -> list[Row]:
    """Return the rows of one call of the agent *asker*; folded to fit, unless *whole*."""
    what = call.titled.rows if whole else fitting(call)
    style: Style = "warning" if call.is_danger else "plain"
    return [
        Row(f"{asker}{call.titled.title}", "title", beside=call.titled.beside),
        *indented(what),
        *([Row(f"{_MARGIN}{call.reason}", style)] if call.reason else []),
        *_facts(call.facts),
    ]


def rows_of_several(calls: Mapping[int, ShownCall], asker: str) -> list[Row]:
    """Return a heading with what all calls share, the reason too, and a row for each call."""
    shared = _shared(calls.values())
    plain = [fact for fact in shared if not _is_warning(fact)]
    reasons = {call.reason for call in calls.values()}
    reason = "" if len(reasons) > 1 else reasons.pop()
    if reason:
        calls = {number: replace(call, reason="") for number, call in calls.items()}
    style: Style = "warning" if any(call.is_danger for call in calls.values()) else "plain"
    return [
        Row(f"{asker}{len(calls)} calls", "title", beside=" · ".join(plain)),
        *([Row(f"{_MARGIN}{reason}", style)] if reason else []),
        *_facts([fact for fact in shared if _is_warning(fact)]),
        *_listed(calls),
    ]


def rows_of_all(calls: Mapping[int, ShownCall]) -> list[Row]:
    """Return all rows of each call, below its number."""
    return [
        row._replace(text=f"{number} · {row.text}") if row.style == "title" else row
        for number, call in calls.items()
        for row in rows_of_one(call, whole=True)
    ]


def rows_of_parts(parts: Sequence[ExplainedPart], title: str) -> list[Row]:
    """Return the explanation of a command below *title*: each part with its effect."""
    width = min(shutil.get_terminal_size().columns - 1, _COLUMNS_MAX)
    texts = [f"{_STEP * part.depth}{reveal(part.text)}" for part in parts]
    column = min(max(map(cells, texts)), (width - len(_MARGIN)) // 2)
    rows = [Row(title, "title")]
    for part, text in zip(parts, texts, strict=True):
        mark = f"!{_MARGIN[1:]}" if part.is_danger else _MARGIN
        style: Style = "warning" if part.is_danger else "dim"
        begin: tuple[tuple[str, Style], ...] = ((mark, "warning"), (text, "plain"))
        gap = " " * max(column - cells(text), 0) + _GAP
        does = reveal(part.does)
        if cells(text) <= column and len(_MARGIN) + cells(text + gap + does) <= width:
            rows.append(Row.of([*begin, (gap, "plain"), (does, style)]))
            continue
        rows += [Row(f"{mark}{text}"), Row(f"{_MARGIN}{_STEP * (part.depth + 1)}{does}", style)]
    return rows


def fitting(call: ShownCall) -> tuple[Row, ...]:
    """Return the rows of *call*, folded to fit on the screen."""
    size = shutil.get_terminal_size()
    rows_max = max(size.lines - _OTHER_ROWS, _PREVIEW_ROWS_MIN)
    return folded(call.titled.rows, rows_max=rows_max, columns=size.columns - _INDENT)


def indented(rows: Sequence[Row]) -> list[Row]:
    """Return *rows* below a title."""
    return [row.moved(_INDENT) for row in rows]


def _listed(calls: Mapping[int, ShownCall]) -> Iterator[Row]:
    """Yield a row for each call: number, verb, target, size and effect, in columns."""
    width = min(shutil.get_terminal_size().columns - 1, _COLUMNS_MAX)
    verbs = max(cells(call.titled.verb) for call in calls.values())
    sizes = max(cells(call.titled.beside) for call in calls.values())
    numbers = len(str(max(calls)))
    begin = len("! ") + numbers + 1 + verbs + 1
    room = width - begin - (sizes + len(_GAP) if sizes else 0)
    beside = room - len(_GAP) - _EFFECT_CELLS
    has_room = beside >= _TARGET_CELLS_MIN
    # A danger is never cut, so its reason leaves the row to the target.
    wide = {n for n, call in calls.items() if call.is_danger and cells(call.reason) > _EFFECT_CELLS}
    targets = {
        n: call.titled.brief
        if n in wide
        else cut_middle(call.titled.brief, beside if has_room and call.reason else room)
        for n, call in calls.items()
    }
    aligned = [n for n in calls if n not in wide and (calls[n].reason or sizes)]
    sizes_at = begin + max((cells(targets[n]) for n in aligned), default=0)
    effects_at = sizes_at + (len(_GAP) + sizes if sizes else 0)
    for number, call in calls.items():
        style: Style = "warning" if call.is_danger else "dim"
        parts: list[tuple[str, Style]] = [
            ("!", "warning") if call.is_danger else (" ", "plain"),
            (f" {number:>{numbers}} ", "dim"),
            (call.titled.verb, "label"),
            (" " * (verbs - cells(call.titled.verb) + 1), "plain"),
            (targets[number], "plain"),
        ]
        if call.titled.beside:
            parts.append((f"{_gap(parts, sizes_at)}{call.titled.beside}", "dim"))
        gap = _gap(parts, effects_at)
        effect_room = width - _cells_of(parts) - len(gap)
        is_beside = has_room and not (call.is_danger and cells(call.reason) > effect_room)
        if call.reason and is_beside:
            parts.append((f"{gap}{cut_end(call.reason, effect_room)}", style))
        yield Row.of(parts)
        if call.reason and not is_beside:
            yield Row(f"{' ' * begin}{call.reason}", style)


def _gap(parts: Sequence[tuple[str, Style]], column: int) -> str:
    """Return the blanks between *parts* and *column*, or behind *parts* that reach beyond it."""
    return " " * max(column - _cells_of(parts), 0) + _GAP


def _cells_of(parts: Sequence[tuple[str, Style]]) -> int:
    return sum(cells(text) for text, _style in parts)


def _facts(facts: Sequence[str]) -> list[Row]:
    """Return the rows of *facts*: faint, each warning in its own row."""
    rows: list[Row] = []
    for warns in (False, True):
        if some := [fact for fact in facts if _is_warning(fact) == warns]:
            rows.append(Row(f"{_MARGIN}{' · '.join(some)}", "warning" if warns else "dim"))
    return rows


def _is_warning(fact: str) -> bool:
    return fact.startswith(_NO_SANDBOX)


def _shared(calls: Iterable[ShownCall]) -> tuple[str, ...]:
    """Return the facts that all calls with any facts share, to show them once."""
    first, *others = [call.facts for call in calls if call.facts] or [()]
    if not others:
        return tuple(fact for fact in first if fact.startswith(_WHERE_IT_RUNS))
    return tuple(fact for fact in first if all(fact in other for other in others))
