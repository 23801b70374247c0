"""The arguments of a tool call, from the text or the JSON that a server sent."""

import json
from collections.abc import Iterable

from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import INVALID_JSON

# A model that repeats "[" without end must not break the run or the record, which recurse.
_DEPTH_MAX = 100


def tool_input(written: str) -> Json:
    """Return the arguments; text that is no JSON object is kept for `check_input` to refuse."""
    if not written.strip():
        return {}
    try:
        parsed: Json = json.loads(written, parse_constant=_not_json)
    except (ValueError, RecursionError):
        return {INVALID_JSON: written}
    return parsed if _is_usable(parsed) else {INVALID_JSON: written}


def whole_input(given: Json) -> Json:
    """Return the arguments that came with the start of their block."""
    if not given or _is_usable(given):
        return given or {}
    return tool_input(given if isinstance(given, str) else json.dumps(given))


def _is_usable(arguments: Json) -> bool:
    """Return whether *arguments* are an object that can be recorded and sent."""
    if not isinstance(arguments, dict) or not _is_within(arguments, _DEPTH_MAX):
        return False
    try:
        # A lone surrogate is legal in JSON text but cannot be encoded as UTF-8; 1e999 is infinite.
        json.dumps(arguments, ensure_ascii=False, allow_nan=False).encode()
    except ValueError:
        return False
    return True


def _is_within(value: Json, depth: int) -> bool:
    match value:
        case dict():
            parts: Iterable[Json] = value.values()
        case list():
            parts = value
        case _:
            return True
    return depth > 0 and all(_is_within(part, depth - 1) for part in parts)


def _not_json(constant: str) -> Json:
    raise ValueError(f"{constant} is not JSON")
