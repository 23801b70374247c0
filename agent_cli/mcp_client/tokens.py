"""Estimate the tokens that tools add to every request."""

import json

from agent_cli.contracts.tooling import Tool


def tool_tokens(tool: Tool) -> int:
    """Return about how many tokens a tool's definition takes, at four bytes each."""
    spec = tool.spec
    schema = json.dumps(spec.input_schema, ensure_ascii=False)
    return len(f"{spec.name}{spec.description}{schema}".encode(errors="replace")) // 4
