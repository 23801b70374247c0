"""Run a program that reads some bytes on stdin and answers on stdout: a hook, a status line.

Nothing that it starts outlives the call. The caller sets the time limit: cancelling ends the
program. The environment of hooks and MCP servers is an allowlist, and the variables they name.
"""

import asyncio
import contextlib
import json
import os
import signal
import tempfile
from asyncio.subprocess import Process, SubprocessStreamProtocol
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

from agent_cli.system.launching import KeeperLink, Launcher, Order
from agent_cli.system.leftovers import kill_left, marked
from agent_cli.system.orphans import shell_code
from agent_cli.system.records import dataclass
from agent_cli.system.supervisor import GRACE_S, supervised
from agent_cli.system.temporary_files import own_folder

OUTPUT_BYTES_MAX: Final = 1_048_576
_BYTES_A_READ: Final = 65_536
_STDIN, _STDOUT, _STDERR = 0, 1, 2
_END_LIMIT_S: Final = 2.0

Decide: TypeAlias = Callable[[dict[str, Any]], Awaitable[bool]]
"""Answers the question of a keeper: whether a call of its command goes on."""

_INHERITED = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TZ", "TMPDIR", "TEMP", "TMP"),
        *("LANG", "LANGUAGE", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY"),
        *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "FTP_PROXY"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE"),
        "CURL_CA_BUNDLE",
        "PYTHONSAFEPATH",  # it only takes away: no module of the working directory is imported
    }
)
_INHERITED_PREFIXES = ("LC_", "XDG_")


@dataclass(frozen=True, slots=True)
class ProgramAnswer:
    """The exit code and output of a program; `stdout` and `stderr` are text, with U+FFFD."""

    code: int
    output: bytes
    errors: bytes

    @property
    def stdout(self) -> str:
        """The output as text, with undecodable bytes replaced."""
        return self.output.decode(errors="replace")

    @property
    def stderr(self) -> str:
        """The error output as text, with undecodable bytes replaced."""
        return self.errors.decode(errors="replace")


class TooMuchOutput(Exception):
    """A program printed more than the limit."""


def sent_json(value: Mapping[str, object]) -> bytes:
    """Return *value* for the stdin of a program that was written for Claude Code.

    It has no blanks, as there: scripts without jq look for `"name":true`.
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode(errors="replace")


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
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            streams = (process.stdout, process.stderr)
            output, errors = await _outputs(streams, output_bytes_max)
            code = await process.wait()
        finally:
            await _end(process, transport)
            if (process.returncode or 0) < 0:
                # Somebody killed the supervisor, and perhaps the one behind it at the same moment.
                await asyncio.to_thread(kill_left, environment, process.pid)
    return ProgramAnswer(code, output, errors)


async def ask_watched(
    order: Order, sent: bytes, launcher: Launcher, decide: Decide
) -> ProgramAnswer:
    """Do as `ask_program` for *order*, whose changes to files are recorded.

    *decide* answers what its keeper asks; meanwhile it stands still.

    Raises:
        OSError: It cannot be started.
        TooMuchOutput: It printed more than `OUTPUT_BYTES_MAX` bytes on stdout or stderr.
    """
    with own_folder() as folder:
        stdin = folder / "stdin"
        stdin.write_bytes(sent)
        order = replace(order, files=[(_STDIN, str(stdin)), *order.files])
        errors, errors_writing = os.pipe()
        try:
            link, output = launcher.launch(order, errors_writing)
        except BaseException:
            os.close(errors)
            raise
        finally:
            os.close(errors_writing)
        async with contextlib.AsyncExitStack() as stack:
            link.socket.setblocking(False)
            stack.push_async_callback(_end_link, link)
            streams = [await _reader(each, stack) for each in (output, errors)]
            await link.pid()
            code: list[int] = []

            async def end() -> None:
                code.append(await _status(link, decide))
                await asyncio.to_thread(link.end, _END_LIMIT_S)  # what it left holds the output

            printed, complained = await _outputs(streams, OUTPUT_BYTES_MAX, end)
    return ProgramAnswer(code[0], printed, complained)


async def _end_link(link: KeeperLink) -> None:
    """End all processes, the program by SIGTERM if it still runs and goes soon."""
    started = link.found("pid")
    if started and not link.found("status") and not link.is_closed:
        with contextlib.suppress(OSError):
            os.killpg(started["pid"], signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GRACE_S):
                await link.until(lambda: link.found("status") is not None)
    await asyncio.to_thread(link.end, _END_LIMIT_S)


async def _reader(descriptor: int, stack: contextlib.AsyncExitStack) -> asyncio.StreamReader:
    reader = asyncio.StreamReader(limit=_BYTES_A_READ)
    pipe = os.fdopen(descriptor, "rb", buffering=0)
    protocol = asyncio.StreamReaderProtocol(reader)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, pipe)
    stack.callback(transport.close)
    return reader


async def _status(link: KeeperLink, decide: Decide) -> int:
    """Return the exit code in shell convention; answer the questions until then."""
    answered = 0
    while (ended := link.found("status")) is None and not link.is_closed:
        asked = [each["asks"] for each in link.messages if "asks" in each]
        if len(asked) > answered:
            link.answer(goes_on=await decide(asked[answered]))
            answered += 1
        else:
            await link.until(partial(_has_more, link, len(link.messages)))
    return int(ended["status"]) if ended else shell_code(-signal.SIGKILL)


def _has_more(link: KeeperLink, known: int) -> bool:
    return len(link.messages) > known


async def _nothing() -> None:
    """Wait for nothing."""


async def _outputs(
    streams: Sequence[asyncio.StreamReader],
    bytes_max: int,
    beside: Callable[[], Coroutine[None, None, None]] = _nothing,
) -> tuple[bytes, bytes]:
    """Return the content of both *streams*, and do *beside* meanwhile."""
    read: list[asyncio.Task[bytes]] = []
    try:
        async with asyncio.TaskGroup() as tasks:
            read = [tasks.create_task(_content(stream, bytes_max)) for stream in streams]
            tasks.create_task(beside())
    except* TooMuchOutput:
        read = []
    if not read:  # Python before 3.11.4 wraps what `except*` raises in a group
        raise TooMuchOutput
    stdout, stderr = read
    return stdout.result(), stderr.result()


async def _content(stream: asyncio.StreamReader, bytes_max: int) -> bytes:
    found = bytearray()
    while chunk := await stream.read(_BYTES_A_READ):
        found += chunk
        if len(found) > bytes_max:
            raise TooMuchOutput
    return bytes(found)


async def _end(process: Process, transport: asyncio.SubprocessTransport) -> None:
    """End the supervisor, and with it the command; return soon even if they hang."""
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


def child_environment(inherited: Mapping[str, str], added: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a server or hook: the harmless part of *inherited*, and *added*.

    They are programs of others: they get our keys, those of other programs, and variables that
    change how their interpreter starts only if their own entry names them.
    """
    return {name: value for name, value in inherited.items() if _is_inherited(name)} | dict(added)


def _is_inherited(name: str) -> bool:
    # Proxy variables are often written in lowercase.
    upper = name.upper()
    return upper in _INHERITED or upper.startswith(_INHERITED_PREFIXES)
