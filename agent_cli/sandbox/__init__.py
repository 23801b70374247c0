"""A sandbox for shell commands: bubblewrap, else Landlock and a system call filter, else none.

It handles commands and paths only: nothing here knows tools, the model or approvals.
"""

from agent_cli.sandbox.confinement import Confinement
from agent_cli.sandbox.policy import PathRules, Policy
from agent_cli.sandbox.report import Report, SandboxMissing, State
from agent_cli.sandbox.sandbox import Sandbox
from agent_cli.sandbox.secret_index import never

__all__ = [
    "Confinement",
    "PathRules",
    "Policy",
    "Report",
    "Sandbox",
    "SandboxMissing",
    "State",
    "never",
]
