"""Imports of thousands of modules at once, and regular expressions compiled on first use."""

import ast
import gc
import pkgutil
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from agent_cli.policies import shell
from agent_cli.system import loading
from agent_cli.system.loading import (
    claim_process,
    is_installed,
    late_pattern,
    load,
    without,
    without_collections,
)

ROOT = Path(__file__).parents[2]
_PROGRAM = """
import importlib, re, sys
compiled = []
compile = re.compile

def noted(pattern, flags=0):
    caller = sys._getframe(1).f_globals["__name__"]
    if caller.startswith("agent_cli.policies.shell."):
        compiled.append((caller, pattern))
    return compile(pattern, flags)

re.compile = noted
for name in sys.argv[1:]:
    importlib.import_module("agent_cli.policies.shell." + name)
assert not compiled, compiled
"""


@pytest.fixture
def freezes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list of the times that objects were exempt; this process is nobody's yet."""
    times = list[str]()
    monkeypatch.setattr(gc, "freeze", lambda: times.append("freeze"))
    monkeypatch.setattr(loading, "_IS_OUR_PROCESS", Event())
    return times


def test_garbage_collection_is_paused_only_while_a_module_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, freezes: list[str]
) -> None:
    """The module's objects are never scanned again; a second import has nothing to do."""
    (tmp_path / "large_sdk.py").write_text("import gc\ncollected = gc.isenabled()\nmade = [[]]\n")
    monkeypatch.syspath_prepend(tmp_path)
    claim_process()

    load("large_sdk")
    load("large_sdk")

    assert sys.modules.pop("large_sdk").collected is False
    assert gc.isenabled()
    assert freezes == ["freeze"]


def test_objects_are_exempt_only_after_an_import_in_a_process_of_our_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, freezes: list[str]
) -> None:
    """Each session of a server or a library exempted the sessions alive, which then leaked."""
    (tmp_path / "new_module.py").touch()
    monkeypatch.syspath_prepend(tmp_path)

    load("new_module")
    claim_process()
    with without_collections():
        import_module("new_module")

    del sys.modules["new_module"]
    assert freezes == []


def test_garbage_collection_that_was_off_stays_off() -> None:
    """Two threads may import at once; the one that began first switches it on again."""
    with without_collections():
        with without_collections():
            pass

        assert not gc.isenabled()
    assert gc.isenabled()


def test_threads_load_modules_one_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With two threads in one package, Python sometimes raises a KeyError or a deadlock error."""
    package = tmp_path / "large_package"
    package.mkdir()
    (package / "__init__.py").write_text("import threading\nbegun = threading.Event()\n")
    (package / "first.py").write_text(
        "import large_package\n"
        "large_package.begun.set()\n"
        "was_beside = large_package.is_second.wait(0.3)\n"
    )
    (package / "second.py").write_text("import large_package\nlarge_package.is_second.set()\n")
    monkeypatch.syspath_prepend(tmp_path)
    load("large_package")
    made: Any = sys.modules["large_package"]
    made.is_second = Event()
    with ThreadPoolExecutor() as threads:
        first = threads.submit(load, "large_package.first")
        assert made.begun.wait(10)
        threads.submit(load, "large_package.second").result(10)
        first.result(10)

    assert sys.modules["large_package.first"].was_beside is False


def test_module_is_installed_only_if_its_parents_are() -> None:
    found = [is_installed(name) for name in ("json.decoder", "json.missing", "missing.module")]

    assert found == [True, False, False]


def test_module_is_hidden_from_the_imports_of_one_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "optional_part.py").touch()
    monkeypatch.syspath_prepend(tmp_path)

    with ThreadPoolExecutor() as threads, without("optional_part"):
        with pytest.raises(ModuleNotFoundError, match="optional_part"):
            import_module("optional_part")
        threads.submit(import_module, "optional_part").result(10)

    assert sys.modules.pop("optional_part").__file__ == str(tmp_path / "optional_part.py")


def test_late_pattern_behaves_as_a_compiled_one() -> None:
    late = late_pattern(r"(?P<word>[a-z]+)(\d)?", re.IGNORECASE)
    now = re.compile(r"(?P<word>[a-z]+)(\d)?", re.IGNORECASE)

    for text in ("", "Ab1", "1 ab", "ab2 cd", "é"):
        for method in ("match", "fullmatch", "search"):
            found, expected = getattr(late, method)(text), getattr(now, method)(text)
            assert (found and found.groups()) == (expected and expected.groups())
        assert late.findall(text) == now.findall(text)
        assert late.sub("<\\g<word>>", text) == now.sub("<\\g<word>>", text)
        assert [each.span() for each in late.finditer(text)] == [
            each.span() for each in now.finditer(text)
        ]
    assert (late.pattern, late.flags, late.groups) == (now.pattern, now.flags, now.groups)


def test_late_pattern_is_compiled_with_its_first_use() -> None:
    wrong = late_pattern("(")

    with pytest.raises(re.error):
        wrong.search("x")


def test_late_patterns_of_the_sources_are_valid() -> None:
    """Those without parts from elsewhere; an error in one would show at its first use."""
    called = [
        node
        for folder in ("agent_cli", "tools")
        for path in (ROOT / folder).rglob("*.py")
        if "late_pattern(" in (text := path.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "late_pattern"
    ]
    plain = [each.args[0].value for each in called if isinstance(each.args[0], ast.Constant)]

    assert len(plain) > 50
    for pattern in plain:
        assert isinstance(pattern, str | bytes)
        re.compile(pattern)


def test_importing_the_rules_about_commands_compiles_no_pattern_of_theirs() -> None:
    names = [each.name for each in pkgutil.iter_modules(shell.__path__)]
    run = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *names], capture_output=True, text=True, check=False
    )

    assert (run.returncode, run.stderr) == (0, "")
