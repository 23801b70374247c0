"""The names of recorded files after their folders were renamed.

Imports little: see `system/launcher`.
"""


class Moves:
    """The renamed folders of one command, in the order of its records."""

    def __init__(self) -> None:
        self._moves: dict[str, list[tuple[int, str]]] = {}

    def add(self, number: int, old: str, new: str) -> None:
        """Note that record *number* gives the folder *old* the name *new*."""
        self._moves.setdefault(old, []).append((number, new))

    def called_now(self, path: str, number: int) -> str:
        """Return the present name of *path*, which was last recorded by record *number*."""
        while True:
            above = path
            while above := above.rpartition("/")[0]:
                later = [each for each in self._moves.get(above, ()) if each[0] > number]
                if later:
                    number, to = later[0]
                    path = to + path.removeprefix(above)
                    break
            else:
                return path
