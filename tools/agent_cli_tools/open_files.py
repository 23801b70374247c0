"""Files that an editor has open: read the editor's text, saved or not, and write through it.

Only UTF-8 text goes through an editor, because it might not keep another encoding. Line endings
that an editor shows in one form and saves in another do not count as changes.
"""

from pathlib import Path
from typing import Final

from agent_cli.contracts.dialogs import Documents
from agent_cli.contracts.errors import ToolError
from agent_cli_tools.stoppable import Claim
from agent_cli_tools.textio import decode, encode, looks_binary

_OPEN_BYTES_MAX: Final = 5_000_000


class OpenFiles:
    """The files of one editor, if there is one.

    Attributes:
        documents: The editor.
    """

    def __init__(self) -> None:
        self.documents: Documents | None = None

    def content(self, path: Path, saved: bytes) -> bytes:
        """Return the editor's content of *path*, or *saved* if that is the same."""
        if self.documents is None or not _is_shown(saved):
            return saved
        shown = self.documents.read(path)
        before, encoding = decode(saved)
        if shown is None or _same(shown, before):
            return saved
        if "\r\n" in before and "\r\n" not in shown:
            shown = shown.replace("\n", "\r\n")
        return encode(shown.removeprefix("\ufeff"), encoding)

    def write(self, path: Path, data: bytes, before: bytes | None, claim: Claim) -> bool:
        """Let the editor write *data*; return False if the file does not go through an editor.

        Raises:
            ToolError: The user changed the file meanwhile, or it is unknown whether it was written.
        """
        if self.documents is None or not _is_shown(data) or not path.parent.is_dir():
            return False
        text, encoding = decode(data)
        if encoding != "utf-8":
            return False
        if before is not None:
            shown = self.documents.read(path)
            if shown is not None and not _same(shown, decode(before)[0]):
                raise ToolError(
                    f"{path.name} was changed in the editor at this moment, so nothing was"
                    " written. Read it again and repeat the change."
                )
        claim.take()
        return self.documents.write(path, text)


def _is_shown(content: bytes) -> bool:
    """Return whether an editor can show *content* unchanged."""
    is_text = len(content) <= _OPEN_BYTES_MAX and not looks_binary(content)
    return is_text and decode(content)[1] != "latin-1"


def _same(shown: str, saved: str) -> bool:
    return _plain(shown) == _plain(saved)


def _plain(text: str) -> str:
    return text.removeprefix("\ufeff").replace("\r\n", "\n")
