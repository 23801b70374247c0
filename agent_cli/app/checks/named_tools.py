"""Check the names in `--require-tools` and in permission rules against the tools there are."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import fields

from agent_cli.app.parts import permission_rules
from agent_cli.app.startup import StartupContext
from agent_cli.contracts.errors import AgentCliError
from agent_cli.contracts.permissions import Rule, RuleKind
from agent_cli.contracts.servers import is_of_server, server_name
from agent_cli.contracts.tooling import Tool
from agent_cli.contracts.wording import one_line
from agent_cli.policies.permission_rules import COMMAND_TOOL, RuleSet, without_matches
from agent_cli.system.loading import late_pattern
from agent_cli.system.sanitize import reveal

_JOINED_SCHEMAS = frozenset({"$ref", "allOf", "anyOf", "oneOf"})
_SERVER_NAMED = late_pattern(r"mcp__(.+?)__")


def dead_rules(
    startup: StartupContext,
    tools: Callable[[], Collection[str]],
    own_tools: Callable[[], Iterable[Tool]],
    servers: Collection[str],
) -> Iterator[str]:
    """Yield a sentence for each permission rule that matches no call.

    It is about a tool that is none of *tools*, or about some calls of one of *own_tools*, whose
    calls no text fits. A rule about an MCP server that is none of *servers* counts if it is an
    option: rules in files are written for several projects.
    """
    if not startup.loaded.rules:
        return
    yield from _lost_guards(startup)
    rules = permission_rules(startup)
    yield from without_matches(rules, tools())
    yield from _without_fit(rules.listed(), own_tools())
    for kind, rule in rules.listed():
        named = _SERVER_NAMED.match(rule.tool)
        is_option = rule.origin.startswith(("flag ", "argument "))
        if named and is_option and not any(is_of_server(rule.tool, each) for each in servers):
            known = ", ".join(one_line(reveal(name)) for name in servers) or "none"
            yield (
                f"{rule.origin}: the rule {kind} {rule} matches nothing: there is no MCP server"
                f" {named[1]}; there are: {known}"
            )


def _without_fit(rules: Iterable[tuple[RuleKind, Rule]], tools: Iterable[Tool]) -> Iterator[str]:
    """Yield a sentence for each of *rules* whose text fits no call of what it names of *tools*."""
    there = [*tools]
    for kind, rule in rules:
        named = [tool for tool in there if rule.names(tool.name)]
        if rule.text and named and not any(map(_fits_text, named)):
            yield (
                f"{rule.origin or 'permissions'}: the rule {kind} {rule} matches nothing: a call of"
                f" {rule.tool} names no paths; write {rule.tool}, which is every call"
            )


def _fits_text(tool: Tool) -> bool:
    """Return whether the text of a rule can fit a call: by its command, subject or paths."""
    if tool.name == COMMAND_TOOL:
        return True
    own = {field.name: field.default for field in fields(Tool)}
    if any(getattr(tool, name) is not own[name] for name in ("subject", "reads", "writes")):
        return True
    schema = tool.spec.input_schema
    properties = schema.get("properties")
    may_be_elsewhere = not _JOINED_SCHEMAS.isdisjoint(schema)
    return may_be_elsewhere or (isinstance(properties, dict) and "path" in properties)


def _lost_guards(startup: StartupContext) -> Iterator[str]:
    """Yield a sentence for each guard in Claude Code's files that cannot hold here as written."""
    for written in startup.loaded.rules:
        if written.of_claude:
            from agent_cli.policies.claude_rules import translated  # as in parts

            found = translated(written.kind, written.text)
            if found.is_lost:
                held = ", ".join(text for _, text in found.rules)
                but = f"only {held} holds" if held else "it does not hold"
                yield f"{written.origin}: {written.kind} {written.text}: {but}: {found.note}"


def dead_server_rules(
    startup: StartupContext, server: str, names: Collection[str], tools: Iterable[Tool]
) -> Iterator[str]:
    """Yield a sentence for each rule about *server* that matches no call.

    It is about a tool that is none of *names*, or about some calls of *tools* that no text fits.
    """
    if not startup.loaded.rules:
        return
    listed = permission_rules(startup).listed()
    rules = [each for each in listed if is_of_server(each[1].tool, server)]
    yield from _without_fit(rules, (tool for tool in tools if tool.name in names))
    for kind, rule in rules:
        if not any(map(rule.names, names)):
            yield (
                f"{rule.origin or 'permissions'}: the rule {kind} {rule} matches nothing:"
                f" MCP server '{one_line(reveal(server))}' has no such tool"
            )


def belongs(required: str, server: str) -> bool:
    """Return whether *required* names a tool of *server*, or all its tools."""
    return is_of_server(required, server) or required == server_name(server)


def denied(rules: RuleSet, tools: Iterable[str]) -> dict[str, str]:
    """Return tool → a sentence, for each of *tools* whose every call a rule denies."""
    return {
        tool: f"the rule deny {rule} ({rule.origin or 'permissions'}) forbids it"
        for tool in tools
        if (rule := rules.denying(tool))
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
