"""A bar or a spinner for work that takes more than a second; on a pipe, nothing."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TextIO, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from agent_cli.terminal.sanitize import clean
from agent_cli.terminal.views.console import cell

T = TypeVar("T")


def tracked(items: Iterable[T], label: str, *, total: int, stream: TextIO) -> Iterator[T]:
    """Yield *items* while a bar on *stream* counts them; the bar is gone at the end."""
    if not stream.isatty():
        yield from items
        return
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    console = Console(file=stream, markup=False, emoji=False, highlight=False)
    with Progress(*columns, console=console, transient=True) as progress:
        yield from progress.track(items, total=total, description=clean(label))


@contextmanager
def working(label: str, stream: TextIO) -> Iterator[None]:
    """Show a spinner with *label* on *stream* while the body runs; it is gone at the end."""
    if not stream.isatty():
        yield
        return
    console = Console(file=stream, markup=False, emoji=False, highlight=False)
    with console.status(cell(label)):
        yield
