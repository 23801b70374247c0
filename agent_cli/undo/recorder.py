"""Record the change that each stopped call is about to make.

The order of records is that of the calls. A file that the command itself made is recorded once,
whatever happens to it later. Imports little: see `system/launcher`.
"""

import os
import stat
import struct

from agent_cli.undo import kept_files
from agent_cli.undo.kept_files import Inode, inode_of
from agent_cli.undo.locations import Location, Locations
from agent_cli.undo.losses import Refused
from agent_cli.undo.records import Moves, State
from agent_cli.undo.stopped_calls import Call, StoppedCall, bytes_of
from agent_cli.undo.undo_log import UndoLog, copy_kept

_NO_FOLLOW, _FOLLOW, _NO_REPLACE, _EXCHANGE = 0x100, 0x400, 1, 2
_CREATES = os.O_CREAT | os.O_WRONLY | os.O_TRUNC
_CHANGES = os.O_WRONLY | os.O_RDWR | os.O_TRUNC
_NAMELESS = getattr(os, "O_TMPFILE", 0) & ~os.O_DIRECTORY


class ChangeRecorder:
    """Knows what the calls of one command mean for its log.

    Each change is recorded once: the files that the command made, the contents that were kept, the
    files that were described and the folders with their times are known.
    """

    def __init__(self, log: UndoLog, locations: Locations) -> None:
        """Record to *log*."""
        self.log = log
        self._locations = locations
        self._space = log.space
        self._losses = log.losses
        self._losses.generated.is_own = self._is_own
        self._own: set[tuple[Inode, str]] = set()
        self._copied: set[Inode] = set()
        self._described: set[Inode] = set()
        self._timed: set[Inode] = set()
        self._moves = Moves()

    def before(self, call: StoppedCall, kind: Call) -> None:
        """Record the change that *call* is about to make.

        Raises:
            OSError: The call will fail, or what it changes cannot be recorded.
            Refused: The call is to fail.
        """
        # Without a record, what is lost is still asked about.
        if self.log.why_given_up and not (self._losses.is_refused or self._losses.can_ask):
            return
        self._losses.caller = call.pid
        match kind.kind:
            case "open" | "openat2":
                self._open(call, kind)
            case "move":
                self._move(call, kind)
            case "bind":
                self._made(self._unrefused(self._locations.bound(call)))
            case "meta" if kind.path is None and self._is_known(call, kind.folder):
                pass
            case _:
                follows = kind.follows
                if kind.flags is not None and call.arguments[kind.flags] & _NO_FOLLOW:
                    follows = False
                found = self._unrefused(
                    self._locations.named(call, kind.folder, kind.path, follows=follows)
                )
                if kind.kind != "meta" and found and not found.name:
                    return
                if found is None and self.log.outside and kind.kind in ("write", "meta"):
                    self._changed_outside(call, kind, follows=follows)
                match kind.kind:
                    case "made":
                        self._locations.forget()  # a new folder may have the inode of an old one
                        self._made(found)
                    case "link":
                        self._linked(found, call, kind)
                    case "gone":
                        self._gone(found)
                    case "write":
                        self._written(found)
                    case _:
                        self._described_anew(found)

    def called_now(self, path: str) -> str:
        """Return the present name of a recorded *path*, after its folders were renamed."""
        return self._moves.called_now(path, self.log.touched[path])

    def _named(
        self, call: StoppedCall, folder: int | None, path: int | None, *, follows: bool
    ) -> Location | None:
        location = self._locations.named(call, folder, path, follows=follows)
        return self._unrefused(location if location and location.name else None)

    def _is_known(self, call: StoppedCall, folder: int | None) -> bool:
        """Return whether nothing is left to record of the open file that *call* describes anew."""
        return (
            not self._losses.is_refused and self._locations.inode(call, folder) in self._described
        )

    def _unrefused(self, location: Location | None) -> Location | None:
        if location and self._losses.is_refused:
            raise Refused
        return location

    def _open(self, call: StoppedCall, kind: Call) -> None:
        if kind.kind == "openat2":
            flags: int = struct.unpack("=Q", bytes_of(call.pid, call.arguments[2], 8))[0]
        else:
            flags = _CREATES if kind.flags is None else call.arguments[kind.flags]
        if not flags & (_CHANGES | os.O_CREAT) or flags & _NAMELESS:
            return
        is_new = flags & os.O_CREAT and flags & os.O_EXCL
        follows = not (is_new or flags & os.O_NOFOLLOW)
        found = self._named(call, kind.folder, kind.path, follows=follows)
        self._space.look()  # what is written next may need what we keep
        if found is None:
            if self.log.outside and flags & _CHANGES and not is_new:
                self._changed_outside(call, kind, follows=follows)
            return
        if found.found is None:
            if flags & os.O_CREAT:
                self._made(found)
        elif flags & _CHANGES and not is_new:
            self._written(found)

    def _move(self, call: StoppedCall, kind: Call) -> None:
        flags = call.arguments[kind.flags] if kind.flags is not None else 0
        old = self._named(call, kind.folder, kind.path, follows=False)
        new = self._named(call, *kind.target, follows=False)
        if old and old.found is None:
            return
        if flags & _EXCHANGE:
            self._exchange(old, new)
            return
        if new and new.found:
            is_same = old and old.found and os.path.samestat(old.found, new.found)
            if flags & _NO_REPLACE or is_same:
                return
            self._gone(new, is_replaced=True)
        if old and new:
            self._renamed(old, new)
        elif old:
            self._leaves(old)
        elif new:
            self._comes(new, self._locations.seen_at(call, kind.folder, kind.path))
        if new and new.found:
            # The call may fail: then the file that was there is still there, and is not its own.
            self._own.discard(new.key)

    def _renamed(self, old: Location, new: Location) -> None:
        assert old.found
        self._around(old)
        self._around(new)
        self.log.add("moved", old.path, new.path, State.of(old.found))
        is_own = old.key in self._own
        if is_own:
            self._losses.own_files.add(inode_of(old.found))
        else:
            self._losses.generated.moved(old.path, new.path)
        self._own.discard(old.key)
        (self._own.add if is_own else self._own.discard)(new.key)
        if stat.S_ISDIR(old.found.st_mode):
            self._moves.add(self.log.count, old.path, new.path)
            self._locations.forget()
        else:
            self.log.outside.renamed(old.found, old.path, new.path, at=self.log.count)

    def _exchange(self, old: Location | None, new: Location | None) -> None:
        if old and new and old.found and new.found:
            self._around(old)
            self._around(new)
            self.log.add("swap", old.path, new.path, State.of(old.found))
            self._own -= {old.key, new.key}  # the call may fail
            for one, other in ((old, new), (new, old)):
                self._losses.generated.moved(one.path, other.path)
                self._moves.add(self.log.count, one.path, other.path)
        else:
            for each in filter(None, (old, new)):
                if each.found:
                    self._leaves(each)
                    self._comes(each)
                    self._own.discard(each.key)
        self._locations.forget()

    def _made(self, location: Location | None) -> None:
        if location is None or location.found:
            return
        self._around(location)
        self._own.add(location.key)
        self.log.add("made", location.path)

    def _linked(self, location: Location | None, call: StoppedCall, kind: Call) -> None:
        """Record one more name of a file; what was in the workspace before is not its own."""
        if location and location.found:
            return
        follows = kind.flags is not None and bool(call.arguments[kind.flags] & _FOLLOW)
        source = self._locations.named(call, *kind.target, follows=follows)
        if location is None:
            if source and source.found and source.key not in self._own:
                self.log.outside.add(source.found, source.path, at=self.log.count)
            return
        if source is None or source.found is None or source.key in self._own:
            self._made(location)
            return
        self._around(location)
        self._own.discard(location.key)
        self.log.add("made", location.path)

    def _comes(self, location: Location, arriving: os.stat_result | None = None) -> None:
        """Record that a file comes from outside; *arriving* tells it from one that was there."""
        self._around(location)
        self._own.add(location.key)
        state = State.of(arriving) if arriving and location.found else None
        self.log.add("came", location.path, "", state)
        self._locations.forget()

    def _gone(self, location: Location | None, *, is_replaced: bool = False) -> None:
        if location is None or location.found is None:
            return
        # A folder of its own too: what was moved there must get out of it again.
        if location.key in self._own and not stat.S_ISDIR(location.found.st_mode):
            inode = inode_of(location.found)
            self._described.discard(inode)
            self._losses.own_files.discard(inode)
            return
        self._around(location)
        self.log.keep_name(location.path, location.found, location.held, is_replaced=is_replaced)

    def _leaves(self, location: Location) -> None:
        """Keep all that is at *location*: it leaves the workspace."""
        assert location.found
        self._around(location)
        if not stat.S_ISDIR(location.found.st_mode):
            self.log.keep_name(location.path, location.found, leaves=True)
            return
        # Bottom up: the undo in reverse makes a folder before what is in it.
        for folder, folders, names in os.walk(location.path, topdown=False):
            links = [name for name in folders if os.path.islink(f"{folder}/{name}")]
            for name in (*names, *links):
                path = f"{folder}/{name}"
                self.log.keep_name(path, os.lstat(path), leaves=True)
            self.log.keep_name(folder, os.lstat(folder))
        self._locations.forget()

    def _written(self, location: Location | None) -> None:
        if location is None or location.found is None or location.key in self._own:
            return
        found = location.found
        inode = inode_of(found)
        if not stat.S_ISREG(found.st_mode) or inode in self._copied:
            return
        if self.log.keep_content(location.path, found):
            self._copied.add(inode)

    def _changed_outside(self, call: StoppedCall, kind: Call, *, follows: bool) -> None:
        """Record a change of a file that the command gave a name outside of the workspace."""
        seen = self._locations.seen_at(call, kind.folder, kind.path, follows=follows)
        if kind.kind == "meta" and not self.log.outside.holds(seen):
            return
        for path, kept, at in self.log.outside.take(seen):
            here = self._locations.ours(self._moves.called_now(path, at))
            is_here = here and here.found and os.path.samestat(here.found, seen)
            why = self._space.why_no_copy(seen) if kept else "it was changed outside"
            if kind.kind == "meta":
                self.log.outside.add(seen, path, kept, at=at)  # its content may change, too
                if is_here:
                    self._described_anew(here)
            elif not why:
                copy_kept(kept)
            elif is_here:
                self._written(here)
            else:
                self.log.add_lost(path, why, State.of(seen))

    def _described_anew(self, location: Location | None) -> None:
        if location is None or location.found is None:
            return
        inode = inode_of(location.found)
        if inode in self._described:
            return
        self._described.add(inode)
        if location.key in self._own:
            return
        attributes = kept_files.attributes_of(location.path)
        self.log.add("meta", location.path, "", State.of(location.found), attributes)

    def _is_own(self, path: str) -> bool:
        """Return whether the command itself made *path*."""
        folder, _, name = path.rpartition("/")
        found = os.stat(folder)
        return (inode_of(found), name) in self._own

    def _around(self, location: Location) -> None:
        """Record the times of the folder around, once, before one of its entries changes."""
        if location.folder not in self._timed:
            self._timed.add(location.folder)
            folder = location.path.rpartition("/")[0]
            self.log.write("times", folder, "", State.of(os.lstat(folder)))
