"""The files that hold instructions: which there are, whose each is, and what each says.

In a folder these count, in this order: AGENTS.override.md (in place of AGENTS.md), AGENTS.md,
CLAUDE.md, `.claude/CLAUDE.md`, CLAUDE.local.md, and the Markdown files of `.claude/rules`. A text
may bring in others by `@path`, as Claude Code reads them.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from os.path import normpath
from pathlib import Path, PurePath
from typing import Final, Literal, NamedTuple, TypeAlias

from agent_cli.contracts.wording import once
from agent_cli.system import paths
from agent_cli.system.authorship import SessionFolders, author_of
from agent_cli.system.fixed_paths import start_of
from agent_cli.system.loading import late_pattern
from agent_cli.system.paths import real_path
from agent_cli.system.records import dataclass

BYTES_MAX: Final = 32 * 1024
Source: TypeAlias = Literal["user", "repository"]

RULES: Final = ".claude/rules"
_OVERRIDE, _AGENTS = "AGENTS.override.md", "AGENTS.md"
_CLAUDE_OWN: Final = ".claude/CLAUDE.md"
_NAMES: Final = (_OVERRIDE, _AGENTS, "CLAUDE.md", _CLAUDE_OWN, "CLAUDE.local.md")
_HOPS_MAX: Final = 5
_RULES_MAX: Final = 100
# For all files together: a repository could otherwise keep us busy with names for a long time.
_IMPORTS_MAX: Final = 500
# A package's text says nothing about the project, and nobody who wrote the project vouches for it.
_PACKAGES: Final = frozenset({"node_modules", "site-packages", ".venv", "venv", "vendor", ".git"})
# A path behind an @ at the start of a word, which may be quoted or emphasized: a name of a person
# or a decorator is no file there.
_IMPORT: Final = late_pattern(r"(?:^|(?<=[\s\"'(*_]))@((?:\\ |[^\s`])+)")
_ITEM: Final = late_pattern(r"(?:\{[^{}]*\}|\[[^\[\]]*\]|[^,])+")
_BRACES: Final = late_pattern(r"\{([^{}]*)\}")
_CODE: Final = late_pattern(r"^(```|~~~).*?^\1[^\n]*$|`[^`\n]*`", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class InstructionFile:
    """A file that may hold instructions, and whose words they are."""

    path: Path
    source: Source

    @property
    def is_rule(self) -> bool:
        """Whether it may be about certain paths only."""
        return f"/{RULES}/" in self.path.as_posix()


class LoadedInstructions(NamedTuple):
    """An instruction file that the model was shown, and why.

    `because` is the file that a tool touched, `named_by` the one that brings it in by `@path`.
    """

    file: InstructionFile
    reason: Literal["session_start", "nested_traversal", "path_glob_match", "include", "compact"]
    patterns: Sequence[str] = ()
    because: Path | None = None
    named_by: Path | None = None


class InstructionFiles:
    """Finds and reads the files of one session."""

    def __init__(
        self,
        root: Path,
        directory: Path,
        *,
        is_secret: Callable[[PurePath], bool],
        warn: Callable[[str], None],
        user_files: Sequence[Path] = (),
        user_rules: Path | None = None,
        is_kept_back: Callable[[Path], bool] = lambda _path: False,
        trusted: bool = False,
        bytes_max: int = BYTES_MAX,
    ) -> None:
        """Read nothing yet.

        Args:
            root: The workspace; nothing outside is read.
            directory: The user's working directory, *root* or below: files on the way down count,
                the nearest last.
            is_secret: Whether a path must not be read: a repository may hold a link to it.
            warn: Receives a sentence, once, if something is left out.
            user_files: The user's own files; one also in the workspace counts as the workspace's.
            user_rules: The user's own folder of rules.
            is_kept_back: Whether the user's permission rules keep a real path from the model, or it
                is another name of a secret.
            trusted: Whether the user trusts the workspace; if not, its text is marked as a
                stranger's, and it names no files of the user's own folders.
            bytes_max: The limit for all files together.
        """
        self.root = real_path(root)
        self.directory = real_path(directory)
        # A file is looked at again each time a tool comes to its folder.
        self.warn = once(warn)
        self.trusted = trusted
        self.bytes_max = bytes_max
        self._user_files = user_files
        self._user_rules = user_rules
        self._is_secret = is_secret
        self._is_kept_back = is_kept_back
        # Where a trusted repository may name the user's files, as in `@~/.claude/mine.md`.
        self._own_folders = {path.parent for path in user_files} if trusted else set[Path]()
        self._rules_of_paths: Sequence[tuple[InstructionFile, Sequence[str]]] | None = None

    def at_start(self) -> Iterator[InstructionFile]:
        """Yield the user's files, then the project's from the root down, the nearest last."""
        theirs = [path for folder in self._start_folders() for path in _files_of(folder)]
        # In a cloned ~/.config, the user's file belongs to a repository; ~/.claude is the user's.
        users = map(in_force, self._user_files)
        own = [
            path
            for path in users
            if real_path(path.parent) / path.name not in theirs
            or path.as_posix().endswith(f"/{_CLAUDE_OWN}")
        ]
        if self._user_rules:
            own += _rules_in(self._user_rules)
        # Where the home directory is the workspace, the user's Claude files are found twice.
        found = {real_path(path) for path in own}
        theirs = [path for path in theirs if path not in found]
        session = SessionFolders.of(self.directory)
        for path in own:
            # The user may keep it in a repository of dotfiles, and this may be that one.
            is_theirs = author_of(path, session).author.is_stranger
            yield InstructionFile(path, "repository" if is_theirs else "user")
        yield from (InstructionFile(path, "repository") for path in theirs)

    def for_path(self, touched: Path) -> Iterator[InstructionFile]:
        """Yield the files that a tool's work on *touched* adds to the files of the start."""
        if not touched.is_relative_to(self.root):
            return
        below = touched.relative_to(self.root)
        known = {*self._start_folders()}
        for folder in (*reversed(touched.parents), touched):
            if not folder.is_relative_to(self.root) or folder in known or not paths.is_dir(folder):
                continue
            if _PACKAGES.isdisjoint(folder.relative_to(self.root).parts):
                yield from (InstructionFile(path, "repository") for path in _files_of(folder))
        if self._rules_of_paths is None:
            rules = (file for file in self.at_start() if file.is_rule)
            found = [(file, patterns_of(file, self.text_of(file))) for file in rules]
            self._rules_of_paths = [(file, patterns) for file, patterns in found if patterns]
        for file, patterns in self._rules_of_paths:
            if _matches(patterns, below):
                yield file

    def forget(self) -> None:
        """Read the patterns of rules anew when they are needed next."""
        self._rules_of_paths = None

    def text_of(self, file: InstructionFile) -> str:
        """Return the text of *file*; "" if it is missing or must not be read."""
        path = file.path
        if not paths.is_file(path):
            if paths.is_special(path):
                self.warn(f"{path} is not read: {paths.NO_FILE}")
            return ""
        is_users, real = file.source == "user", real_path(path)
        if not is_users and (objection := self._objection(real)):
            self.warn(f"{path} is not read: {objection}")
            return ""
        try:
            # One byte over the limit, so that the cut is noticed. A stranger's link may lead
            # elsewhere by now.
            content = start_of(real, self.bytes_max + 1, is_real=not is_users)
        except OSError as error:
            self.warn(f"{path} is not read: {error.strerror}")
            return ""
        if b"\0" in content:
            self.warn(f"{path} is not read: it is not text")
            return ""
        return content.decode("utf-8-sig", errors="replace")

    def imports_of(
        self, file: InstructionFile, text: str, seen: set[Path]
    ) -> Iterator[tuple[InstructionFile, str, Path]]:
        """Yield the files that *text* names by `@path`, and recursively the files they name.

        Behind each stand its text, and the file that names it.

        Those in *seen* are left out; what is looked at is added to it.
        """
        seen.add(real_path(file.path))
        yield from self._imported(file, text, seen, _HOPS_MAX)

    def _imported(
        self, file: InstructionFile, text: str, seen: set[Path], hops: int
    ) -> Iterator[tuple[InstructionFile, str, Path]]:
        if not hops or "@" not in text:
            return
        session: SessionFolders | None = None
        for found in _IMPORT.finditer(_CODE.sub("", text)):
            name = found[1].replace("\\ ", " ").rstrip(".,;:!?)\"'*")
            path = file.path.parent / paths.expanded(name)
            if "#" in name and not paths.is_file(path):  # a section of the file
                name = name.partition("#")[0]
                path = file.path.parent / paths.expanded(name)
            if not name or path in seen:
                continue
            if len(seen) >= _IMPORTS_MAX:
                self.warn("instructions name too many files by @; the others are left out")
                return
            seen.add(path)
            real = real_path(path) if paths.is_file(path) else None
            if real is None and file.source == "user" and name.endswith(".md"):
                self.warn(f"{path} is not read: {file.path} names it, and it is not there")
            if real is None or (real != path and real in seen):
                continue
            seen.add(real)
            session = session or SessionFolders.of(self.directory)
            is_own = path.suffix == ".md" and Path(normpath(path)).parent in self._own_folders
            named_by_user = file.source == "user" or is_own
            is_users = named_by_user and not author_of(path, session).author.is_stranger
            imported = InstructionFile(path, "user" if is_users else "repository")
            its_text = self.text_of(imported)
            yield imported, its_text, file.path
            yield from self._imported(imported, its_text, seen, hops - 1)

    def _start_folders(self) -> Sequence[Path]:
        below = self.directory.relative_to(self.root).parts
        return [self.root.joinpath(*below[:depth]) for depth in range(len(below) + 1)]

    def _objection(self, real: Path) -> str:
        """Return the reason not to show the target of a repository's file; "" if there is none."""
        if not real.is_relative_to(self.root):
            return f"it leads out of {self.root}"
        # The user chose the directories above the root, so their names do not count.
        if self._is_secret(PurePath("/", real.relative_to(self.root))):
            return "it leads to a file that may hold secrets"
        if ".git" in real.relative_to(self.root).parts:
            return "it leads to a file of git"
        if self._is_kept_back(real):
            return "a permission rule keeps it from the model, or it may hold secrets"
        return ""


def patterns_of(file: InstructionFile, text: str) -> Sequence[str]:
    """Return the paths that a rule is about; none for a file that is about all."""
    if not file.is_rule:
        return ()
    from agent_cli.prompt_files import field_block  # rare

    return _patterns(field_block(text, "paths").partition(":")[2])


def in_force(path: Path) -> Path:
    """Return the file that stands in the place of *path*: AGENTS.override.md beside AGENTS.md."""
    override = path.with_name(_OVERRIDE)
    return override if path.name == _AGENTS and paths.is_file(override) else path


def _files_of(folder: Path) -> list[Path]:
    named = dict.fromkeys(in_force(folder / name) for name in _NAMES)
    return [*named, *_rules_in(folder / RULES)]


def _rules_in(folder: Path) -> list[Path]:
    if not paths.is_dir(folder):
        return []
    from agent_cli.prompt_files import nested_markdown_files  # rare

    return [*nested_markdown_files(folder)][:_RULES_MAX]


def _patterns(field: str) -> Sequence[str]:
    """Return the patterns in a `paths:` field: one, a list in lines, or one in brackets."""
    listed = field.strip()
    if listed.startswith("[") and listed.endswith("]"):
        listed = listed[1:-1]
    found: list[str] = []
    for line in listed.splitlines():
        for item in _ITEM.findall(re.sub(r"^\s*-\s+|\s#.*", "", line)):
            found += _unbraced(item.strip(" \t\"'"))
    return [each for each in found if each][:_RULES_MAX]


def _unbraced(pattern: str) -> Sequence[str]:
    """Return the patterns that `{a,b}` in *pattern* stands for, up to a limit."""
    waiting, found = [pattern], list[str]()
    while waiting and len(found) + len(waiting) <= _RULES_MAX:
        each = waiting.pop()
        if braces := _BRACES.search(each):
            before, behind = each[: braces.start()], each[braces.end() :]
            waiting += [before + choice + behind for choice in braces[1].split(",")]
        else:
            found.append(each)
    return found


def _matches(patterns: Sequence[str], path: PurePath) -> bool:
    from agent_cli.system.path_patterns import path_patterns  # rare

    for each in patterns:
        try:
            if path_patterns([f"/{each.lstrip('/')}"]).match_file(str(path)):
                return True
        except (ValueError, re.error):  # the others still count
            continue
    return False
