"""The parts of random runs: streams that break, tools that misbehave, options of the loop."""

import asyncio

from hypothesis import strategies as st

from agent_cli.contracts.errors import ModelError, ToolError
from agent_cli.contracts.provider import ReplyStart, Retrying, TextDelta
from agent_cli.core.loop_config import LoopConfig
from agent_cli.core.message_queue import QueueMode
from tests.fakes import Step, says, stream_of

broken_streams: st.SearchStrategy[Step] = st.sampled_from(
    [
        ModelError("the server is gone", status=500),
        [ReplyStart("m"), TextDelta(0, "half"), ModelError("cut off")],
        [ReplyStart("m"), TextDelta(0, "half")],
        [Retrying(1, 5, 0.0, "overloaded"), *stream_of(says("at last"))],
        [
            *(ReplyStart("m"), TextDelta(0, "half")),
            Retrying(1, 5, 0.0, "overloaded", restarted=True),
            *stream_of(says("whole")),
        ],
    ]
)
_modes: st.SearchStrategy[QueueMode] = st.sampled_from(["one_at_a_time", "all"])
queue_modes = st.tuples(_modes, _modes)
"""How steering and follow-ups are taken from their queues."""


def loop_options(*max_rounds: int, limit_s: float | None = None) -> st.SearchStrategy[LoopConfig]:
    """Return options of the loop, with one of *max_rounds*; *limit_s* is that of each tool."""
    limits = {"tool_timeout_s": limit_s, "tool_stop_timeout_s": limit_s} if limit_s else {}
    return st.builds(
        LoopConfig,
        tool_execution=st.sampled_from(["parallel", "parallel", "sequential"]),
        concurrency=st.integers(1, 3),
        steering=st.sampled_from(["skip_unstarted", "cancel_running", "after_batch"]),
        approval=st.sampled_from(["defer", "batch"]),
        max_rounds=st.sampled_from(max_rounds),
        **{name: st.just(limit) for name, limit in limits.items()},
    )


async def misbehave(how: str) -> None:
    """Misbehave as a tool should not; do nothing for an unknown word."""
    match how:
        case "raise":
            raise ValueError("broken")
        case "tool error":
            raise ToolError("try something else")
        case "hang":
            await asyncio.Event().wait()
        case "swallow":
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                await asyncio.sleep(0)
        case "cancel itself":
            raise asyncio.CancelledError
        case _:
            pass
