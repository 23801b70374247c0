"""The files and folders that a sandbox needs, in one private directory for the session."""

import tempfile
from dataclasses import replace
from pathlib import Path

from agent_cli.sandbox.own_folder import OwnFolder
from agent_cli.sandbox.seccomp import filter_program
from agent_cli.system.records import dataclass


@dataclass(frozen=True, slots=True)
class Places:
    """A temporary directory for commands, an unreadable file and directory, and a filter.

    The filter refuses system calls; bubblewrap reads it from a file. With a `scratch` directory,
    for one command, the temporary one is read-only.
    """

    folder: OwnFolder
    temporary: Path
    hiding_file: Path
    hiding_directory: Path
    filter: Path
    scratch: Path | None = None

    @classmethod
    def create(cls) -> "Places":
        """Create them in a directory that no other user can enter."""
        folder = OwnFolder()
        path = folder.path
        made = cls(folder, path / "tmp", path / "hidden", path / "hidden.d", path / "filter")
        made.temporary.mkdir(mode=0o700)
        made.hiding_file.touch(mode=0o000)
        made.hiding_directory.mkdir(mode=0o000)
        made.filter.write_bytes(filter_program() or b"")
        return made

    def exist(self) -> bool:
        """Return whether all still exist: the system may clean up /tmp after some days."""
        return (
            self.temporary.is_dir()
            and self.hiding_file.is_file()
            and self.hiding_directory.is_dir()
            and self.filter.is_file()
        )

    def with_scratch(self) -> "Places":
        """Return these places with a new directory for the temporary files of one command."""
        return replace(self, scratch=Path(tempfile.mkdtemp(prefix="once-", dir=self.folder.path)))

    def remove(self) -> None:
        """Delete them and all files that commands left there."""
        self.folder.remove()
