"""The parts of a workspace's acting files, each with a digest: a change revokes only what changed.

A guard (a hook that may block, a rule that asks or denies) is a part of its own, so that trust in
it outlives a change of another setting in the same file.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from agent_cli.contracts.errors import SettingsError
from agent_cli.contracts.written_hooks import guards_on
from agent_cli.prompt_files import prompt_text
from agent_cli.prompt_files.written_servers import written_servers
from agent_cli.settings import (
    CLAUDE_FILES,
    SERVERS_FILE,
    SETTINGS_FILES,
    WrittenHooks,
    read_file,
)
from agent_cli.settings.environment import acting_variables
from agent_cli.settings.files import ClaudeFile, file_entries
from agent_cli.settings.hook_files import all_scripts_of, hooks_in_files, scripts_of
from agent_cli.settings.layers import Layers, is_guard, is_guard_variable
from agent_cli.settings.loaded_files import PACKAGE, npm_scripts
from agent_cli.system.json_text import load_commented
from agent_cli.system.repositories import folder_and_name, project_folders
from agent_cli.system.shapes import is_array, is_object

_UNREADABLE: Final = "unreadable"


class Part(NamedTuple):
    """A part of a file that acts.

    Attributes:
        file: Its name in the workspace, as one line of ASCII.
        what: The part of the file, or "" for the whole of it.
        digest: A hash of its content.
        guards: Whether it restricts what the model may do, so that losing it matters.
    """

    file: str
    what: str
    digest: str
    guards: bool = False


Fingerprint: TypeAlias = tuple[Part, ...]


def parts_of(files: Mapping[str, Path], workspace: Path) -> Fingerprint:
    """Return the parts of the acting *files* of *workspace*, by their names on one line of ASCII.

    Raises:
        SettingsError: The `.env` cannot be read.
    """
    guarding = [each for each in hooks_in_files(workspace) if guards_on(each.event)]
    scripts = frozenset(all_scripts_of(guarding, workspace))
    around = project_folders(workspace)
    return tuple(
        Part(name, what, digest, guards or path in scripts)
        for name, path in files.items()
        for what, digest, guards in _parts(path, around, files.values())
    )


def _parts(
    path: Path, around: Sequence[Path], files: Iterable[Path]
) -> Iterator[tuple[str, str, bool]]:
    name = folder_and_name(path, around)[1]
    if name in CLAUDE_FILES:
        try:
            file = ClaudeFile.read(path)
        except SettingsError:
            yield "", _file_digest(path), True
            return
        # Only its hooks and its guarding rules act here: another key of the file changes nothing.
        groups, rules = [*file.hooks(from_project=True)], [*file.rules(from_project=True)]
        for event in dict.fromkeys(each.event for each in groups):
            of_event = [each.group for each in groups if each.event == event]
            yield f"hooks.{event}", _digest(of_event), guards_on(event)
        for kind in dict.fromkeys(each.kind for each in rules):
            of_kind = [each.text for each in rules if each.kind == kind]
            yield f"permissions.{kind}", _digest(of_kind), True
        return
    if name == ".env":
        variables = dict(acting_variables(around[0], files))
        yield "", _digest(variables), False
        if guards := {key: text for key, text in variables.items() if is_guard_variable(key)}:
            yield "guards", _digest(guards), True
        return
    if path.name == PACKAGE:
        # Its guard is a script in it: the packages and the version may change.
        yield "scripts", _digest(npm_scripts(path)), False
        return
    yield "", _file_digest(path), False
    try:
        if name in SETTINGS_FILES:
            for entry in file_entries(path, from_project=True):
                if is_guard(entry.path):
                    yield ".".join(entry.path), _digest(entry.value), True
    except SettingsError:
        return  # the whole file has a digest, and loading the settings reports it


def _file_digest(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:
        # Its readers report that. Raised here, a file of a folder above would keep each start
        # from happening; once it can be read, it has changed.
        return _UNREADABLE


def _digest(value: object) -> str:
    # TOML has dates.
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, default=repr)
    return hashlib.sha256(text.encode()).hexdigest()


# A server runs outside the sandbox, so trust covers such a file by its content, as a hook's
# script. What the file imports in turn is not known.
def server_files(files: Sequence[Path], workspace: Path) -> tuple[Path, ...]:
    """Return the files that servers of the acting *files* name and that a stranger may write."""
    # The search for a hook's scripts serves: both name files in a command and its words.
    found: dict[Path, None] = {}
    around = project_folders(workspace)
    for path in files:
        # A server of a folder above the workspace runs in that folder.
        folder, name = folder_and_name(path, around)
        if not (commands := [*map(_as_group, _entries(path, name))]):
            continue
        found |= dict.fromkeys(scripts_of(commands, folder if name == SERVERS_FILE else workspace))
    return tuple(sorted(found))


def _entries(path: Path, name: str) -> Iterator[Mapping[str, object]]:
    """Yield the servers of a file, as written; an unreadable file is reported by its reader."""
    try:
        if name == SERVERS_FILE:
            document = load_commented(read_file(path))
            servers = document.get("mcpServers") if is_object(document) else None
            yield from _tables(servers)
        elif name in SETTINGS_FILES:
            layers = Layers()
            layers.take(file_entries(path, from_project=True))
            for server in layers.settings().mcp.servers:
                yield {**server._asdict(), "args": [*server.args]}
        elif path.suffix == ".md":
            written = written_servers(prompt_text(path))
            yield from _tables(written.entries if written else None)
    except (SettingsError, OSError, ValueError, RecursionError):
        return


def _tables(servers: object) -> Iterable[Mapping[str, object]]:
    return [each for each in servers.values() if is_object(each)] if is_object(servers) else ()


def _as_group(entry: Mapping[str, object]) -> WrittenHooks:
    command, args = entry.get("command"), entry.get("args")
    words = [*map(str, args)] if is_array(args) else []
    # A relative file is looked for in the working directory as well.
    folder = entry.get("cwd")
    helpers = [entry[name] for name in ("headersHelper", "headers_helper") if name in entry]
    hooks: list[object] = [{"command": each} for each in helpers]
    if isinstance(command, str) and command:
        hooks.append({"command": command, "args": [*words, folder] if folder else words})
    return WrittenHooks("McpServer", {"hooks": hooks}, "MCP server")
