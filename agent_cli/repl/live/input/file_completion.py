"""Complete files and folders behind an @ from a list that is refreshed in the background."""

import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final, Protocol

from prompt_toolkit.completion import Completion

from agent_cli.contracts.wording import one_line
from agent_cli.repl.live.input.certain import Certain
from agent_cli.repl.live.input.path_search import FOUND_MAX, PathSearch
from agent_cli.system.logger import logger
from agent_cli.system.paths import expanded, is_dir
from agent_cli.terminal.references import Reference, reference_before, reference_to
from agent_cli.terminal.sanitize import reveal

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


def outside_choices(before: str) -> Iterator[Completion]:
    """Yield the entries of a folder outside the workspace: `@~/`, `@../`, `@/etc/`."""
    reference = reference_before(before)
    if reference is None or not reference.path.startswith(_OUTSIDE):
        return
    folder, _, typed = reference.path.rpartition("/")
    for name in islice(_fitting(_entries(f"{folder}/"), typed), FOUND_MAX):
        yield _choice(f"{folder}/{name}", reference)


def directories_at(path: str) -> Iterator[Completion]:
    """Yield the directories that complete *path*: `../oth`, `~/src/`, `lib`."""
    folder, slash, typed = path.rpartition("/")
    names = (name for name in _entries(folder + slash or "./") if name.endswith("/"))
    for name in islice(_fitting(names, typed), FOUND_MAX):
        shown = one_line(reveal(name), _SHOWN_CHARS_MAX)
        yield Certain(name, -len(typed), shown)


def _entries(folder: str) -> list[str]:
    """Return the sorted names in *folder*, directories with a slash; none on an error."""
    try:
        with os.scandir(expanded(folder)) as found:
            return sorted(
                f"{each.name}/" if is_dir(Path(each.path)) else each.name
                for each in islice(found, _ENTRIES_MAX)
            )
    except (OSError, ValueError):  # no such folder, or a NUL
        return []


def _fitting(names: Iterable[str], typed: str) -> Iterator[str]:
    """Yield the *names* that begin with *typed*; hidden ones only after a typed dot."""
    wanted = typed.lower()
    return (
        name
        for name in names
        if name.lower().startswith(wanted) and (not name.startswith(".") or typed.startswith("."))
    )


def _choice(path: str, reference: Reference) -> Completion:
    shown = one_line(reveal(path), _SHOWN_CHARS_MAX)
    typed, folded = reference.path.lower(), path.lower()
    name = folded.rstrip("/").rpartition("/")[2]
    begins = bool(typed) and (folded.startswith(typed) or name.startswith(typed))
    kind = Certain if begins else Completion
    return kind(reference_to(path), -reference.length, shown)
