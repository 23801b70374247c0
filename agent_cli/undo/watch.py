"""Stop the changes of one command until they are recorded; the keeper drives it.

    thread of the keeper    has the filter, starts the command, and waits until the keeper ends
    the keeper itself       has no filter; answers the calls that stand still

Imports little: see `system/launcher`. No `threading`: nothing of it is needed here.
"""

import _thread
import errno
import json
import os
import select
import struct
import time
from collections.abc import Callable
from typing import Any

from agent_cli.undo import listener
from agent_cli.undo.calls import Call, machine
from agent_cli.undo.locations import Locations
from agent_cli.undo.recorder import ChangeRecorder
from agent_cli.undo.records import EDITION, signature_at

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


class CommandWatch:
    """The watch over one command.

    Attributes:
        listener: Readable while a call stands still; -1 if the command runs unwatched.
        reason: Why it runs unwatched; "" if it is watched.
    """

    def __init__(self, order: dict[str, Any], *, begun: int) -> None:
        """Prepare the log.

        Args:
            order: The fields of `launching.Watched`.
            begun: Becomes readable when a nested command itself begins; what happens before is the
                work of the program that builds the sandbox. -1: it begins at once.
        """
        self.listener = -1
        self.reason = ""
        self._order = order
        self._recorder: ChangeRecorder | None = None
        self._begun: select.poll | None = None
        if begun >= 0:
            self._begun = select.poll()
            self._begun.register(begun, select.POLLIN)
        here = machine()
        self._calls: dict[int, Call] = here.calls if here else {}

    def start(self, start: Callable[[], int]) -> int:
        """Call *start*, which starts the command, in a thread with the filter; return its result.

        The thread never ends: the kernel takes its end for the death of the command's parent.

        Raises:
            OSError: As *start*.
        """
        reading, writing = os.pipe()
        result: list[int | OSError] = []

        def filtered() -> None:
            try:
                if self._recorder is not None:
                    try:
                        self.listener = listener.install()
                    except OSError as error:
                        self.reason = _why(error)
                os.write(writing, b"f")
                result.append(start())
            except OSError as error:
                result.append(error)
            finally:
                os.write(writing, b"s")
            forever = _thread.allocate_lock()
            forever.acquire()
            forever.acquire()

        try:
            self._open()
            _thread.start_new_thread(filtered, ())
            os.read(reading, 1)
            self._serve_until(reading)
        finally:
            os.close(reading)
            os.close(writing)
        if isinstance(child := result[0], OSError):
            raise child
        return child

    def serve(self) -> None:
        """Answer the call that stands still; call it when `listener` is readable."""
        call = listener.receive(self.listener)
        if call is None:
            return
        if self._recorder is not None and self._has_begun():
            try:
                self._recorder.before(call, self._calls[call.number])
            except OSError as error:
                if error.errno in _NO_SPACE:
                    listener.fail(self.listener, call.id, errno.ENOSPC)
                    return
                # The path leads nowhere, so the call will fail.
            except (ValueError, LookupError, struct.error) as error:
                # A fault of ours must not end the command; the undo will name it.
                self._recorder.note_fault(f"{type(error).__name__} at call {call.number}")
        listener.let_go_on(self.listener, call.id)

    def end(self) -> None:
        """Record how all that the command touched is now; all its processes have ended."""
        recorder, self._recorder = self._recorder, None
        if recorder is None:
            return
        now = dict.fromkeys(map(recorder.called_now, recorder.touched))
        after = {path: signature_at(path) for path in now}
        line = json.dumps({"end": time.time_ns(), "after": after}, separators=(",", ":"))
        try:
            recorder.write_line(line.encode() + b"\n")
        except OSError:
            return  # the undo then takes what is there for what the command left
        finally:
            recorder.close()

    def _open(self) -> None:
        order = self._order
        locations = Locations(order["roots"], has_own_mounts=self._begun is not None)
        try:
            self._recorder = ChangeRecorder(
                order["folder"], locations, copy_bytes_max=order["copy_bytes_max"]
            )
        except OSError as error:
            self.reason = _why(error)

    def _serve_until(self, started: int) -> None:
        """Answer calls until the thread has started the command, or failed to."""
        if self.listener < 0:
            self._forget()
        elif self._recorder is not None:
            header = {"edition": EDITION, "at": time.time_ns(), **self._order["header"]}
            try:
                self._recorder.write_line(json.dumps(header).encode() + b"\n")
            except OSError as error:
                self.reason = _why(error)
                self._forget()
        poll = select.poll()
        poll.register(started, select.POLLIN)
        if self.listener >= 0:
            poll.register(self.listener, select.POLLIN)
        while True:
            ready = dict(poll.poll())
            if ready.get(self.listener, 0) & select.POLLIN:
                self.serve()
            if started in ready:
                return

    def _forget(self) -> None:
        if self._recorder is not None:
            self._recorder.close()
            self._recorder = None

    def _has_begun(self) -> bool:
        if self._begun is not None and self._begun.poll(0):
            self._begun = None
        return self._begun is None


def _why(error: OSError) -> str:
    if error.errno == errno.EBUSY:
        return "this program itself runs under a supervisor of system calls"
    if error.errno in (errno.EPERM, errno.EACCES, errno.ENOSYS):
        return "the system forbids to stop calls, as some containers do"
    return os.strerror(error.errno or errno.EIO)
