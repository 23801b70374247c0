"""Check `--require-tools`: a run without a tool that it needs would cost money for nothing."""

from collections.abc import Collection, Iterable, Mapping

from agent_cli.contracts.errors import AgentCliError
from agent_cli.contracts.wording import one_line
from agent_cli.mcp_client.names import is_of_server, server_name
from agent_cli.policies.permission_rules import RuleSet
from agent_cli.terminal.sanitize import reveal


def belongs(required: str, server: str) -> bool:
    """Return whether *required* names a tool of *server*, or all its tools."""
    return is_of_server(required, server) or required == server_name(server)


def denied(rules: RuleSet, tools: Iterable[str]) -> dict[str, str]:
    """Return tool → a sentence, for each of *tools* whose every call a rule denies."""
    return {
        tool: f"the rule deny {rule} ({rule.origin or 'permissions'}) forbids it"
        for tool in tools
        for rule in rules.deny
        if rule.text is None and rule.names(tool)
    }


def require(
    required: Iterable[str],
    offered: Collection[str],
    *,
    absent: Mapping[str, str],
    servers: Collection[str],
) -> None:
    """Check that each of *required* is there: a tool by its name, or `mcp__SERVER`.

    Args:
        required: The names.
        offered: The names of the tools that the model can use.
        absent: The tools that are left out, withheld or denied, each with a sentence.
        servers: The configured servers.

    Raises:
        AgentCliError: A tool is missing, or a tool of a server that is required whole.
    """
    for name in required:
        server = next((each for each in servers if belongs(name, each)), "")
        if server and name == server_name(server):
            faults = (text for tool, text in absent.items() if is_of_server(tool, server))
            has_tools = any(is_of_server(tool, server) for tool in offered)
            why = next(faults, "" if has_tools else f"MCP server '{server}' offers no tool")
        elif name in offered:
            continue
        else:
            why = absent.get(name, "there is no such tool or MCP server")
        if why:
            raise AgentCliError(_sentence(name, why, server))


def _sentence(name: str, why: str, server: str) -> str:
    held = f"; agent-cli mcp approve {server} shows what changed" if "is withheld" in why else ""
    return f"tool {one_line(reveal(name))} is required, and not there: {reveal(f'{why}{held}')}"
