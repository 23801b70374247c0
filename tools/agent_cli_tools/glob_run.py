"""Run one call of glob."""

import asyncio
import os
import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from agent_cli.contracts.errors import ToolError
from agent_cli.contracts.tooling import ToolContext, ToolResult
from agent_cli_tools.search_tools import GlobParameters
from agent_cli_tools.searches import expand_braces, footer, is_there, left_out, search, search_root
from agent_cli_tools.secret_files import is_secret
from agent_cli_tools.workspace import Workspace

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

RESULT_BYTES_MAX = 50 * 1024
LIMIT_MAX = 2_000
_FOOTER_BYTES = 512


async def glob(workspace: Workspace, params: GlobParameters, context: ToolContext) -> ToolResult:
    """Search as *params* say."""
    root = search_root(workspace, params.path, context)
    if not (workspace.root / root).is_dir():
        raise ToolError(f"{params.path} is a file. Give a directory to search in.")
    found = await search(workspace, ["--files", "--null", "--hidden", "--glob=!.git", "--", root])
    base = workspace.root / root
    paths = await asyncio.to_thread(_matching, found.output, params.pattern, workspace.root, base)
    public = [path for path in paths if not is_secret(path)]
    shown = await asyncio.to_thread(_shown, public, params.limit, workspace.root)
    notes: list[str] = []
    if not public:
        notes.append(f"no files match {params.pattern} in {params.path}")
    elif len(shown) < len(public):
        notes.append(f"{len(shown):,} of {len(public):,} files shown; narrow the pattern")
    notes += left_out(len(paths) - len(public))
    if found.cut:
        notes.append(found.cut)
    text = "\n".join([*shown, *footer(notes)])
    return ToolResult.of(text, {"kind": "search", "matches": len(shown), "total": len(public)})


def _matching(output: bytes, pattern: str, root: Path, base: Path) -> list[Path]:
    """Return the listed files that *pattern*, relative to *base*, matches; newest first."""
    spec = _spec(pattern.removeprefix(f"{base}/"))
    found: list[tuple[float, Path]] = []
    for raw in output.split(b"\0")[:-1]:
        path = root / os.fsdecode(raw)
        if spec.match_file(path.relative_to(base).as_posix()):
            found.append((-_modified(path), path))
    return [path for _, path in sorted(found)]


def _spec(pattern: str) -> "GitIgnoreSpec":
    from agent_cli.system.path_patterns import path_patterns  # noqa: PLC0415 - with the first call

    # These are .gitignore rules, in which "!" and "#" at the start have another meaning.
    escaped = f"\\{pattern}" if pattern.startswith(("!", "#")) else pattern
    try:
        return path_patterns(expand_braces(escaped))
    except (ValueError, re.error) as error:
        raise ToolError(
            f"{pattern} is no pattern for names ({error}). Correct it and call again."
        ) from error


def _modified(path: Path) -> float:
    try:
        return path.lstat().st_mtime
    except OSError:
        return 0.0  # It was deleted in the meantime; sort it last.


def _below(path: Path, root: Path) -> Path:
    return path.relative_to(root) if path.is_relative_to(root) else path


def _shown(paths: Sequence[Path], limit: int, root: Path) -> list[str]:
    """Return as many names as fit, of files that still exist without symlinks."""
    names: list[str] = []
    room = RESULT_BYTES_MAX - _FOOTER_BYTES
    for path in islice(filter(is_there, paths), min(limit, LIMIT_MAX)):
        name = str(_below(path, root)).encode(errors="replace").decode()
        room -= len(name.encode()) + 1
        if room < 0:
            break
        names.append(name)
    return names
