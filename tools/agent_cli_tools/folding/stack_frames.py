"""Leave out the middle of a run of library frames in a stack trace; own frames stay; pure."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

_FRAMES_MIN: Final = 4
_LIBRARY: Final = re.compile(
    # Node, Java and .NET, Ruby, Rust
    r"[#\s]+at .*(?:\(|\b|file://)(?:node:|internal/|\S*/node_modules/)"
    r"|\s+at (?:java\.base/|java\.|javax\.|jdk\.|sun\.|com\.sun\.|org\.junit\.|org\.testng\."
    r"|junit\.|org\.apache\.maven\.|org\.gradle\.|org\.springframework\.|kotlin|scala\."
    r"|org\.mockito\.|org\.hibernate\.|io\.netty\.|System\.|Microsoft\.|Xunit\.|NUnit\.)"
    r"|\s*(?:# |from )\S*/gems/"
    r"|\s+at /rustc/|\s+\d+: (?:core|std|alloc|test|__libc\w*|rust_begin_unwind|_start)\b"
)
_PYTHON: Final = re.compile(
    r'\s*File "[^"]*(?:/site-packages/|/dist-packages/|/lib/python3|<frozen )[^"]*", line \d+'
)
_PYTHON_ANY: Final = re.compile(r'\s*File "[^"]*", line \d+')


def without_library_frames(lines: Sequence[str]) -> Iterator[str]:
    """Yield *lines* with the first and the last frame of each run of library frames."""
    at = 0
    while at < len(lines):
        frames = list(_frames(lines, at))
        if len(frames) < _FRAMES_MIN:
            yield lines[at]
            at += 1
            continue
        yield from lines[at : frames[0]]
        yield f"[{len(frames) - 2} frames of libraries]"
        yield from lines[frames[-2] : frames[-1]]
        at = frames[-1]


def _frames(lines: Sequence[str], at: int) -> Iterator[int]:
    """Yield where each library frame of the run at *at* ends."""
    while at < len(lines):
        if _LIBRARY.match(lines[at]):
            at += 1
        elif _PYTHON.match(lines[at]):
            at += 1
            indent = len(lines[at - 1]) - len(lines[at - 1].lstrip())
            # The source of the frame, and what marks a part of it.
            while (
                at < len(lines)
                and lines[at][: indent + 1].isspace()
                and len(lines[at]) > indent
                and not _PYTHON_ANY.match(lines[at])
            ):
                at += 1
        else:
            return
        yield at
