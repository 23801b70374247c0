"""web_search: let the model's server search the web."""

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.found_tools import reference_to_hosted
from agent_cli.contracts.late_models import Field
from agent_cli.contracts.timeline import text_block
from agent_cli.contracts.tooling import (
    WEB_SEARCH_TOOL,
    Hosted,
    Parameters,
    Tool,
    ToolContext,
    ToolResult,
)

_ALLOWED = (
    "The user allows it: search with web_search from now on. If you have no such tool, this model"
    " has no web search; tell the user."
)


class WebSearchParameters(Parameters):
    """Parameters of web_search."""

    query: str = Field(min_length=1)


def web_search_tool(hosted: Hosted) -> Tool:
    """Return the tool `web_search`, which the server runs.

    Where no rule allows it from the first request on, the model calls this tool first. A call is
    the question to the person; once it is allowed, the server's tool is there for the rest of the
    conversation.
    """

    async def execute(
        _call_id: str, _params: WebSearchParameters, _cancel: CancelToken, _context: ToolContext
    ) -> ToolResult:
        return ToolResult((text_block(_ALLOWED), reference_to_hosted(WEB_SEARCH_TOOL)))

    return Tool(
        name=WEB_SEARCH_TOOL,
        label="Search",
        description="Ask the user to let you search the web.",
        parameters=WebSearchParameters,
        execute=execute,
        changes=False,
        doubt=lambda _params: (
            "lets the model search the web for the rest of this conversation: up to"
            f" {hosted.uses_max} searches a reply, which the API charges for"
        ),
        finds_tools=not hosted.is_open,
        hosted=hosted,
        summary=lambda params: params.query,
    )
