"""docs/requirements.md and the tests agree on the requirement IDs."""

import subprocess
import sys
from pathlib import Path

from tests.requirements import coverage, requirements

ROOT = Path(__file__).parents[1]


def test_each_requirement_is_named_by_a_test_or_has_a_reason() -> None:
    tests = coverage()

    open_rows = [row.id for row in requirements() if row.id not in tests and not row.reason]

    assert open_rows == []


def test_each_requirement_id_in_a_test_is_on_the_page_once() -> None:
    """Outsiders can look up each ID there."""
    ids = [row.id for row in requirements()]

    assert sorted({*coverage()} - {*ids}) == []
    assert len(ids) == len({*ids})


def test_requirements_table_names_the_tests_of_a_requirement() -> None:
    command = [sys.executable, "-m", "tests.requirements", "S1-19"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)

    first, *tests, last = done.stdout.splitlines()
    assert first.startswith("S1-19   429 → retry: 5 retries")
    path, _, name = tests[0].strip().partition("::")
    assert f"def {name}(" in (ROOT / path).read_text()
    assert last == "1 requirements, 1 named by a test"
