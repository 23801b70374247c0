"""Files and folders named in a prompt, `@src/app.py`: their content goes with the message."""

import os
import stat
from collections.abc import Callable, Iterator
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from agent_cli.attachments.references import references
from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.media_files import PDF_BYTES_MAX, is_pdf
from agent_cli.contracts.timeline import Block, text_block
from agent_cli.contracts.wording import counted, one_line
from agent_cli.system.fixed_paths import directory_at, names_in, open_file
from agent_cli.system.loading import late_pattern
from agent_cli.system.paths import as_named, expanded, real_path
from agent_cli.system.sanitize import reveal

# About 12,000 tokens; a tool reads the rest in parts.
FILE_CHARS_MAX: Final = 50_000
# A text with more names than this was pasted.
FILES_MAX: Final = 10
_TEXT_CHARS_MAX: Final = 10_000
_REFERENCES_MAX: Final = 10_000
_ENTRIES_MAX: Final = 200
_NAME_CHARS_MAX: Final = 200
# Lines are looked for so far into a file.
_LINES_BYTES_MAX: Final = 10_000_000
# `app.py#L5-L7`, `#5-7` or `:5-7`; a link of Zed has `#L5:7`, a message of a compiler `:5:7`.
_LINES: Final = late_pattern(
    r"(?P<path>.+?)(?:#L?(?P<a>\d{1,9})(?:[-:]L?(?P<b>\d{1,9}))?"
    r"|:(?P<c>\d{1,9})(?:-(?P<d>\d{1,9})|:\d{1,9})?)"
)
_UNFIT: Final = "no UTF-8 text, PDF, or picture as PNG, JPEG, GIF or WebP"


class Attached(NamedTuple):
    """A named file: its block for the model, None for nothing, and a sentence about that.

    Attributes:
        whole: The real path and the content of a file that the model reads to its end.
        pdf: The content of a PDF file, of which `pdf_attached` makes the rest.
    """

    block: Block | None
    sentence: str
    whole: tuple[Path, bytes] | None = None
    pdf: bytes = b""


class NamedFile(NamedTuple):
    """A file or folder: its name in the prompt, its path, and the first and last line meant."""

    name: str
    path: Path
    lines: tuple[int, int] | None = None


def split_lines(written: str) -> tuple[str, tuple[int, int] | None]:
    """Return the path in *written*, such as `app.py#L5-7`, and its lines.

    A single line, with a column or without, only says where to look: its file is meant.
    """
    found = _LINES.fullmatch(written)
    if found is None:
        return written, None
    first, last = int(found["a"] or found["c"]), int(found["b"] or found["d"] or 0)
    return found["path"], (first, last) if 0 < first <= last else None


def named_files(text: str, folder: Path) -> tuple[list[NamedFile], str]:
    """Return the existing files and folders named in *text*, each once.

    An image that may be read is a mark by now. Relative paths start at *folder*. A text that is
    long or has many names was pasted: none counts, and a sentence for the user says so.
    """
    found = _existing(text, folder)
    if len(text) <= _TEXT_CHARS_MAX:
        files = list(dict.fromkeys(found))
        if len(files) <= FILES_MAX:
            return files, ""
        why = f"names {len(files):,}, and at most {FILES_MAX} can be; name fewer"
    elif any(found):
        why = f"has more than {_TEXT_CHARS_MAX:,} characters; name them in a shorter one"
    else:
        return [], ""
    return [], f"files named with @ are not attached: the prompt {why}"


def _existing(text: str, folder: Path) -> Iterator[NamedFile]:
    start = -1
    for reference in islice(references(text), _REFERENCES_MAX):
        if reference.start == start:
            continue
        for name, lines in ((reference.path, None), split_lines(reference.path)):
            path = resolve_mention(name, folder)
            if _kind(path):
                start = reference.start
                yield NamedFile(name, path, lines)
                break


def attach(file: NamedFile, refusal: Callable[[Path], str]) -> Attached:
    """Read *file* for a message; blocks.

    Args:
        file: The named file.
        refusal: Returns the reason the model may not read a path, or "".
    """
    name = one_line(reveal(file.name), _NAME_CHARS_MAX)
    real, why = judged(file, refusal)
    if why:
        return Attached(None, why)
    try:
        if real.is_dir():
            return _folder(name, real)
        return _file(name, real, file.lines)
    except OSError as error:
        return Attached(None, f"@{name} not attached: {error.strerror}")


async def pdf_attached(file: NamedFile, data: bytes, *, documents: bool) -> Attached:
    """Return the PDF *data* as a document, or its text if the API takes no *documents*."""
    from agent_cli.attachments.pdfs import pdf_content  # with a PDF

    name = one_line(reveal(file.name), _NAME_CHARS_MAX)
    try:
        found = await pdf_content(data, name, documents=documents, chars_max=FILE_CHARS_MAX)
    except UsageError as error:
        return Attached(None, f"@{name} not attached: {error}")
    more = f"; read with pages={found.following} shows more" if found.following else ""
    text = f"[The user attached the file {name}: {found.measure}{more}]\n{found.text}\n"
    return Attached(found.document or text_block(text), f"attached @{name}: {found.measure}")


def judged(file: NamedFile, refusal: Callable[[Path], str]) -> tuple[Path, str]:
    """Return the real path of *file*, and why the model may not read it; "" if it may.

    Only that path may be read: a link may be changed meanwhile.
    """
    # The path as it is named counts too: a link may lead to a file with an innocent name.
    absolute, real = Path(os.path.normpath(file.path.absolute())), real_path(file.path)
    why = refusal(absolute) or refusal(real)
    name = one_line(reveal(file.name), _NAME_CHARS_MAX)
    return real, f"@{name} not attached: {why}" if why else ""


def resolve_mention(path: str, folder: Path) -> Path:
    """Return the path for *path*, a name in a prompt, or an existing one that looks the same."""
    return as_named(folder / expanded(path))


def _kind(path: Path) -> int:
    """Return the file type bits of a regular file or a folder, 0 for everything else."""
    try:
        kind = stat.S_IFMT(path.stat().st_mode)
    except (OSError, ValueError):  # the name is too long, or holds a NUL
        return 0
    return kind if kind in (stat.S_IFREG, stat.S_IFDIR) else 0


def _folder(name: str, path: Path) -> Attached:
    with directory_at(path) as dir_fd:
        entries = names_in(dir_fd)
    shown = [one_line(reveal(each), _NAME_CHARS_MAX) for each in entries[:_ENTRIES_MAX]]
    if left_out := len(entries) - len(shown):
        shown.append(f"[{counted(left_out, 'more entry', 'more entries')}]")
    count = counted(len(entries), "entry", "entries")
    text = "\n".join([f"[The user attached the names in the folder {name}]", *shown])
    return Attached(text_block(f"{text}\n"), f"attached @{name}: the names of {count}")


def _file(name: str, path: Path, lines: tuple[int, int] | None) -> Attached:
    descriptor = open_file(path, os.O_RDONLY | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return Attached(None, f"@{name} not attached: not a regular file")
        # A character has at most four bytes.
        data = file.read(_LINES_BYTES_MAX if lines else 4 * FILE_CHARS_MAX + 4)
        if is_pdf(data):
            return Attached(None, "", pdf=data + file.read(PDF_BYTES_MAX))
        size_bytes = os.fstat(descriptor).st_size
    is_whole, whole = size_bytes <= len(data), None
    text = _decoded(data, is_whole=is_whole)
    if text is None:
        return Attached(None, f"@{name} not attached: {_UNFIT}; sent as its name")
    if lines:
        where = "it" if is_whole else f"its first {_LINES_BYTES_MAX // 1_000_000} MB"
        return _part(name, text, *lines, where=where)
    if is_whole and len(text) <= FILE_CHARS_MAX:
        whole = path, data
        measure = counted(len(list(StringIO(text, newline=""))), "line")
    else:
        text = text[:FILE_CHARS_MAX]
        measure = f"the first {len(text):,} characters of {size_bytes:,} bytes"
    block = text_block(f"[The user attached the file {name}: {measure}]\n{text.rstrip()}\n")
    return Attached(block, f"attached @{name}: {measure}", whole)


def _part(name: str, text: str, first: int, last: int, *, where: str) -> Attached:
    """Attach the lines *first* to *last* of *text*, which is *where* they are looked for."""
    every = list(StringIO(text, newline=""))
    part = "".join(every[first - 1 : last])
    if not part:
        return Attached(None, f"@{name} not attached: line {first:,} is not in {where}")
    measure = f"lines {first}-{min(last, len(every))}"
    if len(part) > FILE_CHARS_MAX:
        part, measure = (
            part[:FILE_CHARS_MAX],
            f"the first {FILE_CHARS_MAX:,} characters of {measure}",
        )
    block = text_block(f"[The user attached {measure} of the file {name}]\n{part.rstrip()}\n")
    return Attached(block, f"attached @{name}: {measure}")


def _decoded(data: bytes, *, is_whole: bool) -> str | None:
    """Return *data* as text; None if it is not UTF-8 text."""
    if b"\0" in data:
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # A partial read may end in the middle of a character.
        if is_whole or error.start < len(data) - 3:
            return None
        return data[: error.start].decode("utf-8-sig")
