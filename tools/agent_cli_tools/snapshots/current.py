"""The journal of the current session, which is opened with the first change."""

from pathlib import Path
from typing import TYPE_CHECKING

from agent_cli.contracts.errors import AgentCliError
from agent_cli.system.temporary_files import OwnFolder
from agent_cli_tools.snapshots.contents import faults_logged

if TYPE_CHECKING:
    from agent_cli_tools.snapshots.journal import Journal


class CurrentJournal:
    """Finds the journal of the session, of one that is not stored in a folder of this program.

    Attributes:
        session_id: The session; None for one that is not stored.
    """

    def __init__(self, folder: Path) -> None:
        """Open nothing yet; *folder* has the journals of all sessions."""
        self.session_id: str | None = None
        self._folder = folder
        self._own_folder: OwnFolder | None = None
        self._journal: Journal | None = None
        self._warned: set[int] = set()

    def switch(self, session_id: str) -> None:
        """Go on with the journal of another session."""
        self.session_id, self._journal, self._warned = session_id, None, set()

    @property
    def is_recorded(self) -> bool:
        """Whether an earlier program recorded changes of this session."""
        return self.session_id is not None and (self._folder / self.session_id).exists()

    @property
    def has_any(self) -> bool:
        """Whether there is anything to read."""
        return self._journal is not None or self.is_recorded

    def save(self) -> None:
        """Write the lines that could not be written earlier.

        Raises:
            OSError: They still cannot be written.
        """
        if self._journal:
            self._journal.save()

    def close(self) -> None:
        """Let go of the journal; that of a session that is not stored is removed."""
        if self._journal:
            self._journal.release()
            self._journal = None
        if self._own_folder:
            self._own_folder.remove()
            self._own_folder = None

    def open(self) -> "Journal":
        """Return the journal; what it cannot read is logged."""
        from agent_cli_tools.snapshots.journal import Journal  # with a change

        if self._journal is None:
            self._journal = Journal(self._session_folder())
        with faults_logged("changes not read", self._journal.contents.folder, self._warned):
            self._journal.read()
        return self._journal

    def read(self) -> "Journal":
        """Return the journal.

        Raises:
            AgentCliError: It cannot be read.
        """
        try:
            self.open().read()
            return self.open()
        except OSError as error:
            raise AgentCliError(
                f"the record of what the agent changed cannot be read: {error.strerror}"
            ) from error

    def _session_folder(self) -> Path:
        if self.session_id:
            return self._folder / self.session_id
        self._own_folder = self._own_folder or OwnFolder()
        return self._own_folder.path
