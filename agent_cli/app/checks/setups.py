"""What lies there of other agents, for `doctor`: used, imported, or unread."""

from collections.abc import Iterator

from agent_cli.app.checks.report import Check
from agent_cli.app.imports.readers import READERS
from agent_cli.app.imports.writing import is_current
from agent_cli.app.startup import StartupContext


def check_setups(startup: StartupContext) -> Iterator[Check]:
    """Yield a row for each agent of which something was found."""
    for program, read in READERS.items():
        found = read(startup)
        if not found.rows:
            continue
        command = f"agent-cli import {program}"
        is_new = not is_current(program, found.contents())
        advice = f"{command} takes over what is translated; " if is_new else ""
        yield Check(
            f"setup of {program}", None, f"{found.summary()}; {advice}{command} --dry-run lists all"
        )
