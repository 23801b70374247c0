"""The sandbox of a session: probe the backends, then confine each command in the best one."""

import asyncio
import errno
import os
import shutil
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from agent_cli.sandbox.report import Report, SandboxMissing
from agent_cli.system.event_loop import in_background
from agent_cli.system.logger import logger
from agent_cli.system.trees import forget_old, remove_tree

if TYPE_CHECKING:
    from agent_cli.sandbox.aftermath import FileDecider, Undecided
    from agent_cli.sandbox.backends import Backend
    from agent_cli.sandbox.confinement import Candidate, Change, Confinement, SandboxFiles
    from agent_cli.sandbox.policy import SandboxPolicy

Mode: TypeAlias = Literal["auto", "required", "off"]

_log = logger(__name__)
_MEMORY = "sandbox.json"
_MOVED = "moved"
_OF_ALL = "the workspace is /, and nothing lies outside it: start in the folder of your project"
_TOO_LARGE = "the workspace is too large to find every secret in it: commands may read some"


class Sandbox:
    """The sandbox in which every command of a session is started.

    The backend is unknown until the first probe has ended; await `ready` for it.
    """

    def __init__(
        self,
        policy: "Callable[[], SandboxPolicy]",
        *,
        mode: Mode,
        state_dir: Path,
        find: "Callable[[Sequence[Path], Path], Iterable[Backend | Candidate]] | None" = None,
        warn: Callable[[str], None] = lambda _text: None,
        person: "FileDecider | None" = None,
        by_host: bool = False,
    ) -> None:
        """Create the sandbox; nothing is probed before `start`.

        Args:
            policy: Returns the policy; called once, with the first probe or the first added folder,
                so that the first request need not wait for it.
            mode: "auto" continues without a sandbox if none works; "required" does not.
            state_dir: The folder in which probe results are stored until the next boot.
            find: Yields the backends to try, best first, given the folders that commands may write
                and *state_dir*; by default every known backend.
            warn: Called with a sentence if none works or does not hide every secret, and about each
                file that appeared beside a command, makes programs act, and nobody decided about.
            person: Decides about such files; None if there is no one.
            by_host: The user of this sandbox opens the network by host to each command.
        """
        self._make_policy = policy
        self._mode = mode
        self._state_dir = state_dir
        self._find = find
        self._warn = warn
        self._person = person
        self._by_host = by_host
        self._backend: Backend | None = None
        self._own_files: SandboxFiles | None = None
        self._lock = threading.Lock()
        self._cleaning = threading.Lock()
        self._is_closed = False
        self._probing: asyncio.Future[Report] | None = None
        self._report = Report("off") if mode == "off" else None
        self._has_warned = False

    @cached_property
    def _policy(self) -> "SandboxPolicy":
        return self._make_policy()

    @cached_property
    def _undecided(self) -> "Undecided":
        from agent_cli.sandbox.aftermath import Undecided  # with the first command

        return Undecided(self._state_dir / _MOVED, self._person, self._warn)

    @property
    def report(self) -> Report | None:
        """The report of the active sandbox; None until the probe has ended."""
        return self._report

    def start(self) -> None:
        """Start to probe the sandboxes in a thread beside the event loop."""
        if self._report is None and self._probing is None:
            self._probing = in_background(self.probe)

            def found(probing: "asyncio.Future[Report]") -> None:
                if self._is_closed or probing.cancelled() or probing.exception() is not None:
                    return
                if (report := probing.result()).state == "none":
                    self._warn(f"sandbox: {report.summary}; `agent-cli doctor` says more")

            self._probing.add_done_callback(found)

    async def ready(self) -> Report:
        """Wait for the probe; return the report of the active sandbox.

        Raises:
            OSError: For want of resources it is not known whether one works.
        """
        if self._report is None:
            self.start()
            assert self._probing is not None
            try:
                self._report = await asyncio.shield(self._probing)
            except OSError:
                self._probing = None  # resources may be there again for the next command
                raise
        return self._report

    def open_dir(self, folder: Path) -> None:
        """Let commands write one more directory, beginning with the next command."""
        self._policy.open_dir(folder)

    async def outlook(self) -> Report:
        """Return the report for the next command, with whether all secrets are hidden from it.

        They are not if the workspace is too large to search.
        """
        report = self._with_exposed(await self.ready())
        if not report.can_be_read_only:
            return report
        is_complete = await asyncio.to_thread(self._policy.is_complete)
        if report.hides_secrets and not (is_complete or self._has_warned):
            self._has_warned = True
            self._warn(f"sandbox: {_TOO_LARGE}")
        return replace(report, is_complete=is_complete)

    async def confine(self, cwd: Path, change: "Change" = None) -> "Confinement | None":
        """Return the parameters for starting the next command; None without a sandbox.

        *change* returns the rules for it, from those for any command.

        Raises:
            SandboxMissing: A sandbox is required, and none works.
            OSError: The sandbox cannot be prepared, for example because the disk is full.
        """
        report = await self.ready()
        if self._backend is None:
            if self._mode == "required":
                raise SandboxMissing(
                    'sandbox.mode is "required", but no sandbox works on this machine'
                    f" ({report.reason}): install bubblewrap, or change sandbox.mode"
                )
            return None
        backend = self._backend
        return await asyncio.to_thread(lambda: self._confine(backend, cwd, change))

    def outline(self) -> "Confinement | None":
        """Return the confinement with which the next command may start before `confine` ends.

        None if it may not. What `confine` returns then holds the rest of its arguments.
        """
        if self._report is None or self._backend is None or self._backend.outline is None:
            return None
        try:
            return self._backend.outline(self._made_files())
        except OSError:
            return None  # `confine` says why

    async def confine_read_only(self, cwd: Path, change: "Change" = None) -> "Confinement | None":
        """Return the parameters for a command that can change nothing outside its own scratch.

        It reads no secret, and has no network. Of the person's files outside the workspace it reads
        skills, and those that *change* opens, as in `confine`.

        Returns:
            None without such a sandbox.

        Raises:
            OSError: The sandbox cannot be prepared.
        """
        await self.ready()
        backend = self._backend
        if backend is None or backend.state not in ("bwrap", "landlock"):
            return None
        return await asyncio.to_thread(lambda: self._read_only(backend, cwd, change))

    def denial(
        self, output: str, command: str, confinement: "Confinement", *, failed: bool
    ) -> str | None:
        """Return a line about an access that the sandbox denied *command* with *output*, if any.

        *confinement* is the one that the command had, *failed* whether its exit code is not 0.
        """
        if self._backend is None:
            return None
        from agent_cli.sandbox import denials  # where a command ended

        network, strict = self._policy.network, not self._backend.guards_protected
        blocked = denials.denial(
            output, network=network, hidden=confinement.hidden, strict=strict, failed=failed
        )
        if blocked == denials.NETWORK and self._by_host and self._backend.state == "bwrap":
            blocked = denials.PAST_THE_PROXY
        if blocked in denials.WRITES and not os.access(root := self._policy.roots[0], os.W_OK):
            return f"{root} is read-only here, with and without the sandbox"
        halt = denials.stopped_git(output, command, strict=strict, failed=failed)
        return halt or (denials.sentence(blocked) if blocked else None)

    def expect(self, path: Path) -> None:
        """Note that a tool of this program wrote the real *path*, which was approved."""
        self._undecided.expect(path)

    async def settle(self) -> Sequence[str]:
        """Have a person decide about files that appeared; return a sentence about each.

        Call it after a command. Without a person they stay: other programs may have made them.
        """
        return await self._undecided.settle()

    @property
    def undecided_files(self) -> Sequence[Path]:
        """The files that appeared beside commands of the session and await a person's decision."""
        return self._person.undecided_files if self._person else ()

    def close(self) -> None:
        """Remove its files from the disk; no command may run any more."""
        if "_undecided" in vars(self):  # else no command has run
            self._undecided.close()
        with self._lock:
            self._is_closed, own_files = True, self._own_files
        if own_files is not None:
            own_files.remove()
        if "_policy" in vars(self):
            self._policy.close()

    def probe(self) -> Report:
        """Find the first sandbox that passes the test; block until then.

        A sandbox that could not be tested for lack of resources is used if no other passes.
        Otherwise any user of the machine could switch the sandbox off by exhausting resources.

        Raises:
            OSError: For lack of resources it is not known whether one works.
        """
        # Imported here, since this runs later, in a thread, and must not delay the first request.
        from agent_cli.sandbox.backends import backends
        from agent_cli.sandbox.bundled import PROGRAMS
        from agent_cli.sandbox.confinement import Candidate
        from agent_cli.sandbox.probe import CannotTryError, Memory, key_of

        for name in (_MOVED, PROGRAMS):
            forget_old(self._state_dir / name)
        if any(root == root.parent for root in self._policy.roots):
            return Report("none", reason=_OF_ALL)  # each would be tried for half a minute
        memory = Memory(self._state_dir / _MEMORY)
        reasons: list[str] = []
        untried: tuple[Backend, Sequence[str]] | None = None
        is_short = False
        find = self._find or backends
        for backend in find(self._policy.roots, self._state_dir):
            if isinstance(backend, Candidate):
                reasons.append(f"{backend.program}: {backend.refusal}")
                is_short = is_short or backend.is_short
                continue
            key = key_of(backend, self._policy)
            known = memory.knows(key)
            try:
                reason = "" if known else self._fault(backend)
            except CannotTryError as error:
                reason = f"not tried: {error}"
                untried = untried or (backend, [*reasons, f"used untested: {error}"])
            if not reason:
                if not known:
                    memory.keep(key)
                if backend.state == "landlock" and not reasons:
                    reasons.append("no bubblewrap is installed")
                return self._use(backend, reasons)
            reasons.append(f"{backend.program or backend.state}: {reason}")
        if untried:
            return replace(self._use(*untried), is_untested=True)
        if is_short:
            raise OSError("; ".join(reasons))
        return Report("none", reason="; ".join(reasons) or "no bubblewrap, and no Landlock")

    def _use(self, backend: "Backend", reasons: Sequence[str]) -> Report:
        self._backend = backend
        if hides_many := backend.hides_many:
            self._policy.hides_many = lambda: hides_many(self._made_files())
        # Do the slow first preparation now, so that it does not delay the first command.
        with suppress(OSError):
            self._confine(backend, self._policy.roots[0], None)
        why, is_open = "; ".join(reasons), self._policy.network
        report = Report(backend.state, is_open, why, backend.program, by_host=self._by_host)
        return self._with_exposed(report)

    def _with_exposed(self, report: Report) -> Report:
        if self._backend is None or self._backend.guards_protected:
            return report
        return replace(report, exposed=next(iter(self._policy.installed), None))

    def _fault(self, backend: "Backend") -> str:
        from agent_cli.sandbox.probe import CannotTryError, fault, laid_out, tried_rules

        def confine() -> "Confinement":
            rules = tried_rules(self._policy.rules(), self._state_dir)
            return backend.confine(rules, self._made_files(), self._policy.roots[0])

        if (bash := shutil.which("bash", path=os.defpath)) is None:
            return "there is no bash to try it with"
        try:
            with laid_out(self._state_dir, self._policy) as canaries:
                # Without what follows a command: the test writes nothing in the workspace, so all
                # that changes there meanwhile is the work of others.
                return fault(confine, Path(bash), canaries, network=self._policy.network)
        except OSError as error:
            raise CannotTryError(f"{self._state_dir}: {error.strerror}") from error

    def _read_only(self, backend: "Backend", cwd: Path, change: "Change") -> "Confinement | None":
        from agent_cli.sandbox import landlock  # with the first such command

        if backend.state == "landlock" and not landlock.keeps_signals():
            return None
        if (rules := self._policy.read_only_rules()) is None:
            return None
        rules = change(rules) if change else rules
        own_files = self._made_files().with_scratch()
        scratch = own_files.scratch
        assert scratch

        def release() -> Sequence[str]:
            remove_tree(scratch)
            return ()

        try:
            confinement = backend.confine(rules, own_files, cwd)
        except BaseException:
            release()
            raise
        return replace(confinement, hidden=rules.unreadable, release=release)

    def _made_files(self) -> "SandboxFiles":
        from agent_cli.sandbox.confinement import SandboxFiles

        # Parallel commands are prepared in threads.
        with self._lock:
            if self._is_closed:
                self._policy.close()  # of a probe that goes on
                raise OSError(errno.ECANCELED, "the sandbox is closed")
            if self._own_files is None or not self._own_files.exist():
                try:
                    self._own_files = SandboxFiles.create()
                except FileNotFoundError:  # "no usable directory", if no file can be opened
                    for each in os.pipe():
                        os.close(each)
                    raise
            return self._own_files

    def _confine(self, backend: "Backend", cwd: Path, change: "Change") -> "Confinement":
        from agent_cli.sandbox.aftermath import Appeared, same_but_harmless
        from agent_cli.sandbox.guarded_files import PROTECTED_NAMES
        from agent_cli.sandbox.tripwire import Tripwire

        own_files = self._made_files()
        rules, before = self._policy.survey()
        changed = change(rules) if change else rules
        confinement = backend.confine(changed, replace(own_files, is_apart=changed.is_apart), cwd)
        guarded = set(() if backend.guards_protected else rules.read_only)
        tripwire = Tripwire(
            [*rules.watched, *guarded.difference(rules.executed)],
            may_grow=lambda path: path.name in PROTECTED_NAMES,
            is_harmless=same_but_harmless,
        )

        def release() -> Sequence[str]:
            # Parallel commands end in threads; each file is found once.
            with self._cleaning:
                if self._undecided.has_person:
                    sentences = []
                    self._undecided.add(tripwire.changed())
                else:
                    sentences = tripwire.restore(self._state_dir / _MOVED)
                    for sentence in sentences:  # another program's change is undone with it
                        self._warn(f"sandbox: {sentence}")
                sentences += self._undecided.look_for(
                    self._policy.acting, before, rules.writable, rules.missing
                )
                self._undecided.add(map(Appeared.at, tripwire.added()))
            for sentence in sentences:
                # No result shows this if the command ran on after its call.
                _log.warning("protected file changed", sentence=sentence)
            return sentences

        return replace(confinement, hidden=changed.unreadable, release=release)
