"""Call a tool that runs as a task: start it, ask for its state, fetch its result.

Revision 2025-11-25 of the protocol has tasks; the SDK has their types and no methods.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from mcp import Client
from mcp.shared.dispatcher import ProgressFnT
from mcp_types import (
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    CancelTaskRequest,
    CancelTaskRequestParams,
    CancelTaskResult,
    GetTaskPayloadRequest,
    GetTaskPayloadRequestParams,
    GetTaskRequest,
    GetTaskRequestParams,
    GetTaskResult,
    Task,
    TaskMetadata,
)

from agent_cli.contracts.timeline import Json
from agent_cli.mcp_client.mended_messages import TASK
from agent_cli.mcp_client.reasons import CONNECTION_ERRORS

_POLL_S: Final = 1.0
_POLL_MIN_S: Final = 0.05
_POLL_MAX_S: Final = 30.0
_CANCEL_LIMIT_S: Final = 2.0
OnStatus = Callable[[str], None]


async def call_as_task(
    client: Client,
    tool: str,
    arguments: dict[str, Json],
    *,
    on_progress: ProgressFnT,
    on_status: OnStatus,
) -> CallToolResult:
    """Return the result of *tool*; the server's task is cancelled with this call.

    Args:
        client: Connected.
        tool: Its name at the server.
        arguments: Its input.
        on_progress: Receives reports of progress.
        on_status: Called at each answer about the task with its message, which may be "".

    Raises:
        MCPError, ValidationError: As a call of any other tool.
    """
    params = CallToolRequestParams(name=tool, arguments=arguments, task=TaskMetadata())
    started = await client.session.send_request(
        CallToolRequest(params=params), CallToolResult, progress_callback=on_progress
    )
    created = (started.meta or {}).get(TASK)
    if created is None:
        return started  # it has run at once
    task = Task.model_validate(created, by_name=False)
    try:
        while task.status == "working":
            on_status(task.status_message or "")
            await asyncio.sleep(_pause_s(task))
            asked = GetTaskRequest(params=GetTaskRequestParams(task_id=task.task_id))
            task = await client.session.send_request(asked, GetTaskResult)
        # A task that needs input asks for it while its result is waited for.
        request = GetTaskPayloadRequest(params=GetTaskPayloadRequestParams(task_id=task.task_id))
        return await client.session.send_request(request, CallToolResult)
    except asyncio.CancelledError:
        await _cancel(client, task.task_id)
        raise


def _pause_s(task: Task) -> float:
    """Return how long to wait before the next question; a server may ask for a longer pause."""
    wished_s = _POLL_S if task.poll_interval is None else task.poll_interval / 1000
    return min(max(wished_s, _POLL_MIN_S), _POLL_MAX_S)


async def _cancel(client: Client, task_id: str) -> None:
    """Ask the server to stop the task; it may have ended meanwhile."""
    request = CancelTaskRequest(params=CancelTaskRequestParams(task_id=task_id))
    with suppress(TimeoutError, *CONNECTION_ERRORS):
        async with asyncio.timeout(_CANCEL_LIMIT_S):
            await client.session.send_request(request, CancelTaskResult)
