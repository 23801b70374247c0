"""Run one call of glob or grep."""

import asyncio
import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import compress, groupby, islice, product
from pathlib import Path
from typing import TYPE_CHECKING

from agent_cli.contracts.errors import ToolError
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import ToolContext, ToolResult
from agent_cli.sandbox.secret_files import is_secret
from agent_cli.system.paths import is_dir
from agent_cli_tools.search_tools import GlobParameters, GrepParameters
from agent_cli_tools.searches import (
    Hit,
    SearchOutput,
    alternatives,
    footer,
    hits_of,
    is_there,
    left_out,
    modified,
    not_read,
    opened,
    search,
    search_root,
)
from agent_cli_tools.textio import FOOTER_BYTES, RESULT_BYTES_MAX
from agent_cli_tools.workspace import Workspace, named

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

LIMIT_MAX = 2_000
_ELSEWHERE = ("/", "~/", "../")
# A search that found nothing is made once more, in what .gitignore excludes.
_IGNORED_LIMIT_S = 2.0
_IGNORED_NAMED = 3


async def glob(workspace: Workspace, params: GlobParameters, context: ToolContext) -> ToolResult:
    """Search as *params* say."""
    root = search_root(workspace, params.path, context)
    if not (workspace.root / root).is_dir():
        raise ToolError(f"{params.path} is a file. Give a directory to search in.")
    base, pattern = _named_folder(workspace, workspace.root / root, params.pattern)
    arguments = [*("--files", "--null", "--hidden", "--glob=!.git", "--"), workspace.shown(base)]

    def matching(output: bytes) -> list[str]:
        return _matching(output, pattern, workspace.root, arguments[-1])

    found = await search(workspace, arguments)
    paths = await asyncio.to_thread(matching, found.output)
    public = await asyncio.to_thread(_public, paths)
    shown = await asyncio.to_thread(_shown_paths, public, params.limit, workspace.root)
    notes: list[str] = []
    if not public:
        notes.append(f"no files match {params.pattern} in {params.path}{_so_far(found)}")
        if params.pattern.startswith(_ELSEWHERE):
            notes.append("a pattern starts in the searched folder; give another one as path")
        notes += [] if found.cut else await _ignored_names(workspace, arguments, found, matching)
    elif len(shown) < len(public):
        notes.append(f"{len(shown):,} of {len(public):,} files shown; narrow the pattern")
    notes += [*left_out(len(paths) - len(public)), *not_read(found)]
    if found.cut:
        notes.append(found.cut)
    text = "\n".join([*shown, *footer(notes)])
    return ToolResult.of(text, _details(len(shown), len(public), found))


def _public(paths: Sequence[str]) -> list[str]:
    return [path for path in paths if not is_secret(path)]


def _details(matches: int, total: int, found: SearchOutput) -> Json:
    cut = {"cut": True} if found.cut else {}
    return {"kind": "search", "matches": matches, "total": total, **cut}


def _so_far(found: SearchOutput) -> str:
    return " so far" if found.cut else ""


def _named_folder(workspace: Workspace, base: Path, pattern: str) -> tuple[Path, str]:
    """Return the folder below *base* that *pattern* begins with, and the rest of the pattern.

    That folder itself is searched: it may be a link to another one below *base*, be excluded by
    .gitignore, or have a name that reads like a pattern, such as `app/[id]`.
    """
    folder, parts = base, pattern.removeprefix(f"{base}/").split("/")
    while parts[1:] not in ([], [""]) and parts[0] not in ("", "..") and is_dir(folder / parts[0]):
        folder /= parts.pop(0)
    with suppress(ToolError):  # A link out of the workspace: no file below *base* is behind it.
        real = workspace.resolve(str(folder))
        if folder != base and real.is_relative_to(base):
            return real, f"/{'/'.join(parts)}"
    return base, pattern.removeprefix(f"{base}/")


async def _ignored_names(
    workspace: Workspace,
    arguments: Sequence[str],
    before: SearchOutput,
    matching: Callable[[bytes], Sequence[str]],
) -> list[str]:
    found = await _search_ignored(workspace, arguments, before)
    paths = await asyncio.to_thread(lambda: _public(matching(_added(found, before))))
    named = await asyncio.to_thread(_shown_paths, paths, _IGNORED_NAMED, workspace.root)
    return _ignored(named, len(paths), found)


def _added(found: SearchOutput, before: SearchOutput) -> bytes:
    """Return the names that *found* has and *before* has not: no other can match now."""
    known = {*before.output.split(b"\0")}
    return b"".join(b"%b\0" % name for name in found.output.split(b"\0") if name not in known)


async def _search_ignored(
    workspace: Workspace, arguments: Sequence[str], before: SearchOutput
) -> SearchOutput:
    """Search also what .gitignore excludes, which may hold folders of other users."""
    try:
        found = await search(workspace, ["--no-ignore", *arguments], limit_s=_IGNORED_LIMIT_S)
    except ToolError as error:
        return SearchOutput(b"", str(error))
    is_cut = found.cut or not {*found.unread} <= {*before.unread}
    return SearchOutput(found.output, "some cannot be read") if is_cut else found


def _ignored(named: Sequence[str], total: int, found: SearchOutput) -> list[str]:
    """Return the note on excluded files, so that the model does not assume "none"."""
    if not named:
        return ["not all of what .gitignore excludes was searched"] if found.cut else []
    more = f" and {total - len(named):,} more" if total > len(named) else ""
    return [f"but .gitignore excludes what matches: {', '.join(named)}{more}"]


def _matching(output: bytes, pattern: str, root: Path, base: str) -> list[str]:
    """Return the listed files that *pattern*, relative to *base*, matches; newest first.

    *base* is the folder as ripgrep was given it. A workspace may hold a million files: only those
    that match become paths.

    If its last name has a wildcard and fits no file, the files in the folders that it fits. If it
    fits none of these, the same with names of macOS, in which an accent is a character of its own.
    """
    listed = [os.fsdecode(raw) for raw in output.split(b"\0")[:-1]]
    start = f"{base.rstrip('/')}/"
    names = [name.removeprefix(start) for name in listed]
    found = list[str]()
    forms = (False,) if pattern.isascii() else (False, True)
    for composed, of_files in product(forms, (True, False)):
        spec = _spec(_composed(pattern) if composed else pattern, of_files=of_files)
        fitting = fits(spec, [*map(_composed, names)] if composed else names)
        if found := [*compress(listed, fitting)]:
            break
    paths = (os.path.join(root, each.removeprefix("./")) for each in found)  # noqa: PTH118 - slower
    changed = {path: modified(path) for path in paths}
    return sorted(changed, key=lambda path: (-changed[path], path.split("/")))


def fits(spec: "GitIgnoreSpec", names: Sequence[str]) -> Iterator[bool]:
    """Yield for each of *names* whether *spec* matches it."""
    # The library's way through all patterns takes several times as long as each pattern by itself,
    # and decides no more without a "!".
    found = {name for each in spec.patterns for name in filter(each.match_file, names)}
    is_whole = all(each.include is not False for each in spec.patterns)
    return (name in found and (is_whole or spec.match_file(name)) for name in names)


def _composed(name: str) -> str:
    return unicodedata.normalize("NFC", name)


def _spec(pattern: str, *, of_files: bool) -> "GitIgnoreSpec":
    from agent_cli.system.path_patterns import path_patterns  # with the first call

    # These are .gitignore rules, in which "!" and "#" at the start have another meaning.
    escaped = f"\\{pattern}" if pattern.startswith(("!", "#")) else pattern
    try:
        return path_patterns(alternatives(escaped), of_files=of_files)
    except (ValueError, re.error) as error:
        raise ToolError(
            f"{pattern} is no pattern for names ({error}). Correct it and call again."
        ) from error


def _below(path: Path, root: Path) -> Path:
    return path.relative_to(root) if path.is_relative_to(root) else path


def _shown_paths(paths: Sequence[str], limit: int, root: Path) -> list[str]:
    """Return as many names as fit, of files that still exist without symlinks."""
    names: list[str] = []
    room = RESULT_BYTES_MAX - FOOTER_BYTES
    for path in islice(filter(is_there, map(Path, paths)), min(limit, LIMIT_MAX)):
        name = named(str(_below(path, root)))
        room -= len(name.encode()) + 1
        if room < 0:
            break
        names.append(name)
    return names


RESULT_LINES_MAX = 2_000
_COLUMNS_MAX = 500
# ripgrep searches a file that matches a --glob even if .gitignore excludes it, so a glob for
# everything would search everything.
_GLOBS_FOR_ALL = frozenset({"", "*", "**", "**/*", "/**", "/**/*"})
_WILD = re.compile(r"[][{}*?!\\]")

# A line end to be found, which ripgrep refuses without --multiline; not one in `[^\n]`.
_LINE_END = re.compile(r"(?>(?:\\[^n]|\[\^(?:\\.|[^\]\\])*\]|[^\\\n])*)(?:\\n|\n)")
# A carriage return to be found, which ripgrep refuses with --crlf; not one in `[^\r]`.
_CODE = r"[xu](?:00)?(?:0[dD]|\{0*[dD]\})"
_CARRIAGE_RETURN = re.compile(
    rf"(?>(?:\[\^(?:\\.|[^\]\\])*\]|\\(?!r|{_CODE}).|[^\\\r])*)(?:\\r|\\{_CODE}|\r)", re.DOTALL
)


async def grep(workspace: Workspace, params: GrepParameters, context: ToolContext) -> ToolResult:
    """Search as *params* say."""
    root = search_root(workspace, params.path, context)
    globs = _globs(workspace, params.glob, root)
    found = await search(workspace, _arguments(params, root, globs))
    public, secrets = await asyncio.to_thread(hits_of, found.output, params.mode, workspace.root)
    shown, matches, untrue = await asyncio.to_thread(
        _shown_hits, public, params.limit, workspace.root
    )
    notes: list[str] = []
    total = sum(hit.is_match for hit in public if hit.path not in untrue)
    if total == 0:
        shown = []  # drops separators as well
        notes.append(f"no matches for {params.pattern} in {params.path}{_so_far(found)}")
        notes += await _unfit(workspace, params.glob, root, globs)
        notes += [] if found.cut else await _ignored_matches(workspace, params, root, globs, found)
    elif matches < total:
        unit = "matches" if params.mode == "content" else "files"
        notes.append(f"{matches:,} of {total:,} {unit} shown; narrow the search or raise limit")
    notes += [*left_out(secrets), *not_read(found)]
    if untrue:
        notes.append(f"{len(untrue)} left out that changed meanwhile, or may hold secrets")
    if found.cut:
        notes.append(found.cut)
    text = "\n".join([*shown, *footer(notes)])
    return ToolResult.of(text, _details(matches, total, found))


async def _unfit(workspace: Workspace, written: str, root: str, globs: Sequence[str]) -> list[str]:
    """Return the note that no file fits the glob, so that the model does not assume "none"."""
    if not globs:
        return []
    listed = ["--files", "--hidden", *_restricted(globs), "--", root]
    found = await search(workspace, listed, limit_s=_IGNORED_LIMIT_S)
    return [] if found.output or found.cut else [f"no file there fits the glob {written}"]


async def _ignored_matches(
    workspace: Workspace,
    params: GrepParameters,
    root: str,
    globs: Sequence[str],
    before: SearchOutput,
) -> list[str]:
    arguments = ["--files-with-matches", "--null", *_query(params, root, globs)]
    found = await _search_ignored(workspace, arguments, before)
    hits, _ = await asyncio.to_thread(hits_of, found.output, "files", workspace.root)
    named, _, untrue = await asyncio.to_thread(_shown_hits, hits, _IGNORED_NAMED, workspace.root)
    return _ignored(named, len(hits) - len(untrue), found)


def _arguments(params: GrepParameters, root: str, globs: Sequence[str]) -> list[str]:
    modes = {"content": [], "files": ["--files-with-matches"], "count": ["--count"]}
    return [
        *("--color=never", "--no-heading", "--with-filename", "--line-number", "--null"),
        *("--byte-offset", "--max-columns-preview"),
        f"--max-columns={_COLUMNS_MAX}",
        *modes[params.mode],
        *([f"--context={params.context}"] if params.context else []),
        *_query(params, root, globs),
    ]


def _query(params: GrepParameters, root: str, globs: Sequence[str]) -> list[str]:
    """Return the arguments that say what to find, and where."""
    return [
        "--hidden",
        # `$` stands before the CRLF of a line, too, unless the pattern itself knows of the CR.
        *([] if _CARRIAGE_RETURN.match(params.pattern) else ["--crlf"]),
        *(["--ignore-case"] if params.ignore_case else []),
        *(["--multiline"] if _LINE_END.match(params.pattern) else []),
        *_restricted(globs),
        f"--regexp={params.pattern}",
        *("--", root),
    ]


def _restricted(globs: Sequence[str]) -> list[str]:
    return [*(f"--glob={glob}" for glob in globs), "--glob=!.git"]


def _globs(workspace: Workspace, written: str, root: str) -> list[str]:
    """Return the globs for ripgrep, for which a path starts at the workspace's root.

    A path may as well start at *root*, where the search does, and be absolute.
    """
    top = f"{workspace.root}/"
    base = f"{workspace.root / root}/"
    # ripgrep matches the whole path of a file that is outside the workspace.
    here = _WILD.sub(r"\\\g<0>", base.removeprefix(top))
    here = f"/{here}" if base.startswith(top) else f"**{here}"
    globs: list[str] = []
    for glob in alternatives(written):
        mark, name = ("!", glob[1:]) if glob.startswith("!") else ("", glob)
        for start in (base, top, "./"):
            if name.startswith(start):
                name = f"/{name.removeprefix(start)}"
                break
        if not mark and name in _GLOBS_FOR_ALL:
            return []
        globs.append(mark + name)
        if base != top and "/" in name.rstrip("/") and not name.startswith("**/"):
            globs.append(f"{mark}{here}{name.lstrip('/')}")
    return globs


def _shown_hits(hits: list[Hit], limit: int, root: Path) -> tuple[list[str], int, set[bytes]]:
    """Return the lines that fit, the number of matches, and files that do not contain them."""
    lines: list[str] = []
    matches = 0
    untrue: set[bytes] = set()
    room = RESULT_BYTES_MAX - FOOTER_BYTES
    for hit in _true(hits, root, untrue):
        room -= len(hit.text.encode()) + 1
        if room < 0 or len(lines) >= RESULT_LINES_MAX or (hit.is_match and matches == limit):
            break
        lines.append(hit.text)
        matches += hit.is_match
    return lines, matches, untrue


def _true(hits: Iterable[Hit], root: Path, untrue: set[bytes]) -> Iterator[Hit]:
    """Yield the *hits* that match their file; add the paths of others to *untrue*."""
    for path, of_file in groupby(hits, key=lambda hit: hit.path):
        if not path:
            yield from of_file
            continue
        with opened(root / os.fsdecode(os.path.normpath(path)), root) as file:
            for hit in of_file:
                if file and (hit.raw is None or file.holds(hit.raw, hit.offset)):
                    yield hit
                else:
                    untrue.add(path)
