"""Imports of thousands of modules at once."""

import gc
import sys
from pathlib import Path

import pytest

from agent_cli.system.importing import load, without_collections


def test_nothing_is_collected_while_a_module_loads_and_collecting_goes_on_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it made is never looked at again; a second time there is nothing to do."""
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


def test_a_collector_that_was_off_stays_off() -> None:
    """Two threads may import at the same time: the first to begin switches it on again."""
    with without_collections():
        with without_collections():
            pass

        assert not gc.isenabled()
    assert gc.isenabled()
