"""A bar or a spinner for work that takes more than a second; on a pipe, nothing."""

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import TextIO, TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

from agent_cli.terminal.sanitize import clean

T = TypeVar("T")


def tracked(items: Iterable[T], label: str, *, total: int, stream: TextIO) -> Iterator[T]:
    """Yield *items* while a bar on *stream* counts them; the bar is gone at the end."""
    with counting(label, total=total, stream=stream) as show:
        for done, item in enumerate(items, 1):
            yield item
            show(done)


@contextmanager
def counting(label: str, *, total: int, stream: TextIO) -> Generator[Callable[[int], None]]:
    """Show a bar on *stream* while the body runs; what is yielded takes the number of done items.

    The bar is gone at the end. Without items, or where *stream* is no terminal, there is none.
    """
    if not stream.isatty() or not total:
        yield lambda _done: None
        return
    columns = TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn()
    with _progress(stream, *columns) as progress:
        task = progress.add_task(clean(label), total=total)
        yield lambda done: progress.update(task, completed=done)


@contextmanager
def labelled(
    label: str, *, done: int, total: int, stream: TextIO
) -> Generator[Callable[[int, str, str], None] | None]:
    """Show a bar on *stream* while the body runs; yield None where *stream* is no terminal.

    The function yielded takes the number of done items, the new label, and a line to print above
    the bar ("" prints none).
    """
    if not stream.isatty():
        yield None
        return
    columns = TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn()
    with _progress(stream, *columns) as progress:
        task = progress.add_task(clean(label), total=total, completed=done)

        def show(done: int, label: str, line: str) -> None:
            if line:
                progress.console.print(clean(line))
            progress.update(task, completed=done, description=clean(label))

        yield show


@contextmanager
def working(label: str, stream: TextIO) -> Generator[None]:
    """Show a spinner with *label* on *stream* while the body runs; it is gone at the end."""
    if not stream.isatty():
        yield
        return
    with _progress(
        stream, SpinnerColumn(), TextColumn("{task.description}", markup=False)
    ) as progress:
        progress.add_task(clean(label), total=None)
        yield


def _progress(stream: TextIO, *columns: ProgressColumn) -> Progress:
    """Return what draws *columns* on *stream*; `sys.stdout` and `sys.stderr` stay what they are."""
    console = Console(file=stream, markup=False, emoji=False, highlight=False)
    return Progress(
        *columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False
    )
