"""Run the command that was parsed. Imported late: `--version` and `--help` do not need it."""

import sys
from collections.abc import Callable

from agent_cli.app.arguments import Arguments
from agent_cli.app.startup import start
from agent_cli.cli.conversations import answer, decide, open_repl, play_demo, print_answer
from agent_cli.contracts.errors import UsageError
from agent_cli.system.event_loop import run_loop
from agent_cli.terminal.writer import print_complaint


def _doctor(arguments: Arguments) -> int:
    from agent_cli.app.checks.doctor import examine

    return run_loop(examine(start(arguments, may_ask=False)))


def _config_show(arguments: Arguments) -> int:
    from agent_cli.settings.show import show_settings

    startup = start(arguments, may_ask=False)
    if arguments.json:
        from agent_cli.settings.show import settings_as_json

        print(settings_as_json(startup.loaded, startup.environment))
    else:
        from agent_cli.terminal.views import show  # rich
        from agent_cli.terminal.views.texts import SourceText

        shown = show_settings(startup.loaded, startup.environment, with_origin=arguments.origin)
        show(SourceText(shown, "toml"), sys.stdout)
    for notice in startup.notices:
        print_complaint(notice)
    return 0


def _config_example(_arguments: Arguments) -> int:
    from agent_cli.settings.show import example_text
    from agent_cli.terminal.views import show  # rich
    from agent_cli.terminal.views.texts import SourceText

    show(SourceText(example_text(), "toml"), sys.stdout)
    return 0


def _trust(arguments: Arguments) -> int:
    from agent_cli.cli.permissions import trust

    return trust(arguments)


def _models(arguments: Arguments) -> int:
    from agent_cli.cli.models import list_models

    return list_models(arguments)


def _sessions(arguments: Arguments) -> int:
    from agent_cli.cli import sessions

    return sessions.COMMANDS[arguments.command](arguments)


def _batch(arguments: Arguments) -> int:
    from agent_cli.cli.batch import run_batch

    return run_batch(arguments)


def _hooks(arguments: Arguments) -> int:
    from agent_cli.cli.hooks import run

    return run(arguments.operands, start(arguments, may_ask=False))


def _import(arguments: Arguments) -> int:
    from agent_cli.cli.imports import import_setup

    return import_setup(arguments)


def _plugins(arguments: Arguments) -> int:
    from agent_cli.cli.plugins import plugins

    return plugins(arguments)


def _undo(arguments: Arguments) -> int:
    from agent_cli.cli.undo import undo

    return undo(arguments)


def _complete(arguments: Arguments) -> int:
    from agent_cli.cli.completion import complete

    return complete(arguments)


def _explain(arguments: Arguments) -> int:
    from agent_cli.cli.permissions import explain

    tool, text = arguments.operands
    explanation = explain(start(arguments, may_ask=False), tool, text)
    if arguments.json:
        print(explanation.as_json())
        return 0
    from agent_cli.terminal.views import show  # rich

    show(explanation, sys.stdout)
    return 0


def serve_editor(arguments: Arguments) -> int:
    """Serve an editor over stdin and stdout."""
    from agent_cli.acp.process import serve_process
    from agent_cli.app.served import EditorProgram

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
        from agent_cli.cli.mcp.serving import serve

        return serve(arguments.operands[1:], arguments)
    from agent_cli.app import logs
    from agent_cli.app.mcp import configured_servers, inherited_environment, is_strangers
    from agent_cli.cli.mcp import CommandContext, command_line
    from agent_cli.system.redaction import Redactor

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


COMMANDS: dict[str, Callable[[Arguments], int]] = {
    "repl": open_repl,
    "print": print_answer,
    "demo": play_demo,
    "doctor": _doctor,
    "config show": _config_show,
    "config example": _config_example,
    "trust": _trust,
    "models": _models,
    **dict.fromkeys(
        (f"sessions {verb}" for verb in ("list", "search", "show", "export", "verify", "delete")),
        _sessions,
    ),
    **dict.fromkeys(("sessions approve", "sessions reject"), decide),
    "answer": answer,
    "replay": _sessions,
    "permissions explain": _explain,
    "acp": serve_editor,
    "batch": _batch,
    "completion": _complete,
    "hooks": _hooks,
    "import": _import,
    "mcp": mcp,
    "plugins": _plugins,
    "undo": _undo,
}
