"""The workspace of a subagent: its parent's, or a git worktree of its own."""

import asyncio
import os
import secrets
import shlex
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from functools import partial
from pathlib import Path
from typing import Final

from agent_cli.app import parts
from agent_cli.app.startup import StartupContext
from agent_cli.app.workspace.session_workspace import SessionWorkspace
from agent_cli.contracts.agents import WorkingAgent
from agent_cli.contracts.errors import ToolError
from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.permission_modes import Mode, stricter
from agent_cli.contracts.tooling import Ask, Tool, Verdict
from agent_cli.core.agent import Agent
from agent_cli.plugins.facts import WorkspaceDirectories
from agent_cli.policies.decisions import during
from agent_cli.policies.permissions import Permissions
from agent_cli.providers.anthropic.models import effort_level
from agent_cli.sandbox import Sandbox
from agent_cli.system.event_loop import in_background
from agent_cli.system.git import GitError
from agent_cli.system.paths import is_dir, real_path
from agent_cli.system.records import dataclass
from agent_cli.system.worktrees import (
    Worktree,
    WorktreeMark,
    add_worktree,
    changes_in,
    git_folder_of,
    is_untouched,
    last_commit_of,
    main_repository_of,
    remove_worktree,
    repository_of,
    submodules_in,
    worktree_folder,
)
from agent_cli_tools.workspace import Workspace

_IN_WORKTREE: Final = (
    "You work in a git worktree of your own, at {root}: the repository as it was last committed."
    " Others see nothing of your changes before they are merged. Leave them uncommitted."
)
_WITHOUT_SUBMODULES: Final = (
    "The folders of its submodules are empty, because git checks none out in a worktree: {}. Run"
    " `git submodule update --init` there if you need them."
)
_SUBMODULES_NAMED: Final = 10
_PATCH: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_WORKTREE: Final = (
    "No git worktree could be made for this agent: {}. Call it without isolation, or tell the user."
)


@dataclass(slots=True, eq=False)
class AgentWorkspace:
    """A workspace with its sandbox and permissions.

    Attributes:
        session: The workspace of the session's agent.
        startup: The session's startup, with this workspace.
        own_mode: The permission mode of its agent; the session's applies as well.
        worktree: None in the session's workspace.
        mark: Tells other programs that its worktree is in use.
        gaps: A sentence about what the worktree lacks, or "".
        is_owned: Whether the worktree belongs to this agent, not to its parent.
        ending: The work that collects its changes, or removes it.
    """

    session: SessionWorkspace
    startup: StartupContext
    workspace: Workspace
    sandbox: Sandbox
    permissions: Permissions
    own_mode: Mode = "yolo"
    worktree: Worktree | None = None
    gaps: str = ""
    is_owned: bool = False
    mark: WorktreeMark | None = None
    ending: asyncio.Future[str] | None = None

    @classmethod
    def of_session(cls, session_workspace: SessionWorkspace) -> "AgentWorkspace":
        """Return the workspace of the session's agent."""
        return cls(
            session_workspace,
            session_workspace.startup,
            session_workspace.workspace,
            session_workspace.sandbox,
            session_workspace.permissions,
        )

    def shared(self, mode: Mode | None) -> "AgentWorkspace":
        """Return this workspace for another agent of *mode* at most, which must not close it."""
        return AgentWorkspace(
            session=self.session,
            startup=self.startup,
            workspace=self.workspace.for_another_agent(),
            sandbox=self.sandbox,
            permissions=self.permissions,
            own_mode=self._mode_below(mode),
            worktree=self.worktree,
            gaps=self.gaps,
        )

    async def isolated(self, mode: Mode | None) -> "AgentWorkspace":
        """Return a workspace for an agent of *mode* at most, in a new git worktree; `close` it.

        Raises:
            ToolError: The worktree cannot be made; says why.
        """
        made, mark = await _made(self.startup.workspace, self.session.file_changes.note_worktree)
        repository = made.repository
        below = self.workspace.root.relative_to(real_path(repository))
        extra = self.session.directories.all[1:]
        startup = self.startup._replace(
            workspace=_folder_in(made, below),
            arguments=self.startup.arguments._replace(add_dirs=extra),
        )
        workspace = self.workspace.for_another_agent(startup.workspace)
        sandbox = parts.sandbox(startup, self.session.warn, self.session.person)
        permissions = parts.permissions(startup, sandbox, workspace, grants=False)
        permissions.follow(self.session.permissions)
        permissions.mode = "yolo"  # each call also respects the session's mode, which may change
        return AgentWorkspace(
            self.session,
            startup,
            workspace,
            sandbox,
            permissions,
            self._mode_below(mode),
            worktree=made,
            gaps=await asyncio.to_thread(note_on_submodules, made.path),
            is_owned=True,
            mark=mark,
        )

    @property
    def note(self) -> str:
        """A note about the worktree for the agent's system prompt, or ""."""
        if not self.worktree:
            return ""
        return f"{_IN_WORKTREE.format(root=self.workspace.root)} {self.gaps}".rstrip()

    @property
    def mode(self) -> Mode:
        """The permission mode that holds here now."""
        return stricter(self.own_mode, self.session.permissions.mode)

    def directories(self) -> AbstractContextManager[WorkspaceDirectories]:
        """Return the agent's directories; directories that the user adds meanwhile are opened."""
        own = (self.sandbox.open_dir, self.permissions.open_dir) if self.is_owned else ()
        return self.session.directories.following(self.workspace.root, opens=own)

    def working(self, agent: Agent, name: str) -> WorkingAgent:
        """Return the facts about *agent*, an agent *name* that works here."""
        options = agent.options
        effort = effort_level(options.model, options.thinking_level)
        return WorkingAgent(agent.conversation.id, name, self.workspace.root, self.mode, effort)

    async def authorize(self, call: ToolCall, tool: Tool, params: object) -> Verdict:
        """Decide about a call of the agent that works here."""
        mode = self.mode
        verdict = await self.permissions(call, tool, params, mode=mode)
        if self.worktree and isinstance(verdict, Ask):
            facts = (
                *self.permissions.asked_about(call).facts,
                f"in the git worktree {self.workspace.root}",
            )
            self.session.permissions.note_asked(call, facts)
        return during(verdict, mode, lambda: self.mode)

    async def close(self) -> str:
        """Remove an unchanged worktree; for a changed one return how to merge it, else ""."""
        if self.worktree is None or not self.is_owned:
            return ""
        if self.ending is None:
            self.sandbox.close()
            self.ending = in_background(partial(self._ended, self.worktree))
        try:
            # An agent stopped meanwhile has its changes named by `leave`.
            return await asyncio.shield(self.ending)
        finally:
            self.is_owned = not self.ending.done()

    async def leave(self) -> None:
        """Close the workspace, unless it is closed, and tell the user how to merge changes."""
        if report := await self.close():
            self.session.warn(report)

    def _mode_below(self, mode: Mode | None) -> Mode:
        """Return the mode of a child that asks for *mode*, which never exceeds its parent's."""
        return stricter(self.own_mode, mode) if mode else self.own_mode

    def _ended(self, worktree: Worktree) -> str:
        try:
            return self._left_behind(worktree)
        finally:
            if self.mark:
                self.mark.release()

    def _left_behind(self, worktree: Worktree) -> str:
        if is_untouched(worktree):
            remove_worktree(worktree)
            return "[agent-cli: its git worktree was removed, because nothing was changed there]"
        path = worktree.path
        remove = f"`git worktree remove --force {shlex.quote(str(path))}` removes it"
        try:
            patch = changes_in(worktree)
            # It goes with the worktree, and a sandbox with its own /tmp shows it as the repository.
            file = git_folder_of(path) / "changes.patch"
            with os.fdopen(os.open(file, _PATCH, 0o600), "wb") as stream:
                stream.write(patch)
        except (GitError, OSError) as error:
            return f"[agent-cli: its changes are in the git worktree {path} ({error}); {remove}]"
        merge = f"`git apply --3way {shlex.quote(str(file))}`, run in {worktree.repository},"
        return (
            f"[agent-cli: its changes are in the git worktree {path}, not in the workspace."
            f" {merge} merges them; {remove}.]"
        )


def _folder_in(tree: Worktree, below: Path) -> Path:
    """Return the folder *below* the top of *tree*; the top if there can be none.

    Git keeps no empty folders and nothing uncommitted, so the commit may not have that folder.
    """
    folder = tree.path / below
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    is_inside = real_path(folder).is_relative_to(real_path(tree.path))
    return folder if is_inside and is_dir(folder) else tree.path


def note_on_submodules(tree: Path) -> str:
    """Return a note for the model about the submodules of *tree* that are empty, or ""; blocks."""
    with suppress(GitError):
        empty = [each for each in sorted(submodules_in(tree)) if not any((tree / each).glob("*"))]
        if empty:
            return _WITHOUT_SUBMODULES.format(", ".join(empty[:_SUBMODULES_NAMED]))
    return ""


async def _made(
    workspace: Path, note: Callable[[Path], None]
) -> tuple[Worktree, WorktreeMark | None]:
    """Return a new worktree after *note* got its path; a cancelled call leaves none behind."""
    making = _Making(workspace, note)
    try:
        return await asyncio.to_thread(making.run)
    except (GitError, OSError) as error:
        raise ToolError(_NO_WORKTREE.format(error)) from error
    except asyncio.CancelledError:
        making.abandon()
        raise


class _Making:
    """A worktree made in a thread, which cannot be interrupted; removed again once abandoned."""

    def __init__(self, workspace: Path, note: Callable[[Path], None]) -> None:
        self._workspace = workspace
        self._note = note
        self._lock = threading.Lock()
        self._made: tuple[Worktree, WorktreeMark | None] | None = None
        self._is_abandoned = False

    def run(self) -> tuple[Worktree, WorktreeMark | None]:
        repository = repository_of(self._workspace)
        commit = last_commit_of(self._workspace)
        name = f"agent-{secrets.token_hex(4)}"
        path = worktree_folder(main_repository_of(self._workspace), name)
        tree = add_worktree(repository, path, commit)
        self._note(path)
        made = tree, _marked(tree)
        with self._lock:
            self._made, abandoned = made, self._is_abandoned
        if abandoned:
            _remove(*made)
        return made

    def abandon(self) -> None:
        with self._lock:
            self._is_abandoned, made = True, self._made
        if made:
            _remove(*made)


def _remove(worktree: Worktree, mark: WorktreeMark | None) -> None:
    remove_worktree(worktree)
    if mark:
        mark.release()


def _marked(worktree: Worktree) -> WorktreeMark | None:
    try:
        return WorktreeMark(worktree)
    except (GitError, OSError):  # it only matters if this program is killed
        return None
