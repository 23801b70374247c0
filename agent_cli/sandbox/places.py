"""What a sandbox brings along, in one private directory that goes with the session."""

import contextlib
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Places:
    """A temporary directory for commands; a file and a directory nobody may read."""

    temporary: Path
    hiding_file: Path
    hiding_directory: Path

    @classmethod
    def create(cls) -> "Places":
        """Make them, where no other user can enter."""
        folder = Path(tempfile.mkdtemp(prefix="agent-cli-tmp-"))
        made = cls(folder / "tmp", folder / "hidden", folder / "hidden.d")
        made.temporary.mkdir(mode=0o700)
        made.hiding_file.touch(mode=0o000)
        made.hiding_directory.mkdir(mode=0o000)
        return made

    def exist(self) -> bool:
        """Whether all of them are there: what lies in /tmp for days may be swept away."""
        return (
            self.temporary.is_dir()
            and self.hiding_file.is_file()
            and self.hiding_directory.is_dir()
        )

    def remove(self) -> None:
        """Delete them and all that commands left there."""
        with contextlib.suppress(OSError):
            self.hiding_directory.chmod(0o700)
        shutil.rmtree(self.temporary.parent, ignore_errors=True)
