"""The output directory of a run: result.json, session.jsonl and changes.diff."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agent_cli.contracts.errors import AgentCliError, UsageError
from agent_cli.contracts.timeline import Json
from agent_cli.system.authorship import refuse_strangers_link
from agent_cli.system.paths import private_dir
from agent_cli.system.private_files import write_private
from agent_cli.system.records import dataclass

if TYPE_CHECKING:
    from agent_cli.contracts.file_changes import Difference

_RESULT: Final = "result.json"
_JOURNAL: Final = "session.jsonl"
_CHANGES: Final = "changes.diff"


@dataclass(frozen=True, slots=True)
class OutputDir:
    """A directory with the files of this run, none of an earlier one; only the user may read them.

    Attributes:
        redact: Masks the secrets in a text.
    """

    path: Path
    redact: Callable[[str], str] = str

    @classmethod
    def prepare(cls, path: Path, redact: Callable[[str], str] = str) -> "OutputDir":
        """Create the directory if needed, and remove an earlier run's files from it.

        Raises:
            UsageError: It cannot be written.
        """
        try:
            path = path.absolute()
            refuse_strangers_link(path)
            private_dir(path)
            for name in (_RESULT, _JOURNAL, _CHANGES):
                (path / name).unlink(missing_ok=True)
        except OSError as error:
            raise UsageError(f"--output-dir: {path} cannot be used: {error.strerror}") from error
        return cls(path, redact)

    def write_result(self, result: dict[str, Json]) -> None:
        """Write the `app.result` object atomically.

        Raises:
            AgentCliError: It cannot be written.
        """
        self._write(_RESULT, json.dumps(self._redacted(result), indent=2) + "\n")

    def write_changes(self, changes: Sequence["Difference"], root: Path) -> None:
        """Write the changes made by the agent's tools below *root* as a unified diff.

        Meant for people: it does not show line endings.

        Raises:
            AgentCliError: It cannot be written.
        """
        self._write(_CHANGES, self.redact("".join(_patch(changes, root.resolve()))))

    def copy_journal(self, session: Path) -> None:
        """Copy the file of the session, with its secrets redacted.

        Raises:
            AgentCliError: It cannot be copied.
        """
        try:
            lines = session.read_bytes().decode(errors="surrogateescape").split("\n")
        except OSError as error:
            raise self._unwritable(error) from error
        self._write(_JOURNAL, "\n".join(map(self._redacted_line, lines)))

    def _write(self, name: str, text: str) -> None:
        try:
            # Keep line endings, and the bytes of names that are not UTF-8.
            write_private(self.path / name, text.encode(errors="surrogateescape"))
        except OSError as error:
            raise self._unwritable(error) from error

    def _redacted_line(self, line: str) -> str:
        try:
            found: Json = json.loads(line)
        except ValueError:  # cut off by a kill
            return self.redact(line)
        redacted = self._redacted(found)
        return line if redacted == found else json.dumps(redacted, ensure_ascii=False)

    def _redacted(self, value: Json) -> Json:
        match value:
            case str():
                return self.redact(value)
            case list():
                return [self._redacted(each) for each in value]
            case dict():
                return {name: self._redacted(each) for name, each in value.items()}
            case _:
                return value

    def _unwritable(self, error: OSError) -> AgentCliError:
        return AgentCliError(f"--output-dir: {self.path} cannot be written: {error.strerror}")


def _patch(changes: Sequence["Difference"], root: Path) -> Iterator[str]:
    for change in changes:
        path = change.path
        name = str(path.relative_to(root)) if path.is_relative_to(root) else str(path)
        if change.note:
            yield f"# {name}: {change.note}\n"
        if change.note and not (change.diff or change.is_empty):
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
