"""A sandbox for shell commands: bubblewrap, else Landlock and a system call filter, else none.

It handles commands and paths only: nothing here knows tools, the model or approvals.
"""

from typing import TYPE_CHECKING

from agent_cli.system.loading import lazy_names

if TYPE_CHECKING:
    from agent_cli.sandbox.confinement import Confinement as Confinement
    from agent_cli.sandbox.policy import PathRules as PathRules
    from agent_cli.sandbox.policy import SandboxPolicy as SandboxPolicy
    from agent_cli.sandbox.report import Report as Report
    from agent_cli.sandbox.report import SandboxMissing as SandboxMissing
    from agent_cli.sandbox.report import State as State
    from agent_cli.sandbox.sandbox import Sandbox as Sandbox
    from agent_cli.sandbox.secret_index import never as never

# Imported on first use: the first request of a program needs none but the sandbox itself.
_HOMES = {
    "Confinement": "confinement",
    **dict.fromkeys(("PathRules", "SandboxPolicy"), "policy"),
    **dict.fromkeys(("Report", "SandboxMissing", "State"), "report"),
    "Sandbox": "sandbox",
    "never": "secret_index",
}

__all__ = [
    "Confinement",
    "PathRules",
    "Report",
    "Sandbox",
    "SandboxMissing",
    "SandboxPolicy",
    "State",
    "never",
]

__getattr__ = lazy_names(__name__, _HOMES)
