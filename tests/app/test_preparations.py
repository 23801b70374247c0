"""Imports while the program waits for a reply."""

import asyncio
import sys
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
