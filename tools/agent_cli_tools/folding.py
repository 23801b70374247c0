"""Fold the parts of a command's output that cost much and say little; pure.

Progress drawn over itself becomes its last state, runs of equal lines one with a count, the steps
of an installation or a build their first and last, and of a test run what passed is left out
(passed_tests.py). A block that stands above already is named. Only lines known to report success
are ever left out, and what was listed because somebody asked for it (files, matches, findings) is
never folded.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from agent_cli.contracts.wording import counted
from agent_cli_tools.passed_tests import without_passed

# Less is not worth the note that says it, nor a file.
SAVED_CHARS_MIN: Final = 300
_EQUAL_MIN: Final = 3
_GROUP_MAX: Final = 16
# A state of a progress line that somebody wants to read although it was drawn over.
_TROUBLE: Final = re.compile(r"error|fail|fatal|warn|denied|abort|panic|except", re.IGNORECASE)
# Lines that stay wherever they stand again.
_FAILURE: Final = re.compile(
    r"FAIL|ERROR|panic|failed|^E   |^>  |\bassert|[Ee]rror\b|warning:|\bexit\b|Exception|Traceback"
)
_STEPS_MIN: Final = 4
_BLOCK_MIN: Final = 6
_BLOCK_CHARS_MIN: Final = 240
_NAME_CHARS_MAX: Final = 60


class Folded(NamedTuple):
    """A text, and what was folded in it: "12 states of progress lines"; "" for nothing."""

    text: str
    said: str = ""


def folded(text: str) -> Folded:
    """Return *text*, without escape sequences, folded; unchanged where that saves little."""
    last_states, states = _last_states(text)
    lines = last_states.split("\n")
    kept = without_passed(lines)
    passed = len(lines) - len(kept)
    quiet = list(_without_steps(kept))
    merged = list(_merged(quiet))
    # Elsewhere a text may be read: what it repeats belongs to it.
    is_log = len(quiet) < len(lines)
    told_once = list(_without_repeats(merged)) if is_log else merged
    result = "\n".join(told_once)
    if len(text) - len(result) < SAVED_CHARS_MIN:
        return Folded(text)
    counts = (
        (states, "state", "states", "of progress lines"),
        (passed, "line", "lines", "about passed tests"),
        (len(kept) - len(quiet), "line", "lines", "about steps that succeeded"),
        (len(quiet) - len(merged), "equal line", "equal lines", ""),
        (len(merged) - len(told_once), "line", "lines", "that stand above already"),
    )
    parts = [f"{counted(n, one, many)} {of}".rstrip() for n, one, many, of in counts if n]
    return Folded(result, ", ".join(parts))


def _last_states(text: str) -> tuple[str, int]:
    """Return *text* with each line as a terminal shows it in the end, and how many states went."""
    if "\r" not in text:
        return text, 0
    lines: list[str] = []
    gone = 0
    for line in text.replace("\r\n", "\n").split("\n"):
        states = [state for state in line.split("\r") if state.strip()]
        if len(states) < 2:
            lines.append(states[0] if states else "")
            continue
        kept = [state for state in dict.fromkeys(states[:-1]) if _TROUBLE.search(state)]
        lines += [*kept, states[-1]]
        gone += len(states) - 1 - len(kept)
    return "\n".join(lines), gone


def _merged(lines: list[str]) -> Iterator[str]:
    """Yield *lines* with each run of equal lines, or of equal groups of lines, once and a count."""
    ids: dict[str, int] = {}
    keys = [ids.setdefault(line, len(ids)) for line in lines]
    at = 0
    while at < len(lines):
        size, times = _repeats(keys, at)
        yield from lines[at : at + size]
        if size > 1:
            yield f"[the {size} lines above ×{times}]"
        elif times > 1 and lines[at].strip():
            yield f"[the line above ×{times}]"
        at += size * times


def _repeats(keys: list[int], at: int) -> tuple[int, int]:
    """Return the size of the group at *at* that is repeated at once, and how many times it stands.

    The smallest group that stands there three times; else the one line, once.
    """
    for size in range(1, min(_GROUP_MAX, (len(keys) - at) // _EQUAL_MIN) + 1):
        end = at + size
        while end < len(keys) and keys[end] == keys[end - size]:
            end += 1
        if (times := (end - at) // size) >= _EQUAL_MIN:
            return size, times
    return 1, 1


def _without_steps(lines: list[str]) -> Iterator[str]:
    """Yield *lines* with the first and the last of each run of steps, and the number between."""
    at = 0
    while at < len(lines):
        end = at
        while end < len(lines) and _is_step(lines[end]):
            end += 1
        if end == at:
            end = at + _counting(lines, at)
        if end - at < _STEPS_MIN:
            end = max(end, at + 1)
            yield from lines[at:end]
        else:
            yield lines[at]
            yield f"[{end - at - 2:,} lines like these]"
            yield lines[end - 1]
        at = end


def _is_step(line: str) -> bool:
    return bool(_STEP.match(line)) and not _TROUBLE.search(line)


def _counting(lines: list[str], at: int) -> int:
    """Return for how many lines from *at* only the numbers of a progress change; 0 for none."""
    if not _PROGRESS.search(lines[at]) or _TROUBLE.search(lines[at]):
        return 0
    shape = _NUMBERS.sub("", lines[at])
    end = at + 1
    while end < len(lines) and _NUMBERS.sub("", lines[end]) == shape:
        end += 1
    return end - at


def _without_repeats(lines: list[str]) -> Iterator[str]:
    """Yield *lines* with a note in place of each block that stands above already, word for word.

    A line about a failure is never part of such a block.
    """
    begins: dict[tuple[str, ...], int] = {}
    at = 0
    while at < len(lines):
        key = tuple(lines[at : at + _BLOCK_MIN])
        size = _repeated(lines, begins[key], at) if key in begins else 0
        if size:
            named = next((name for line in lines[at : at + size] if (name := line.strip())), "")
            yield f"[{size} lines as above, from: {named[:_NAME_CHARS_MAX]}]"
        else:
            begins.setdefault(key, at)
            yield lines[at]
        at += size or 1


def _repeated(lines: list[str], above: int, at: int) -> int:
    """Return how many lines at *at* are those at *above*; 0 if too few for a note."""
    size = chars = 0
    while above + size < at and at + size < len(lines):
        line = lines[at + size]
        if line != lines[above + size] or _FAILURE.search(line):
            break
        size += 1
        chars += len(line)
    return size if size >= _BLOCK_MIN and chars >= _BLOCK_CHARS_MIN else 0


# What installers, builds and downloads say of each step that succeeded, behind a time or a stage.
_STAGE: Final = r"(?:\[\d\d:[\d:.]+\] |\d{4}-\d\d-\d\dT[\d:.]+Z |\[INFO\] |#\d+ (?:[\d.]+ )?)?"
_STEPS: Final = (
    r"npm (?:http (?:fetch [A-Z]+ [23]\d\d|cache)|silly|verbose|timing|info)\b",
    # pip, uv, cargo, bundler, composer, dpkg, unzip, configure
    r" *(?:Collecting|Downloading|Downloaded|Fetching|Fetched|Using(?: cached)?|Obtaining"
    r"|Installing|Installed|Unpacking|Extracting|Uninstalling|Attempting uninstall"
    r"|Found existing installation|Successfully uninstalled|Requirement already satisfied"
    r"|Preparing metadata|Building wheel|Created wheel|Stored in|Found link|Skipping link"
    r"|Link requires|Adding|Locking|Fresh|Compiling|Checking|Building|Linking|Copying"
    r"|Setting up|Selecting previously|Preparing to unpack|Processing triggers"
    r"|inflating|creating|extracting|checking (?:for|whether|how))\b:? +\S",
    r" *[━╸╺]+ [\d.]+/[\d.]+ .B\b",
    r"(?:Get|Hit|Ign):\d+ |(?:Inst|Conf) \S+ |\(Reading database",
    r"(?:Downloading|Downloaded) from \S+:|Progress \(",
    r"Tests run: \d+, Failures: 0, Errors: 0,|Running [\w.]+$",
    r"> Task :\S+(?: (?:UP-TO-DATE|NO-SOURCE|FROM-CACHE|SKIPPED))?$",
    # docker
    r"(?: =>)+ (?:extracting )?sha256:|(?:extracting )?sha256:[0-9a-f]{12}",
    r"[0-9a-f]{12}:? (?:Pull|Wait|Download|Verify|Extract|Already|Push)",
    # make, cmake, ninja, compilers
    r" {2,}(?:CC|CXX|LD|AR|LINK|MAKE|CHK|GEN|AS|HOSTCC|UPD|INSTALL) +\S+(?: \S+)?$",
    r"\[ *\d+%\] (?:Building|Built|Linking|Generating|Performing|Creating)|\[\d+/\d+\] \S",
    r"(?:\S*[-/])?(?:cc|gcc|g\+\+|c\+\+|clang|clang\+\+|ar|ranlib|libtool) -?\S.*\.(?:o|a|lo|so)\b",
    r"make(?:\[\d+\])?: (?:Entering|Leaving) directory",
    # ansible, terraform, go, yarn
    r"(?:ok|skipping|included): \[",
    r"\S+: (?:Refreshing state|Still \w+ing|Creating|Modifying|Destroying|Reading)\.\.\.",
    r"\S+: (?:Creation|Modifications|Destruction|Read) complete\b",
    r"go: (?:downloading|extracting|finding) |➤ YN0013",
)
_STEP: Final = re.compile(f"{_STAGE}(?:{'|'.join(_STEPS)})")
# A bar or an amount of a whole: a table of mere percentages is what was asked for.
_PROGRESS: Final = re.compile(
    r"\d ?%.*[=#>━.]{4}|[=#>━.]{4}.*\d ?%|\d ?[kKMG]i?B ?/ ?\d", re.DOTALL
)
_NUMBERS: Final = re.compile(r"[\d.,:]+|[=#>━╸╺.-]{2,}|[ \t]+|\b[kKMG]i?B\b|\b[kKMG]\b")
