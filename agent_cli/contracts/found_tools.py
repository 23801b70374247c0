"""Tools that the model finds during a conversation; how a result refers to them."""

from collections.abc import Mapping
from typing import Final

from agent_cli.contracts.timeline import Block, Json
from agent_cli.contracts.tooling import ToolSpec

REFERENCE: Final = "tool_reference"
CALL_FOUND: Final = "call_found_tool"
"""The tool that calls found tools, for models that cannot be given tools in a conversation. The
provider translates its calls: nothing else sees them, unless their input is no JSON object."""


def reference_to(spec: ToolSpec) -> Block:
    """Return a block that makes *spec* known to the model from its place on.

    It holds the definition: what the model has read must not change when the server does.
    """
    definition: Json = {"description": spec.description, "input_schema": spec.input_schema}
    return {"type": REFERENCE, "tool_name": spec.name, "definition": definition}


def definition_in(block: Mapping[str, Json]) -> Block | None:
    """Return the definition that a reference holds, as the API takes it; None for another block."""
    match block:
        case {"type": "tool_reference", "tool_name": str(name), "definition": dict(definition)}:
            return {"name": name, **definition}
        case _:
            return None
