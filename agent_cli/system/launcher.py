"""Start commands for a session, each below a keeper that ends it even if the session is killed.

A process that gets SIGKILL cannot clean up. So a session starts this small program once, early, and
sends it an order for each command; see `launching` for the other side. A keeper takes each order
and starts the command; the launcher always has one spare keeper ready for the next order:

    session ── control ──  launcher          forks; adopts and kills what a dead keeper leaves
       └────── link ─────  └─ keeper         one a command: reports its end, ends the rest
                              └─ command     leads a session and group of its own

The keeper becomes the parent of every process that the command leaves behind (a subreaper). It ends
them all when the link is closed, which the kernel does if the session dies. If the keeper dies, the
command gets SIGKILL, and the launcher kills the rest. If the launcher dies, keepers keep running,
and the spare one ends.

`launching` starts it in an interpreter of its own, without the code of the packages' `__init__`
files, so that it imports little.
"""

import contextlib
import gc
import json
import os
import select
import signal
import socket
import sys
from collections.abc import Iterable, Iterator
from importlib import import_module
from itertools import chain

from agent_cli.system.keeper import (
    Order,
    adopt_orphans,
    child_signals,
    drain,
    held_lock,
    keep,
    rehearse,
)
from agent_cli.system.orphans import kill_children

HEADER_BYTES = 8
_HAS_ORDER = b"+"
_WORD_BYTES_MAX = 1024
_DESCRIPTORS_MAX = 4
_NESTED = "nested"
_START_MS = 5
_WITH_MODULES = ("restriction", "watched")


class _Spare:
    """A keeper that waits for an order.

    Attributes:
        locks: The locks of its command, which are held until all its processes have ended.
    """

    def __init__(
        self, control: socket.socket, others: Iterable[int] = (), watcher: str = ""
    ) -> None:
        self.link, its_link = socket.socketpair()
        self.locks: list[int] = []
        self.pid = os.fork()
        if self.pid == 0:
            try:
                self.link.close()
                for lock in others:
                    os.close(lock)
                _stand_by(control, its_link, watcher)
            finally:
                os._exit(0)
        its_link.close()
        self.link.setblocking(False)

    def word(self) -> bytes | None:
        """Return the keeper's word that it has an order; b"" if it has ended, None if it waits."""
        try:
            word, self.locks, _, _ = socket.recv_fds(self.link, _WORD_BYTES_MAX, 1)
        except BlockingIOError:
            return None
        except OSError:
            return b""
        return word


def serve(control: socket.socket) -> None:
    """Have a spare keeper until *control* is closed; return when the last keeper is gone."""
    signals = child_signals()
    keepers: dict[int, list[int]] = {}
    poll = select.poll()
    poll.register(signals, select.POLLIN)
    spare: _Spare | None = _Spare(control)
    while spare or keepers:
        if spare:
            poll.register(spare.link, select.POLLIN)
        poll.poll()
        drain(signals)  # first: a child that ends after this gives a new signal
        ended = dict(_reaped())
        # After reaping: whatever an ended spare had to say has been said.
        if spare and (word := spare.word()) is not None:
            poll.unregister(spare.link)
            spare.link.close()
            keepers[spare.pid] = spare.locks
            spare = _successor(word, control, chain.from_iterable(keepers.values()))
        # Not the processes that a command was allowed to leave: those end as they like.
        was_killed = any(code for pid, code in ended.items() if pid in keepers)
        locks = [lock for pid in ended for lock in keepers.pop(pid, ())]
        if was_killed:
            _kill_all_but({*keepers, spare.pid} if spare else {*keepers})
        for lock in locks:
            os.close(lock)


def _kill_all_but(ours: set[int]) -> None:
    kill_children(lambda pid: pid not in ours)


def _successor(word: bytes, control: socket.socket, locks: Iterable[int]) -> _Spare | None:
    """Return the next spare keeper; None if the last one found *control* closed or was killed."""
    if not word.startswith(_HAS_ORDER):
        control.close()  # the session starts another launcher if it has more orders
        return None
    restriction, watched, nested = word.removeprefix(_HAS_ORDER).decode().split(",")
    if nested:
        _wait_for_order(control)
    for module in filter(None, (restriction, watched)):
        import_module(module)  # once, not in each keeper
    return _Spare(control, locks, watched)


def _wait_for_order(control: socket.socket) -> None:
    """Wait until a sandbox is being built, or for another order.

    The next keeper would be made while the last one starts the program that builds the sandbox, and
    the session makes the rules for it: a millisecond more for the command, on two processors.
    """
    poll = select.poll()
    poll.register(control, select.POLLIN)
    poll.poll(_START_MS)


def _stand_by(control: socket.socket, launcher: socket.socket, watcher: str) -> None:
    """Take the next order and keep its command; return if the session or the launcher ends.

    *watcher* is the module that watched the last command; "" for none.
    """
    signals = child_signals()  # replaces the launcher's pipe
    adopt_orphans()
    rehearse()
    if watcher:
        import_module(watcher).rehearse()
    poll = select.poll()
    poll.register(launcher, select.POLLIN)
    poll.register(control, select.POLLIN)
    ready = {descriptor for descriptor, _ in poll.poll()}
    # Without the launcher, nobody would kill what the command leaves if we were killed.
    if launcher.fileno() in ready or control.fileno() not in ready:
        return
    order, descriptors = _received(control)
    if order is None:
        return
    lock = held_lock(order)
    with launcher, contextlib.suppress(OSError):  # it may have been killed
        modules = [order[each]["module"] if order[each] else "" for each in _WITH_MODULES]
        word = _HAS_ORDER + ",".join([*modules, _NESTED if order["nested"] else ""]).encode()
        socket.send_fds(launcher, [word], [lock] if lock >= 0 else [])
    control.close()
    link, output, *others = descriptors
    rest = others.pop() if order["rest"] >= 0 else -1
    keep(order, link, (output, others[0] if others else output), signals, lock, rest)


def _received(control: socket.socket) -> tuple[Order | None, list[int]]:
    """Return the next order and its descriptors: the link, and the command's output.

    Another one is its standard error, if that is not its output, and the last one that of
    `launching.Order.rest`.
    """
    header, descriptors, _, _ = socket.recv_fds(control, HEADER_BYTES, _DESCRIPTORS_MAX)
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    size = int.from_bytes(header, "little")
    if size == 0:
        return None, descriptors
    text = bytearray()
    while len(text) < size:
        text += (piece := control.recv(size - len(text)))
        if not piece:
            return None, descriptors
    order: Order = json.loads(text)
    return order, descriptors


def _reaped() -> Iterator[tuple[int, int]]:
    """Reap ended processes; yield the id and status of each."""
    try:
        while (ended := os.waitpid(-1, os.WNOHANG))[0] != 0:
            yield ended
    except ChildProcessError:
        return


def main() -> None:
    """Serve the session that started us; the descriptor is the first argument."""
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    adopt_orphans()
    # A collection writes to every object, which would copy the memory that keepers share.
    gc.disable()
    gc.freeze()
    serve(socket.socket(fileno=int(sys.argv[1])))
