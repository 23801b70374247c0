"""What is folded of a command's output, and that no failure ever is."""

import re
import sys
import time
from pathlib import Path
from types import FrameType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_cli_tools.folding import Folded, folded
from agent_cli_tools.folding.findings import grouped_findings
from agent_cli_tools.folding.screen import settled
from agent_cli_tools.output import OutputBuffer
from tests.tables import each_row
from tests.tools.test_output import Spills

PYTEST = """\
============================= test session starts ==============================
platform linux -- Python 3.12.1, pytest-8.3.4, pluggy-1.5.0
rootdir: /srv/shop
configfile: pyproject.toml
plugins: cov-5.0.0, asyncio-0.24.0
collected 48 items

tests/test_cart.py ....................                                  [ 41%]
tests/test_price.py ..........F.......s                                  [ 81%]
tests/test_tax.py::test_rounds_half_up PASSED                            [ 83%]
tests/test_tax.py::test_reduced FAILED                                   [ 85%]

=================================== FAILURES ===================================
__________________________________ test_total __________________________________

    def test_total():
>       assert total([1, 2]) == 4
E       assert 3 == 4

tests/test_price.py:12: AssertionError
=============================== warnings summary ===============================
tests/test_cart.py::test_add
  /srv/shop/cart.py:4: DeprecationWarning: use add_line
    add(1)

-- Docs: https://docs.pytest.org/en/stable/how-to/capture-warnings.html
=========================== short test summary info ============================
FAILED tests/test_price.py::test_total - assert 3 == 4
============= 2 failed, 45 passed, 1 skipped, 1 warning in 0.31s ==============="""

UNITTEST = """\
test_add (tests.test_cart.CartTest.test_add) ... ok
test_remove (tests.test_cart.CartTest.test_remove) ... skipped 'needs a database'
test_total (tests.test_price.PriceTest.test_total)
A docstring of the test. ... ok
test_tax (tests.test_price.PriceTest.test_tax) ... FAIL
..........................................................
======================================================================
FAIL: test_tax (tests.test_price.PriceTest.test_tax)
----------------------------------------------------------------------
AssertionError: 19 != 7
----------------------------------------------------------------------
Ran 62 tests in 0.004s

FAILED (failures=1, skipped=1)"""

JEST = """\
PASS src/cart.test.ts
  ● Console

    console.log
      adding a line to the cart

      at add (src/cart.ts:3:11)

  Cart
    when it is empty
      ✓ adds a line (3 ms)
      ✓ counts no lines
FAIL src/price.test.ts
  Price
    ✓ sums up (1 ms)
    ✕ applies the tax (4 ms)

  ● Price › applies the tax

    Expected: 119
    Received: 107

Test Suites: 1 failed, 1 passed, 2 total
Tests:       1 failed, 3 passed, 4 total
Time:        1.204 s
Ran all test suites."""

VITEST = """\
 RUN  v3.1.0 /srv/shop

stderr | src/cart.test.ts > Cart > adds a line
deprecated: use addLine

stderr | src/price.test.ts > Price > applies the tax
rate is missing

 ✓ src/cart.test.ts (12 tests) 8ms
 ❯ src/price.test.ts (2 tests | 1 failed) 5ms
   ✓ Price > sums up 1ms
   × Price > applies the tax 3ms

 FAIL  src/price.test.ts > Price > applies the tax
AssertionError: expected 107 to be 119

 Test Files  1 failed | 1 passed (2)
      Tests  1 failed | 13 passed (14)
   Start at  10:11:12
   Duration  412ms"""

GO = """\
=== RUN   TestAdd
=== RUN   TestAdd/empty
--- PASS: TestAdd (0.00s)
    --- PASS: TestAdd/empty (0.00s)
=== RUN   TestTax
    price_test.go:9: got 107, want 119
--- FAIL: TestTax (0.00s)
=== RUN   TestHangs
FAIL
FAIL\tshop/price\t0.004s
?   \tshop/cmd\t[no test files]
ok  \tshop/cart\t0.002s
FAIL"""

CARGO = """\
   Compiling shop v0.1.0 (/srv/shop)
    Finished `test` profile [unoptimized + debuginfo] target(s) in 1.03s
     Running unittests src/lib.rs (target/debug/deps/shop-1f2e3d4c)

running 3 tests
test cart::adds_a_line ... ok
test cart::slow ... ignored
test price::applies_the_tax ... FAILED

failures:

---- price::applies_the_tax stdout ----
thread 'price::applies_the_tax' panicked at src/price.rs:9:5:
assertion `left == right` failed

test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out
   Doc-tests shop

running 0 tests

test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out"""

GONE = {
    PYTEST: ["platform", "rootdir", "test_cart.py ...", "test_rounds_half_up", "Deprecation"],
    UNITTEST: ["test_add", "A docstring", "skipped 'needs", "......"],
    JEST: ["cart.test.ts", "adding a line", "when it is empty", "✓", "Time:"],
    VITEST: ["RUN", "deprecated: use addLine", "✓", "Duration"],
    GO: ["TestAdd", "no test files"],
    CARGO: ["Compiling", "adds_a_line", "running 0", "ok. 0 passed"],
}
PADDING = "\n" + "".join(f"a line that no rule knows, number {n}\n" for n in range(3))


@each_row("output", GONE, ids=["pytest", "unittest", "jest", "vitest", "go", "cargo"])
def test_a_test_run_is_its_counts_and_its_failures(output: str) -> None:
    """Each line that stays is as it was, in order; nothing about a passed test does."""
    text, said = folded(f"{output}\n" * 4 + PADDING)

    left = iter((f"{output}\n" * 4 + PADDING).split("\n"))
    assert all(line in left for line in text.split("\n") if not line.startswith("[the "))
    assert [word for word in GONE[output] if word in text] == []
    assert "about passed tests" in said


@each_row(
    ("output", "stays"),
    [
        (PYTEST, ["test_reduced FAILED", "E       assert 3 == 4", "2 failed, 45 passed"]),
        (UNITTEST, ["test_tax) ... FAIL", "AssertionError: 19 != 7", "Ran 62 tests", "FAILED ("]),
        (JEST, ["FAIL src/price", "✕ applies", "Received: 107", "1 failed, 3 passed, 4 total"]),
        (VITEST, ["rate is missing", "× Price", "expected 107 to be 119", "1 failed | 13 passed"]),
        (GO, ["=== RUN   TestTax", "got 107", "--- FAIL", "RUN   TestHangs", "ok  \tshop/cart"]),
        (CARGO, ["... FAILED", "panicked at", "left == right", "FAILED. 1 passed"]),
    ],
)
def test_failures_and_counts_stay(output: str, stays: list[str]) -> None:
    """A test that began and never ended stays too."""
    text = folded(f"{output}\n" * 4 + PADDING).text

    assert [each for each in stays if each not in text] == []


def test_printed_line_that_begins_details_hides_no_failure() -> None:
    """All lines behind it were left out."""
    output = """\
✔ adds (1.1ms)
  ---
✖ removes (0.2ms)
  AssertionError [ERR_ASSERTION]: 1 !== 2

ℹ tests 2
ℹ pass 1
ℹ fail 1"""

    text = folded("✔ lists (0.9ms)\n" * 30 + output).text

    assert output[output.index("✖") :] in text
    assert "lists" not in text


PRINTED = [
    "timeout after 30 s waiting for the payment service",
    "django.db.utils.OperationalError: no such table: shop_order",
    "platform not supported",
    "created order 17",
    "gw1 answered 502",
    "collecting garbage",
    "metadata lacks an id",
]


def test_what_a_failed_test_printed_stays() -> None:
    """Pytest's header has lines that begin with the same words."""
    captured = "\n".join(("- Captured stdout call -", *PRINTED, "..", "PASSED test_queue.py:3"))
    output = PYTEST.replace(
        "=== warnings summary ===", f"===\n{captured}\n=== warnings summary ==="
    )

    text = folded(f"{output}\n" * 4 + PADDING).text

    assert captured not in PYTEST
    assert [line for line in captured.split("\n") if line not in text.split("\n")] == []


@each_row("more", ["2 subtests passed", "1 rerun"])
def test_a_run_with_subtests_or_reruns_is_known_as_one_of_pytest(more: str) -> None:
    """Pytest 9 counts subtests of their own; with -v each has a line."""
    subtests = "".join(f"tests/test_a.py::test_s SUBPASSED(i={n} of 9) [ 5%]\n" for n in range(9))
    output = PYTEST.replace("1 warning in", f"1 warning, {more} in").replace(
        "tests/test_tax.py::test_reduced", f"{subtests}tests/test_tax.py::test_reduced"
    )

    text, said = folded(f"{output}\n" * 4 + PADDING)

    assert f"1 warning, {more} in" in text
    assert "SUBPASSED" not in text
    assert "test_reduced FAILED" in text
    assert "about passed tests" in said


INNER_RUN = """\
============================= test session starts ==============================
rootdir: /tmp/pytest-of-me/inner
plugins: ours-1.0
collected 2 items

test_inner.py ..                                                         [100%]

=============================== warnings summary ===============================
test_inner.py::test_first
  /srv/ours/plugin.py:9: UserWarning: the cache is not used

-- Docs: https://docs.pytest.org/en/stable/how-to/capture-warnings.html
========================= 2 passed, 1 warning in 0.01s ========================="""


@pytest.mark.parametrize(
    "printed",
    [INNER_RUN, "=== step 1 ===\nrootdir: /srv/build", "12 failed logins\nplugins: none"],
    ids=["run", "rule", "count"],
)
def test_section_of_failures_ends_where_pytest_begins_another(printed: str) -> None:
    """A failed test may print rules too, or a run of pytest: the test of a plugin does."""
    first, rest = PYTEST.split("=============================== warnings summary")
    output = f"{first}- Captured stdout call -\n{printed}\n=== warnings summary{rest}"

    text = folded(f"{output}\n" * 4 + PADDING).text

    assert f"\n{printed}\n" in text
    assert "use add_line" not in text


@pytest.mark.parametrize(
    ("output", "printed"),
    [
        (PYTEST, PRINTED),
        (CARGO, [" Running the query: refused", "  Checking credentials: none"]),
        (VITEST, ["Duration 5s is over the limit", " Start at the beginning"]),
    ],
    ids=["pytest -s", "cargo", "vitest"],
)
def test_what_a_test_prints_is_not_taken_for_a_line_of_its_runner(
    output: str, printed: list[str]
) -> None:
    """With `-s` it stands between the runner's own lines."""
    first, *rest = output.split("\n")
    mixed = "\n".join((first, *printed, *rest))

    text = folded(f"{mixed}\n" * 4 + PADDING).text

    assert [line for line in printed if line not in text.split("\n")] == []


def test_progress_is_its_last_state_and_its_troubles() -> None:
    """400 states of a bar were 7,248 characters."""
    bar = "".join(f"downloading {n:3}%\r" for n in range(100))

    assert folded(f"{bar}warning: slow mirror\rdownloading 100%\r\ndone\n") == Folded(
        "warning: slow mirror\ndownloading 100%\ndone\n", "100 states of progress lines"
    )


def test_repeated_lines_and_groups_of_lines_stand_once_with_a_count() -> None:
    """A recursion prints the same lines a thousand times."""
    group = '  File "a.py", line 3, in f\n    g()\n  File "a.py", line 7, in g\n    f()\n'

    text, said = folded("retrying ...\n" * 40 + group * 250 + "RecursionError: too deep\n")

    assert text == (
        "retrying ...\n[the line above ×40]\n"
        f"{group}[the 4 lines above ×250]\nRecursionError: too deep\n"
    )
    assert said == "1,033 equal lines"


@given(st.lists(st.sampled_from([*PYTEST.split("\n"), *GO.split("\n"), *CARGO.split("\n")])))
def test_no_line_about_a_failure_is_lost_in_any_mixture(lines: list[str]) -> None:
    """Several runners may write into one output, in any order."""
    text = folded("\n".join([*lines, "x" * 400, *["x"] * 400])).text.split("\n")

    marks = ("FAIL", "E  ", "panicked", "failed", "assert")
    green = "test result: ok"
    troubles = [e for e in lines if any(mark in e for mark in marks) and not e.startswith(green)]
    assert [each for each in troubles if each not in text] == []


NPM = [
    f"npm http fetch GET 200 https://registry.npmjs.org/p{n} {n}ms (cache miss)" for n in range(9)
]
MAKE = [f"    CC module{n}.o" for n in range(40)]
WGET = [f"{n * 50:6}K .......... .......... {n}% 120M 0s" for n in range(20)]
DOCKER = [f"#4 sha256:147e02c24f40 {n}.40MB / 100.15MB {n}.6s" for n in range(30)]


@each_row("steps", [NPM, MAKE, WGET, DOCKER], ids=["npm", "make", "wget", "docker"])
def test_steps_that_succeeded_are_their_first_and_last(steps: list[str]) -> None:
    """What stopped them stands where it stood, with the step before it."""
    trouble = "make: *** [Makefile:12: all] Error 2"

    found = folded("\n".join(["begin", *steps, trouble, "end"]))

    note = f"[{len(steps) - 2} lines like these]"
    assert found.text.split("\n") == ["begin", steps[0], note, steps[-1], trouble, "end"]
    assert found.summary == f"{len(steps) - 3} lines about steps that succeeded"


@each_row(
    "line",
    [
        "npm http fetch GET 404 https://registry.npmjs.org/nothing 9ms",
        "npm verbose stack Error: connect ECONNREFUSED",
        "npm warn deprecated request@2.88.2: it is deprecated",
        "src/a.c:12:3: warning: unused variable",
        "> Task :compileJava FAILED",
        "fatal: [host1]: UNREACHABLE!",
        "   Compiling broken v0.1.0 failed",
        "[3/9] Building failed",
    ],
)
def test_a_step_that_went_wrong_is_never_folded(line: str) -> None:
    assert line in folded("\n".join([*NPM, line, *NPM, *MAKE, line, *MAKE])).text.split("\n")


@each_row(
    "listed",
    [
        [f"src/module{n % 3}.c:{n}: serverLog(LL_NOTICE, n);" for n in range(90)],
        [f"{n}% {n * 3} {n * 5}" for n in range(90)],
        ["def f():", *(f"    line_of_code({n})" for n in range(20)), ""] * 2,
        [f"src/a.js:{n}:  const value{n} = 'error: none'" for n in range(90)],
        [f"- Installing part {n} of the changes" for n in range(90)],
        [f"    create index by_{n} on orders (column_{n});" for n in range(90)],
        [f"    mkdir -p build/{n}" for n in range(90)],
        [f"+    assert part_{n}() == {n}" for n in range(90)],
        [f"2026-11-26 10:00:{n:02} WARNING slow reply {n}" for n in range(60)],
        [f"├── chapter-{n}.md   about {n}" for n in range(60)],
    ],
    ids=[
        "matches",
        "a table",
        "a text with repeats",
        "matches of one file",
        "a list",
        "statements",
        "a script",
        "a difference",
        "warnings",
        "a tree",
    ],
)
def test_what_was_asked_for_is_never_folded(listed: list[str]) -> None:
    assert folded("\n".join(listed)) == Folded("\n".join(listed))


_PLACE = r"(?:\d+(?::\d+)?|\(\d+(?:,\d+)*\) ?|:\[\d+,\d+\])"
_PLACES = re.compile(rf"({_PLACE}(?:, {_PLACE})*)((?::| ).*)")


def unfolded(text: str) -> list[str]:
    """Return the lines that grouped findings and names stand for."""
    lines: list[str] = []
    path = ""
    for line in text.split("\n"):
        if match := re.fullmatch(r"(.*?/)\{(.*)\}(.*)", line):
            lines += [f"{match[1]}{name}{match[3]}" for name in match[2].split(",")]
        elif match := _PLACES.fullmatch(line):
            places = re.findall(_PLACE, match[1])
            lines += [f"{path}{':' * each[0].isdigit()}{each}{match[2]}" for each in places]
        elif line.startswith(": "):
            lines.append(f"{path}{line}")
        elif line.endswith(":") and ": In " not in line:
            path = line[:-1]
        else:
            lines.append(line)
    return lines


_NAMES = st.sampled_from(["a.py", "b.py", "Makefile", "c-d_1.tsx", "e"])
_PATHS = st.builds("src/{}/{}".format, st.sampled_from(["one", "two/three"]), _NAMES)
_TEXTS = st.sampled_from(["error: no such name", "E501 line too long", "note: declared here"])
_FINDINGS = st.one_of(
    st.builds("{}:{}:{}: {}".format, _PATHS, st.integers(1, 40), st.integers(1, 9), _TEXTS),
    st.builds("{}:{}: error: {}".format, _PATHS, st.integers(1, 40), _TEXTS),
    st.builds("{}({},{}): {}".format, _PATHS, st.integers(1, 40), st.integers(1, 9), _TEXTS),
    st.builds("{}: In function 'f':".format, _PATHS),
    st.just("the source of it"),
)


@given(st.lists(_FINDINGS, max_size=60))
def test_findings_lose_nothing_below_the_name_of_their_file(lines: list[str]) -> None:
    """Equal texts are told once, so their order may change."""
    padding = "x" * 400
    text = folded("\n".join([*lines, *[padding] * 4])).text

    found = [line for line in unfolded(text) if "x" * 400 not in line]
    wanted = [line for line in lines if line != "the source of it"]
    found = [line for line in found if line != "the source of it" and not line.startswith("[the")]
    assert set(found) == set(wanted)


@given(st.lists(st.one_of(_PATHS, st.builds("would reformat {}".format, _PATHS)), max_size=80))
def test_names_lose_nothing_behind_their_folder(lines: list[str]) -> None:
    lines = list(dict.fromkeys(f"{line}{n}" for n, line in enumerate(lines)))

    text = folded("\n".join([*lines, "", *["x" * 400] * 4])).text

    assert unfolded(text)[: len(lines)] == lines


def test_findings_and_names_stand_below_what_they_share() -> None:
    names = [f"src/module{n}.c" for n in range(30)]
    findings = [f"src/a.py:{n}:1: E501 line too long (88 > 79 characters)" for n in range(9)]

    found = folded("\n".join([*names, "", *findings, "src/a.py:3:2: F401 unused"]))

    assert found.text.split("\n") == [
        f"src/{{{','.join(f'module{n}.c' for n in range(30))}}}",
        "",
        "src/a.py:",
        "0:1, 1:1, 2:1, 3:1, 4:1, 5:1, 6:1, 7:1, 8:1: E501 line too long (88 > 79 characters)",
        "3:2: F401 unused",
    ]
    assert found.summary == (
        "10 findings below the name of their file, 29 lines of names in one folder"
    )


def test_gcc_repeats_neither_file_nor_source() -> None:
    text = "\n".join(
        line
        for n in range(8)
        for line in (
            f"/srv/shop/src/cart.c: In function 'f{n}':",
            f"/srv/shop/src/cart.c:{n}:3: warning: unused variable 'a{n}'",
            f"  {n} | int a{n}, b{n};",
            "    |     ^~",
            f"/srv/shop/src/cart.c:{n}:7: warning: unused variable 'b{n}'",
            f"  {n} | int a{n}, b{n};",
            "    |         ^~",
        )
    )

    assert folded(text).text.split("\n")[:6] == [
        "/srv/shop/src/cart.c:",
        ": In function 'f0':",
        "0:3: warning: unused variable 'a0'",
        "  0 | int a0, b0;",
        "0:7: warning: unused variable 'b0'",
        ": In function 'f1':",
    ]


CLIPPY = """\
warning: long literal lacking separators
   --> src/utf8.rs:{n}:27
    |
{n} |         *cp = (b as u32 & 0b111111);
    |                           ^^^^^^^^ help: consider: `0b11_1111`
    |
    = help: for further information visit https://rust-lang.github.io/index.html#unreadable
    = note: `-W clippy::unreadable-literal` implied by `-W clippy::pedantic`
"""


def test_gcc_shows_the_source_of_three_findings_with_one_text() -> None:
    text = "\n".join(
        f"/srv/shop/src/cart.c:{n}:3: error: unknown type 'line'\n  {n} | line a{n};"
        for n in range(9)
    )

    assert folded(f"{text}\n{'x' * 300}").text.split("\n")[1:-1] == [
        *(
            line
            for n in range(3)
            for line in (f"{n}:3: error: unknown type 'line'", f"  {n} | line a{n};")
        ),
        "3:3, 4:3, 5:3, 6:3, 7:3, 8:3: error: unknown type 'line'",
    ]


def test_clippy_gives_its_advice_once_and_equal_findings_thrice() -> None:
    text = folded("\n".join(CLIPPY.format(n=n) for n in range(100, 109)) + "\n").text

    assert text.count("= help:") == text.count("= note:") == 1
    assert text.count("^^^^^^^^ help: consider: `0b11_1111`") == 3
    assert "    |\n" not in text
    places = [f"src/utf8.rs:{n}:27" for n in range(100, 109)]
    assert text.endswith(f"warning: long literal lacking separators\n  --> {', '.join(places[3:])}")
    assert [place for place in places if place not in text] == []


TAP = """\
TAP version 13
# Subtest: cart
    # Subtest: adds a line
    ok 1 - adds a line
      ---
      duration_ms: 0.3
      ...
    # Subtest: fails for an error
    not ok 2 - fails for an error
      ---
      error: 'no line'
      ...
    1..2
not ok 1 - cart
  ---
  error: '1 subtest failed'
  ...
# Subtest: price
ok 2 - price
  ---
  duration_ms: 0.1
  ...
1..2
# tests 3
# fail 1"""


def test_tap_is_its_counts_and_its_failures() -> None:
    passed = [f"# Subtest: test {n}\nok {n} - test {n}\n  ---\n  a: 1\n  ..." for n in range(3, 30)]

    assert folded("\n".join([TAP, *passed])).text.split("\n") == [
        "TAP version 13",
        "# Subtest: cart",
        "    # Subtest: fails for an error",
        "    not ok 2 - fails for an error",
        "      ---",
        "      error: 'no line'",
        "      ...",
        "not ok 1 - cart",
        "  ---",
        "  error: '1 subtest failed'",
        "  ...",
        "# tests 3",
        "# fail 1",
    ]


GTEST = ("[ RUN      ] Cart.Test{n}", "[       OK ] Cart.Test{n} (0 ms)")
CTEST = ("      Start {n}: test_{n}", " {n}/50 Test #{n}: test_{n} .........   Passed    0.01 sec")
DOTNET = ("  Passed Shop.Tests.Error{n} [2 ms]", "  Skipped Shop.Tests.Slow{n} [1 ms]")
GRADLE = ("CartTest > addsLine{n}() PASSED", "CartTest > fails{n}() PASSED")
SWIFT = ("Test Case '-[Cart a{n}]' started.", "Test Case '-[Cart a{n}]' passed (0.001 seconds).")


@each_row(
    "lines",
    [GTEST, CTEST, DOTNET, GRADLE, SWIFT],
    ids=["gtest", "ctest", "dotnet", "gradle", "xct"],
)
def test_other_runners_show_the_first_and_the_last_test_that_passed(lines: tuple[str, str]) -> None:
    """A name with a word of trouble is none; the failure stays with the line before it."""
    run = [line.format(n=n) for n in range(20) for line in lines]
    failure = ["src/cart.c:9: Failure", "1 test FAILED"]

    text = folded("\n".join([*run, *failure, *run])).text

    note = "[38 lines like these]"
    assert text.split("\n") == [run[0], note, run[-1], *failure, run[0], note, run[-1]]


def test_a_table_of_coverage_shows_what_is_not_covered() -> None:
    rows = [f"src/shop/part_{n}.py      20      0   100%" for n in range(30)]
    head = "Name                     Stmts   Miss  Cover   Missing"
    missed = "src/shop/price.py           20      4    80%   3-6"

    text = folded("\n".join([head, "-" * 60, *rows, missed, "-" * 60, "TOTAL 620 4 99%"])).text

    assert text.split("\n") == [head, "-" * 60, missed, "-" * 60, "TOTAL 620 4 99%"]


def test_a_stack_keeps_own_frames_and_the_ends_of_a_library() -> None:
    stack = [
        "Error: boom",
        "    at total (/srv/shop/src/price.js:3:9)",
        *(f"    at step{n} (/srv/shop/node_modules/router/index.js:{n}:1)" for n in range(8)),
        "    at main (/srv/shop/src/main.js:9:1)",
    ]

    assert folded("\n".join(stack)).text.split("\n") == [
        *stack[:3],
        "[6 frames of libraries]",
        *stack[-2:],
    ]


def test_a_python_traceback_keeps_own_frames_and_the_ends_of_a_library() -> None:
    library = [
        line
        for n in range(8)
        for line in (
            f'  File "/v/lib/python3.12/site-packages/web/a{n}.py", line 1, in f',
            "    g()",
        )
    ]
    own = ['  File "/srv/shop/app.py", line 3, in view', "    return 1 / 0"]

    text = folded("\n".join(["Traceback:", *own, *library, *own, "ZeroDivisionError: x"])).text

    assert text.split("\n") == [
        "Traceback:",
        *own,
        *library[:2],
        "[6 frames of libraries]",
        *library[-2:],
        *own,
        "ZeroDivisionError: x",
    ]


def test_times_of_a_build_server_stand_once_a_minute_and_at_trouble() -> None:
    stamp = "2026-11-26T10:{:02}:{:02}.1234567Z "
    lines = [f"{stamp.format(n // 30, n % 30)}a line that no rule knows {n * n}" for n in range(60)]
    lines[9] = f"{stamp.format(0, 9)}error: no space left"

    text = folded("\n".join(lines)).text.split("\n")

    assert [line for line in text if line.startswith("2026")] == [lines[0], lines[9], lines[30]]
    assert [line.removeprefix(stamp.format(0, 0)) for line in text[:3]] == [
        "a line that no rule knows 0",
        "a line that no rule knows 1",
        "a line that no rule knows 4",
    ]


def test_requests_that_were_answered_are_the_first_and_the_last() -> None:
    lines = [f'INFO: 127.0.0.1:{n} - "GET /cart/{n} HTTP/1.1" 200 OK' for n in range(40)]
    failed = 'INFO: 127.0.0.1:9 - "GET /cart/9 HTTP/1.1" 500 Internal Server Error'

    text = folded("\n".join([*lines, failed, *lines])).text

    note = "[38 lines like these]"
    ends = [lines[0], note, lines[-1]]
    assert text.split("\n") == [*ends, failed, *ends]


def test_long_data_is_its_ends() -> None:
    data = "QUJDREVGR0hJSktMTU5PUA12" * 60

    assert folded(f"before\nkey: {data}\n").text == (
        f"before\nkey: {data[:60]}[… 1,320 characters …]{data[-60:]}\n"
    )


def test_what_a_program_draws_over_with_cursor_moves_is_its_last_screen() -> None:
    """Compose draws each layer's line again; a failure on the way stays."""
    frames = "".join(f"\x1b[2A\x1b[2K\rlayer a: {n}%\n\x1b[2K\rlayer b: {n}%\n" for n in range(100))
    failed = "\x1b[1A\x1b[2K\rlayer b: error, retrying\n"

    text = settled(f"begin\nlayer a\nlayer b\n{frames}{failed}{frames}end\n")

    assert text == "begin\nlayer a: 99%\nlayer b: error, retrying\nlayer b: 99%\nend"


def test_trouble_on_a_screen_that_is_cleared_stays() -> None:
    text = "a\n\x1b[31mfatal: no disk\x1b[0m\nb\n\x1b[3A\x1b[Jdone\n"

    assert settled(text).splitlines() == ["fatal: no disk", "done"]


@each_row(
    "piece", ["\x1b[1A\x1b[9999Bx\n", "\x1b[1A\x1b[9999Cx", "\x1b[1A\x1b[Kx", "\x1b[1Ax\x1b[J\n\n"]
)
def test_hostile_cursor_moves_cost_little(piece: str) -> None:
    """Neither rows nor columns grow beyond what was printed, and time grows with it."""
    began = time.process_time()

    assert len(settled(piece * 10_000)) < 500_000
    assert time.process_time() - began < 1.25


def test_cursor_move_of_thousands_of_digits_is_one_move() -> None:
    """Python refuses to read so long a number, and the whole output was lost."""
    assert settled(f"first\nsecond\n\x1b[{'9' * 5_000}A\x1b[Klast\n") == "last\nsecond"


def test_many_short_lines_cost_little() -> None:
    """590 kB of numbers, of which nothing is folded, kept the event loop for 0.6 seconds."""
    numbers = "\n".join(map(str, range(100_000)))
    began = time.process_time()

    assert folded(numbers).text == numbers
    assert time.process_time() - began < 0.3


@each_row("piece", ["a", ".", "/", "a/", ":1:1", "x.py:1:1: ", "(1)", "' -> '"])
def test_long_lines_of_one_piece_cost_little(piece: str) -> None:
    """100 kB; a pattern that goes back over a line takes minutes."""
    began = time.process_time()

    folded("\n".join([piece * (2_000 // len(piece))] * 50))
    folded(piece * (100_000 // len(piece)))

    assert time.process_time() - began < 5


def test_text_without_cursor_moves_stays_as_it_is() -> None:
    text = "a\x1b[31mred\x1b[0m\r\nb\rc\n"

    assert settled(text) == text


def test_a_block_that_stands_above_is_named_but_its_failures_stay() -> None:
    """The source that every traceback of a test run shows again."""
    source = [f"        value_{n} = compute_the_next_value({n})" for n in range(12)]
    failures = [
        line
        for n in range(3)
        for line in (
            f"____ test_{n} ____",
            *source,
            "E   ValueError: no value",
            "a.py:3: ValueError",
        )
    ]
    run = [*(f"tests/test_a{n}.py ....... [ 9%]" for n in range(20)), *failures]

    found = folded("\n".join([*run, "=== 3 failed, 140 passed in 0.31s ==="])).text.split("\n")

    note = "[12 lines as above, from: value_0 = compute_the_next_value(0)]"
    ends = ["E   ValueError: no value", "a.py:3: ValueError"]
    assert found == [
        *("____ test_0 ____", *source, *ends),
        *("____ test_1 ____", note, *ends),
        *("____ test_2 ____", note, *ends),
        "=== 3 failed, 140 passed in 0.31s ===",
    ]


MOCHA = """\

  app
    .render
      ✔ uses the view
      ✔ passes options
    .listen
      1) fails without a port
      ✔ takes a port

  req
    ✔ is a request


  4 passing (20ms)
  1 failing

  1) app
       .listen
         fails without a port:
     AssertionError: expected 0 to equal 1
"""


def test_mocha_is_its_counts_and_its_failures() -> None:
    padded = MOCHA.replace("      ✔ uses the view", "      ✔ uses the view\n" * 30)

    found = folded(padded).text

    assert "✔" not in found
    for line in MOCHA[MOCHA.index("  4 passing") :].splitlines():
        assert line in found.split("\n")
    assert "      1) fails without a port" in found.split("\n")


def test_all_of_a_folded_output_is_in_the_file_that_the_last_line_names(tmp_path: Path) -> None:
    """Also where the whole is longer than an excerpt, which would have cut the failure out."""
    green = "".join(f"tests/test_{n}.py {'.' * 60} [ 50%]\n" for n in range(2_000))
    output = f"{green}{PYTEST}\n{green}"
    buffer = OutputBuffer(Spills(tmp_path), result_chars_max=4_000, folds=True)
    buffer.add(output.encode())

    text = buffer.final_text()

    assert "E       assert 3 == 4" in text
    assert text.splitlines()[-1].startswith("[folded: 4,")
    assert text.endswith(f"; all of it is in {buffer.spill_path}]")
    assert buffer.spill_path is not None
    assert buffer.spill_path.read_text() == output


def test_no_place_is_sought_in_a_long_list_of_files() -> None:
    """The times of day in it look like places; the search in each line cost most of the folding."""
    listed = [f"-rw-r--r-- 1 me me {n} Nov 30 11:{n % 60:02} part_{n}.py" for n in range(1_000)]
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        found, changed = grouped_findings(listed)
    finally:
        sys.setprofile(None)

    assert (found, changed) == (listed, 0)
    assert calls < len(listed) / 10
