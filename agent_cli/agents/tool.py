"""The tool with which the model gives a task to a subagent."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal

from agent_cli.agents.children import TOOL, Children
from agent_cli.agents.definitions import AgentDefinition
from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import ToolError
from agent_cli.contracts.late_models import ConfigDict
from agent_cli.contracts.tooling import (
    Approval,
    Parameters,
    Tool,
    ToolContext,
    ToolResult,
    without_docstring,
)
from agent_cli.contracts.wording import one_line

if TYPE_CHECKING:
    from pydantic.config import JsonDict

_TITLE_CHARS_MAX: Final = 80
_TOO_MANY: Final = (
    "One reply may start {} agents here, as nobody can be asked. Start this one in your next reply."
)
_SHOWN: Final = ("description", "prompt", "subagent_type")


def _shortened(schema: "JsonDict") -> None:
    """Remove docstring, titles, defaults and rare fields, which cost tokens in every request."""
    without_docstring(schema)
    schema["properties"] = {
        **{name: {"type": "string"} for name in _SHOWN},
        "run_in_background": {"type": "boolean"},
        "isolation": {"enum": ["worktree"]},
    }


class AgentInput(Parameters):
    """The input of `agent`."""

    description: str
    prompt: str
    subagent_type: str = "general"
    model: str = ""
    run_in_background: bool = False
    isolation: Literal["", "none", "worktree"] = ""

    model_config = ConfigDict(extra="forbid", json_schema_extra=_shortened)


def agent_tool(
    children: Children, *, ask_beyond: int, can_ask: Callable[[], bool] = lambda: True
) -> Tool:
    """Return the tool; it asks the user if one reply starts more than *ask_beyond* agents.

    Without a person to ask (*can_ask*), only *ask_beyond* start, and the others are refused.
    """

    def is_limit() -> bool:
        return ask_beyond > 0 and not can_ask()

    async def execute(
        call_id: str, params: AgentInput, _cancel: CancelToken, context: ToolContext
    ) -> ToolResult:
        if is_limit() and children.started_before(call_id) >= ask_beyond:
            raise ToolError(_TOO_MANY.format(ask_beyond))
        return await children.work(
            params.subagent_type,
            params.prompt,
            _title(params),
            context,
            model=params.model,
            in_background=params.run_in_background,
            is_isolated=params.isolation == "worktree",
        )

    def approval(_params: AgentInput) -> Approval:
        started = children.started_at_once()
        is_asked = started > ask_beyond and not is_limit()
        return Approval(is_asked, f"{started} agents are to start at once")

    return Tool(
        name=TOOL,
        label="Agent",
        description=_described(children.catalogue.all()),
        parameters=AgentInput,
        execute=execute,
        changes=False,  # each of the agent's own calls is decided separately
        takes_slot=False,
        timeout_s=0,
        require_approval=approval,
        summary=lambda params: f"{params.subagent_type}: {_title(params)}",
    )


def updated_description(tool: Tool, agents: Sequence[AgentDefinition]) -> Tool:
    """Return *tool* with the description for *agents*; the same tool if nothing changes."""
    description = _described(agents)
    return tool if tool.description == description else replace(tool, description=description)


def _title(params: AgentInput) -> str:
    return one_line(params.description, _TITLE_CHARS_MAX)


def _described(agents: Sequence[AgentDefinition]) -> str:
    kinds = ", ".join(f"{agent.name} ({agent.description})" for agent in agents)
    return f"Have an agent with its own context do a task; get its last reply. Types: {kinds}"
