"""Pictures in the input: turn a dropped file, the clipboard or an @path into a mark."""

import asyncio
import shlex
from contextlib import suppress
from typing import Final
from urllib.parse import unquote, urlsplit

from agent_cli.attachments.attachments import Attachments
from agent_cli.attachments.images import image_of
from agent_cli.contracts.errors import UsageError
from agent_cli.repl.live.input.clipboard import clipboard_picture
from agent_cli.repl.live.screen import LiveScreen
from agent_cli.terminal.references import reference_to

_DROPPED_CHARS_MAX: Final = 10_000


class Pictures:
    """Recognises pictures in the input."""

    def __init__(self, screen: LiveScreen, attachments: Attachments) -> None:
        self._screen = screen
        self._attachments = attachments
        self._requested = asyncio.Event()
        screen.draft.attach = self._dropped
        screen.on_picture_requested = self._requested.set

    async def run(self) -> None:
        """Fetch pictures from the clipboard on request, until cancelled."""
        while True:
            await self._requested.wait()
            self._requested.clear()
            try:
                image = image_of(await clipboard_picture(), name="the picture on the clipboard")
            except (UsageError, OSError) as error:
                self._screen.notice(str(error), "warning")
                continue
            mark = self._attachments.add(image, "clipboard")
            self._screen.draft.marks.add(mark, sent=mark, recalled="")
            self._screen.draft.insert(mark)

    def _dropped(self, text: str) -> str | None:
        """Return the marks for a paste that consists of paths of pictures only."""
        if not text.strip() or "\n" in text.strip() or len(text) > _DROPPED_CHARS_MAX:
            return None
        for paths in dropped_paths(text.strip()):
            try:
                marks = [self._mark(path) for path in paths]
            except UsageError as error:
                self._screen.notice(str(error), "warning")
                return None
            found = [mark for mark in marks if mark]
            if found and len(found) == len(paths):
                return " ".join(found)
        return None

    def _mark(self, path: str) -> str | None:
        if mark := self._attachments.add_file(path):
            self._screen.draft.marks.add(mark, sent=mark, recalled=f"@{reference_to(path)}")
        return mark


def dropped_paths(text: str) -> list[list[str]]:
    """Return the paths in *text*, in the forms in which terminals paste dropped files.

    One literal path, or several with shell quotes or backslashes; each may be a file:// URL.
    """
    readings = [[text]]
    with suppress(ValueError):  # an unclosed quote, e.g. an apostrophe in a sentence
        readings.append(shlex.split(text))
    return [[_local(path) for path in paths] for paths in readings if paths]


def _local(path: str) -> str:
    if path.startswith("file://"):
        with suppress(ValueError):  # not a valid URL, e.g. file://[
            return unquote(urlsplit(path).path)
    return path
