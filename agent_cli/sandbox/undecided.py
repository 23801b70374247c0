"""The files that appeared or changed beside commands, until a person decides about them.

A command and the user's other programs write in the same folders, and the file system does not
record who wrote. So nothing is moved or put back unless a person has said so. Where there is no
person, a new file stays, a warning names it, and while it is there it is not trusted: hooks run in
the sandbox, and a run without a person ends as one that needs a decision.
"""

import asyncio
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol

from agent_cli.sandbox.aftermath import shortened
from agent_cli.system.logger import logger

NO_ANSWER = (
    "nobody decided whether a command made it, so hooks run in the sandbox from now on; look at it"
    " before another program acts on it"
)
_KEPT = "the user keeps it"

_log = logger(__name__)


class FileDecider(Protocol):
    """The person who decides."""

    @property
    def undecided_files(self) -> Sequence[Path]:
        """The files that await a person's decision, as long as they exist."""
        ...

    def note_undecided(self, paths: Iterable[Path], /) -> None:
        """Add *paths* to them."""
        ...

    @property
    def can_ask(self) -> bool:
        """Whether a person is there to answer."""
        ...

    async def decide_new_files(self, paths: Sequence[Path], aside: Path, /) -> bool | None:
        """Return whether *paths* are moved to *aside*, or put back; None without an answer."""
        ...


class Open(Protocol):
    """A file that a person has to decide about."""

    @property
    def path(self) -> Path:
        """Its path."""
        ...

    def undone(self, aside: Path) -> Sequence[str]:
        """Move the file to *aside*, or put the earlier file back; return sentences."""
        ...

    def stays(self, why: str) -> str:
        """Return the sentence for a file that stays, and *why*."""
        ...

    def consists_of(self, paths: Iterable[Path]) -> bool:
        """Return whether *paths* explain it."""
        ...


class Undecided:
    """Files of one session; commands end in threads, a person answers in the event loop."""

    def __init__(
        self, aside: Path, person: FileDecider | None, warn: Callable[[str], None]
    ) -> None:
        """Hold nothing yet; *warn* receives a sentence about each file without an answer."""
        self._aside = aside
        self._person = person
        self._warn = warn
        self._open: list[Open] = []
        self._written: set[Path] = set()
        self._lock = threading.Lock()

    @property
    def has_person(self) -> bool:
        """Whether someone may answer."""
        return self._person is not None and self._person.can_ask

    def expect(self, path: Path) -> None:
        """Note that a tool of this program wrote the real *path*, which was approved."""
        self._written.add(path)

    def add(self, found: Iterable[Open]) -> None:
        """Hold *found*, without the files that tools of this program wrote."""
        kept = [each for each in found if not (self._written and each.consists_of(self._written))]
        with self._lock:
            known = {each.path for each in self._open}
            self._open += [each for each in kept if each.path not in known]

    async def settle(self) -> Sequence[str]:
        """Have a person decide; return a sentence about each file."""
        found = self._taken()
        if not found:
            return ()
        try:
            is_undone = await self._answer([each.path for each in found])
        except BaseException:
            with self._lock:
                self._open += found
            raise
        if is_undone:
            return shortened(_logged(await asyncio.to_thread(self._undone, found)))
        if is_undone is None:
            return self._left(found)
        return shortened(_logged([each.stays(_KEPT) for each in found]))

    async def _answer(self, paths: Sequence[Path]) -> bool | None:
        if self._person is None or not self._person.can_ask:
            return None
        return await self._person.decide_new_files(paths, self._aside)

    def close(self) -> None:
        """Leave undecided files in place, with warnings."""
        self._left(self._taken())

    def _taken(self) -> list[Open]:
        with self._lock:
            found, self._open = self._open, []
        return found

    def _undone(self, found: Sequence[Open]) -> list[str]:
        return [sentence for each in found for sentence in each.undone(self._aside)]

    def _left(self, found: Sequence[Open]) -> Sequence[str]:
        if self._person is not None:
            self._person.note_undecided(each.path for each in found)
        sentences = shortened(_logged([each.stays(NO_ANSWER) for each in found]))
        for sentence in sentences:
            self._warn(f"sandbox: {sentence}")
        return sentences


def _logged(sentences: Sequence[str]) -> Sequence[str]:
    # No result shows them if the command ran on after its call.
    for sentence in sentences:
        _log.warning("new file that makes programs act", sentence=sentence)
    return sentences
