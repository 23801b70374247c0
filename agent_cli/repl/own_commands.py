"""Commands the person runs with `!`: their output is shown, and offered to the model."""

import asyncio
import contextlib
import os
import signal
from typing import Final

from agent_cli.cancel import CancelToken
from agent_cli.errors import UsageError
from agent_cli.messages import UserMessage
from agent_cli.terminal.writer import OutputLines
from agent_cli.timeline import text_block

_OFFERED_CHARS_MAX: Final = 20_000
_SHOWN_BYTES_MAX: Final = 1_000_000
_CHUNK_BYTES: Final = 64 * 1024


class OwnCommands:
    """Runs what stands behind a `!`, and keeps what it wrote until the model is told something."""

    def __init__(self, output: OutputLines) -> None:
        self._output = output
        self._offered: list[str] = []

    async def run(self, line: str, cancel: CancelToken) -> None:
        """Run a line with `!`, or with `!!` of which the model learns nothing.

        Raises:
            UsageError: There is no command in it, or none that can be run.
            Aborted: *cancel* came.
        """
        command = line.lstrip("!").strip()
        if not command:
            raise UsageError("there is no command behind the !")
        output = await _run(command, cancel)
        if output:
            self._output.foreign(output, "dim")
        if not line.startswith("!!"):
            self._offered.append(_as_context(command, output))

    def offered_with(self, message: UserMessage) -> UserMessage:
        """Return *message* behind what was kept, which is not kept any longer."""
        offered, self._offered = self._offered, []
        before = [text_block("\n".join([*offered, ""]))] if offered else []
        return UserMessage((*before, *message.content))


async def _run(command: str, cancel: CancelToken) -> str:
    """Run *command* in the person's shell and return what it wrote; a cancel ends its group."""
    try:
        process = await asyncio.create_subprocess_shell(
            command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:  # too long, a NUL in it, no folder to run it in
        raise UsageError(f"the command cannot be run: {error}") from error
    assert process.stdout
    try:
        async with cancel.scope():
            output = await _read(process.stdout)
            await process.wait()
    except BaseException:
        # The shell may have ended: what it left running in its group has not.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        raise
    text = output.decode(errors="replace").rstrip("\n")
    code = f"[exit code {process.returncode}]" if process.returncode else ""
    return "\n".join(filter(None, (text, code)))


async def _read(stream: asyncio.StreamReader) -> bytes:
    """Return what comes until the end; the middle of what is too much to be shown is left out."""
    kept = bytearray()
    left_out = 0
    while chunk := await stream.read(_CHUNK_BYTES):
        kept += chunk
        if (too_many := len(kept) - _SHOWN_BYTES_MAX) > 0:
            del kept[_SHOWN_BYTES_MAX // 2 : _SHOWN_BYTES_MAX // 2 + too_many]
            left_out += too_many
    if left_out:
        note = f"\n[{left_out:,} bytes left out here]\n"
        kept[_SHOWN_BYTES_MAX // 2 : _SHOWN_BYTES_MAX // 2] = note.encode()
    return bytes(kept)


def _as_context(command: str, output: str) -> str:
    """Return what the model reads of a command that was run before the next message."""
    if len(output) > _OFFERED_CHARS_MAX:
        half = _OFFERED_CHARS_MAX // 2
        output = f"{output[:half]}\n[cut here]\n{output[-half:]}"
    return f"I ran this command:\n$ {command}\n{output}\n"
