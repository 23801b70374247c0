"""Markdown in 20-byte deltas at 20 frames a second: linearity of the work, and bytes written.

Bars: ten times the text, at most 11 times the CPU time; bytes written at most 4 times the text.
260 deltas a second arrive, so a frame shows 13 of them.
"""

import time
from statistics import mean, median

from agent_cli.repl.markdown import THEMES, MarkdownStream
from tests.repl.markdown.documents import SINGLES, deltas, mixed, single
from tests.repl.markdown.painter import play

WIDTH = 100


def measure(text: str, width: int = WIDTH) -> tuple[float, int]:
    """Return CPU seconds and bytes written."""
    written = 0

    def write(frame: str) -> None:
        nonlocal written
        written += len(frame.encode())

    pieces = deltas(text)
    begun = time.process_time()
    play(MarkdownStream(width, THEMES["dark"]), pieces, write, width=width)
    return time.process_time() - begun, written


def growth(small: str, large: str, *, rounds: int = 3) -> tuple[float, float]:
    """Return the CPU time of *large* as a multiple of the small text's, and in seconds.

    The speed of a shared machine changes from second to second: each large text is compared with
    small ones right before and after it, and the median of some rounds is used.
    """
    ratios: list[float] = []
    seconds: list[float] = []
    for _ in range(rounds):
        around = [measure(small)[0] for _ in range(5)]
        seconds.append(measure(large)[0])
        around += [measure(small)[0] for _ in range(5)]
        ratios.append(seconds[-1] / mean(around))
    return median(ratios), min(seconds)


def show(name: str, small: str, large: str) -> None:
    ratio, large_s = growth(small, large)
    share = measure(large)[1] / len(large.encode())
    print(
        f"{name:10} 1 MB {large_s:5.2f} s   growth {ratio:4.1f} (bar: 11)   "
        f"bytes {share:4.2f} x the text (bar: 4)",
        flush=True,
    )


def main() -> None:
    measure(mixed(20_000))  # imports
    show("mixed", mixed(100_000), mixed(1_000_000))
    for width in (40, 80, 200):
        text = mixed(100_000)
        share = measure(text, width)[1] / len(text.encode())
        print(f"mixed, {width} columns: bytes {share:4.2f} x the text")
    for kind in SINGLES:
        show(kind, single(kind, 100_000), single(kind, 1_000_000))


if __name__ == "__main__":
    main()
