"""Stdout of one run: its answer in the text format, else JSON that ends with its result."""

import sys
from collections.abc import Awaitable, Callable

from agent_cli.contracts.events import Event
from agent_cli.contracts.timeline import Json
from agent_cli.headless.options import OutputFormat
from agent_cli.headless.report import RunReport, to_json, to_line
from agent_cli.system.event_loop import in_background
from agent_cli.terminal.writer import Writer


class RunOutput:
    """What one run prints; nothing is printed twice.

    Attributes:
        failure: The error of a write, such as of a full disk.
        has_answered: Whether the answer is printed whole, in the text format.
    """

    def __init__(self, output_format: OutputFormat, writer: Writer) -> None:
        """Print nothing yet."""
        self.failure: OSError | None = None
        self.has_answered = False
        self._format = output_format
        self._writer = writer
        self._answering: Awaitable[None] | None = None

    @property
    def is_lost(self) -> bool:
        """Whether nobody reads what is printed from now on."""
        return bool(self.failure or self._writer.stdout_closed)

    def event(self, event: Event) -> None:
        """Print *event*, if the format has events."""
        if self._format == "stream-json":
            self._print_json(to_json(event))

    async def answer_early(self, text: Callable[[], str]) -> None:
        """Print the final answer in the text format; do not wait for a reader of a pipe.

        What is closed meanwhile, such as the session, is not kept open by a slow reader.
        """
        if self._format != "text":
            return  # the result reports the closing as well
        self._answering = in_background(lambda: self._print_answer(text()))
        if sys.stdout.isatty():  # notices of the closing may follow in the same window
            await self._answering

    async def end(self, text: Callable[[], str], report: RunReport) -> None:
        """Print the result, or an answer that is not printed yet, and wait for its reader."""
        if self._answering:
            await self._answering
        elif self._format == "text":
            self._print_answer(text())
        else:
            self._print_json(report.to_json())

    def _print_answer(self, text: str) -> None:
        try:
            self._writer.answer(text)
            self._writer.end_answer()
        except OSError as error:
            self.failure = error
        else:
            self.has_answered = True

    def _print_json(self, shown: dict[str, Json]) -> None:
        try:
            self._writer.answer(to_line(shown) + "\n")
        except OSError as error:
            self.failure = error
