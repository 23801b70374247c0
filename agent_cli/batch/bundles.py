"""The bundles of a batch: one for each commit that its tasks work on."""

import asyncio
from contextlib import AbstractContextManager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self

from agent_cli.batch.ports import Origin
from agent_cli.system.git import write_bundle


class Bundles(AbstractContextManager["Bundles"]):
    """Writes each bundle once, to a folder that ends with the batch."""

    def __init__(self) -> None:
        self._folder: TemporaryDirectory[str] | None = None
        self._files: dict[tuple[Path, str], Path] = {}
        self._lock = asyncio.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._folder:
            self._folder.cleanup()

    async def of(self, origin: Origin) -> Path:
        """Return the bundle of the commit of *origin*.

        Raises:
            GitError: It cannot be written.
        """
        async with self._lock:
            key = origin.repository, origin.commit
            if key not in self._files:
                if self._folder is None:
                    self._folder = TemporaryDirectory(prefix="agent-cli-")
                file = Path(self._folder.name) / f"{len(self._files)}.bundle"
                await asyncio.to_thread(write_bundle, *key, file)
                self._files[key] = file
            return self._files[key]
