"""Let the user change a waiting call: the file it would leave, one field of its input, or all.

The tool itself says what file it would leave, so that line ends and byte order marks are as it
writes them. A notebook is no such file: its edits name cells and not the text of the file.
"""

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias, TypeVar

from agent_cli.contracts.dialogs import first_answer
from agent_cli.contracts.errors import ToolError, UsageError
from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import FileContents, Tool, check_input
from agent_cli.core.foresight import foreseen_error
from agent_cli.system.alignment import Block, align, grouped
from agent_cli.system.records import dataclass
from agent_cli.system.sanitize import reveal
from agent_cli.terminal.planned_change import PlannedChange, file_text, has_only_crlf, written_by

_NOTEBOOK_SUFFIX: Final = ".ipynb"
_BOM: Final = "\ufeff"
_AROUND: Final = 3  # lines before and behind a change; a question shows fewer
_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class ProposedFile:
    """A text file as a call would leave it.

    Attributes:
        arguments: The input of the call; it has `content` or `edits`.
        before: The text of the file now; None if there is none.
        text: Its text after the call.
    """

    tool: Tool
    arguments: Mapping[str, Json]
    path: Path
    before: str | None
    text: str

    @property
    def change(self) -> PlannedChange | None:
        """The change of the file; None if the input may ask for more than that."""
        match self.arguments:
            case {"path": str(path), "content": _, **rest} if not rest:
                pass
            case {"path": str(path), "edits": _, **rest} if not rest:
                pass
            case _:
                return None
        return PlannedChange(path, self.before or "", self.text, is_new=self.before is None)

    @property
    def is_outdated(self) -> bool:
        """Whether the file has changed, for edits where a question shows it; a log may grow."""
        now = file_text(self.path)
        if now is None or self.before in (None, now) or "edits" not in self.arguments:
            return now != self.before
        lines, old, new = (each.splitlines(True) for each in (now, self.before or "", self.text))
        shown = (
            slice(group[0].a_start, group[-1].a_end)
            for group in grouped(align(old, new), around=_AROUND)
        )
        return any(lines[part] != old[part] for part in shown)

    async def input_leaving(self, saved: str) -> Json:
        """Return an input for the call that leaves exactly *saved*.

        A change of the file since `proposed_file` is for the tool to find when it runs.

        Raises:
            UsageError: There is none.
        """
        name = reveal(self.path.name)
        if saved == self.before:
            raise UsageError(f"not run: what you saved is {name} as it is; say no to leave it so")
        error = ""
        for arguments in self._candidates(saved):
            left, error = await _left(self.tool, arguments, self.path, before=self.before)
            if left == saved.encode():
                return arguments
        why = error or f"{self.tool.name} cannot leave {name} with these line ends and encoding"
        raise UsageError(f"not run: {reveal(why)}")

    def _candidates(self, saved: str) -> Iterator[dict[str, Json]]:
        """Return inputs that may leave *saved*, the shortest first."""
        if "edits" not in self.arguments:
            yield {**self.arguments, "content": saved}
            # The tool puts the byte order mark of the old file before the content.
            yield {**self.arguments, "content": saved.removeprefix(_BOM)}
            return
        old, new = (self.before or "").splitlines(keepends=True), saved.splitlines(keepends=True)
        blocks, around = align(old, new), 0
        while True:
            # With more lines around it, a text that stands in several places becomes unique.
            groups = grouped(blocks, around=around)
            yield {**self.arguments, "edits": [_edit(old, new, group) for group in groups]}
            if around >= max(len(old), len(new)):
                return
            around = 2 * around + 1


async def proposed_file(call: ToolCall, tools: Sequence[Tool]) -> ProposedFile | None:
    """Return the file that *call* would leave.

    Returns:
        None if the call neither edits nor writes a file, can only fail, or leaves a file that is
        too large or not UTF-8.
    """
    path = written_by(call.name, call.input, tools)
    tool = next((tool for tool in tools if tool.name == call.name), None)
    arguments = call.arguments
    if path is None or tool is None or tool.foresee is None:
        return None
    if arguments.keys().isdisjoint(("content", "edits")):
        return None
    if "edits" in arguments and path.suffix == _NOTEBOOK_SUFFIX:
        return None
    before = file_text(path)
    if before is None and path.exists():
        return None
    left, _ = await _left(tool, call.input, path)
    try:
        text = None if left is None else left.decode()
    except UnicodeDecodeError:
        return None
    if text is None or "\0" in text:
        return None
    return ProposedFile(tool, arguments, path, before, text)


def outdated(files: Mapping[int, ProposedFile | None]) -> list[str]:
    """Return the names of *files* that have changed since, as by another agent's allowed edit."""
    found = [file for file in files.values() if file and file.is_outdated]
    return [*dict.fromkeys(reveal(file.path.name) for file in found)]


async def failures(files: Mapping[int, ProposedFile | None]) -> dict[int, str]:
    """Return the errors of the calls that can only fail since their file has changed."""
    found = {n: file for n, file in files.items() if file and file.is_outdated}
    errors = {n: (await _left(x.tool, {**x.arguments}, x.path))[1] for n, x in found.items()}
    return {number: error for number, error in errors.items() if error}


async def unless_outdated(
    files: Mapping[int, ProposedFile | None], question: Callable[[], Awaitable[_Answer]]
) -> _Answer | None:
    """Return the answer to *question*; None, and it is closed, when one of *files* changes."""
    answer = await first_answer(question, lambda: outdated(files) or None)
    return None if isinstance(answer, list) else answer


async def _left(
    tool: Tool, arguments: Json, path: Path, *, before: str | None = None
) -> tuple[bytes | None, str]:
    """Return the content of *path* after a call, if it is certain, and the error of the call.

    Args:
        before: The text of the file before the call; None for what is on the disk.
    """
    contents: FileContents = {} if before is None else {str(path): before.encode()}
    try:
        error = await foreseen_error(tool, check_input(tool, arguments), [str(path)], contents)
    except ToolError as fault:
        return None, str(fault)
    return contents.get(str(path)), error


def _edit(old: Sequence[str], new: Sequence[str], group: Sequence[Block]) -> Json:
    """Return the edit that makes the changes of *group*, among the lines *old*, as in *new*."""
    return {
        "old": "".join(old[group[0].a_start : group[-1].a_end]),
        "new": "".join(new[group[0].b_start : group[-1].b_end]),
    }


# (text, suffix of the file's name) -> the saved text
Editor: TypeAlias = Callable[[str, str], Awaitable[str]]
_FIELDS: Final = {"command": ".sh", "content": ".txt"}


async def edited_input(call: ToolCall, tools: Sequence[Tool], editor: Editor) -> Json:
    """Let the user edit *call*: the file it would write, one field of its input, or all of it.

    Returns:
        The whole input, valid for its tool; None if it is unchanged or empty.

    Raises:
        UsageError: The saved text is not a valid input of the tool.
    """
    file = await proposed_file(call, tools)
    field, ending, text = ("", file.path.suffix, file.text) if file else _opened(call.input)
    saved = _as_before(await editor(text, ending), text)
    if not saved.strip() or saved == text:
        return None
    if file:
        return await file.input_leaving(saved)
    content = (
        {**call.input, field: saved} if isinstance(call.input, dict) and field else _json(saved)
    )
    _require_valid(call.name, content, tools)
    return content


def edited_part(call: ToolCall, file: ProposedFile | None) -> str:
    """Return a word for the part of *call* that the editor opens; *file* is its `proposed_file`."""
    if file:
        return "file"
    return _opened(call.input)[0] or "input"


def _opened(content: Json) -> tuple[str, str, str]:
    """Return the part of an input to edit: its field ("" for all), file suffix, text."""
    for field, ending in _FIELDS.items():
        if isinstance(content, dict) and isinstance(value := content.get(field), str):
            return field, ending, value
    return "", ".json", json.dumps(content, ensure_ascii=False, indent=2)


def _as_before(saved: str, text: str) -> str:
    """Return *saved* without what an editor changes by itself in *text*: its line ends."""
    end = "\r\n" if has_only_crlf(text) else "\n"
    if "\r" not in saved:
        saved = saved.replace("\n", end)
    if not text.endswith("\n"):  # editors add a final newline, which does not count as a change
        saved = saved.removesuffix(end)
    return saved


def _json(saved: str) -> Json:
    try:
        content: Json = json.loads(saved)
    except ValueError as error:
        raise UsageError(f"not run: what you saved is not valid JSON ({error})") from error
    return content


def _require_valid(name: str, content: Json, tools: Sequence[Tool]) -> None:
    for tool in (tool for tool in tools if tool.name == name):
        try:
            check_input(tool, content)
        except ToolError as error:
            raise UsageError(f"not run: what you saved does not fit {name}: {error}") from error
