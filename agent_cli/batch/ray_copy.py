"""Run a task on a node that shares no files with the batch: all travels through Ray.

The repository comes as a bundle, the prompt in the order; what the run leaves goes back as the
value of Ray's task, and the driver writes it where the batch looks for it.
"""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from agent_cli.batch.ports import PATCH, RESULT, STDERR, TaskRun
from agent_cli.system.git import GitError, unpack_bundle
from agent_cli.system.private_files import write_private
from agent_cli.system.worktrees import Worktree, changes_in

_KEPT: Final = (STDERR, "session.jsonl", "changes.diff", PATCH, RESULT)
"""The files that go back; the result last, for it says that the others are there."""
_PROMPT: Final = "prompt.md"


class CopiedPlace:
    """A folder on this node with a checkout of the task's commit; `close` removes it."""

    def __init__(self, order: Mapping[str, Any], bundle: bytes) -> None:
        """Unpack *bundle* and write the prompt. Blocking.

        Raises:
            GitError: The bundle cannot be unpacked.
            OSError: The disk is full.
        """
        self._folder = tempfile.TemporaryDirectory(prefix="agent-cli-", ignore_cleanup_errors=True)
        self.path = Path(self._folder.name)
        try:
            file = self.path / "repository.bundle"
            file.write_bytes(bundle)
            self._tree = Worktree(self.path / "tree", self.path / "tree", order["commit"])
            unpack_bundle(file, self._tree.path, order["commit"])
            file.unlink()
            output_dir = self.path / "output"
            output_dir.mkdir()
            prompt = output_dir / _PROMPT
            prompt.write_text(order["prompt"], encoding="utf-8")
            options = [*order["options"], f"--prompt-file={prompt}"]
            self.work = TaskRun(options, self._tree.path / order["inside"], output_dir)
        except BaseException:
            self.close()
            raise

    def files(self) -> dict[str, bytes]:
        """Return what the run left, and the patch of its changes, if there are any. Blocking."""
        output_dir = self.work.output_dir
        try:
            if patch := changes_in(self._tree):
                (output_dir / PATCH).write_bytes(patch)
        except (GitError, OSError) as error:
            with (output_dir / STDERR).open("a", encoding="utf-8") as told:
                told.write(f"the patch of the changes cannot be made: {error}\n")
        found = (output_dir / name for name in _KEPT)
        return {file.name: file.read_bytes() for file in found if file.is_file()}

    def close(self) -> None:
        """Remove the folder."""
        self._folder.cleanup()


def write_files(files: Mapping[str, bytes], output_dir: Path) -> None:
    """Write what a run left on its node to *output_dir*; raises OSError. Blocking."""
    for name in _KEPT:
        if name in files:
            write_private(output_dir / name, files[name])
