"""How many everyday commands run unasked, in the mode that asks before every change.

`python -m tests.sandbox.test_workday bwrap` prints those that ask, of the half that may be tuned.
"""

import asyncio
import os
import sys
from collections.abc import Sequence

import pytest

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.tooling import Allow, Tool, ToolContext, check_input
from agent_cli.policies.permissions import Permissions
from agent_cli.policies.shell import Reach
from agent_cli.sandbox.report import State
from agent_cli.sandbox.secret_files import is_secret
from agent_cli_tools import Workspace
from agent_cli_tools.bash import bash_tool
from tests.sandbox.workday import COMMANDS, is_held_out, make_workday
from tests.sandbox.world import CANARY, World, world
from tests.tables import each_row

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="sandboxes of Linux")


class Session:
    """Commands of a session in a world, and whether they ask."""

    def __init__(self, reach: World, *, trusted: bool) -> None:
        self.reach = reach
        self.workspace = Workspace(reach.root)
        self.tool: Tool = bash_tool(self.workspace, reach.sandbox)
        self.permissions = Permissions(
            Reach(
                root=reach.root, is_secret=is_secret, search_path=os.defpath, home=str(reach.home)
            ),
            trusted=trusted,
            sandbox=reach.sandbox.outlook,
        )

    async def asks(self, command: str) -> str:
        """Return why a person is asked about *command*, or ""."""
        call = ToolCall(command, "bash", {"command": command})
        params = check_input(self.tool, call.input)
        verdict = await self.permissions(call, self.tool, params)
        if isinstance(verdict, Allow):
            return ""
        if not self.tool.attempt or not getattr(verdict, "attempt_failed", None):
            return f"at once: {verdict.reason}"
        result = await self.tool.attempt("1", params, CancelToken(), ToolContext())
        if result is None:
            return f"attempted: {verdict.reason}"
        assert CANARY not in result.text
        return ""


async def asking(reach: World, commands: Sequence[str], *, trusted: bool) -> dict[str, str]:
    """Return those of *commands* that ask, each with the reason.

    The home of the commands is that of the sandbox: another one would be hidden as someone else's.
    """
    home, os.environ["HOME"] = os.environ.get("HOME", ""), str(reach.home)
    session = Session(reach, trusted=trusted)
    try:
        found = {command: await session.asks(command) for command in commands}
    finally:
        session.workspace.close()
        os.environ["HOME"] = home
    return {command: why for command, why in found.items() if why}


@pytest.mark.slow
@each_row("trusted", [True, False])
@each_row(("state", "goal"), [("bwrap", 230 / 258), ("landlock", 200 / 258)])
@each_row("held_out", [True, False])
def test_most_everyday_commands_run_unasked(
    state: State, goal: float, *, trusted: bool, held_out: bool
) -> None:
    commands = [each for each in COMMANDS if is_held_out(each) is held_out]
    with world(state) as reach:
        make_workday(reach.root)
        asked = asyncio.run(asking(reach, commands, trusted=trusted))

    assert len(commands) - len(asked) >= goal * len(commands), asked


def _print(state: State, *, trusted: bool, all_of_them: bool) -> None:
    with world(state) as reach:
        make_workday(reach.root)
        found = asyncio.run(asking(reach, COMMANDS, trusted=trusted))
    for half in (False, True):
        commands = [each for each in COMMANDS if is_held_out(each) is half]
        asked = [each for each in commands if each in found]
        share = len(commands) - len(asked)
        print(f"{state} trusted={trusted} held_out={half}: {share} of {len(commands)} unasked")
        for each in asked if all_of_them or not half else ():
            print(f"   {each}   <- {found[each]}")


if __name__ == "__main__":
    for each in (True, False):
        _print(sys.argv[1], trusted=each, all_of_them="--all" in sys.argv)  # type: ignore[arg-type]
