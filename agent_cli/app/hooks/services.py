"""Answer hooks of the kinds prompt, agent and mcp_tool with the session's models and servers.

Their cost counts towards the session's limit and the prompt at work.
"""

from collections.abc import Callable, Sequence
from secrets import token_hex
from typing import Final

from agent_cli.app.mcp.servers import Servers
from agent_cli.app.models.model_calls import ModelCalls
from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import AgentCliError
from agent_cli.contracts.events import Event, ToolCall, UsageChanged
from agent_cli.contracts.servers import ServerPhase, public_name
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import (
    Allow,
    Ask,
    Deny,
    Tool,
    ToolContext,
    Verdict,
    check_input,
)
from agent_cli.core.agent import Agent
from agent_cli.core.loop_config import LoopConfig
from agent_cli.hooks.definition import Hook
from agent_cli.hooks.judging import INSTRUCTIONS
from agent_cli.policies.permissions import Permissions
from agent_cli.prompt_files import model_name

_TOKENS_MAX: Final = 2_048
_ROUNDS_MAX: Final = 20
_READING: Final = ("read", "grep", "glob")
_DEFAULT_MODEL: Final = "small"


class SessionHookServices:
    """The models, files and servers of one session; see `hooks.judging.HookServices`."""

    def __init__(
        self,
        calls: ModelCalls,
        servers: Servers,
        permissions: Permissions,
        *,
        agent: Callable[[], Agent],
        tools: Callable[[], Sequence[Tool]],
    ) -> None:
        """Ask nothing yet.

        Args:
            calls: Asks models, within the cost limit.
            servers: The MCP servers.
            permissions: Decide about the calls of hooks too.
            agent: Returns the session's agent, whose options those of a hook's agent follow.
            tools: Returns the session's own tools.
        """
        self._calls = calls
        self._servers = servers
        self._permissions = permissions
        self._agent = agent
        self._tools = tools

    async def ask_model(self, hook: Hook, prompt: str) -> str:
        """Return the answer of the small model, or of the hook's own, to *prompt*."""
        model = self._calls.named(model_name(hook.model) or _DEFAULT_MODEL)
        return await self._calls.answer(model, INSTRUCTIONS, prompt, max_tokens=_TOKENS_MAX)

    async def ask_agent(self, hook: Hook, prompt: str) -> str:
        """Return the last words of an agent that may read what the session may read unasked."""
        config = self._agent().options
        tools = [tool for tool in self._tools() if tool.name in _READING]
        agent = Agent(
            LoopConfig(
                model=self._calls.named(model_name(hook.model) or _DEFAULT_MODEL),
                system_prompt=INSTRUCTIONS,
                tools=tools,
                stream_fn=self._calls.stream,
                max_rounds=_ROUNDS_MAX,
                services=config.services,
                authorize_tool=self._may_read,
                # Its hooks would run hooks of their own; the limit of a result holds. Without a
                # `path_order`: the call that it is asked about may hold the files that it reads.
                finish_result=config.finish_result,
            )
        )
        agent.subscribe(self._note_usage)
        result = await agent.prompt(prompt)
        if result.stop_reason != "end_turn" or result.final_message is None:
            raise AgentCliError(f"its agent ended early ({result.ending})")
        return result.final_message.text

    async def call_tool(self, hook: Hook, arguments: dict[str, Json]) -> str:
        """Return the text of a server's tool, if the permissions allow the call.

        A question of the mode is answered by the author of the hook: the person, not a project.
        """
        await self._servers.all.wait_started(names=[hook.server])
        name = public_name(hook.server, hook.tool)
        tool = next((each for each in self._servers.all.tools() if each.name == name), None)
        if tool is None:
            raise AgentCliError(self._why_missing(hook))
        call = ToolCall(f"hook_{token_hex(8)}", name, arguments)
        params = check_input(tool, arguments)
        verdict = await self._permissions(call, tool, params)
        if isinstance(verdict, Deny):
            raise AgentCliError(f"{name} is not allowed: {verdict.reason}")
        if isinstance(verdict, Ask) and (hook.is_foreign or not verdict.by_mode):
            raise AgentCliError(f"{name} needs a rule of yours that allows it: {verdict.reason}")
        result = await tool.execute(call.id, params, CancelToken(), ToolContext(call.id, name))
        if isinstance(result, str):
            return result
        if result.is_error:
            raise AgentCliError(f"{name} failed: {result.text}")
        return result.text

    def _why_missing(self, hook: Hook) -> str:
        states = self._servers.all.states()
        state = next((each for each in states if each.name == hook.server), None)
        if state is None:
            return f"there is no MCP server {hook.server!r}; `agent-cli mcp list` lists them"
        if state.phase is not ServerPhase.READY:
            return f"MCP server {hook.server!r} is not there: {state.cause or state.phase}"
        return (
            f"MCP server {hook.server!r} has no tool {hook.tool!r}; `agent-cli mcp list` lists them"
        )

    async def _may_read(self, call: ToolCall, tool: Tool, params: object) -> Verdict:
        verdict = await self._permissions(call, tool, params, mode="plan")
        if isinstance(verdict, Allow):
            return verdict
        return Deny(f"A hook's agent may not do that, and nobody is asked: {verdict.reason}")

    def _note_usage(self, event: Event) -> None:
        if isinstance(event, UsageChanged):
            self._calls.record(event.reply)
