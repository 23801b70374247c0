"""Give each command one way out: a listening socket of its own network, served by our proxy.

A command in bubblewrap has a network of its own, with nothing but a loopback interface. `inside.py`
runs there before it, listens on a port and hands that socket out through a unix socket; the proxy,
outside, accepts its connections. Nothing of ours stays in the sandbox, and the unix socket is gone
before the command begins.
"""

import asyncio
import contextlib
import shlex
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Final

from agent_cli.host_proxy import inside
from agent_cli.host_proxy.first_bytes import HEAD_BYTES_MAX
from agent_cli.host_proxy.proxy import Contact, HostProxy, ProxyUser

PORT: Final = 47_128
"""The port in the sandbox; each command has all ports to itself."""

MOUNTED_AT: Final = "/run/agent-cli"
_SOCKET: Final = "out"
_SSH_CONFIG: Final = "ssh_config"
_SSH_CONFIG_OF_MACHINE: Final = Path("/etc/ssh/ssh_config")
_START_LIMIT_S: Final = 30.0
_STOP_LIMIT_S: Final = 2.0
_ACCEPT_AGAIN_S: Final = 0.1
_SENTENCES_MAX: Final = 10
_HOSTS_SHOWN_MAX: Final = 30
_CONTACTS_MAX: Final = 1_000
_URL: Final = f"http://127.0.0.1:{PORT}"
_NOT_PROXIED: Final = "localhost,127.0.0.1,::1"
_VARIABLES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), _URL),
    **dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), _URL),
    **dict.fromkeys(("NO_PROXY", "no_proxy", "npm_config_noproxy"), _NOT_PROXIED),
    "NODE_USE_ENV_PROXY": "1",  # Node's own fetch ignores the others without it
}


class Door:
    """The way out of one command; call `close` once the command has ended."""

    def __init__(self, folder: Path, decider: ProxyUser) -> None:
        """Use `Doors.open`."""
        self._folder = folder
        self._decider = decider
        self._loop = asyncio.get_running_loop()
        self._contacts: dict[Contact, None] = {}
        self._serving: Future[None] | None = None

    @property
    def mounts(self) -> Sequence[tuple[Path, str]]:
        """The folder to mount, and where in the sandbox; the same for the settings of ssh."""
        written = self._folder / _SSH_CONFIG
        ssh = [(written, str(_SSH_CONFIG_OF_MACHINE))] if written.exists() else []
        return [(self._folder, MOUNTED_AT), *ssh]

    @property
    def prefix(self) -> Sequence[str]:
        """The words before the command, in the sandbox."""
        return [*_program(), f"{MOUNTED_AT}/{_SOCKET}", str(PORT)]

    @property
    def variables(self) -> Mapping[str, str]:
        """The variables by which programs find the proxy."""
        ssh = shlex.join(["ssh", *(f"-o{each}" for each in _ssh_settings())])
        return {**_VARIABLES, "GIT_SSH_COMMAND": ssh}

    async def decide(self, host: str, port: int) -> str:
        """Have the session decide, in its own loop."""
        try:
            deciding = asyncio.run_coroutine_threadsafe(
                self._decider.decide(host, port), self._loop
            )
        except RuntimeError:
            return "the session has ended"
        return await asyncio.wrap_future(deciding)

    def note(self, contact: Contact) -> None:
        """Remember a contact, if there are not too many."""
        if len(self._contacts) < _CONTACTS_MAX:
            self._contacts[contact] = None
            self._decider.note(contact)

    def serve(self, serving: "Future[None]") -> None:
        """Remember the task that serves it."""
        self._serving = serving

    def close(self) -> Sequence[str]:
        """Cut its connections; return a sentence about the hosts it reached, one for each refusal.

        May be called in any thread.
        """
        if self._serving:
            self._serving.cancel()
        reached = sorted(
            {shown(each.host, each.port) for each in self._contacts if not each.refusal}
        )
        others = len(reached) - _HOSTS_SHOWN_MAX
        reached[_HOSTS_SHOWN_MAX:] = [f"and {others} more"] if others > 0 else []
        refusals = [*dict.fromkeys(each.refusal for each in self._contacts if each.refusal)]
        more = len(refusals) - _SENTENCES_MAX
        return [
            *([f"network: reached {', '.join(reached)}"] if reached else []),
            *(f"network: {each}" for each in refusals[:_SENTENCES_MAX]),
            *([f"network: and {more} more refusals"] if more > 0 else []),
        ]


def _ssh_settings() -> Sequence[str]:
    through = shlex.join([*_program(), inside.CONNECT, str(PORT), "%h", "%p"])
    return "BatchMode=yes", f"ProxyCommand={through}"


def _write_ssh_config(path: Path) -> None:
    """Write the machine's settings of ssh to *path*, behind ours: the first value counts.

    Nothing if the machine has none: there is no file to mount ours on.
    """
    try:
        of_machine = _SSH_CONFIG_OF_MACHINE.read_bytes()
    except OSError:
        return
    ours = "\n".join(_ssh_settings()).encode()
    path.write_bytes(ours + b"\n\n" + of_machine)


def _program() -> Sequence[str]:
    return sys.executable, "-I", "-S", str(Path(inside.__file__).resolve())


def shown(host: str, port: int) -> str:
    """Return the host, with its port unless that is a usual one."""
    return host if port in (80, 443) else f"{host}:{port}"


class Doors:
    """The doors of one session; a thread serves them all, however busy the session is."""

    def __init__(
        self, folder: Callable[[], Path], proxy: Callable[[], HostProxy] = HostProxy
    ) -> None:
        """Start nothing yet.

        Args:
            folder: Returns an existing folder, of this user only, for the sockets.
            proxy: Makes the proxy, in its thread.
        """
        self._folder = folder
        self._make_proxy = proxy
        self._lock = threading.Lock()
        self._running: tuple[asyncio.AbstractEventLoop, asyncio.Event, HostProxy] | None = None
        self._thread: threading.Thread | None = None

    def open(self, decider: ProxyUser) -> Door:
        """Return a new door; *decider* decides in the running loop.

        Raises:
            OSError: It cannot be made.
        """
        loop, _, proxy = self._started()
        folder = Path(tempfile.mkdtemp(prefix="net-", dir=self._folder()))
        handed = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            _write_ssh_config(folder / _SSH_CONFIG)
            handed.bind(str(folder / _SOCKET))
            handed.listen(1)
            handed.setblocking(False)
        except BaseException:
            handed.close()
            raise
        door = Door(folder, decider)
        serving = _serve(proxy, door, handed, folder / _SOCKET)
        future = asyncio.run_coroutine_threadsafe(serving, loop)
        # A door that is closed at once is never served.
        future.add_done_callback(lambda _ended: handed.close())
        door.serve(future)
        return door

    def close(self) -> None:
        """End every connection, and the thread."""
        with self._lock:
            running, thread = self._running, self._thread
            self._running = self._thread = None
        if running and thread:
            loop, stop, _ = running
            loop.call_soon_threadsafe(stop.set)
            thread.join(_STOP_LIMIT_S)

    def _started(self) -> tuple[asyncio.AbstractEventLoop, asyncio.Event, HostProxy]:
        with self._lock:
            if self._running is None:
                ready = threading.Event()
                self._thread = threading.Thread(
                    target=lambda: asyncio.run(self._run(ready)), name="host proxy", daemon=True
                )
                self._thread.start()
                if not ready.wait(_START_LIMIT_S):
                    raise OSError("the proxy of the sandbox did not start")
            assert self._running is not None
            return self._running

    async def _run(self, ready: threading.Event) -> None:
        stop = asyncio.Event()
        self._running = asyncio.get_running_loop(), stop, self._make_proxy()
        ready.set()
        await stop.wait()


async def _serve(proxy: HostProxy, door: Door, handed: socket.socket, path: Path) -> None:
    """Serve *door* until it is closed."""
    try:
        listener = await _received(handed, path)
    finally:
        handed.close()
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
            path.with_name(_SSH_CONFIG).unlink(missing_ok=True)
            path.parent.rmdir()  # it is mounted, if at all

    async def serve_one(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            reader, writer = await asyncio.open_connection(sock=connection, limit=HEAD_BYTES_MAX)
            await proxy.serve(reader, writer, door)

    loop = asyncio.get_running_loop()
    with listener:
        async with asyncio.TaskGroup() as connections:
            while True:
                try:
                    connection, _ = await loop.sock_accept(listener)
                except OSError:  # as many files are open as may be; later fewer are
                    await asyncio.sleep(_ACCEPT_AGAIN_S)
                    continue
                connections.create_task(serve_one(connection))


async def _received(handed: socket.socket, path: Path) -> socket.socket:
    """Return the listening socket that is handed out of the sandbox through *path*.

    Raises:
        OSError: It is none that listens on the loopback interface.
    """
    loop = asyncio.get_running_loop()
    connection, _ = await loop.sock_accept(handed)
    with connection:
        connection.setblocking(False)
        readable = asyncio.Event()
        loop.add_reader(connection, readable.set)
        try:
            await readable.wait()
        finally:
            loop.remove_reader(connection)
        _, descriptors, _, _ = socket.recv_fds(connection, 1, 1)
        if not descriptors:
            raise OSError("no socket was handed out of the sandbox")
        listener = socket.socket(fileno=descriptors[0])
        is_listening = listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        if listener.family != socket.AF_INET or not is_listening:
            listener.close()
            raise OSError("another socket was handed out of the sandbox")
        listener.setblocking(False)
        path.unlink()
        path.with_name(_SSH_CONFIG).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            connection.send(b"k")
        return listener
