"""Settings files, TOML or JSON: every key with its value and its line.

Imported only if there is such a file, to keep start-up fast.
"""

import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from agent_cli.contracts.errors import SettingsError
from agent_cli.settings.sources import Entry, KeyPath, read_file
from agent_cli.system.shapes import is_array, is_object

_STATEMENT_LINES_MAX = 500
# The last line of a longer statement has one of these: only brackets and such strings span lines.
_ENDS = ("]", "}", '"""', "'''")


def file_entries(path: Path, *, from_project: bool) -> Iterator[Entry]:
    """Read a TOML or JSON file (by its suffix); one entry for each key of each table.

    Raises:
        SettingsError: The file cannot be read, or does not match its suffix.
    """
    text = read_file(path)
    is_json = path.suffix == ".json"
    try:
        document = _json_document(path, text) if is_json else _toml_document(path, text)
    except RecursionError as error:
        raise SettingsError(f"{path} is nested too deeply") from error
    except ValueError as error:  # Python converts at most 4,300 digits
        raise SettingsError(f"{path} holds a number that is too long; correct it") from error
    lines = {} if is_json else toml_lines(text)
    for key_path, value in _leaves(document):
        line = json_line(text, key_path) if is_json else lines.get(key_path)
        origin = f"{path}:{line}" if line else str(path)
        yield Entry(key_path, value, origin, from_project=from_project)


def _leaves(document: Mapping[str, object]) -> Iterator[tuple[KeyPath, object]]:
    for key, value in document.items():
        if is_object(value):
            for inner_key, inner_value in value.items():
                yield (key, inner_key), inner_value
        else:
            yield (key,), value


def _toml_document(path: Path, text: str) -> Mapping[str, object]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path} is not valid TOML: {error}") from error


def _json_document(path: Path, text: str) -> Mapping[str, object]:
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise SettingsError(f"{path}:{error.lineno} is not valid JSON: {error.msg}") from error
    if not is_object(document):
        raise SettingsError(f"{path} must hold one JSON object")
    return document


def toml_lines(text: str) -> dict[KeyPath, int]:
    """Return the line on which each key of a valid TOML text is first set.

    tomllib reports no positions. A statement ends where its lines, taken together, first parse;
    that is right for multi-line strings and arrays too, and leaves the grammar to tomllib. After a
    very long statement the lines are unknown: each line of it that may be the last costs a parse of
    all before it.
    """
    lines: dict[KeyPath, int] = {}
    table: KeyPath = ()
    statement, start = "", 1
    for number, line in enumerate(text.split("\n"), start=1):
        if number - start > _STATEMENT_LINES_MAX:
            break
        statement += line + "\n"
        if number > start and not any(end in line for end in _ENDS):
            continue
        try:
            parsed = tomllib.loads(statement)
        except tomllib.TOMLDecodeError:
            continue
        path = _deepest(parsed)
        if statement.lstrip().startswith("["):
            table, path = path, ()
        for depth in range(1, len(table + path) + 1):
            lines.setdefault((table + path)[:depth], start)
        statement, start = "", number + 1
    return lines


def _deepest(value: object) -> KeyPath:
    """Return the path that a statement sets, through inline tables and arrays of tables."""
    if is_array(value) and len(value) == 1:
        return _deepest(value[0])
    if not is_object(value) or not value:
        return ()
    key = next(iter(value))
    return (key, *_deepest(value[key]))


def json_line(text: str, path: KeyPath) -> int | None:
    """Return the line of a key: the first occurrence of its last part after the parts before it."""
    position = 0
    for part in path:
        position = text.find(json.dumps(part, ensure_ascii=False), position)
        if position < 0:
            return None
    return text.count("\n", 0, position) + 1
