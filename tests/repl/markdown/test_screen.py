"""The final content of the terminal, read back from a VT emulator."""

import random

import pytest

from agent_cli.repl.markdown import THEMES, MarkdownStream
from agent_cli.repl.markdown.styles import folded
from tests.repl.markdown.documents import chunked, deltas, mixed, random_document
from tests.repl.markdown.painter import Painter, play, text_of
from tests.repl.markdown.screen import Terminal, printed
from tests.tables import each_row


def on_screen(rows: list[str], width: int) -> list[str]:
    """Return the text of *rows* as a terminal wraps it."""
    texts = [text_of(row) for row in rows]
    lines = [text[a:b].rstrip() for text in texts for a, b in folded(text, width)]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def stream_mixed(size: int, width: int) -> tuple[Terminal, list[str]]:
    terminal = Terminal(width)
    stream = MarkdownStream(width, THEMES["dark"])
    return terminal, play(stream, deltas(mixed(size)), terminal.write, width=width)


@each_row("width", [20, 40, 80, 200])
def test_scrollback_holds_exactly_the_finished_rows(width: int) -> None:
    """Nothing is lost, repeated or left over from the tail; neither text nor style."""
    terminal, rows = stream_mixed(6_000, width)

    assert terminal.lines() == on_screen(rows, width)
    assert terminal.cells() == printed(rows, width).cells()


@pytest.mark.slow
@pytest.mark.parametrize(("width", "size"), [(40, 100_000), (80, 1_000_000), (200, 100_000)])
def test_scrollback_of_a_long_answer_holds_exactly_the_finished_rows(width: int, size: int) -> None:
    """With the sizes of the benchmark; pyte takes a while to read them."""
    terminal, rows = stream_mixed(size, width)

    assert terminal.lines() == on_screen(rows, width)


def stream_resized(size: int, before: int, after: int) -> tuple[Terminal, list[str], list[str]]:
    """Stream, resize in the middle of a line, continue; return both parts of the rows."""
    terminal = Terminal(before)
    stream = MarkdownStream(before, THEMES["dark"])
    painter = Painter(terminal.write)
    parts = deltas(mixed(size))
    middle = len(parts) // 2
    early: list[str] = []
    for part in parts[:middle]:
        finished = stream.feed(part)
        painter.paint(finished, stream.tail(10), before)
        early += finished

    terminal.resize(after)
    stream.resize(after)
    painter.forget()

    late: list[str] = []
    for part in parts[middle:]:
        finished = stream.feed(part)
        painter.paint(finished, stream.tail(10), after)
        late += finished
    finished = stream.finish()
    painter.paint(finished, [], after)
    return terminal, early, late + finished


@each_row(("before", "after"), [(40, 80), (80, 200), (80, 40), (200, 80), (40, 20)])
def test_resizing_during_an_answer_keeps_finished_rows_unchanged(before: int, after: int) -> None:
    """The rest is wrapped to the new width. The emulator cuts rows where a terminal re-wraps."""
    terminal, early, late = stream_resized(6_000, before, after)

    expected = on_screen(early, before) + on_screen(late, after)
    seen = min(before, after)
    assert clipped(terminal.lines(), seen) == clipped(expected, seen)


def clipped(lines: list[str], width: int) -> list[str]:
    """Return the part of each line that fits into *width* cells."""
    return [line[slice(*next(folded(line, width)))].rstrip() for line in lines]


def check_random_document(seed: int) -> None:
    rng = random.Random(seed)
    width, height = rng.choice((20, 40, 80)), rng.choice((6, 12, 24))
    terminal = Terminal(width, height)
    stream = MarkdownStream(width, THEMES["dark"])

    rows = play(
        stream,
        chunked(random_document(rng), rng),
        terminal.write,
        width=width,
        per_frame=rng.randint(1, 10),
        tail_rows=rng.randint(1, height - 2),
    )

    assert terminal.cells() == printed(rows, width, height).cells(), f"seed {seed}"


def test_random_answers_leave_exactly_their_rows_in_the_scrollback() -> None:
    """A sample of the fuzzer below: documents, chunks, frames, widths, heights."""
    for seed in range(25):
        check_random_document(seed)


@pytest.mark.slow
def test_many_random_answers_leave_exactly_their_rows_in_the_scrollback() -> None:
    """Each has a seed, so that a failure can be run again."""
    for seed in range(1000, 2500):
        check_random_document(seed)
