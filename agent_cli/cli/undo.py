"""`agent-cli undo`: list, show and restore earlier versions of files, of all sessions."""

import json
import shutil
import sys
import time
from pathlib import Path
from typing import Final

from agent_cli.app.arguments import Arguments
from agent_cli.contracts.errors import AgentCliError, UsageError
from agent_cli.system.paths import changes_dir, real_path
from agent_cli.system.sanitize import clean, reveal
from agent_cli_tools.snapshots.kept_versions import KeptVersion, kept_versions, restore
from agent_cli_tools.textio import decode, looks_binary

_LISTED_MAX: Final = 100


def undo(arguments: Arguments) -> int:
    """Run `undo list [FILE]`, `undo show FILE|ID` or `undo restore FILE|ID`."""
    try:
        match arguments.operands:
            case ("list", *rest) if len(rest) < 2:
                _list(kept_versions(changes_dir(), _named(*rest)), as_json=arguments.json)
            case ("show", name):
                _show(_version(name))
            case ("restore", name):
                _restore(_version(name))
            case _:
                raise UsageError("undo takes: list [FILE], show FILE|ID, or restore FILE|ID")
    except OSError as error:
        raise AgentCliError(f"the earlier version is not there: {error}") from error
    return 0


def _named(name: str = ".") -> Path:
    """Return a file by its own path: the last name is not followed if it is a link."""
    path = Path(name)
    return real_path(path.parent) / path.name if path.name else real_path(path)


def _version(name: str) -> KeptVersion:
    """Return the version with the id *name*, or the last version that differs from the file."""
    everything = kept_versions(changes_dir(), Path("/"))
    for each in everything:
        if each.id == name:
            return each
    path = _named(name)
    found = [each for each in everything if each.path == path]
    if not found and any(path in each.path.parents for each in everything):
        shown = reveal(name)
        raise AgentCliError(
            f"{shown} is a folder: name a file of it, or an id; see: agent-cli undo list {shown}"
        )
    if not found:
        raise AgentCliError(
            f"no earlier version of {reveal(name)} is kept; see: agent-cli undo list"
        )
    return next((each for each in found if each.differs()), found[0])


def _list(found: list[KeptVersion], *, as_json: bool) -> None:
    if as_json:
        rows = [
            {
                "id": each.id,
                "path": str(each.path),
                "bytes": each.bytes,
                "at_ms": each.at_ns // 1_000_000,
                "session_id": each.session,
                "fate": each.fate,
            }
            for each in found
        ]
        print(json.dumps(rows))
        return
    if not found:
        print("no earlier version of a file here is kept")
        return
    for each in found[:_LISTED_MAX]:
        fate = each.fate if each.fate == "edited" else f"before: {each.fate}"
        print(f"{each.id}  {_when(each)}  {each.bytes:>11,}  {_shown(each.path)}  {clean(fate)}")
    if len(found) > _LISTED_MAX:
        print(f"and {len(found) - _LISTED_MAX} older ones; name a file or folder, or use --json")


def _show(version: KeptVersion) -> None:
    if version.kept.is_symlink():
        print(f"a link to {reveal(str(version.kept.readlink()))}")
        return
    with version.kept.open("rb") as file:
        if not sys.stdout.isatty():
            sys.stdout.flush()
            shutil.copyfileobj(file, sys.stdout.buffer)
            return
        data = file.read()
    if looks_binary(data):
        raise AgentCliError(f"{_shown(version.path)} was binary: send the output to a file")
    print(clean(decode(data)[0]), end="")


def _restore(version: KeptVersion) -> None:
    if not version.differs():
        print(f"{_shown(version.path)} is as it was {_when(version)}: nothing to do")
        return
    if (now := real_path(version.path.parent)) != version.path.parent:
        raise AgentCliError(
            f"{_shown(version.path)} is not put back: its folder leads to {reveal(str(now))} now."
            f" To see the earlier version: agent-cli undo show {version.id}"
        )
    moved = restore(version, changes_dir())
    print(f"{_shown(version.path)} is as it was {_when(version)}")
    if moved:
        print(f"the file that was there is kept as {reveal(str(moved))}")


def _when(version: KeptVersion) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(version.at_ns / 1e9))


def _shown(path: Path) -> str:
    here = real_path(Path())
    return reveal(str(path.relative_to(here) if here in path.parents else path))
