"""The paths that a tool declares to read and write in one call."""

from collections.abc import Sequence
from dataclasses import replace

from agent_cli.contracts.errors import ToolError
from agent_cli.contracts.tooling import Tool
from agent_cli.system.logger import logger, traceback_of

_log = logger(__name__)


def declared_paths(tool: Tool, params: object) -> tuple[Sequence[str], Sequence[str]]:
    """Return the paths that *tool* reads and writes with *params*.

    Raises:
        ToolError: Its own function failed.
    """
    try:
        return tool.reads(params), tool.writes(params)
    except (Exception, SystemExit) as error:
        _log.error("paths of a call are unknown", tool=tool.name, exception=traceback_of(error))
        raise ToolError(f"{tool.name} cannot tell which files it would touch: {error}") from error


def with_fixed_paths(tool: Tool) -> Tool:
    """Return *tool* with paths that stay the same for the same input.

    The policy decides about them, and the call may use no others: a symlink may change meanwhile.
    """
    known: list[tuple[object, Sequence[str], Sequence[str]]] = []

    def paths(params: object) -> tuple[Sequence[str], Sequence[str]]:
        for earlier, *found in known:
            if earlier == params:
                return found[0], found[1]
        known.append((params, tool.reads(params), tool.writes(params)))
        return known[-1][1:]

    def reads(params: object) -> Sequence[str]:
        return paths(params)[0]

    def writes(params: object) -> Sequence[str]:
        return paths(params)[1]

    return replace(tool, reads=reads, writes=writes)
