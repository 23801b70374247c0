"""Find the calls that can only fail, before a person is asked about them.

An edit whose text is not in the file fails whatever the person answers. But an earlier call of the
same reply may still put that text there, so the files are taken as those calls will leave them.
Where that is not certain (a command runs first, or another agent is at work on the file), the
person is asked.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from agent_cli.contracts.errors import ToolError
from agent_cli.contracts.tooling import FileContents, Tool, ToolContext
from agent_cli.core.returned_values import bounded
from agent_cli.core.waits import InOrder, overlap
from agent_cli.system.logger import logger, traceback_of

if TYPE_CHECKING:
    from agent_cli.core.preflight import CheckedCall

_LIMIT_S: Final = 5.0
_log = logger(__name__)


class Foresight:
    """The files as the calls of one reply will leave them, as far as that is certain."""

    def __init__(self, tree: InOrder | None) -> None:
        """Start from the files on the disk; *tree* is the queue that all agents share."""
        self._tree = tree
        self._added: deque[CheckedCall] = deque()
        self._contents: FileContents = {}
        self._uncertain: list[str] = []
        self._is_all_uncertain = False

    def add(self, item: "CheckedCall") -> None:
        """Note that *item* comes next; its effect is computed only if a later call needs it."""
        self._added.append(item)

    async def failure(self, item: "CheckedCall") -> str:
        """Return the error that *item* ends with even if a person allows it; "" if it may succeed.

        The person may refuse the calls before it: it must fail both after them and without them.
        """
        if not (item.tool and item.tool.foresee and item.ask and item.ask.may_read):
            return ""
        while self._added:
            await self._follow(self._added.popleft())
        if not self._is_certain(item):
            return ""
        error = await _error(item, dict(self._contents))
        if error and any(path in self._contents for path in item.writes):
            return error if await _error(item, {}) else ""
        return error

    async def _follow(self, item: "CheckedCall") -> None:
        """Apply the changes that *item*, the next call, will make."""
        if item.tool is None:
            return
        if item.tool.foresee and self._is_certain(item):
            await _error(item, self._contents)
        elif item.tool.changes and not item.writes:
            self._is_all_uncertain = True
        else:  # a file that was read may be replaced, so reading counts too
            self._uncertain += (*item.reads, *item.writes)

    def _is_certain(self, item: "CheckedCall") -> bool:
        touched = (*item.reads, *item.writes)
        return not (
            self._is_all_uncertain
            or overlap(touched, self._uncertain)
            or (self._tree and self._tree.will_write(touched))
        )


async def _error(item: "CheckedCall", contents: FileContents) -> str:
    """Return the error of *item* with these *contents*, which it changes; "" if there is none."""
    assert item.tool
    return await foreseen_error(item.tool, item.params, (*item.reads, *item.writes), contents)


async def foreseen_error(
    tool: Tool, params: object, paths: Sequence[str], contents: FileContents
) -> str:
    """Return the error that a call of *tool* ends with; "" if there is none, or it is uncertain.

    Args:
        tool: It has a `foresee`.
        params: The checked input.
        paths: The files that the call may use.
        contents: What files hold before the call in place of what is on the disk, by path; gets
            what the call writes.
    """
    assert tool.foresee
    try:
        async with asyncio.timeout(_LIMIT_S):
            await tool.foresee(params, ToolContext(paths=tuple(paths)), contents)
    except ToolError as error:
        return bounded(str(error))
    except TimeoutError:
        pass  # The person is asked; the call has a limit of its own.
    except (Exception, SystemExit) as error:
        _log.error("call not foreseen", tool=tool.name, exception=traceback_of(error))
    return ""
