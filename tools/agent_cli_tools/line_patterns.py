"""Find lines of a command's output by a regular expression, in time that grows with them only.

ripgrep looks, as in `grep`: Python's `re` can take for ever with a pattern of the model's.
"""

import asyncio
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from agent_cli.contracts.errors import ToolError
from agent_cli_tools.environment import command_environment
from agent_cli_tools.readable import without_escapes

_LIMIT_S: Final = 10.0
_BYTES_AT_ONCE: Final = 4 * 1024 * 1024
_FOUND_NONE: Final = 1


class LinePattern:
    """A regular expression, and how much of one growing file it was tried on."""

    def __init__(self, regex: str, ripgrep: Sequence[str]) -> None:
        """Try nothing yet; *ripgrep* is the command line to which options are added."""
        self._regex = regex
        self._ripgrep = ripgrep
        self._offset = 0

    async def check(self) -> None:
        """Raise `ToolError` if this is no regular expression."""
        await asyncio.to_thread(self._numbers, "", "--max-count=1")

    async def numbers(self, lines: Sequence[str]) -> list[int]:
        """Return which of *lines* match, counted from 0.

        Raises:
            ToolError: This is no regular expression.
        """
        return await asyncio.to_thread(self._numbers, "\n".join(lines))

    async def first_match(self, log: Path) -> str:
        """Return the first line of *log* that matches, behind those that were tried before.

        The last line is tried before it is complete, and again when it has grown: a program may
        wait behind a question. "" means that none matches, or that *log* cannot be read.
        """
        try:
            return await asyncio.to_thread(self._first_match, log)
        except (OSError, ToolError):  # tried again with the next output
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
            told = ran.stderr.decode("utf-8", "replace").strip()
            raise ToolError(f"This pattern is no regular expression: {told}")
        numbers = (line.partition(b":")[0] for line in ran.stdout.splitlines())
        return sorted({int(number) - 1 for number in numbers})
