"""The user's `permissions.toml`: global rules, and rules for single projects.

    deny = ["bash(git push *)"]

    [[projects]]
    path = "/home/ada/shop"
    allow = ["bash(npm test *)"]

The path "*" stands for every project. "Always for this project" appends to the file, so that
comments and order stay the same. Imported only if the file exists, or is about to be created.
"""

import json
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from agent_cli.contracts.errors import SettingsError
from agent_cli.settings.sources import RULE_KINDS, WrittenRule, read_file
from agent_cli.system import paths
from agent_cli.system.shapes import is_array, is_object

_PROJECTS = "projects"
_EVERY = "*"


def read_rules(path: Path, workspace: Path) -> tuple[WrittenRule, ...]:
    """Return the rules of *path* that apply to *workspace*, in the order of the file.

    Raises:
        SettingsError: The file cannot be read, or has an unknown key.
    """
    text = read_file(path)
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{path} is not valid TOML: {error}") from error
    here = os.path.realpath(workspace)
    rules = list(_rules(path, document))
    lines = _lines(text, [rule for _, _, rule in rules])
    return tuple(
        WrittenRule(kind, rule, f"{path}:{line}")
        for (project, kind, rule), line in zip(rules, lines, strict=True)
        if project in (None, _EVERY) or os.path.realpath(project) == here
    )


def add_project_rules(path: Path, workspace: Path | None, allow: Sequence[str]) -> None:
    """Allow calls in *workspace* from now on, or in every one; a missing file is created.

    Raises:
        SettingsError: The file cannot be written, or is invalid.
    """
    if path.exists():
        # Do not append to a file that could not be read again.
        read_rules(path, workspace or Path("/"))
    listed = ", ".join(map(_toml_text, allow))
    folder = os.path.realpath(workspace) if workspace else _EVERY
    block = f"[[{_PROJECTS}]]\npath = {_toml_text(folder)}\nallow = [{listed}]"
    try:
        paths.private_dir(path.parent)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        with os.fdopen(os.open(path, flags, 0o600), "wb") as stream:
            stream.write(f"\n{block}\n".encode())
    except UnicodeEncodeError as error:
        raise SettingsError(f"{path} cannot hold the name of {workspace!a}") from error
    except OSError as error:
        raise SettingsError(f"{path} cannot be written: {error.strerror}") from error


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
        raise SettingsError(
            f"{path}: unknown key {kind}; rules go under {', '.join(RULE_KINDS)},"
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
