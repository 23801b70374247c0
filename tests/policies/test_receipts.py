"""Receipts say what checks printed, on which files, and nothing where that is not sure."""

import os
from pathlib import Path

import pytest

from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import ToolResult
from agent_cli.policies.receipts import Receipt, receipt_of, with_receipt
from agent_cli.system.trees import tree_state
from tests.tables import each_row

CARGO = "test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out"
PASSED = "....  [100%]\n412 passed in 3.21s"


@each_row(
    ("command", "output", "code", "told"),
    [
        ("pytest -q", PASSED, 0, "pytest -q · 412 passed"),
        ("make test", PASSED, 0, "make test · 412 passed"),
        ("cd /w && pytest -q 2>&1 | tail -3", PASSED, 0, "pytest -q · 412 passed"),
        ("pytest", "= 3 failed, 409 passed in 9.00s =", 1, "pytest · 3 failed, 409 passed"),
        (
            "pytest -v",
            "1 failed, 2 passed, 4 subtests passed in 1s",
            1,
            "pytest -v · 1 failed, 2 passed",
        ),
        ("pytest --cov", PASSED, 1, "pytest --cov · 412 passed, exit 1"),
        ("pytest | tail -1; true", "1 failed in 0.1s", 0, "pytest | tail -1; true · 1 failed"),
        ("CI=1 uv run pytest", PASSED, 0, "CI=1 uv run pytest · 412 passed"),
        ("./u", "Ran 12 tests in 0.01s\n\nOK (skipped=1)", 0, "./u · 12 tests, none failed"),
        ("./u | tail", "Ran 3 tests in 0.1s\n\nFAILED (failures=2)", 0, "./u · 2 failed, 3 tests"),
        ("./u", "Ran 1 test in 0.1s\n\nFAILED (errors=1)", 1, "./u · 1 error, 1 test"),
        ("rspec", "5 examples, 0 failures", 0, "rspec · 5 tests, none failed"),
        ("phpunit", "Tests: 5, Assertions: 9, Failures: 1.", 1, "phpunit · 1 failed, 5 tests"),
        (
            "phpunit",
            "OK, but there were issues!\nTests: 5, Assertions: 9, Skipped: 1.",
            0,
            "phpunit · 5 tests, none failed",
        ),
        ("cargo test", CARGO, 0, "cargo test · 2 passed"),
        ("npm test", "Tests:  1 failed, 2 passed, 3 total", 1, "npm test · 1 failed, 2 passed"),
        ("npx vitest run", " Tests  20 passed (20)", 0, "npx vitest run · 20 passed"),
        ("go test ./...", "ok  \tgithub.com/a/b\t0.1s", 0, "go test ./... · exit 0"),
        ("ruff check", "All checks passed!", 0, "ruff check · no errors"),
        ("ruff check", "Found 3 errors (2 fixed, 1 remaining).", 1, "ruff check · 1 error"),
        ("mypy .", "Success: no issues found in 12 source files", 0, "mypy . · no errors"),
        ("mypy", "Found 2 errors in 1 file (checked 5 source files)", 1, "mypy · 2 errors"),
        ("rubocop", "4 files inspected, no offenses detected", 0, "rubocop · no errors"),
        ("./check", "All checks passed!\n412 passed in 3s", 0, "./check · no errors, 412 passed"),
    ],
)
def test_check_is_known_by_its_summary(command: str, output: str, code: int, told: str) -> None:
    """What started the tool says nothing: `make test` counts, too."""
    receipt = receipt_of(command, output, code)

    assert receipt and receipt.line() == told


@pytest.mark.parametrize(
    ("length", "shown"), [(60, "x" * 53), (61, f"{'x' * 52}…")], ids=["whole", "cut"]
)
def test_long_command_is_cut_in_the_row_of_its_receipt(length: int, shown: str) -> None:
    """The figures behind it are what the row is for."""
    receipt = receipt_of(f"pytest {'x' * (length - 7)}", PASSED, 0)

    assert receipt and receipt.line() == f"pytest {shown} · 412 passed"


def test_summaries_of_several_crates_add_up_unless_some_are_left_out() -> None:
    cut = "[… 9,000 of 9,400 characters left out; all of it is in /tmp/x …]"

    whole = receipt_of("cargo test", f"{CARGO}\n{CARGO}", 0)
    part = receipt_of("cargo test", f"{CARGO}\n{cut}\n{CARGO}", 0)

    assert whole and dict(whole.counts) == {"passed": 4, "failed": 0}
    assert part and (dict(part.counts), part.line()) == ({}, "cargo test · exit 0")


@each_row(
    "command",
    [
        "cat test.log",
        "tail -5 test.log",
        "grep passed ci.txt",
        "git log -1",
        "gh run view --log",
        "ssh build pytest -q",
        "docker logs web",
        "timeout 5 cat test.log",
        "sed -n 1,9p a.log; pytest -q",
        "echo '412 passed in 3.21s'",
        "python -c 'print(open(\"log\").read())'",
        "python - <<X\nprint(1)\nX",
        "bash -c 'cat log'",
        "pytest -q | sed s/failed/passed/",
        "$RUN_IT",
        "find . -name x.log -exec cat {} +",
        "pytest 'unclosed",
    ],
)
def test_there_is_no_receipt_where_the_summary_may_be_anothers(command: str) -> None:
    """A log that is shown, another machine, a filter that rewrites, the words of the command."""
    assert receipt_of(command, PASSED, 0) is None


@each_row(
    ("command", "output"),
    [
        ("pytest --version", "pytest 9.0.1"),
        ("python -m unittest | head", "Ran 3 tests in 0.1s"),
        ("pytest -k no", "no tests ran in 0.01s"),
        ("pytest || pytest --lf | tail -2", "1 failed in 2.1s\n1 passed in 0.2s"),
        ("ls", "a.py"),
    ],
)
def test_nothing_is_said_without_something_sure(command: str, output: str) -> None:
    """Run twice, neither the figures nor the exit code are sure."""
    assert receipt_of(command, output, 0) is None


async def added(command: str, root: Path, *, began_ns: int) -> object:
    """Return the digest that a check's receipt gets."""

    async def tree(since_ns: int | None) -> str:
        return tree_state(root, since_ns=since_ns)

    details: dict[str, Json] = {"exit_code": 0, "duration_s": 0.0, "began_ns": began_ns}
    call = ToolCall("1", "bash", {"command": command})
    result = await with_receipt(call, ToolResult.of(PASSED, details), tree)
    assert isinstance(result.details, dict)
    receipt = result.details["check"]
    assert isinstance(receipt, dict)
    return receipt["tree"]


async def test_files_are_unknown_where_another_program_may_have_changed_them_behind_a_check(
    tmp_path: Path,
) -> None:
    """`pytest && ruff format`: the tests did not see what stands there now."""
    file = tmp_path / "a.py"
    began_ns = 1_000_000
    file.write_text("1")
    os.utime(file, ns=(began_ns, began_ns))

    changed = await added("pytest -q && ruff format", tmp_path, began_ns=began_ns)
    alone = await added("pytest -q", tmp_path, began_ns=began_ns)
    unchanged = await added("pytest -q && ruff format", tmp_path, began_ns=began_ns + 1)
    written = [
        await added(f"pytest -q{more}", tmp_path, began_ns=began_ns)
        for more in ("; echo > late", " 2> errors", "; printf x >> a.py")
    ]
    thrown_away = await added("pytest -q 2>&1; echo >/dev/null", tmp_path, began_ns=began_ns)

    assert changed == ""
    assert alone == unchanged == thrown_away != ""
    assert written == [""] * 3


def test_caches_are_no_change_of_the_files(tmp_path: Path) -> None:
    """Else a linter that ran behind the tests would make these look old."""
    (tmp_path / "a.py").write_text("1")
    before = tree_state(tmp_path)
    cache = tmp_path / ".ruff_cache"
    cache.mkdir()
    (cache / "CACHEDIR.TAG").write_text("Signature: 8a477f597d28d172789f06886806bc55")
    (cache / "0").write_text("x")
    with_cache = tree_state(tmp_path)
    (tmp_path / "b.py").write_text("1")

    assert before == with_cache != tree_state(tmp_path)


@each_row(
    ("edits", "is_final", "state"),
    [
        (0, True, " · on the final state"),
        (0, False, " · files changed since"),
        (0, None, ""),
        (1, True, " · 1 edit ago"),
        (3, False, " · 3 edits ago"),
    ],
)
def test_age_of_a_check_is_a_fact_or_left_out(
    edits: int, is_final: bool | None, state: str
) -> None:
    receipt = Receipt(
        command="ruff check",
        tools=("ruff",),
        counts={"errors": 0},
        exit_code=0,
        edits_since=edits,
        is_final=is_final,
    )

    assert receipt.line() == f"ruff check · no errors{state}"
