"""Call the built-in tools as the executor does: input validated, errors turned into results."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import ToolError
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import Tool, ToolContext, ToolResult, check_input
from agent_cli_tools import Workspace, builtin_tools
from agent_cli_tools.bash import job_output_tool
from agent_cli_tools.session_resources import SessionResources

WAIT_S = 60.0


@dataclass
class Tools:
    """The built-in tools in one workspace, and every streaming update they sent."""

    workspace: Workspace
    updates: list[str] = field(default_factory=list[str])
    update_details: list[Json] = field(default_factory=list[Json])
    cancel: CancelToken = field(default_factory=CancelToken)

    @property
    def root(self) -> Path:
        return self.workspace.root

    def named(self, name: str) -> Tool:
        tools = builtin_tools(self.workspace, None, permissions="allow")
        there = (*tools, job_output_tool(self.workspace))
        return next(tool for tool in there if tool.name == name)

    async def __call__(self, name: str, **given: Json) -> ToolResult:
        tool = self.named(name)
        context = ToolContext(update=self._keep)
        try:
            params = check_input(tool, given)
            result = await tool.execute("toolu_1", params, self.cancel, context)
        except ToolError as error:
            return ToolResult.error(str(error))
        assert isinstance(result, ToolResult)
        return result

    def _keep(self, partial: ToolResult) -> None:
        self.updates.append(partial.text)
        self.update_details.append(partial.details)

    async def text(self, name: str, **given: Json) -> str:
        """Return the text of a call that must succeed."""
        result = await self(name, **given)
        assert not result.is_error, result.text
        return result.text

    async def error(self, name: str, **given: Json) -> str:
        """Return the text of a call that must fail."""
        result = await self(name, **given)
        assert result.is_error, result.text
        return result.text

    def file(self, name: str, content: str | bytes) -> Path:
        """Create a file in the workspace."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path


@contextmanager
def tools_in(folder: Path) -> Generator[Tools]:
    """Yield the tools in a new workspace in *folder*."""
    root = folder / "ws"
    root.mkdir()
    with Workspace(root, shared=SessionResources(spill_dir=folder / "out")) as workspace:
        yield Tools(workspace)
