"""Skills on disk: a folder each, with a SKILL.md whose front matter has name and description."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from agent_cli.prompt_files import (
    FILE_BYTES_MAX,
    entries_of,
    model_name,
    prompt_text,
    split_front_matter,
    why_undescribed,
)
from agent_cli.system.paths import NO_FILE, exists, is_file, is_special, real_path
from agent_cli.system.records import dataclass
from agent_cli.system.trees import walk

FILE = "SKILL.md"
# Case does not count on macOS, where skills written so work.
FILES = (FILE, "skill.md")
SKILLS_MAX = 100
FILES_MAX = 50
DESCRIPTION_CHARS_MAX = 300
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


class SkillFolder(NamedTuple):
    """A folder of skills.

    Attributes:
        path: The folder.
        shelves: Where its skills must lie, links followed; without them anywhere, as dotfiles do.
        plugin: The added plugin that it belongs to.
        filling: See `Skill.filling`.
        objection: See `Skill.objection`.
    """

    path: Path
    shelves: Sequence[Path] = ()
    plugin: str = ""
    filling: Callable[[str], str] = str
    objection: Callable[[], str] = str


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill: its name and description for the model, and the folder with its files.

    Attributes:
        model: The model for a prompt that names the skill: an alias or an id, "" for the usual one.
        arguments: The names of its words, as its front matter has them.
        is_users: Whether only the user may ask for it, as `disable-model-invocation` says.
        filling: Returns a text with the folder of its plugin and the values of the plugin's user.
        objection: Returns the reason not to use what was just read of it, or "".
    """

    name: str
    description: str
    folder: Path
    model: str = ""
    is_users: bool = False
    arguments: str = ""
    filling: Callable[[str], str] = str
    objection: Callable[[], str] = str

    def read(self, file: str = FILE) -> str:
        """Return a file of the skill; SKILL.md without its front matter.

        Raises:
            OSError: The file cannot be read.
            ValueError: The file is too large, a pipe, or not in the skill's folder; or the skill
                must not be used any more.
        """
        main = skill_file(self.folder)
        path = real_path(main if file == FILE else self.folder / file)
        # SKILL.md may be a link, and the other files too: then they lie side by side elsewhere.
        if not any(map(path.is_relative_to, (self.folder, real_path(main).parent))):
            raise ValueError(f"{file} is not in the folder of the skill")
        if is_special(path):
            raise ValueError("it is a named pipe, a device or a socket")
        text = self.filling(prompt_text(path)).replace("${CLAUDE_SKILL_DIR}", str(self.folder))
        if objection := self.objection():
            raise ValueError(objection)
        return split_front_matter(text)[1].strip() if file == FILE else text

    def whole(self) -> str:
        """Return the text for the model: SKILL.md, its folder, and the names of its other files.

        Raises:
            OSError: SKILL.md cannot be read.
            ValueError: SKILL.md is too large, or the skill must not be used any more.
        """
        text, others = self.read(), self.files()
        listed = f"\n\nOther files of this skill: {', '.join(others)}" if others else ""
        return f"[skill {self.name}, folder {self.folder}]\n{text}{listed}"

    def files(self) -> list[str]:
        """Return the other files of the folder, by path, up to a limit."""
        every = (Path(folder, name) for folder, _, names in walk(self.folder) for name in names)
        found = (path for path in every if is_file(path) and path.name not in FILES)
        return sorted(str(p.relative_to(self.folder)) for p in islice(found, FILES_MAX))


def find_skills(folders: Iterable[SkillFolder]) -> tuple[dict[str, Skill], list[str]]:
    """Return the skills in *folders* by name, and a sentence about each unusable one.

    The first skill of a name counts. One of a plugin whose name is taken is called `plugin:name`.
    """
    skills: dict[str, Skill] = {}
    problems: list[str] = []
    found = ((each, file) for each in folders for file in sorted(filter(exists, _named(each.path))))
    for folder, path in found:
        if len(skills) == SKILLS_MAX:
            problems.append(
                f"{path} and all after it are not used: the limit is {SKILLS_MAX} skills"
            )
            break
        try:
            skill = read_skill(path, folder.shelves)
            skill = replace(skill, filling=folder.filling, objection=folder.objection)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            problems.append(f"skill {path} is not used: {reason}")
            continue
        if folder.plugin and skill.name in skills:
            skill = replace(skill, name=f"{folder.plugin}:{skill.name}")
        skills.setdefault(skill.name, skill)
    # Once for all that were just read: it checks all acting files of the workspace.
    objections = {each: each() for each in {skill.objection for skill in skills.values()}}
    problems += (
        f"skills of this project are not used: {why}" for why in objections.values() if why
    )
    return {name: x for name, x in skills.items() if not objections[x.objection]}, problems


def skill_paths(folder: Path, *, entries_max: int | None = None) -> Sequence[Path]:
    """Return the SKILL.md files of *folder*, by path; with a limit, of so many entries."""
    return sorted(filter(is_file, islice(_named(folder, entries_max), entries_max)))


def _named(folder: Path, entries_max: int | None = None) -> Iterator[Path]:
    """Yield where a SKILL.md may be: in each subfolder, or one level below if it has none."""
    for entry in entries_of(folder, entries_max):
        file = skill_file(entry)
        yield file
        # Codex keeps skills of its own in a hidden folder.
        if not entry.name.startswith(".") and not exists(file):
            yield from map(skill_file, entries_of(entry, entries_max))


def skill_file(folder: Path) -> Path:
    """Return the file of *folder* that describes its skill, there or not."""
    return next(filter(exists, (folder / name for name in FILES)), folder / FILE)


def read_skill(path: Path, shelves: Sequence[Path] = ()) -> Skill:
    """Return the skill described by the file *path*; see `SkillFolder` for *shelves*.

    Raises:
        OSError: The file cannot be read.
        ValueError: The file is not a skill, or leads out of all *shelves*.
    """
    folder = real_path(path.parent)
    # Resolving a path takes ten times as long as asking whether it is a link, and most are none.
    file = real_path(path) if path.is_symlink() else folder / path.name
    if shelves and not any(map(file.is_relative_to, map(real_path, shelves))):
        raise ValueError("it leads out of its folder")
    if is_special(path):
        raise ValueError(NO_FILE)
    with path.open(encoding="utf-8-sig", errors="replace") as stream:
        text = stream.read(FILE_BYTES_MAX)
    fields, _ = split_front_matter(text)
    if fields is None:
        raise ValueError("it does not begin with front matter between two lines of ---")
    written, description = fields.get("name", ""), fields.get("description", "")
    # Published skills have titles there, such as "Hook Development": they are called by the folder.
    name = next(filter(_NAME.fullmatch, (written, path.parent.name)), "")
    if not name:
        named = written or path.parent.name
        raise ValueError(f"its name {named!r} may hold only lowercase letters, digits, - and _")
    if not description:
        raise ValueError(why_undescribed(text))
    model = model_name(fields.get("model", ""))
    is_users = fields.get("disable-model-invocation", "").lower() in ("true", "yes", "on", "1")
    named = fields.get("arguments", "")
    return Skill(name, description[:DESCRIPTION_CHARS_MAX], folder, model, is_users, named)
