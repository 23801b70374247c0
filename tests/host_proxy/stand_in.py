"""Doors whose proxy finds local servers in place of those of the internet."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from agent_cli.host_proxy.door import Doors
from agent_cli.host_proxy.proxy import Contact, HostProxy
from tests.sandbox.world import World, run_confined


@dataclass
class Network:
    """The internet of a test.

    Attributes:
        hosts: Names with the ports on this machine that stand for all of their ports.
        allowed: The hosts that commands may reach.
        told: The sentences about the last command.
    """

    world: World
    doors: Doors
    hosts: Mapping[str, int]
    allowed: Sequence[str]
    asked: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    contacts: list[Contact] = field(default_factory=list[Contact])
    told: Sequence[str] = ()

    async def decide(self, host: str, port: int) -> str:
        self.asked.append((host, port))
        return "" if host in self.allowed else f"no rule allows {host}"

    def note(self, contact: Contact) -> None:
        self.contacts.append(contact)

    async def run(self, command: str, **variables: str) -> tuple[int, str]:
        """Run *command* in the sandbox with a door; return its exit code and its output."""
        confinement = await self.world.sandbox.confine(self.world.root)
        assert confinement is not None
        door = self.doors.open(self)
        confined = confinement.reaching(door)
        environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp", **variables}
        try:
            run = await asyncio.to_thread(
                run_confined, confined, command, self.world.root, environment
            )
        finally:
            self.told = await asyncio.to_thread(confined.release)
        return run.returncode, run.stdout + run.stderr


@asynccontextmanager
async def network(
    world: World, folder: Path, hosts: Mapping[str, int], allowed: Sequence[str] = ()
) -> AsyncGenerator[Network]:
    """Yield a network with *hosts*, of which commands may reach those *allowed*, or all."""
    numbers = {host: f"93.184.216.{number}" for number, host in enumerate(hosts, 1)}
    ports = {numbers[host]: port for host, port in hosts.items()}

    async def resolve(host: str) -> Sequence[str]:
        return [numbers[host]] if host in numbers else []

    async def connect(
        address: str, _port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", ports[address])

    doors = Doors(lambda: folder, lambda: HostProxy(resolve=resolve, connect=connect))
    try:
        yield Network(world, doors, hosts, allowed or [*hosts])
    finally:
        doors.close()
