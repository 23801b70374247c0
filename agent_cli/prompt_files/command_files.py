"""Prompt commands defined by Markdown files.

`review.md` is `/review`, `team/review.md` is `/team:review`; a skill is `/NAME` as well. A file is
read when its command is used, so that the latest edit counts; a list of commands rereads only
changed files.
"""

import asyncio
import re
import shlex
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.prompt_commands import WrittenPrompt, without_scope
from agent_cli.prompt_files import (
    FILE_BYTES_MAX,
    model_name,
    nested_markdown_files,
    split_front_matter,
)
from agent_cli.prompt_files.skill_files import Skill, read_skill, skill_paths
from agent_cli.system import paths
from agent_cli.system.paths import real_path
from agent_cli.system.records import dataclass

FILES_MAX: Final = 200
SHIPPED: Final = ("/init", "/review")
"""Commands whose prompts the program comes with."""
_ENTRIES_MAX: Final = 1000
_HELP_CHARS_MAX: Final = 200
_NAME: Final = re.compile(r"\w[\w.-]{0,63}(:\w[\w.-]{0,63})*")
_FROM_ZERO: Final = r"(?<!\\)\$0(?!\w)"
_ARGUMENT_NAME: Final = r"[A-Za-z][\w-]*"
_NAMED_WORD: Final = r"(?s)([A-Z][A-Z0-9_]*)=(.*)"


Expanding: TypeAlias = Callable[[str, str, str, str], Awaitable[None]]
"""Checks the text of a command before it is sent: name, argument, source, text; may raise."""


async def unchecked(_name: str, _argument: str, _source: str, _text: str) -> None:
    """Accept the text of any command."""


class CommandFolder(NamedTuple):
    """A folder of commands.

    Attributes:
        source: The owner of the commands, in a word.
        inside: The directory its files must really be in; None for a folder of the user's own.
        refusal: The reason not to read any of its files, or "".
        objection: Returns the reason not to use the files just read, or "".
        holds_skills: Its commands are its skills.
        shelves: Where those must lie; see `SkillFolder`.
        prefix: The plugin that the commands are called after, as `/plugin:command`; "" for none.
        filling: Returns a text with that plugin's folder and its user's values.
        expanding: Raises `UsageError` if the text of a command must not be sent.
    """

    path: Path
    source: str
    inside: Path | None = None
    refusal: str = ""
    objection: Callable[[], str] = lambda: ""
    holds_skills: bool = False
    shelves: Sequence[Path] = ()
    prefix: str = ""
    filling: Callable[[str], str] = str
    expanding: Expanding = unchecked


@dataclass(frozen=True, slots=True)
class CommandFile:
    """A command; with a `problem` it cannot be used, without a `name` not even be typed."""

    folder: CommandFolder
    path: Path
    name: str
    help: str = ""
    argument: str = ""
    problem: str = ""

    @property
    def source(self) -> str:
        """The owner of the command."""
        return self.folder.source

    async def prompt(self, argument: str) -> WrittenPrompt:
        """Return the current text of the file with *argument* filled in, and the model it names.

        Raises:
            UsageError: The file cannot be read, or must not be used any more.
        """
        written = await asyncio.to_thread(self._written, argument)
        await self.folder.expanding(self.name, argument, self.source, written.text)
        return written

    def _written(self, argument: str) -> WrittenPrompt:
        is_skill = self.folder.holds_skills
        if is_skill:
            skill, body = _read_skill(self.folder, self.path)
            model, names = skill.model, skill.arguments
        else:
            fields, body = _read(self.folder, self.path)
            model, names = model_name(fields.get("model", "")), fields.get("arguments", "")
        body = self.folder.filling(body)
        if objection := self.folder.objection():
            raise UsageError(f"{self.path} is not used: {objection}")
        named = _names_in(names)
        return WrittenPrompt(filled(body, argument, named, is_skill=is_skill), model)


class CommandFiles:
    """The commands of several folders, earlier folders first."""

    def __init__(self, folders: Sequence[CommandFolder]) -> None:
        self._folders = folders
        self._known: dict[Path, tuple[object, CommandFile]] = {}

    def commands(self) -> list[CommandFile]:
        """Return all commands; the first of a name counts.

        Of skills with one name only the first is listed: folders of several agents hold copies.
        """
        found: list[CommandFile] = []
        skills: set[str] = set()
        for folder in self._folders:
            for command in self._commands_in(folder):
                if folder.holds_skills and command.name in skills:
                    continue
                if folder.holds_skills and not command.problem:
                    skills.add(command.name)
                found.append(command)
        return found

    def _commands_in(self, folder: CommandFolder) -> Iterator[CommandFile]:
        # Looked for at every key press: an untrusted folder may be a link to a whole disk.
        found: Iterable[Path] = (
            skill_paths(folder.path, entries_max=_ENTRIES_MAX)
            if folder.holds_skills
            else command_paths(folder.path)
        )
        stamps = {path: paths.stamp(path) for path in found}
        known = {path: self._known[path] for path in stamps if path in self._known}
        old = {path: command for path, (stamp, command) in known.items() if stamp == stamps[path]}
        new = {path: _described(folder, path) for path in stamps if path not in old}
        # Once for all files just read: it checks all acting files of the workspace.
        is_news = any(not command.problem for command in new.values())
        objection = folder.objection() if is_news else ""
        for path, stamp in stamps.items():
            command = old.get(path) or new[path]
            if path in new and objection and not command.problem:
                command = replace(command, problem=f"{path} is not used: {objection}")
            if not command.problem:  # a problem may be solved without a change of this file
                self._known[path] = stamp, command
            yield command


async def written_out(prompt: str, commands: Callable[[], Iterable[CommandFile]]) -> WrittenPrompt:
    """Return the prompt of the command at the start of *prompt*, or *prompt* if there is none.

    A file of the user's comes before a prompt that the program comes with.

    Args:
        commands: Returns all commands; reading a hundred files takes a twentieth of a one-shot
            run's CPU time, so it is called only for a prompt that may begin with one.

    Raises:
        UsageError: The command cannot be used.
    """
    if not prompt.startswith("/"):
        return WrittenPrompt(prompt)
    name, *behind = re.split(r"\s", prompt, maxsplit=1)
    known = [each for each in commands() if each.name]
    names = (name[1:], without_scope(name[1:]))
    command = next((each for text in names for each in known if each.name == text), None)
    argument = "".join(behind).strip()
    if command is not None:
        return await command.prompt(argument)
    if name not in SHIPPED:
        return WrittenPrompt(prompt)
    return WrittenPrompt(await asyncio.to_thread(shipped_prompt, name.removeprefix("/"), argument))


def name_of_no_command(prompt: str) -> str:
    """Return the name at the start of *prompt*, which is none's, if it reads like a command."""
    if not prompt.startswith("/"):
        return ""
    name = re.split(r"\s", prompt, maxsplit=1)[0]
    return "" if "/" in name[1:] or paths.exists(Path(name)) else name


def shipped_prompt(name: str, wish: str) -> str:
    """Return the prompt *name* that the program comes with, and what the user adds to it."""
    from importlib.resources import files  # rare, and it imports a dozen modules

    text = (files("agent_cli.prompts") / f"{name}.md").read_text("utf-8")
    return f"{text}\n{wish}".strip()


def command_paths(folder: Path) -> Iterator[Path]:
    """Yield the command files of *folder*, by path, up to a limit."""
    yield from islice(nested_markdown_files(folder), FILES_MAX)


def filled(body: str, argument: str, names: Sequence[str] = (), *, is_skill: bool = False) -> str:
    r"""Return *body* with *argument* for $ARGUMENTS, and its words for $1 to $9.

    $ARGUMENTS[0] is the first word too, and $0 in a text that has it, as Claude Code counts; a word
    may have one of *names*, or one of its own as in Codex (`FILE=a.py` for $FILE). Without a
    placeholder the argument comes last. In a skill it always does, since its text may only speak of
    $ARGUMENTS, and a $1 belongs to shell code. `\$1` is not a placeholder. Inserted text is not
    expanded again.
    """
    words = _words(argument)
    named = dict.fromkeys(names, "") | dict(zip(names, words, strict=False))
    named |= {found[1]: found[2] for word in words if (found := re.fullmatch(_NAMED_WORD, word))}
    first = 0 if is_skill or re.search(_FROM_ZERO, body) else 1
    ways = [r"ARGUMENTS\[(\d{1,2})\]", "ARGUMENTS", *([] if is_skill else [rf"[{first}-9]"])]
    ways += map(re.escape, sorted(named, key=len, reverse=True))
    placeholders = 0

    def value(found: re.Match[str]) -> str:
        nonlocal placeholders
        if found[1]:
            return found[0][1:]
        placeholders += 1
        if found[2] == "ARGUMENTS" or found[2] in named:
            return named.get(found[2], argument)
        at = int(found[3]) if found[3] else int(found[2]) - first
        return words[at] if at < len(words) else ""

    text = re.sub(rf"(\\?)\$({'|'.join(ways)})(?!\w)", value, body).strip()
    return f"{text}\n\n{argument}" if argument and (is_skill or not placeholders) else text


def _names_in(field: str) -> Sequence[str]:
    """Return the names that `arguments` of a front matter lists; none if it is a sentence.

    A word of a sentence is no placeholder: `$HOME` in a text belongs to shell code.
    """
    names = [word.strip("\"'") for word in re.split(r"[\s,\[\]]+", field) if word.strip("-")]
    is_list = all(re.fullmatch(_ARGUMENT_NAME, name) for name in names)
    return names if is_list and len({name.lower() for name in names}) == len(names) else ()


def _words(argument: str) -> list[str]:
    try:
        return shlex.split(argument)
    except ValueError:  # an unclosed quote, as in "don't"
        return argument.split()


def _described(folder: CommandFolder, path: Path) -> CommandFile:
    """Return the command in a file, or a command with the problem."""
    if folder.holds_skills:
        return _described_skill(folder, path)
    parts = path.relative_to(folder.path).with_suffix("").parts
    name = ":".join((folder.prefix, *parts) if folder.prefix else parts)
    if not _NAME.fullmatch(name):
        why = f"{path} is not a command: its name may hold letters, digits, dots, - and _ only"
        return CommandFile(folder, path, "", problem=why)
    try:
        fields, body = _read(folder, path)
    except UsageError as error:
        return CommandFile(folder, path, name, problem=str(error))
    first = next(line for line in body.splitlines() if line.strip()).lstrip("# ")
    return CommandFile(
        folder,
        path,
        name,
        help=fields.get("description", first)[:_HELP_CHARS_MAX],
        argument=fields.get("argument-hint", ""),
    )


def _described_skill(folder: CommandFolder, path: Path) -> CommandFile:
    try:
        skill, _ = _read_skill(folder, path)
    except UsageError as error:
        name = path.parent.name if _NAME.fullmatch(path.parent.name) else ""
        return CommandFile(folder, path, name, problem=str(error))
    name = f"{folder.prefix}:{skill.name}" if folder.prefix else skill.name
    return CommandFile(folder, path, name, help=skill.description[:_HELP_CHARS_MAX])


def _read_skill(folder: CommandFolder, path: Path) -> tuple[Skill, str]:
    """Return a skill and its text for the model.

    Raises:
        UsageError: The skill must not be read, or cannot be used.
    """
    _require_readable(folder, path)
    try:
        skill = read_skill(path, folder.shelves)
        return skill, skill.whole()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"skill {path} is not used: {reason}") from error


def _require_readable(folder: CommandFolder, path: Path) -> None:
    """Check that a file of *folder* may be read.

    Raises:
        UsageError: The file must not be read.
    """
    if folder.refusal:
        raise UsageError(f"{path} is not used: {folder.refusal}")
    if folder.inside and not real_path(path).is_relative_to(real_path(folder.inside)):
        raise UsageError(f"{path} is not used: it leads out of {folder.inside}")


def _read(folder: CommandFolder, path: Path) -> tuple[dict[str, str], str]:
    """Return the front matter and the text of a command.

    Raises:
        UsageError: The file must not be read, or cannot be used.
    """
    _require_readable(folder, path)
    try:
        with path.open("rb") as stream:
            raw = stream.read(FILE_BYTES_MAX + 1)
        text = raw.decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{path} is not used: it is not UTF-8 text") from error
    if len(raw) > FILE_BYTES_MAX:
        raise UsageError(f"{path} is not used: it has more than {FILE_BYTES_MAX // 1024} KB")
    fields, body = split_front_matter(text)
    if not body.strip():
        raise UsageError(f"{path} is not used: it is empty")
    return fields or {}, body
