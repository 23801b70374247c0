"""Fold the parts of a command's output that cost much and say little; pure.

Progress drawn over itself becomes its last state, runs of equal lines one with a count, and of a
test run what passed is left out: the counts that the runner prints stay, and every other line does,
failures above all. Only lines known to report success are ever left out.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from agent_cli.contracts.wording import counted
from agent_cli.system.records import dataclass

# Less is not worth the note that says it, nor a file.
SAVED_CHARS_MIN: Final = 300
_EQUAL_MIN: Final = 3
_GROUP_MAX: Final = 16
# A state of a progress line that somebody wants to read although it was drawn over.
_TROUBLE: Final = re.compile(r"error|fail|fatal|warn|denied|abort|panic|except", re.IGNORECASE)
_FAILURE: Final = re.compile(r"FAIL|ERROR|panicked|failed|^E   |\bassert")


class Folded(NamedTuple):
    """A text, and what was folded in it: "12 states of progress lines"; "" for nothing."""

    text: str
    said: str = ""


@dataclass(frozen=True, slots=True)
class _Runner:
    """A test runner: a line by which its output is known, and the lines that report success."""

    known_by: re.Pattern[str]
    passed: re.Pattern[str]
    without: Callable[[list[str], re.Pattern[str]], Iterator[str]]


def folded(text: str) -> Folded:
    """Return *text*, without escape sequences, folded; unchanged where that saves little."""
    last_states, states = _last_states(text)
    lines = last_states.split("\n")
    kept = lines
    for runner in _RUNNERS:
        if any(map(runner.known_by.match, kept)):
            kept = list(runner.without(kept, runner.passed))
    passed = len(lines) - len(kept)
    merged = list(_merged(kept))
    result = "\n".join(merged)
    if len(text) - len(result) < SAVED_CHARS_MIN:
        return Folded(text)
    counts = (
        (states, "state", "states", "of progress lines"),
        (passed, "line", "lines", "about passed tests"),
        (len(kept) - len(merged), "equal line", "equal lines", ""),
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


def _without(lines: list[str], passed: re.Pattern[str]) -> Iterator[str]:
    return (line for line in lines if not passed.match(line))


def _without_output(lines: list[str], passed: re.Pattern[str]) -> Iterator[str]:
    """Leave out Vitest's blocks with the output of a test, unless that test or its file failed."""
    failed = [found[1] for line in lines if (found := _VITEST_FAILED.match(line))]
    in_passed = False
    for line in lines:
        if block := _VITEST_OUTPUT.match(line):
            in_passed = not any(block[1].startswith(each) for each in failed)
        elif in_passed and not line.strip():
            in_passed = False
        if not in_passed and not passed.match(line):
            yield line


def _without_warnings(lines: list[str], passed: re.Pattern[str]) -> Iterator[str]:
    """Leave out pytest's summary of warnings too; its last line counts them."""
    in_warnings = False
    for line in lines:
        if _PYTEST_RULE.match(line):
            in_warnings = " warnings summary " in line
        # Another program's failure may stand there, since both write to one output.
        if (not in_warnings or _FAILURE.search(line)) and not passed.match(line):
            yield line


def _without_ended(lines: list[str], passed: re.Pattern[str]) -> Iterator[str]:
    """Leave out Go's line that begins a test only if a later one says that it passed."""
    ended = {found[1] for line in lines if (found := _GO_PASSED.match(line))}
    for line in lines:
        began = _GO_BEGAN.match(line)
        if began and began[1] in ended:
            continue
        if not passed.match(line):
            yield line


def _without_headings(lines: list[str], passed: re.Pattern[str]) -> Iterator[str]:
    """Leave out the console and the names of groups of suites that Jest marks as passed."""
    in_passed = in_console = False
    for index, line in enumerate(lines):
        if _JEST_SUITE.match(line):
            in_passed, in_console = line.lstrip().startswith("PASS"), False
        elif in_passed and line.strip() == "● Console":
            in_console = True
        elif in_console and line[:1].strip():
            in_console = False
        if in_console or passed.match(line):
            continue
        if in_passed and _JEST_GROUP.match(line) and _leads_to_test(lines, index, passed):
            continue
        yield line


def _leads_to_test(lines: list[str], index: int, passed: re.Pattern[str]) -> bool:
    """Return whether only names of groups stand between this line and a passed test."""
    for line in lines[index + 1 :]:
        if passed.match(line) and line.startswith(" "):
            return True
        if not _JEST_GROUP.match(line):
            return False
    return False


_TIME = r"\(?[\d.,]+ ?m?s\)?"
_PYTEST_RULE: Final = re.compile(r"=+ .* =+$|[\d,]+ (?:passed|failed|error)")
_GO_PASSED: Final = re.compile(r"\s*--- (?:PASS|SKIP): (\S+)")
_GO_BEGAN: Final = re.compile(r"=== (?:RUN|PAUSE|CONT|NAME)\s+(\S+)")
_VITEST_FAILED: Final = re.compile(
    r"\s*(?:FAIL|×|✗) +(?:\|[^|]*\| +)?(\S+\.[cm]?[jt]sx?(?: > [^\[]*\S)?)"
)
_VITEST_OUTPUT: Final = re.compile(r"std(?:out|err) \| (\S+\.[cm]?[jt]sx?(?: > .*)?)$")
_JEST_SUITE: Final = re.compile(r"\s*(?:PASS|FAIL)\s+\S")
_JEST_GROUP: Final = re.compile(r"  +[^\s●✕✗×✖○]\S*(?: \S+)*$")

_RUNNERS: Final = (
    _Runner(  # pytest, with pytest-xdist
        re.compile(
            r"(?:=+ )?(?:\x1b\[\d+m)?(?:\d+ (?:passed|failed|skipped|errors?|deselected|xfailed"
            r"|xpassed|warnings?)(?:, )?)+ in [\d.]+s"
        ),
        re.compile(
            r"\S+\.(?:py|md|rst|txt|pyx|ipynb)(?:::\S+)? [.sxX]+ *(?:\[ *\d+%\])?$"
            r"|[.sxX]+ *(?:\[ *\d+%\])?$"
            r"|\S+\.\w+::.* (?:PASSED|SKIPPED|XFAIL)(?: \(.*\))? *(?:\[ *\d+%\])?$"
            r"|\[gw\d+\] +\[ *\d+%\] (?:PASSED|SKIPPED|XFAIL) "
            r"|\S+\.\w+::\S+ $"
            r"|(?:platform|cachedir|rootdir|configfile|plugins|testpaths|asyncio|benchmark"
            r"|hypothesis profile|django|Using --randomly-seed|collecting|collected|created"
            r"|scheduling|bringing up|Test session starts|run-last-failure|metadata|timeout)\b"
            r"|\d+ workers? \[|gw\d+ |=+ test session starts =+$"
        ),
        _without_warnings,
    ),
    _Runner(  # unittest
        re.compile(r"Ran \d+ tests? in "),
        re.compile(
            r"[.sxu]+$|\S+ \(\S+\)(?: \[.*\])? \.\.\. (?:ok|skipped .*|expected failure)$"
            r"|(?!ERROR|FAIL).{0,200} \.\.\. (?:ok|skipped .*|expected failure)$"
        ),
        _without,
    ),
    _Runner(  # jest
        re.compile(r"Test(?: Suites|s): +.*\btotal$"),
        re.compile(
            rf"\s*PASS\s+\S.*$|\s+[✓√] .*$|\s+[○✎] .*$|\s*RUNS\s.*$|\s*at .*node_modules/jest"
            rf"|Time: +{_TIME}.*$|Ran all test suites.*$"
        ),
        _without_headings,
    ),
    _Runner(  # vitest
        re.compile(r"\s*Test Files +.*\(\d+\)$"),
        re.compile(r"\s*[✓√✔↓] |\s*RUN +v\d|\s*Start at +|\s*Duration +|\s*[❯·] .*\(\d+ tests?\)$"),
        _without_output,
    ),
    _Runner(  # go test
        re.compile(r"(?:ok  |FAIL|\?   )\t\S+|\s*--- (?:PASS|FAIL|SKIP): |=== RUN "),
        re.compile(
            r"\s*--- (?:PASS|SKIP): |PASS$|\?   \t\S+\t\[no test files\]|ok  \t\S+\t\(cached\)"
        ),
        _without_ended,
    ),
    _Runner(  # cargo test
        re.compile(r"test result: "),
        re.compile(
            r"test .* \.\.\. (?:ok|ignored.*)$|running \d+ tests?$"
            r"| +(?:Compiling|Downloaded|Downloading|Running|Doc-tests|Finished|Blocking|Locking"
            r"|Updating|Adding|Fresh|Checking) "
            r"|test result: ok\. 0 passed; 0 failed; 0 ignored"
        ),
        _without,
    ),
)
