"""The directories that a session works in, and the rights of its tools there."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from agent_cli.app import parts
from agent_cli.app.startup import StartupContext
from agent_cli.app.workspace.losses import LossDecider, OthersWorkGuard, left_out, why_unrecorded
from agent_cli.contracts.claude_tools import OF_SERVERS
from agent_cli.plugins.facts import WorkspaceDirectories
from agent_cli.system import paths
from agent_cli.system.launching import NamedFiles, Watched
from agent_cli_tools.snapshots import Snapshots

if TYPE_CHECKING:
    from agent_cli.app.person import ModelsPerson
    from agent_cli.app.workspace.host_access import HostAccess
    from agent_cli.sandbox import Report


class SessionWorkspace:
    """The workspace with everything that guards and follows it; `close` it.

    Attributes:
        startup: The startup for its workspace.
        file_changes: Remembers what the tools change.
        workspace: Shared by the tools.
        sandbox: Confines commands.
        hosts: Decides about the hosts that commands reach, if the network is open by host.
        permissions: Decides about calls.
        tools: The built-in ones, which work here.
        directories: The workspace, and those that the user adds.
        warn: Receives warnings.
        person: Decides about files that appear beside commands, and about what these delete.
        losses: Decides whether commands go on that take many files.
    """

    def __init__(
        self,
        startup: StartupContext,
        warn: Callable[[str], None],
        *,
        command_variables: Callable[[], Mapping[str, str]],
        opened: Callable[[Path], None],
        one_shot: bool,
        person: "ModelsPerson | None" = None,
    ) -> None:
        """Start nothing yet.

        Args:
            startup: The workspace and the settings.
            warn: Receives warnings.
            command_variables: Returns variables for the environment of commands.
            opened: Called after the user has added a directory.
            one_shot: The program answers one prompt, and no person can grant directories.
            person: Decides about files that appear beside commands, and about what these delete.

        Raises:
            SettingsError: A permission rule cannot be read.
        """
        self.startup = startup
        self.warn = warn
        self.losses = LossDecider(person, lambda: self.permissions, startup.workspace)
        named = self._named = parts.named_by_commands(startup, self._report, self._folders)
        self.file_changes = _snapshots(
            startup,
            *(self._folders, lambda: person is not None and person.can_ask, named),
        )
        self.file_changes.decide = self.losses.decide
        self.file_changes.of_user = self._of_user
        self.workspace = parts.workspace(startup, self.file_changes, one_shot=one_shot)
        self.file_changes.before = OthersWorkGuard(
            person,
            lambda: self.permissions,
            self.workspace.root,
            self.file_changes.others_at_work,
        )
        self.workspace.shared.command_variables = command_variables
        self.workspace.shared.named_files = lambda command: named(command, self._why_unrecorded())
        self.person = person
        self.sandbox = parts.sandbox(startup, warn, person)
        self.hosts = self.workspace.shared.network = self._host_access()
        self.tools = parts.tools(startup, self.workspace, self.sandbox)
        self.permissions = parts.permissions(
            startup, self.sandbox, self.workspace, grants=not one_shot
        )
        self.directories = WorkspaceDirectories(
            self.workspace.root,
            startup.arguments.add_dirs,
            # Permissions allow what the workspace and the sandbox can reach by then.
            opens=(
                self.workspace.open_dir,
                self.sandbox.open_dir,
                self.permissions.open_dir,
                opened,
            ),
        )

    def _why_unrecorded(self) -> str:
        return why_unrecorded(self.startup.loaded.settings.undo.commands, self._report())

    def _of_user(self, command: str) -> Watched | None:
        """Return how to keep what a *command* that the user typed names, as yet without a folder.

        It is not watched: it may gain rights, and what it leaves runs on, longer than a keeper.
        """
        from agent_cli.policies.shell.git import only_adds  # with a command
        from agent_cli.undo.watchable import WATCH

        limits = self.startup.loaded.settings.undo
        is_left_out = limits.commands == "off" or left_out(limits.leave_out, command)
        if is_left_out or only_adds(command):
            return None
        named = self._named(command, "it is a command that the user typed")
        if named is None:
            return None
        return Watched(
            module=WATCH,
            folder="",
            roots=[*map(os.path.realpath, self._folders())],
            copy_bytes_max=round(limits.max_mb * 1_000_000),
            header={"command": command},
            named=named,
        )

    def _report(self) -> "Report | None":
        return self.sandbox.report

    def _folders(self) -> Sequence[Path]:
        return self.directories.all

    def _host_access(self) -> "HostAccess | None":
        if self.startup.loaded.settings.sandbox.network != "hosts":
            return None
        from agent_cli.app.workspace.host_access import HostAccess  # where it is chosen

        return HostAccess(self.person, lambda: self.permissions)

    def close(self) -> None:
        """End the commands, and the sandbox."""
        try:
            self.workspace.close()
        finally:
            if self.hosts:
                self.hosts.close()
            self.sandbox.close()
            self.file_changes.close()


def _snapshots(
    startup: StartupContext,
    opened: Callable[[], Sequence[Path]],
    can_ask: Callable[[], bool],
    named: Callable[[str, str], NamedFiles | None],
) -> Snapshots:
    """Return the store of file contents from before the agent's changes.

    *opened* returns the workspace and the folders that the user has added, *can_ask* whether a
    person can be asked about what a command deletes, *named* what a command names, for a reason.
    """
    here, limits = parts.reach(startup), startup.loaded.settings.undo

    def only_reads(command: str) -> bool:  # reads what does not matter, but changes nothing
        from agent_cli.policies.shell import (  # with the first command
            CommandRules,
            judge,
        )

        reach = replace(here, secrets_are_masked=True, git_is_safe=startup.trusted or None)
        return judge(command, CommandRules(), reach).read_only

    changes = paths.changes_dir()

    def watched(folder: Path, command: str, run_began_ns: int) -> Watched | None:
        from agent_cli.undo.watchable import WATCH, why_unstopped  # with a command

        if left_out(limits.leave_out, command):
            return None
        why = why_unstopped()
        roots = dict.fromkeys(map(os.path.realpath, (*opened(), *parts.beside(startup))))
        return Watched(
            module=WATCH,
            folder=str(folder),
            roots=[*roots],
            copy_bytes_max=round(limits.max_mb * 1_000_000),
            header={"command": command},
            takes_rights=limits.commands == "always",
            ask_beyond_files=limits.ask_beyond_files,
            ask_beyond_bytes=round(limits.ask_beyond_mb * 1_000_000),
            alone_since_ns=0 if can_ask() else run_began_ns,
            store=str(changes) if changes in folder.parents else "",
            named=named(command, why) if why else None,
        )

    return Snapshots(
        changes,
        only_reads=only_reads,
        is_foreign=lambda tool: tool.startswith(OF_SERVERS),
        watched=watched if limits.commands != "off" else None,
        keep_days=limits.keep_days,
        bytes_max=round(limits.max_gb * 1_000_000_000),
    )
