"""Trusted workspaces, and the files that would act in one; none acts before it is trusted.

Trust covers a directory together with the content of its acting files; any change of that content
revokes it. This module only reads files: not even `git status` runs in an untrusted workspace,
because a repository can make it start programs.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from agent_cli.contracts.errors import SettingsError
from agent_cli.prompt_files.command_files import command_paths
from agent_cli.prompt_files.folders import markdown_files
from agent_cli.prompt_files.skill_files import skill_paths
from agent_cli.settings.sources import CLAUDE_FILES as HOOK_FILES
from agent_cli.settings.sources import SETTINGS_FILES
from agent_cli.system import paths
from agent_cli.system.shapes import is_object

# All files of a repository that change what this program does or starts.
ACTING_FILES = (*SETTINGS_FILES, ".env", ".mcp.json")
# Folders of skills: the model follows their instructions.
SKILL_FOLDERS = (".agent-cli/skills", ".agents/skills", ".claude/skills")
# Folders of agents: subagents follow their instructions.
AGENT_FOLDERS = (".agent-cli/agents", ".claude/agents")
# Folders of output styles: the model answers in one once the user chooses it.
STYLE_FOLDERS = (".agent-cli/output-styles", ".claude/output-styles")
# Folders of commands: their text is sent as the user's when the user types the name.
COMMAND_FOLDERS = (".agent-cli/commands", ".claude/commands")


class ActingFile(NamedTuple):
    """A file that would act, with one sentence per effect."""

    path: Path
    effects: tuple[str, ...]


def acting_files(workspace: Path) -> tuple[Path, ...]:
    """Return the files that would act; only those that may define hooks are opened."""
    named = [workspace / name for name in ACTING_FILES]
    for skills in skill_folders(workspace):
        named += skill_paths(skills, entries_max=None)
    for folder in (*AGENT_FOLDERS, *STYLE_FOLDERS):
        named += markdown_files(workspace / folder)
    for folder in COMMAND_FOLDERS:
        named += command_paths(workspace / folder)
    return tuple(dict.fromkeys([*filter(paths.is_file, named), *_hook_files(workspace)]))


def skill_folders(workspace: Path) -> tuple[Path, ...]:
    """Return a workspace's folders of skills; in the home directory, one is the user's own."""
    own = paths.shared_skills_dir()
    return tuple(path for name in SKILL_FOLDERS if (path := workspace / name) != own)


def _hook_files(workspace: Path) -> tuple[Path, ...]:
    """Return Claude Code's files that define hooks, and the scripts that hooks run."""
    files = [workspace / name for name in (*HOOK_FILES, *SETTINGS_FILES)]
    if not any(map(paths.is_file, files)):
        return ()
    from agent_cli.settings.hook_files import (  # noqa: PLC0415 - most workspaces have no hooks
        is_acting,
        project_hooks,
        scripts_of,
    )

    acting = [path for path in files[: len(HOOK_FILES)] if is_acting(path)]
    return (*acting, *scripts_of(project_hooks(workspace), workspace))


def what_would_act(workspace: Path) -> tuple[ActingFile, ...]:
    """Return the files that would act with their effects, for the question to the user."""
    found = acting_files(workspace)
    if not found:
        return ()
    from agent_cli.trust.effects import effects_of  # noqa: PLC0415 - most workspaces have no files

    return tuple(ActingFile(path, effects_of(path, workspace)) for path in found)


def shown_name(path: Path, workspace: Path) -> str:
    """Return the name of a file in *workspace* as one line of ASCII: the name is untrusted."""
    return ascii(str(path.relative_to(workspace)))[1:-1]


def fingerprint(workspace: Path) -> str:
    """Return one hash over names and contents of all files that would act."""
    import hashlib  # noqa: PLC0415 - needed only where something was trusted once

    def digests() -> Iterator[str]:
        for path in acting_files(workspace):
            try:
                with path.open("rb") as stream:
                    name = shown_name(path, workspace)
                    yield f"{name} {hashlib.file_digest(stream, 'sha256').hexdigest()}\n"
            except OSError as error:
                raise SettingsError(f"{path} cannot be read: {error.strerror}") from error

    return hashlib.sha256("".join(digests()).encode()).hexdigest()


class TrustStore:
    """A JSON file, readable by the user alone: directory → fingerprint of its acting files."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @classmethod
    def of_user(cls) -> "TrustStore":
        """Return the store in the state directory."""
        return cls(paths.trust_file())

    def is_trusted(self, workspace: Path) -> bool:
        """Return whether the user trusts this directory with its current acting files.

        Raises:
            SettingsError: The store, or a file that would act, cannot be read.
        """
        if not self._path.exists():
            return False
        known = self._read().get(_name(workspace))
        return known is not None and known == fingerprint(workspace)

    def trust(self, workspace: Path, shown: str | None = None) -> None:
        """Remember the directory with its acting files.

        Args:
            shown: The fingerprint of the files shown to the user; by default, of the current ones.

        Raises:
            SettingsError: The store cannot be read or written.
        """
        self._write(self._read() | {_name(workspace): shown or fingerprint(workspace)})

    def revoke(self, workspace: Path) -> bool:
        """Forget the directory; return whether it was known.

        Raises:
            SettingsError: The store cannot be read or written.
        """
        trusted = self._read()
        known = trusted.pop(_name(workspace), None) is not None
        if known:
            self._write(trusted)
        return known

    def _read(self) -> dict[str, str]:
        import json  # noqa: PLC0415 - start-up needs no JSON unless a workspace was trusted

        try:
            stored = json.loads(self._path.read_bytes())
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise SettingsError(f"{self._path} cannot be read: {error.strerror}") from error
        except ValueError:
            stored = None
        if not is_object(stored):
            raise SettingsError(f"{self._path} is damaged; delete it and trust your projects again")
        return {str(name): str(fingerprint) for name, fingerprint in stored.items()}

    def _write(self, trusted: dict[str, str]) -> None:
        import json  # noqa: PLC0415 - as in _read

        from agent_cli.system.private_files import write_private  # noqa: PLC0415 - written rarely

        try:
            write_private(self._path, json.dumps(trusted, indent=2, sort_keys=True).encode())
        except OSError as error:
            raise SettingsError(f"{self._path} cannot be written: {error.strerror}") from error


def _name(workspace: Path) -> str:
    """Return the directory's real path: a link to it is not another directory."""
    return os.path.realpath(workspace)
