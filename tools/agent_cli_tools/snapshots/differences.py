"""Compare files before the agent's changes with their current contents."""

from collections.abc import Iterable, Iterator
from typing import Final

from agent_cli.contracts.file_changes import Difference
from agent_cli_tools.diffs import diff
from agent_cli_tools.snapshots.contents import ContentStore, content_of, digest_of
from agent_cli_tools.snapshots.spans import Change, ChangeSpan, spans
from agent_cli_tools.textio import decode, looks_binary

_COMPARED_BYTES_MAX: Final = 2_000_000


def differences(changes: Iterable[Change], contents: ContentStore) -> Iterator[Difference]:
    """Yield the files that differ since *changes*, including later changes by others."""
    for span in spans(changes):
        now = digest_of(span.path)
        if now != span.before:
            yield _difference(span, now, contents)


def _difference(span: ChangeSpan, digest_now: str | None, contents: ContentStore) -> Difference:
    try:
        now = content_of(span.path, _COMPARED_BYTES_MAX + 1)
    except OSError as error:
        note = f"cannot be compared: {error.strerror}"
        return Difference(span.path, "changed", "", note=note)
    kind = "new" if span.before is None else "deleted" if now is None else "changed"
    notes: list[str] = []
    if not span.unbroken or digest_now != span.after:
        notes.append("changed by somebody else too")
    before = b"" if span.before is None else contents.get(span.before)
    if before is None:
        notes.append("what it held before was not kept")
    elif looks_binary(before) or looks_binary(now or b""):
        notes.append("binary")
    elif max(len(before), len(now or b"")) > _COMPARED_BYTES_MAX:
        notes.append("too large to be compared")
    else:
        found = diff(decode(before)[0], decode(now or b"")[0], lines_max=None)
        note = "; ".join(notes)
        return Difference(span.path, kind, found.text, found.added, found.removed, note)
    return Difference(span.path, kind, "", note="; ".join(notes))
