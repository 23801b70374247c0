"""`agent-cli mcp add|add-json|list|get|remove|enable|disable|test|import`: configure servers."""

import argparse
import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from getpass import getpass
from pathlib import Path
from typing import Final, cast

from agent_cli.app.mcp import switches
from agent_cli.cli.mcp import CommandContext
from agent_cli.cli.mcp.reports import (
    configured_json,
    configured_rows,
    configured_view,
)
from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.timeline import Json
from agent_cli.mcp_client.config import ServerConfig, ServerProblem
from agent_cli.mcp_client.entries import server_config
from agent_cli.mcp_client.foreign import PROGRAMS, entry_in, foreign_files, read_foreign
from agent_cli.mcp_client.user_servers import Scope, UserServers, project_file
from agent_cli.system.json_text import load_commented
from agent_cli.system.redaction import Redactor
from agent_cli.trust.store import TrustStore, fingerprint

_SCOPES: Final[tuple[Scope, ...]] = ("local", "project", "user")
_ENV: Final = ("-e", "--env")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=")
_BUNDLES: Final = (".mcpb", ".dxt")
_SECRET: Final = "MCP_CLIENT_SECRET"
_SCOPE_HELP: Final = "local: yours, here; project: .mcp.json; user: yours, everywhere (default)"
_NAME_CHARACTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")


def separated(words: Sequence[str]) -> list[str]:
    """Return *words* with "--" before the command of `add`, so that it keeps its options.

    Codex writes `--url` before an address, which needs no option here. Claude Code takes several
    values behind one `--env`.

    Raises:
        UsageError: What follows `--url` is no address.
    """
    found, named, at = [*words], False, 1 if words[0] == "add" else len(words)
    while at < len(found):
        word = found[at]
        if word == "--" or (named and "://" in word and not word.startswith("-")):
            break
        if named and (option := word.partition("="))[0] == "--url":
            if "://" not in (url := option[2] or "".join(found[at + 1 : at + 2])):
                raise UsageError(f"--url {url!r} is no address: begin it with https:// or http://")
            return [*found[:at], *filter(None, option[2:]), *found[at + 1 :]]
        if word.startswith("-"):
            flag, joined, _ = word.partition("=")
            if not joined and word != "--client-secret":
                at += 1  # its value
            if flag in _ENV and any(map(_ASSIGNMENT.match, found[at + 1 : at + 2])):
                found.insert(at + 1, flag)
        elif named:
            return [*found[:at], "--", *found[at:]]
        else:
            named = True
        at += 1
    return found


def add_server(parsed: argparse.Namespace, context: CommandContext) -> int:
    """Add a server to the file of its scope."""
    _check_name(parsed.name)
    target, *arguments = parsed.target
    entry: dict[str, Json]
    if "://" in target:
        _check_address(parsed.name, target)
        if arguments or parsed.env or parsed.transport == "stdio":
            raise UsageError(
                "an address takes no arguments and no --env, and is not stdio; it takes --header"
            )
        entry = {"type": parsed.transport or "http", "url": target}
        headers = dict(_pair(each, ":", "--header") for each in parsed.header)
        if parsed.bearer_token_env_var:
            headers["Authorization"] = f"Bearer ${{{parsed.bearer_token_env_var}}}"
        if headers:
            entry["headers"] = dict[str, Json](headers)
        if oauth := _oauth(parsed, context):
            entry["oauth"] = oauth
    else:
        if parsed.client_id or parsed.client_secret or parsed.callback_port:
            raise UsageError("--client-id, --client-secret and --callback-port are for an address")
        if target.lower().endswith(_BUNDLES):
            raise UsageError(
                f"{target} is a bundle for Claude Desktop: unpack it (unzip), and add the command"
                " in its manifest.json"
            )
        if parsed.header or parsed.bearer_token_env_var or parsed.transport not in (None, "stdio"):
            raise UsageError("--header and --transport are for an address; a program takes --env")
        entry = {"command": target, "args": list[Json](arguments)}
        if parsed.env:
            entry["env"] = dict(_pair(each, "=", "--env") for each in parsed.env)
    return _add(parsed, entry, context)


def _check_address(name: str, url: str) -> None:
    scheme = url.partition("://")[0].lower()
    if scheme not in ("http", "https") and "$" not in scheme:
        usable = server_config(name, {"type": "http", "url": url}, {})
        begin = f"{scheme}://... is not the address of a server: begin it with https:// or http://"
        raise UsageError(usable.reason if isinstance(usable, ServerProblem) else begin)


def _oauth(parsed: argparse.Namespace, context: CommandContext) -> dict[str, Json]:
    """Return the sign-in as a client that the server's owner has registered.

    Raises:
        UsageError: There is a secret without an id, or it would be written for others to read.
    """
    entry: dict[str, Json] = {}
    if parsed.client_id:
        entry["clientId"] = parsed.client_id
    if parsed.client_secret:
        if not parsed.client_id:
            raise UsageError("--client-secret belongs to a --client-id")
        if parsed.scope == "project":
            raise UsageError(
                "a project's .mcp.json is no place for a secret: use --scope local, or write"
                ' "clientSecret": "${NAME}" into it'
            )
        # Not as an argument: those stand in the shell's history and the list of processes.
        try:
            secret = context.environment.get(_SECRET) or getpass("client secret: ")
        except EOFError:
            secret = ""
        if not secret.strip():
            raise UsageError(f"the client secret is empty: type it, or set {_SECRET}")
        entry["clientSecret"] = secret.strip()
    if parsed.callback_port:
        entry["callbackPort"] = parsed.callback_port
    return entry


def add_json(parsed: argparse.Namespace, context: CommandContext) -> int:
    """Add a server to the file of its scope, from an entry as it stands in `.mcp.json`."""
    _check_name(parsed.name)
    try:
        entry = entry_in(load_commented(parsed.json), parsed.name)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the entry of {parsed.name} is not JSON ({error})") from error
    if entry is None:
        raise UsageError(f"the entry of {parsed.name} must be an object, {{...}}")
    usable = server_config(parsed.name, entry, context.environment)
    if isinstance(usable, ServerProblem):
        raise UsageError(usable.reason)
    return _add(parsed, entry, context)


def _check_name(name: str) -> None:
    if not _NAME_CHARACTERS.issuperset(name):
        raise UsageError(f"{name!r} is not a valid server name: use letters, digits, _ and -")


def _add(parsed: argparse.Namespace, entry: Mapping[str, Json], context: CommandContext) -> int:
    name, scope = parsed.name, cast("Scope", parsed.scope or "user")  # argparse checked
    servers = UserServers.of_scope(scope, context.workspace)
    with _keeping_trust(servers, context) as notes:
        if servers.add({name: entry}):
            raise UsageError(f"{servers.path} has a server {name!r} already; remove it first")
    if isinstance(usable := server_config(name, entry, context.environment), ServerConfig):
        notes += usable.missing(context.environment, context.workspace)
    if switches().of(context.workspace).get(name) is False:
        notes.append(f"{name} was switched off in this folder: agent-cli mcp enable {name}")
    context.say(f"{name} is added to {servers.path}; try it: agent-cli mcp test {name}", *notes)
    return 0


def remove_server(parsed: argparse.Namespace, context: CommandContext) -> int:
    """Delete a server from the file of its scope, or from the only file that has it."""
    scopes = (cast("Scope", parsed.scope),) if parsed.scope else _SCOPES
    files = [UserServers.of_scope(scope, context.workspace) for scope in scopes]
    having = [each for each in files if parsed.name in each.names()]
    if len(having) > 1:
        named_files = ", ".join(str(each.path) for each in having)
        raise UsageError(
            f"{parsed.name} stands in several files, say which with --scope: {named_files}"
        )
    servers = having[0] if having else files[-1]
    if not having and not parsed.scope:
        context.refuse_elsewhere(parsed.name)
    with _keeping_trust(servers, context) as notes:
        servers.remove(parsed.name)
    context.say(f"{parsed.name} is removed from {servers.path}", *notes)
    return 0


@contextmanager
def _keeping_trust(servers: UserServers, context: CommandContext) -> Generator[list[str]]:
    """Let the user's own change of a project's file be no reason to ask for trust again.

    Only in a folder that was trusted as it stood, and only if nothing else changed meanwhile. The
    list that is yielded has sentences for the user afterwards.
    """
    notes: list[str] = []
    if servers.path != project_file(context.workspace):
        yield notes
        return
    store, name = TrustStore.of_user(), servers.path.name
    was_trusted, before = store.is_trusted(context.workspace), fingerprint(context.workspace)
    yield notes
    after = fingerprint(context.workspace)
    others = [[part for part in each if part.file != name] for each in (before, after)]
    if was_trusted and others[0] == others[1]:
        store.trust(context.workspace, after)
    else:
        notes.append(f"{name} counts once you trust this folder: agent-cli trust")


def list_servers(parsed: argparse.Namespace, context: CommandContext) -> int:
    """Show the configured servers in order of precedence, with the origin of each."""
    servers = context.configured()
    redactor = Redactor.of(context.environment)
    if parsed.json:
        context.print_json(configured_json(servers, redactor))
    else:
        context.show(configured_view(servers, redactor))
    return 0


def show_server(parsed: argparse.Namespace, context: CommandContext) -> int:
    """Show one configured server, without the values of its variables and headers."""
    found = context.server_entry(parsed.name)
    redactor = Redactor.of(context.environment)
    if parsed.json:
        context.print_json(configured_json([found], redactor)[0])
    else:
        for row in configured_rows(found, redactor):
            context.say(row)
    return 0


def switch_server(parsed: argparse.Namespace, context: CommandContext) -> int:
    """Switch a server on or off in this workspace, as `/mcp enable|disable` does."""
    server = context.server_entry(parsed.name)
    if parsed.on:
        problem = server.reason if isinstance(server, ServerProblem) else server.problem
        if problem:
            raise UsageError(problem)
    switches().switch(context.workspace, parsed.name, on=parsed.on)
    state = "on" if parsed.on else "off"
    context.say(f"{parsed.name} is switched {state} in {context.workspace}, from the next start on")
    return 0


def import_servers(parsed: argparse.Namespace, context: CommandContext) -> int:
    """Copy the servers of other programs into the user's files; existing names are kept."""
    if parsed.file and not Path(parsed.file).is_file():
        raise UsageError(f"{parsed.file} does not exist or is not a file; give another with --file")
    files = [Path(parsed.file)] if parsed.file else _files(parsed.program, context)
    user = UserServers.of_scope("user", context.workspace)
    local = UserServers.of_scope("local", context.workspace)
    new: dict[UserServers, dict[str, Mapping[str, Json]]] = {user: {}, local: {}}
    failed = False
    for path in files:
        found = read_foreign(path, workspace=context.workspace)
        failed = failed or bool(found.problems)
        for problem in found.problems:
            context.say(problem)
        for servers, entries in ((user, found.entries), (local, found.local)):
            usable = _usable(entries, {*servers.names(), *new[servers]}, parsed, context, str(path))
            new[servers] |= {name: entry for name, entry in usable.items() if entry}
            failed = failed or not all(usable.values())
    for servers, chosen in new.items():
        if servers is local and not chosen:
            continue
        here = " for this folder alone" if servers is local else ""
        if not parsed.dry_run:
            servers.add(chosen)
        done = "to import" if parsed.dry_run else f"imported to {servers.path}"
        context.say(f"{len(chosen)} {done}{here}")
    # The user named this file, so report every server in it.
    return 1 if parsed.file and failed else 0


def _usable(
    entries: Mapping[str, Mapping[str, Json]],
    known: set[str],
    parsed: argparse.Namespace,
    context: CommandContext,
    where: str,
) -> dict[str, Mapping[str, Json]]:
    """Return the *entries* that are not *known*; empty if an entry cannot be used."""
    found: dict[str, Mapping[str, Json]] = {}
    for name, entry in entries.items():
        if name in known:
            context.say(f"{name} stays as it is ({where})")
        elif isinstance(usable := server_config(name, entry, context.environment), ServerProblem):
            context.say(f"{name} is left out ({where}): {usable.reason}")
            found[name] = {}
        else:
            context.say(f"{name} {'would be' if parsed.dry_run else 'is'} imported ({where})")
            found[name] = entry
    return found


def _pair(text: str, separator: str, option: str) -> tuple[str, str]:
    name, found, value = text.partition(separator)
    if not found or not name.strip():
        raise UsageError(f"{option} {text!r}: write NAME{separator}VALUE")
    return name.strip(), value.strip()


def _files(program: str | None, context: CommandContext) -> Iterator[Path]:
    home = Path(context.environment.get("HOME") or Path.home())
    for each in (program,) if program else PROGRAMS:
        for path in foreign_files(
            each, home=home, workspace=context.workspace, environment=context.environment
        ):
            if not path.is_file():
                continue
            if context.is_strangers(path):
                # An imported server runs in every directory from then on.
                context.say(f"{path} is left out: this workspace is not trusted; --file takes it")
            else:
                yield path


def arguments(add_parser: Callable[..., argparse.ArgumentParser]) -> None:
    """Declare the commands of this module; *add_parser* makes the parser of one by its name."""
    add = add_parser("add", help="add a server")
    add.add_argument("name")
    add.add_argument("target", nargs="+", metavar="COMMAND [ARG ...] | URL")
    kinds = ("http", "sse", "stdio")
    add.add_argument("-t", "--transport", choices=kinds, help="for a URL; http by default")
    add.add_argument("-e", "--env", action="append", default=[], metavar="NAME=VALUE")
    add.add_argument("-H", "--header", action="append", default=[], metavar="NAME:VALUE")
    token = "the variable with a token, which a header of the address sends"
    add.add_argument("--bearer-token-env-var", default="", metavar="NAME", help=token)
    add.add_argument("--client-id", default="", help="of a client registered at the server")
    secret = f"ask for its secret, or take it from {_SECRET}"
    add.add_argument("--client-secret", action="store_true", help=secret)
    add.add_argument("--callback-port", type=int, default=0, metavar="PORT")
    add.set_defaults(do=add_server)
    entry = add_parser("add-json", help="add a server, as its entry in .mcp.json")
    entry.add_argument("name")
    entry.add_argument("json", metavar="JSON")
    entry.set_defaults(do=add_json)
    for each in (add, entry):
        each.add_argument("-s", "--scope", choices=_SCOPES, help=_SCOPE_HELP)
    get = add_parser("get", help="one server, and where it was found")
    get.add_argument("name")
    get.add_argument("--json", action="store_true", help="for scripts")
    get.set_defaults(do=show_server)
    for word, on in (("enable", True), ("disable", False)):
        switch = add_parser(word, help=f"switch a server {'on' if on else 'off'} in this workspace")
        switch.add_argument("name")
        switch.set_defaults(do=switch_server, on=on)
    listing = add_parser("list", help="all servers, and where each was found")
    listing.add_argument("--json", action="store_true", help="for scripts")
    listing.set_defaults(do=list_servers)
    remove = add_parser("remove", help="remove a server")
    remove.add_argument("name")
    remove.add_argument("-s", "--scope", choices=_SCOPES, help=_SCOPE_HELP)
    remove.set_defaults(do=remove_server)
    bring = add_parser("import", help="take over the servers of other programs")
    bring.add_argument("program", nargs="?", choices=PROGRAMS)
    bring.add_argument("--file", help="a file of any of them")
    bring.add_argument("--dry-run", action="store_true", help="only say what would be imported")
    bring.set_defaults(do=import_servers)
