"""/mcp: the MCP servers as a table, and what a person can do about one of them."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Final

from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.servers import ServerResource, ServerState
from agent_cli.repl.approval.changes import Row
from agent_cli.repl.approval.preview import write_rows
from agent_cli.repl.commands.spec import Command, Context
from agent_cli.repl.mcp.foreign_words import named
from agent_cli.repl.mcp.ports import ServersPort
from agent_cli.repl.mcp.sign_in import SignIn
from agent_cli.repl.ports import Application
from agent_cli.terminal.narration import one_line
from agent_cli.terminal.sanitize import reveal
from agent_cli.terminal.writer import Style

_COLUMNS: Final = 80
_READY: Final = "ready"
_HEAD: Final = ("server", "state", "tools", "prompts", "resources", "tokens")
_MORE: Final = """\
alone: a table of the servers, what they offer and what it costs in tokens
login, logout: sign in to a server of the web, or forget that
reconnect: close the connection and open it again
enable, disable: start or stop a server, from now on in this workspace
approve: see what changed in tools since you approved them, and use them again
resources: what can be named in a prompt as @server:address
doctor: what is wrong, and what to do"""
_DIFF_STYLES: Final[dict[str, Style]] = {"+": "added", "-": "removed", "@": "dim"}


def _mcp(context: Context, argument: str) -> Awaitable[None] | None:
    what, _, name = argument.partition(" ")
    name = name.strip()
    if what in _ABOUT_ONE:
        if not name:
            raise UsageError(f"/mcp {what} needs the name of a server: /mcp lists them")
        return _ABOUT_ONE[what](context, name)
    match what:
        case "":
            _table(context)
        case "resources":
            _resources(context, name)
        case "doctor":
            _doctor(context, name)
        case _:
            known = ", ".join(("resources", "doctor", *_ABOUT_ONE))
            raise UsageError(f"there is no /mcp {one_line(what)}; there are: {known}")
    return None


def _table(context: Context) -> None:
    servers = context.app.servers
    states = servers.states()
    if not states:
        context.writer.aside("no MCP servers; agent-cli mcp add, outside, adds one")
        return
    rows = [_HEAD, *(_cells(state, servers) for state in states)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = [_aligned(_HEAD, widths)]
    for state, cells in zip(states, rows[1:], strict=True):
        lines += [_aligned(cells, widths), *_remarks(state)]
    context.writer.aside("\n".join(lines))


def _cells(state: ServerState, servers: ServersPort) -> tuple[str, ...]:
    listed = (servers.prompts(), servers.resources())
    counts = [sum(each.server == state.name for each in offered) for offered in listed]
    shown = "needs a sign-in" if state.needs_sign_in else state.phase
    numbers = (state.tools, *counts, state.tokens)
    return (reveal(state.name), shown, *(f"{number:,}" if number else "-" for number in numbers))


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Return a row of the table: words begin, numbers end, at their column."""
    padded = [
        cell.ljust(width) if column < 2 else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return "  ".join(padded).rstrip()


def _remarks(state: ServerState) -> Iterator[str]:
    """Yield what there is to say about a server, and what to do about it."""
    name = reveal(state.name)
    remarks = []
    if state.needs_sign_in:
        remarks.append(f"/mcp login {name} signs in")
    elif state.reason:
        remarks.append(reveal(state.reason.removeprefix(f"MCP server '{state.name}' ")))
    if state.changed:
        tools = reveal(", ".join(state.changed))
        remarks.append(f"changed and not used: {tools}; /mcp approve {name} shows what changed")
    remarks += [reveal(note) for note in state.notes if not _is_about_change(note, state)]
    for remark in remarks:
        yield from wrap(remark, _COLUMNS, initial_indent="  ", subsequent_indent="    ")


def _is_about_change(note: str, state: ServerState) -> bool:
    return any(note.startswith(f"tool {tool} is withheld") for tool in state.changed)


def _resources(context: Context, name: str) -> None:
    if name:
        _state_of(context, name)
    found = [each for each in context.app.servers.resources() if name in ("", each.server)]
    lines = [f"{reference(each)}  {_described(each)}".rstrip() for each in found]
    context.writer.aside("\n".join(lines) or "no resources")


def reference(resource: ServerResource) -> str:
    """Return what is typed in a prompt to send a resource with it."""
    return reveal(f"@{resource.server}:{resource.uri}")


def _described(resource: ServerResource) -> str:
    said = ": ".join(dict.fromkeys(part for part in (resource.name, resource.description) if part))
    kind = f" ({resource.media_type})" if resource.media_type else ""
    return one_line(reveal(f"{said}{kind}"))


def _doctor(context: Context, name: str) -> None:
    """Say of each server what is wrong and what to do."""
    states = [_state_of(context, name)] if name else context.app.servers.states()
    lines: list[str] = []
    for state in states:
        fine = state.phase == _READY and not state.changed
        lines += [f"{reveal(state.name)}: {'in order' if fine else state.phase}", *_remarks(state)]
        if fine and state.last_end:
            lines.append(f"  it ended and was started again: {reveal(state.last_end)}")
        lines += [f"  │ {reveal(line)}" for line in state.unquoted]
        if state.phase in ("failed", "lost", "closed") and not state.needs_sign_in:
            lines.append(f"  /mcp reconnect {reveal(state.name)} tries again")
    tried = reveal(name or "NAME")
    lines.append(f"agent-cli mcp test {tried}, in a shell, starts it alone and says what it offers")
    context.writer.aside("\n".join(lines))


async def _login(context: Context, name: str) -> None:
    _state_of(context, name)
    if not context.questions.can_ask:
        raise UsageError("a sign-in needs somebody at the terminal")
    sign_in = SignIn(context, name)
    try:
        state = await context.app.servers.login(name, sign_in.visit)
    finally:
        # Whoever stops the command does not stop the connection, which would go on asking.
        sign_in.give_up()
    context.writer.aside(_outcome(state))


async def _logout(context: Context, name: str) -> None:
    known = await context.app.servers.logout(name)
    what = "signed out" if known else "there was no sign-in to forget"
    context.writer.aside(f"{named(name)}: {what}")


async def _enable(context: Context, name: str) -> None:
    context.writer.aside(_outcome(await context.app.servers.enable(name)))


async def _disable(context: Context, name: str) -> None:
    await context.app.servers.disable(name)
    context.writer.aside(
        f"{named(name)} is off in this workspace; /mcp enable {reveal(name)} starts it"
    )


async def _reconnect(context: Context, name: str) -> None:
    state = await context.app.servers.reconnect(name)
    context.writer.aside(_outcome(state))


async def _approve(context: Context, name: str) -> None:
    """Show what changed and ask; what changes meanwhile is shown before it counts."""
    servers = context.app.servers
    _state_of(context, name)
    shown: Mapping[str, str] = {}
    while (changes := servers.changes().get(name, {})) != shown or not shown:
        if not changes:
            raise UsageError(f"nothing of {named(name)} changed since you approved it")
        shown = changes
        write_rows([row for tool in changes for row in _diff(tool, changes[tool])], context.writer)
        if not context.questions.can_ask:
            raise UsageError("an approval needs somebody at the terminal")
        if not await _agreed(context):
            context.writer.aside("they stay left out", "dim")
            return
    await servers.approve_changes(name)
    context.writer.aside(f"approved: {reveal(', '.join(shown))}; offered from the next run on")


def _diff(tool: str, difference: str) -> Iterator[Row]:
    yield Row(f"{reveal(tool)} changed since you approved it:")
    for line in reveal(difference).splitlines():
        yield Row(f"  {line}", _DIFF_STYLES.get(line[:1], "plain"))


async def _agreed(context: Context) -> bool:
    context.writer.aside("y = use it as it is now · n = leave it out")
    try:
        return await context.questions.choose_key("approve? (y/n) ", "yn") == "y"
    except (KeyboardInterrupt, EOFError):
        return False


def _outcome(state: ServerState) -> str:
    """Return what became of a server; why it failed is told by whoever watches them all."""
    if state.phase != _READY:
        return f"{named(state.name)} is not connected"
    return f"{named(state.name)} is ready: {state.offer}"


def _state_of(context: Context, name: str) -> ServerState:
    states = context.app.servers.states()
    found = next((state for state in states if state.name == name), None)
    if found is None:
        known = ", ".join(reveal(state.name) for state in states)
        there = f"there are: {known}" if known else "there is none"
        raise UsageError(f"there is no MCP server {one_line(name)}; {there}")
    return found


def _choices(app: Application) -> Mapping[str, str]:
    """Return what fits behind /mcp: what is there to be done first, the rest after it."""
    states = app.servers.states()
    names = [state.name for state in states]
    choices = [
        *(f"login {state.name}" for state in states if state.needs_sign_in),
        *(f"approve {state.name}" for state in states if state.changed),
        "resources",
        "doctor",
        *(f"enable {state.name}" for state in states if state.phase == "disabled"),
        *(
            f"{what} {name}"
            for what in ("reconnect", "disable", "login", "logout")
            for name in names
        ),
    ]
    return dict.fromkeys(choices, "")


_ABOUT_ONE: Final[dict[str, Callable[[Context, str], Awaitable[None]]]] = {
    "login": _login,
    "logout": _logout,
    "reconnect": _reconnect,
    "enable": _enable,
    "disable": _disable,
    "approve": _approve,
}
MCP_COMMAND: Final = Command(
    "mcp",
    "show the MCP servers, or do something about one",
    _mcp,
    "[what] [server]",
    choices=_choices,
    more=_MORE,
)
