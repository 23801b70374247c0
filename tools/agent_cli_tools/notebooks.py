"""Jupyter notebooks as `read` shows them and `edit` changes them: the sources of their cells.

Each cell is its source below a line with its number and kind. Only the strings of a changed source
are written anew; every other byte of the file stays. It knows nothing of outputs but where they
belong. A file that is no notebook of format 4 is ordinary text.
"""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from agent_cli.contracts.errors import ToolError
from agent_cli.contracts.timeline import Json
from agent_cli.system.loading import late_pattern
from agent_cli.system.records import dataclass
from agent_cli_tools.textio import NOTEBOOK_SUFFIX, decode, text_bytes

_HEAD: Final = late_pattern(r"^(\[cell \d+: \w+\])(?:\n|\Z)", re.MULTILINE)
_BLANK: Final = late_pattern(r"[ \t\r\n]*")
# Control characters are always escaped, as in the colours of an output.
_ESCAPED_LETTER: Final = late_pattern(r"(?<!\\)(?:\\\\)*\\u(?!00[01])")
_DECODER: Final = json.JSONDecoder()
# The members of a cell are indented three times as deep as those of the notebook.
_DEPTH: Final = 3


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell; its `source` has LF only, `end` is what the file has instead.

    Attributes:
        outputs: As in the file; the attachments of a Markdown cell come as outputs.
    """

    kind: str
    source: str
    end: str
    outputs: tuple[Json, ...]


@dataclass(frozen=True, slots=True)
class Notebook:
    """The cells of a notebook, at least one, and the JSON text that they stand in."""

    json_text: str
    cells: tuple[Cell, ...]

    @property
    def text(self) -> str:
        """All sources, each below its head; every one ends with LF."""
        pairs = zip(self._heads, self.cells, strict=True)
        return "".join(f"{head}\n{cell.source}\n" for head, cell in pairs)

    def last_lines(self) -> list[int]:
        """Return the number of the last line of each cell in `text`."""
        numbers: list[int] = []
        for cell in self.cells:
            numbers.append((numbers[-1] if numbers else 0) + 2 + cell.source.count("\n"))
        return numbers

    def sources(self, text: str) -> list[str] | None:
        """Return the sources that stand in *text*; None if its heads do not match the cells."""
        parts = _HEAD.split(text)
        if parts[0] or parts[1::2] != self._heads:
            return None
        return [part.removesuffix("\n") for part in parts[2::2]]

    def with_text(self, text: str) -> str:
        """Return the JSON text of the notebook whose cells read as in *text*.

        Raises:
            ToolError: A head of a cell was changed.
        """
        sources = self.sources(text)
        if sources is None:
            raise ToolError(
                "The lines [cell N: kind] only show where a cell begins, so leave them as they"
                " are. Change the JSON with a program in bash to add, move or remove a cell."
            )
        pieces: list[str] = []
        position = 0
        spans = _source_spans(self.json_text)
        for cell, span, source in zip(self.cells, spans, sources, strict=True):
            if source == cell.source:
                continue
            if cell.end != "\n":
                source = source.replace("\r\n", "\n").replace("\n", cell.end)
            pieces += [
                self.json_text[position : span.start],
                _written(self.json_text, span, source),
            ]
            position = span.end
        return "".join([*pieces, self.json_text[position:]])

    @property
    def _heads(self) -> list[str]:
        return [f"[cell {number}: {cell.kind}]" for number, cell in enumerate(self.cells, 1)]


def notebook_in(path: Path, raw: bytes) -> Notebook | None:
    """Return the notebook *raw*, the content of *path*; None if it is to be shown as it is."""
    if path.suffix != NOTEBOOK_SUFFIX:
        return None
    json_text, _ = decode(raw)
    try:
        content: Json = json.loads(json_text)
        listed = content.get("cells") if isinstance(content, dict) else None
        cells = [_cell(each) for each in listed] if isinstance(listed, list) else []
        known = tuple(cell for cell in cells if cell)
        book = Notebook(json_text, known)
        text = book.text
        text.encode()
    except (ValueError, RecursionError):  # no JSON, half of a surrogate pair, too deep
        return None
    # A source may hold a line like a head.
    is_unambiguous = book.sources(text) == [cell.source for cell in known]
    return book if known and len(known) == len(cells) and is_unambiguous else None


def shown_content(path: Path, raw: bytes) -> bytes:
    """Return the lines that `read` shows and numbers of *raw*, the content of *path*."""
    book = notebook_in(path, raw)
    return book.text.encode() if book else text_bytes(raw)


def text_in(value: Json) -> str | None:
    """Return a text of a notebook, which is a string or a list of strings; else None."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        lines = [line for line in value if isinstance(line, str)]
        return "".join(lines) if len(lines) == len(value) else None
    return None


def _cell(value: Json) -> Cell | None:
    if not isinstance(value, dict):
        return None
    kind, source = value.get("cell_type"), text_in(value.get("source"))
    if not isinstance(kind, str) or source is None:
        return None
    end = "\r\n" if "\r\n" in source else "\n"
    flat = source.replace("\r\n", "\n")
    if flat.replace("\n", end) != source:
        return None  # mixed line ends could not be written back
    outputs, attached = value.get("outputs"), value.get("attachments")
    return Cell(
        kind,
        flat,
        end,
        (
            *([{"data": data} for data in attached.values()] if isinstance(attached, dict) else ()),
            *(outputs if isinstance(outputs, list) else ()),
        ),
    )


class _Value(NamedTuple):
    """A value in a JSON text, and where it stands."""

    value: object
    start: int
    end: int


def _source_spans(json_text: str) -> list[_Value]:
    """Return the sources of the cells of a notebook as they stand in its JSON text."""
    cells = _members(json_text, _after_blank(json_text, 0))["cells"]
    return [_members(json_text, cell.start)["source"] for cell in _values(json_text, cells.start)]


def _members(text: str, at: int) -> dict[object, _Value]:
    """Return the values of the object at *at* by their keys; the last of equal keys counts."""
    values = list(_values(text, at))
    return {key.value: value for key, value in zip(values[::2], values[1::2], strict=True)}


def _values(text: str, at: int) -> Iterator[_Value]:
    """Yield the elements of the array, or the keys and values of the object, at *at*."""
    at = _after_blank(text, at + 1)
    while text[at] not in "]}":
        value, end = _DECODER.raw_decode(text, at)
        yield _Value(value, at, end)
        at = _after_blank(text, end)
        if text[at] in ",:":
            at = _after_blank(text, at + 1)


def _after_blank(text: str, at: int) -> int:
    blank = _BLANK.match(text, at)
    return blank.end() if blank else at


def _written(text: str, span: _Value, source: str) -> str:
    """Return *source* as JSON, in the form of the one at *span*."""
    is_ascii = text.isascii() and bool(_ESCAPED_LETTER.search(text))
    if text[span.start] != "[":
        return json.dumps(source, ensure_ascii=is_ascii)
    # Jupyter splits at these line ends too, so that its next save changes nothing.
    lines = source.splitlines(keepends=True)
    if not lines:
        return "[]"
    there = list(_values(text, span.start))
    as_written = {each.value: text[each.start : each.end] for each in there}
    opening, between, closing = _layout(text, span, there)
    strings = [as_written.get(line) or json.dumps(line, ensure_ascii=is_ascii) for line in lines]
    return f"[{opening}{between.join(strings)}{closing}]"


def _layout(text: str, span: _Value, there: Sequence[_Value]) -> tuple[str, str, str]:
    """Return the text before, between and behind the strings of a source."""
    if there:
        opening = text[span.start + 1 : there[0].start]
        between = text[there[0].end : there[1].start] if len(there) > 1 else f",{opening or ' '}"
        return opening, between, text[there[-1].end : span.end - 1]
    newline = text.rfind("\n", 0, span.start)
    key = text[newline + 1 : span.start]
    if not key.lstrip().startswith('"source"'):
        return "", ", ", ""
    end = "\r\n" if text[newline - 1 : newline] == "\r" else "\n"
    indent = key[: len(key) - len(key.lstrip())]
    opening = f"{end}{indent}{indent[: len(indent) // _DEPTH]}"
    return opening, f",{opening}", f"{end}{indent}"
