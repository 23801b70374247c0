"""Compare files before the agent's changes with their current contents."""

import contextlib
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from agent_cli.contracts.file_changes import Difference
from agent_cli.undo.logs import CommandLog
from agent_cli_tools.diffs import diff
from agent_cli_tools.snapshots.commands import OriginalFile, conflicts, edits_of, origins
from agent_cli_tools.snapshots.contents import ContentStore, content_of, digest_of, mode_of
from agent_cli_tools.snapshots.journal import Change, ChangeSpan, spans
from agent_cli_tools.textio import decode, looks_binary

_COMPARED_BYTES_MAX: Final = 2_000_000


def differences(
    changes: Sequence[Change], contents: ContentStore, logs: Sequence[CommandLog] = ()
) -> Iterator[Difference]:
    """Yield the files that differ since *changes*, including later changes by others.

    *logs* are those of commands that changed files as well. What git keeps for itself is left out.
    """
    if logs:
        edits = edits_of(changes, logs)
        others = {*conflicts(edits, logs)}
        for path, origin in origins(edits, logs).items():
            if "/.git/" not in path:
                is_foreign = path in others
                yield from _since(Path(path), origin, contents, is_foreign=is_foreign)
        return
    for span in spans(changes):
        now = digest_of(span.path)
        if now != span.before:
            yield _difference(span, now, contents)


def _difference(span: ChangeSpan, digest_now: str | None, contents: ContentStore) -> Difference:
    is_foreign = not span.unbroken or digest_now != span.after
    before = b"" if span.before is None else contents.get(span.before)
    was_there = span.before is not None
    found = _compared(span.path, before, was_there=was_there, is_foreign=is_foreign)
    return found or Difference(span.path, "changed", "")  # restored while we looked


def _since(
    path: Path, origin: OriginalFile, contents: ContentStore, *, is_foreign: bool
) -> Iterator[Difference]:
    before = None if origin.was_there else b""
    if isinstance(origin.before, str):
        before = contents.get(origin.before)
    elif origin.before is not None:
        with contextlib.suppress(OSError):
            before = content_of(origin.before, _COMPARED_BYTES_MAX + 1)
    if before is None and origin.state and origin.state.is_file and not origin.note:
        # Nothing wrote to it: only its mode, owner or times changed.
        with contextlib.suppress(OSError):
            before = content_of(path, _COMPARED_BYTES_MAX + 1)
    if not origin.was_there and not os.path.lexists(path):
        return
    notes = [origin.note] if origin.note else []
    if (mode := mode_of(path)) is not None and origin.state:
        was = stat.S_IMODE(origin.state.mode)
        notes += [f"mode {was:o} → {mode:o}"] if was != mode else []
    found = _compared(path, before, notes, was_there=origin.was_there, is_foreign=is_foreign)
    if found:
        yield found


def _compared(
    path: Path,
    before: bytes | None,
    known: Sequence[str] = (),
    *,
    was_there: bool,
    is_foreign: bool,
) -> Difference | None:
    """Compare a file with what it held *before*; return None if nothing differs."""
    try:
        now = content_of(path, _COMPARED_BYTES_MAX + 1)
    except OSError as error:
        note = f"cannot be compared: {error.strerror}"
        return Difference(path, "changed", "", note=note)
    kind = "deleted" if now is None else "changed" if was_there else "new"
    notes = [*known]
    if is_foreign:
        notes.append("changed by somebody else too")
    if was_there and now is not None and now == before:
        return Difference(path, kind, "", note="; ".join(notes)) if notes else None
    if not was_there and now == b"":
        notes.append("empty")
    if before is None:
        notes.append("what it held before was not kept")
    elif looks_binary(before) or looks_binary(now or b""):
        notes.append("binary")
    elif max(len(before), len(now or b"")) > _COMPARED_BYTES_MAX:
        notes.append("too large to be compared")
    else:
        found = diff(decode(before)[0], decode(now or b"")[0], lines_max=None)
        note = "; ".join(notes)
        return Difference(path, kind, found.text, found.added, found.removed, note)
    return Difference(path, kind, "", note="; ".join(notes))
