"""Everything that a tree of agents can wait for, in one order, and the bound of each wait.

| | | held by |
|---|---|---|
| 1 | a slot of the tree for an agent | an agent, but not while its own agents work |
| 2 | earlier calls of the same reply that use the same files | a call, until it has ended |
| 3 | a slot of the reply for a call (`concurrency`) | a call that runs or waits for 4 |
| 4 | calls of other agents that use the same files | a call, until it has ended |
| 5 | a reservation of the cost limit; a model, a process, a person | a running call or agent |

**Whoever holds something waits only for things further down.** So no circle can form: in any set of
waiting holders, the one furthest down waits for work that is running. A call that waits for agents
(`Tool.takes_slot` is False) holds nothing from 2 to 4; the agents that it waits for have
slots and files of their own. A hook's agent belongs to the call that it is asked about and only
reads: it waits for nothing from 1 to 4 but the calls and slots of its own replies.

A running command may ask a person about a host or a deletion. Such a question waits for the open
ones, first of its kind and then of any kind, and takes nothing else meanwhile.

A wait for 1 to 4, or for a reservation (`policies/accounts.py`), ends after a limit within which
nobody ahead has moved. Its error says who holds what. A wait for a model or a process has the limit
of its provider or tool; a wait for a person has none, and the person can stop it.
"""

import asyncio
import os
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, nullcontext
from typing import Final

from agent_cli.contracts.errors import ToolError
from agent_cli.contracts.timeline import ToolOutput
from agent_cli.contracts.tooling import Tool
from agent_cli.system.records import dataclass, field

CALL_LIMIT_S: Final = 3_600.0
AGENT_SLOT_LIMIT_S: Final = 12 * 3_600.0
"""Longer: an agent that has asked the user keeps its slot until there is an answer."""


class WaitedTooLong(ToolError):
    """Nobody ahead has moved within the limit; the text says who holds what, for the model."""

    def __init__(self, awaited: str, holders: Sequence[str], limit_s: float) -> None:
        super().__init__(
            f"Not run: it waited {limit_s:g} s for {awaited}, held by {', '.join(holders)}."
            " Go on without it, or call again once that has ended."
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Use:
    """Files and folders that one call reads or writes; `done` is set when the call has ended."""

    holder: str
    reads: Sequence[str]
    writes: Sequence[str]
    done: asyncio.Event = field(default_factory=asyncio.Event)

    def clashes_with(self, other: "_Use") -> bool:
        """Return whether the order of the two matters."""
        return overlap(self.writes, (*other.writes, *other.reads)) or overlap(
            self.reads, other.writes
        )


class InOrder:
    """A queue of calls by path: a call waits for earlier calls that use the same paths.

    Calls that only read run concurrently. Not a lock for each path: a call that needs several paths
    would queue for the second only once it has the first, and a later call could overtake it there.
    """

    def __init__(self) -> None:
        self._uses: list[_Use] = []

    @asynccontextmanager
    async def turn(
        self,
        reads: Sequence[str],
        writes: Sequence[str],
        *,
        holder: str = "",
        limit_s: float = CALL_LIMIT_S,
    ) -> AsyncGenerator[None]:
        """Run the body, which uses these paths, after every earlier use that clashes with it.

        Args:
            reads: Files and folders, absolute.
            writes: The same.
            holder: The name of the call, for the error of a call that waits for it too long.
            limit_s: Seconds to wait for each of the earlier uses.

        Raises:
            WaitedTooLong: An earlier use has not ended within *limit_s*.
        """
        mine = _Use(holder, reads, writes)
        earlier = [other for other in self._uses if mine.clashes_with(other)]
        self._uses.append(mine)
        try:
            for other in earlier:
                await _ended(other, limit_s)
            yield
        finally:
            mine.done.set()
            self._uses.remove(mine)

    def will_write(self, paths: Sequence[str]) -> bool:
        """Return whether a call that has not ended writes any of *paths*."""
        return any(overlap(use.writes, paths) for use in self._uses)


class CapacityLimiter:
    """A limited number of slots, given in the order in which they were asked for."""

    def __init__(self, most: int, awaited: str, *, limit_s: float = CALL_LIMIT_S) -> None:
        """Start with *most* free slots.

        Args:
            most: The number of slots.
            awaited: A slot in words, for `WaitedTooLong`.
            limit_s: Seconds to wait while no slot changes hands.
        """
        self._most = most
        self._awaited = awaited
        self._limit_s = limit_s
        self._held: list[object] = []
        self._queue: deque[tuple[object, asyncio.Future[None]]] = deque()

    @property
    def is_full(self) -> bool:
        """Whether one who takes a slot now has to wait."""
        return len(self._held) >= self._most

    async def take(self, holder: object) -> None:
        """Wait for a free slot and give it to *holder*, named by its `str`; each holds one at most.

        Raises:
            WaitedTooLong: No slot has changed hands within the limit.
        """
        if not self.is_full:
            self._held.append(holder)
            return
        mine = (holder, asyncio.get_running_loop().create_future())
        self._queue.append(mine)
        try:
            await self._granted(mine[1])
        except BaseException:
            if mine in self._queue:
                self._queue.remove(mine)
            else:
                self.give(holder)  # the slot was granted while this wait was cancelled
            raise

    def give(self, holder: object) -> None:
        """Release the slot of *holder*, if it has one."""
        if holder not in self._held:
            return
        self._held.remove(holder)
        if self._queue:
            following, granted = self._queue.popleft()
            self._held.append(following)
            granted.set_result(None)

    @asynccontextmanager
    async def held(self, holder: object) -> AsyncGenerator[None]:
        """Run the body with a slot; see `take`."""
        await self.take(holder)
        try:
            yield
        finally:
            self.give(holder)

    async def _granted(self, slot: asyncio.Future[None]) -> None:
        while not slot.done():
            held = [*self._held]
            await asyncio.wait({slot}, timeout=self._limit_s)
            if not slot.done() and held == self._held:
                raise WaitedTooLong(self._awaited, sorted(map(str, self._held)), self._limit_s)


class CallWaits:
    """The waits of the calls of one reply, in the order above."""

    def __init__(self, concurrency: int, tree: InOrder | None) -> None:
        """Start with *concurrency* slots; *tree* is the queue that all agents share."""
        self._files = InOrder()
        self._slots = CapacityLimiter(concurrency, "a slot of its reply")
        self._tree = tree

    @asynccontextmanager
    async def turn(
        self, call: ToolOutput, tool: Tool | None, reads: Sequence[str], writes: Sequence[str]
    ) -> AsyncGenerator[None]:
        """Run the body, which is *call*, in its slot and with its files.

        Raises:
            WaitedTooLong: The slot or the files did not become free in time.
        """
        if tool and not tool.takes_slot:
            yield
            return
        holder = f"{call.name} ({call.tool_call_id})"
        # Files before the slot: a call behind another of its reply takes no slot from the rest.
        async with (
            self._files.turn(reads, writes, holder=holder),
            self._slots.held(holder),
            self._tree.turn(reads, writes, holder=holder) if self._tree else nullcontext(),
        ):
            yield


async def _ended(other: _Use, limit_s: float) -> None:
    try:
        async with asyncio.timeout(limit_s):
            await other.done.wait()
    except TimeoutError:
        paths = ", ".join((*other.writes, *other.reads))
        raise WaitedTooLong(f"its turn with {paths}", [other.holder], limit_s) from None


def overlap(some: Sequence[str], others: Sequence[str]) -> bool:
    """Return whether any path of *some* equals, lies in or contains a path of *others*."""
    return any(
        one.startswith(other) or other.startswith(one)
        for one in map(_as_folder, some)
        for other in map(_as_folder, others)
    )


def _as_folder(path: str) -> str:
    return path.rstrip(os.sep) + os.sep
