"""Hold folding against the real output of runners, builds, installers and linters.

`command_outputs/` has one output a file, as the program wrote it, less the names of a machine's
folders and of hosts. Rules may be written with the half `tuned`; the half `held out` only measures.
"""

import gzip
import hashlib
import re
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from agent_cli_tools.output import OutputBuffer, without_escapes
from tests.tools.test_output import Spills

OUTPUTS: Final = {
    path.name.removesuffix(".txt.gz"): path
    for path in sorted(Path(__file__).with_name("command_outputs").glob("*.txt.gz"))
}
FEWER_SHARE_MIN: Final = 0.6
# Long enough that no output is cut to an excerpt: here only folding leaves something out.
RESULT_CHARS_MAX: Final = 1_000_000

# How programs say that something went wrong: written apart from the rules of folding.
FAILURE: Final = re.compile(
    r"(?:^|[\s:\[(])(?:fatal |internal |npm |go: )?(?:error|warning|fatal|failed|failure)"
    r"(?:\[\w+\]| TS\d+)?(?:!|:| in )"
    r"|\b[1-9]\d* (?:failed|failing|failures?|errors?|problems?|warnings?)\b"
    r"|(?:^|\s)(?-i:FAIL|FAILED|ERROR|ERR!|npm error|not ok|Traceback)\b|panicked at|\*\*\*"
    r"|^\w[\w.]*(?-i:Error|Exception|Warning)\b|^E  |[✕✗✖×]|^ +\d+\) "
    r"|: .*(?:no such|not found|cannot|permission denied|undefined reference|unresolved import)\b"
    r"|^\S+:\d+:\d+: ",
    re.IGNORECASE,
)
# A line that itself says that a test or a request went well, whatever the test is called.
SUCCESS: Final = re.compile(
    r"(?:PASSED|XFAIL|SKIPPED)\b|(?:\.\.\. |^ok \d+ |^ *(?:# )?(?:[✓✔] ?))(?:ok|\S)|\bPASS\b"
    r"|^npm http (?:fetch|cache)\b"
)


def half_of(name: str) -> str:
    digest = hashlib.sha256(name.encode()).digest()
    return "held out" if digest[-1] % 2 else "tuned"


@cache
def original(name: str) -> str:
    return gzip.decompress(OUTPUTS[name].read_bytes()).decode()


def folded_output(name: str, folder: Path) -> str:
    files = folder / name
    files.mkdir()
    buffer = OutputBuffer(Spills(files), result_chars_max=RESULT_CHARS_MAX, folds=True)
    buffer.add(original(name).encode())
    return buffer.final_text()


def failures(text: str) -> list[str]:
    lines = re.split(r"[\r\n]+", without_escapes(text))
    return [line for line in lines if FAILURE.search(line) and not SUCCESS.search(line)]


def stands_in(line: str, shown: str) -> bool:
    """Return whether *shown* says *line*: as it is, or its place and text below the file's name."""
    plain = " ".join(line.split())
    if plain in shown:
        return True
    place = re.match(r"(?:(\S+?)[:(])?(\d+(?:[:,]\d+)?)(?:\)|:)?:?(?: - )? ?(.+)", plain)
    return place is not None and all(part in shown for part in place.groups() if part)


@pytest.mark.parametrize("half", ["tuned", "held out"])
def test_real_outputs_lose_three_fifths_of_their_characters(half: str, tmp_path: Path) -> None:
    """Of the whole; many small ones have nothing to fold."""
    names = [name for name in OUTPUTS if half_of(name) == half]
    before = sum(len(original(name)) for name in names)
    after = sum(len(folded_output(name, tmp_path)) for name in names)

    assert len(names) >= 30
    assert 1 - after / before >= FEWER_SHARE_MIN, f"{half}: {before:,} to {after:,} characters"


def test_no_line_about_a_failure_is_lost(tmp_path: Path) -> None:
    """In both halves; the rule for such a line is none of folding's own."""
    for name in OUTPUTS:
        shown = " ".join(folded_output(name, tmp_path).split())

        lost = [line for line in failures(original(name)) if not stands_in(line, shown)]
        assert lost == [], name


def test_the_outputs_hold_many_failures() -> None:
    """So that the test above can fail."""
    with_failures = [name for name in OUTPUTS if failures(original(name))]

    assert len(with_failures) >= 30
    assert sum(len(failures(original(name))) for name in with_failures) >= 1_000
