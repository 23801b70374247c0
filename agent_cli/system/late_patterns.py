"""Regular expressions that are compiled when they are first used.

Compiling one takes as long as importing a small module, and most rules about commands are never
asked in a run. Pass none of these to a function of `re`: they have its methods themselves.
"""

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from re import compile as late_pattern
else:

    def late_pattern(pattern, flags=0):  # noqa: ANN001, ANN201 - checked as the other
        """Return what behaves as `re.compile(pattern, flags)`; an error in it shows at its use."""
        return _LatePattern(pattern, flags)


__all__ = ["late_pattern"]

_KEPT = ("fullmatch", "match", "search", "sub", "finditer", "split", "findall")


class _LatePattern:
    def __init__(self, pattern: "str | bytes", flags: int) -> None:
        self.pattern = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> object:
        """Compile the pattern; its methods become attributes, so that this is called once."""
        if name.startswith("__"):  # looked for by copy, pickle and others
            raise AttributeError(name)
        compiled = re.compile(self.pattern, self._flags)
        vars(self).update((each, getattr(compiled, each)) for each in _KEPT)
        return getattr(compiled, name)

    def __repr__(self) -> str:
        return f"late_pattern({self.pattern!r})"
