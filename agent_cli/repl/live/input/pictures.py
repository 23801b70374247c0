"""Pictures in the input: turn a dropped file, an @path or the clipboard's picture into a mark."""

import asyncio
import base64
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import PurePath
from typing import Final
from urllib.parse import unquote, urlsplit

from agent_cli.attachments.attachments import Attachments
from agent_cli.attachments.images import image_of
from agent_cli.attachments.references import reference_to
from agent_cli.contracts.errors import UsageError
from agent_cli.repl.live.screen import LiveScreen
from agent_cli.system.asked_program import TooMuchOutput, ask_program
from agent_cli.system.paths import current_folder
from agent_cli.system.programs import find_program

_DROPPED_CHARS_MAX: Final = 10_000
_CLIPBOARD_LIMIT_S: Final = 10
_OUTPUT_BYTES_MAX: Final = 200_000_000  # of a picture of 100 MB in hexadecimal
_PNG: Final = b"\x89PNG"
_POWERSHELL: Final = (
    "Add-Type -AssemblyName System.Windows.Forms;"
    "$p = [System.Windows.Forms.Clipboard]::GetImage();"
    "if ($p) { $s = New-Object System.IO.MemoryStream;"
    "$p.Save($s, [System.Drawing.Imaging.ImageFormat]::Png);"
    "[Convert]::ToBase64String($s.ToArray()) }"
)


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
            asked = self._screen.asking.question
            try:
                image = image_of(await clipboard_picture(), name="the picture on the clipboard")
            except (UsageError, OSError) as error:
                self._screen.notice(str(error), "warning")
                continue
            finally:
                self._requested.clear()  # a key pressed again meanwhile means the same picture
            mark = self._attachments.add(image, "clipboard")
            self._screen.draft.marks.add(mark, sent=mark, recalled="")
            self._screen.insert_message(mark, asked)

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


async def clipboard_picture(*, limit_s: float = _CLIPBOARD_LIMIT_S) -> bytes:
    """Return the picture on the clipboard as PNG; each program may take *limit_s*.

    Raises:
        UsageError: There is no picture, or no program that reads it; the message says what to do.
    """
    asked = clipboard_commands(os.environ, sys.platform)
    installed = [
        (str(program), *arguments)
        for name, *arguments in asked
        if (program := find_program(name, outside=current_folder()))
    ]
    if not installed:
        raise UsageError(_no_way(os.environ, asked))
    for command in installed:
        if picture := _decoded(await _clipboard_output(command, limit_s)):
            return picture
    raise UsageError("there is no picture on the clipboard; text is pasted with the terminal's key")


def clipboard_commands(environment: Mapping[str, str], platform: str) -> list[tuple[str, ...]]:
    """Return commands that output the picture: as bytes, in base64, or as AppleScript."""
    if platform == "darwin":
        return [("pngpaste", "-"), ("osascript", "-e", "get the clipboard as «class PNGf»")]
    found: list[tuple[str, ...]] = []
    if "WSL_DISTRO_NAME" in environment or platform == "win32":
        found.append(("powershell.exe", "-NoProfile", "-STA", "-Command", _POWERSHELL))
    if environment.get("WAYLAND_DISPLAY"):
        found.append(("wl-paste", "--no-newline", "--type", "image/png"))
    if environment.get("DISPLAY"):
        found.append(("xclip", "-selection", "clipboard", "-target", "image/png", "-out"))
    return found


def _no_way(environment: Mapping[str, str], asked: Sequence[Sequence[str]]) -> str:
    if asked:
        programs = " or ".join(command[0] for command in asked)
        return (
            f"the clipboard cannot be read: install {programs}, or name the picture: @picture.png"
        )
    if environment.get("SSH_CONNECTION"):
        return (
            "over ssh the clipboard stays on your own computer: copy the picture to this one and"
            " name it: @picture.png"
        )
    return "there is no clipboard here: name the picture instead: @picture.png"


async def _clipboard_output(command: Sequence[str], limit_s: float) -> bytes:
    """Return the output of *command*; b"" if it fails.

    Raises:
        UsageError: It takes longer than *limit_s*, or its output is too large.
    """
    name = PurePath(command[0]).name
    try:
        async with asyncio.timeout(limit_s):
            ran = await ask_program(
                command,
                b"",
                environment=os.environ,
                workspace=current_folder(),
                output_bytes_max=_OUTPUT_BYTES_MAX,
            )
    except TimeoutError as error:
        raise UsageError(
            f"{name} did not answer within {limit_s:g} s: copy the picture again, or name it:"
            " @picture.png"
        ) from error
    except TooMuchOutput as error:
        raise UsageError("the picture on the clipboard is too large: copy a part of it") from error
    return b"" if ran.code else ran.output


def _decoded(output: bytes) -> bytes:
    """Return the picture in a command's output, or b""."""
    text = output.strip()
    try:
        if text.startswith("«data PNGf".encode()):
            return bytes.fromhex(text.decode().removeprefix("«data PNGf").removesuffix("»"))
        if text and not output.startswith(_PNG):
            output = base64.b64decode(text, validate=True)
    except ValueError:
        return b""
    return output if output.startswith(_PNG) else b""
