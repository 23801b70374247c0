"""Commands that speak a protocol: editors (`acp`), other agents (`mcp serve`) and MCP servers."""

import sys

from agent_cli.app.arguments import Arguments
from agent_cli.app.startup import start
from agent_cli.cli.complaint import print_complaint
from agent_cli.contracts.errors import UsageError
from agent_cli.system.event_loop import run_loop


def serve_editor(arguments: Arguments) -> int:
    """Serve an editor over stdin and stdout."""
    from agent_cli.acp.process import serve_process  # noqa: PLC0415
    from agent_cli.app.editor import EditorProgram  # noqa: PLC0415

    if arguments.continue_session or arguments.resume is not None or arguments.fork is not None:
        raise UsageError("the editor chooses the session: remove --continue, --resume or --fork")
    if sys.stdin.isatty():
        print("waiting for an editor's JSON-RPC on stdin; docs/acp.md says how", file=sys.stderr)
    program = EditorProgram(arguments)
    with program.logging():
        return run_loop(serve_process(program))


def mcp(arguments: Arguments) -> int:
    """Run a command about MCP servers, or serve as one."""
    if arguments.operands[0] == "serve":
        from agent_cli.cli.mcp.serving import serve  # noqa: PLC0415

        return serve(arguments.operands[1:], arguments)
    from agent_cli.app import logs  # noqa: PLC0415
    from agent_cli.app.mcp.config import (  # noqa: PLC0415
        configured_servers,
        inherited_environment,
        is_strangers,
    )
    from agent_cli.cli.mcp import command_line  # noqa: PLC0415
    from agent_cli.cli.mcp.context import CommandContext  # noqa: PLC0415
    from agent_cli.system.redaction import Redactor  # noqa: PLC0415

    startup = start(arguments, may_ask=False)
    for notice in startup.notices:
        print_complaint(notice)
    sinks = logs.configure(startup.loaded.settings.logging, Redactor.of(startup.environment))
    around = CommandContext(
        environment=inherited_environment(startup),
        configured=lambda: list(configured_servers(startup)),
        workspace=startup.workspace,
        is_strangers=lambda path: is_strangers(path, startup),
        out=sys.stdout,
        err=sys.stderr,
    )
    try:
        return command_line.run(arguments.operands, around)
    finally:
        sinks.close()
