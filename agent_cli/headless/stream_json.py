"""Events as JSON objects with `type` first: the output of `--output-format stream-json`.

One rule for every event: its fields under their own names. The exception is a streaming reply: only
the new piece is written, because repeating the whole would be quadratic.
"""

import dataclasses
import json
import math
from typing import Final

from agent_cli.contracts.events import Event, MessageUpdate
from agent_cli.contracts.timeline import Json
from agent_cli.system.shapes import is_mapping, is_sequence

_NAMES: Final = ("type", "kind", "role", "state")


def to_json(event: Event) -> dict[str, Json]:
    """Return *event* as an object whose first key is `type`."""
    if isinstance(event, MessageUpdate):
        return {"type": event.type, "event": _value(event.event)}
    shown = _value(event)
    assert isinstance(shown, dict)
    return shown


def to_line(shown: dict[str, Json]) -> str:
    """Return *shown* as one line of printable ASCII.

    Readers that split at U+2028 get whole objects, and a terminal gets no control characters.
    """
    return json.dumps(shown, separators=(",", ":")).replace("\x7f", "\\u007f")


def _value(value: object) -> Json:
    if isinstance(value, float) and not math.isfinite(value):
        return None  # JSON has no such number; tools and servers may send one
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if is_mapping(value):
        return {str(key): _value(part) for key, part in value.items()}
    if is_sequence(value):
        return [_value(part) for part in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [name for name in _NAMES if hasattr(value, name)]
        fields = [field.name for field in dataclasses.fields(value)]
        return {name: _value(getattr(value, name)) for name in dict.fromkeys(names + fields)}
    raise TypeError(f"an event holds a {type(value).__name__}, which has no JSON form")
