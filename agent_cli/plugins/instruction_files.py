"""The files that hold instructions: which there are, whose each is, and what each says.

In a folder these count, in this order: AGENTS.override.md (in place of AGENTS.md), AGENTS.md,
CLAUDE.md, CLAUDE.local.md, and the Markdown files of `.claude/rules`. A text may bring in others by
`@path`, as Claude Code reads them.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Final, Literal, TypeAlias

from agent_cli.system import paths
from agent_cli.system.authorship import SessionFolders, author_of
from agent_cli.system.paths import real_path

Source: TypeAlias = Literal["user", "repository"]

RULES: Final = ".claude/rules"
_OVERRIDE, _AGENTS = "AGENTS.override.md", "AGENTS.md"
_NAMES: Final = (_OVERRIDE, _AGENTS, "CLAUDE.md", "CLAUDE.local.md")
_HOPS_MAX: Final = 5
_RULES_MAX: Final = 100
# A path behind an @ at the start of a word: a name of a person or a decorator is no file there.
_IMPORT: Final = re.compile(r"(?:^|(?<=\s))@((?:\\ |[^\s`])+)")
_CODE: Final = re.compile(r"^(```|~~~).*?^\1[^\n]*$|`[^`\n]*`", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class InstructionFile:
    """A file that may hold instructions, and whose words they are."""

    path: Path
    source: Source


class InstructionFiles:
    """Finds and reads the files of one session."""

    def __init__(
        self,
        root: Path,
        directory: Path,
        *,
        user_files: Sequence[Path],
        user_rules: Path | None,
        is_secret: Callable[[PurePath], bool],
        warn: Callable[[str], None],
        bytes_max: int,
    ) -> None:
        """Read nothing yet; see `project_instructions` for the arguments."""
        self.root = root
        self.directory = directory
        self._user_files = user_files
        self._user_rules = user_rules
        self._is_secret = is_secret
        self._warn = warn
        self._bytes_max = bytes_max

    def at_start(self) -> Iterator[InstructionFile]:
        """Yield the user's files, then the project's from the root down, the nearest last."""
        theirs = [path for folder in self._start_folders() for path in _files_of(folder)]
        # In a cloned ~/.config, the user's file belongs to a repository.
        own = [
            path for path in self._user_files if real_path(path.parent) / path.name not in theirs
        ]
        if self._user_rules:
            own += _rules_in(self._user_rules)
        session = SessionFolders.of(self.directory)
        for path in own:
            # The user may keep it in a repository of dotfiles, and this may be that one.
            is_theirs = author_of(path, session).author.is_stranger
            yield InstructionFile(path, "repository" if is_theirs else "user")
        yield from (InstructionFile(path, "repository") for path in theirs)

    def for_path(self, touched: Path) -> Iterator[InstructionFile]:
        """Yield the files that a tool's work on *touched* brings in, beyond those at the start."""
        if not touched.is_relative_to(self.root):
            return
        known = {*self._start_folders()}
        for folder in (*reversed(touched.parents), touched):
            if folder.is_relative_to(self.root) and folder not in known and paths.is_dir(folder):
                yield from (InstructionFile(path, "repository") for path in _files_of(folder))
        for file in self.at_start():
            patterns = self.patterns_of(file)
            if patterns and _matches(patterns, touched.relative_to(self.root)):
                yield file

    def patterns_of(self, file: InstructionFile) -> Sequence[str]:
        """Return the paths that a rule is about; none for a file that is about all."""
        if PurePath(RULES).parts[-1] not in file.path.parts:
            return ()
        from agent_cli.prompt_files.front_matter import field_block  # noqa: PLC0415 - rare

        block = field_block(self.text_of(file), "paths").partition(":")[2]
        items = re.split(r"[\n,\[\]]", block)
        return [item for each in items if (item := each.strip(" \t-\"'"))]

    def text_of(self, file: InstructionFile) -> str:
        """Return the text of *file*; "" if it is missing or must not be read."""
        path = file.path
        if not paths.is_file(path):
            return ""
        if file.source != "user" and (objection := self._objection(real_path(path))):
            self._warn(f"{path} is not read: {objection}")
            return ""
        try:
            with path.open("rb") as stream:
                # One byte over the limit, so that the cut is noticed.
                return stream.read(self._bytes_max + 1).decode(errors="replace")
        except OSError as error:
            self._warn(f"{path} is not read: {error.strerror}")
            return ""

    def imports_of(self, file: InstructionFile, text: str) -> Iterator[tuple[InstructionFile, str]]:
        """Yield the files that *text* names by `@path`, and those that they name, with texts."""
        yield from self._imported(file, text, {real_path(file.path)}, _HOPS_MAX)

    def _imported(
        self, file: InstructionFile, text: str, seen: set[Path], hops: int
    ) -> Iterator[tuple[InstructionFile, str]]:
        if not hops or "@" not in text:
            return
        session = SessionFolders.of(self.directory)
        for found in _IMPORT.finditer(_CODE.sub("", text)):
            name = found[1].replace("\\ ", " ").rstrip(".,;:!?)")
            path = file.path.parent / Path(name).expanduser() if name else None
            if path is None or not paths.is_file(path) or real_path(path) in seen:
                continue
            seen.add(real_path(path))
            is_users = file.source == "user" and not author_of(path, session).author.is_stranger
            imported = InstructionFile(path, "user" if is_users else "repository")
            its_text = self.text_of(imported)
            yield imported, its_text
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
        return ""


def _files_of(folder: Path) -> list[Path]:
    found = [folder / name for name in _NAMES]
    if paths.is_file(found[0]):
        found.remove(folder / _AGENTS)
    return [*found, *_rules_in(folder / RULES)]


def _rules_in(folder: Path) -> list[Path]:
    if not paths.is_dir(folder):
        return []
    from agent_cli.prompt_files.folders import nested_markdown_files  # noqa: PLC0415 - rare

    return [*nested_markdown_files(folder)][:_RULES_MAX]


def _matches(patterns: Sequence[str], path: PurePath) -> bool:
    from agent_cli.system.path_patterns import path_patterns  # noqa: PLC0415 - rare

    try:
        return path_patterns([f"/{each.lstrip('/')}" for each in patterns]).match_file(str(path))
    except (ValueError, re.error):
        return False
