"""The settings of what extends the program: lifecycle hooks and MCP servers."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, NamedTuple, TypeAlias

from agent_cli.contracts import options
from agent_cli.settings.rules import (
    choice,
    flag,
    fold,
    groups,
    number,
    off,
    optional,
    records,
    table,
    text,
    text_map,
    texts,
    whole,
)

_TRANSPORT_WORDS = {"streamablehttp": "http"}
_NO_TEXTS: Mapping[str, str] = MappingProxyType({})


HookGroups: TypeAlias = tuple[Mapping[str, object], ...]


class HookSettings(NamedTuple):
    """Lifecycle hooks: a list of groups for each event, in Claude Code's format and names.

    `claude_files` also reads the hooks in `settings.json` of `~/.claude` and, if the workspace is
    trusted, in `settings.json` and `settings.local.json` of its `.claude`.
    """

    claude_files: Annotated[bool, flag()._replace(user_only=True)] = True
    pre_tool_use: Annotated[HookGroups, groups()] = ()
    post_tool_use: Annotated[HookGroups, groups()] = ()
    post_tool_use_failure: Annotated[HookGroups, groups()] = ()
    permission_request: Annotated[HookGroups, groups()] = ()
    user_prompt_submit: Annotated[HookGroups, groups()] = ()
    session_start: Annotated[HookGroups, groups()] = ()
    session_end: Annotated[HookGroups, groups()] = ()
    stop: Annotated[HookGroups, groups()] = ()
    subagent_start: Annotated[HookGroups, groups()] = ()
    subagent_stop: Annotated[HookGroups, groups()] = ()
    pre_compact: Annotated[HookGroups, groups()] = ()
    post_compact: Annotated[HookGroups, groups()] = ()
    notification: Annotated[HookGroups, groups()] = ()
    permission_denied: Annotated[HookGroups, groups()] = ()
    post_tool_batch: Annotated[HookGroups, groups()] = ()
    user_prompt_expansion: Annotated[HookGroups, groups()] = ()
    stop_failure: Annotated[HookGroups, groups()] = ()
    file_changed: Annotated[HookGroups, groups()] = ()
    pre_model_switch: Annotated[HookGroups, groups()] = ()
    post_model_switch: Annotated[HookGroups, groups()] = ()
    directory_added: Annotated[HookGroups, groups()] = ()
    elicitation: Annotated[HookGroups, groups()] = ()
    elicitation_result: Annotated[HookGroups, groups()] = ()
    instructions_loaded: Annotated[HookGroups, groups()] = ()
    task_created: Annotated[HookGroups, groups()] = ()
    task_completed: Annotated[HookGroups, groups()] = ()


class McpServer(NamedTuple):
    """One MCP server: `command` and `args` for stdio, `url` and `headers` for http and sse.

    `enabled_tools` and `disabled_tools` are patterns of its own tool names; the latter win.
    """

    name: Annotated[str, text()] = ""
    transport: Annotated[str, choice("stdio", "http", "sse", also=_TRANSPORT_WORDS)] = "stdio"
    command: Annotated[str, text()] = ""
    args: Annotated[tuple[str, ...], texts()] = ()
    env: Annotated[Mapping[str, str], text_map(secret=True)] = _NO_TEXTS
    cwd: Annotated[str, text("a path")] = ""
    url: Annotated[str, text()] = ""
    headers: Annotated[Mapping[str, str], text_map(secret=True)] = _NO_TEXTS
    headers_helper: Annotated[str, text()] = ""
    oauth: Annotated[Mapping[str, object], table(secret=True)] = _NO_TEXTS
    enabled: Annotated[bool, flag()] = True
    enabled_tools: Annotated[tuple[str, ...], texts()] = ()
    disabled_tools: Annotated[tuple[str, ...], texts()] = ()
    always_load: Annotated[bool, flag()] = False
    required: Annotated[bool, flag()] = False
    protocol: Annotated[str | None, optional(choice("auto", "legacy"))] = None
    startup_timeout_s: Annotated[float | None, optional(number(1, 600, "seconds"))] = None
    call_timeout_s: Annotated[float | None, optional(number(1, 86_400, "seconds"))] = None


def complete_server(server: dict[str, object]) -> dict[str, object]:
    """Use HTTP for a server that has a URL but no transport, and read `type` as transport."""
    by_name = {fold(name): name for name in server}
    if "transport" in by_name:
        return server
    if "type" in by_name:
        return {("transport" if fold(name) == "type" else name): v for name, v in server.items()}
    return {"transport": "http", **server} if "url" in by_name else server


class McpSettings(NamedTuple):
    """Servers that offer tools to the model; `config` names files in the format of `.mcp.json`.

    The first prompt waits up to `first_prompt_wait_s`, counted from the servers' start, for servers
    still starting, and that of `-p` or `--prompts-from` up to `headless_wait_s`. If tools take more
    than `defer_beyond_tokens`, the model gets one search tool instead; 0 never defers. The default
    is a tenth of the smallest window among today's models. A run that no person watches ends before
    any cost if one of `require_tools` is not there.
    """

    enabled: Annotated[bool, flag()._replace(stricter=off)] = True
    config: Annotated[tuple[str, ...], texts(user_only=True)] = (".mcp.json",)
    startup_timeout_s: Annotated[float, number(1, 600, "seconds")] = options.MCP_STARTUP_TIMEOUT_S
    first_prompt_wait_s: Annotated[float, number(0, 600, "seconds")] = 4
    headless_wait_s: Annotated[float, number(0, 600, "seconds")] = 30
    call_timeout_s: Annotated[float, number(1, 86_400, "seconds")] = options.MCP_CALL_TIMEOUT_S
    defer_beyond_tokens: Annotated[int, whole(0, 1_000_000, "tokens")] = 20_000
    require_tools: Annotated[tuple[str, ...], texts(append=True, user_only=True)] = ()
    servers: Annotated[tuple[McpServer, ...], records(McpServer, complete_server)] = ()
