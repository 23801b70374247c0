"""Refuse to create settings that a running command's sandbox would take for its work.

When the command ends, or two seconds after it sees such a file, its sandbox moves it away.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from agent_cli.sandbox.protected import what_it_starts

if TYPE_CHECKING:
    from agent_cli_tools.job import Job


def objection(given: str, real: Path, root: Path, jobs: Iterable["Job"]) -> str:
    """Return why the file *given*, the real path *real* below *root*, cannot be made now, or ""."""
    confined = [f"%{job.id}" for job in jobs if job.is_confined]
    above = [place for place in (real, *real.parents) if place.is_relative_to(root)]
    missing = [place for place in above if not os.path.lexists(place)]
    if not confined or not missing or what_it_starts(missing[-1].parent, root):
        return ""
    if not (what := what_it_starts(real, root)):
        return ""
    ways = " and ".join(f"`kill {each}` alone" for each in confined)
    return (
        f"{given} {what}, so the sandbox of a background command would move it away again."
        f" End that first: call bash with {ways}. Start it again afterwards."
    )
