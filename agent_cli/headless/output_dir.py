"""The output directory of a run: result.json, session.jsonl and changes.diff."""

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agent_cli.contracts.errors import AgentCliError, UsageError
from agent_cli.contracts.timeline import Json

if TYPE_CHECKING:
    from agent_cli.contracts.file_changes import Difference

_RESULT: Final = "result.json"
_JOURNAL: Final = "session.jsonl"
_CHANGES: Final = "changes.diff"


@dataclass(frozen=True, slots=True)
class OutputDir:
    """A directory with the files of this run and none of an earlier one."""

    path: Path

    @classmethod
    def prepare(cls, path: Path) -> "OutputDir":
        """Create the directory if needed, and remove an earlier run's files from it.

        Raises:
            UsageError: It cannot be written.
        """
        try:
            path = path.absolute()
            path.mkdir(parents=True, exist_ok=True)
            for name in (_RESULT, _JOURNAL, _CHANGES):
                (path / name).unlink(missing_ok=True)
        except OSError as error:
            raise UsageError(f"--output-dir: {path} cannot be used: {error.strerror}") from error
        return cls(path)

    def write_result(self, result: dict[str, Json]) -> None:
        """Write the `app.result` object atomically.

        Raises:
            AgentCliError: It cannot be written.
        """
        partial = self.path / f".{_RESULT}.partial"
        self._write(partial, json.dumps(result, indent=2) + "\n")
        try:
            partial.replace(self.path / _RESULT)
        except OSError as error:
            raise self._unwritable(error) from error

    def write_changes(self, changes: Sequence["Difference"], root: Path) -> None:
        """Write the changes made by the agent's tools below *root* as a unified diff.

        Meant for people: it does not show line endings.

        Raises:
            AgentCliError: It cannot be written.
        """
        self._write(self.path / _CHANGES, "".join(_patch(changes, root.resolve())))

    def copy_journal(self, session: Path) -> None:
        """Copy the file of the session.

        Raises:
            AgentCliError: It cannot be copied.
        """
        try:
            shutil.copyfile(session, self.path / _JOURNAL)
        except OSError as error:
            raise self._unwritable(error) from error

    def _write(self, path: Path, text: str) -> None:
        try:
            # Keep line endings, and the bytes of names that are not UTF-8.
            with path.open("w", encoding="utf-8", errors="surrogateescape", newline="") as file:
                file.write(text)
        except OSError as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> AgentCliError:
        return AgentCliError(f"--output-dir: {self.path} cannot be written: {error.strerror}")


def _patch(changes: Sequence["Difference"], root: Path) -> Iterator[str]:
    for change in changes:
        path = change.path
        name = str(path.relative_to(root)) if path.is_relative_to(root) else str(path)
        if change.note:
            yield f"# {name}: {change.note}\n"
        if not change.diff and change.note:
            continue
        a, b = f"a/{name.lstrip('/')}", f"b/{name.lstrip('/')}"
        yield f"diff --git {a} {b}\n"
        match change.kind:
            case "new":
                a = "/dev/null"
                yield "new file mode 100644\n"
            case "deleted":
                b = "/dev/null"
                yield "deleted file mode 100644\n"
            case _:
                pass
        if change.diff:
            yield f"--- {a}\n+++ {b}\n{change.diff.removesuffix(chr(10))}\n"
