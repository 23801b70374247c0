"""Trusted workspaces, and the files that would act in one; none acts before it is trusted.

Trust covers a directory together with the content of its acting files, part by part; any change of
that content revokes it, but the guards hold as long as they are the same. This module only reads
files: not even `git status` runs in an untrusted workspace, because a repository can make it start
programs.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from agent_cli.contracts.errors import SettingsError
from agent_cli.prompt_files import markdown_files, nested_markdown_files
from agent_cli.prompt_files.command_files import command_paths
from agent_cli.prompt_files.skill_files import skill_paths
from agent_cli.settings import CLAUDE_FILES as HOOK_FILES
from agent_cli.settings import SERVERS_FILE, SETTINGS_FILES
from agent_cli.settings.environment import acting_variables
from agent_cli.system import paths
from agent_cli.system.repositories import in_each, project_folders
from agent_cli.system.shapes import is_object

if TYPE_CHECKING:
    from agent_cli.trust.parts import Fingerprint, Part

# All files of a repository that change what this program does or starts.
ACTING_FILES = (*SETTINGS_FILES, ".env", SERVERS_FILE)
# Folders of skills: the model follows their instructions.
SKILL_FOLDERS = (".agent-cli/skills", ".agents/skills", ".claude/skills")
# Folders of agents: subagents follow their instructions.
AGENT_FOLDERS = (".agent-cli/agents", ".claude/agents")
# Folders of output styles: the model answers in one once the user chooses it.
STYLE_FOLDERS = (".agent-cli/output-styles", ".claude/output-styles")
# Folders of commands: their text is sent as the user's when the user types the name.
COMMAND_FOLDERS = (".agent-cli/commands", ".claude/commands")
# Before the name of a directory whose files the user declined to trust. Names begin with a slash.
_DECLINED: Final = "declined "


def acting_files(workspace: Path) -> tuple[Path, ...]:
    """Return the files that would act.

    A `.env` does only if it sets a variable that this program uses.
    """
    files = _named_files(workspace)
    env = workspace / ".env"
    if env not in files or _sets_variables(workspace, files):
        return files
    return tuple(file for file in files if file != env)


def special_files(workspace: Path) -> tuple[Path, ...]:
    """Return pipes, devices and the like that stand in place of acting files.

    Not a `.env`: it is mostly the project's own, and password managers make it a named pipe.
    """
    around = project_folders(workspace)
    of_settings = [*in_each([workspace], SETTINGS_FILES), *in_each(around, [SERVERS_FILE])]
    return tuple(filter(paths.is_special, (*of_settings, *in_each([workspace], HOOK_FILES))))


def _sets_variables(workspace: Path, files: Sequence[Path]) -> bool:
    try:
        return bool(acting_variables(workspace, files))
    except SettingsError:  # reported, and not harmless
        return True


def used_variables(workspace: Path) -> Mapping[str, str]:
    """Return the variables of the project's `.env` that trust covers.

    Raises:
        SettingsError: The `.env` cannot be read.
    """
    return acting_variables(workspace, _named_files(workspace))


def _named_files(workspace: Path) -> tuple[Path, ...]:
    """Return the files that act because of their names; opens only what may hold hooks."""
    around = project_folders(workspace)
    named = [*in_each([workspace], ACTING_FILES), *in_each(around[1:], [SERVERS_FILE])]
    for skills in skill_folders(around):
        named += skill_paths(skills)
    for folder in in_each(around, AGENT_FOLDERS):
        named += nested_markdown_files(folder)
    for folder in in_each(around, STYLE_FOLDERS):
        named += markdown_files(folder)
    for folder in in_each(around, COMMAND_FOLDERS):
        named += command_paths(folder)
    there = [*filter(paths.is_file, named)]
    return tuple(dict.fromkeys([*there, *_hook_files(workspace), *_server_files(there, workspace)]))


def skill_folders(around: Sequence[Path]) -> tuple[Path, ...]:
    """Return the folders of skills of a project; in the home directory, one is the user's own."""
    own = paths.shared_skills_dir()
    return tuple(path for path in in_each(around, SKILL_FOLDERS) if path != own)


def _hook_files(workspace: Path) -> tuple[Path, ...]:
    """Return Claude Code's files with hooks or guarding rules, and the scripts that hooks run."""
    files = [workspace / name for name in (*HOOK_FILES, *SETTINGS_FILES)]
    own = (paths.user_settings_file(), paths.claude_dir() / "settings.json")
    if not any(map(paths.is_file, files)) and not any(map(_names_hooks, own)):
        return ()
    from agent_cli.settings.files import is_acting  # as below
    from agent_cli.settings.hook_files import (  # most workspaces have no hooks
        all_scripts_of,
        hooks_in_files,
    )

    acting = [path for path in files[: len(HOOK_FILES)] if is_acting(path)]
    return (*acting, *all_scripts_of(hooks_in_files(workspace), workspace))


def _names_hooks(path: Path) -> bool:
    """Return whether a settings file may have hooks, without the modules that read them."""
    if not paths.is_file(path):
        return False
    try:
        return b"hooks" in path.read_bytes()
    except OSError:
        return False


def _server_files(named: Sequence[Path], workspace: Path) -> tuple[Path, ...]:
    """Return the files that MCP servers of the *named* files run."""
    if not named:
        return ()
    agents = {*in_each(project_folders(workspace), AGENT_FOLDERS)}
    names = (*SETTINGS_FILES, SERVERS_FILE)
    if not any(path.name in names or not agents.isdisjoint(path.parents) for path in named):
        return ()
    from agent_cli.trust.parts import server_files  # most have no servers

    return server_files(named, workspace)


def shown_name(path: Path, workspace: Path) -> str:
    """Return the name of a file, seen from *workspace*, as one line of ASCII: it is untrusted."""
    return ascii(os.path.relpath(path, workspace))[1:-1]


def fingerprint(workspace: Path) -> "Fingerprint":
    """Return the parts of all files that would act, each with a hash of its content.

    Raises:
        SettingsError: The `.env` cannot be read.
    """
    files = {shown_name(path, workspace): path for path in acting_files(workspace)}
    if not files:
        return ()
    from agent_cli.trust.parts import parts_of  # most workspaces have no files

    return parts_of(files, workspace)


class Standing(NamedTuple):
    """The extent of the user's trust in a workspace.

    Attributes:
        is_trusted: The user trusts the directory, and nothing that acts has changed since.
        is_guarded: The user trusts the guards as they are now; other parts may have changed.
        lost: The files with guards that changed, came or went since the user trusted them, or that
            the user trusts in another directory only.
        is_known: The user trusted this directory once.
        changes: (file, "new", "changed" or "gone") since the user trusted this directory; none if
            an earlier version stored that trust, without the files.
    """

    is_trusted: bool = False
    is_guarded: bool = False
    lost: tuple[str, ...] = ()
    is_known: bool = False
    changes: tuple[tuple[str, str], ...] = ()


class TrustStore:
    """A JSON file, readable by the user alone: directory → the parts of its acting files.

    A directory whose trust was revoked stays in it, as null: nothing in it is trusted, nor missed.
    Beside it stands what the user declined, so that the same files are asked about once.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    @classmethod
    def of_user(cls) -> "TrustStore":
        """Return the store in the state directory."""
        return cls(paths.trust_file())

    def is_trusted(self, workspace: Path) -> bool:
        """Return whether the user trusts its current acting files; raises SettingsError."""
        return self.standing(workspace).is_trusted

    def is_declined(self, workspace: Path) -> bool:
        """Return whether the user declined exactly these files; raises SettingsError."""
        declined = self._read().get(f"{_DECLINED}{_name(workspace)}")
        return declined == _declined(fingerprint(workspace))

    def decline(self, workspace: Path, shown: "Fingerprint") -> None:
        """Remember that the user declined the files as *shown*; raises SettingsError."""
        with self._locked():
            self._write(self._read() | {f"{_DECLINED}{_name(workspace)}": _declined(shown)})

    def standing(self, workspace: Path, *, copy_of: Path | None = None) -> Standing:
        """Return the extent of the user's trust now.

        A git worktree stands as its repository's main one does, and so does a directory that is
        known to be a copy of another one. Trust in a folder above it, in the same repository,
        covers that folder's files here too.

        Raises:
            SettingsError: The store, or the `.env`, cannot be read.
        """
        if not self._path.exists():
            return Standing()
        stored = self._read()
        here = Path(name := _name(workspace))
        now = {_key(part): part for part in fingerprint(workspace)}
        above = _trusted_above(here, name, now, stored)
        if name not in stored and above is None:
            from agent_cli.system.worktrees import counterpart_of  # rare

            name = _name(copy_of or counterpart_of(here) or here)
            above = _trusted_above(here, name, now, stored)
        if name not in stored and above is None:
            return Standing(lost=_trusted_elsewhere(Path(name), now, stored))
        trusted = stored.get(name, {})
        if trusted is None:
            return Standing()
        if above is not None:  # what is gone from there was seen when it was trusted anew
            gone = {key for key in trusted if key not in now and key.startswith("../")}
            trusted = {k: r for k, r in trusted.items() if k not in gone or _guards(r)} | above
        changed = {*now, *trusted} - {k for k in now if trusted.get(k) == _record(now[k])}
        lost = [k for k in changed if _guards(trusted.get(k)) or (k in now and now[k].guards)]
        has_guards = any(part.guards for part in now.values())
        return Standing(
            not changed,
            has_guards and not lost,
            _files(lost),
            is_known=True,
            changes=_changes(changed, now, trusted) if name in stored else (),
        )

    def trust(self, workspace: Path, shown: "Fingerprint | None" = None) -> None:
        """Remember the directory with its acting files.

        Args:
            shown: The fingerprint of the files shown to the user; by default, of the current ones.

        Raises:
            SettingsError: The store cannot be read or written.
        """
        parts = fingerprint(workspace) if shown is None else shown
        records = {_key(each): _record(each) for each in parts}
        with self._locked():
            self._write(self._read() | {_name(workspace): records})

    def revoke(self, workspace: Path) -> bool:
        """Trust the directory no longer; return if it was trusted; raises SettingsError."""
        with self._locked():
            stored = self._read()
            self._write(stored | {_name(workspace): None})
        return stored.get(_name(workspace)) is not None

    def trusted_below(self, workspace: Path) -> Sequence[str]:
        """Return the folders in it that have trust of their own, by path; raises SettingsError."""
        inside = os.path.join(_name(workspace), "")  # noqa: PTH118 - names, as they are stored
        return sorted(x for x, parts in self._read().items() if parts and x.startswith(inside))

    def forget(self, workspace: Path) -> None:
        """Remove a directory that is gone; raises SettingsError."""
        with self._locked():
            stored = self._read()
            if _name(workspace) in stored:
                del stored[_name(workspace)]
                self._write(stored)

    def _locked(self) -> AbstractContextManager[None]:
        """Keep other processes from changing the store, if its file system has locks."""
        from agent_cli.system.private_files import locked_if_possible  # as in _write

        return locked_if_possible(self._path.with_name(f".{self._path.name}.lock"))

    def _read(self) -> "dict[str, _Trusted | None]":
        # Start-up needs no JSON unless a workspace was trusted.
        from agent_cli.system.json_text import json_object

        try:
            stored = json_object(self._path.read_bytes())
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise SettingsError(f"{self._path} cannot be read: {error.strerror}") from error
        if stored is None:
            raise SettingsError(f"{self._path} is damaged; delete it and trust your projects again")
        return {str(name): _parts(parts) for name, parts in stored.items()}

    def _write(self, trusted: "Mapping[str, _Trusted | None]") -> None:
        import json  # as in _read

        from agent_cli.system.private_files import write_private  # written rarely

        try:
            write_private(self._path, json.dumps(trusted, indent=2, sort_keys=True).encode())
        except OSError as error:
            raise SettingsError(f"{self._path} cannot be written: {error.strerror}") from error


# The key of a part -> its record. Names are ASCII on one line, so no name can hold a key.
_Trusted: TypeAlias = dict[str, str]
_GUARD: Final = "guard "


def _declined(shown: "Fingerprint") -> _Trusted:
    """Return the record of declined files."""
    return {_key(part): part.digest for part in shown}


def _key(part: "Part") -> str:
    return f"{part.file}\n{part.what}"


def _record(part: "Part") -> str:
    return f"{_GUARD}{part.digest}" if part.guards else part.digest


def _guards(record: str | None) -> bool:
    return record is not None and record.startswith(_GUARD)


def _parts(stored: object) -> _Trusted | None:
    """Return the trusted parts of a directory; earlier versions stored one hash of everything."""
    if stored is None:
        return None
    if not is_object(stored):
        return {"\n": str(stored)}
    return {key: str(record) for key, record in stored.items()}


def _trusted_above(
    workspace: Path, name: str, now: "Mapping[str, Part]", stored: "Mapping[str, _Trusted | None]"
) -> _Trusted | None:
    """Return the records of what acts *now* and is trusted in a folder above; None without any."""
    found: _Trusted | None = None
    for folder in project_folders(workspace)[1:]:
        # *name* is what *workspace* stands as, and need not be there.
        known_as = os.path.normpath(f"{name}/{os.path.relpath(folder, workspace)}")
        if (records := stored.get(known_as)) is not None:
            here = {os.path.relpath(folder / key, workspace): each for key, each in records.items()}
            same = {key: here[key] for key in here if key in now and here[key] == _record(now[key])}
            found = same | (found or {})
    return found


def _trusted_elsewhere(
    workspace: Path, now: "Mapping[str, Part]", stored: "Mapping[str, _Trusted | None]"
) -> tuple[str, ...]:
    """Return the files of guards that the user trusts in the directory that this is a copy of.

    All guards are the same, or git knows it as a clone: they are missed, but nothing of it runs.
    """
    for name, trusted in stored.items():
        guards = {key for key, record in (trusted or {}).items() if _guards(record)}
        if not trusted or not guards:
            continue
        from agent_cli.system.worktrees import is_clone_of  # rare

        is_same = all(key in now and _record(now[key]) == trusted[key] for key in guards)
        if is_same or is_clone_of(workspace, Path(name)):
            return _files(guards)
    return ()


def _changes(
    changed: Iterable[str], now: Iterable[str], trusted: Iterable[str]
) -> tuple[tuple[str, str], ...]:
    here, before = {*_files(now)}, {*_files(trusted)}
    if "" in before:  # one hash of everything
        return ()
    return tuple(
        (file, "gone" if file not in here else "changed" if file in before else "new")
        for file in _files(changed)
    )


def _files(keys: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({key.partition("\n")[0] for key in keys}))


def _name(workspace: Path) -> str:
    """Return the directory's real path: a link to it is not another directory."""
    return os.path.realpath(workspace)
