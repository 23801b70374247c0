"""The file that a waiting edit or write would leave, for the user to change before it runs.

The tool itself says what it would leave, so that line ends and byte order marks are as it writes
them. It knows nothing of notebooks, whose edits name cells and not the text of the file.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from agent_cli.contracts.errors import ToolError, UsageError
from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import FileContents, Tool, check_input
from agent_cli.core.foresight import foreseen_error
from agent_cli.system.alignment import Block, align, grouped
from agent_cli.system.records import dataclass
from agent_cli.terminal.planned_change import PlannedChange, file_text, written_by
from agent_cli.terminal.sanitize import reveal

_NOTEBOOK_SUFFIX: Final = ".ipynb"
_BOM: Final = "\ufeff"


@dataclass(frozen=True, slots=True)
class ProposedFile:
    """A text file as a call would leave it.

    Attributes:
        given: The input of the call, with `content` or `edits`.
        before: The text of the file now; None if there is none.
        text: Its text after the call.
    """

    tool: Tool
    given: Mapping[str, Json]
    path: Path
    before: str | None
    text: str

    @property
    def change(self) -> PlannedChange | None:
        """The change of the file; None if the input may ask for more than that."""
        match self.given:
            case {"path": str(path), "content": _, **rest} if not rest:
                pass
            case {"path": str(path), "edits": _, **rest} if not rest:
                pass
            case _:
                return None
        return PlannedChange(path, self.before or "", self.text, is_new=self.before is None)

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
        for given in self._candidates(saved):
            left, error = await _left(self.tool, given, self.path, before=self.before)
            if left == saved.encode():
                return given
        why = error or f"{self.tool.name} cannot leave {name} with these line ends and encoding"
        raise UsageError(f"not run: {reveal(why)}")

    def _candidates(self, saved: str) -> Iterator[dict[str, Json]]:
        """Return inputs that may leave *saved*, the shortest first."""
        if "edits" not in self.given:
            yield {**self.given, "content": saved}
            # The tool puts the byte order mark of the old file before the content.
            yield {**self.given, "content": saved.removeprefix(_BOM)}
            return
        old, new = (self.before or "").splitlines(keepends=True), saved.splitlines(keepends=True)
        blocks, around = align(old, new), 0
        while True:
            # With more lines around it, a text that stands in several places becomes unique.
            groups = grouped(blocks, around=around)
            yield {**self.given, "edits": [_edit(old, new, group) for group in groups]}
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
    given = call.arguments
    if path is None or tool is None or tool.foresee is None or not {"content", "edits"} & {*given}:
        return None
    if "edits" in given and path.suffix == _NOTEBOOK_SUFFIX:
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
    return ProposedFile(tool, given, path, before, text)


async def _left(
    tool: Tool, given: Json, path: Path, *, before: str | None = None
) -> tuple[bytes | None, str]:
    """Return the content of *path* after a call, if it is certain, and the error of the call.

    Args:
        before: The text of the file before the call; None for what is on the disk.
    """
    contents: FileContents = {} if before is None else {str(path): before.encode()}
    try:
        error = await foreseen_error(tool, check_input(tool, given), [str(path)], contents)
    except ToolError as fault:
        return None, str(fault)
    return contents.get(str(path)), error


def _edit(old: Sequence[str], new: Sequence[str], group: Sequence[Block]) -> Json:
    """Return the edit that makes the changes of *group*, among the lines *old*, as in *new*."""
    return {
        "old": "".join(old[group[0].a_start : group[-1].a_end]),
        "new": "".join(new[group[0].b_start : group[-1].b_end]),
    }
