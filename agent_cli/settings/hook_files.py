"""Lifecycle hooks in the workspace's files, and the scripts that they run.

Imported only if there is such a file. The code that defines hooks validates them.
"""

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from agent_cli.contracts.errors import SettingsError
from agent_cli.contracts.written_hooks import folded_keys
from agent_cli.settings.claude_files import ClaudeFile
from agent_cli.settings.rules import fold
from agent_cli.settings.sources import CLAUDE_FILES, SETTINGS_FILES, WrittenHooks
from agent_cli.settings.toml_json import file_entries
from agent_cli.system.authorship import SessionFolders, author_of
from agent_cli.system.fixed_paths import start_of
from agent_cli.system.paths import is_dir, is_file
from agent_cli.system.shapes import is_array, is_mapping, is_sequence

PROJECT_DIR = "CLAUDE_PROJECT_DIR"

_QUOTES = re.compile(r"\\\n|[\\'\"]")
_WORD_ENDS = re.compile(r"[\s;&|<>()`]+")
_PATH_ENDS = re.compile(r"[\s;&|<>()`{}'\"\\$=,@:]+")
_HOME = re.compile(r"\$(?:HOME\b|\{HOME\})")
_PIECES_MAX = 300
_FILES_MAX = 50
_NAMES_MAX = 2_000
_JAVASCRIPT = ("", ".js", ".mjs", ".cjs", ".ts", ".json", "/index.js")
_SCRIPT_BYTES_MAX = 262_144
# Each is bounded: a stranger's file may be one long line.
_IMPORT = re.compile(
    r"^[ \t]{0,40}(?:from[ \t]{1,9}(\.{0,9})([\w.]{0,200})[ \t]{1,9}import"
    r"[ \t(]{1,9}([\w, ]{0,999})"
    r"|import[ \t]{1,9}([\w., ]{1,999}))",
    re.MULTILINE,
)
_NAMED_SCRIPT = re.compile(r"(?<![\w./-])[\w./-]{1,300}\.(?:sh|bash|zsh|py|js|mjs|cjs|ts|rb|pl)\b")
_REQUIRED = re.compile(r"['\"](\.\.?/[\w./-]+)['\"]")
_FOLDERS_MAX = 20


def project_hooks(workspace: Path) -> list[WrittenHooks]:
    """Return all groups of hooks in files of *workspace*; invalid files count as empty."""
    found: list[WrittenHooks] = []
    for name in (*SETTINGS_FILES, *CLAUDE_FILES):
        path = workspace / name
        if is_file(path):
            try:
                if name in CLAUDE_FILES:
                    found += ClaudeFile.read(path).hooks(from_project=True)
                else:
                    found += _own_hooks(path)
            except SettingsError:
                continue  # loading the settings reports it
    return found


def _own_hooks(path: Path) -> Iterator[WrittenHooks]:
    for entry in file_entries(path, from_project=True):
        # As `Layers` reads it: a key may also be written with its dots, "hooks.pre_tool_use".
        section, _, event = ".".join(entry.path).partition(".")
        if fold(section) == "hooks" and is_array(entry.value):
            for group in entry.value:
                yield WrittenHooks(event, group, entry.origin, from_project=True)


def entries_of(written: WrittenHooks) -> Iterator[Mapping[str, object]]:
    """Yield the tables of the hooks in a group with folded keys, ignoring invalid parts."""
    group: Mapping[str, object] = written.group if is_mapping(written.group) else {}
    hooks = group.get("hooks")
    for hook in hooks if is_sequence(hooks) else ():
        if is_mapping(hook):
            yield folded_keys(hook)


def words_of(hook: Mapping[str, object]) -> list[str]:
    """Return the words of the command line of a hook with folded keys, as far as they parse."""
    command, args = hook.get("command"), hook.get("args")
    if not isinstance(command, str):
        return []
    if is_sequence(args):
        return [command, *map(str, args)]
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()


def scripts_of(hooks: Iterable[WrittenHooks], workspace: Path) -> tuple[Path, ...]:
    """Return the files that the commands of *hooks* name and that a stranger may have written.

    Every piece of a command counts that may be a path, in the workspace or in a folder that the
    command names: `cd scripts && ./x`, `cat x|sh`, `./x.sh; true`.
    """
    session = SessionFolders.of(workspace)
    found = {
        path: None
        for written in hooks
        for hook in entries_of(written)
        for path in _files_named(_pieces_of(hook, workspace), workspace, session)
    }
    return tuple(sorted(found))


def all_scripts_of(hooks: Iterable[WrittenHooks], workspace: Path) -> tuple[Path, ...]:
    """Return `scripts_of` *hooks*, and the files that these scripts import, source or run."""
    session = SessionFolders.of(workspace)
    waiting = [*scripts_of(hooks, workspace)]
    found = dict.fromkeys(waiting)
    while waiting and len(found) < _FILES_MAX:
        path = waiting.pop()
        for other in _loaded_by(path, workspace):
            if other not in found and is_file(other) and _is_strangers(other, session):
                found[other] = None
                waiting.append(other)
    return tuple(sorted(found))


def _loaded_by(script: Path, workspace: Path) -> Iterator[Path]:
    """Yield the files that *script* seems to import, source or run, as its text names them."""
    try:
        text = start_of(script, _SCRIPT_BYTES_MAX).decode(errors="replace")
    except OSError:
        return
    for path in islice(_names_in(text, script.parent, workspace), _NAMES_MAX):
        if path and path != script:
            yield path


def _names_in(text: str, folder: Path, workspace: Path) -> Iterator[Path | None]:
    for found in _NAMED_SCRIPT.finditer(text):
        # `$DIR/x.sh` names x.sh too.
        for name in filter(None, (found[0].lstrip("/"), found[0].partition("/")[2])):
            yield from (_joined(place, name) for place in (folder, workspace))
    for found in _REQUIRED.finditer(text):
        yield from (_joined(folder, f"{found[1]}{end}") for end in _JAVASCRIPT)
    for found in _IMPORT.finditer(text):
        dots, module, names, plain = (part or "" for part in found.groups())
        place = folder / Path(*[".."] * (len(dots) - 1))
        below = (f"{module}.{name.strip()}".strip(".") for name in names.split(","))
        whole = (name.split()[0] for name in plain.split(",") if name.split())
        for each in (module, *below, *whole):
            name = each.replace(".", "/")
            yield from (_joined(place, f"{name}{end}") for end in (".py", "/__init__.py"))


def _pieces_of(hook: Mapping[str, object], workspace: Path) -> list[str]:
    """Return the words of a hook's command, and all pieces of them that may be paths."""
    words = words_of(hook)
    command = hook.get("command")
    texts = [*words, command if isinstance(command, str) else ""]
    for mark in (f"${{{PROJECT_DIR}}}", f"${PROJECT_DIR}"):
        texts = [text.replace(mark, str(workspace)) for text in texts]
    texts = [_HOME.sub(str(Path.home()), text) for text in texts]
    pieces = [*texts[:-1]]
    for text in texts:
        for breaks in (_WORD_ENDS, _PATH_ENDS):
            pieces += breaks.split(_QUOTES.sub("", text))
            pieces += breaks.split(text)
    return [piece for piece in dict.fromkeys(pieces) if piece][:_PIECES_MAX]


def _files_named(pieces: Sequence[str], workspace: Path, session: SessionFolders) -> Iterator[Path]:
    named = [path for piece in pieces if (path := _joined(workspace, piece))]
    folders = [path for path in named if is_dir(path) and _is_strangers(path, session)]
    for folder in dict.fromkeys((workspace, *folders[:_FOLDERS_MAX])):
        for piece in pieces:
            path = _joined(folder, piece)
            if path and is_file(path) and _is_strangers(path, session):
                yield path


def _joined(folder: Path, piece: str) -> Path | None:
    try:
        return Path(os.path.normpath(folder / os.path.expanduser(piece)))  # noqa: PTH111
    except (OSError, ValueError):
        return None


def _is_strangers(path: Path, session: SessionFolders) -> bool:
    return author_of(path, session).author.is_stranger
