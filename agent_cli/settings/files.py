"""Settings files: TOML or JSON with the line of every key, `permissions.toml`, and Claude Code's.

Imported only if there is such a file, or a rule is added to one, to keep start-up fast.
"""

import json
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from agent_cli.contracts.errors import SettingsError
from agent_cli.settings import (
    GUARD_KINDS,
    RULE_KINDS,
    Entry,
    KeyPath,
    WrittenHooks,
    WrittenRule,
    read_file,
)
from agent_cli.system import paths
from agent_cli.system.json_text import not_json, without_comments
from agent_cli.system.paths import is_file
from agent_cli.system.private_files import append_all, locked_if_possible, replace_content
from agent_cli.system.shapes import is_array, is_object

# The key of the tables of `permissions.toml`, and the path that stands for every project.
_PROJECTS = "projects"
_EVERY = "*"
_LOCK = "permissions.lock"
_STATEMENT_LINES_MAX = 500
# The last line of a longer statement has one of these: only brackets and such strings span lines.
_ENDS = ("]", "}", '"""', "'''")
# What tomllib says of a quote without its end.
_UNCLOSED_QUOTE = ("Illegal character '\\n'", "Found invalid character '\\n'", 'Expected "\'"')


def file_entries(path: Path, *, from_project: bool) -> Iterator[Entry]:
    """Read a TOML or JSON file (by its suffix); one entry for each key of each table.

    Raises:
        SettingsError: The file cannot be read, or does not match its suffix.
    """
    is_json = path.suffix == ".json"
    # A key in a comment, such as that of an earlier value, is not the one that counts.
    text = without_comments(read_file(path)) if is_json else read_file(path)
    lines: Mapping[KeyPath, int] = {}
    try:
        if is_json:
            document = _json_document(path, text)
        else:
            document, lines = _toml(path, text)
    except RecursionError as error:
        raise SettingsError(f"{path} is nested too deeply") from error
    except ValueError as error:  # Python converts at most 4,300 digits
        raise SettingsError(f"{path} holds a number that is too long; correct it") from error
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


def _toml(path: Path, text: str) -> tuple[Mapping[str, object], Mapping[KeyPath, int]]:
    """Return the document, and the line on which each key is first set."""
    try:
        return _parsed(text)
    except tomllib.TOMLDecodeError as error:
        raise _no_toml(path, text, error) from error


def _no_toml(path: Path, text: str, error: Exception) -> SettingsError:
    """Return the error of a file with the line where other errors have it."""
    message = str(error)
    for cryptic in _UNCLOSED_QUOTE:
        message = message.replace(cryptic, "Unclosed quote")
    fault, at_end, _ = message.partition(" (at end of document)")
    if at_end:
        *_, (start, _, _) = _statements(text)
        return SettingsError(f"{path}:{start} is not valid TOML: {fault}")
    fault, _, position = message.removesuffix(")").rpartition(" (at line ")
    line, _, column = position.partition(", column ")
    if fault and line.isdecimal():
        return SettingsError(f"{path}:{line} is not valid TOML: {fault}, at column {column}")
    return SettingsError(f"{path} is not valid TOML: {message}")


@lru_cache(maxsize=4)
def _parsed(text: str) -> tuple[Mapping[str, object], Mapping[KeyPath, int]]:
    # Kept: the trust question, the hooks, the servers and the settings each read the same file.
    return tomllib.loads(text), toml_lines(text)


def _json_document(path: Path, text: str) -> Mapping[str, object]:
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise SettingsError(not_json(path, error)) from error
    if not is_object(document):
        raise SettingsError(f"{path} must hold one JSON object")
    return document


def toml_lines(text: str) -> dict[KeyPath, int]:
    """Return the line on which each key of a valid TOML text is first set.

    After a very long statement the lines are unknown.
    """
    lines: dict[KeyPath, int] = {}
    table: KeyPath = ()
    for start, statement, parsed in _statements(text):
        is_header = statement.lstrip().startswith("[")
        above = () if is_header else table
        for path in _paths_in(parsed):
            lines.setdefault(above + path, start)
            table = path if is_header else table
    return lines


def _statements(text: str) -> Iterator[tuple[int, str, Mapping[str, object] | None]]:
    """Yield the first line of each statement of a TOML text, the statement, and what it sets.

    tomllib reports no positions. A statement ends where its lines, taken together, first parse;
    that is right for multi-line strings and arrays too, and leaves the grammar to tomllib. One that
    does not end, or is very long, is the last, and sets None: each line of it that may be the last
    costs a parse of all before it.
    """
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
        yield start, statement, parsed
        statement, start = "", number + 1
    if statement:
        yield start, statement, None


def _paths_in(value: object) -> Iterator[KeyPath]:
    """Yield the paths that a statement sets, through inline tables and arrays of one table."""
    if is_array(value) and len(value) == 1:
        yield from _paths_in(value[0])
    elif is_object(value):
        for key, inner in value.items():
            yield (key,)
            yield from ((key, *path) for path in _paths_in(inner))


def json_line(text: str, path: KeyPath) -> int | None:
    """Return the line of a key: the first occurrence of its last part after the parts before it."""
    position = 0
    for part in path:
        position = text.find(json.dumps(part, ensure_ascii=False), position)
        if position < 0:
            return None
    return text.count("\n", 0, position) + 1


def read_rules(path: Path, workspace: Path) -> tuple[WrittenRule, ...]:
    """Return the rules of a `permissions.toml` that apply to *workspace*, in its order.

        deny = ["bash(git push *)"]

        [[projects]]
        path = "/home/ada/shop"
        allow = ["bash(npm test *)"]

    Raises:
        SettingsError: The file cannot be read, or has an unknown key.
    """
    text = read_file(path)
    here = os.path.realpath(workspace)
    rules = _rules_in(path, text)
    lines = _lines(text, [rule for _, _, rule in rules])
    return tuple(
        WrittenRule(kind, rule, f"{path}:{line}")
        for (project, kind, rule), line in zip(rules, lines, strict=True)
        if _holds_in(project, here)
    )


def add_project_rules(path: Path, workspace: Path | None, allow: Sequence[str]) -> None:
    """Allow calls in *workspace* from now on, or in every one; a missing file is created.

    Rules that it lacks are appended in a table, so that comments and order stay the same.

    Raises:
        SettingsError: The file cannot be written, or is invalid.
    """
    where = os.path.realpath(workspace) if workspace else _EVERY
    try:
        paths.private_dir(path.parent)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        with locked_if_possible(paths.state_dir() / _LOCK):
            # Nothing is appended to a file that could not be read again.
            known = _rules_in(path, read_file(path)) if path.exists() else []
            if not (missing := [each for each in allow if (where, "allow", each) not in known]):
                return
            with os.fdopen(os.open(path, flags, 0o600), "wb", buffering=0) as stream:
                append_all(stream.fileno(), _table(where, missing).encode())
    except UnicodeEncodeError as error:
        raise SettingsError(f"{path} cannot hold {[where, *allow]!a}") from error
    except OSError as error:
        raise SettingsError(f"{path} cannot be written: {error.strerror}") from error


def remove_project_rules(path: Path, workspace: Path, is_meant: Callable[[str], bool]) -> bool:
    """Take the rules out that allow in *workspace* and that *is_meant* chooses.

    The rest of the file stays as it is. Returns whether one of them held in every project.

    Raises:
        SettingsError: The file is invalid, cannot be written, or has a rule in a form of its own.
    """
    here = os.path.realpath(workspace)
    with locked_if_possible(paths.state_dir() / _LOCK):
        if not path.exists():
            return False
        read_file(path)  # or an error that says why it cannot be read
        text = path.read_bytes().decode()  # with its line ends
        held = (each for each in _rules_in(path, text) if _holds_in(each[0], here))
        if not (meant := [each for each in held if each[1] == "allow" and is_meant(each[2])]):
            return False
        for each in meant:
            text = _without(path, text, each)
        try:
            replace_content(Path(os.path.realpath(path)), text.encode())
        except OSError as error:
            raise SettingsError(f"{path} cannot be written: {error.strerror}") from error
    return any(project in (None, _EVERY) for project, _, _ in meant)


def _without(path: Path, text: str, gone: tuple[str | None, str, str]) -> str:
    """Return *text* without the rule *gone*: without a quoted text whose loss takes only that."""
    rules = _rules_in(path, text)
    rules.remove(gone)
    project, _, rule = gone
    quoted = "|".join(map(re.escape, (_toml_text(rule), f'"{rule}"', f"'{rule}'")))
    line = rf"(?m:^[ \t]*(?:{quoted})[ \t]*,?[ \t]*\r?\n)"
    for written in (line, rf"(?:{quoted})\s*,[ \t]*", rf",?[ \t]*(?:{quoted})"):
        for found in re.finditer(written, text):
            shorter = text[: found.start()] + text[found.end() :]
            with suppress(SettingsError):
                if _rules_in(path, shorter) == rules:
                    return shorter.replace(_table(project, ()), "") if project else shorter
    raise SettingsError(f"{path}: take the rule {rule} out by hand; it has a form of its own")


def _table(folder: str, allow: Sequence[str]) -> str:
    listed = ", ".join(map(_toml_text, allow))
    return f"\n[[{_PROJECTS}]]\npath = {_toml_text(folder)}\nallow = [{listed}]\n"


def _rules_in(path: Path, text: str) -> list[tuple[str | None, str, str]]:
    try:
        return list(_rules(path, tomllib.loads(text.removeprefix("\ufeff"))))
    except (ValueError, RecursionError) as error:
        raise _no_toml(path, text, error) from error


def _holds_in(project: str | None, here: str) -> bool:
    return project in (None, _EVERY) or os.path.realpath(project) == here


def _rules(path: Path, document: Mapping[str, object]) -> Iterator[tuple[str | None, str, str]]:
    """Yield (project, kind, rule); the project of a global rule is None."""
    for key, value in document.items():
        if key != _PROJECTS:
            yield from _listed(path, None, key, value)
            continue
        for table in value if is_array(value) else [value]:
            if not is_object(table) or not isinstance(project := table.get("path"), str):
                raise SettingsError(f'{path}: each [[{_PROJECTS}]] must have a path = "/..."')
            for kind, rules in table.items():
                if kind != "path":
                    yield from _listed(path, project, kind, rules)


def _listed(
    path: Path, project: str | None, kind: str, rules: object
) -> Iterator[tuple[str | None, str, str]]:
    if kind not in RULE_KINDS:
        table = f" in the [[{_PROJECTS}]] of {project}" if project else ""
        raise SettingsError(
            f"{path}: unknown key {kind}{table}; rules go under {', '.join(RULE_KINDS)},"
            f" or below [[{_PROJECTS}]]"
        )
    if not is_array(rules) or not all(isinstance(rule, str) for rule in rules):
        raise SettingsError(f"{path}: {kind} must be a list of strings")
    for rule in rules:
        yield project, kind, rule


def _lines(text: str, rules: Sequence[str]) -> Iterator[int]:
    """Yield the line of each rule; tomllib keeps their order but reports no positions."""
    lines = text.split("\n")
    at = 0
    for rule in rules:
        # A rule written with escapes is not found; the line of the one before is near enough.
        found = (number for number in range(at, len(lines)) if _holds(lines[number], rule))
        at = next(found, at)
        yield at + 1


def _holds(line: str, rule: str) -> bool:
    return not line.lstrip().startswith("#") and any(
        f"{quote}{rule}{quote}" in line for quote in "\"'"
    )


def _toml_text(text: str) -> str:
    """Return *text* as a TOML string: as in JSON, except for DEL, which JSON does not escape."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


class ClaudeFile(NamedTuple):
    """A settings file of Claude Code: its text without comments, and its object, if it is one.

    The code that defines hooks validates its hooks; `policies.claude_rules` translates its rules.
    """

    path: Path
    text: str
    document: dict[str, object]

    @classmethod
    def read(cls, path: Path) -> "ClaudeFile":
        """Read the file at *path*.

        Raises:
            SettingsError: The file cannot be read, so a guard in it would have no effect.
        """
        text = without_comments(read_file(path))
        try:
            document = json.loads(text)
        except (ValueError, RecursionError) as error:
            line = f":{error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
            raise SettingsError(
                f"{path}{line} is not valid JSON, so its hooks and permission rules cannot be read"
                ": correct it, or set hooks.claude_files = false and"
                " permissions.claude_files = false"
            ) from error
        return cls(path, text, document if is_object(document) else {})

    def hooks(self, *, from_project: bool) -> Iterator[WrittenHooks]:
        """Yield the groups of hooks."""
        hooks = self.document.get("hooks")
        if not hooks or self.document.get("disableAllHooks") is True:
            return
        if not is_object(hooks):
            hooks = {"PreToolUse": ["hooks"]}  # not a table: a hook that blocks with an error
        for event, groups in hooks.items():
            origin = self._origin("hooks", event)
            for group in groups if is_array(groups) else [groups]:
                yield WrittenHooks(event, group, origin, from_project)

    def rules(self, *, from_project: bool) -> Iterator[WrittenRule]:
        """Yield the permission rules; a project's only if they ask or deny."""
        permissions = self.document.get("permissions")
        if not is_object(permissions):
            return
        for kind in GUARD_KINDS if from_project else RULE_KINDS:
            rules = permissions.get(kind)
            for rule in rules if is_array(rules) else ():
                origin = self._origin("permissions", kind, str(rule))
                yield WrittenRule(kind, str(rule), origin, of_claude=True)

    def _origin(self, *key: str) -> str:
        line = json_line(self.text, key)
        return f"{self.path}:{line}" if line else str(self.path)


def is_acting(path: Path) -> bool:
    """Return whether a project's settings file has hooks or guarding rules, or cannot be read."""
    if not is_file(path):
        return False
    try:
        file = ClaudeFile.read(path)
    except SettingsError:
        return True
    return any(True for part in (file.hooks, file.rules) for _ in part(from_project=True))
