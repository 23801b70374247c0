"""One more directory for a session that runs: for its tools, its commands and its policy."""

from pathlib import Path

from agent_cli.contracts.errors import UsageError
from agent_cli.policies.permissions import Permissions
from agent_cli.sandbox import Sandbox
from agent_cli_tools.workspace import Workspace


def add_dir(
    given: str, *, workspace: Workspace, permissions: Permissions, sandbox: Sandbox
) -> Path:
    """Let the session use the directory *given*, as `--add-dir` does at its start; return it.

    Raises:
        UsageError: It is not a directory.
    """
    folder = (workspace.root / Path(given).expanduser()).resolve()
    if not folder.is_dir():
        raise UsageError(f"{given} is not a directory")
    # The policy last: nothing is allowed that the others do not know.
    workspace.open_dir(folder)
    sandbox.open_dir(folder)
    permissions.open_dir(folder)
    return folder
