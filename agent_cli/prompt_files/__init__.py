"""Prompts in files: plain text, and Markdown with front matter: find them, split them, read fields.

Not full YAML: these files only need single values, but for a field that `field_block` returns.
"""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final

from agent_cli.contracts.errors import UsageError
from agent_cli.system.paths import is_file
from agent_cli.system.trees import walk

_FRONT_MATTER: Final = re.compile(r"---[ \t]*\r?\n(.*?\r?\n)?---[ \t]*(?:\r?\n|\Z)", re.DOTALL)

_INHERIT: Final = "inherit"
_SHOWN_CHARS: Final = 60
FILE_BYTES_MAX: Final = 256 * 1024


def prompt_text(path: Path) -> str:
    """Return the text of a file.

    Raises:
        OSError: It cannot be read.
        ValueError: It has more than `FILE_BYTES_MAX`; not read, since a stranger may have made it.
    """
    if path.stat().st_size > FILE_BYTES_MAX:
        raise ValueError(f"it has more than {FILE_BYTES_MAX // 1024} KB")
    return path.read_text(encoding="utf-8-sig", errors="replace")


def split_front_matter(text: str) -> tuple[dict[str, str] | None, str]:
    """Return the values by name, None without front matter, and the text after it."""
    found = _FRONT_MATTER.match(text)
    return (_fields(found[1] or ""), text[found.end() :]) if found else (None, text)


def field_block(text: str, name: str) -> str:
    """Return the lines of the field *name*, in any case, as they are written; "" without it."""
    found = _FRONT_MATTER.match(text)
    lines: list[str] = []
    for key, line, is_first in _lines(found[1] or "" if found else ""):
        if key.lower() == name.lower():
            lines = [line] if is_first else [*lines, line]
    return "\n".join(lines)


def why_undescribed(text: str) -> str:
    """Return that *text* has no description, and its first line that is no `name: value`."""
    found = _FRONT_MATTER.match(text)
    lines = (found[1] or "" if found else "").splitlines()
    read = {line for _, line, _ in _lines("\n".join(lines))}
    for number, line in enumerate(lines, 2):  # below the first ---
        if line not in read and line.strip()[:1] not in ("", "#"):
            shown = f"{line[:_SHOWN_CHARS]!r}"
            return f"it has no description; line {number}, {shown}, is not of the form name: value"
    return "it has no description"


def model_name(text: str) -> str:
    """Return the name in a `model:` field; "" for "inherit"."""
    name = text.strip()
    return "" if name.lower() == _INHERIT else name


def _fields(front_matter: str) -> dict[str, str]:
    """Read `key: value` lines; indented lines and items below belong to the value."""
    fields: dict[str, str] = {}
    for key, line, is_first in _lines(front_matter):
        value = line.partition(":")[2].strip() if is_first else f"{fields[key]} {line.strip()}"
        # > and | only tell YAML how to join the indented lines below.
        fields[key] = "" if is_first and value[:1] in (">", "|") else value.strip()
    return {key: _unquoted(value) for key, value in fields.items()}


def _lines(front_matter: str) -> Iterator[tuple[str, str, bool]]:
    """Yield each line with its field, and whether it is that field's first."""
    key = ""
    for line in front_matter.splitlines():
        if (line[:1].isspace() or line.startswith("- ")) and key:
            yield key, line, False
        elif ":" in line:
            key = line.partition(":")[0].strip()
            yield key, line, True


def _unquoted(value: str) -> str:
    if len(value) < 2 or value[0] != value[-1] or value[0] not in "\"'":
        return value
    if value[0] == "'":
        return value[1:-1].replace("''", "'")
    import json  # few values need it

    from agent_cli.system.json_text import mend_surrogates

    # Nearly all are JSON strings; any other is taken as it is written.
    with suppress(ValueError):
        return " ".join(json.loads(mend_surrogates(value.encode(errors="replace"))).split())
    return value[1:-1]


# Find prompt files in folders that may be anything: in an untrusted workspace too.
#
# Nothing here raises for a link to a name that is too long, or a folder that cannot be read, unlike
# `Path.is_file` and `Path.glob`: a repository could otherwise keep the program from starting.

_FOLDERS_MAX: Final = 200


def markdown_files(folder: Path) -> Sequence[Path]:
    """Return the Markdown files of *folder*, by path."""
    return sorted(path for path in entries_of(folder) if path.suffix == ".md" and is_file(path))


def nested_markdown_files(folder: Path) -> Iterator[Path]:
    """Yield the Markdown files of *folder* and of the folders in it, by path, up to a limit.

    Limited: the folder is read before it is trusted, and may be a link to a whole disk.
    """
    for where, folders, names in islice(walk(folder), _FOLDERS_MAX):
        folders.sort()
        for name in sorted(names):
            path = Path(where, name)
            if path.suffix == ".md" and is_file(path):
                yield path


def entries_of(folder: Path, entries_max: int | None = None) -> Sequence[Path]:
    """Return the entries of *folder*, in no order; none if it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            return [Path(entry.path) for entry in islice(entries, entries_max)]
    except OSError:
        return ()


def read_prompt(path: Path) -> str:
    """Return the prompt in *path*.

    Raises:
        UsageError: It cannot be read, is not text, or is empty; the message begins with the path.
    """
    text = read_text(path)
    if not text.strip():
        raise UsageError(f"{path} is empty: write the prompt into it")
    return text


def read_text(path: Path) -> str:
    """Return the text of *path*.

    Raises:
        UsageError: It cannot be read, or is not text; the message begins with the path.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text") from error
