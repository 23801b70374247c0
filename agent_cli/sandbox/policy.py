"""The paths a command may use: a policy fixed at the start, and rules computed per command.

It handles paths only; the backends enforce the rules.
"""

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePath

from agent_cli.sandbox.acting import (
    Acting,
    acting_paths,
    executed_inside,
    installed_inside,
    linked_from_home,
    nested_repositories,
    settings_changes,
)
from agent_cli.sandbox.confinement import Rules
from agent_cli.sandbox.git_folders import GitFolders, GitSearch
from agent_cli.sandbox.guarded_files import HOME_NAMES, PROTECTED_NAMES
from agent_cli.sandbox.hidden_paths import (
    OtherNames,
    beside_shown,
    entries_in,
    linked_files,
    personal_files,
    socket_covers,
)
from agent_cli.sandbox.path_sets import (
    around_in_temporary,
    fewer,
    holds,
    is_in_one,
    outermost,
    unique,
)
from agent_cli.sandbox.secret_files import MAY_HOLD_PASSWORDS, OF_THE_SYSTEM, SECRETS
from agent_cli.sandbox.secret_index import Contents, PathMarks, SecretIndex, never
from agent_cli.system.folder_watch import FolderWatch
from agent_cli.system.paths import exists, real_path
from agent_cli.system.programs import note_installed_programs
from agent_cli.system.records import dataclass

_NESTED_SETTINGS_MAX = 60
# A rule may match a whole disk; beyond this limit the report says that secrets may be unknown.
_OUTSIDE_DIRECTORIES_MAX = 5_000
# The repository around the workspace may be a hundred times as large; secrets lie near its top.
_AROUND_MAX, _AROUND_LEAST, _AROUND_LEVELS = 2_000, 200, 3
# Each takes three mounts, a worktree or submodule one; those near the root come first. The others
# are watched: a command could make repositories near the root, to free a deeper one.
_NESTED_REPOSITORIES_MAX = 60
# After a command, more is searched than it can make in a few seconds.
_GIT_FOLDERS_MAX = 100_000


@dataclass(frozen=True, slots=True)
class PathRules:
    """The paths that the user's rules forbid to tools, and so to commands too.

    Attributes:
        hides: Whether a real path must not be read.
        locks: Whether a real path must not be changed.
        elsewhere: Folders outside the workspace that rules about reading match, each with its
            number of levels to search: 0 hides the folder as a whole, None searches all.
    """

    hides: Callable[[PurePath], bool] = never
    locks: Callable[[PurePath], bool] = never
    elsewhere: Sequence[tuple[Path, int | None]] = ()


_NO_RULES = PathRules()


class SandboxPolicy:
    """Computes the `Rules` from a workspace and a home directory.

    Only the user adds writable directories; the input of a tool never does.
    """

    def __init__(
        self,
        roots: Sequence[Path],
        *,
        home: Path,
        own: Sequence[Path],
        settings: Sequence[Path] = (),
        shown: Sequence[Path] = (),
        is_secret: Callable[[str], bool],
        path_rules: PathRules = _NO_RULES,
        network: bool = False,
        beside: Sequence[Path] = (),
    ) -> None:
        """Create the policy of a session.

        Args:
            roots: The workspace and the directories the user added.
            home: The home directory, whose keys and settings commands must not read or change.
            own: Directories of this program that commands must not read or change.
            settings: Those in `own` that this program does not write while a command runs.
            shown: Those in `own` that commands may read: the files of skills and plugins.
            is_secret: Whether a file's path indicates keys or passwords.
            path_rules: The paths that the user's rules forbid.
            network: Whether commands may reach other hosts.
            beside: The repository around, its other checkouts: read-only, without secrets.
        """
        self.roots = tuple(dict.fromkeys(map(real_path, roots)))
        self.home, self.network = real_path(home), network
        self.hides_many: Callable[[], bool] = lambda: False  # the sandbox that is used may
        self._own, self._settings = tuple(map(real_path, own)), tuple(map(real_path, settings))
        self._shown = unique(_with_links(shown))
        self._executed: Sequence[Path] = ()
        self._linked: Sequence[Path] = ()
        self._settings_known: tuple[object, ...] = ()
        self._modules_known, self._is_changed = 0, False
        self._names = _names(self.roots)
        self._start_files = [self.home / name for name in HOME_NAMES]
        self._names_in_home = [str(self.home / name) for name in (*SECRETS, *MAY_HOLD_PASSWORDS)]
        self._of_home: Sequence[Path] = ()
        self._marks = PathMarks(is_secret, path_rules.hides, path_rules.locks)
        self._is_secret, self._watch = is_secret, FolderWatch()
        self._inside = [self._index(root) for root in self.roots]
        elsewhere = [(real_path(folder), depth) for folder, depth in path_rules.elsewhere]
        self._denied = [folder for folder, depth in elsewhere if depth == 0]
        self._outside = [
            SecretIndex(
                folder,
                PathMarks(is_hidden=path_rules.hides),
                directories_max=_OUTSIDE_DIRECTORIES_MAX,
                depth_max=depth,
                watch=self._watch,
            )
            for folder, depth in elsewhere
            if depth != 0 and not self.owns(folder)
        ]
        self._around = self._beside(beside, PathMarks(is_secret, path_rules.hides))
        self._visible = around_in_temporary(beside, self.roots)
        self._secret_files, self._locked_files = OtherNames(self.roots), OtherNames(self.roots)
        self._searched: Sequence[Contents | OtherNames] = ()
        self._lock = threading.Lock()  # parallel commands search the same folders

    def open_dir(self, folder: Path) -> None:
        """Add a directory that the user lets commands write."""
        real = real_path(folder)
        with self._lock:
            if real not in self.roots:
                self.roots = (*self.roots, real)
                self._modules_known = 0
                self._names = _names(self.roots)
                self._inside.append(self._index(real))
                self._secret_files.add_folder(real)
                self._locked_files.add_folder(real)

    def close(self) -> None:
        """Learn of no more changes; nothing more is to be computed."""
        # Not after a search that still runs: it may take a minute, and the watch ends with it.
        if self._lock.acquire(blocking=False):
            self._watch.close()
            self._lock.release()

    def rules(self) -> Rules:
        """Return the rules for the current state of the disk."""
        return self.survey()[0]

    def survey(self) -> tuple[Rules, Acting]:
        """Return the rules for the current state of the disk, and the acting files."""
        with self._lock:
            inside, search = self._look(), GitSearch()
            nested = [*nested_repositories(inside, slice(_NESTED_REPOSITORIES_MAX, None), search)]
            more = [each for each in nested if each.is_complete]
            self._note_executed()
            git = [
                *map(search.around, self.roots),
                *nested_repositories(inside, slice(_NESTED_REPOSITORIES_MAX), search),
                *(each for each in nested if not each.is_complete),
            ]
            return self._rules(inside, git, more), self._acting(inside, [*git, *more])

    def read_only_rules(self) -> Rules | None:
        """Return rules under which a command can change nothing and sees no personal files.

        Returns:
            None if there are too many of these, or not all secrets are known.
        """
        rules = self.rules()
        personal = personal_files(self.home, rules.writable)
        if personal is None or not all(each.is_complete for each in self._searched):
            return None
        hidden = tuple(outermost(unique((*rules.hidden, *personal))))
        shown = (*rules.visible, *rules.writable)
        return Rules((), (), (), (), hidden, network=False, visible=shown)

    def is_complete(self) -> bool:
        """Search the disk; return whether all secrets with a known name or a rule were found."""
        with self._lock:
            # The first look also searches for other names of secrets.
            (self._search if self._searched else self._look)()
            return all(each.is_complete for each in self._searched)

    def acting(self, before: Acting) -> Acting:
        """Search the disk after a command; return the files that make programs act.

        The secrets that it moved are found, too. A root that was searched whole *before* is
        searched further if the command made too many folders for one search.
        """
        with self._lock:
            self._follow()
            inside = [
                found
                if (found := index.contents()).is_complete or root in before.unsearched
                else index.contents_further()
                for root, index in zip(self.roots, self._inside, strict=True)
            ]
            self._note_changes(inside)
            search = GitSearch(_GIT_FOLDERS_MAX)
            nested = nested_repositories(inside, slice(None), search)
            return self._acting(inside, [*map(search.around, self.roots), *nested])

    @property
    def installed(self) -> Sequence[Path]:
        """The folders of our own installation that commands could change without the rules."""
        return installed_inside(self.roots)

    def _follow(self) -> None:
        self._secret_files.follow()
        self._locked_files.follow()

    def _index(self, root: Path) -> SecretIndex:
        return SecretIndex(root, self._marks, watch=self._watch)

    def _beside(self, folders: Sequence[Path], marks: PathMarks) -> list[SecretIndex]:
        others = [folder for folder in map(real_path, folders) if not self.owns(folder)]
        return [
            SecretIndex(
                each,
                marks,
                directories_max=max(_AROUND_MAX // len(others), _AROUND_LEAST),
                depth_max=_AROUND_LEVELS if holds(each, self.roots) else None,
                watch=self._watch,
                with_packages=False,
            )
            for each in others
        ]

    def _acting(self, inside: Sequence[Contents], git: Sequence[GitFolders]) -> Acting:
        return acting_paths(self.roots, inside, git, [*self._executed, *self._linked])

    def _note_executed(self) -> None:
        # Plugins are imported after the first look.
        if self._modules_known != len(sys.modules):
            self._modules_known = len(sys.modules)
            self._executed = executed_inside(self.roots)
            if self.installed:
                note_installed_programs()
        if self._settings_known != (changes := (self.roots, *settings_changes())):
            self._linked = [*linked_from_home(self.roots)]
            self._settings_known = changes

    def _search(self) -> tuple[list[Contents], list[Contents]]:
        """Return what is inside the roots, and outside where rules forbid to read."""
        inside = [index.contents() for index in self._inside]
        outside = [index.contents() for index in self._outside]
        self._searched = (*inside, *outside, self._secret_files, self._locked_files)
        self._note_changes(inside)
        return inside, outside

    def _note_changes(self, inside: Sequence[Contents]) -> None:
        # An index tells a change once; it counts until the secrets' other names are looked for.
        self._is_changed = self._is_changed or any(each.is_changed for each in inside)

    def _look(self) -> list[Contents]:
        inside, outside = self._search()
        around = [index.contents() for index in self._around]
        secrets = [path for each in (*inside, *outside, *around) for path in each.secrets]
        self._of_home = self._in_home()
        # A command that still runs may have moved some.
        self._follow()
        is_changed, self._is_changed = self._is_changed, False
        self._secret_files.remember([*secrets, *self._of_home], is_changed=is_changed)
        self._locked_files.remember(
            [path for each in inside for path in each.locked], is_changed=is_changed
        )
        return inside

    def _rules(
        self, inside: Sequence[Contents], git: Sequence[GitFolders], more: Sequence[GitFolders]
    ) -> Rules:
        writable = [*self.roots, *(path for folders in git for path in folders.writable)]
        protected = unique((*self._protected(git), *_settings(inside, slice(_NESTED_SETTINGS_MAX))))
        absent = [path for folders in git for path in folders.watched]
        there, missing = list[Path](), list[Path]()
        for path in protected:
            (there if os.path.lexists(path) else missing).append(path)
        missing += [path for path in absent if not os.path.lexists(path)]
        # A symlink cannot be mounted on, but its target can.
        watched = [path for path in (*there, *absent) if path.is_symlink()]
        for folders in more:
            watched += (*folders.protected, *folders.watched, *folders.named)
        watched += [path for folders in (*git, *more) for path in folders.beyond]
        watched += _settings(inside, slice(_NESTED_SETTINGS_MAX, None))
        # Links, and files that name a folder which does not name them: nothing is mounted on these.
        known = {*protected, *watched}
        pointers = (path for contents in inside for path in contents.git_pointers)
        watched += [path for path in pointers if path not in known]
        hidden, shown = self._hidden(writable, self._secret_files.known())
        there += [x for x in shown if not (x.is_symlink() or holds(x, writable)) and self.owns(x)]
        locked = fewer(outermost(self._locked_files.known()), keep=writable)
        return Rules(
            writable=unique(writable),
            read_only=unique(
                real
                for path in (*there, *locked)
                if exists(real := real_path(path))
                and (real not in hidden or real in self._settings)
            ),
            missing=unique(missing),
            watched=unique(watched),
            hidden=hidden,
            network=self.network,
            executed=tuple(self._executed),
            visible=(*self._visible, *shown),
        )

    def owns(self, path: Path) -> bool:
        """Return whether *path* is in the workspace or a directory the user added."""
        return any(map(real_path(path).is_relative_to, self.roots))

    def _protected(self, git: Sequence[GitFolders]) -> Iterator[Path]:
        yield from filter(self.owns, self._own)
        yield from self._executed
        yield from self._linked
        yield from self._names
        if any(map(self.home.is_relative_to, self.roots)):
            yield from self._start_files
            yield from self._settings_in_home()
        for folders in git:
            yield from (*folders.protected, *folders.named)

    def _hidden(
        self, writable: Sequence[Path], secrets: Sequence[Path]
    ) -> tuple[tuple[Path, ...], Sequence[Path]]:
        """Return what is hidden, and which folders in it are shown."""
        of_system = [Path(name) for name in OF_THE_SYSTEM if os.access(name, os.R_OK)]
        # A link there may lead into the workspace.
        of_own = [real_path(folder / ".env") for folder in self._own]
        candidates = [*self._of_home, *of_own, *self._denied, *of_system]
        candidates += socket_covers(writable)
        others = [path for path in (*candidates, *secrets) if exists(path)]
        in_own = [path for path in self._shown if exists(path) and is_in_one(path, self._own)]
        shown = [path for path in in_own if not is_in_one(path, others)]
        found = unique((*filter(exists, beside_shown(self._own, writable, shown)), *others))
        # A workspace inside such a directory must stay visible.
        usable = [path for path in found if not holds(path, writable)]
        inside = [path for path in usable if is_in_one(path, shown)]
        outside = [path for path in usable if path not in inside]
        keep = (*writable, *shown, self.home, *of_system)
        hidden = fewer([*outermost(outside), *outermost(inside)], keep=keep, many=self.hides_many)
        return hidden, shown

    def _in_home(self) -> list[Path]:
        # Most do not exist, and resolving a path costs ten times as much as this check.
        there = filter(os.path.lexists, self._names_in_home)
        of_home = [*map(real_path, there), *map(real_path, self._secret_names(self.home))]
        return of_home + [path for folder in of_home for path in linked_files(folder)]

    def _settings_in_home(self) -> Iterator[Path]:
        """Yield the dot files of the home directory, for a workspace that contains it.

        No list of start files is complete; in other workspaces they are not writable anyway.
        """
        for path in sorted(Path(entry.path) for entry in entries_in(self.home)):
            is_work = any(root.is_relative_to(path) for root in self.roots)
            if path.name.startswith(".") and path.name != ".git" and not is_work:
                yield path

    def _secret_names(self, directory: Path) -> list[Path]:
        names = sorted(entry.name for entry in entries_in(directory))
        return [directory / name for name in names if self._is_secret(f"/{name}")]


def _with_links(folders: Sequence[Path]) -> Iterator[Path]:
    """Yield the real *folders*, and each link among them, as to a folder of dotfiles."""
    for folder in folders:
        yield real_path(folder)
        yield real_path(folder.parent) / folder.name


def _names(roots: Sequence[Path]) -> list[Path]:
    """Return the paths of the files that make programs act, at the top of each root."""
    return [root / name for root in roots for name in PROTECTED_NAMES]


def _settings(inside: Sequence[Contents], part: slice) -> Iterator[Path]:
    """Yield *part* of the settings that programs act on in folders below the roots."""
    for contents in inside:
        yield from contents.settings[part]
