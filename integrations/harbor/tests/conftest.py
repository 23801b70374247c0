"""The tests import each other by name; each has a home without settings and keys."""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("ANTHROPIC_", "AGENT_CLI_", "XDG_")) and name != "AGENT_CLI_BIN":
            monkeypatch.delenv(name)
