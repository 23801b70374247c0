"""A session as an ATIF trajectory, version 1.8: the format that Harbor and its tools read.

Every entry is a step or part of one: a message of the user, or a reply with its calls and their
results. Subagents are trajectories of their own, referenced by the result of the call that started
them.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from agent_cli.contracts.money import in_usd
from agent_cli.contracts.timeline import (
    BlockOutput,
    DiscardedOutput,
    Json,
    Output,
    ReplyOutput,
    TextOutput,
    ThinkingOutput,
    ToolOutput,
    Usage,
    UserOutput,
)
from agent_cli.core.projection import entries, usage_of
from agent_cli.session_store.history import History
from agent_cli.session_store.transcript import content_text, entry_text, result_text
from agent_cli.version import __version__

SCHEMA_VERSION: Final = "ATIF-v1.8"
_Object = dict[str, Json]


def trajectory(history: History, agents: Sequence[History] = ()) -> dict[str, Json]:
    """Return the session as one trajectory, with those of its subagents *agents*."""
    header = history.header
    started = {
        agent.header.parent_at: agent.header.id
        for agent in agents
        if agent.header and agent.header.parent_at
    }
    steps = list(_steps(list(entries(history.prompts)), started))
    for number, step in enumerate(steps, start=1):
        step["step_id"] = number
    session_id = header.id if header else "unknown"
    shown: _Object = {
        "schema_version": SCHEMA_VERSION,
        "session_id": session_id,
        "trajectory_id": session_id,
        "agent": {
            "name": "agent-cli",
            "version": header.program.removeprefix("agent-cli ") if header else __version__,
            **({"model_name": history.prompts[0].model} if history.prompts else {}),
            **({"extra": {"agent": header.agent}} if header and header.agent else {}),
        },
        "steps": [{"step_id": step["step_id"], **step} for step in steps],
        "final_metrics": _final_metrics(usage_of(history.prompts, history.taken_back), len(steps)),
    }
    if agents:
        shown["subagent_trajectories"] = [trajectory(agent) for agent in agents]
    return shown


def _steps(outputs: Sequence[Output], started: Mapping[str, str]) -> Iterator[_Object]:
    """Yield the steps, not yet numbered.

    A reply's blocks precede its end mark, and so may files that its calls handed over.
    """
    blocks: list[BlockOutput] = []
    beside: list[_Object] = []
    for output in outputs:
        match output:
            case BlockOutput():
                blocks.append(output)
            case ReplyOutput():
                of_reply = [each for each in blocks if each.reply_id == output.reply_id]
                yield _reply(of_reply, output, started)
                yield from beside
                blocks, beside = [], []
            case UserOutput():
                yield _step(
                    output.at_ms,
                    "user" if output.is_typed else "system",
                    content_text(output.content),
                )
            case DiscardedOutput():
                # Its usage is unknown: the step has no complete model call.
                step = _step(output.at_ms, "agent", output.text)
                step["extra"] = {"incomplete": output.reason}
                yield step
            case _:
                if text := entry_text(output):
                    beside.append(_step(output.at_ms, "system", text))
                if not blocks:
                    yield from beside
                    beside = []


def _reply(blocks: Sequence[BlockOutput], end: ReplyOutput, started: Mapping[str, str]) -> _Object:
    texts = [str(each.block.get("text", "")) for each in blocks if isinstance(each, TextOutput)]
    thoughts = [
        str(each.block.get("thinking", "")) for each in blocks if isinstance(each, ThinkingOutput)
    ]
    calls = [each for each in blocks if isinstance(each, ToolOutput)]
    step = _step(end.at_ms, "agent", "".join(texts))
    step["model_name"] = end.model
    if reasoning := "\n\n".join(filter(None, thoughts)):
        step["reasoning_content"] = reasoning
    if calls:
        step["tool_calls"] = [_call(call) for call in calls]
        step["observation"] = {"results": [_result(call, started) for call in calls]}
    step["metrics"] = _metrics(end.usage)
    step["llm_call_count"] = 1
    step["extra"] = {"stop_reason": end.stop_reason}
    return step


def _step(at_ms: int, source: str, message: str) -> _Object:
    at = datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")
    return {"timestamp": at, "source": source, "message": message}


def _call(call: ToolOutput) -> _Object:
    given = call.input
    return {
        "tool_call_id": call.tool_call_id,
        "function_name": call.name,
        # ATIF requires arguments to be an object; a model may write any JSON.
        "arguments": dict(given) if isinstance(given, Mapping) else {"input": given},
    }


def _result(call: ToolOutput, started: Mapping[str, str]) -> _Object:
    result: _Object = {"source_call_id": call.tool_call_id, "content": result_text(call)}
    if agent := started.get(call.tool_call_id):
        result["subagent_trajectory_ref"] = [{"trajectory_id": agent}]
    return result


def _metrics(usage: Usage) -> _Object:
    metrics: _Object = {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.output_tokens,
        "cached_tokens": usage.cache_read_tokens,
    }
    if usage.cost_microdollars is not None:
        metrics["cost_usd"] = in_usd(usage.cost_microdollars)
    return metrics


def _final_metrics(usage: Usage, steps: int) -> _Object:
    totals: _Object = {f"total_{name}": value for name, value in _metrics(usage).items()}
    return {**totals, "total_steps": steps}
