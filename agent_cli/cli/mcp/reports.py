"""MCP servers as `agent-cli mcp` shows them: a table, a line for each, or JSON."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from agent_cli.contracts.servers import ServerPhase, ServerState
from agent_cli.contracts.timeline import Json
from agent_cli.mcp_client.config import ServerConfig, ServerProblem
from agent_cli.system.redaction import Redactor
from agent_cli.system.sanitize import reveal

if TYPE_CHECKING:
    from agent_cli.terminal.views import View

GOOD_PHASES = (ServerPhase.READY, ServerPhase.DISABLED)


def configured_view(servers: Sequence[ServerConfig | ServerProblem], redactor: Redactor) -> "View":
    """Return a view of the configured servers: address or command, and origin."""
    from agent_cli.terminal.views.table import (  # rich
        Column,
        RemarkedTable,
        Table,
    )

    columns = [Column("server"), Column("transport"), Column("command or URL"), Column("source")]
    empty = "no MCP servers; add one: agent-cli mcp add NAME COMMAND|URL"
    table = Table(columns, [_configured_cells(each, redactor) for each in servers], empty)
    return RemarkedTable(table, [[*map(reveal, _remarks(each))] for each in servers])


def configured_json(
    servers: Sequence[ServerConfig | ServerProblem], redactor: Redactor
) -> list[Json]:
    """Return the content of `configured_view` as JSON."""
    return [_configured_entry(each, redactor) for each in servers]


def configured_rows(each: ServerConfig | ServerProblem, redactor: Redactor) -> Iterator[str]:
    """Yield the rows that describe one server; values of variables and headers stay hidden."""
    name, transport, where, source = _configured_cells(each, redactor)
    yield name
    if isinstance(each, ServerConfig):
        state = "on" if each.enabled else "off"
        facts = {
            "transport": transport,
            "URL" if each.url else "command": where,
            "env": ", ".join(each.env),
            "headers": ", ".join(each.headers),
            "source": source,
            "switched": state,
        }
        yield from (f"  {key}: {text}" for key, text in facts.items() if text)
    else:
        yield f"  {each.reason}"


def tested_view(states: Sequence[ServerState]) -> "View":
    """Return a view of a test: each server's offer, or why it cannot be used."""
    from agent_cli.terminal.views.table import (  # rich
        Column,
        RemarkedTable,
        Table,
    )

    numbers = (Column("tools", right=True), Column("tokens", right=True))
    table = Table(
        [Column("server"), Column("state"), *numbers],
        [(reveal(each.name), each.phase, *_offer(each)) for each in states],
        empty="no MCP servers; add one: agent-cli mcp add NAME COMMAND|URL",
        styles=["" if each.phase in GOOD_PHASES else "red" for each in states],
    )
    return RemarkedTable(table, [[*map(reveal, _findings(each))] for each in states])


def tested_json(states: Sequence[ServerState]) -> list[Json]:
    """Return the content of `tested_view` as JSON."""
    return [
        {
            "name": state.name,
            "state": str(state.phase),
            "tools": state.tools,
            "tokens": state.tokens,
            "reason": state.reason,
            "notes": list[Json](state.notes),
            "stderr": list[Json](state.stderr),
        }
        for state in states
    ]


def _configured_cells(each: ServerConfig | ServerProblem, redactor: Redactor) -> tuple[str, ...]:
    if isinstance(each, ServerProblem):
        return (reveal(each.name), "", "", "")
    started = " ".join((each.command, *redactor.arguments(each.args)))
    where = redactor.text(each.url) if each.url else started
    return (reveal(each.name), each.transport, reveal(where), reveal(each.source))


def _remarks(each: ServerConfig | ServerProblem) -> Iterator[str]:
    if isinstance(each, ServerProblem):
        yield each.reason
    elif not each.enabled:
        yield "switched off"


def _configured_entry(each: ServerConfig | ServerProblem, redactor: Redactor) -> Json:
    if isinstance(each, ServerProblem):
        return {"name": each.name, "problem": each.reason}
    entry: dict[str, Json] = {
        "name": each.name,
        "transport": each.transport,
        "source": each.source,
        "enabled": each.enabled,
    }
    if each.url:
        return {**entry, "url": redactor.text(each.url)}
    return {**entry, "command": each.command, "args": list[Json](redactor.arguments(each.args))}


def _offer(state: ServerState) -> tuple[str, str]:
    if state.phase is not ServerPhase.READY:
        return ("", "")
    return (f"{state.tools:,}", f"{state.tokens:,}")


def _findings(state: ServerState) -> Iterator[str]:
    if state.reason:
        yield state.cause
    yield from (f"│ {line}" for line in state.unquoted)
    yield from state.notes
