"""Match lines of a command's output against a regular expression, in linear time.

ripgrep does the matching, as in `grep`: Python's `re` can take for ever with a model's pattern.
"""

import asyncio
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from agent_cli.contracts.errors import ToolError
from agent_cli_tools.environment import command_environment
from agent_cli_tools.output import without_escapes

_LIMIT_S: Final = 10.0
_BYTES_AT_ONCE: Final = 4 * 1024 * 1024
_FOUND_NONE: Final = 1


class LinePattern:
    """A regular expression, and its position in one growing file."""

    def __init__(self, regex: str, ripgrep: Sequence[str]) -> None:
        """Search nothing yet; *ripgrep* is the command line to which options are added."""
        self._regex = regex
        self._ripgrep = ripgrep
        self._offset = 0

    async def check(self) -> None:
        """Raise `ToolError` if this is not a regular expression."""
        await asyncio.to_thread(self._numbers, "", "--max-count=1")

    async def numbers(self, lines: Sequence[str]) -> list[int]:
        """Return the indexes of the matching *lines*.

        Raises:
            ToolError: This is not a regular expression.
        """
        return await asyncio.to_thread(self._numbers, "\n".join(lines))

    async def first_match(self, log: Path) -> str:
        """Return the first matching line of *log* behind those searched before.

        An incomplete last line is searched, and again when it has grown, because a program may wait
        after a prompt. "" means that none matches, or that *log* cannot be read.
        """
        try:
            return await asyncio.to_thread(self._first_match, log)
        except (OSError, ToolError):  # searched again with the next output
            return ""

    def _first_match(self, log: Path) -> str:
        with log.open("rb") as file:
            while True:
                file.seek(self._offset)
                data = file.read(_BYTES_AT_ONCE)
                lines = without_escapes(data.decode("utf-8", "replace")).split("\n")
                if found := self._numbers("\n".join(lines), "--max-count=1"):
                    return lines[found[0]].strip()
                whole = data.rfind(b"\n") + 1
                if len(data) < _BYTES_AT_ONCE:
                    self._offset += whole
                    return ""
                self._offset += whole or len(data)  # one line may be longer than that

    def _numbers(self, text: str, *options: str) -> list[int]:
        arguments = ["--text", "--color=never", "--line-number", "--replace=", "--only-matching"]
        command = [*self._ripgrep, *arguments, *options, f"--regexp={self._regex}", "-"]
        try:
            ran = subprocess.run(
                command,
                input=text.encode(errors="replace"),
                capture_output=True,
                check=False,
                timeout=_LIMIT_S,
                env=command_environment(),
            )
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            raise ToolError(f"The pattern could not be tried: {error}.") from error
        if ran.returncode > _FOUND_NONE:
            message = ran.stderr.decode("utf-8", "replace").strip()
            raise ToolError(f"This pattern is no regular expression: {message}")
        numbers = (line.partition(b":")[0] for line in ran.stdout.splitlines())
        return sorted({int(number) - 1 for number in numbers})
