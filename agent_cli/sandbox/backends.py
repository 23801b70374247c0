"""The sandbox backends that a machine may have. Imported by the thread that probes them."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from agent_cli.sandbox import bwrap, landlock_backend, seatbelt
from agent_cli.sandbox.bwrap import Bubblewrap
from agent_cli.sandbox.confinement import Candidate, Confinement
from agent_cli.sandbox.places import Places
from agent_cli.sandbox.policy import Rules
from agent_cli.sandbox.report import State
from agent_cli.system.records import dataclass


@dataclass(frozen=True, slots=True)
class Backend:
    """One sandbox backend.

    Attributes:
        confine: Takes the rules, the places and the working directory; returns the confinement.
        program: The program it needs, if any.
        guards_protected: Whether it prevents changes of protected files, so that none need be
            restored.
    """

    state: State
    confine: Callable[[Rules, Places, Path], Confinement]
    program: Path | None = None
    guards_protected: bool = True


def backends(workspace: Sequence[Path], state_dir: Path) -> Iterator[Backend | Candidate]:
    """Yield the sandboxes that this machine may have, best first; none is tried yet.

    A `Candidate` is a program that must not be run; its refusal says why.
    """
    if seatbelt.PROGRAM.exists():
        yield Backend(
            "sandbox-exec",
            lambda rules, places, _cwd: seatbelt.confinement(rules, places),
            seatbelt.PROGRAM,
        )
    for found in bwrap.installed(workspace, state_dir):
        if found.refusal:
            yield found
        else:
            build = partial(bwrap.confinement, Bubblewrap(found.program))
            yield Backend("bwrap", build, found.program)
    if landlock_backend.is_usable():
        yield Backend(
            "landlock",
            lambda rules, places, _cwd: landlock_backend.confinement(rules, places),
            guards_protected=False,
        )
