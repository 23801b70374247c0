"""Edit a text in the user's editor."""

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from agent_cli.contracts.errors import UsageError
from agent_cli.system.launching import on_terminal

_USUAL: Final = ("editor", "nano", "vi")


def edited(
    text: str,
    ending: str,
    started: Callable[[subprocess.Popen[bytes]], object] = lambda _process: None,
) -> str:
    """Open *text* in $VISUAL, $EDITOR or a common editor, and return the saved text.

    Blocks until the editor ends; it must have the terminal meanwhile.

    Args:
        text: The initial text.
        ending: The suffix of the file's name, by which editors recognise the format.
        started: Receives the process of the editor, to end it early.

    Raises:
        UsageError: There is no editor, no place for the file, or it failed; discard its text then.
    """
    command = _command()
    if shutil.which(command[0]) is None:
        raise UsageError(f"{command[0]} cannot be used: there is no such program")
    with _folder() as folder:
        file = Path(folder) / f"input{ending}"
        try:
            file.write_text(text, encoding="utf-8", errors="surrogatepass", newline="")
        except OSError as error:
            raise _no_place(error) from error
        try:
            with subprocess.Popen(on_terminal([*command, str(file)])) as process:
                started(process)
                code = process.wait()
            saved = file.read_bytes()
        except OSError as error:
            raise UsageError(f"{command[0]} cannot be used: {error.strerror}") from error
    if code:
        raise UsageError(f"{command[0]} ended with {code}; nothing was changed")
    return saved.decode("utf-8", errors="replace")


def _folder() -> tempfile.TemporaryDirectory[str]:
    try:
        return tempfile.TemporaryDirectory(prefix="agent-cli-edit-", ignore_cleanup_errors=True)
    except OSError as error:
        raise _no_place(error) from error


def _no_place(error: OSError) -> UsageError:
    return UsageError(
        f"no temporary file can be written for the editor ({error.strerror}): free some space, or"
        " set TMPDIR to a folder with room"
    )


def _command() -> list[str]:
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"$VISUAL or $EDITOR is not a command: {command}") from error
    usual = next((path for path in map(shutil.which, _USUAL) if path), None)
    if not words and not usual:
        raise UsageError("there is no editor: set $EDITOR to one")
    return words or [str(usual)]
