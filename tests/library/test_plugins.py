"""A plugin that a Python program passes to its sessions."""

import asyncio
import json
from dataclasses import replace

from pydantic import BaseModel

from agent_cli import (
    Agent,
    Plugin,
    PluginContext,
    PluginState,
    SessionOptions,
    ToolContext,
    query,
    tool,
)
from tests.library.test_session import at, told
from tests.messages_api import reply, serve_in_thread, tool_use


class Visits(BaseModel):
    count: int = 0


VISITS = PluginState("greeter", Visits)


async def test_plugin_of_the_program_works_as_an_installed_one_and_keeps_its_state() -> None:
    """Until now a program had to be packaged and installed to pass a plugin."""
    watched = asyncio.Event()

    def prepare(ctx: PluginContext) -> None:
        VISITS.write(ctx.state, Visits(count=VISITS.read(ctx.state).count + 1))
        ctx.add_context("The shop is closed today.")

    async def watch(_agent: Agent) -> None:
        watched.set()

    @tool
    async def ring(context: ToolContext) -> str:
        """Ring the bell."""
        return f"rang at visit {VISITS.read(context.state).count} of {context.services['door']}"

    greeter = Plugin(
        name="greeter",
        prepare=prepare,
        tools=[ring],
        state=VISITS,
        services={"door": "the back door"},
        watch=watch,
    )
    with serve_in_thread(
        reply("hi"), reply(tool_use("ring")), reply("done"), reply("alone")
    ) as api:
        options = SessionOptions(environment=at(api), plugins=[greeter], allow=["ring"])
        first = await query("one", options)
        async with asyncio.timeout(60):
            await watched.wait()
        await query("two", replace(options, resume=first.session_id))
        await query("three", replace(options, settings={"plugins.enabled": False}))

    assert "The shop is closed today." in json.dumps(api.requests[0].body["system"])
    assert told(api, 2) == "rang at visit 2 of the back door"
    own = {"ring", "todo", "recall"}
    assert {each["name"] for each in api.requests[0].body["tools"]} & own == own
    assert {each["name"] for each in api.requests[3].body["tools"]} & own == {"ring"}
