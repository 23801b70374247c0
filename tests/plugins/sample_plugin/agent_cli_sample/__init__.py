"""The entry points of this package: a plugin with secrets and an agent, and a single tool."""

from pathlib import Path

from pydantic import BaseModel

from agent_cli import CancelToken, Plugin, PluginContext, Tool, ToolContext


class SearchInput(BaseModel):
    """The input of the mail tool."""

    query: str


class Mailbox:
    """The mailbox of the credentials' owner."""

    def __init__(self) -> None:
        self._account = ""

    def prepare(self, ctx: PluginContext) -> None:
        """Take the credentials, and tell the model that mail can be searched."""
        self._account = ctx.secrets["GOOGLE_CLIENT_ID"]
        ctx.add_context("The user's mail can be searched.")

    async def search(
        self, tool_call_id: str, params: SearchInput, cancel: CancelToken, context: ToolContext
    ) -> str:
        """Find nothing, as an empty mailbox would."""
        return f"no mail about {params.query} for {self._account}"


def mail(_workspace: Path) -> Plugin:
    """Return the plugin, which is off while one of its secrets is unset."""
    mailbox = Mailbox()
    tool = Tool(
        name="mail_search",
        label="Search mail",
        description="Search the user's mail.",
        parameters=SearchInput,
        execute=mailbox.search,
        changes=False,
    )
    return Plugin(
        name="mail",
        version="1.2.0",
        tools=(tool,),
        prepare=mailbox.prepare,
        secrets=("GOOGLE_CLIENT_ID", "GOOGLE_CLIENT_SECRET"),
        agents=Path(__file__).with_name("agents"),
    )


class WordCountInput(BaseModel):
    """The input of the word counter."""

    path: str


def word_count_tools(workspace: Path) -> list[Tool]:
    """Return the tools of this workspace."""

    async def count(
        tool_call_id: str, params: WordCountInput, cancel: CancelToken, context: ToolContext
    ) -> str:
        return f"{len((workspace / params.path).read_text().split())} words"

    return [
        Tool(
            name="word_count",
            label="Count words",
            description="Count the words of a file.",
            parameters=WordCountInput,
            execute=count,
            changes=False,
        )
    ]
