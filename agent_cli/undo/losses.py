"""Count the files that a command deletes or overwrites; beyond a limit, ask before the next.

Files that the command itself made do not count. Imports little: see `system/launcher`.
"""

from collections.abc import Callable
from typing import Any

_NAMED_MAX = 200


class Refused(Exception):
    """A person refused what the command wants to change: the call fails."""


class LossLimit:
    """The limit of one command; asks once at most.

    Attributes:
        is_refused: Whether all further changes of the workspace fail.
    """

    def __init__(
        self, files_max: int, bytes_max: int, ask: Callable[[dict[str, Any]], bool] | None
    ) -> None:
        """Count nothing yet; 0 is no limit, and without *ask* nobody is asked.

        *ask* takes the fields of `logs.Loss`, and blocks.
        """
        self._files_max, self._bytes_max = files_max, bytes_max
        self._ask = ask if files_max or bytes_max else None
        self._paths: list[str] = []
        self._files = self._bytes = 0
        self.is_refused = False

    def before(self, path: str, size: int, why_unkept: str = "") -> None:
        """Count a file before it is lost; *why_unkept* says why an undo cannot bring it back.

        Raises:
            Refused: It is to stay.
        """
        if self._ask is None:
            return
        is_beyond = bool(
            why_unkept
            or (self._files_max and self._files >= self._files_max)
            or (self._bytes_max and self._bytes + size > self._bytes_max)
        )
        if is_beyond:
            question = {
                "files": self._files,
                "bytes": self._bytes,
                "paths": self._paths,
                "next": path,
                "next_bytes": size,
                "why_unkept": why_unkept,
            }
            ask, self._ask = self._ask, None
            if not ask(question):
                self.is_refused = True
                raise Refused
            return
        self._files += 1
        self._bytes += size
        if len(self._paths) < _NAMED_MAX:
            self._paths.append(path)
