"""What is folded of a command's output, and that no failure ever is."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_cli_tools.folding import Folded, folded
from agent_cli_tools.output import OutputBuffer
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


@pytest.mark.parametrize(
    "output", GONE, ids=["pytest", "unittest", "jest", "vitest", "go", "cargo"]
)
def test_a_test_run_is_its_counts_and_its_failures(output: str) -> None:
    """Each line that stays is as it was, in order; nothing about a passed test does."""
    text, said = folded(f"{output}\n" * 4 + PADDING)

    left = iter((f"{output}\n" * 4 + PADDING).split("\n"))
    assert all(line in left for line in text.split("\n") if not line.startswith("[the "))
    assert [word for word in GONE[output] if word in text] == []
    assert "about passed tests" in said


@pytest.mark.parametrize(
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


@pytest.mark.parametrize("steps", [NPM, MAKE, WGET, DOCKER], ids=["npm", "make", "wget", "docker"])
def test_steps_that_succeeded_are_their_first_and_last(steps: list[str]) -> None:
    """What stopped them stands where it stood, with the step before it."""
    trouble = "make: *** [Makefile:12: all] Error 2"

    found = folded("\n".join(["begin", *steps, trouble, "end"]))

    note = f"[{len(steps) - 2} lines like these]"
    assert found.text.split("\n") == ["begin", steps[0], note, steps[-1], trouble, "end"]
    assert found.said == f"{len(steps) - 3} lines about steps that succeeded"


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
    "listed",
    [
        [f"src/module{n}.c" for n in range(90)],
        [f"src/module{n % 3}.c:{n}: serverLog(LL_NOTICE, n);" for n in range(90)],
        [f"{n}% {n * 3} {n * 5}" for n in range(90)],
        [f"src/a.py:{n}:1: E501 line too long (88 > 79 characters)" for n in range(90)],
        ["def f():", *(f"    line_of_code({n})" for n in range(20)), ""] * 2,
    ],
    ids=["names", "matches", "a table", "findings", "a text with repeats"],
)
def test_what_was_asked_for_is_never_folded(listed: list[str]) -> None:
    assert folded("\n".join(listed)) == Folded("\n".join(listed))


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
