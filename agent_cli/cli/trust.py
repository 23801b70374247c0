"""`agent-cli trust`: list what would act in a workspace, and trust it."""

import sys
from collections.abc import Sequence
from pathlib import Path

from agent_cli.app.arguments import Arguments
from agent_cli.contracts.errors import UsageError
from agent_cli.system.paths import is_dir, real_path
from agent_cli.terminal.confirmation import confirmed
from agent_cli.terminal.sanitize import reveal
from agent_cli.trust.store import ActingFile, TrustStore, fingerprint, what_would_act


def trust(arguments: Arguments) -> int:
    """Trust a workspace with the listed effects; a person at a terminal is asked after the list.

    With `--show` it is only listed, with the text of the scripts that hooks run.
    """
    workspace = real_path(Path(*arguments.operands))
    if not is_dir(workspace):
        raise UsageError(f"{workspace} is not a directory")
    store, name = TrustStore.of_user(), reveal(str(workspace))
    if arguments.revoke:
        known = store.revoke(workspace)
        print(f"{name} is {'no longer' if known else 'not'} trusted")
        return 0
    # Before the list: what changes while it is read is not trusted.
    shown = fingerprint(workspace)
    files = what_would_act(workspace)
    _list(files, workspace, whole=arguments.show)
    if arguments.show:
        print(f"it is {'' if store.is_trusted(workspace) else 'not '}trusted")
        return 0
    asks = bool(files) and sys.stdin.isatty() and not arguments.yes
    if asks and not confirmed("Trust them, until they change?"):
        print("it is not trusted")
        return 1
    store.trust(workspace, shown)
    print(f"{name} is trusted until that changes")
    return 0


def _list(files: Sequence[ActingFile], workspace: Path, *, whole: bool) -> None:
    name = reveal(str(workspace))
    if not files:
        print(f"{name} holds no files that change what agent-cli does")
        return
    from agent_cli.trust.effects import listing  # noqa: PLC0415 - most workspaces have no files

    print(f"{name} holds files that change what agent-cli does:")
    for line in listing(files, workspace, whole=whole):
        print(line)
    sys.stdout.flush()
