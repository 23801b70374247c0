"""Commands the person runs with `!`: their output is shown, and offered to the model."""

import asyncio
import os
import signal
from typing import Final

from agent_cli.cancel import CancelToken

_OFFERED_CHARS_MAX: Final = 20_000


async def run_own(command: str, cancel: CancelToken) -> str:
    """Run *command* in the person's shell and return what it wrote; a cancel ends its group.

    Raises:
        Aborted: *cancel* came.
    """
    process = await asyncio.create_subprocess_shell(
        command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        async with cancel.scope():
            output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    text = output.decode(errors="replace").rstrip("\n")
    return f"{text}\n[exit code {process.returncode}]" if process.returncode else text


def as_context(command: str, output: str) -> str:
    """Return what the model reads of a command that was run before the next message."""
    if len(output) > _OFFERED_CHARS_MAX:
        half = _OFFERED_CHARS_MAX // 2
        output = f"{output[:half]}\n[cut here]\n{output[-half:]}"
    return f"I ran this command:\n$ {command}\n{output}\n"
