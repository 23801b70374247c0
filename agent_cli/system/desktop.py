"""Programs of the user's desktop: wait for one within a limit, copy text to the clipboard."""

import asyncio
import os
import sys
from asyncio.subprocess import Process
from collections.abc import Mapping
from typing import Final

from agent_cli.system.paths import current_folder
from agent_cli.system.programs import find_program, search_path

_LIMIT_S: Final = 5
_POWERSHELL: Final = (
    "[Console]::InputEncoding = [Text.Encoding]::UTF8;"
    "Set-Clipboard -Value ([Console]::In.ReadToEnd())"
)


async def copy_text(text: str, environment: Mapping[str, str], platform: str) -> str:
    """Copy *text* to the clipboard; return the name of the program used, "" if none could."""
    for name, *arguments in copy_commands(environment, platform):
        program = find_program(name, outside=current_folder())
        if program and await _takes((str(program), *arguments), text):
            return name
    return ""


def copy_commands(environment: Mapping[str, str], platform: str) -> list[tuple[str, ...]]:
    """Return the commands that may copy their stdin, the best one first.

    Over ssh the clipboard belongs to another computer, which only X11 forwarding and tmux reach.
    """
    is_local = "SSH_CONNECTION" not in environment
    found: list[tuple[str, ...]] = []
    if platform == "darwin" and is_local:
        found.append(("pbcopy",))
    if "WSL_DISTRO_NAME" in environment and is_local:
        found.append(("powershell.exe", "-NoProfile", "-Command", _POWERSHELL))
    if environment.get("WAYLAND_DISPLAY") and is_local:
        found.append(("wl-copy",))
    if environment.get("DISPLAY"):
        found += [("xclip", "-selection", "clipboard"), ("xsel", "--clipboard", "--input")]
    if environment.get("TMUX"):
        # Since tmux 3.2; tmux passes the text to the terminal even if it drops OSC 52 of programs.
        found.append(("tmux", "load-buffer", "-w", "-"))
    return found


def way_to_copy(environment: Mapping[str, str], platform: str) -> str:
    """Return advice for the case that no program copied and the terminal may have no OSC 52."""
    if "TMUX" in environment:
        return "put `set -g set-clipboard on` into ~/.tmux.conf"
    if platform == "linux" and "SSH_CONNECTION" not in environment:
        return "install wl-clipboard (Wayland) or xclip (X11)"
    return "allow OSC 52 in your terminal's settings"


async def _takes(command: tuple[str, ...], text: str) -> bool:
    """Run *command* with *text* on its stdin; return False if it fails or takes too long."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            # xclip and wl-copy leave a process that serves the text: do not wait for its output.
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError:
        return False
    return await output_within(_LIMIT_S, process, text.encode(errors="replace")) is not None


async def output_within(
    limit_s: float, process: Process, sent: bytes | None = None
) -> bytes | None:
    """Send *sent* to *process* and return its output; it has ended afterwards in any case.

    Returns:
        b"" if its stdout is no pipe; None if it failed, or was killed at the limit.
    """
    try:
        async with asyncio.timeout(limit_s):
            output, _ = await process.communicate(sent)
    except TimeoutError:
        return None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return (output or b"") if process.returncode == 0 else None


_OPEN_LIMIT_S: Final = 3.0


async def open_page(url: str) -> None:
    """Open *url* in the user's browser; do nothing if there is none.

    The browser runs in a process without a terminal: browsers write to theirs, or take it over.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        # Isolated, so that a webbrowser.py in the workspace is not run.
        *("-I", "-m", "webbrowser", url),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, "PATH": _path()},
    )
    # Some browsers run until their window is closed: only the starter is killed at the limit.
    await output_within(_OPEN_LIMIT_S, process)


def _path() -> str:
    """Return the PATH for finding a browser, without folders inside the current one."""
    return search_path(os.environ.get("PATH", os.defpath), outside=current_folder())
