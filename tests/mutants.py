"""Mutation testing: `make mutants` changes the source in small ways and runs the tests on each.

A change is made to the syntax tree of one module as it is imported, also by the programs that
tests start; no source is written. The tests that run are those of the module's own room, its own
test file first, until one fails. A sample, the same for the same seed, is drawn from each room, and
as much of it is tried as the time allows. Mutants that survive all tests are listed.

tests/row_mutants.py samples requirements instead.

mutmut is not used: it first copies the whole program with all mutants of all rooms into it, which
takes longer than the whole sample here.

Not mutated: docstrings, annotations, decorators, assertions, log lines, and code only for type
checkers.
"""

import argparse
import ast
import copy
import marshal
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

ROOMS = ("core", "policies", "providers", "session_store")
PACKAGE = "agent_cli"
TOOLS_FOLDER = "tools"
# What each interpreter runs at its start. It imports nothing: some tests look at what is imported.
REPLACING = """
from _frozen_importlib_external import SourceFileLoader as loader

def get_code(self, fullname, read=loader.get_code):
    if fullname != {name!r}:
        return read(self, fullname)
    import marshal
    with open({code!r}, "rb") as code:
        return marshal.load(code)

loader.get_code = get_code
"""
UNCHANGED_LIMIT_S = 300
TEST_LIMIT_S = 90
_LOGGERS = {"log", "_log", "_LOG", "LOG"}
_SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.Add,
    ast.Break: ast.Continue,
    ast.Continue: ast.Break,
}


class Mutant(NamedTuple):
    """The change with this *number* to the module in *path*."""

    path: Path
    number: int

    def __str__(self) -> str:
        return f"{self.path}:{self.number}"

    @classmethod
    def of(cls, name: str) -> "Mutant":
        """Return the mutant with this written form."""
        path, _, number = name.rpartition(":")
        return cls(Path(path), int(number))


UNCHANGED = Mutant(Path(), -1)


@dataclass(frozen=True)
class Outcome:
    """The tests' verdict on a mutant, and the end of their output.

    Tests that were ended at the limit have no verdict: the mutant may loop for ever, or the machine
    may be slow. Such a mutant counts as noticed by nobody, and is told apart.
    """

    mutant: Mutant
    noticed: bool
    said: str
    timed_out: bool = False


def main() -> int:
    """Print the score of a sample; the exit code is 1 if it is below the bar."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sample", type=int, default=40, help="mutants of each room")
    parser.add_argument("--minutes", type=float, default=9, help="for all rooms together")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--room", action="append", choices=ROOMS, help="only this one; repeatable")
    parser.add_argument("--bar", type=float, default=0, help="the least share that is good enough")
    parser.add_argument("--run", metavar="MUTANT", help="run the tests on one, to see them fail")
    parser.add_argument("--first", action="append", default=[], help="run this test before others")
    given = parser.parse_args()
    if given.run:
        return test_on(Mutant.of(given.run), given.first)

    rooms = given.room or ROOMS
    chance = random.Random(given.seed)
    print(f"seed {given.seed}; the sample of each room:", flush=True)
    shares: list[float] = []
    for room in rooms:
        begun = time.monotonic()
        until = begun + given.minutes * 60 / len(rooms)
        mutants = [mutant for path in modules_of(room) for mutant in mutants_of(path)]
        sample = chance.sample(mutants, min(given.sample, len(mutants)))
        unchanged = _outcome(UNCHANGED._replace(path=sample[0].path), UNCHANGED_LIMIT_S)
        if unchanged.noticed:
            raise SystemExit(f"{room}: a test fails without any mutant:\n{unchanged.said}")
        # A mutant that loops for ever is caught; a slow machine must not count as one.
        limit_s = 30 + 5 * (time.monotonic() - begun)
        with ThreadPoolExecutor(given.workers) as pool:
            tried = [*pool.map(partial(outcome_before, until, limit_s), sample)]
        outcomes = [outcome for outcome in tried if outcome]
        shares.append(_report(room, outcomes, len(mutants), time.monotonic() - begun))
    return int(min(shares) < given.bar)


def mutants_of(path: Path) -> list[Mutant]:
    """Return every change that can be made to the module in *path*."""
    return [Mutant(path, number) for number, _ in enumerate(_changes(_tree(path)))]


def mutants_with_lines(path: Path) -> list[tuple[Mutant, int]]:
    """Return every change that can be made to the module in *path*, and the line of each."""
    return [
        (Mutant(path, number), _line_of(parent, field, index))
        for number, (parent, field, index, _) in enumerate(_changes(_tree(path)))
    ]


def mutated(mutant: Mutant) -> tuple[ast.Module, str]:
    """Return the module with the change in it, and the change in readable form."""
    tree = _tree(mutant.path)
    if mutant.number == UNCHANGED.number:
        return tree, f"{mutant.path}: unchanged"
    parent, field, index, new = [*_changes(tree)][mutant.number]
    old = _replaced(parent, field, index)
    line = _line_of(parent, field, index)
    # The line as a whole, from a separate tree: an operator alone is not readable.
    before = _shown(parent, old)
    if index is None:
        setattr(parent, field, new)
    else:
        getattr(parent, field)[index] = new
    ast.fix_missing_locations(tree)
    return tree, f"{mutant.path}:{line}: {before}  →  {_shown(parent, new)}"


def _replaced(parent: ast.AST, field: str, index: int | None) -> ast.AST:
    held = getattr(parent, field)
    found = held if index is None else held[index]
    assert isinstance(found, ast.AST)
    return found


def _line_of(parent: ast.AST, field: str, index: int | None) -> int:
    old = _replaced(parent, field, index)
    line = getattr(old, "lineno", getattr(parent, "lineno", 0))
    assert isinstance(line, int)
    return line


def _shown(parent: ast.AST, part: ast.AST) -> str:
    shown = part if isinstance(part, ast.expr | ast.stmt) else parent
    return " ".join(ast.unparse(shown).split())[:100]


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


_Change = tuple[ast.AST, str, int | None, ast.AST]
"""A node, its field, an index where that is a list, and what is put there instead."""


def _changes(node: ast.AST) -> Iterator[_Change]:
    for field, value in ast.iter_fields(node):
        if _is_left_alone(node, field):
            continue
        for index, child in enumerate(value if isinstance(value, list) else [value]):
            if not isinstance(child, ast.AST) or _is_for_others(child):
                continue
            place = index if isinstance(value, list) else None
            for new in _instead_of(node, field, child):
                located = ast.copy_location(new, child) if hasattr(child, "lineno") else new
                yield node, field, place, located
            yield from _changes(child)


def _is_left_alone(node: ast.AST, field: str) -> bool:
    if field in ("annotation", "returns", "decorator_list", "bases", "ctx"):
        return True
    if isinstance(node, ast.Call) and field == "keywords":
        return ast.unparse(node.func) in ("dataclass", "field")
    return isinstance(node, ast.Subscript) and ast.unparse(node.value) in ("Literal", "ClassVar")


def _is_for_others(node: ast.AST) -> bool:
    """Return whether *node* is only read by people or tools, and not run."""
    match node:
        case ast.Expr(value=ast.Constant()) | ast.Assert() | ast.Import() | ast.ImportFrom():
            return True
        case ast.AnnAssign(annotation=ast.Name(id="TypeAlias")) | ast.JoinedStr():
            return True
        case ast.Assign(targets=[ast.Name(id="__all__" | "__slots__")]):
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name)))):
            return name in _LOGGERS
        case ast.Call(func=ast.Name(id="TypeVar" | "ParamSpec" | "cast" | "NewType")):
            return True
        case ast.Expr(value=ast.Call(func=ast.Name(id="assert_never"))):
            return True
        case _:
            return False


def _instead_of(parent: ast.AST, field: str, node: ast.AST) -> Iterator[ast.AST]:
    """Yield the possible replacements of *node*."""
    if type(node) in _SWAPPED:
        yield _SWAPPED[type(node)]()
    match node:
        case ast.Constant(value=bool(flag)):
            yield ast.Constant(not flag)
        case ast.Constant(value=int(number) | float(number)):
            yield ast.Constant(number + 1)
        case ast.Constant(value=str(text)):
            yield ast.Constant(f"XX{text}XX")
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield copy.deepcopy(operand)
        case ast.Return(value=ast.expr() as value) if not _is_untrue(value):
            yield ast.Return(ast.Constant(None))
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.AugAssign():
            yield ast.Pass()
        case ast.Assign(targets=targets, value=value) if not _is_untrue(value):
            yield ast.Assign([copy.deepcopy(each) for each in targets], ast.Constant(None))
        case _:
            pass
    decides = isinstance(parent, ast.If | ast.IfExp | ast.While) and field == "test"
    if decides or (isinstance(parent, ast.comprehension) and field == "ifs"):
        assert isinstance(node, ast.expr)
        yield ast.UnaryOp(ast.Not(), copy.deepcopy(node))


def _is_untrue(node: ast.expr) -> bool:
    """Return whether None instead of *node* changes nothing where only the truth is asked for."""
    return isinstance(node, ast.Constant) and (node.value is None or node.value is False)


def outcome_before(
    until: float, limit_s: float, mutant: Mutant, first: Sequence[str] = ()
) -> Outcome | None:
    """Run the tests on *mutant* unless the time is *until*."""
    return _outcome(mutant, limit_s, first) if time.monotonic() < until else None


def _outcome(mutant: Mutant, limit_s: float, first: Sequence[str] = ()) -> Outcome:
    """Run the tests on *mutant* in a new interpreter, *first* before the others."""
    command = [sys.executable, "-m", "tests.mutants", "--run", str(mutant)]
    command += [f"--first={test}" for test in first]
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        text=True,
    ) as tests:
        try:
            said, _ = tests.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(tests.pid, signal.SIGKILL)
            tests.communicate()
            said = f"no end within {limit_s:.0f} s"
            return Outcome(mutant, noticed=False, said=said, timed_out=True)
    # Also if a test module cannot be imported any more, or the interpreter ended.
    return Outcome(mutant, noticed=tests.returncode != 0, said=said[-2_000:])


def test_on(mutant: Mutant, first: Sequence[str] = ()) -> int:
    """Run the tests *first*, then the room's, on *mutant*, in this process."""
    import pytest  # noqa: PLC0415 - only who runs tests needs it

    sys.path.insert(0, str(Path.cwd()))
    # A test that hangs has noticed the mutant.
    options = ["-x", "-m", "not slow", "-p", "no:cacheprovider", "-p", "no:xdist"]
    options += ["-o", f"faulthandler_timeout={TEST_LIMIT_S}"]
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        _install(mutant, Path(folder))
        for tests in ([*first], *_tests_of(mutant.path)):
            exit_code = int(pytest.main([*options, *map(str, tests)])) if tests else 0
            if exit_code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
                return exit_code
    return 0


def _install(mutant: Mutant, folder: Path) -> None:
    """Have this process, and each Python it starts, import *mutant* in place of its module."""
    tree, shown = mutated(mutant)
    print(shown, flush=True)
    name = ".".join(mutant.path.with_suffix("").parts)
    name = name.removeprefix(f"{TOOLS_FOLDER}.").removesuffix(".__init__")
    code = compile(tree, str(mutant.path), "exec", dont_inherit=True)
    (folder / "code").write_bytes(marshal.dumps(code))
    replacing = REPLACING.format(name=name, code=str(folder / "code"))
    (folder / "sitecustomize.py").write_text(replacing)
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    exec(compile(replacing, "sitecustomize", "exec"), {})


def _tests_of(path: Path) -> Iterator[Sequence[Path]]:
    """Yield the module's own tests, the likeliest to catch it, then the others of its room."""
    room, inner = room_of(path)
    folder = Path("tests", room)
    own = folder / inner.with_name(f"test_{path.name}")
    if own.exists():
        yield [own]
    yield sorted(each for each in folder.rglob("test_*.py") if each != own)


def room_of(path: Path) -> tuple[str, Path]:
    """Return the room of the module in *path*, and its path in there."""
    if path.parts[0] == TOOLS_FOLDER:
        return TOOLS_FOLDER, path.relative_to(Path(*path.parts[:2]))
    return path.parts[1], path.relative_to(Path(*path.parts[:2]))


def modules_of(room: str) -> list[Path]:
    """Return the modules that the tests of *room* are for."""
    folder = next(Path(TOOLS_FOLDER).iterdir()) if room == TOOLS_FOLDER else Path(PACKAGE, room)
    return sorted(folder.rglob("*.py"))


def _report(room: str, outcomes: Sequence[Outcome], total: int, elapsed_s: float) -> float:
    if not outcomes:
        print(f"{room:14} no time for any of {total} mutants", flush=True)
        return 0
    score, share = score_of(outcomes)
    print(f"{room:14} {score} of {total} mutants, {elapsed_s:.0f} s", flush=True)
    for each in outcomes:
        if not each.noticed:
            word = each.said if each.timed_out else "survived"
            print(f"    {word}  {each.mutant}  {mutated(each.mutant)[1]}", flush=True)
    return share


def score_of(outcomes: Sequence[Outcome]) -> tuple[str, float]:
    """Return the counts of *outcomes* in words, and the share that a test noticed."""
    noticed = sum(each.noticed for each in outcomes)
    share = noticed / max(1, len(outcomes))
    late = sum(each.timed_out for each in outcomes)
    words = f"{noticed} of {len(outcomes)} noticed ({share:.1%})"
    return (f"{words}, {late} without an end in time" if late else words), share


if __name__ == "__main__":
    sys.exit(main())
