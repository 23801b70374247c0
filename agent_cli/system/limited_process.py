"""Wait for a small program of the desktop: a clipboard, the starter of a browser."""

import asyncio
from asyncio.subprocess import Process


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
