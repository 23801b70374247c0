"""The cost of network by host: each connection through the proxy, and the start of a command.

`python -m benchmarks.hosts` compares, alternately, TLS connections to a server on this machine with
the same ones through a proxy, and commands in bubblewrap with and without a door.
"""

import asyncio
import shutil
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from agent_cli.host_proxy.door import Doors
from agent_cli.host_proxy.proxy import Contact, HostProxy
from agent_cli.sandbox import Sandbox, SandboxPolicy

HOST = "server.example.com"
CONNECTIONS, COMMANDS = 200, 30
CONNECTION_MAX_MS = 10.0


class Everything:
    """Allows every host."""

    async def decide(self, _host: str, _port: int) -> str:
        """Allow it."""
        return ""

    def note(self, contact: Contact) -> None:
        """Forget it."""


async def proxied(port: int, tls: ssl.SSLContext) -> None:
    """Make one TLS connection through the proxy at *port*."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"CONNECT {HOST}:443 HTTP/1.1\r\n\r\n".encode())
    await reader.readuntil(b"\r\n\r\n")
    await writer.start_tls(tls, server_hostname=HOST)
    await _one_byte(reader, writer)


async def direct(port: int, tls: ssl.SSLContext) -> None:
    """Make one TLS connection to the server at *port*."""
    streams = await asyncio.open_connection("127.0.0.1", port, ssl=tls, server_hostname=HOST)
    await _one_byte(*streams)


async def _one_byte(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"x")
    await reader.readexactly(1)
    writer.close()


async def connections(folder: Path) -> None:
    """Print the cost of a connection."""
    key, certificate = folder / "key", folder / "certificate"
    making = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={HOST}")
    command = [*making, "-keyout", str(key), "-out", str(certificate)]
    await asyncio.to_thread(lambda: subprocess.run(command, check=True, capture_output=True))
    its = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    its.load_cert_chain(certificate, key)
    ours = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    ours.check_hostname, ours.verify_mode = False, ssl.CERT_NONE

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.read(1))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", ssl=its)
    port = server.sockets[0].getsockname()[1]

    async def resolve(_host: str) -> Sequence[str]:
        return ["93.184.216.34"]

    async def connect(
        _address: str, _port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", port)

    proxy, user = HostProxy(resolve=resolve, connect=connect), Everything()
    front = await asyncio.start_server(
        lambda reader, writer: proxy.serve(reader, writer, user), "127.0.0.1"
    )
    its_port = front.sockets[0].getsockname()[1]
    times: dict[str, list[float]] = {"direct": [], "proxied": []}
    for _ in range(CONNECTIONS):
        for name, way in (("direct", direct(port, ours)), ("proxied", proxied(its_port, ours))):
            began_s = time.perf_counter()
            await way
            times[name].append(1000 * (time.perf_counter() - began_s))
    one, other = (statistics.median(times[name]) for name in ("direct", "proxied"))
    print(f"connection: direct {one:.1f} ms, proxied {other:.1f} ms, +{other - one:.1f} ms")
    server.close()
    front.close()
    if other - one > CONNECTION_MAX_MS:
        sys.exit(f"a connection costs more than {CONNECTION_MAX_MS:g} ms")


async def commands(folder: Path) -> None:
    """Print the cost of a door for the start of a command."""
    root = folder / "workspace"
    root.mkdir()
    policy = SandboxPolicy(
        (root,), home=Path.home(), own=(folder / "own",), is_secret=lambda _path: False
    )
    sandbox = Sandbox(lambda: policy, mode="auto", state_dir=folder / "own")
    doors = Doors(lambda: folder)
    if (await sandbox.ready()).state != "bwrap":
        print("command: no bubblewrap works here")
        return
    times: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(COMMANDS):
        for has_door in (False, True):
            confinement = await sandbox.confine(root)
            assert confinement is not None
            if has_door:
                confinement = confinement.reaching(doors.open(Everything()))
            command = confinement.around(["/bin/sh", "-c", ":"])
            began_s = time.perf_counter()
            await asyncio.to_thread(subprocess.run, command, check=True)
            times[has_door].append(1000 * (time.perf_counter() - began_s))
            await asyncio.to_thread(confinement.release)
    one, other = statistics.median(times[False]), statistics.median(times[True])
    print(f"command: without a door {one:.1f} ms, with one {other:.1f} ms, +{other - one:.1f} ms")
    doors.close()
    sandbox.close()


async def main() -> None:
    """Run both."""
    folder = Path(tempfile.mkdtemp())
    try:
        await connections(folder)
        await commands(folder)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    asyncio.run(main())
