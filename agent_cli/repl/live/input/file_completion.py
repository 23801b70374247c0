"""Complete files and folders behind an @ from a list that is refreshed in the background."""

import os
import re
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, islice
from pathlib import Path
from typing import Final, Protocol

from prompt_toolkit.completion import Completion

from agent_cli.attachments.references import Reference, reference_before, reference_to
from agent_cli.contracts.wording import one_line
from agent_cli.repl.live.input.menu import Certain
from agent_cli.system.logger import logger
from agent_cli.system.paths import expanded, is_dir, is_utf8
from agent_cli.system.sanitize import reveal

_log = logger(__name__)
_SHOWN_CHARS_MAX: Final = 200
# Completion uses the current list; an older list is refreshed in the background, sooner if it has
# no match, because the file may be new. Listing takes only a small share of the time; listing
# everything, against what a refresh overlooks, a smaller one.
_FRESH_S: Final = 2.0
_FRESH_WHEN_MISSING_S: Final = 0.3
_SHARE_MAX: Final = 0.25
_ALL_FRESH_S: Final = 30.0
_ALL_SHARE_MAX: Final = 0.02
# A name takes half a microsecond; whether it is a directory, twenty times as long.
_SCANNED_MAX: Final = 100_000
_ENTRIES_MAX: Final = 5_000
_OUTSIDE: Final = ("/", "~/", "./", "../")
_FIRST_LIMIT_S: Final = 30.0


class Files(Protocol):
    """Paths that can be listed, in a thread."""

    def all(self) -> Collection[str]:
        """List everything."""
        ...

    def renewed(self) -> Collection[str]:
        """Return all paths after a look at what has changed, much faster than `all`."""
        ...


class FileChoices:
    """A completion source: the paths below a folder, at most seconds old.

    Only the first listing is waited for. If a later one differs, `on_change` is called in its
    thread.
    """

    def __init__(
        self,
        files: Files,
        on_change: Callable[[], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._files = files
        self._on_change = on_change
        self._clock = clock
        self._search: PathSearch | None = None
        self._listed_at_s = self._all_listed_at_s = float("-inf")
        self._took_s = self._all_took_s = 0.0
        self._missed = False
        self._listing = threading.Lock()
        self._listed = threading.Event()

    def __call__(self, before: str) -> Iterator[Completion]:
        """Yield the paths that match the word behind the @ before the cursor."""
        reference = reference_before(before)
        if reference is None:
            return
        if reference.path.startswith(_OUTSIDE):
            return
        if self._age_s() > self._fresh_s(_FRESH_S):
            self._renew()
        if self._search is None and not self._listed.wait(_FIRST_LIMIT_S):
            return
        assert self._search is not None
        paths = self._search.best(reference.path)
        if not paths:
            wait_s = self._fresh_s(_FRESH_WHEN_MISSING_S) - self._age_s()
            # A listing that has begun may have passed the folder of a new file.
            self._missed = not self._renew(after_s=wait_s)
        for path in paths:
            yield _choice(path, reference)

    def _age_s(self) -> float:
        return self._clock() - self._listed_at_s

    def _fresh_s(self, fresh_s: float) -> float:
        return max(fresh_s, self._took_s / _SHARE_MAX)

    def _renew(self, *, after_s: float = 0) -> bool:
        """Schedule a new listing in *after_s* seconds; return False if one is pending."""
        if not self._listing.acquire(blocking=False):
            return False
        wait_s = max(after_s, 0)
        threading.Thread(target=self._list, args=[wait_s], name="list files", daemon=True).start()
        return True

    def _list(self, wait_s: float) -> None:
        """Refresh the list; it is empty on an error."""
        time.sleep(wait_s)
        try:
            if self._search is not None:
                began_s = self._clock()
                self._show(self._files.renewed)
                self._took_s = self._clock() - began_s
            if self._all_age_s() > max(_ALL_FRESH_S, self._all_took_s / _ALL_SHARE_MAX):
                began_s = self._clock()
                self._show(self._files.all)
                self._all_listed_at_s = self._clock()
                self._all_took_s = self._all_listed_at_s - began_s
            if self._missed:
                self._missed = False
                self._show(self._files.renewed)
        finally:
            self._listing.release()

    def _all_age_s(self) -> float:
        return self._clock() - self._all_listed_at_s

    def _show(self, listed: Callable[[], Collection[str]]) -> None:
        """Offer the paths that were *listed*; the old object, which caches searches, if equal."""
        before = self._search
        try:
            paths = listed()
        except OSError:
            _log.info("files not listed", exc_info=True)
            paths = ()
        if before is None or len(before.paths) != len(paths) or set(before.paths) != set(paths):
            self._search = PathSearch(paths)
        self._listed_at_s = self._clock()
        self._listed.set()
        if before is not None and before is not self._search:
            self._on_change()


def outside_choices(workspace: Path, before: str) -> Iterator[Completion]:
    """Yield the entries of a folder that is not listed with *workspace*.

    One outside (`@~/`, `@../`, `@/etc/`), or behind a link in it, as git lists only the link.
    """
    reference = reference_before(before)
    if reference is None:
        return
    folder, _, typed = reference.path.rpartition("/")
    if not reference.path.startswith(_OUTSIDE) and not _is_linked(workspace, folder):
        return
    for name in islice(_entries(workspace / expanded(f"{folder}/"), typed), FOUND_MAX):
        yield _choice(f"{folder}/{name}", reference)


def _is_linked(workspace: Path, folder: str) -> bool:
    above = accumulate(folder.split("/"), "{}/{}".format)
    # `Path.is_symlink` raises for a name that is too long.
    return any(os.path.islink(workspace / each) for each in above if each)  # noqa: PTH114


def directories_at(workspace: Path, path: str) -> Iterator[Completion]:
    """Yield the directories that complete *path*: `../oth`, `~/src/`, or `lib` in *workspace*."""
    folder, slash, typed = path.rpartition("/")
    entries = _entries(workspace / expanded(folder + slash), typed)
    for name in islice((each for each in entries if each.endswith("/")), FOUND_MAX):
        shown = one_line(reveal(name), _SHOWN_CHARS_MAX)
        yield Certain(name, -len(typed), shown)


def _entries(folder: Path, typed: str) -> Iterator[str]:
    """Yield the sorted names in *folder* that begin with *typed*; none on an error.

    Directories have a slash. Hidden names come only after a typed dot.
    """
    folded = typed.lower()
    try:
        with os.scandir(folder) as found:
            names = sorted(
                each.name
                for each in islice(found, _SCANNED_MAX)
                if each.name.lower().startswith(folded)
                and (not each.name.startswith(".") or typed.startswith("."))
                and is_utf8(each.name)
            )
    except (OSError, ValueError):  # no such folder, or a NUL
        return
    for name in names[:_ENTRIES_MAX]:
        yield f"{name}/" if is_dir(folder / name) else name


def _choice(path: str, reference: Reference) -> Completion:
    shown = one_line(reveal(path), _SHOWN_CHARS_MAX)
    typed, folded = reference.path.lower(), path.lower()
    name = folded.rstrip("/").rpartition("/")[2]
    begins = bool(typed) and (folded.startswith(typed) or name.startswith(typed))
    kind = Certain if begins else Completion
    return kind(reference_to(path), -reference.length, shown)


# Fuzzy search of paths, fast enough for each key press.

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

        The order: names that begin with *typed*, names with a word that begins with it, names that
        contain it; then paths, in the same three groups; then all others. In each group, shorter
        paths stand first. Hidden names match once a dot is typed at the start of a name.
        """
        folded = typed.lower()
        asks_for_hidden = folded.startswith(".") or "/." in folded
        return (self._all if asks_for_hidden else self._visible).best(folded)

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
        self._matches: dict[str, tuple[Sequence[int], int]] = {}

    def best(self, query: str) -> list[str]:
        if not query:
            return list(self._paths[:FOUND_MAX])
        found: dict[int, None] = {}
        for tier in self._tiers(query.replace("\n", "\0")):
            found.update(dict.fromkeys(tier))
            if len(found) >= FOUND_MAX:
                break
        return [self._paths[number] for number in islice(found, FOUND_MAX)]

    def _tiers(self, query: str) -> Iterator[Iterable[int]]:
        yield self._in_names.lines_that_begin(query)
        yield self._in_names.lines_with(query)
        yield self._in_paths.lines_with(query)
        matching = self._matching(query)
        yield sorted(matching, key=lambda number: _looseness(self._folded[number], query))

    def _matching(self, query: str) -> Sequence[int]:
        """Return the first paths that contain the characters of *query* in order."""
        # Another character only narrows the matches: of the paths tested for a shorter word, only
        # its matches are tested again.
        found, looked_at = self._matches.get(query[:-1], ((), 0))
        # No backtracking, unlike `.*?` or a greedy `*`.
        pattern = "".join(f"[^{re.escape(c)}]*+{re.escape(c)}" for c in query)
        matches, folded = re.compile(pattern).match, self._folded
        matching = [number for number in found if matches(folded[number])]
        others = (number for number in range(looked_at, len(folded)) if matches(folded[number]))
        matching += islice(others, _RANKED_MAX - len(matching))
        stopped = len(matching) == _RANKED_MAX
        looked_at = max(looked_at, matching[-1] + 1) if stopped else len(folded)
        while len(self._matches) >= _REMEMBERED_MAX:
            del self._matches[next(iter(self._matches))]
        self._matches[query] = matching, looked_at
        return matching


class _Text:
    """Lines in one string, which is ten times as fast to search as separate lines."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._text = "\n" + "\n".join(lines) + "\n"
        self._starts = [0, *accumulate(len(line) + 1 for line in lines)]

    def lines_that_begin(self, query: str) -> list[int]:
        """Return the numbers of the first lines that begin with *query*."""
        return list(islice(self._hits(f"\n{query}"), FOUND_MAX))

    def lines_with(self, query: str) -> Iterator[int]:
        """Yield the numbers of the first lines that contain *query*, at word starts first."""
        inside: list[int] = []
        for at in islice(self._occurrences(query), _RANKED_MAX):
            line = bisect_right(self._starts, at - 1) - 1
            if self._text[at - 1] in _WORD_ENDS:
                yield line
            else:
                inside.append(line)
        yield from inside

    def _hits(self, query: str) -> Iterator[int]:
        return (bisect_right(self._starts, at) - 1 for at in self._occurrences(query))

    def _occurrences(self, query: str) -> Iterator[int]:
        at = self._text.find(query)
        while at >= 0:
            yield at
            at = self._text.find(query, at + 1)


def _name_of(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def _looseness(path: str, query: str) -> int:
    """Return how loose a match is: the gaps between the characters of *query*, less at words."""
    at, cost = len(path), 0
    # From the end, because the name matters more than the folders.
    for character in reversed(query):
        found = path.rfind(character, 0, at)
        cost += at - found - 1 if at < len(path) else 0
        cost += 0 if found == 0 or path[found - 1] in _WORD_ENDS else 1
        at = found
    return cost
