"""Count the files that a command deletes or overwrites; beyond a limit, ask before the next.

Files that the command itself made do not count, nor those in a folder that can be built again and
that git ignores. Imports little: see `system/launcher`.
"""

from collections.abc import Callable
from typing import Any

from agent_cli.undo.generated import GeneratedFolders

_NAMED_MAX = 200


class Refused(Exception):
    """A person refused what the command wants to change: the call fails."""


class LossLimit:
    """The limit of one command; asks a person once at most.

    Attributes:
        is_refused: Whether all further changes of the workspace fail.
        generated: The folders that can be built again.
    """

    def __init__(
        self,
        files_max: int,
        bytes_max: int,
        ask: Callable[[dict[str, Any]], bool] | None,
        generated: GeneratedFolders,
    ) -> None:
        """Count nothing yet; 0 is no limit, and without *ask* nobody is asked.

        *ask* takes the fields of `logs.Loss`, or of `logs.GeneratedFolder`, and blocks.
        """
        self._files_max, self._bytes_max = files_max, bytes_max
        self._ask = ask if files_max or bytes_max else None
        self._lost: list[tuple[str, int]] = []
        self._bytes = 0
        self._free: set[str] = set()
        self.is_refused = False
        self.generated = generated

    def before(self, path: str, size: int, why_unkept: str = "") -> None:
        """Count a file before it is lost; *why_unkept* says why an undo cannot bring it back.

        Raises:
            Refused: It is to stay.
        """
        if self._ask is None or self.generated.around(path) in self._free:
            return
        if self._is_beyond(size, why_unkept):
            # Only now: git is asked about few folders, and not for each command.
            self._lost = [each for each in self._lost if not self._is_free(each[0])]
            self._bytes = sum(each_bytes for _path, each_bytes in self._lost)
            if self._is_free(path):
                return
            if self._is_beyond(size, why_unkept):
                self._settle(path, size, why_unkept)
                return
        self._lost.append((path, size))
        self._bytes += size

    def _is_beyond(self, size: int, why_unkept: str) -> bool:
        return bool(
            why_unkept
            or (self._files_max and len(self._lost) >= self._files_max)
            or (self._bytes_max and self._bytes + size > self._bytes_max)
        )

    def _is_free(self, path: str) -> bool:
        """Return whether *path* is in a folder that can be built again and that git ignores."""
        while folder := self.generated.around(path):
            if folder in self._free:
                return True
            ignores_itself = self.generated.ignores_itself(folder)
            if self._ask and self._ask({"folder": folder, "ignores_itself": ignores_itself}):
                self._free.add(folder)
            else:
                self.generated.reject(folder)
        return False

    def _settle(self, path: str, size: int, why_unkept: str) -> None:
        """Ask the person, who is not asked again about this command.

        Raises:
            Refused: They refuse.
        """
        question = {
            "files": len(self._lost),
            "bytes": self._bytes,
            "paths": [each for each, _bytes in self._lost[:_NAMED_MAX]],
            "next": path,
            "next_bytes": size,
            "why_unkept": why_unkept,
        }
        ask, self._ask = self._ask, None
        if ask and not ask(question):
            self.is_refused = True
            raise Refused
