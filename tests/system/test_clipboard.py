"""Text on the clipboard, through a stand-in for the system's program."""

import asyncio
import os
from shlex import quote

import pytest

from agent_cli.system.desktop import copy_commands, copy_text
from tests.tables import each_row
from tests.waiting import StoppedClock, is_alive


@each_row(
    ("platform", "environment", "programs"),
    [
        ("darwin", {}, ["pbcopy"]),
        ("darwin", {"SSH_CONNECTION": "a"}, []),
        ("linux", {}, []),
        ("linux", {"WAYLAND_DISPLAY": "w", "DISPLAY": ":0"}, ["wl-copy", "xclip", "xsel"]),
        ("linux", {"SSH_CONNECTION": "a", "DISPLAY": "localhost:10"}, ["xclip", "xsel"]),
        ("linux", {"SSH_CONNECTION": "a", "TMUX": "/tmp/tmux"}, ["tmux"]),
        ("linux", {"WSL_DISTRO_NAME": "Ubuntu"}, ["powershell.exe"]),
    ],
)
def test_clipboard_program_is_that_of_the_users_own_computer(
    platform: str, environment: dict[str, str], programs: list[str]
) -> None:
    """Over ssh, a program here would fill the clipboard of the wrong computer."""
    assert [name for name, *_ in copy_commands(environment, platform)] == programs


async def test_first_clipboard_program_that_takes_the_text_is_used(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that fails, or exits without reading, is skipped."""
    tmp_path = tmp_path_factory.mktemp("bin")  # programs in the workspace are never run
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for name, body in (("wl-copy", "exit 1"), ("xclip", f"cat > {quote(f'{tmp_path}/copied')}")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    environment = {"WAYLAND_DISPLAY": "w", "DISPLAY": ":0"}

    program = await copy_text("Grüße\n", environment, "linux")

    assert program == "xclip"
    assert (tmp_path / "copied").read_text() == "Grüße\n"
    assert await copy_text("x", {}, "linux") == ""


async def test_clipboard_program_that_hangs_is_ended_after_five_seconds(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one is asked then: a display may be gone, whose program waits for it."""
    tmp_path = tmp_path_factory.mktemp("bin")  # programs in the workspace are never run
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    started = tmp_path / "started"
    new, done = quote(f"{started}.new"), quote(str(started))
    for name, body in (
        # The five seconds have begun when it has the text.
        ("wl-copy", f"cat; echo $$ > {new}; mv {new} {done}; exec sleep 600"),
        ("xclip", "cat > /dev/null"),
    ):
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    clock = StoppedClock()

    copying = asyncio.create_task(
        copy_text("x", {"WAYLAND_DISPLAY": "w", "DISPLAY": ":0"}, "linux")
    )
    await clock.until(started.exists)
    await clock.pass_s(4.9)
    was_alive = is_alive(pid := int(started.read_text()))
    await clock.pass_s(0.2)

    await clock.until(lambda: not is_alive(pid))
    assert was_alive
    assert await copying == "xclip"
