"""Read the picture on the clipboard, with the program this system has for it."""

import asyncio
import base64
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from agent_cli.contracts.errors import UsageError
from agent_cli.system.desktop import output_within
from agent_cli.system.programs import find_program

_LIMIT_S: Final = 10
_PNG: Final = b"\x89PNG"
_POWERSHELL: Final = (
    "Add-Type -AssemblyName System.Windows.Forms;"
    "$p = [System.Windows.Forms.Clipboard]::GetImage();"
    "if ($p) { $s = New-Object System.IO.MemoryStream;"
    "$p.Save($s, [System.Drawing.Imaging.ImageFormat]::Png);"
    "[Convert]::ToBase64String($s.ToArray()) }"
)


async def clipboard_picture() -> bytes:
    """Return the picture on the clipboard as PNG.

    Raises:
        UsageError: There is no picture, or no program to read it; the message says what to do.
    """
    asked = commands(os.environ, sys.platform)
    installed = [
        (str(program), *arguments)
        for name, *arguments in asked
        if (program := find_program(name, outside=Path.cwd()))
    ]
    if not installed:
        raise UsageError(_no_way(os.environ, asked))
    for command in installed:
        if picture := _decoded(await _output(command)):
            return picture
    raise UsageError("there is no picture on the clipboard; text is pasted with the terminal's key")


def commands(environment: Mapping[str, str], platform: str) -> list[tuple[str, ...]]:
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


async def _output(command: Sequence[str]) -> bytes:
    """Return the output of *command*; b"" if it fails or takes too long."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    return await output_within(_LIMIT_S, process) or b""


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
