"""Kinds of misquotation, as tiers of increasingly loose comparison.

Each tier tolerates one habit and can rewrite the new lines as the file would have them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TypeAlias

Repair: TypeAlias = Callable[[str], str | None]
"""Converts a line of `new` into one for the file; None if impossible."""

_TYPOGRAPHIC = str.maketrans(
    {
        **dict.fromkeys("‘’‚‛′", "'"),
        **dict.fromkeys("“”„‟″", '"'),
        **dict.fromkeys("‐‑‒–—−", "-"),
        **dict.fromkeys("\u00a0\u2002\u2003\u2009\u202f", " "),
    }
)


@dataclass(frozen=True, slots=True)
class Tier:
    """A comparison of lines, and the repair of new lines if it matched.

    `repair(file lines, old lines)` returns the function to apply to each new line, or None if the
    lines do not correspond; that function returns None for a line it cannot repair.
    """

    name: str
    key: Callable[[str], str]
    repair: Callable[[Sequence[str], Sequence[str]], Repair | None]


def _repair_blanks(there: Sequence[str], old: Sequence[str]) -> Repair:
    added = any(len(quoted) > len(line) for line, quoted in zip(there, old, strict=True))
    return str.rstrip if added else str


def _repair_indent(there: Sequence[str], old: Sequence[str]) -> Repair | None:
    pairs = [(line, quoted) for line, quoted in zip(there, old, strict=True) if line.strip()]
    deeper, quoted_deeper = (
        {_surplus(line, quoted) for line, quoted in pairs},
        {_surplus(quoted, line) for line, quoted in pairs},
    )
    if len(deeper) == 1 and (missing := deeper.pop()):
        return lambda line: missing + line if line.strip() else ""
    if len(quoted_deeper) == 1 and (extra := quoted_deeper.pop()):
        return lambda line: _dedented(line, extra)
    return None


def _surplus(longer: str, shorter: str) -> str | None:
    """Return the indentation of *longer* in excess of that of *shorter*."""
    indent = longer[: len(longer) - len(longer.lstrip())]
    less = shorter[: len(shorter) - len(shorter.lstrip())]
    return indent.removesuffix(less) if indent.endswith(less) else None


def _dedented(line: str, extra: str) -> str | None:
    if not line.strip():
        return ""
    return line.removeprefix(extra) if line.startswith(extra) else None


def _repair_typography(there: Sequence[str], old: Sequence[str]) -> Repair:
    def is_plain(lines: Sequence[str]) -> bool:
        return all(line == line.translate(_TYPOGRAPHIC) for line in lines)

    quoted_only = is_plain(there) and not is_plain(old)
    return (lambda line: line.translate(_TYPOGRAPHIC)) if quoted_only else str


TIERS = (
    Tier("blanks at line ends", str.rstrip, _repair_blanks),
    Tier("indentation", str.strip, _repair_indent),
    Tier(
        "typographic characters",
        lambda line: line.translate(_TYPOGRAPHIC).rstrip(),
        _repair_typography,
    ),
)


def windows(lines: Sequence[str], old_lines: Sequence[str], tier: Tier) -> list[tuple[int, Repair]]:
    """Return the positions of *old_lines* in *lines* by the comparison of *tier*."""
    keys = [tier.key(line) for line in lines]
    wanted = [tier.key(line) for line in old_lines]
    count = len(wanted)
    places: list[tuple[int, Repair]] = []
    for first in range(len(keys) - count + 1):
        if keys[first] == wanted[0] and keys[first : first + count] == wanted:
            repair = tier.repair(lines[first : first + count], old_lines)
            if repair is not None:
                places.append((first, repair))
    return places


def repaired(
    there: Sequence[str],
    old_lines: Sequence[str],
    new_lines: Sequence[str],
    repair: Repair,
) -> list[str] | None:
    """Return the new lines as the file writes them; unchanged lines stay as they are."""
    result: list[str] = []
    opcodes = SequenceMatcher(None, old_lines, new_lines).get_opcodes()
    for kind, old, old_end, new, new_end in opcodes:
        if kind == "equal":
            result += there[old:old_end]
            continue
        for line in new_lines[new:new_end]:
            repaired_line = repair(line)
            if repaired_line is None:
                return None
            result.append(repaired_line)
    return result
