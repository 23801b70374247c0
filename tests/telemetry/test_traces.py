"""One trace across programs: from our caller to the programs we call."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import acp
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from opentelemetry.context import attach, detach
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

from agent_cli.system import paths
from tests.acp.editor import editor_of_program
from tests.e2e.program import AGENT_CLI, environment
from tests.fakes import LIMIT_S
from tests.forked import arguments_of
from tests.mcp_client.conftest import RAW_SERVER
from tests.messages_api import FakeMessagesApi, reply, tool_use
from tests.telemetry.receiver import Receiver, receiving

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"
THEIRS = SpanContext(int(TRACE, 16), int(SPAN, 16), True, TraceFlags(TraceFlags.SAMPLED))
CALL = tool_use("mcp__raw__reply", {})


def configure_raw_server() -> None:
    """Configure a server that records its requests, and a hook that records its trace."""
    options = json.dumps({"record": str(Path("asked.jsonl").resolve())})
    file = paths.user_settings_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    hook = json.dumps(f"echo $TRACEPARENT > {Path('hooked').resolve()}")
    file.write_text(
        "[[mcp.servers]]\n"
        f'name = "raw"\ncommand = "{sys.executable}"\n'
        f"args = {json.dumps([RAW_SERVER, options])}\nalways_load = true\n"
        f'[[hooks.PreToolUse]]\nhooks = [{{ type = "command", command = {hook} }}]\n'
    )


def require_one_trace(receiver: Receiver) -> None:
    """Check that the given trace is above the run, and our call above the server's spans."""
    top, call = receiver.one("invoke_agent agent-cli"), receiver.one("execute_tool mcp__raw__reply")
    asked = [json.loads(line) for line in Path("asked.jsonl").read_text().splitlines()]
    (meta,) = [each["params"]["_meta"] for each in asked if each["method"] == "tools/call"]
    assert (top.trace, top.parent) == (TRACE, SPAN)
    assert meta["traceparent"] == f"00-{TRACE}-{call.id}-01"
    assert call.attributes["gen_ai.tool.type"] == "extension"
    assert call.attributes["mcp.method.name"] == "tools/call"
    hooked = Path("hooked").read_text().strip()
    assert hooked == f"00-{TRACE}-{top.id}-01"


async def test_trace_of_an_mcp_client_continues_through_mcp_serve() -> None:
    """`agent-cli mcp serve`: the client's request names the trace in `_meta`."""
    configure_raw_server()
    with receiving() as receiver:
        async with FakeMessagesApi(reply(CALL), reply("Done.")) as api:
            variables: dict[str, str | None] = {**receiver.variables}
            parameters = StdioServerParameters(
                command=sys.executable,
                args=arguments_of(AGENT_CLI, "--permission-mode", "yolo", "mcp", "serve"),
                env=environment(api, variables),
            )
            async with Client(stdio_client(parameters)) as client:
                token = attach(set_span_in_context(NonRecordingSpan(THEIRS)))
                try:
                    result = await client.call_tool("ask", {"prompt": "go"})
                finally:
                    detach(token)

    assert not result.is_error, result.content
    require_one_trace(receiver)


async def test_trace_of_an_editor_continues_to_an_mcp_server() -> None:
    """`agent-cli acp`: each prompt may name a trace in `_meta`, as the protocol reserves it."""
    configure_raw_server()
    with receiving() as receiver:
        async with (
            FakeMessagesApi(reply(CALL), reply("Done.")) as api,
            editor_of_program(api, "--permission-mode", "yolo", **receiver.variables) as (
                client,
                _,
            ),
        ):
            session = await client.open()
            prompt: Any = client.agent.prompt  # further arguments become `_meta`
            async with asyncio.timeout(LIMIT_S):
                content = [acp.text_block("go")]
                await prompt(session_id=session, prompt=content, traceparent=PARENT)

    require_one_trace(receiver)
