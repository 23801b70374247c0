"""Edit a text in the user's editor, and give the terminal to another program for a while."""

import asyncio
import os
import shlex
import shutil
import subprocess
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

from prompt_toolkit.application import get_app
from prompt_toolkit.application.run_in_terminal import in_terminal

from agent_cli.contracts.errors import UsageError
from agent_cli.repl.live.painter import Painter
from agent_cli.system.launching import on_terminal
from agent_cli.system.temporary_files import own_folder

# Editors save a copy of unsaved text when they are terminated.
_END_LIMIT_S: Final = 2
_OPEN: Final = "close your editor to go on "  # it must not wrap
_CLEARED_ROW: Final = "\r\x1b[2K"
_USUAL: Final = ("editor", "nano", "vi")


@asynccontextmanager
async def terminal_lent(painter: Painter) -> AsyncGenerator[None]:
    """Remove prompt and live rows from the screen while the body runs."""
    await asyncio.sleep(painter.answers_in_s)  # else that program would get the terminal's answer
    painter.drop_tail()
    async with in_terminal():
        yield


@asynccontextmanager
async def _announced() -> AsyncGenerator[None]:
    """Say on the empty row that an editor is open: one with a window of its own shows nothing here.

    At the end the row is cleared also of keys that were typed meanwhile, which the terminal echoed.
    """
    output = get_app().output
    output.write_raw(_OPEN)
    output.flush()
    try:
        yield
    finally:
        output.write_raw(_CLEARED_ROW)


async def edit_text(painter: Painter, text: str, ending: str) -> str:
    """Open *text* in the user's editor and return the saved text; see `edited`.

    If the session ends meanwhile, the editor is ended: leaving would wait for it.
    """
    started: list[subprocess.Popen[bytes]] = []
    is_over = threading.Event()

    def note(process: subprocess.Popen[bytes]) -> None:
        started.append(process)
        if is_over.is_set():  # the session ended while the editor was being started
            process.terminate()

    leaving = get_app().future
    async with terminal_lent(painter), _announced():
        loop = asyncio.get_running_loop()
        editing = loop.run_in_executor(None, edited, text, ending, note)
        if leaving:
            await asyncio.wait((editing, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not editing.done() and leaving:
            is_over.set()
            for process in started:
                process.terminate()
            await asyncio.wait((editing,), timeout=_END_LIMIT_S)
            for process in started:
                process.kill()
        return await editing


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
        file = folder / f"input{ending}"
        try:
            file.write_text(text, encoding="utf-8", errors="surrogatepass", newline="")
        except OSError as error:
            raise _not_written(error) from error
        try:
            with subprocess.Popen(on_terminal([*command, str(file)])) as process:
                started(process)
                code = process.wait()
        except OSError as error:
            raise UsageError(f"{command[0]} cannot be used: {error.strerror}") from error
        if code:
            raise UsageError(f"{command[0]} ended with {code}; nothing was changed")
        try:
            return file.read_bytes().decode("utf-8", errors="replace")
        except OSError as error:
            raise UsageError(f"{command[0]} left no file; nothing was changed") from error


@contextmanager
def _folder() -> Generator[Path]:
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(own_folder())
        except OSError as error:
            raise _not_written(error) from error
        yield folder


def _not_written(error: OSError) -> UsageError:
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
