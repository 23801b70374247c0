"""The image on the clipboard, read through the programs of each system."""

import base64
import os
import sys
from pathlib import Path

import pytest

from agent_cli.contracts.errors import UsageError
from agent_cli.repl.live.input import pictures
from agent_cli.repl.live.input.pictures import clipboard_commands, clipboard_picture, dropped_paths
from tests.tables import each_row
from tests.waiting import LIMIT_S

PNG = b"\x89PNG\r\n\x1a\n picture"


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that is the whole PATH, on an X display."""
    path = tmp_path_factory.mktemp("bin")
    for name in ("WAYLAND_DISPLAY", "WSL_DISTRO_NAME", "SSH_CONNECTION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setenv("PATH", f"{path}{os.pathsep}/bin{os.pathsep}/usr/bin")
    return path


def install(folder: Path, name: str, output: bytes, code: int = 0) -> None:
    (folder / f"{name}.out").write_bytes(output)
    (folder / name).write_text(f"#!/bin/sh\ncat '{folder / name}.out'\nexit {code}\n")
    (folder / name).chmod(0o755)


def test_clipboard_programs_are_chosen_by_system() -> None:
    """S6: Wayland before X, whose clipboard may be a stale copy; on WSL, those of Windows."""
    both = {"WAYLAND_DISPLAY": "wayland-0", "DISPLAY": ":0"}

    assert [command[0] for command in clipboard_commands(both, "linux")] == ["wl-paste", "xclip"]
    assert [command[0] for command in clipboard_commands({}, "darwin")] == ["pngpaste", "osascript"]
    assert clipboard_commands({"WSL_DISTRO_NAME": "x"}, "linux")[0][0] == "powershell.exe"
    assert clipboard_commands({}, "linux") == []


@pytest.mark.parametrize(
    "output",
    [
        PNG,
        base64.b64encode(PNG) + b"\r\n",
        "«data PNGf".encode() + PNG.hex().encode() + b"\xc2\xbb",
    ],
    ids=["as it is", "PowerShell", "AppleScript"],
)
async def test_clipboard_image_is_decoded_from_each_output_format(
    folder: Path, output: bytes
) -> None:
    """White space at the end is dropped from text output only."""
    install(folder, "xclip", output)

    assert await clipboard_picture() == PNG


@pytest.mark.parametrize("output", [b"", b"some text", b"\xff\xfe"])
async def test_clipboard_without_an_image_raises_a_usage_error(folder: Path, output: bytes) -> None:
    """It holds text or nothing, or the program fails."""
    install(folder, "xclip", output, code=0 if output else 1)

    with pytest.raises(UsageError, match="there is no picture on the clipboard"):
        await clipboard_picture()


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ("#!/bin/sh\nsleep 600\n", "xclip did not answer within 0.2 s"),
        (f"#!{sys.executable}\nimport os\nwhile True: os.write(1, b'x' * 65536)\n", "too large"),
    ],
    ids=["hangs", "never ends"],
)
async def test_clipboard_program_that_does_not_end_is_ended_with_its_children(
    folder: Path, monkeypatch: pytest.MonkeyPatch, script: str, error: str
) -> None:
    """A child that held the output kept every later picture waiting, without a word."""
    monkeypatch.setattr(pictures, "_OUTPUT_BYTES_MAX", 1_000_000)
    (folder / "xclip").write_text(script)
    (folder / "xclip").chmod(0o755)

    with pytest.raises(UsageError, match=error):
        await clipboard_picture(limit_s=0.2 if "sleep" in script else LIMIT_S)

    install(folder, "xclip", PNG)
    assert await clipboard_picture() == PNG


async def test_clipboard_program_in_the_workspace_is_not_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threat 13: PATH may lead into the repository."""
    install(folder, "xclip", PNG)
    monkeypatch.chdir(folder.parent)

    with pytest.raises(UsageError, match="install xclip"):
        await clipboard_picture()


async def test_missing_clipboard_program_error_says_what_to_do(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names the package to install; over ssh no package would help."""
    monkeypatch.setenv("PATH", str(folder))
    with pytest.raises(UsageError, match=r"install xclip, or name the picture: @picture\.png"):
        await clipboard_picture()
    monkeypatch.delenv("DISPLAY")
    with pytest.raises(UsageError, match="there is no clipboard here"):
        await clipboard_picture()
    monkeypatch.setenv("SSH_CONNECTION", "1 2 3 4")
    with pytest.raises(UsageError, match="over ssh the clipboard stays"):
        await clipboard_picture()


@each_row(
    ("text", "path"),
    [
        ("/home/me/My shot.png", "/home/me/My shot.png"),
        (r"/home/me/My\ shot.png", "/home/me/My shot.png"),
        ("'/home/me/My shot.png'", "/home/me/My shot.png"),
        ('"/home/me/My shot.png"', "/home/me/My shot.png"),
        ("file:///home/me/My%20shot.png", "/home/me/My shot.png"),
        ("'file:///tmp/%E5%86%99.png'", "/tmp/写.png"),
    ],
)
def test_dropped_file_is_recognised_in_every_notation_of_terminals(text: str, path: str) -> None:
    """S6: plain, quoted, with backslashes, or as a URL."""
    assert [path] in dropped_paths(text)


def test_several_dropped_files_are_recognised_and_sentences_are_not() -> None:
    """A sentence with an apostrophe is no list of paths."""
    assert ["/a.png", "/b c.png"] in dropped_paths(r"/a.png '/b c.png'")
    assert dropped_paths("don't") == [["don't"]]


@each_row("text", ["file://[", "file://\u2100/x"])
def test_pasted_text_that_is_no_valid_url_is_text(text: str) -> None:
    """The paste used to be lost, with a traceback."""
    assert dropped_paths(text) == [[text], [text]]
