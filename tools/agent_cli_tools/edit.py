"""edit: replace texts in a file, or in the cells of a notebook; all other bytes stay."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import ToolError
from agent_cli.contracts.late_models import Field
from agent_cli.contracts.tooling import FileContents, Parameters, Tool, ToolContext, ToolResult
from agent_cli.contracts.wording import counted
from agent_cli.system.records import dataclass
from agent_cli_tools.notebooks import Notebook, notebook_in
from agent_cli_tools.stoppable import Claim, in_thread, unstoppable
from agent_cli_tools.textio import (
    decode,
    encode,
    looks_binary,
    read_to_change,
    require_writable,
)

if TYPE_CHECKING:
    from agent_cli_tools.diffs import Diff
    from agent_cli_tools.matching import Edit, Edited
    from agent_cli_tools.workspace import Workspace

EDITS_MAX = 50
STRINGS_CHARS_MAX = 2_000_000

_DESCRIPTION = (
    "Replace exact text in a file. Each old occurs once (or set all) and holds no line numbers;"
    " edits apply in order, all or none."
)


class OneEdit(Parameters):
    """One replacement."""

    old: str
    new: str
    all: bool = False


class EditParameters(Parameters):
    """Parameters of edit."""

    path: str
    edits: list[OneEdit] = Field(min_length=1, max_length=EDITS_MAX)


def edit_tool(workspace: "Workspace") -> Tool:
    """Return the tool `edit`."""

    async def execute(
        _call_id: str, params: EditParameters, _cancel: CancelToken, context: ToolContext
    ) -> ToolResult:
        return await in_thread(partial(_edit, workspace, params, context))

    async def foresee(params: EditParameters, context: ToolContext, contents: FileContents) -> None:
        await unstoppable(partial(_foresee, workspace, params, context, contents))

    return Tool(
        name="edit",
        label="Edit",
        description=_DESCRIPTION,
        parameters=EditParameters,
        execute=execute,
        foresee=foresee,
        writes=lambda params: workspace.touched_by(params.path, to_write=True),
        summary=lambda params: params.path,
    )


@dataclass(frozen=True, slots=True)
class _Change:
    """The edited text of a file, before it is written."""

    before: str
    requested: "Sequence[Edit]"
    edited: "Edited"
    data: bytes


def _edit(
    workspace: "Workspace", params: EditParameters, context: ToolContext, claim: Claim
) -> ToolResult:
    from agent_cli_tools.diffs import diff  # with the first change
    from agent_cli_tools.misfits import slips

    path = workspace.resolve(params.path, to_write=True)
    context.require_decided(str(path))
    shown = workspace.shown(path)
    raw = _read(workspace, path, params.edits)
    known = workspace.seen.knows(path, raw)
    change = _change(workspace, params, path, raw, known=known)
    before, requested, edited = change.before, change.requested, change.edited
    # Looked up before this edit is recorded as the last change.
    is_stale = not known and workspace.seen.once_whole(path)
    stale = workspace.stale(path) if is_stale else ""
    notes = _notes(edited, skipped=len(params.edits) - len(requested))
    if stale:
        notes.append(f"The file had {stale}; read it before the next change.")
    if not any(edited.repairs):
        notes += slips(before, edited.text, requested)
    workspace.write(path, change.data, before=raw, claim=claim)
    workspace.seen.note_change(path, raw, change.data)
    changes = diff(before, edited.text)
    return ToolResult.of(
        " ".join([_summary(shown, len(requested), changes), *notes]), changes.details(shown)
    )


def _foresee(
    workspace: "Workspace", params: EditParameters, context: ToolContext, contents: FileContents
) -> None:
    """Put the edited content into *contents*, or raise the `ToolError` that the call ends with."""
    path = workspace.resolve(params.path, to_write=True)
    context.require_decided(str(path))
    earlier = contents.get(str(path))
    raw = _read(workspace, path, params.edits) if earlier is None else earlier
    known = earlier is not None or workspace.seen.knows(path, raw)
    contents[str(path)] = _change(workspace, params, path, raw, known=known).data


def _change(
    workspace: "Workspace", params: EditParameters, path: Path, raw: bytes, *, known: bool
) -> _Change:
    """Apply the edits to *raw*; *known* says whether the model has seen the whole file.

    Raises:
        ToolError: They do not fit.
    """
    from agent_cli_tools.matching import apply_edits  # with the first edit

    requested = _requested(params.edits)
    before, encoding = decode(raw)
    book = notebook_in(path, raw)
    cells = book if book and not _quote_json(book, requested) else None
    if cells:
        before = cells.text
    elif encoding == "utf-8-sig" and any("\ufeff" in edit.old for edit in requested):
        # The byte order mark was quoted, so it is text.
        before, encoding = raw.decode("utf-8"), "utf-8"
    for each in requested:
        require_writable(each.new, encoding, old=each.old)
    edited = apply_edits(before, requested)
    if not known:
        _refuse_inexact(workspace, path, edited)
    data = encode(cells.with_text(edited.text) if cells else edited.text, encoding)
    if book and not notebook_in(path, data):
        raise ToolError(
            f"{workspace.shown(path)} would be no valid notebook after this edit, so it was not"
            " changed. Copy the sources of its cells as read shows them."
        )
    if data == raw:
        raise ToolError(
            f"{workspace.shown(path)} already reads like that; the edits would change nothing."
        )
    return _Change(before, requested, edited, data)


def _quote_json(book: Notebook, requested: "Sequence[Edit]") -> bool:
    """Return whether the edits quote the JSON of *book*, such as its metadata, not its cells."""
    # A word of an output, or a key as a word, is no quotation.
    in_json = all('"' in edit.old and edit.old in book.json_text for edit in requested)
    return in_json and any(edit.old not in book.text for edit in requested)


def _read(workspace: "Workspace", path: Path, edits: Sequence[OneEdit]) -> bytes:
    shown = workspace.shown(path)
    if not path.exists():
        if not any(edit.old for edit in edits):  # so a new file is meant
            raise ToolError(f"{shown} does not exist. Use write to create it.")
        raise workspace.missing(path)
    raw = workspace.open_files.content(path, read_to_change(path, shown))
    if looks_binary(raw):
        raise ToolError(f"{shown} is binary, so text in it cannot be replaced safely. Use bash.")
    return raw


def _requested(edits: Sequence[OneEdit]) -> "list[Edit]":
    """Return the edits whose texts differ."""
    from agent_cli_tools.matching import Edit

    if sum(len(edit.old) + len(edit.new) for edit in edits) > STRINGS_CHARS_MAX:
        raise ToolError(
            f"The edits hold more than {STRINGS_CHARS_MAX:,} characters. Make several calls."
        )
    requested = [Edit(edit.old, edit.new, edit.all) for edit in edits if edit.old != edit.new]
    if not requested:
        raise ToolError("old and new are the same, so there is nothing to change. Change new.")
    return requested


def _refuse_inexact(workspace: "Workspace", path: Path, edited: "Edited") -> None:
    """Refuse to repair a misquotation if the model does not know the file's current content."""
    if not any(edited.repairs):
        return
    why = (
        f"has {workspace.stale(path)}"
        if workspace.seen.once_whole(path)
        else "was not read in full yet"
    )
    raise ToolError(
        f"{workspace.shown(path)} {why}, and old does not match it exactly."
        " Read it, then copy old from what is there now."
    )


def _notes(edited: "Edited", *, skipped: int) -> list[str]:
    notes = [
        f"Edit {number} was not exact; repaired: {', '.join(repairs)}. Check the result."
        for number, repairs in enumerate(edited.repairs, 1)
        if repairs
    ]
    if skipped:
        notes.append(f"{skipped} with old equal to new skipped.")
    return notes


def _summary(shown: str, count: int, changes: "Diff") -> str:
    lines = f"line {changes.first}"
    if changes.last > changes.first:
        lines = f"lines {changes.first}–{changes.last}"
    return (
        f"{shown}: {counted(count, 'edit')}, {lines} changed (+{changes.added} −{changes.removed})."
    )
