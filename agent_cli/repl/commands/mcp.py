"""`/mcp`: show the MCP servers as a table, manage each server, and sign in to it."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs, urlsplit

from agent_cli.contracts.agents import AgentServer
from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.servers import ServerResource, ServerState
from agent_cli.contracts.wording import one_line
from agent_cli.repl.approval.preview import Row, write_rows
from agent_cli.repl.commands import Command, Context, show
from agent_cli.repl.mcp import ServersPort, named, page_rows, web_host
from agent_cli.repl.ports import Application
from agent_cli.system.desktop import open_page
from agent_cli.system.sanitize import reveal
from agent_cli.terminal.writer import Style

if TYPE_CHECKING:
    from agent_cli.terminal.views.table import Tree

_READY: Final = "ready"
_COUNTS: Final = ("tools", "prompts", "resources", "tokens")
_MORE: Final = """\
alone: a table of the servers, what they offer and what it costs in tokens
login, logout: sign in to a server at a URL, or forget that
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
            if context.app.ignored:
                context.writer.aside(reveal(context.app.ignored))
        case "resources":
            _resources(context, name)
        case "doctor":
            _doctor(context, name)
        case _:
            known = ", ".join(("resources", "doctor", *_ABOUT_ONE))
            raise UsageError(f"there is no /mcp {one_line(what)}; there are: {known}")
    return None


def _table(context: Context) -> None:
    from agent_cli.terminal.views.table import (  # rich
        Column,
        RemarkedTable,
        Table,
    )

    servers = context.app.servers
    states, of_agents = servers.states(), context.app.agents.servers()
    counts = (Column(title, right=True) for title in _COUNTS)
    table = Table(
        [Column("server"), Column("state"), *counts],
        [*(_cells(state, servers) for state in states), *map(_cells_of_agent, of_agents)],
        empty="no MCP servers; agent-cli mcp add, in a shell, adds one",
    )
    remarks = [[*_remarks(state)] for state in states]
    show(context, RemarkedTable(table, remarks + [_remarks_of_agent(each) for each in of_agents]))


def _cells(state: ServerState, servers: ServersPort) -> tuple[str, ...]:
    listed = (servers.prompts(), servers.resources())
    counts = [sum(each.server == state.name for each in offered) for offered in listed]
    shown = "needs a sign-in" if state.needs_sign_in else state.phase
    numbers = (state.tools, *counts, state.tokens)
    return (reveal(state.name), shown, *(f"{number:,}" if number else "-" for number in numbers))


def _cells_of_agent(server: AgentServer) -> tuple[str, ...]:
    """Return the row of a server that one agent has alone, and only for its tools."""
    title, state = reveal(server.title), server.state
    if state is None:
        return (title, "starts with it", *("-" for _count in _COUNTS))
    tools, tokens = (f"{number:,}" if number else "-" for number in (state.tools, state.tokens))
    return (title, state.phase, tools, "-", "-", tokens)


def _remarks_of_agent(server: AgentServer) -> list[str]:
    state = server.state
    remarks = (state.cause, *state.notes) if state else ()
    return [reveal(each) for each in remarks if each]


def _remarks(state: ServerState) -> Iterator[str]:
    """Yield the faults of a server, each with the command that fixes it."""
    name = reveal(state.name)
    if state.needs_sign_in:
        yield f"/mcp login {name} signs in"
    elif state.reason:
        yield reveal(state.cause)
    if state.changed:
        tools = reveal(", ".join(state.changed))
        yield f"changed and not used: {tools}; /mcp approve {name} shows what changed"
    yield from (reveal(note) for note in state.notes if not _is_about_change(note, state))


def _is_about_change(note: str, state: ServerState) -> bool:
    return any(note.startswith(f"tool {tool} is withheld") for tool in state.changed)


def _resources(context: Context, name: str) -> None:
    if name:
        _state_of(context, name)
    from agent_cli.terminal.views.table import Column, Table  # rich

    found = [each for each in context.app.servers.resources() if name in ("", each.server)]
    rows = [(reference(each), _described(each)) for each in found]
    show(context, Table([Column("resource"), Column("content")], rows, empty="no resources"))


def reference(resource: ServerResource) -> str:
    """Return the reference by which a prompt includes a resource."""
    return reveal(f"@{resource.server}:{resource.uri}")


def _described(resource: ServerResource) -> str:
    text = ": ".join(dict.fromkeys(part for part in (resource.name, resource.description) if part))
    kind = f" ({resource.media_type})" if resource.media_type else ""
    return one_line(reveal(f"{text}{kind}"))


def _doctor(context: Context, name: str) -> None:
    """Show the faults of each server and the commands that fix them."""
    from agent_cli.terminal.views.table import Note, Stack  # rich

    states = [_state_of(context, name)] if name else context.app.servers.states()
    tried = reveal(name or "NAME")
    note = f"agent-cli mcp test {tried}, in a shell, starts it alone and says what it offers"
    show(context, Stack([*map(_diagnosis, states), Note(note)]))


def _diagnosis(state: ServerState) -> "Tree":
    from agent_cli.terminal.views.table import Tree  # rich

    fine = state.phase == _READY and not (state.changed or state.reason)
    found = [*_remarks(state)]
    if fine and state.last_end:
        found.append(f"it ended and was started again: {reveal(state.last_end)}")
    found += [f"│ {reveal(line)}" for line in state.unquoted]
    if state.phase in ("failed", "lost", "closed") and not state.needs_sign_in:
        found.append(f"/mcp reconnect {reveal(state.name)} tries again")
    return Tree(f"{reveal(state.name)}: {'in order' if fine else state.phase}", [*map(Tree, found)])


async def _login(context: Context, name: str) -> None:
    _state_of(context, name)
    if not context.questions.can_ask:
        raise UsageError("a sign-in needs an interactive terminal")
    sign_in = SignIn(context, name)
    try:
        state = await context.app.servers.login(name, sign_in.visit)
    finally:
        # Cancelling the command does not cancel the connection, which would keep asking.
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
    """Show the changes and ask; changes made meanwhile are shown before they are approved."""
    servers = context.app.servers
    _state_of(context, name)
    shown: Mapping[str, str] = {}
    while (changes := servers.changes().get(name, {})) != shown or not shown:
        if not changes:
            raise UsageError(f"nothing of {named(name)} changed since you approved it")
        shown = changes
        write_rows([row for tool in changes for row in _diff(tool, changes[tool])], context.writer)
        if not context.questions.can_ask:
            raise UsageError("an approval needs an interactive terminal")
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
    """Return the outcome for a server; the reason of a failure is reported elsewhere."""
    if state.phase != _READY:
        again = f"/mcp reconnect {reveal(state.name)} tries again"
        return f"{named(state.name)} is not connected; {again}"
    return f"{named(state.name)} is ready: {state.offer}"


def _state_of(context: Context, name: str) -> ServerState:
    states = context.app.servers.states()
    found = next((state for state in states if state.name == name), None)
    if found is None:
        known = ", ".join(reveal(state.name) for state in states)
        there = f"; there are: {known}" if known else ": none is set up"
        raise UsageError(f"there is no MCP server {one_line(name)}{there}")
    return found


def _choices(app: Application) -> Mapping[str, str]:
    """Return the completions of /mcp: pending actions first, then the rest."""
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

_GAVE_UP: Final = "you gave up"


class SignIn:
    """Shows the sign-in page of one server, and waits until the user is back or gives up."""

    def __init__(self, context: Context, server: str) -> None:
        self._context = context
        self._server = server
        self._given_up = asyncio.Event()

    def give_up(self) -> None:
        """Stop asking, because the sign-in was abandoned."""
        self._given_up.set()

    async def visit(self, url: str) -> str | None:
        """Show *url* and return the pasted URL; a `Visit`.

        Raises:
            UsageError: The user gave up; possibly inside an exception group.
        """
        if not web_host(url):
            raise UsageError(f"{named(self._server)} names a sign-in page that is not a web page")
        rows = [
            f"sign in to {named(self._server)} on this page:",
            *page_rows(url),
            "It should open in your browser, and this goes on when you are done there. With the",
            "browser on another computer: paste the address it ends at, even if nothing loads.",
        ]
        self._context.writer.aside("\n".join(rows))
        await open_page(url)
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(self._watch())
            address = await _pasted(self._context)
            watching.cancel()
        return address

    async def _watch(self) -> None:
        await self._given_up.wait()
        raise UsageError(_GAVE_UP)


async def _pasted(context: Context) -> str:
    """Return the pasted URL; cancelled when the browser returns by itself.

    Raises:
        UsageError: They gave up.
    """
    try:
        address = await context.questions.choose("address (Ctrl-C: give up): ", "")
        while not _is_way_back(address):
            context.writer.aside("that address brings nothing back: it has code= or error= in it")
            address = await context.questions.choose_next("address (Ctrl-C: give up): ", "")
    except (KeyboardInterrupt, EOFError):
        raise UsageError(_GAVE_UP) from None
    return address.strip()


def _is_way_back(address: str) -> bool:
    try:
        return not parse_qs(urlsplit(address.strip()).query).keys().isdisjoint({"code", "error"})
    except ValueError:
        return False
