"""Imports of thousands of modules at once."""

import gc
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from agent_cli.system.importing import is_installed, load, without, without_collections


def test_garbage_collection_is_paused_only_while_a_module_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The module's objects are never scanned again; a second import has nothing to do."""
    (tmp_path / "large_sdk.py").write_text("import gc\ncollected = gc.isenabled()\nmade = [[]]\n")
    monkeypatch.syspath_prepend(tmp_path)
    gc.unfreeze()

    load("large_sdk")
    frozen = gc.get_freeze_count()
    gc.unfreeze()
    load("large_sdk")

    assert sys.modules.pop("large_sdk").collected is False
    assert gc.isenabled()
    assert frozen > 0
    assert gc.get_freeze_count() == 0


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
    gc.unfreeze()


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
