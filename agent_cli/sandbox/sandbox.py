"""The sandbox of a session: probe the backends, then confine each command in the best one."""

import asyncio
import hashlib
import os
import secrets
import shutil
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from agent_cli.sandbox.aftermath import clean_up, moved_sentence
from agent_cli.sandbox.bundled import PROGRAMS
from agent_cli.sandbox.confinement import Confinement
from agent_cli.sandbox.places import Places
from agent_cli.sandbox.policy import Policy
from agent_cli.sandbox.report import Report, SandboxMissing
from agent_cli.sandbox.tripwire import Tripwire
from agent_cli.system.aside import forget_old
from agent_cli.system.logger import logger
from agent_cli.terminal.background import in_background

if TYPE_CHECKING:
    from agent_cli.sandbox.backends import Backend
    from agent_cli.sandbox.candidate import Candidate
    from agent_cli.sandbox.probe import Canaries

Mode: TypeAlias = Literal["auto", "required", "off"]

_log = logger(__name__)
_MEMORY = "sandbox.json"
_MOVED = "moved"
# To be raised when a sandbox is built differently: what an older one was found to do is void.
_EDITION = 3


class Sandbox:
    """Every command of a session is started through it.

    Until the first probe has ended the backend is unknown; await `ready` for it.
    """

    def __init__(
        self,
        policy: Policy,
        *,
        mode: Mode,
        state_dir: Path,
        find: "Callable[[Sequence[Path], Path], Iterable[Backend | Candidate]] | None" = None,
        warn: Callable[[str], None] = lambda _text: None,
    ) -> None:
        """Create the sandbox; nothing is looked for before `start`.

        Args:
            mode: "auto" goes on without a sandbox where none works; "required" does not.
            state_dir: Where it is remembered, until the next boot, what was found.
            find: Yields what to try, best first, given the folders that commands may write and
                *state_dir*; by default every sandbox that is known.
            warn: Gets a sentence if none works.
        """
        self._policy = policy
        self._mode = mode
        self._state_dir = state_dir
        self._find = find
        self._warn = warn
        self._backend: Backend | None = None
        self._places: Places | None = None
        self._lock = threading.Lock()
        self._cleaning = threading.Lock()
        self._probing: asyncio.Future[Report] | None = None
        self._report = Report("off") if mode == "off" else None

    @property
    def report(self) -> Report | None:
        """Which sandbox is in force; None while that is being found out."""
        return self._report

    def start(self) -> None:
        """Begin to find out which sandbox works, beside the event loop."""
        if self._report is None and self._probing is None:
            self._probing = in_background(self.probe)

            def found(probing: "asyncio.Future[Report]") -> None:
                if probing.cancelled() or probing.exception() is not None:
                    return
                if (report := probing.result()).state == "none":
                    self._warn(f"sandbox: {report.summary}; `agent-cli doctor` says more")

            self._probing.add_done_callback(found)

    async def ready(self) -> Report:
        """Return which sandbox is in force, as soon as that is known."""
        if self._report is None:
            self.start()
            assert self._probing is not None
            self._report = await asyncio.shield(self._probing)
        return self._report

    def open_dir(self, folder: Path) -> None:
        """Let commands write one more directory, from the next one on."""
        self._policy.open_dir(folder)

    async def outlook(self) -> Report:
        """Return the report as it holds for the next command: whether secrets are hidden from it.

        They are not if the workspace is too large to look through.
        """
        report = await self.ready()
        if not report.hides_secrets:
            return report
        return replace(report, is_complete=await asyncio.to_thread(self._policy.is_complete))

    async def confine(self, cwd: Path) -> Confinement | None:
        """Return how the next command is started; None without a sandbox.

        Raises:
            SandboxMissing: There must be one, and there is none.
            OSError: It cannot be made, because the disk is full, say.
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
        return await asyncio.to_thread(lambda: self._confine(backend, cwd))

    def denial(self, output: str) -> str | None:
        """Return a line about what a command that failed with *output* was refused, if so."""
        if self._backend is None:
            return None
        from agent_cli.sandbox import denials  # noqa: PLC0415 - where a command failed

        blocked = denials.denial(
            output,
            network=self._policy.network,
            hidden=self._policy.rules().hidden,
            strict=not self._backend.guards_protected,
        )
        return denials.sentence(blocked) if blocked else None

    def close(self) -> None:
        """Remove what it left on the disk; no command may run any more."""
        if self._places is not None:
            self._places.remove()
            self._places = None

    def probe(self) -> Report:
        """Find the first sandbox that holds; blocks for as long as that takes.

        One that could not be tried, because something was short, comes after those that hold and
        before none at all: without it every user of the machine could switch the sandbox off.
        """
        # Not before the first request: this runs in a thread, later.
        from agent_cli.sandbox.backends import backends  # noqa: PLC0415
        from agent_cli.sandbox.candidate import Candidate  # noqa: PLC0415
        from agent_cli.sandbox.probe import CannotTryError, Memory  # noqa: PLC0415

        for name in (_MOVED, PROGRAMS):
            forget_old(self._state_dir / name)
        memory = Memory(self._state_dir / _MEMORY)
        reasons: list[str] = []
        untried: Backend | None = None
        find = self._find or backends
        for backend in find(self._policy.roots, self._state_dir):
            if isinstance(backend, Candidate):
                reasons.append(f"{backend.program}: {backend.refusal}")
                continue
            key = self._key(backend)
            known = memory.knows(key)
            try:
                reason = "" if known else self._fault(backend)
            except CannotTryError as error:
                reason = f"not tried: {error}"
                untried = untried or backend
            if not reason:
                if not known:
                    memory.keep(key)
                if backend.state == "landlock" and not reasons:
                    reasons.append("no bubblewrap is installed")
                return self._use(backend, reasons)
            reasons.append(f"{backend.program or backend.state}: {reason}")
        if untried:
            return self._use(untried, reasons)
        return Report("none", reason="; ".join(reasons) or "no bubblewrap, and no Landlock")

    def _use(self, backend: "Backend", reasons: Sequence[str]) -> Report:
        self._backend = backend
        # What takes long the first time must not stand before the first command.
        with suppress(OSError):
            self._confine(backend, self._policy.roots[0])
        return Report(backend.state, self._policy.network, "; ".join(reasons), backend.program)

    def _fault(self, backend: "Backend") -> str:
        from agent_cli.sandbox.probe import CannotTryError, fault  # noqa: PLC0415 - as above

        bash = shutil.which("bash", path=os.defpath)
        if bash is None:
            return "there is no bash to try it with"
        try:
            with _canaries(self._state_dir, self._policy) as canaries:
                return fault(
                    lambda: self._confine(backend, self._policy.roots[0]),
                    Path(bash),
                    canaries,
                    network=self._policy.network,
                )
        except OSError as error:
            raise CannotTryError(f"{self._state_dir}: {error.strerror}") from error

    def _confine(self, backend: "Backend", cwd: Path) -> Confinement:
        # Commands side by side are prepared in threads.
        with self._lock:
            if self._places is None or not self._places.exist():
                self._places = Places.create()
            places = self._places
        rules, before = self._policy.survey()
        guarded = rules.watched if backend.guards_protected else (*rules.watched, *rules.read_only)
        tripwire = Tripwire(guarded)
        aside = self._state_dir / _MOVED

        def release(moved: Sequence[tuple[str, str]]) -> Sequence[str]:
            put_back = [moved_sentence(path, to) for path, to in moved]
            # Commands side by side end in threads; each thing is moved once.
            with self._cleaning:
                put_back += tripwire.restore()
                self._policy.follow()
                put_back += clean_up(before, self._policy.acting(), aside)
            for sentence in put_back:
                # Of a command that ran on after its call, nobody reads the answer.
                _log.warning("protected file changed", sentence=sentence)
            return put_back

        confinement = backend.confine(rules, places, cwd)
        return replace(confinement, release=release, missing=rules.missing, aside=aside)

    def _key(self, backend: "Backend") -> str:
        parts = [str(_EDITION), backend.state, str(os.getuid()), str(self._policy.network)]
        parts += map(str, self._policy.roots)
        if backend.program is not None:
            state = backend.program.stat()
            parts += [str(backend.program), str(state.st_mtime_ns), str(state.st_size)]
        return hashlib.sha256("\0".join(parts).encode(errors="surrogateescape")).hexdigest()


@contextmanager
def _canaries(state_dir: Path, policy: Policy) -> "Generator[Canaries]":
    """Make a secret where secrets are, and choose a file that must not come into being."""
    from agent_cli.sandbox.bwrap import REPLACED  # noqa: PLC0415 - as above
    from agent_cli.sandbox.probe import Canaries  # noqa: PLC0415 - as above

    name = f"sandbox-probe-{secrets.token_hex(8)}"
    # Somebody may work in their home directory, even in the root of all; and what lies among
    # temporary files is another file in the sandbox.
    places = (
        place
        for place in (state_dir.parent, policy.home.parent)
        if not policy.owns(place) and not any(map(place.is_relative_to, REPLACED))
    )
    canaries = Canaries(next(places, Path("/")) / name, state_dir / name)
    state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        canaries.secret.write_text("secret\n")
        yield canaries
    finally:
        canaries.secret.unlink(missing_ok=True)
        canaries.outside.unlink(missing_ok=True)
