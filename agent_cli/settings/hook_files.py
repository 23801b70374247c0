"""Lifecycle hooks in the workspace's files, and the scripts that they run.

Imported only if there is such a file. The code that defines hooks validates them.
"""

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from agent_cli.contracts.errors import SettingsError
from agent_cli.contracts.written_hooks import folded_keys, guards_on, with_project_dir
from agent_cli.settings import CLAUDE_FILES, SETTINGS_FILES, WrittenHooks
from agent_cli.settings.files import ClaudeFile, file_entries
from agent_cli.settings.loaded_files import loaded_by, run_by
from agent_cli.settings.rules import fold
from agent_cli.system import paths
from agent_cli.system.authorship import SessionFolders, author_of
from agent_cli.system.paths import is_dir, is_file
from agent_cli.system.shapes import is_array, is_mapping, is_sequence

_QUOTES = re.compile(r"\\\n|[\\'\"]")
_WORD_ENDS = re.compile(r"[\s;&|<>()`]+")
_PATH_ENDS = re.compile(r"[\s;&|<>()`{}'\"\\$=,@:]+")
_HOME = re.compile(r"\$(?:HOME\b|\{HOME\})")
# A destination: `>> log`, `2>log`, `| tee -a log`. What is quoted before it is matched to be kept.
_WRITTEN = re.compile(
    r"(?P<kept>\\.|'[^']*'|\"(?:[^\"\\]|\\.)*\")"
    r"|(?:(?<!<)>>?\|?|\|[ \t]*tee(?:[ \t]+-a)?(?=[ \t]))[ \t]*(?!-)"
    r"(?:'[^']*'|\"(?:[^\"\\`$]|\$(?!\())*\"|[^\s;&|<>()`'\"\\$]|\$(?!\())+(?=[\s;&|)]|\Z)",
    re.DOTALL,
)
_PIECES_MAX = 300
_FILES_MAX = 50
_FOLDERS_MAX = 20


def project_hooks(workspace: Path) -> list[WrittenHooks]:
    """Return all groups of hooks in files of *workspace*; invalid files count as empty."""
    found: list[WrittenHooks] = []
    for name in (*SETTINGS_FILES, *CLAUDE_FILES):
        path = workspace / name
        if is_file(path):
            found += _hooks_in(path, of_claude=name in CLAUDE_FILES, from_project=True)
    return found


def hooks_in_files(workspace: Path) -> list[WrittenHooks]:
    """Return `project_hooks`, and the user's own: they may run scripts of *workspace*."""
    own = paths.user_settings_file(), paths.claude_dir() / "settings.json"
    found = project_hooks(workspace)
    for path, of_claude in zip(own, (False, True), strict=True):
        if is_file(path):
            found += _hooks_in(path, of_claude=of_claude, from_project=False)
    return found


def _hooks_in(path: Path, *, of_claude: bool, from_project: bool) -> list[WrittenHooks]:
    try:
        if of_claude:
            return [*ClaudeFile.read(path).hooks(from_project=from_project)]
        return [*_own_hooks(path, from_project=from_project)]
    except SettingsError:
        return []  # loading the settings reports it


def _own_hooks(path: Path, *, from_project: bool) -> Iterator[WrittenHooks]:
    for entry in file_entries(path, from_project=from_project):
        # As `Layers` reads it: a key may also be written with its dots, "hooks.pre_tool_use".
        section, _, event = ".".join(entry.path).partition(".")
        if fold(section) == "hooks" and is_array(entry.value):
            for group in entry.value:
                yield WrittenHooks(event, group, entry.origin, from_project)


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
    texts = (hook for written in hooks for hook in entries_of(written))
    return _named_by((_pieces_of(hook, workspace) for hook in texts), workspace)


def scripts_of_command(
    command: str, args: Sequence[str] | None, workspace: Path
) -> tuple[Path, ...]:
    """Return `scripts_of` a hook with *command* and, if it is a program, its *args*."""
    group = {"hooks": [{"command": command, "args": args}]}
    return scripts_of([WrittenHooks("", group, "")], workspace)


def all_scripts_of(hooks: Iterable[WrittenHooks], workspace: Path) -> tuple[Path, ...]:
    """Return `scripts_of` *hooks*, and the files that these scripts import, source, run or read.

    Of a project's guards also the files that their programs run by themselves, as make does its
    Makefile: a guard of the user's that runs make would have each project ask for trust.
    """
    session = SessionFolders.of(workspace)
    reading = [(w, _only_reading(hook)) for w in hooks for hook in entries_of(w)]
    waiting = [*_named_by((_pieces_of(hook, workspace) for _, hook in reading), workspace)]
    for written, hook in reading:
        if written.from_project and guards_on(written.event):
            text = _named_here(" ".join(words_of(hook)), workspace)
            waiting += run_by(text, _pieces_of(hook, workspace), workspace)
    found: dict[Path, None] = {}
    while waiting and len(found) < _FILES_MAX:
        path = waiting.pop()
        if path not in found and is_file(path) and _is_strangers(path, session):
            found[path] = None
            waiting += loaded_by(path, workspace)
    return tuple(sorted(found))


def _only_reading(hook: Mapping[str, object]) -> Mapping[str, object]:
    """Return *hook* without the files that its command only writes.

    A log would be another file after each run, and trust in the project end with the first one.
    """
    command = hook.get("command")
    if not isinstance(command, str) or is_sequence(hook.get("args")):
        return hook  # a program, and a > is one of its arguments
    return {**hook, "command": _WRITTEN.sub(lambda found: found["kept"] or " ", command)}


def _named_by(commands: Iterable[Sequence[str]], workspace: Path) -> tuple[Path, ...]:
    session = SessionFolders.of(workspace)
    found = (path for pieces in commands for path in _files_named(pieces, workspace, session))
    return tuple(sorted({*found}))


def _pieces_of(hook: Mapping[str, object], workspace: Path) -> list[str]:
    """Return the words of a hook's command, and all pieces of words that may be paths."""
    words = words_of(hook)
    command = hook.get("command")
    texts = [*words, command if isinstance(command, str) else ""]
    texts = [_named_here(text, workspace) for text in texts]
    pieces = [*texts[:-1]]
    for text in texts:
        for breaks in (_WORD_ENDS, _PATH_ENDS):
            pieces += breaks.split(_QUOTES.sub("", text))
            pieces += breaks.split(text)
    return [piece for piece in dict.fromkeys(pieces) if piece][:_PIECES_MAX]


def _named_here(text: str, workspace: Path) -> str:
    return _HOME.sub(str(Path.home()), with_project_dir(text, str(workspace)))


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
