"""`agent-cli sessions ...` and `agent-cli replay`: reading what was recorded, offline."""

import sys
from collections.abc import Callable
from pathlib import Path

from agent_cli import paths
from agent_cli.arguments import Arguments
from agent_cli.errors import UsageError
from agent_cli.redaction import Redactor
from agent_cli.session_store import SessionStore, export, overview, transcript, verify
from agent_cli.startup import start


def list_sessions(_arguments: Arguments) -> int:
    """Print a line for each session, the newest first."""
    print(overview(_store().list()), end="")
    return 0


def show(arguments: Arguments) -> int:
    """Print a session as a transcript."""
    print(transcript(_store().read(arguments.operands[0]).prompts), end="")
    return 0


def replay(arguments: Arguments) -> int:
    """Print the transcript of a session's file; nothing is asked and nothing is run."""
    print(transcript(_store().read_file(Path(arguments.operands[0])).prompts), end="")
    return 0


def export_session(arguments: Arguments) -> int:
    """Print a session as Markdown, HTML or JSON, without secrets."""
    id, *formats = arguments.operands
    history = _store().read(id)
    redact = Redactor.of(start(arguments, may_ask=False).environment).text
    match formats or ["md"]:
        case ["md" | "html" | "json" as to]:
            print(export(history, to, redact=redact), end="")
        case _:
            raise UsageError(f"sessions cannot be exported as {formats[0]!r}: md, html or json")
    return 0


def verify_sessions(arguments: Arguments) -> int:
    """Check one session, or all of them; return 1 when a record is damaged."""
    store = _store()
    found = [store.find(id) for id in arguments.operands] or [
        store.find(info.id) for info in store.list()
    ]
    damaged = 0
    for path in found:
        findings = verify(path)
        damaged += bool(findings)
        for finding in findings:
            print(f"{path.name}: {finding}", file=sys.stderr)
    print(f"{len(found)} session{'' if len(found) == 1 else 's'} checked, {damaged} damaged")
    return 1 if damaged else 0


def _store() -> SessionStore:
    return SessionStore(paths.sessions_dir())


COMMANDS: dict[str, Callable[[Arguments], int]] = {
    "sessions list": list_sessions,
    "sessions show": show,
    "sessions export": export_session,
    "sessions verify": verify_sessions,
    "replay": replay,
}
