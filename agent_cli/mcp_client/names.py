"""The public names of MCP tools: valid, unique and stable; and the tokens that tools cost."""

import json
import re
from hashlib import sha256
from typing import Final

from agent_cli.contracts.tooling import Tool

LIST_TOOL: Final = "list_mcp_resources"
READ_TOOL: Final = "read_mcp_resource"
"""The tools of ours with which the model reads the resources of all servers."""

_LONGEST = 64
_INVALID = re.compile(r"[^A-Za-z0-9_-]")


def public_name(server: str, tool: str) -> str:
    """Return `mcp__<server>__<tool>`, at most 64 characters of `[A-Za-z0-9_-]`.

    The name depends on these two strings alone, so a server that connects later never changes it
    (prompt caches depend on that). A name that had to be changed, or is ambiguous, ends in eight
    digits of a hash. It cannot be split into server and tool again: keep the two strings.

    Source: Messages API, tool name `^[a-zA-Z0-9_-]{1,64}$`; MCP allows 128 characters and dots.
    """
    name = f"mcp__{_INVALID.sub('_', server)}__{_INVALID.sub('_', tool)}"
    exact = name == f"mcp__{server}__{tool}" and len(name) <= _LONGEST
    # "a__b" + "c" and "a" + "b__c" would give one name; so would "a_" + "b" and "a" + "_b".
    if exact and "__" not in server and server[-1:] not in ("", "_"):
        return name
    digest = sha256(f"{server}\0{tool}".encode(errors="surrogatepass")).hexdigest()[:8]
    return f"{name[: _LONGEST - 9]}_{digest}"


def server_name(server: str) -> str:
    """Return `mcp__<server>`, which stands for all tools of *server*."""
    return f"mcp__{_INVALID.sub('_', server)}"


def is_of_server(name: str, server: str) -> bool:
    """Return whether the public *name* may belong to a tool of *server*.

    True also for a few tools of other servers: those called like this one with `__` behind.
    """
    prefix = f"{server_name(server)}__"
    is_cut = len(name) == _LONGEST and prefix.startswith(name[: _LONGEST - 9])
    return name.startswith(prefix) or is_cut


def tool_tokens(tool: Tool) -> int:
    """Return about how many tokens a tool's definition takes, at four bytes each."""
    spec = tool.spec
    schema = json.dumps(spec.input_schema, ensure_ascii=False)
    return len(f"{spec.name}{spec.description}{schema}".encode(errors="replace")) // 4
