"""`agent-cli mcp ...`: parse the words and run the command."""

import argparse
import asyncio
import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

from agent_cli.app.checks.outside import connected
from agent_cli.cli.mcp import CommandContext, CommandParser, configuring
from agent_cli.cli.mcp.exercise import (
    Agree,
    Answers,
    Exercise,
    ExerciseReport,
    answer_with,
    exercise,
)
from agent_cli.cli.mcp.reports import GOOD_PHASES, tested_json, tested_view
from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.servers import ServerPhase, ServerState
from agent_cli.contracts.timeline import Json
from agent_cli.mcp_client.browsers import (
    command_browser,
    pasting_browser,
    request_browser,
    system_browser,
)
from agent_cli.mcp_client.config import Grant, OAuth, Protocol, ServerConfig
from agent_cli.mcp_client.credentials import MemoryCredentials
from agent_cli.mcp_client.entries import read_key
from agent_cli.mcp_client.host import Host, Visit
from agent_cli.mcp_client.limits import NO_RESTARTS
from agent_cli.mcp_client.pool import McpServers
from agent_cli.system.event_loop import run_loop
from agent_cli.system.sanitize import reveal
from agent_cli.system.shapes import is_object


def run(words: Sequence[str], context: CommandContext) -> int:
    """Run the command in *words* and return the exit code.

    Raises:
        AgentCliError: The command failed.
    """
    parsed = _parser().parse_args(configuring.separated(words))
    do = cast("Callable[[argparse.Namespace, CommandContext], int]", parsed.do)  # set below
    return do(parsed, context)


def _parser() -> CommandParser:
    parser = CommandParser(prog="agent-cli mcp", allow_abbrev=False)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_exercise(commands.add_parser("exercise", help="use a server without a model"))
    configuring.arguments(commands.add_parser)
    arguments(commands.add_parser)
    # Only for --help: `serve` reads its words itself, without what this module imports.
    commands.add_parser("serve", help="be an MCP server for other agents")
    return parser


def _add_exercise(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("server", metavar="URL|NAME")
    add("--protocol", choices=("auto", "legacy"), help="how to agree on a revision")
    add("--call", action="append", default=[], metavar="NAME=JSON", help="repeatable")
    add("--call-all", action="store_true", help="every tool that says it only reads")
    add("--destructive", action="store_true", help="with --call-all: the others too, after a yes")
    add("--yes", action="store_true", help="with --destructive: do not ask")
    add("--elicit", choices=("accept-defaults", "decline"), default="decline")
    add("--oauth-browser", metavar="CMD|http", help="http: request the page, for tests")
    add("--client-id", default="")
    add("--client-secret", default="")
    add("--client-key", default="", metavar="PEM", help="a file with a private key")
    add("--client-metadata-url", default="", metavar="URL")
    add("--assertion-file", default="", metavar="FILE", help="a token of this workload")
    add("--id-token-file", default="", metavar="FILE", help="the user's identity token")
    add("--idp-token-endpoint", default="", metavar="URL", help="who exchanges it")
    add("--idp-client-id", default="")
    add("--json", action="store_true", help="for scripts")
    add("--timeout", type=_seconds, default=60.0, metavar="S", help="for everything")
    parser.set_defaults(do=_exercise)


def _exercise(parsed: argparse.Namespace, context: CommandContext) -> int:
    config = _server(parsed.server, context)
    if parsed.protocol:
        config = replace(config, protocol=cast("Protocol", parsed.protocol))  # argparse checked
    if parsed.client_id or parsed.client_metadata_url:
        config = replace(config, oauth=_oauth(parsed))
    host = Host(
        elicit=answer_with(cast("Answers", parsed.elicit)),  # argparse checked
        visit=_visit(parsed.oauth_browser, context.tell),
        roots=lambda: [context.workspace],
    )
    if config.source == "":
        # A test run of a server leaves no files behind.
        host = replace(host, credentials=MemoryCredentials())
    plan = Exercise(
        calls=tuple(_call(each) for each in parsed.call),
        call_all=parsed.call_all or parsed.destructive,
        destructive=parsed.destructive,
        timeout_s=parsed.timeout,
    )
    agree = _always if parsed.yes else _asking(context.tell)
    report = ExerciseReport(context, as_json=parsed.json)
    survived = run_loop(_exercised(config, plan, host, report, agree))
    report.finish(survived=survived)
    return 0 if survived else 1


async def _exercised(
    config: ServerConfig, plan: Exercise, host: Host, report: ExerciseReport, agree: Agree
) -> bool:
    config = replace(config, startup_timeout_s=min(config.startup_timeout_s, plan.timeout_s))
    environment = report.context.environment
    async with McpServers(environment, host=host, restarts=NO_RESTARTS) as servers:
        return await exercise(servers, config, plan, report, agree)


async def _always(_question: str) -> bool:
    return True


def _asking(tell: Callable[[str], None]) -> Agree:
    """Return a function that asks the user; without a terminal the answer is no."""

    async def agree(question: str) -> bool:
        tell(question)
        if not sys.stdin.isatty():
            tell("  they are not called: there is no terminal to ask on; --yes answers for you")
            return False
        tell("  Call them with made-up arguments? (y/N)")
        answer = await asyncio.to_thread(sys.stdin.readline)
        return answer.strip().lower() in ("y", "yes")

    return agree


def _server(named: str, context: CommandContext) -> ServerConfig:
    """Return the configured server of that name, even if switched off, or one for the URL."""
    if "://" in named:
        return ServerConfig(name=urlsplit(named).hostname or "web", transport="http", url=named)
    return replace(context.server(named), enabled=True)


def _oauth(parsed: argparse.Namespace) -> OAuth:
    # Without a browser no user can sign in, so the program uses its own credentials.
    grant: Grant = "browser"
    if parsed.assertion_file:
        grant = "jwt_bearer"
    elif parsed.id_token_file:
        grant = "token_exchange"
    elif not parsed.oauth_browser and (parsed.client_secret or parsed.client_key):
        grant = "client_credentials"
    return OAuth(
        grant=grant,
        client_id=parsed.client_id,
        client_secret=parsed.client_secret,
        client_key=read_key(Path(parsed.client_key)) if parsed.client_key else "",
        client_metadata_url=parsed.client_metadata_url,
        assertion_file=parsed.assertion_file,
        id_token_file=parsed.id_token_file,
        idp_token_endpoint=parsed.idp_token_endpoint,
        idp_client_id=parsed.idp_client_id,
    )


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return seconds


def _visit(browser: str | None, tell: Callable[[str], None]) -> Visit:
    if browser is None:
        return system_browser(tell)
    return request_browser() if browser == "http" else command_browser(browser)


def _call(text: str) -> tuple[str, Mapping[str, Json]]:
    name, _, written = text.partition("=")
    try:
        arguments = json.loads(written or "{}")
    except ValueError as error:
        raise UsageError(f"--call {name}: its arguments are not JSON ({error})") from error
    if not is_object(arguments):
        raise UsageError(f"--call {name}: its arguments are an object, {{...}}")
    return name, arguments


# `agent-cli mcp test|approve|login|logout`: connect, and a user's decisions about a server.


def check_servers(parsed: argparse.Namespace, context: CommandContext) -> int:
    """Connect to the servers and show the offer of each, or the reason it cannot be used."""
    configured = [context.server(parsed.name)] if parsed.name else context.configured()
    usable = [each for each in configured if isinstance(each, ServerConfig)]
    tested = {state.name: state for state in run_loop(_states(usable, context))}
    states = [
        tested[each.name]
        if isinstance(each, ServerConfig)
        else ServerState(each.name, ServerPhase.MISCONFIGURED, each.reason)
        for each in configured
    ]
    if parsed.json:
        context.print_json(tested_json(states))
    else:
        context.show(tested_view(states))
    return 0 if all(state.phase in GOOD_PHASES for state in states) else 1


async def _states(configs: list[ServerConfig], context: CommandContext) -> tuple[ServerState, ...]:
    from agent_cli.terminal.views.progress import counting  # rich

    with counting("connecting", total=len(configs), stream=context.err) as show:
        async with connected(context.environment, configs, show) as servers:
            return servers.states()


def approve_server(parsed: argparse.Namespace, context: CommandContext) -> int:
    """Show how a server's tools changed since their approval, and approve them as they are."""
    config = replace(context.server(parsed.name), enabled=True)
    return run_loop(_approve(config, context, dry_run=parsed.dry_run))


async def _approve(config: ServerConfig, context: CommandContext, *, dry_run: bool) -> int:
    async with connected(context.environment, [config]) as servers:
        [state] = servers.states()
        if state.phase is not ServerPhase.READY:
            context.explain(state)
            return 1
        changes = servers.changes().get(config.name, {})
        for difference in changes.values():
            # Changes in invisible characters must be visible here.
            context.say(reveal(difference))
        if not changes:
            context.say(f"{config.name}: nothing changed since it was approved")
        elif dry_run:
            context.say(f"{config.name}: {', '.join(changes)} changed; nothing is approved")
        else:
            await servers.approve_changes(config.name)
            context.say(f"{config.name}: {', '.join(changes)} approved as shown")
    return 0


def sign_in(parsed: argparse.Namespace, context: CommandContext) -> int:
    """Sign in to an HTTP server; the sign-in is stored for later starts."""
    config = replace(context.server(parsed.name), enabled=True)
    return run_loop(_sign_in(config, context))


async def _sign_in(config: ServerConfig, context: CommandContext) -> int:
    async with connected(context.environment, [config]) as servers:
        state = await servers.login(config.name, pasting_browser(context.say, sys.stdin))
    if state.phase is not ServerPhase.READY:
        context.explain(state)
        return 1
    context.say(f"{config.name}: signed in, {state.offer}")
    return 0


def sign_out(parsed: argparse.Namespace, context: CommandContext) -> int:
    """Delete the stored sign-in to a server."""
    config = context.server(parsed.name)
    if config.transport == "stdio":
        raise UsageError(f"MCP server '{config.name}' runs on this machine: there is no sign-in")
    known = Host().credentials.delete(config.url)
    context.say(f"{config.name}: {'signed out' if known else 'there was no sign-in'}")
    return 0


def arguments(add_parser: Callable[..., argparse.ArgumentParser]) -> None:
    """Declare the commands of this module; *add_parser* makes the parser of one by its name."""
    test = add_parser("test", help="connect to one server, or to all")
    test.add_argument("name", nargs="?")
    test.add_argument("--json", action="store_true", help="for scripts")
    test.set_defaults(do=check_servers)
    approve = add_parser("approve", help="see and approve how a server's tools changed")
    approve.add_argument("name")
    approve.add_argument("--dry-run", action="store_true", help="only show it")
    approve.set_defaults(do=approve_server)
    login = add_parser("login", help="sign in to a server at a URL")
    login.add_argument("name")
    login.set_defaults(do=sign_in)
    logout = add_parser("logout", help="forget the sign-in to a server")
    logout.add_argument("name")
    logout.set_defaults(do=sign_out)
