"""The server: two tools, and the saved sessions as resources."""

import json
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Final  # Any: JSON

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ResourceNotFoundError, ToolError
from mcp_types import CallToolResult, InputRequiredResult, Tool, ToolAnnotations
from pydantic import Field, ValidationError

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import AgentCliError, SessionError
from agent_cli.contracts.input_faults import faults_of_call
from agent_cli.contracts.permission_modes import Mode
from agent_cli.mcp_server.gate import left_token
from agent_cli.mcp_server.ports import AgentBuilder, RunRequest
from agent_cli.mcp_server.runs import AnswersNeeded, Outcome, ServedRun, asker_of, questions_for
from agent_cli.system.event_loop import in_background
from agent_cli.system.records import dataclass
from agent_cli.version import __version__

_LISTED_MAX: Final = 100
# Each is an application with its own MCP servers and commands.
_RUNNING_MAX: Final = 16
_INSTRUCTIONS: Final = (
    "A coding agent that reads, edits and runs things in the folder this server was started in."
    " It asks your user before changes. Calls may take minutes; progress names each step."
)
_CHANGES: Final = ToolAnnotations(destructive_hint=True, open_world_hint=True)


@dataclass(slots=True, eq=False)
class _RunningCall:
    """A call with the id of its session, None until a new session has one."""

    session: str | None


class AgentTools:
    """The tools and resources of the server, each a method."""

    def __init__(self, builder: AgentBuilder) -> None:
        """Serve the agents of *builder*."""
        self._builder = builder
        self._running: list[_RunningCall] = []

    async def ask(
        self,
        prompt: str,
        ctx: Context,
        cwd: Annotated[str | None, Field(description="the server's folder or one below")] = None,
        model: Annotated[str | None, Field(description="an id or an alias")] = None,
        max_cost: Annotated[float | None, Field(gt=0, description="dollars")] = None,
        permission_mode: Mode | None = None,
    ) -> Outcome | InputRequiredResult:
        """Give the agent a task and return its answer."""
        request = RunRequest(cwd=cwd, model=model, max_cost_usd=max_cost, mode=permission_mode)
        return await self._run(prompt, request, ctx)

    async def reply(self, session: str, prompt: str, ctx: Context) -> Outcome | InputRequiredResult:
        """Go on with a session: answer the agent's question, or give it the next task."""
        return await self._run(prompt, RunRequest(session=session), ctx)

    async def sessions(self) -> str:
        """The saved sessions, the last used first."""
        saved = await in_background(self._builder.sessions)
        listed = [
            {"id": info.id, "title": info.title, "workspace": info.workspace}
            for info in saved[:_LISTED_MAX]
        ]
        return json.dumps(listed, ensure_ascii=False)

    async def session(self, id: str) -> str:
        """A saved session as Markdown."""
        try:
            return await in_background(lambda: self._builder.transcript(id))
        except SessionError as error:
            raise ResourceNotFoundError(str(error)) from error

    async def _run(
        self, prompt: str, request: RunRequest, ctx: Context
    ) -> Outcome | InputRequiredResult:
        if len(self._running) >= _RUNNING_MAX:
            raise ToolError(f"{_RUNNING_MAX} calls run already: call again when one has ended")
        call = _RunningCall(ctx.request_state or request.session)
        if call.session and any(each.session == call.session for each in self._running):
            raise ToolError(f"session {call.session} answers another call: wait for its end")
        self._running.append(call)
        try:
            async with _left(ctx).scope():
                return await self._answer(prompt, request, ctx, call)
        except AgentCliError as error:
            raise ToolError(str(error)) from error
        finally:
            self._running.remove(call)

    async def _answer(
        self, prompt: str, request: RunRequest, ctx: Context, call: _RunningCall
    ) -> Outcome | InputRequiredResult:
        capabilities = ctx.client_capabilities
        asker = asker_of(ctx) if capabilities and capabilities.elicitation else None
        waits_in = ctx.request_state
        asked = replace(request, session=call.session, can_ask=asker is not None)
        app = await in_background(lambda: self._builder.build_for(asked))
        async with app:
            call.session = app.agent.conversation.id
            run = ServedRun(app, allow=asker, progress=partial(_tell, ctx))
            try:
                return await run.answer(None if waits_in else prompt)
            except AnswersNeeded as needed:
                return questions_for(app.agent.conversation.id, needed.questions)


class _PlainServer(MCPServer):
    """Names the faults of a call in plain words, and refuses unknown arguments.

    The SDK ignores those: a limit of cost whose name is misspelled would not hold.
    """

    async def list_tools(self) -> list[Tool]:
        """Return the tools; their schemas allow no other arguments."""
        listed = await super().list_tools()
        for tool in listed:
            tool.input_schema = tool.input_schema | {"additionalProperties": False}
        return listed

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context | None = None
    ) -> CallToolResult | InputRequiredResult:
        """Call a tool.

        Raises:
            ToolError: The arguments are not valid, or the call failed.
        """
        schemas = {tool.name: tool.input_schema for tool in await self.list_tools()}
        schema: dict[str, Any] = schemas.get(name, {})
        known = schema.get("properties", arguments)
        if unknown := [argument for argument in arguments if argument not in known]:
            there_are = f"they are {', '.join(known)}"
            raise ToolError(f"{name}: no parameter is named {', '.join(unknown)}: {there_are}")
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            if not isinstance(error.__cause__, ValidationError):
                raise
            faults = "; ".join(faults_of_call(error.__cause__, schema))
            raise ToolError(f"Invalid input for {name}: {faults}") from error


def make_server(builder: AgentBuilder) -> MCPServer:
    """Return the MCP server for the agents of *builder*."""
    tools = AgentTools(builder)
    server = _PlainServer("agent-cli", instructions=_INSTRUCTIONS, version=__version__)
    for tool in (tools.ask, tools.reply):
        server.add_tool(tool, annotations=_CHANGES, structured_output=True)
    server.resource("sessions://all", mime_type="application/json")(tools.sessions)
    server.resource("session://{id}", mime_type="text/markdown")(tools.session)
    return server


def _left(ctx: Context) -> CancelToken:
    """Return the token that is cancelled when the client of this call leaves; never over stdio."""
    request = ctx.request_context.request
    return CancelToken() if request is None else left_token(request.scope)


async def _tell(ctx: Context, number: int, message: str) -> None:
    await ctx.report_progress(number, message=message)
