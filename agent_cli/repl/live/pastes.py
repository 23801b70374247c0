"""Long pastes stand in the input as a mark, and are whole again when it is sent."""

import re
from typing import Final

_LINES_MAX: Final = 10
_CHARS_MAX: Final = 1000
_MARK: Final = re.compile(r"\[paste #(\d+): [\d,]+ (?:lines|characters)\]")


class Pastes:
    """What the marks of this session stand for."""

    def __init__(self) -> None:
        self._texts: list[str] = []

    def shortened(self, text: str) -> str:
        """Return *text*, or the mark that stands for it from now on."""
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        lines = text.count("\n") + 1
        if lines <= _LINES_MAX and len(text) <= _CHARS_MAX:
            return text
        self._texts.append(text)
        size = f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"
        return f"[paste #{len(self._texts)}: {size}]"

    def expanded(self, text: str) -> str:
        """Return *text* with every mark replaced by what it stands for."""

        def whole(mark: re.Match[str]) -> str:
            number = int(mark[1])
            return self._texts[number - 1] if 0 < number <= len(self._texts) else mark[0]

        return _MARK.sub(whole, text)

    def mark_before(self, text: str) -> int:
        """Return the length of the mark *text* ends with, 0 for none."""
        marks = list(_MARK.finditer(text[-60:]))
        return len(marks[-1][0]) if marks and marks[-1].end() == len(text[-60:]) else 0
