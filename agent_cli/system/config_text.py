"""Read configuration files within a limit: a stranger's too is read at each start, before trust."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

FILE_CHARS_MAX: Final = 4_000_000


class TooLong(ValueError):
    """The file is longer than a configuration can be; the text says by what measure."""

    def __init__(self) -> None:
        super().__init__(f"more than {FILE_CHARS_MAX // 1_000_000} million characters")


def config_text(path: "Path") -> str:
    """Return the text of *path*, UTF-8 with or without a byte order mark.

    Raises:
        OSError: It cannot be read.
        UnicodeDecodeError: It is not UTF-8.
        TooLong: It has more than `FILE_CHARS_MAX` characters.
    """
    with path.open(encoding="utf-8-sig") as file:
        text = file.read(FILE_CHARS_MAX + 1)
    if len(text) > FILE_CHARS_MAX:
        raise TooLong
    return text
