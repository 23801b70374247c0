"""Claude Code's tool names beside ours: for hooks, agents, permission rules and skills.

Files written for Claude Code use its names. A name that is not translated would match nothing,
and a guard would not hold.
"""

import re
from collections.abc import Collection, Mapping
from typing import Final

from agent_cli.system.loading import late_pattern

CLAUDE_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "bash": ("Bash",),
    "edit": ("Edit", "MultiEdit"),
    "write": ("Write",),
    "read": ("Read",),
    "grep": ("Grep",),
    "glob": ("Glob", "LS"),
    "agent": ("Agent", "Task"),
    "todo": ("TodoWrite", "TaskCreate", "TaskUpdate"),
    "ask_user": ("AskUserQuestion",),
    "present_plan": ("ExitPlanMode",),
    "skill": ("Skill",),
    "job_output": ("TaskOutput", "BashOutput", "AgentOutputTool"),
    "remind": ("ScheduleWakeup", "CronCreate"),
    "find_tools": ("ToolSearch",),
    "list_mcp_resources": ("ListMcpResourcesTool",),
    "read_mcp_resource": ("ReadMcpResourceTool",),
    "web_fetch": ("WebFetch",),
    "web_search": ("WebSearch",),
}
"""Our name → Claude Code's names, today's first; older and closely related ones follow."""

OF_SERVERS: Final = "mcp__"
"""The names of the tools of all MCP servers begin with it, there and here."""

_OURS: Final = {name: ours for ours, names in CLAUDE_NAMES.items() for name in names}
_EXACT_NAMES: Final = late_pattern(r"[\w\-]+(?:\s*[|,]\s*[\w\-]+)*")


def claude_tool_name(name: str) -> str:
    """Return Claude Code's name of our tool *name*; other tools keep their names."""
    return CLAUDE_NAMES.get(name, (name,))[0]


def our_tool_name(name: str) -> str:
    """Return our name of Claude Code's tool *name*; other names stay as they are."""
    return _OURS.get(name, name)


def exact_names(matcher: str) -> frozenset[str] | None:
    """Return the names that a matcher lists, joined by "|" or ","; None for a pattern."""
    if not _EXACT_NAMES.fullmatch(matcher):
        return None
    return frozenset(name.strip() for name in re.split(r"[|,]", matcher))


def may_match(matcher: str, tools: Collection[str]) -> bool:
    """Return whether a matcher can match a call of any of *tools*, or of an MCP server's tool.

    The tools of servers are not known in advance, so whatever could name one counts.
    """
    names = exact_names(matcher)
    if names is not None:
        return any(name.startswith(OF_SERVERS) or our_tool_name(name) in tools for name in names)
    if "mcp" in matcher:
        return True
    theirs = {name for tool in tools for name in CLAUDE_NAMES.get(tool, (tool,))}
    # A pattern that excludes names may match a server's tool, whatever that is called.
    return any(re.search(matcher, name) for name in {*theirs, "mcp__server__tool"})
