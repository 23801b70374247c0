"""The rules of ATIF v1.8, as far as this program uses the format."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

_ROOT = {
    *("schema_version", "session_id", "trajectory_id", "agent", "steps", "notes", "extra"),
    *("final_metrics", "subagent_trajectories", "continued_trajectory_ref"),
}
_AGENT = {"name", "version", "model_name", "tool_definitions", "extra"}
_STEP = {"step_id", "timestamp", "source", "message", "observation", "is_copied_context", "extra"}
_OF_AGENT = {
    *("model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics"),
    "llm_call_count",
}
_METRICS = {"prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd", "extra"}
_TOTALS = {
    *("total_prompt_tokens", "total_completion_tokens", "total_cached_tokens"),
    *("total_cost_usd", "total_steps", "extra"),
}


def trajectory_faults(given: dict[str, Any]) -> list[str]:  # Any: JSON
    """Return the violations of the format's rules; [] if there are none."""
    return [*_faults(given)]


def _faults(given: dict[str, Any]) -> Iterator[str]:
    yield from _unknown(given, _ROOT)
    yield from _unknown(given["agent"], _AGENT)
    yield from _unknown(given["final_metrics"], _TOTALS)
    if given["schema_version"] != "ATIF-v1.8":
        yield "schema_version"
    if not all(isinstance(given["agent"][name], str) for name in ("name", "version")):
        yield "agent"
    steps = given["steps"]
    if [step["step_id"] for step in steps] != list(range(1, len(steps) + 1)):
        yield "step ids are not 1, 2, 3, ..."
    if given["final_metrics"]["total_steps"] != len(steps):
        yield "total_steps"
    for step in steps:
        yield from _step_faults(step)
    children = given.get("subagent_trajectories", [])
    known = {child["trajectory_id"] for child in children}
    for result in (r for s in steps for r in s.get("observation", {}).get("results", [])):
        referred = {each["trajectory_id"] for each in result.get("subagent_trajectory_ref", [])}
        yield from (f"no trajectory {id}" for id in referred - known)
    for child in children:
        yield from _faults(child)


def _step_faults(step: dict[str, Any]) -> Iterator[str]:
    is_agents = step["source"] == "agent"
    yield from _unknown(step, _STEP | _OF_AGENT if is_agents else _STEP)
    yield from _unknown(step.get("metrics", {}), _METRICS)
    if step["source"] not in ("system", "user", "agent"):
        yield f"source {step['source']}"
    if not isinstance(step["message"], str):
        yield "message"
    if "timestamp" in step and datetime.fromisoformat(step["timestamp"]).tzinfo is None:
        yield "timestamp without a zone"
    if step.get("llm_call_count") == 0 and ("metrics" in step or "reasoning_content" in step):
        yield "metrics without a model call"
    calls = step.get("tool_calls", [])
    for call in calls:
        if set(call) != {"tool_call_id", "function_name", "arguments"}:
            yield f"call {sorted(call)}"
        if not isinstance(call["arguments"], dict):
            yield "arguments are no object"
    ids = {call["tool_call_id"] for call in calls}
    for result in step.get("observation", {}).get("results", []):
        yield from _unknown(result, {"source_call_id", "content", "subagent_trajectory_ref"})
        if result["source_call_id"] not in ids:
            yield f"result of no call: {result['source_call_id']}"


def _unknown(given: dict[str, Any], known: set[str]) -> list[str]:
    return [f"unknown key {name}" for name in set(given) - known]
