"""Watch known files around a command: read what they hold, and keep it."""

import stat
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from agent_cli.system.logger import logger
from agent_cli_tools.snapshots.contents import (
    DIGESTED_BYTES_MAX,
    ContentStore,
    Digests,
    content_of,
    is_large,
)

_log = logger(__name__)


class Seen(NamedTuple):
    """A file's content at one moment, and its permission bits; None if there was no file."""

    digest: str | None
    mode: int | None


@dataclass(slots=True, eq=False)
class Watch:
    """What known files held when a command began, or when a tool changed them since.

    Attributes:
        log: The folder of the log that the command's keeper may write.
    """

    seen: dict[Path, Seen] = field(default_factory=dict[Path, Seen])
    has_run: bool = False
    log: Path | None = None

    @property
    def is_recorded(self) -> bool:
        """Whether the command's keeper records all that it changes."""
        from agent_cli.undo.logs import is_watched  # noqa: PLC0415 - with a command

        return self.log is not None and is_watched(self.log)


def seen_now(path: Path, digests: Digests) -> Seen:
    """Return the current content of *path*."""
    return Seen(digests.of(path), mode_of(path))


def keep_content(path: Path, digests: Digests, contents: ContentStore) -> None:
    """Store the current content of *path*."""
    found = digests.of(path)
    with noted("content not kept", path):
        if found and not is_large(found) and not contents.has(found):
            data = content_of(path, DIGESTED_BYTES_MAX)
            if data is not None:
                contents.keep(data)


@contextmanager
def noted(failure: str, about: object) -> Generator[None]:
    """Log errors of recording, because a tool must not fail for them."""
    try:
        yield
    except (OSError, ValueError) as error:
        _log.warning(failure, about=str(about), reason=str(error))


def mode_of(path: Path) -> int | None:
    """Return the permission bits of *path*; None if it does not exist."""
    try:
        return stat.S_IMODE(path.lstat().st_mode)
    except OSError:
        return None
