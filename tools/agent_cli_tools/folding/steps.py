"""Fold the steps of installations, builds and downloads to their first and last; pure.

A line with a word of trouble is no step, so it stays where it stood.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from agent_cli_tools.folding.repeats import ends_of, is_trouble

_STEPS_MIN: Final = 4
# A longer line is no step: matching it would cost too much.
_LINE_CHARS_MAX: Final = 4_000
# A longer command of a compiler is cut, unless what stands below it is no step.
_STEP_CHARS_MAX: Final = 160


def without_steps(lines: Sequence[str]) -> Iterator[str]:
    """Yield *lines* with the first and the last of each run of steps, and the number between."""
    may_begin = [_may_begin(line) for line in lines]
    at = 0
    while at < len(lines):
        if not may_begin[at]:
            yield lines[at]
            at += 1
            continue
        end = _run_end(lines, at)
        if end == at:
            end = at + _counting(lines, at)
        if end - at < _STEPS_MIN:
            end = max(end, at + 1)
            yield from lines[at:end]
        else:
            yield from map(_cut, ends_of(lines[at:end]))
        at = end


def _run_end(lines: Sequence[str], at: int) -> int:
    """Return behind the last of the steps from *at* on; a blank line may part them."""
    end = at
    while end < len(lines):
        if _is_step(lines[end]):
            end += 1
        elif end > at and not lines[end].strip() and end + 1 < len(lines):
            if not _is_step(lines[end + 1]):
                break
            end += 2
        else:
            break
    return end


def _may_begin(line: str) -> bool:
    """Return False for most lines that are neither a step nor a progress; the rest costs more."""
    if "%" in line or "B" in line or line.endswith(_SUCCEEDED):
        return True
    has_word = " " in line or line.startswith(_SINGLE_WORDS)
    return has_word and len(line) <= _LINE_CHARS_MAX and _ANY.match(line) is not None


def _is_step(line: str) -> bool:
    at = 0
    if line[:1] in _STAGED and (stage := _STAGE.match(line)):
        at = stage.end()
    if len(line) > _LINE_CHARS_MAX:
        return False
    if _PASSED.match(line, at) or line.endswith(_SUCCEEDED):
        return True
    return bool(_STEP.match(line, at) or _COMMAND.match(line, at)) and not is_trouble(line)


def _cut(line: str) -> str:
    left = len(line) - _STEP_CHARS_MAX
    return f"{line[:_STEP_CHARS_MAX]}… [{left:,} more]" if left > _STEP_CHARS_MAX else line


def _counting(lines: Sequence[str], at: int) -> int:
    """Return for how many lines from *at* only the numbers of a progress change; 0 for none."""
    line = lines[at]
    is_progress = ("%" in line and _BAR.search(line)) or ("B" in line and _AMOUNT.search(line))
    if not is_progress or is_trouble(line):
        return 0
    shape = _NUMBERS.sub("", line)
    end = at + 1
    while end < len(lines) and _NUMBERS.sub("", lines[end]) == shape:
        end += 1
    return end - at


# What installers, builds and downloads say of each step that succeeded, behind a time or a stage.
_STAGED: Final = frozenset("[0123456789#r>")
_STAGE: Final = re.compile(
    r"(?:\[?\d\d:\d\d[:\d.]*\]? |\[?\d{4}-\d\d-\d\d[T ][\d:.,]+Z?\]? )?"
    r"(?:\[INFO\] |#\d+ (?:[\d.]+ )?|remote: |> )?"
)
# Each begins with a letter or a blank of its own, which decides at once for most lines.
_STEPS: Final = (
    r"npm (?:http (?:fetch [A-Z]+ [23]\d\d|cache|(?:request )?GET|[23]\d\d)|silly|sill|verbose|verb"
    r"|timing|info)\b",
    # pip, uv, cargo, bundler, gem, dpkg, unzip, configure
    r" *(?:Collecting|Downloading|Downloaded|Fetching|Fetched|Using(?: cached)?|Obtaining"
    r"|Installing|Installed|Unpacking|Extracting|Uninstalling|Attempting uninstall"
    r"|Found existing installation|Successfully uninstalled|Requirement already satisfied"
    r"|Preparing metadata|Building wheel|Created wheel|Stored in|Found link|Skipping link"
    r"|Link requires|Adding|Locking|Fresh|Dirty|Compiling|Checking|Building|Linking|Copying"
    r"|Running `|Restored|Setting up|Selecting previously|Preparing to unpack"
    r"|Processing triggers|Created symlink|Parsing documentation|Installing ri"
    r"|inflating|creating|extracting|checking (?:for|whether|how|if|that|dependency|size of))"
    r"\b:? +\S",
    # composer, Poetry, setuptools, Rails
    r"  [-•] (?:Downloading|Installing|Locking|Upgrading|Updating|Removing) \S+ \(",
    r"copying \S+ -> |adding '|hard linking \S+ -> |byte-compiling \S|writing \S+ to \S"
    r"|writing (?:manifest|top-level|dependency_links|requirements|entry points)\b"
    r"|running (?:build|bdist|egg|install|dist|sdist)\w*$",
    r" {6,}(?:create|identical|exist|force|invoke|insert|append|run)  \S",
    r"Listing '|config\.status: (?:creating|executing) ",
    r" *[━╸╺]+ [\d.]+/[\d.]+ .B\b",
    r"(?:Get|Hit|Ign):\d+ |(?:Inst|Conf|Remv) \S+ |\(Reading database|update-alternatives: using",
    r"(?:Downloading|Downloaded) from \S+:|Progress \(|Download https?:",
    r"==> (?:Downloading|Pouring|Fetching|Installing|Extracting)|\(\d+/\d+\) \w+ing ",
    r"Tests run: \d+, Failures: 0, Errors: 0,|Running [\w.]+$",
    r"Task :\S+(?: (?:UP-TO-DATE|NO-SOURCE|FROM-CACHE|SKIPPED))?$",
    # docker
    r" => (?:=> )*|(?:extracting |resolve \S*)?sha256:[0-9a-f]{12}",
    r"(?<=\d )(?:(?:transferring|exporting|naming|writing|unpacking|sending|DONE|CACHED)\b"
    r"|\.\.\.$)",
    r"[0-9a-f]{12}:? (?:Pull|Wait|Download|Verify|Extract|Already|Push)",
    r" ---> (?:Running in )?[0-9a-f]{12}$|Removing intermediate container",
    # make, cmake, ninja
    r" {2,}(?:CC|CXX|CCLD|CXXLD|CPPAS|LD|AR|LINK|MAKE|CHK|GEN|AS|HOSTCC|HOSTLD|UPD|INSTALL|RANLIB"
    r"|LDS|LEX|YACC)(?: \[M\])? +\S+(?: \S+)?$",
    r"\[ *\d+%\] |\[[\d,]+ ?/ ?[\d,]+\] \S",
    r"libtool: (?:compile|link|install):",
    r"make(?:\[\d+\])?: (?:Entering|Leaving|Nothing to be done)|Scanning dependencies of",
    r"Consolidate compiler generated dependencies|-- (?:Looking for|Performing Test|Check(?:ing)?"
    r"|Detecting|Found|Installing:|Up-to-date:|The \w+ compiler|Configuring|Generating)\b",
    r"/(?:usr/)?bin/(?:install|mkdir) -\S|depbase=|mv -f \S+/\.deps/",
    # git, ansible, go, yarn, migrations, cp -v
    r"(?:Enumerating|Counting|Compressing|Receiving|Writing) objects: +\d|Resolving deltas: +\d",
    r"(?:ok|changed|skipping|included): \[",
    r" +Applying \S+ OK$|go: (?:downloading|extracting|finding) |➤ YN0013",
    r"(?:renamed |removed |copied |created directory )'[^']+'(?: -> '[^']+')?$"
    r"|'[^']+' -> '[^']+'$",
    # sphinx
    r"(?:reading sources|writing output|copying images|highlighting module code)\.\.\. \[",
)
_STEP: Final = re.compile("|".join(_STEPS))
# Tests and checks that passed, whatever their names say: GoogleTest, CTest, .NET, Automake, Gradle,
# XCTest, PHPUnit, prove, Meson, Playwright, nextest, minitest, ExUnit, pre-commit.
_PASSED: Final = re.compile(
    r"\[ +(?:OK|RUN) +\] |\[-{10}\] |\[ +PASSED +\] 1 test"
    r"| +Start +\d+: | *\d+/\d+ (?:Test +#\d+: .* Passed +[\d.]+ sec| *\S.* OK +[\d.]+ ?s\b)"
    r"| +(?:Passed|Skipped) \S.* \[[<\d. ]+ m?s\]$|(?:PASS|SKIP|XFAIL): \S|\S.* > .* PASSED$"
    r"|Test Case '.*' (?:started|passed)\b|\.{20}[.SIR]* +\d+ / \d+ \( *\d+%\)$"
    r"|\S+\.t \.{2,} ok$|\s+PASS \[ *[\d.]+s\] |\S+#test_\S+ = [\d.]+ s = \.$"
    r"| +\* test .*\([\d.]+ms\) \[L#\d+\]$"
)
# Compilers and their kin behind a path; what terraform, kubectl and webpack say of a name.
_COMMAND: Final = re.compile(
    r"(?:\S*/)?(?:[\w-]*-)?(?:cc|gcc|g\+\+|c\+\+|clang|clang\+\+|ar|ranlib|ld|rustc)(?:-\d+)? +\S.*"
    r"(?:\.(?:o|a|lo|la|so|d|c|cc|cpp|cxx)\b| -o )"
    r"|(?:\S*/)?(?:ba)?sh \S*libtool |(?:\S*/)?cmake3? (?:-[ESP]|--check|-H)|(?:\S*/)?make +-f "
    r"|cd \S+ && (?:\S*/)?(?:cmake|c\+\+|cc|gcc|g\+\+|clang\S*|ar|make) "
    r"| *(?:gcc|g\+\+|cc|c\+\+|clang) -"
    r"|\S+: (?:Refreshing state|Still \w+ing|Creating|Modifying|Destroying|Reading)\.\.\."
    r"|\S+: (?:Creation|Modifications|Destruction|Read) complete\b"
    r"|[\w.]+/\S+ (?:created|configured|unchanged)$"
    r"| *(?:\./|\S*modules/)\S+ [\d.]+ (?:bytes|KiB|MiB)\b.*\[built\]"
)
_SUCCEEDED: Final = ("...Passed", "...Skipped", ")Skipped")
# The only steps that may have no blank.
_SINGLE_WORDS: Final = ("sha256:", "depbase=")
_ANY: Final = re.compile(
    f"{_STAGE.pattern}(?:{_STEP.pattern}|{_PASSED.pattern}|{_COMMAND.pattern})"
)
# A bar or an amount of a whole: a table of mere percentages is what was asked for.
_BAR: Final = re.compile(r"[=#>━.]{4}")
_AMOUNT: Final = re.compile(r"\d ?[kKMG]i?B ?/ ?\d")
_NUMBERS: Final = re.compile(r"[\d.,:]+|[=#>━╸╺.-]{2,}|[ \t]+|\b[kKMG]i?B\b|\b[kKMG]\b")
