"""An environment of Harbor that executes on this machine, and a place for what it installs."""

import asyncio
import os
import shutil
from pathlib import Path
from typing import Any

from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.models.task.config import EnvironmentConfig
from harbor.models.trial.paths import TrialPaths

LIMIT_S = 120
# Root's programs, which would change the machine that the tests run on.
PACKAGE_MANAGERS = ("apt-get", "dnf", "yum", "apk")


class LocalEnvironment(BaseEnvironment):
    """Runs commands as the user of the tests, with a home of their own; keeps what was run."""

    def __init__(self, folder: Path, variables: dict[str, str]) -> None:
        self.commands: list[tuple[str | int | None, str]] = []
        self.work = folder / "work"
        self.home = folder / "home"
        for each in (self.work, self.home / ".local" / "bin"):
            each.mkdir(parents=True)
        self._variables = variables
        for name in PACKAGE_MANAGERS:
            self.stub(name, 'echo "$0 $@" >> "$HOME/packages.txt"')
        super().__init__(
            folder, "local", "local__env", TrialPaths(folder / "trial"), EnvironmentConfig()
        )

    def stub(self, name: str, script: str) -> None:
        """Put a program on the path of commands."""
        program = self.home / ".local" / "bin" / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)

    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
        **_more: Any,
    ) -> ExecResult:
        self.commands.append((user, command))
        process = await asyncio.create_subprocess_exec(
            "bash",
            "-c",
            command,
            cwd=cwd or self.work,
            env={"PATH": self._path(), "HOME": str(self.home), **self._variables} | (env or {}),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(timeout_sec or LIMIT_S):
            out, err = await process.communicate()
        return ExecResult(
            stdout=out.decode(), stderr=err.decode(), return_code=process.returncode or 0
        )

    def _path(self) -> str:
        """Return a PATH on which the stubs come first, for root as well."""
        return f"{self.home / '.local' / 'bin'}{os.pathsep}{os.environ['PATH']}"

    @staticmethod
    def type() -> str:
        return "local"

    def _validate_definition(self) -> None:
        """Nothing is needed."""

    async def start(self, force_build: bool) -> None:
        """It always runs."""

    async def stop(self, delete: bool) -> None:
        """It always runs."""

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        shutil.copy(source_path, target_path)

    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        shutil.copytree(source_dir, target_dir, dirs_exist_ok=True)

    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        shutil.copy(source_path, target_path)

    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        shutil.copytree(source_dir, target_dir, dirs_exist_ok=True)
