"""Run a program that reads some bytes on stdin and answers on stdout: a hook, a status line.

Nothing that it starts outlives the call. The caller sets the time limit: cancelling ends the
program.
"""

import asyncio
import tempfile
from asyncio.subprocess import Process, SubprocessStreamProtocol
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from agent_cli.system.leftovers import kill_left, marked
from agent_cli.system.records import dataclass
from agent_cli.system.supervisor import GRACE_S, supervised

OUTPUT_BYTES_MAX: Final = 1_048_576
_BYTES_A_READ: Final = 65_536
_STDOUT, _STDERR = 1, 2


@dataclass(frozen=True, slots=True)
class ProgramAnswer:
    """The exit code and output of a program, with undecodable bytes replaced by U+FFFD."""

    code: int
    stdout: str
    stderr: str


class TooMuchOutput(Exception):
    """A program printed more than the limit."""


async def ask_program(
    command: Sequence[str],
    sent: bytes,
    *,
    environment: Mapping[str, str],
    workspace: Path,
    output_bytes_max: int = OUTPUT_BYTES_MAX,
) -> ProgramAnswer:
    """Run *command* in *workspace* with *sent* on its stdin, and return its answer.

    Raises:
        OSError: It cannot be started.
        TooMuchOutput: It printed more than *output_bytes_max* on stdout or stderr.
    """
    # A file, not a pipe: the supervisor takes the end of a pipe as a request to end, and a
    # program that never reads would block the writer.
    with tempfile.TemporaryFile() as stdin:
        stdin.write(sent)
        stdin.seek(0)
        loop = asyncio.get_running_loop()
        environment = marked(environment)
        # Not create_subprocess_exec: it hides its transport, which has to be closed.
        transport, protocol = await loop.subprocess_exec(
            lambda: SubprocessStreamProtocol(limit=_BYTES_A_READ, loop=loop),
            *supervised(command),
            stdin=stdin,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
            cwd=workspace,
            start_new_session=True,
        )
        process = Process(transport, protocol, loop)
        try:
            stdout, stderr = await _outputs(process, output_bytes_max)
            code = await process.wait()
        finally:
            await _end(process, transport)
            if (process.returncode or 0) < 0:
                # Somebody killed the supervisor, and perhaps the one behind it at the same moment.
                await asyncio.to_thread(kill_left, environment, process.pid)
    return ProgramAnswer(code, stdout, stderr)


async def _outputs(process: Process, bytes_max: int) -> tuple[str, str]:
    assert process.stdout is not None
    assert process.stderr is not None
    read: list[asyncio.Task[str]] = []
    try:
        async with asyncio.TaskGroup() as tasks:
            streams = (process.stdout, process.stderr)
            read = [tasks.create_task(_text(stream, bytes_max)) for stream in streams]
    except* TooMuchOutput:
        read = []
    if not read:  # Python before 3.11.4 wraps what `except*` raises in a group
        raise TooMuchOutput
    stdout, stderr = read
    return stdout.result(), stderr.result()


async def _text(stream: asyncio.StreamReader, bytes_max: int) -> str:
    found = bytearray()
    while chunk := await stream.read(_BYTES_A_READ):
        found += chunk
        if len(found) > bytes_max:
            raise TooMuchOutput
    return found.decode(errors="replace")


async def _end(process: Process, transport: asyncio.SubprocessTransport) -> None:
    """End the supervisor and with it the command; return soon, whatever they do."""
    for descriptor in (_STDOUT, _STDERR):
        if pipe := transport.get_pipe_transport(descriptor):
            pipe.close()
    if process.returncode is None:
        process.terminate()
        try:
            async with asyncio.timeout(GRACE_S * 4):
                await process.wait()
        except TimeoutError:
            process.kill()
    transport.close()
