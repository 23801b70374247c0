"""The lines of a test run about tests that passed, which are left out of a command's output.

A runner is known by a line that only it prints. The counts stay, and so does every other line:
failures above all. Pure.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from agent_cli.system.records import dataclass

_FAILURE: Final = re.compile(r"FAIL|ERROR|panicked|failed|^E   |\bassert")


@dataclass(frozen=True, slots=True)
class _Runner:
    """A test runner: a line by which its output is known, and the lines that report success.

    One of the hints stands in each such line.
    """

    hints: tuple[str, ...]
    known_by: re.Pattern[str]
    passed: re.Pattern[str]
    without: Callable[[list[str], re.Pattern[str]], Iterator[str]]


def without_passed(lines: Sequence[str]) -> Iterable[str]:
    """Return *lines* without the lines about passed tests."""
    left = list(lines)
    text = "\n".join(left)
    for runner in _RUNNERS:
        has_hint = any(hint in text for hint in runner.hints)
        if has_hint and any(map(runner.known_by.match, left)):
            left = list(runner.without(left, runner.passed))
    return left


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
    in_failures, in_warnings, runs_inside = False, False, 0
    for line in lines:
        # What a failed test prints may be a whole run, as where a plugin of pytest is tested.
        if in_failures and _PYTEST_BEGINS.match(line):
            runs_inside += 1
        elif runs_inside:
            runs_inside -= bool(_PYTEST_COUNTS.match(line))
        elif (_PYTEST_SECTION if in_failures else _PYTEST_RULE).match(line):
            in_failures = bool(_PYTEST_FAILURES.match(line))
            in_warnings = " warnings summary " in line
        # A failed test's output may read like pytest's own, and another program's failure may
        # stand among the warnings, since both write to one output.
        is_kept = in_failures or not passed.match(line)
        if is_kept and (not in_warnings or _FAILURE.search(line)):
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


def _without_groups(lines: list[str], passed: re.Pattern[str]) -> Iterator[str]:
    """Leave out the names of Mocha's groups in which tests passed; its end names what failed."""
    for index, line in enumerate(lines):
        if passed.match(line):
            continue
        if not line.strip() and _leads_on(lines, index, passed):
            continue
        if not (_JEST_GROUP.match(line) and _leads_to_test(lines, index, passed)):
            yield line


def _without_subtests(lines: list[str], passed: re.Pattern[str]) -> Iterator[str]:
    """Leave out what TAP, and Node, say of tests that passed: name, result and details."""
    results = [found.groups() for line in lines if (found := _RESULT.match(line))]
    failed = {name for _, bad, name in results if bad}
    succeeded = {name for _, bad, name in results if not bad} - failed
    details, is_above = "", False
    for line in lines:
        if details and line.strip() and not line.startswith(details):
            details = ""  # no details: a test printed that line
        if details:
            # The details of a test end as deep as they began.
            details = "" if line == f"{details}..." else details
        elif is_above and line.lstrip() == "---":
            details = line[:-3]
        elif not ((began := _BEGAN.match(line)) and began[1] in succeeded):
            result = _RESULT.match(line)
            is_above = bool(result and not result[2])
            if not is_above and not passed.match(line):
                yield line
            continue
        is_above = False


def _leads_on(lines: list[str], index: int, passed: re.Pattern[str]) -> bool:
    """Return whether a blank line only separates passed tests or groups of passed tests."""
    at = index + 1
    return at < len(lines) and (
        bool(passed.match(lines[at]))
        or (bool(_JEST_GROUP.match(lines[at])) and _leads_to_test(lines, at, passed))
    )


def _leads_to_test(lines: list[str], index: int, passed: re.Pattern[str]) -> bool:
    """Return whether only names of groups stand between this line and a passed test."""
    for line in lines[index + 1 :]:
        if passed.match(line) and line.startswith(" "):
            return True
        if not _JEST_GROUP.match(line):
            return False
    return False


_TIME = r"\(?[\d.,]+ ?m?s\)?"
_COUNTS: Final = (
    r"(?:=+ )?(?:\x1b\[\d+m)?(?:\d+ (?:(?:subtests )?(?:passed|failed|skipped)|errors?"
    r"|deselected|xfailed|xpassed|warnings?|rerun)(?:, )?)+ in [\d.]+s"
)
_PYTEST_COUNTS: Final = re.compile(_COUNTS)
_PYTEST_BEGINS: Final = re.compile(r"=+ test session starts =+$")
_PYTEST_FAILURES: Final = re.compile(r"=+ (?:FAILURES|ERRORS) =+$")
_PYTEST_SECTION: Final = re.compile(
    rf"{_COUNTS}|=+ (?:FAILURES|ERRORS|PASSES|XPASSES|XFAILURES|warnings summary(?: \(final\))?"
    r"|slowest (?:\d+ )?durations|(?:short|rerun) test summary info|tests coverage) =+$"
)
_PYTEST_RULE: Final = re.compile(rf"{_COUNTS}|=+ .* =+$")
_GO_PASSED: Final = re.compile(r"\s*--- (?:PASS|SKIP): (\S+)")
_GO_BEGAN: Final = re.compile(r"=== (?:RUN|PAUSE|CONT|NAME)\s+(\S+)")
_RESULT: Final = re.compile(
    r"(\s*)(?:(not ok|✖)|ok|✔)(?: \d+)? (?:- )?(.*?)(?: \([\d.]+ms\))?(?: # .*| +)?$"
)
_BEGAN: Final = re.compile(r"\s*(?:# Subtest:|▶) (.*?)\s*$")
_VITEST_FAILED: Final = re.compile(
    r"\s*(?:FAIL|×|✗) +(?:\|[^|]*\| +)?(\S+\.[cm]?[jt]sx?(?: > [^\[]*\S)?)"
)
_VITEST_OUTPUT: Final = re.compile(r"std(?:out|err) \| (\S+\.[cm]?[jt]sx?(?: > .*)?)$")
_JEST_SUITE: Final = re.compile(r"\s*(?:PASS|FAIL)\s+\S")
_JEST_GROUP: Final = re.compile(r"  +(?!\d+\) )[^\s●✕✗×✖○]\S*(?: \S+)*$")
# Cargo aligns these words at their end; what a failed test prints is hardly so by chance.
_CARGO_STEPS: Final = "|".join(
    f"{step:>12} "
    for step in (
        *("Compiling", "Downloaded", "Downloading", "Running", "Doc-tests", "Finished"),
        *("Blocking", "Locking", "Updating", "Adding", "Fresh", "Checking"),
    )
)

_RUNNERS: Final = (
    _Runner(  # pytest, with pytest-xdist
        (" in ",),
        _PYTEST_COUNTS,
        re.compile(
            r"\S+\.(?:py|md|rst|txt|pyx|ipynb)(?:::\S+)? [.sxX]+ *(?:\[ *\d+%\])?$"
            r"|[.sxX]+ *(?:\[ *\d+%\])?$"
            r"|\S+\.\w+::.* (?:PASSED|SKIPPED|XFAIL)(?: \(.*\))? *(?:\[ *\d+%\])?$"
            r"|\S+\.\w+::\S.* SUB(?:PASSED|SKIPPED|XFAIL)[\[(]"
            r"|\[gw\d+\] +\[ *\d+%\] (?:(?:PASSED|SKIPPED|XFAIL) |SUB(?:PASSED|SKIPPED|XFAIL)[\[(])"
            r"|\S+\.\w+::\S+ $|(?:PASSED|XFAIL|SKIPPED) (?:\[\d+\] )?\S+\.py(?:::|:\d)"
            # Its header, each line as exactly as pytest and the plugins write it: with -s, what
            # tests print stands between the lines about them.
            r"|=+ test session starts =+$|Test session starts \(platform: |platform \S+ -- Python "
            r"|(?:cachedir|rootdir|plugins|testpaths|run-last-failure): \S"
            r"|configfile: (?!.*WARNING)|metadata: \{|asyncio: mode=|benchmark: \d"
            r"|hypothesis profile '|django: (?:version|settings): |Using --randomly-seed="
            r"|timeout: [\d.]+s$|timeout (?:method|func_only): \w+$"
            r"|bringing up nodes|created: \d+/\d+ workers?$|scheduling tests via "
            r"|\d+ workers? \[|gw\d+ (?:[IC]|ok|\[\d+\])(?: / |$)"
            r"|collecting \.\.\. *$"
            r"|(?:collecting \.\.\. )?collected \d+ items?\b(?!.*\berrors?\b)"
        ),
        _without_warnings,
    ),
    _Runner(  # unittest
        ("Ran ",),
        re.compile(r"Ran \d+ tests? in "),
        re.compile(
            r"[.sxu]+$|\S+ \(\S+\)(?: \[.*\])? \.\.\. (?:ok|skipped .*|expected failure)$"
            r"|(?!ERROR|FAIL).{0,200} \.\.\. (?:ok|skipped .*|expected failure)$"
        ),
        _without,
    ),
    _Runner(  # jest
        (" total",),
        re.compile(r"Test(?: Suites|s): +.*\btotal$"),
        re.compile(
            rf"\s*PASS\s+\S.*$|\s+[✓√] .*$|\s+[○✎] .*$|\s*RUNS\s.*$|\s*at .*node_modules/jest"
            rf"|Time: +{_TIME}.*$|Ran all test suites.*$"
        ),
        _without_headings,
    ),
    _Runner(  # mocha
        (" passing (",),
        re.compile(r" +\d+ passing \("),
        re.compile(r" +[✓✔√] .*$"),
        _without_groups,
    ),
    _Runner(  # TAP: Node, bats, prove, tape
        ("TAP version", "tests ", "pass ", "\n1.."),
        re.compile(r"(?:TAP version 1[34]|[ℹ#] (?:tests|pass) +\d+|1\.\.\d+)$"),
        re.compile(r"\s*\d+\.\.\d+$"),
        _without_subtests,
    ),
    _Runner(  # vitest
        ("Test Files ",),
        re.compile(r"\s*Test Files +.*\(\d+\)$"),
        re.compile(
            r"\s*[✓√✔↓] |\s*RUN +v\d|\s+Start at +\d|\s+Duration +\d|\s*[❯·] .*\(\d+ tests?\)$"
        ),
        _without_output,
    ),
    _Runner(  # go test
        ("\t", "--- ", "=== RUN"),
        re.compile(r"(?:ok  |FAIL|\?   )\t\S+|\s*--- (?:PASS|FAIL|SKIP): |=== RUN "),
        re.compile(
            r"\s*--- (?:PASS|SKIP): |PASS$|\?   \t\S+\t\[no test files\]|ok  \t\S+\t\(cached\)"
        ),
        _without_ended,
    ),
    _Runner(  # cargo test
        ("test result: ",),
        re.compile(r"test result: "),
        re.compile(
            rf"test .* \.\.\. (?:ok|ignored.*)$|running \d+ tests?$|{_CARGO_STEPS}"
            r"|test result: ok\. 0 passed; 0 failed; 0 ignored"
        ),
        _without,
    ),
)
