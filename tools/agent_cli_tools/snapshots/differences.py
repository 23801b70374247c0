"""What files held before the agent changed them, against what they hold now."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agent_cli_tools.diffs import diff
from agent_cli_tools.snapshots.contents import Contents, content_of, digest
from agent_cli_tools.snapshots.spans import Change, Span, spans
from agent_cli_tools.textio import decode, looks_binary

_COMPARED_BYTES_MAX: Final = 2_000_000


@dataclass(frozen=True, slots=True)
class Difference:
    """A file that is not what it was.

    Attributes:
        kind: "new", "deleted" or "changed".
        diff: A unified diff without file names; "" where `note` says why there is none.
        note: What a person should know, or "": somebody else changed it too, it is binary, ...
    """

    path: Path
    kind: str
    diff: str
    added: int = 0
    removed: int = 0
    note: str = ""


def differences(changes: Iterable[Change], contents: Contents) -> Iterator[Difference]:
    """Yield the files that *changes* and whoever came later left different, by first change."""
    for span in spans(changes):
        try:
            now = content_of(span.path)
        except OSError as error:
            yield Difference(span.path, "changed", "", note=f"it is {error.strerror}")
            continue
        now_digest = None if now is None else digest(now)
        if now_digest != span.before:
            yield _difference(span, now, now_digest, contents)


def _difference(
    span: Span, now: bytes | None, now_digest: str | None, contents: Contents
) -> Difference:
    kind = "new" if span.before is None else "deleted" if now is None else "changed"
    notes = []
    if not span.unbroken or now_digest != span.after:
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
