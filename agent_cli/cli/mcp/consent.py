"""`agent-cli mcp approve|login|logout`: a user's decisions about a server."""

import argparse
import sys
from collections.abc import Callable
from dataclasses import replace

from agent_cli.cli.mcp.context import CommandContext
from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.servers import ServerPhase
from agent_cli.mcp_client.browsers import pasting_browser
from agent_cli.mcp_client.config import ServerConfig
from agent_cli.mcp_client.host import Host
from agent_cli.mcp_client.trial import connected
from agent_cli.system.event_loop import run_loop
from agent_cli.terminal.sanitize import reveal


def approve_server(given: argparse.Namespace, context: CommandContext) -> int:
    """Show how a server's tools changed since their approval, and approve them as they are."""
    config = replace(context.server(given.name), enabled=True)
    return run_loop(_approve(config, context, dry_run=given.dry_run))


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


def sign_in(given: argparse.Namespace, context: CommandContext) -> int:
    """Sign in to an HTTP server; the sign-in is stored for later starts."""
    config = replace(context.server(given.name), enabled=True)
    return run_loop(_sign_in(config, context))


async def _sign_in(config: ServerConfig, context: CommandContext) -> int:
    async with connected(context.environment, [config]) as servers:
        state = await servers.login(config.name, pasting_browser(context.say, sys.stdin))
    if state.phase is not ServerPhase.READY:
        context.explain(state)
        return 1
    context.say(f"{config.name}: signed in, {state.offer}")
    return 0


def sign_out(given: argparse.Namespace, context: CommandContext) -> int:
    """Delete the stored sign-in to a server."""
    config = context.server(given.name)
    if config.transport == "stdio":
        raise UsageError(f"MCP server '{config.name}' runs on this machine: there is no sign-in")
    known = Host().credentials.delete(config.url)
    context.say(f"{config.name}: {'signed out' if known else 'there was no sign-in'}")
    return 0


def arguments(add_parser: Callable[..., argparse.ArgumentParser]) -> None:
    """Add the arguments of these commands; *add_parser* adds a command by its name."""
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
