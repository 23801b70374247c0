"""Imports while the program waits for a reply."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_cli.app.preparations import EarlyImports


async def test_each_module_is_imported_while_the_loop_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One at a time: a key typed meanwhile waits for one import at most."""
    names = ("early_first", "early_second", "early_third")
    for name in names:
        (tmp_path / f"{name}.py").touch()
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(tmp_path)

    EarlyImports().begin(names)
    seen: list[list[str]] = []
    async with asyncio.timeout(10):
        while not seen or len(seen[-1]) < len(names):
            seen.append([name for name in names if name in sys.modules])
            await asyncio.sleep(0)

    assert {len(found) for found in seen} == {1, 2, 3}


async def test_stopped_imports_import_nothing_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that has its answer ends without them."""
    (tmp_path / "stopped_early.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    imports = EarlyImports()

    imports.begin(("json", "stopped_early"))
    imports.stop()
    for _ in range(3):
        await asyncio.sleep(0)

    assert "stopped_early" not in sys.modules


async def test_import_for_which_no_file_can_be_opened_is_left_to_its_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a low `ulimit -n`; a callback that raises prints a traceback into the terminal."""
    (tmp_path / "no_file.py").write_text("raise OSError(24, 'Too many open files')")
    (tmp_path / "after_no_file.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    faults: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, fault: faults.append(fault))

    EarlyImports().begin(("json", "no_file", "after_no_file"))
    for _ in range(5):
        await asyncio.sleep(0)

    assert faults == []
    assert "after_no_file" not in sys.modules


async def test_first_steps_are_taken_before_the_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module that needs pydantic finds it loaded, and no other thread halfway through it."""
    (tmp_path / "after_steps.py").touch()
    monkeypatch.delitem(sys.modules, "after_steps", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    seen: list[bool] = []

    def steps() -> Iterator[str]:
        for name in ("one", "two"):
            seen.append("after_steps" in sys.modules)
            yield name

    EarlyImports().begin(("after_steps",), first=steps())
    for _ in range(4):
        await asyncio.sleep(0)

    assert seen == [False, False]
    assert "after_steps" in sys.modules
