"""`agent-cli sessions delete`: ask once, then delete sessions for good."""

import sys
from collections.abc import Sequence

from agent_cli.app import deletion
from agent_cli.app.arguments import Arguments
from agent_cli.app.startup import start
from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.sessions import SessionInfo
from agent_cli.contracts.wording import counted
from agent_cli.session_store import SessionStore
from agent_cli.session_store.listing import last_used
from agent_cli.system import paths
from agent_cli.system.redaction import Redactor
from agent_cli.terminal.confirmation import confirmed


def delete_sessions(arguments: Arguments) -> int:
    """Delete sessions for good; return 1 if the user does not agree.

    Raises:
        SessionNotFound: There is no such session; nothing is deleted.
        SessionError: One is open in a program, or something cannot be removed.
        UsageError: Nobody can be asked, and --yes was not given.
    """
    from agent_cli.terminal.views.progress import working  # noqa: PLC0415 - rich

    store = SessionStore(paths.sessions_dir())
    found = list(dict.fromkeys(store.find(id) for id in arguments.operands))
    if not arguments.yes and not _agreed([store.describe(path) for path in found], arguments):
        print("nothing was deleted", file=sys.stderr)
        return 1
    with working("deleting", sys.stderr):
        count = deletion.delete_sessions(store, [path.stem for path in found])
    print(f"{counted(count, 'session')} deleted")
    return 0


def _agreed(infos: Sequence[SessionInfo], arguments: Arguments) -> bool:
    """Show the sessions on stderr and return whether the user wants them deleted."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("there is no terminal to ask on: --yes deletes sessions without asking")
    from agent_cli.terminal.views.console import show  # noqa: PLC0415 - rich
    from agent_cli.terminal.views.table import Column, Table  # noqa: PLC0415

    redact = Redactor.of(start(arguments, may_ask=False).environment).text
    rows = [(info.id, last_used(info), redact(info.title)) for info in infos]
    columns = [Column("id", whole=True), Column("last used"), Column("title")]
    show(Table(columns, rows, empty=""), sys.stderr)
    return confirmed(f"Delete {counted(len(infos), 'session')} for good?")
