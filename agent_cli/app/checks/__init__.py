"""Checks of the installation and of a run before it costs anything; `doctor` reports them.

The package begins with access to the model, which is checked before the first prompt, and with the
report of all checks: one line for each, as a table on a terminal.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, assert_never

from agent_cli.app.startup import StartupContext
from agent_cli.contracts.errors import GuardsChanged, NoCredentials, UsageError
from agent_cli.settings import PROJECT_CREDENTIALS
from agent_cli.settings.environment import (
    check_chat_credentials,
    check_credentials,
    chosen_platform,
    switches_on,
)
from agent_cli.system.records import dataclass
from agent_cli.system.sanitize import reveal
from agent_cli.trust.store import used_variables
from agent_cli.version import __version__

if TYPE_CHECKING:
    from agent_cli.terminal.views import Drawn


def check_guards(startup: StartupContext) -> None:
    """Check that no guard was lost, before a run in which no person could be asked to trust it.

    Raises:
        GuardsChanged: Guards that the user trusts have changed, or stand in an unknown copy.
    """
    if startup.lost_guards:
        names = ", ".join(startup.lost_guards)
        raise GuardsChanged(
            f"{names}: guards that you trusted changed here, and this run could do what they"
            " forbid; look at them and run `agent-cli trust`, or give --trust for this run;"
            " `agent-cli trust --revoke` does without them"
        )


def check_access(startup: StartupContext) -> None:
    """Check that the chosen platform has its credentials, variables and packages.

    A replay needs none of them; a recording and a replay need their file.

    Raises:
        UsageError: The file of a recording cannot be used.
        NoCredentials: A key or a variable is not set, or a package is not installed.
        SettingsError: The variables choose two platforms.
    """
    _check_recordings(startup.arguments.record, startup.arguments.replay)
    if startup.arguments.replay:
        return
    wire_api = startup.loaded.settings.provider.wire_api
    match wire_api:
        case "messages":
            _check_platform(startup)
        case "chat":
            check_chat_credentials(startup.environment.without_project())
        case _:
            assert_never(wire_api)


def _check_recordings(record: Path | None, replay: Path | None) -> None:
    """Raise a UsageError for a file that cannot be used; the first request would fail later."""
    try:
        if replay:
            replay.open("rb").close()
    except OSError as error:
        raise UsageError(f"replay: {replay} cannot be read: {error.strerror}") from error
    if record and record.is_dir():
        raise UsageError(f"record: {record} is a directory; name a file")
    if record and not record.parent.is_dir():
        raise UsageError(f"record: there is no directory {record.parent}")


def _check_platform(startup: StartupContext) -> None:
    name = chosen_platform(startup.loaded.settings, startup.environment)
    if name == "anthropic":
        try:
            check_credentials(startup.environment)
        except NoCredentials as error:
            raise (_untrusted_key(startup) or error) from error
        return
    from agent_cli.providers.anthropic import platforms  # only for another cloud

    platforms.check_access(platforms.PLATFORMS[name], startup.environment.without_project())


def _untrusted_key(startup: StartupContext) -> NoCredentials | None:
    """Return the failure for a key that only waits for the user's trust."""
    waiting = () if startup.trusted else used_variables(startup.workspace)
    if key := next((name for name in PROJECT_CREDENTIALS if name in waiting), None):
        return NoCredentials(
            f"{key} in .env does not count: this workspace is not trusted; run `agent-cli trust`,"
            " start with --trust, or export the key"
        )
    return None


def why_chosen(startup: StartupContext) -> str:
    """Return the source of the platform choice: variables, or the origin of the setting."""
    if startup.loaded.settings.provider.platform == "auto":
        return ", ".join(switches_on(startup.environment))
    return startup.loaded.origins["provider.platform"]


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
