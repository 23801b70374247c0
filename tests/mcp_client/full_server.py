"""A server with all but tools: questions, sampling, roots, prompts, resources, changes."""

import base64
import os
import sys
from pathlib import Path

from mcp.server.mcpserver import Context, MCPServer
from mcp_types import AudioContent, Completion, NotificationParams, SamplingMessage, TextContent
from pydantic import BaseModel, Field

server = MCPServer("full", instructions="Be\u200b kind.")


class Wish(BaseModel):
    """An elicitation form."""

    colour: str = Field(default="green", title="Colour")
    count: int


@server.tool(structured_output=False)
async def ask(ctx: Context) -> str:
    answer = await ctx.elicit("Which colour?", schema=Wish)
    return f"{answer.action}: {answer.data.model_dump() if answer.action == 'accept' else None}"


@server.tool(structured_output=False)
async def ask_to_visit(ctx: Context) -> str:
    answer = await ctx.elicit_url("Please pay", "https://pay.example/1", "e-1")
    return answer.action


@server.tool(structured_output=False)
async def think(ctx: Context) -> str:
    question = SamplingMessage(role="user", content=TextContent(type="text", text="2 + 2?"))
    reply = await ctx.session.create_message([question], max_tokens=10, system_prompt="Count.")  # pyright: ignore[reportDeprecated]
    return f"{reply.model}: {reply.content.text if reply.content.type == 'text' else ''}"


@server.tool(structured_output=False)
async def where(ctx: Context) -> str:
    roots = (await ctx.session.list_roots()).roots  # pyright: ignore[reportDeprecated]
    return " ".join(str(root.uri) for root in roots)


changed_roots: list[str] = []


@server.tool(structured_output=False)
async def heard() -> str:
    return " ".join(changed_roots)


async def _note_roots(_context: object, _params: object) -> None:
    changed_roots.append("changed")


server._lowlevel_server.add_notification_handler(
    "notifications/roots/list_changed", NotificationParams, _note_roots
)


@server.tool(structured_output=False)
async def grow(name: str, ctx: Context) -> str:
    server.add_tool(lambda: "new", name=name, description="New")
    # One for revisions with a connection, one for those with a separate stream.
    await ctx.session.send_tool_list_changed()
    await ctx.notify_tools_changed()
    return "grown"


@server.tool(structured_output=False)
async def ping(ctx: Context) -> str:
    await ctx.session.send_ping()
    return "pinged"


@server.tool(structured_output=False)
async def grumble(ctx: Context) -> str:
    await ctx.session.send_log_message(level="error", data="it is\x1b[31m cold", logger="mood")  # pyright: ignore[reportDeprecated]
    return "grumbled"


@server.tool(structured_output=False)
def sing() -> list[AudioContent]:
    data = base64.b64encode(b"RIFF la la la").decode()
    return [AudioContent(type="audio", data=data, mime_type="audio/wav")]


@server.prompt(description="Greet somebody")
def greet(name: str, style: str = "warm") -> str:
    return f"Write a {style} greeting for {name}."


@server.resource("note://today", description="A note")
def note() -> str:
    return "buy milk"


@server.resource("note://{day}", description="Any note")
def note_of(day: str) -> str:
    return f"nothing on {day}"


@server.completion()  # type: ignore[no-untyped-call, untyped-decorator]  # the SDK has no types here
async def complete(ref: object, argument: object, context: object) -> Completion:
    value = getattr(argument, "value", "")
    return Completion(values=[word for word in ("warm", "wild", "cool") if word.startswith(value)])


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        for file in sys.argv[2:]:
            Path(file).write_text(str(os.getpid()))
        server.run("stdio")
    else:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[2]))
