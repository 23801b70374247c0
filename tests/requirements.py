"""The table of requirements and their tests; `python -m tests.requirements [ID...]` prints it.

A test covers the IDs in its name, its docstring or a comment in it; a module's docstring counts for
the whole module. docs/requirements.md says what the IDs stand for.
"""

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent
PAGE = TESTS.parent / "docs" / "requirements.md"
_ID = re.compile(r"\b(?:S[0-4]c?-\d+|C\d+)\b")
_ROW = re.compile(r"- \*\*(?P<id>[\w-]+)\*\* (?P<text>.+)(?:\n {2}\*(?P<reason>.+)\*)?")


@dataclass(frozen=True, slots=True)
class Requirement:
    """One line of the page; `reason` says why it is not built, or built differently."""

    id: str
    text: str
    reason: str


def requirements() -> Sequence[Requirement]:
    """Return the requirements of the page, in its order."""
    page = PAGE.read_text(encoding="utf-8")
    return [Requirement(row["id"], row["text"], row["reason"] or "") for row in _ROW.finditer(page)]


@cache
def coverage(*wanted: str) -> Mapping[str, Sequence[str]]:
    """Return the tests that name each ID, as `path::test`, in the order of their files.

    With *wanted* IDs, only those are complete.
    """
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(TESTS.rglob("test_*.py")):
        source = path.read_text(encoding="utf-8")
        if {*_ID.findall(source)}.isdisjoint(wanted or _ID.findall(source)):
            continue  # parsing it would take most of the time
        for id, test in _named_in(path, source):
            if test not in found[id]:
                found[id].append(test)
    return found


def _named_in(path: Path, source: str) -> Iterator[tuple[str, str]]:
    module, name = ast.parse(source), str(path.relative_to(TESTS.parent))
    for id in _ID.findall(ast.get_docstring(module) or ""):
        yield id, name
    lines = source.splitlines()
    for node in module.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name[:5] == "test_":
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            for id in _ID.findall("\n".join(lines[first - 1 : node.end_lineno])):
                yield id, f"{name}::{node.name}"


def main(wanted: Sequence[str]) -> None:
    """Print the rows *wanted*, or all."""
    tests = coverage(*wanted)
    rows = [row for row in requirements() if row.id in wanted or not wanted]
    for row in rows:
        print(f"{row.id:7} {row.text}")
        print(*[f"        {test}" for test in tests.get(row.id, ())], sep="\n")
        if row.reason:
            print(f"        {row.reason}")
    named = sum(row.id in tests for row in rows)
    print(f"{len(rows)} requirements, {named} named by a test")


if __name__ == "__main__":
    main(sys.argv[1:])
