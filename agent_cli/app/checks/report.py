"""The report of `doctor`: one line for each check, as a table on a terminal."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent_cli.system.records import dataclass
from agent_cli.system.sanitize import reveal
from agent_cli.version import __version__

if TYPE_CHECKING:
    from agent_cli.terminal.views import Drawn

_MARKS = {True: "ok", False: "FAIL", None: "--"}
_STYLES = {True: "", False: "red", None: "dim"}


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the report; `ok` is None if the check neither passed nor failed."""

    name: str
    ok: bool | None
    text: str


@dataclass(frozen=True, slots=True)
class CheckReport:
    """A view of all checks."""

    checks: Sequence[Check]

    @property
    def has_failures(self) -> bool:
        """Whether a check failed."""
        return any(check.ok is False for check in self.checks)

    def drawn(self) -> "Drawn":
        """Return a table for a terminal, failures in red."""
        from agent_cli.terminal.views.table import Column, Table  # rich

        columns = [Column("", whole=True), Column(f"agent-cli {__version__}"), Column("result")]
        return Table(columns, self._rows(), styles=[_STYLES[e.ok] for e in self.checks]).drawn()

    def lines(self) -> Sequence[str]:
        """Return the version, then a line for each check."""
        rows = self._rows()
        width = max((len(name) for _, name, _ in rows), default=0)
        lines = [f"{mark:<4}  {name:<{width}}  {text}" for mark, name, text in rows]
        return [f"agent-cli {__version__}", *lines]

    def _rows(self) -> Sequence[tuple[str, str, str]]:
        # Servers and plugins choose their names and texts.
        return [(_MARKS[e.ok], reveal(e.name), reveal(e.text)) for e in self.checks]
