"""read: show a text file with line numbers, a notebook's cells, a directory, an image, a PDF."""

import asyncio
import os
from collections.abc import Sequence
from dataclasses import replace
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import ToolError, UsageError
from agent_cli.contracts.late_models import Field
from agent_cli.contracts.media_files import PDF_BYTES_MAX, image_type, is_pdf
from agent_cli.contracts.timeline import Block, Json, text_block
from agent_cli.contracts.tooling import Parameters, Tool, ToolContext, ToolResult
from agent_cli.contracts.wording import counted
from agent_cli.system.fixed_paths import directory_at, names_in
from agent_cli_tools.notebooks import Notebook, notebook_in
from agent_cli_tools.seen import Lines
from agent_cli_tools.textio import (
    FOOTER_BYTES,
    RESULT_BYTES_MAX,
    changed_bytes_max,
    decode,
    failure,
    looks_binary,
    open_regular,
    text_bytes,
)

if TYPE_CHECKING:
    from agent_cli_tools.excerpts import Excerpt
    from agent_cli_tools.workspace import Workspace

LINES_MAX = 2_000
IMAGE_BYTES_MAX = 5 * 1024 * 1024
# Below what is kept of a result, so that no page is cut.
PDF_CHARS_MAX = 30_000
_ENCODING_NAMES = {
    "utf-8-sig": "UTF-8 with BOM",
    "utf-16": "UTF-16, which edit and write keep",
    "latin-1": "not UTF-8, shown as Latin-1",
    "unknown": (
        "neither UTF-8 nor Latin-1: all but ASCII is shown wrongly, and kept by edit;"
        " iconv -f ENCODING -t UTF-8 in bash shows it"
    ),
}

_BINARY_HINTS = (
    (b"PK\x03\x04", "a zip archive (or an office document); try unzip -l in bash"),
    (b"\x1f\x8b", "gzip data; try zcat in bash"),
    (b"SQLite format 3", "an SQLite database; try sqlite3 in bash"),
    (b"\x7fELF", "a compiled program"),
    (b"\xff\xfe\0\0", "UTF-32 text; convert a copy with iconv in bash"),
    (b"\0\0\xfe\xff", "UTF-32 text; convert a copy with iconv in bash"),
    (b"\xff\xfe", "UTF-16 text; convert a copy with iconv in bash"),
    (b"\xfe\xff", "UTF-16 text; convert a copy with iconv in bash"),
)

_DESCRIPTION = "Read a text file (2000 numbered lines), image, PDF or directory."


class ReadParameters(Parameters):
    """Parameters of read."""

    path: str
    offset: int = Field(1, description="negative: from the end")
    limit: int = Field(LINES_MAX, ge=1)
    pages: str = ""


def read_tool(workspace: "Workspace", *, documents: bool = False) -> Tool:
    """Return the tool `read`; *documents*: the model's API takes PDF files as they are."""

    async def execute(
        _call_id: str, params: ReadParameters, _cancel: CancelToken, context: ToolContext
    ) -> ToolResult:
        found = await asyncio.to_thread(_read, workspace, params, context)
        if isinstance(found, ToolResult):
            return found
        return await _pdf(found, workspace.shown(workspace.resolve(params.path)), params, documents)

    return Tool(
        name="read",
        label="Read",
        description=_DESCRIPTION,
        parameters=ReadParameters,
        execute=execute,
        changes=False,
        reads=lambda params: workspace.touched_by(params.path),
        summary=lambda params: params.path,
    )


def _read(
    workspace: "Workspace", params: ReadParameters, context: ToolContext
) -> ToolResult | bytes:
    """Return the result; of a PDF its bytes."""
    from agent_cli_tools.excerpts import excerpt  # with the first file

    path = workspace.resolve(params.path)
    context.require_decided(str(path))
    if not path.exists():
        raise workspace.missing(path)
    if path.is_dir():
        return _directory(workspace, path)
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        start = file.read(RESULT_BYTES_MAX)
        if image_type(start):
            return _image(workspace, path, start + file.read(IMAGE_BYTES_MAX))
        if is_pdf(start):
            return start + file.read(PDF_BYTES_MAX)
        if params.pages:
            raise ToolError("pages is for PDF files; use offset and limit for other files.")
        is_large = size > changed_bytes_max(path)
        if looks_binary(start) or (is_large and text_bytes(start) is not start):
            raise ToolError(_binary(workspace.shown(path), start, size))
        # Editable files are read once, so that the remembered content is the one shown.
        raw = None
        if not is_large:
            raw = workspace.open_files.content(path, start + file.read())
        book = None if raw is None else notebook_in(path, raw)
        in_utf_8 = None if raw is None else text_bytes(raw)
        shown = in_utf_8 if book is None else book.text.encode()
        size = size if shown is None else len(shown)
        file.seek(0)
        part = excerpt(
            file if shown is None else BytesIO(shown),
            size,
            offset=max(params.offset or 1, -size - 1),
            limit=min(params.limit, LINES_MAX),
        )
    if in_utf_8 is not raw:
        part = replace(part, encoding="utf-16")
    elif raw is not None and part.encoding in ("latin-1", "utf-8"):
        part = replace(part, encoding=decode(raw)[1])
    outputs = None if book is None else _Outputs(book)
    numbered = _numbered(part, outputs)
    if raw is not None:
        workspace.seen.note_lines(path, raw, _seen(part, len(numbered)))
    return _text(workspace.shown(path), part, numbered, params.offset, outputs)


def _seen(part: "Excerpt", count: int) -> list[Lines]:
    """Return the ranges of lines shown, without lines that were cut."""
    cut = sorted(index for index in part.cut if index < count)
    ends = pairwise([-1, *cut, count])
    return [(part.first + before, part.first + end - 1) for before, end in ends]


def _numbered(part: "Excerpt", outputs: "_Outputs | None") -> list[str]:
    """Return the lines with numbers and the outputs below them, as many as fit in a result."""
    numbered: list[str] = []
    room = RESULT_BYTES_MAX - FOOTER_BYTES
    for number, line in enumerate(part.lines, part.first):
        text = f"{number}\t{line}"
        room -= len(text.encode()) + 1
        if room < 0:
            break
        if outputs and (below := outputs.below(number)):
            # They are short, and the next result begins with the next line: none shows them else.
            room -= len(below.encode()) + 1
            text = f"{text}\n{below}"
        numbered.append(text)
    return numbered


class _Outputs:
    """The outputs of the cells of *book*, below the last line of each cell."""

    def __init__(self, book: Notebook) -> None:
        from agent_cli_tools.notebook_outputs import (  # with a notebook
            ShownOutputs,
        )

        self._cells = dict(zip(book.last_lines(), book.cells, strict=True))
        self._shown = ShownOutputs()
        self.fact = (
            f"{counted(len(book.cells), 'cell')} of a notebook, > marks outputs;"
            " edit changes sources as they stand here"
        )

    def below(self, number: int) -> str:
        """Return the outputs that belong below line *number*; "" for none."""
        cell = self._cells.get(number)
        return self._shown.text_of(cell) if cell else ""

    @property
    def images(self) -> list[Block]:
        """The images among the outputs returned so far."""
        return self._shown.images


def _text(
    shown: str,
    part: "Excerpt",
    numbered: Sequence[str],
    offset: int,
    outputs: _Outputs | None,
) -> ToolResult:
    if not part.lines and part.total:
        where = "" if part.complete else " in its first 64 MB"
        raise ToolError(
            f"{shown} has {counted(part.total, 'line')}{where},"
            f" so there is no line {offset}. Use a smaller offset, or a negative one for the end."
        )
    footer = _footer(part, len(numbered), outputs.fact if outputs else "")
    lines = [*numbered, *([footer] if footer else [])]
    return ToolResult(
        (text_block("\n".join(lines)), *(outputs.images if outputs else ())),
        {"kind": "read", "path": shown, "lines": len(numbered), "total": part.total},
    )


def _footer(part: "Excerpt", count: int, fact: str) -> str:
    """Return the last line of the result: the part of the file shown, and its peculiarities.

    "" for a whole file with none: the numbers say as much, and every later request repeats it.
    """
    if not part.lines:
        return "[the file is empty]"
    last = part.first + count - 1
    facts: list[str] = []
    if part.first < 0:
        facts.append(f"lines {part.first} to {last}, counted from the end")
    elif not part.complete:
        facts.append(f"lines {part.first}–{last} of more than {part.total:,} (64 MB looked at)")
    elif part.first > 1 or last < part.total:
        facts.append(f"lines {part.first}–{last} of {part.total:,}")
    if count < len(part.lines) or (part.first > 0 and last < part.total):
        facts.append(f"go on with offset={last + 1}")
    if fact:
        facts.append(fact)
    if part.encoding in _ENCODING_NAMES:
        facts.append(_ENCODING_NAMES[part.encoding])
    if part.endings.get("\r\n"):
        facts.append("mixed line endings" if part.endings["\n"] else "CRLF line endings")
    if part.complete and last == part.total and part.endings[""]:
        facts.append("no newline at the end")
    return f"[{'; '.join(facts)}]" if facts else ""


def _directory(workspace: "Workspace", path: Path) -> ToolResult:
    try:
        with directory_at(path) as dir_fd:
            entries = names_in(dir_fd)
    except OSError as error:
        raise failure(error, path) from error
    from agent_cli_tools.workspace import named  # rare

    shown = [*map(named, entries[:LINES_MAX])]
    while sum(len(name.encode()) + 1 for name in shown) > RESULT_BYTES_MAX - FOOTER_BYTES:
        shown = shown[: len(shown) // 2]
    note = f"[{counted(len(entries), 'entry', 'entries')}"
    if len(shown) < len(entries):
        note += f"; the first {len(shown):,} are shown, use glob for others"
    text = "\n".join([*shown, f"{note}]"])
    return ToolResult.of(
        text, {"kind": "directory", "path": workspace.shown(path), "entries": len(entries)}
    )


def _image(workspace: "Workspace", path: Path, raw: bytes) -> ToolResult:
    from agent_cli.attachments.images import fitted, image_of  # with an image

    shown = workspace.shown(path)
    if len(raw) > IMAGE_BYTES_MAX:
        raise ToolError(
            f"{shown} is an image of more than 5 MB, too large to be looked at."
            " Make a smaller copy and read that."
        )
    try:
        image = fitted(image_of(raw, name=shown, advice="make a smaller copy and read that"))
    except UsageError as error:
        raise ToolError(str(error)) from error
    return ToolResult(
        (text_block(f"[{shown}: {image.media_type}, {len(raw):,} bytes]"), image.block),
        {"kind": "image", "path": shown, "bytes": len(raw)},
    )


async def _pdf(data: bytes, shown: str, params: ReadParameters, documents: bool) -> ToolResult:
    from agent_cli.attachments.pdfs import pdf_content  # with a PDF

    try:
        found = await pdf_content(
            data, shown, pages=params.pages, documents=documents, chars_max=PDF_CHARS_MAX
        )
    except UsageError as error:
        raise ToolError(f"{shown} cannot be shown: {error}.") from error
    details: Json = {"kind": "pdf", "path": shown, "shown": found.measure}
    if found.document:
        return ToolResult((text_block(f"[{shown}: {found.measure}]"), found.document), details)
    more = f"; go on with pages={found.following}" if found.following else ""
    footer = f"[{found.measure}{more}; figures are not shown]"
    return ToolResult.of(f"{found.text}\n{footer}", details)


def _binary(shown: str, start: bytes, size: int) -> str:
    hint = next((hint for magic, hint in _BINARY_HINTS if start.startswith(magic)), "")
    kind = hint or "of unknown type; look at it with file or xxd in bash"
    return f"{shown} is binary, not text: {size:,} bytes, {kind}."
