"""Fuzzy search of paths, fast enough for each key press."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, islice
from typing import Final

FOUND_MAX: Final = 30
# The order of results beyond this many does not matter: no one looks that far.
_RANKED_MAX: Final = 500
_REMEMBERED_MAX: Final = 50
_WORD_ENDS: Final = frozenset("\n/_-. ")


class PathSearch:
    """An immutable set of paths to search. Hidden names match only typed dots."""

    def __init__(self, paths: Iterable[str]) -> None:
        """Index *paths*, relative, with `/`; a folder ends with `/`."""
        # Two sorts of plain strings and numbers are faster than one of pairs.
        self.paths: Final = sorted(sorted(paths), key=len)

    def best(self, typed: str) -> list[str]:
        """Return at most `FOUND_MAX` paths that contain the characters of *typed* in order.

        Best first: the name begins with it, a word of the name does, the name contains it, the same
        for the path, and last those that contain its characters; in each group shorter paths first.
        Hidden names match once a dot is typed at the start of a name.
        """
        wanted = typed.lower()
        asks_for_hidden = wanted.startswith(".") or "/." in wanted
        return (self._all if asks_for_hidden else self._visible).best(wanted)

    @cached_property
    def _all(self) -> "_Listing":
        return _Listing(self.paths)

    @cached_property
    def _visible(self) -> "_Listing":
        paths = self.paths
        return _Listing([path for path in paths if path[0] != "." and "/." not in path])


class _Listing:
    """Paths, sorted by length, with a cache of searches."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = paths
        self._folded = [path.lower().replace("\n", "\0") for path in paths]
        self._in_names = _Text([_name_of(path) for path in self._folded])
        self._in_paths = _Text(self._folded)
        # For each word the matching paths, and the number of paths tested.
        self._held: dict[str, tuple[Sequence[int], int]] = {}

    def best(self, wanted: str) -> list[str]:
        if not wanted:
            return list(self._paths[:FOUND_MAX])
        found: dict[int, None] = {}
        for tier in self._tiers(wanted.replace("\n", "\0")):
            found.update(dict.fromkeys(tier))
            if len(found) >= FOUND_MAX:
                break
        return [self._paths[number] for number in islice(found, FOUND_MAX)]

    def _tiers(self, wanted: str) -> Iterator[Iterable[int]]:
        yield self._in_names.lines_that_begin(wanted)
        yield self._in_names.lines_with(wanted)
        yield self._in_paths.lines_with(wanted)
        held = self._holding(wanted)
        yield sorted(held, key=lambda number: _looseness(self._folded[number], wanted))

    def _holding(self, wanted: str) -> Sequence[int]:
        """Return the first paths that contain the characters of *wanted* in order."""
        # Another character only narrows the matches: of the paths tested for a shorter word, only
        # its matches are tested again.
        found, looked_at = self._held.get(wanted[:-1], ((), 0))
        # No backtracking, unlike `.*?` or a greedy `*`.
        pattern = "".join(f"[^{re.escape(c)}]*+{re.escape(c)}" for c in wanted)
        matches, folded = re.compile(pattern).match, self._folded
        held = [number for number in found if matches(folded[number])]
        others = (number for number in range(looked_at, len(folded)) if matches(folded[number]))
        held += islice(others, _RANKED_MAX - len(held))
        stopped = len(held) == _RANKED_MAX
        looked_at = max(looked_at, held[-1] + 1) if stopped else len(folded)
        while len(self._held) >= _REMEMBERED_MAX:
            del self._held[next(iter(self._held))]
        self._held[wanted] = held, looked_at
        return held


class _Text:
    """Lines in one string, which is ten times as fast to search as separate lines."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._text = "\n" + "\n".join(lines) + "\n"
        self._starts = [0, *accumulate(len(line) + 1 for line in lines)]

    def lines_that_begin(self, wanted: str) -> list[int]:
        """Return the numbers of the first lines that begin with *wanted*."""
        return list(islice(self._hits(f"\n{wanted}"), FOUND_MAX))

    def lines_with(self, wanted: str) -> Iterator[int]:
        """Yield the numbers of the first lines that contain *wanted*, at word starts first."""
        inside: list[int] = []
        for place in islice(self._places(wanted), _RANKED_MAX):
            line = bisect_right(self._starts, place - 1) - 1
            if self._text[place - 1] in _WORD_ENDS:
                yield line
            else:
                inside.append(line)
        yield from inside

    def _hits(self, wanted: str) -> Iterator[int]:
        return (bisect_right(self._starts, place) - 1 for place in self._places(wanted))

    def _places(self, wanted: str) -> Iterator[int]:
        place = self._text.find(wanted)
        while place >= 0:
            yield place
            place = self._text.find(wanted, place + 1)


def _name_of(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def _looseness(path: str, wanted: str) -> int:
    """Return how loose a match is: the gaps between the characters of *wanted*, less at words."""
    at, cost = len(path), 0
    # From the end, because the name matters more than the folders.
    for character in reversed(wanted):
        found = path.rfind(character, 0, at)
        cost += at - found - 1 if at < len(path) else 0
        cost += 0 if found == 0 or path[found - 1] in _WORD_ENDS else 1
        at = found
    return cost
