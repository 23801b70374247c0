"""A plugin that a Python program passes to its sessions."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
from pydantic import BaseModel

from agent_cli import (
    Agent,
    AgentSession,
    Plugin,
    PluginContext,
    PluginState,
    SessionOptions,
    ToolContext,
    UsageError,
    query,
    tool,
)
from tests.library.test_session import at, told
from tests.messages_api import reply, serve_in_thread, tool_use
from tests.tables import each_row


@each_row("names", [("greeter", "greeter"), ("todo",)])
async def test_name_of_a_plugin_that_is_taken_is_an_error(names: Sequence[str]) -> None:
    """The second one was left out, and a notice that nobody read said so."""
    plugins = [Plugin(name=name) for name in names]
    options = SessionOptions(environment={"ANTHROPIC_API_KEY": "k"}, plugins=plugins)

    with pytest.raises(UsageError, match=f"more than one plugin is named '{names[0]}': rename"):
        async with AgentSession(options):
            pass


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
