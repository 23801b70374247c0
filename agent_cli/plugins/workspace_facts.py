"""Tells the model where it is: facts that hold for the whole session, behind the stable prompt.

No clock, no git state and nothing else that changes: a changed system prompt would cost the whole
prompt cache and the thinking bound to it.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from agent_cli.core.turn import Turn


def workspace_facts(root: Path, extra_dirs: Sequence[Path] = ()) -> Callable[[Turn], None]:
    """Return a `prepare` contributor that names the workspace and the platform."""
    lines = [f"Workspace: {root}", f"Platform: {os.uname().sysname} {os.uname().machine}"]
    lines += [f"The tools may also use: {folder}" for folder in extra_dirs]
    text = "\n".join(lines)

    def contribute(turn: Turn) -> None:
        turn.system.append(text)

    return contribute
