"""The bash tool in a world, whose changes are recorded."""

from pathlib import Path

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.events import PromptStarted, SessionOpened
from agent_cli.contracts.tooling import ToolContext, ToolResult, check_input
from agent_cli.core.conversation import Conversation
from agent_cli.system.launching import Watched
from agent_cli.undo.logs import CommandQuestion, Loss
from agent_cli_tools import Workspace
from agent_cli_tools.bash import bash_tool
from agent_cli_tools.snapshots import Snapshots
from tests.sandbox.world import World


class Bash:
    """The tool in a world, whose changes are recorded."""

    def __init__(self, place: World, state: Path) -> None:
        def watched(folder: Path, command: str, _run_began_ns: int) -> Watched:
            return Watched(
                module="agent_cli.undo.watch",
                folder=str(folder),
                roots=[str(place.root)],
                copy_bytes_max=1_000_000,
                header={"command": command},
                ask_beyond_files=self.ask_beyond_files,
            )

        async def decide(_command: str, loss: CommandQuestion) -> bool:
            assert isinstance(loss, Loss)
            self.asked.append(loss.next)
            return False

        self.state = state
        self.ask_beyond_files = 0
        self.asked: list[str] = []
        self.snapshots = Snapshots(state, only_reads=lambda _command: False, watched=watched)
        self.snapshots.decide = decide
        self.snapshots(SessionOpened("s-1", "path"))
        self.snapshots(PromptStarted(Conversation().begin()))
        self.workspace = Workspace(place.root, keeper=self.snapshots)
        self.tool = bash_tool(self.workspace, place.sandbox)

    async def __call__(self, command: str) -> str:
        params = check_input(self.tool, {"command": command})
        result = await self.tool.execute("1", params, CancelToken(), ToolContext())
        assert isinstance(result, ToolResult)
        return result.text
