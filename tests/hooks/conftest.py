"""A `python3` for the scripts of hooks that starts without the packages of the machine."""

import os
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def python_without_packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make an environment, and return its folder of programs.

    What packages of the machine run at each start may take three times as long as the start.
    """
    environment = tmp_path_factory.mktemp("python")
    real = Path(sys.executable).resolve()
    (environment / "bin").mkdir()
    (environment / "bin" / "python3").symlink_to(real)
    (environment / "pyvenv.cfg").write_text(
        f"home = {real.parent}\ninclude-system-site-packages = false\n"
    )
    return environment / "bin"


@pytest.fixture(autouse=True)
def _python_first(python_without_packages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Start it where a command says `python3`; there are a hundred starts in these tests."""
    monkeypatch.setenv("PATH", str(python_without_packages), prepend=os.pathsep)
