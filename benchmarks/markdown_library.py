"""Our streaming Markdown beside markdown-it-py, which reparses the open block for each frame.

The library's column is a lower bound: it parses only. Wrapping, highlighting and drawing, included
in our column, are not in it. Bars: none; the figures are for docs/decisions/streaming-markdown.md.
"""

import time

from markdown_it import MarkdownIt

from agent_cli.repl.markdown import THEMES, MarkdownStream
from tests.repl.markdown.documents import SINGLES, deltas, mixed, single

WIDTH = 100
DELTAS_A_FRAME = 13
TAIL_ROWS = 40


def ours(text: str) -> float:
    """Return the CPU seconds of parsing, wrapping and styling, a tail each frame included."""
    stream = MarkdownStream(WIDTH, THEMES["dark"])
    begun = time.process_time()
    for number, delta in enumerate(deltas(text)):
        stream.feed(delta)
        if number % DELTAS_A_FRAME == 0:
            stream.tail(TAIL_ROWS)
    stream.finish()
    return time.process_time() - begun


def library(text: str) -> float:
    """Return the CPU seconds of parsing the unfinished part, once a frame."""
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    open_text = ""
    begun = time.process_time()
    for number, delta in enumerate(deltas(text)):
        open_text += delta
        if number % DELTAS_A_FRAME:
            continue
        blocks = [token for token in parser.parse(open_text) if token.level == 0 and token.map]
        starts = sorted({token.map[0] for token in blocks if token.map})
        if len(starts) > 1:  # all but the last block are finished
            open_text = "".join(open_text.splitlines(keepends=True)[starts[-1] :])
    parser.parse(open_text)
    return time.process_time() - begun


def main() -> None:
    """Print CPU seconds for 100 kB of each kind of document."""
    ours(mixed(5_000))  # imports
    library(mixed(5_000))
    documents = {"mixed": mixed(100_000)} | {kind: single(kind, 100_000) for kind in SINGLES}
    print(f"{'100 kB of':12} {'ours':>8} {'library, parsing only':>22} {'ratio':>7}")
    for name, text in documents.items():
        mine, theirs = ours(text), library(text)
        print(f"{name:12} {mine:7.2f}s {theirs:21.2f}s {theirs / mine:6.1f}x", flush=True)


if __name__ == "__main__":
    main()
