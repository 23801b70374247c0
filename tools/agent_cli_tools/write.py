"""write: create a file, or replace one that the model has read."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import ToolError
from agent_cli.contracts.tooling import FileContents, Parameters, Tool, ToolContext, ToolResult
from agent_cli.contracts.wording import counted
from agent_cli.system.loading import late_pattern
from agent_cli_tools.stoppable import Claim, in_thread, unstoppable
from agent_cli_tools.textio import (
    decode,
    encode,
    looks_binary,
    read_to_change,
    require_writable,
)

if TYPE_CHECKING:
    from agent_cli_tools.workspace import Workspace

CONTENT_CHARS_MAX = 2_000_000
_DRIVE: Final = late_pattern(r"@?([A-Za-z]:)[\\/]")

_DESCRIPTION = "Create a file, or replace one read in full."


class WriteParameters(Parameters):
    """Parameters of write."""

    path: str
    content: str


def write_tool(workspace: "Workspace") -> Tool:
    """Return the tool `write`."""

    async def execute(
        _call_id: str, params: WriteParameters, _cancel: CancelToken, context: ToolContext
    ) -> ToolResult:
        return await in_thread(partial(_write, workspace, params, context))

    async def foresee(
        params: WriteParameters, context: ToolContext, contents: FileContents
    ) -> None:
        await unstoppable(partial(_foresee, workspace, params, context, contents))

    return Tool(
        name="write",
        label="Write",
        description=_DESCRIPTION,
        parameters=WriteParameters,
        execute=execute,
        foresee=foresee,
        writes=lambda params: workspace.touched_by(params.path, to_write=True),
        summary=lambda params: params.path,
    )


def _write(
    workspace: "Workspace", params: WriteParameters, context: ToolContext, claim: Claim
) -> ToolResult:
    from agent_cli_tools.diffs import diff, lines_of  # with the first change

    _refuse_huge(params.content)
    path = _file_at(workspace, params.path)
    context.require_decided(str(path))
    raw = _old_content(workspace, path)
    data, before, note = _new_content(params.content, raw)
    workspace.write(path, data, before=raw, claim=claim)
    workspace.seen.note_all(path, data)
    shown = workspace.shown(path)
    lines = len(lines_of(params.content))
    size = f"{counted(lines, 'line')}, {counted(len(data), 'byte')}"
    verb = "created" if raw is None else "replaced"
    after, _ = decode(data)
    return ToolResult.of(f"{shown} {verb} ({size}).{note}", diff(before, after).details(shown))


def _foresee(
    workspace: "Workspace", params: WriteParameters, context: ToolContext, contents: FileContents
) -> None:
    """Put the new content into *contents*, or raise the `ToolError` that the call ends with."""
    _refuse_huge(params.content)
    path = _file_at(workspace, params.path)
    context.require_decided(str(path))
    # What an earlier call leaves there, the model knows.
    earlier = contents.get(str(path))
    raw = _old_content(workspace, path) if earlier is None else earlier
    contents[str(path)] = _new_content(params.content, raw)[0]


def _file_at(workspace: "Workspace", written: str) -> Path:
    path = workspace.resolve(written, to_write=True)
    if written.endswith("/") and not path.exists():
        raise ToolError(f"{written} names a directory. Name the file; its directories are made.")
    drive = _DRIVE.match(written)
    # Wine has links named as drives.
    if drive and not path.exists() and not (workspace.root / drive[1]).exists():
        raise ToolError(
            f"{written} is a path of Windows, and this system has no drives: the file would get"
            " all of it as its name. Write a path of this system, as glob and `ls` show it."
        )
    return path


def _refuse_huge(content: str) -> None:
    if len(content) > CONTENT_CHARS_MAX:
        raise ToolError(
            f"The content has more than {CONTENT_CHARS_MAX:,} characters. Write it in parts with"
            " edit, or let a program make it."
        )


def _new_content(content: str, raw: bytes | None) -> tuple[bytes, str, str]:
    """Return the bytes to write in place of *raw*, the old text, and a note about line ends."""
    if raw is None:
        return encode(content, "utf-8"), "", ""
    before, encoding = decode(raw)
    require_writable(content, encoding, old=before)
    content, note = _with_old_endings(content, before)
    return encode(content, encoding), before, note


def _old_content(workspace: "Workspace", path: Path) -> bytes | None:
    """Return the content of *path*, or None if it does not exist.

    Raises:
        ToolError: The model has not seen it, so it cannot mean to replace it.
    """
    shown = workspace.shown(path)
    if not path.exists():
        return None
    raw = workspace.open_files.content(path, read_to_change(path, shown))
    if raw and not workspace.seen.knows(path, raw):
        why = "exists and was not read in full yet"
        if workspace.seen.once_whole(path):
            why = f"has {workspace.stale(path)}"
        hint = "Delete it first, if that is meant." if looks_binary(raw) else "Read it first."
        raise ToolError(f"{shown} {why}, so it was not replaced. {hint}")
    return raw


def _with_old_endings(content: str, before: str) -> tuple[str, str]:
    """Return *content* with CRLF if the old file had only CRLF, and a note about that."""
    crlf = before.count("\r\n")
    if crlf == 0 or crlf != before.count("\n") or "\r\n" in content or "\n" not in content:
        return content, ""
    return content.replace("\n", "\r\n"), " Its CRLF line endings were kept."
