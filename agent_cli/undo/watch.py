"""Stop the changes of one command until they are recorded; the keeper drives it.

    filtered thread     has the filter, starts the command, and waits until the keeper ends
    answering thread    has no filter; records the calls that stand still, and lets them go on
    the keeper itself   looks whether the answering thread is in time

Whatever goes wrong here, the call goes on unprotected, and the log says so. Imports little, and not
even `threading`: see `system/launcher`.
"""

import _thread
import contextlib
import ctypes
import errno
import json
import os
import select
import time
from collections.abc import Callable
from typing import Any

from agent_cli.undo import stopped_calls
from agent_cli.undo.generated import GeneratedFolders
from agent_cli.undo.kept_files import KeptSpace
from agent_cli.undo.locations import Locations
from agent_cli.undo.losses import LossLimit, Refused
from agent_cli.undo.named_copies import NamedCopies
from agent_cli.undo.recorder import ChangeRecorder
from agent_cli.undo.records import EDITION, LOG, ChangeRecord, signature_at
from agent_cli.undo.stopped_calls import Call, StoppedCall, filter_program, machine
from agent_cli.undo.undo_log import UndoLog

CALL_LIMIT_S = 5.0
_END_LIMIT_S = 5.0
_LOOK_AGAIN_MS = 1000
# The session makes no folder where the disk is full.
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.ENOENT)
_OUR_FAULTS = (
    *(errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM),
    *(errno.EIO, errno.EFBIG, errno.EROFS),
)
# The path leads nowhere, or its process has ended: the call fails too, and changes nothing.
_CALL_FAILS = (
    *(errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EACCES),
    *(errno.EFAULT, errno.EBADF, errno.ESRCH),
)


class CommandWatch:
    """The watch over one command.

    Attributes:
        is_on: Whether it stops calls; `look` wants to be called again and again then.
        reason: Why the command runs unwatched; "" if it is watched.
    """

    def __init__(
        self,
        order: dict[str, Any],
        *,
        begun: int,
        ask: Callable[[dict[str, Any]], None] | None = None,
    ) -> None:
        """Prepare the log.

        Args:
            order: The fields of `launching.Watched`.
            begun: Becomes readable when a nested command itself begins; what happens before is the
                work of the program that builds the sandbox. -1: it begins at once.
            ask: Asks the session about the fields of a `logs.CommandQuestion`; `answer` brings the
                answer.
        """
        self.is_on = False
        self.reason = ""
        self._order = order
        self._space = KeptSpace(
            order["folder"], order.get("store", ""), copy_bytes_max=order["copy_bytes_max"]
        )
        self._listener = -1
        self._recorder: ChangeRecorder | None = None
        self._copies: NamedCopies | None = None
        self._begun: select.poll | None = None
        if begun >= 0:
            self._begun = select.poll()
            self._begun.register(begun, select.POLLIN)
        here = machine()
        self._calls: dict[int, Call] = here.calls if here else {}
        # The call that is being recorded, and since when.
        self._standing: tuple[StoppedCall, float] | None = None
        self._is_answering = True
        self._noted: set[int] = set()
        self._ask = ask
        self._goes_on = False
        self._has_answer = _thread.allocate_lock()
        self._has_answer.acquire()

    def start(self, start: Callable[[], int]) -> int:
        """Call *start*, which starts the command, in a thread with the filter; return its result.

        The thread never ends: the kernel takes its end for the death of the command's parent.

        Raises:
            OSError: As *start*.
        """
        reading, writing = os.pipe()
        result: list[int | BaseException] = []

        def filtered() -> None:
            try:
                if self._recorder is not None:
                    self._install()
                os.write(writing, b"f")
                result.append(start())
            except BaseException as error:
                result.append(error)
            finally:
                os.write(writing, b"s")
            forever = _thread.allocate_lock()
            forever.acquire()
            forever.acquire()

        try:
            self._open_log()
            if self._copies:
                self._keep_named(self._copies)
            _thread.start_new_thread(filtered, ())
            os.read(reading, 1)
            self._begin()
            poll = select.poll()
            poll.register(reading, select.POLLIN)
            # Not `result`: the thread still has to write, and would fail and end at a closed pipe.
            while not poll.poll(_LOOK_AGAIN_MS):
                self.look()
        finally:
            os.close(reading)
            os.close(writing)
        if isinstance(child := result[0], BaseException):
            raise child
        return child

    def look(self) -> float:
        """Let the call go on that takes too long to record, and all later ones, unprotected.

        Returns:
            The seconds until the next look is due: the sooner, the fuller the disk.
        """
        standing = self._standing
        if self._is_answering and standing and time.monotonic() - standing[1] > CALL_LIMIT_S:
            why = f"a file took longer than {CALL_LIMIT_S:.0f} s to keep"
            _thread.start_new_thread(self._let_go_on, (standing[0], why))
            self._is_answering = False
        return self._space.look()

    def answer(self, *, goes_on: bool) -> None:
        """Bring the answer to the question."""
        self._goes_on = goes_on
        with contextlib.suppress(RuntimeError):  # no question stands
            self._has_answer.release()

    def end(self) -> None:
        """Record how all that the command touched is now; all its processes have ended."""
        recorder, self._recorder = self._recorder, None
        copies, self._copies = self._copies, None
        if recorder is None and copies is None:
            return
        done = _thread.allocate_lock()
        done.acquire()

        def finish() -> None:
            try:
                if recorder is None:
                    assert copies
                    copies.end()
                    return
                now = dict.fromkeys(map(recorder.called_now, list(recorder.log.touched)))
                after = {path: signature_at(path) for path in now}
                recorder.log.close({"end": time.time_ns(), "after": after})
            finally:
                done.release()

        if recorder and not recorder.log.touched:
            finish()
            return
        # A hanging file system must not keep us; without the end, the undo takes what is there
        # for what the command left.
        _thread.start_new_thread(finish, ())
        done.acquire(timeout=_END_LIMIT_S)

    def _open_log(self) -> None:
        """Open the log, for the recorder of calls or for the copies of named files."""
        order = self._order
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        try:
            log = os.open(f"{order['folder']}/{LOG}", flags, 0o600)
        except OSError as error:
            self.reason = _why(error)
            if error.errno not in _NO_ROOM or order.get("named"):
                return
            # What is lost unrecorded is asked about, so the calls are stopped all the same.
            self.reason = os.strerror(errno.ENOSPC)
            log = os.memfd_create(LOG)
        if named := order.get("named"):
            self.reason = named["why"]
            self._copies = NamedCopies(order["folder"], log, self._space, named)
            return
        losses = LossLimit(
            order["ask_beyond_files"],
            order["ask_beyond_bytes"],
            self._answered if self._ask else None,
            GeneratedFolders(order["roots"]),
            alone_since_ns=order["alone_since_ns"],
            replaced=order.get("replaced", {}),
        )
        self._recorder = ChangeRecorder(
            UndoLog(order["folder"], log, self._space, losses),
            Locations(order["roots"], has_own_mounts=self._begun is not None),
        )

    def _keep_named(self, copies: NamedCopies) -> None:
        """Keep the files that the command names; it starts afterwards, even if that fails."""
        try:
            copies.keep(self._header())
        except OSError as error:
            copies.give_up(os.strerror(error.errno or errno.EIO))

    def _install(self) -> None:
        """Take the filter, in the thread that starts the command."""
        try:
            self._listener = stopped_calls.install()
        except OSError as error:
            self.reason = _why(error)

    def _begin(self) -> None:
        """Begin the log, and answer calls."""
        if self._listener < 0:
            if self._recorder is not None:
                self._recorder.log.close()
                self._recorder = None
            return
        self.is_on = True
        if self._recorder is not None:
            try:
                self._recorder.log.write_line(self._header())
            except OSError as error:
                self.reason = self.reason or _why(error)
            if self.reason:
                self._recorder.log.give_up(self.reason)
        _thread.start_new_thread(self._answer, ())

    def _header(self) -> bytes:
        header = {"edition": EDITION, "at": time.time_ns(), "roots": self._order["roots"]}
        why = {"unwatched": self.reason} if self._copies else {}
        return json.dumps(header | why | self._order["header"]).encode() + b"\n"

    def _answer(self) -> None:
        try:
            self._record_all()
        finally:
            if self._is_answering:
                self._let_go_on(None, "a fault of the record")

    def _record_all(self) -> None:
        """Record each call and let it go on, until one takes too long."""
        while self._is_answering:
            call = stopped_calls.receive(self._listener)
            if call is None:
                continue
            self._standing = call, time.monotonic()
            is_refused = False
            try:
                is_refused = not self._record(call)
            finally:  # a call that was let go meanwhile takes no second answer
                if is_refused:
                    stopped_calls.fail(self._listener, call.id, errno.EPERM)
                else:
                    stopped_calls.let_go_on(self._listener, call.id)
            self._standing = None

    def _record(self, call: StoppedCall) -> bool:
        """Record *call*; return whether it goes on."""
        recorder = self._recorder
        if recorder is None or not self._has_begun():
            return True
        for is_again in (False, True):
            try:
                recorder.before(call, self._calls[call.number])
            except Refused:
                return False
            except OSError as error:
                self._note_error(recorder, number := error.errno or errno.EIO, call.pid)
                if number in _OUR_FAULTS and not is_again:
                    continue  # it is not recorded, but asked about
            except BaseException as error:
                recorder.log.note_fault(f"{type(error).__name__} at call {call.number}")
            break
        return True

    def _note_error(self, recorder: ChangeRecorder, number: int, pid: int) -> None:
        """Note an error, unless it says that the call fails too; once each, of many calls."""
        if number in _OUR_FAULTS:
            recorder.log.give_up(os.strerror(number))
        elif (number not in _CALL_FAILS or _is_hidden(pid)) and number not in self._noted:
            self._noted.add(number)
            recorder.log.note_fault(f"{os.strerror(number)}, while its place was looked up")

    def _answered(self, question: dict[str, Any]) -> bool:
        """Ask the session; the call stands still until the answer comes, without a limit."""
        assert self._ask
        standing, self._standing = self._standing, None
        self._ask(question)
        self._has_answer.acquire()
        if standing:
            self._standing = standing[0], time.monotonic()
        return self._goes_on

    def _let_go_on(self, late: StoppedCall | None, why: str) -> None:
        """Let the *late* call and all others go on, until the keeper ends."""
        if recorder := self._recorder:
            recorder.log.give_up(why)
        if late:
            stopped_calls.let_go_on(self._listener, late.id)
        while True:
            if call := stopped_calls.receive(self._listener):
                stopped_calls.let_go_on(self._listener, call.id)

    def _has_begun(self) -> bool:
        if self._begun is not None and self._begun.poll(0):
            self._begun = None
        return self._begun is None


def _is_hidden(pid: int) -> bool:
    """Return whether *pid* forbids others to look at it, as programs with secrets do."""
    try:
        os.readlink(f"/proc/{pid}/cwd")
    except PermissionError:
        return True
    except OSError:
        return False
    return False


def rehearse() -> None:
    """Use, without any effect, most of what a watch uses; see `keeper.rehearse`."""
    if stopped_calls.why_missing():
        return
    filter_program(os.uname().machine)
    watch = CommandWatch({"folder": os.devnull, "copy_bytes_max": 0, "roots": []}, begun=-1)
    watch.look()
    ended = _thread.allocate_lock()
    ended.acquire()
    _thread.start_new_thread(ended.release, ())
    ended.acquire()
    text = ctypes.create_string_buffer(os.fsencode(__file__))
    call = StoppedCall(0, os.getpid(), 0, (ctypes.addressof(text),))
    space = KeptSpace("/", "", copy_bytes_max=0)
    losses = LossLimit(0, 0, None, GeneratedFolders([]))
    log = UndoLog("", os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC), space, losses)
    recorder = ChangeRecorder(log, Locations(["/dev"], has_own_mounts=True))
    for kind in (Call("made", None, 0), Call("open", None, 0, follows=True)):
        recorder.before(call, kind)  # this file is outside of its roots
    log.write_line(ChangeRecord("made", time.time_ns(), "/").line())
    log.close({"end": 0, "after": {}})


def _why(error: OSError) -> str:
    if error.errno == errno.EBUSY:
        return "this program itself runs under a supervisor of system calls"
    if error.errno in (errno.EPERM, errno.EACCES, errno.ENOSYS):
        return "the system forbids to stop calls, as some containers do"
    return os.strerror(error.errno or errno.EIO)
