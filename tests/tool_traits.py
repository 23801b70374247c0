"""What a tool says about its calls, to be compared as a whole."""

from typing import Final

from agent_cli.contracts.tooling import Tool

TRAITS: Final = {
    "parallel_safe": True,
    "takes_slot": True,
    "changes": True,
    "asks_person": False,
    "finds_tools": False,
    "is_deferred": False,
    "is_withdrawn": False,
    "timeout_s": None,
}
"""Those of a tool that says nothing."""


def traits(tool: Tool) -> dict[str, object]:
    """Return the label of *tool*, and the traits in which it is not a plain one."""
    found: dict[str, object] = {name: getattr(tool, name) for name in TRAITS}
    return {"label": tool.label, **{n: v for n, v in found.items() if v != TRAITS[n]}}
