"""A bar or a spinner for work that takes more than a second; nothing on a pipe."""

import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import Final, TextIO, TypeVar

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

from agent_cli.system.sanitize import clean

T = TypeVar("T")

SHOWN_AFTER_S: Final = 1.0
"""Shorter work shows nothing: a bar would only flicker."""


def tracked(items: Iterable[T], label: str, *, total: int, stream: TextIO) -> Iterator[T]:
    """Yield *items* while a bar on *stream* counts them; remove the bar at the end."""
    with counting(label, total=total, stream=stream) as show:
        for done, item in enumerate(items, 1):
            yield item
            show(done)


@contextmanager
def counting(label: str, *, total: int, stream: TextIO) -> Generator[Callable[[int], None]]:
    """Show a bar on *stream* while the body runs; yield a function that takes the done count.

    The bar is removed at the end. There is none without items, or if *stream* is not a terminal.
    """
    if not stream.isatty() or not total:
        yield lambda _done: None
        return
    columns = TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn()
    with _shown_late(_progress(stream, *columns)) as progress:
        task = progress.add_task(clean(label), total=total)
        yield lambda done: progress.update(task, completed=done)


@contextmanager
def labelled(
    label: str, *, done: int, total: int, stream: TextIO
) -> Generator[Callable[[int, str, str], None] | None]:
    """Show a bar on *stream* while the body runs; yield None if *stream* is not a terminal.

    The function yielded takes the number of done items, the new label, and a line to print above
    the bar ("" prints none).
    """
    if not stream.isatty():
        yield None
        return
    columns = TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn()
    with _shown_late(_progress(stream, *columns)) as progress:
        task = progress.add_task(clean(label), total=total, completed=done)

        def show(done: int, label: str, line: str) -> None:
            if line:
                progress.console.print(clean(line))
            progress.update(task, completed=done, description=clean(label))

        yield show


@contextmanager
def working(label: str, stream: TextIO) -> Generator[None]:
    """Show a spinner with *label* on *stream* while the body runs; remove it at the end."""
    if not stream.isatty():
        yield
        return
    columns = SpinnerColumn(), TextColumn("{task.description}", markup=False)
    with _shown_late(_progress(stream, *columns)) as progress:
        progress.add_task(clean(label), total=None)
        yield


@contextmanager
def _shown_late(progress: Progress) -> Generator[Progress]:
    """Show *progress* from `SHOWN_AFTER_S` after the start of the body until its end."""
    timer = threading.Timer(SHOWN_AFTER_S, progress.start)
    timer.daemon = True
    timer.start()
    try:
        yield progress
    finally:
        timer.cancel()
        timer.join()
        if progress.live.is_started:
            progress.stop()


def _progress(stream: TextIO, *columns: ProgressColumn) -> Progress:
    """Return a display of *columns* on *stream*, without redirecting stdout and stderr."""
    console = Console(file=stream, markup=False, emoji=False, highlight=False)
    return Progress(
        *columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False
    )
