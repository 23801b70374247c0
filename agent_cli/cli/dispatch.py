"""What each command does. Imported when one is run: `--version` and `--help` need none of it."""

import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, cast

from agent_cli.app.arguments import Arguments
from agent_cli.app.option_table import CHOOSE_SESSION
from agent_cli.app.startup import StartupContext, start
from agent_cli.cli.complaint import print_complaint
from agent_cli.cli.completion import complete
from agent_cli.contracts.errors import NoCredentials, UsageError
from agent_cli.system.event_loop import run_loop
from agent_cli.system.importing import without_collections
from agent_cli.terminal.abilities import may_color
from agent_cli.terminal.first_prompt import FIRST_PROMPT

if TYPE_CHECKING:
    from agent_cli.app.app import App

_NO_CREDENTIALS = 2


def _repl(arguments: Arguments) -> int:
    if arguments.prompts_from is None and not sys.stdin.isatty():
        # Of a log that is piped in every line would be a prompt of its own.
        return _print(arguments, piped=True)
    from agent_cli.repl import repl  # noqa: PLC0415
    from agent_cli.repl.look import Look  # noqa: PLC0415
    from agent_cli.system import paths  # noqa: PLC0415 - each command pays only for itself

    is_script = arguments.prompts_from is not None
    may_ask = not is_script and sys.stderr.isatty()
    chooses = arguments.resume == CHOOSE_SESSION and not is_script
    if chooses:
        arguments = arguments._replace(resume=None)
    try:
        startup = _ready(arguments, may_ask=may_ask)
    except NoCredentials as error:
        if not may_ask:
            raise
        return _demo(arguments) if _wants_demo(error) else _NO_CREDENTIALS
    settings = startup.loaded.settings
    look = Look(
        color=may_color(os.environ),
        streaming=settings.streaming,
        show_thinking=settings.ui.show_thinking,
        chars_per_second=settings.ui.chars_per_second,
        theme=settings.ui.theme,
        notify=settings.ui.notify,
        vi=settings.ui.vi,
        screen_reader=settings.ui.screen_reader,
    )
    first_lines = [*(["/resume"] if chooses else []), *filter(None, [arguments.prompt])]
    with _script(arguments.prompts_from) as script:
        options = repl.ReplOptions(paths.history_file(), look, first_lines, script=script)
        return run_loop(repl.run(options, _builder(startup, one_shot=False)))


def _wants_demo(error: NoCredentials) -> bool:
    """Show what is missing and offer the demo, which works without it."""
    FIRST_PROMPT.take_away()
    print_complaint(str(error))
    print("Play the demo now? [Y/n] ", end="", file=sys.stderr, flush=True)
    try:
        return sys.stdin.readline().strip().lower() in ("", "y", "yes")
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return False


def _script(name: str | None) -> AbstractContextManager[TextIO | None]:
    """Open the file of prompts; None stands for the terminal.

    Raises:
        UsageError: It cannot be read.
    """
    if name is None or name == "-":
        return nullcontext(None if name is None else sys.stdin)
    try:
        return Path(name).open(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UsageError(f"--prompts-from: {name} cannot be read: {error.strerror}") from error


def _print(arguments: Arguments, *, piped: bool = False) -> int:
    """Answer one prompt; *piped* takes it from stdin, behind what stands on the command line."""
    with without_collections():
        from agent_cli.cli.one_run import failure_kept, prompt_of, run_options  # noqa: PLC0415
        from agent_cli.headless import run as headless  # noqa: PLC0415

    options = run_options(arguments)
    with failure_kept(options.output_dir):
        prompt = arguments.prompt or "-" if piped else prompt_of(arguments)
        startup = _ready(arguments, may_ask=False)
    running = headless.run(
        prompt,
        _builder(startup, one_shot=True),
        output_format=cast("headless.OutputFormat", arguments.output_format),  # parsed as one
        color=may_color(os.environ),
        options=options,
    )
    return run_loop(running)


def _ready(arguments: Arguments, *, may_ask: bool) -> StartupContext:
    """Read the settings, and make sure that a model can be asked at all."""
    from agent_cli.settings import check_credentials  # noqa: PLC0415

    startup = start(arguments, may_ask=may_ask)
    if not arguments.replay:
        check_credentials(startup.environment)
    return startup


def _builder(startup: StartupContext, *, one_shot: bool) -> "Callable[[], App]":
    def build() -> "App":
        with without_collections():
            from agent_cli.app.app import App  # noqa: PLC0415 - in a thread, behind the prompt

            return App(startup, one_shot=one_shot)

    return build


def _demo(_arguments: Arguments) -> int:
    from agent_cli.cli.demo import run_demo  # noqa: PLC0415

    return run_loop(run_demo())


def _doctor(arguments: Arguments) -> int:
    from agent_cli.app.doctor import examine  # noqa: PLC0415

    return run_loop(examine(start(arguments, may_ask=False)))


def _config_show(arguments: Arguments) -> int:
    from agent_cli.settings.show import show_settings  # noqa: PLC0415

    startup = start(arguments, may_ask=False)
    if arguments.json:
        from agent_cli.settings.show import settings_as_json  # noqa: PLC0415

        print(settings_as_json(startup.loaded, startup.environment))
    else:
        from agent_cli.terminal.views.console import show  # noqa: PLC0415 - rich
        from agent_cli.terminal.views.syntax import SourceText  # noqa: PLC0415

        shown = show_settings(startup.loaded, startup.environment, with_origin=arguments.origin)
        show(SourceText(shown, "toml"), sys.stdout)
    for notice in startup.notices:
        print(f"agent-cli: {notice}", file=sys.stderr)
    return 0


def _config_example(_arguments: Arguments) -> int:
    from agent_cli.settings.example import example_text  # noqa: PLC0415
    from agent_cli.terminal.views.console import show  # noqa: PLC0415 - rich
    from agent_cli.terminal.views.syntax import SourceText  # noqa: PLC0415

    show(SourceText(example_text(), "toml"), sys.stdout)
    return 0


def _trust(arguments: Arguments) -> int:
    from agent_cli.trust.store import TrustStore, shown_name, what_would_act  # noqa: PLC0415

    workspace = Path(*arguments.operands).resolve()
    if not workspace.is_dir():
        raise UsageError(f"{workspace} is not a directory")
    if arguments.revoke:
        known = TrustStore.of_user().revoke(workspace)
        print(f"{workspace} is {'no longer' if known else 'not'} trusted")
        return 0
    TrustStore.of_user().trust(workspace)
    print(f"{workspace} is trusted until one of these changes:")
    for file in what_would_act(workspace):
        effects = "; ".join(file.effects) or "nothing that acts"
        print(f"  {shown_name(file.path, workspace)}: {effects}")
    return 0


def _sessions(arguments: Arguments) -> int:
    from agent_cli.cli import sessions  # noqa: PLC0415

    return sessions.COMMANDS[arguments.command](arguments)


def _decide(arguments: Arguments) -> int:
    from agent_cli.cli.sessions import CallDecision, require_workspace  # noqa: PLC0415
    from agent_cli.headless import run as headless  # noqa: PLC0415

    session_id, *rest = arguments.operands
    opening = arguments._replace(resume=session_id, continue_session=False, fork=None)
    startup = _ready(opening, may_ask=False)
    require_workspace(session_id, startup.workspace)
    decision = CallDecision("approve" if arguments.command.endswith("approve") else "reject", *rest)
    running = headless.run(decision, _builder(startup, one_shot=True), color=may_color(os.environ))
    return run_loop(running)


def _mcp_serve(arguments: Arguments) -> int:
    from agent_cli.app.served import ServedProgram  # noqa: PLC0415
    from agent_cli.mcp_server.server import make_server  # noqa: PLC0415

    if len(arguments.operands) > 1:
        raise UsageError("usage: agent-cli [options] mcp serve")
    program = ServedProgram(arguments)
    with program.logging():
        run_loop(make_server(program).run_stdio_async())
    return 0


def _mcp(arguments: Arguments) -> int:
    if arguments.operands[0] == "serve":
        return _mcp_serve(arguments)
    from agent_cli.app import logs  # noqa: PLC0415
    from agent_cli.app.mcp_config import (  # noqa: PLC0415
        configured_servers,
        inherited_environment,
        stranger,
    )
    from agent_cli.cli.mcp import command_line  # noqa: PLC0415
    from agent_cli.cli.mcp.context import CommandContext  # noqa: PLC0415
    from agent_cli.system.redaction import Redactor  # noqa: PLC0415

    startup = start(arguments, may_ask=False)
    for notice in startup.notices:
        print(f"agent-cli: {notice}", file=sys.stderr)
    sinks = logs.configure(startup.loaded.settings.logging, Redactor.of(startup.environment))
    around = CommandContext(
        environment=inherited_environment(startup),
        configured=lambda: list(configured_servers(startup)),
        workspace=startup.workspace,
        stranger=stranger(startup),
        out=sys.stdout,
        err=sys.stderr,
    )
    try:
        return command_line.run(arguments.operands, around)
    finally:
        sinks.close()


def _hooks(arguments: Arguments) -> int:
    from agent_cli.cli.hooks import run  # noqa: PLC0415

    return run(arguments.operands, start(arguments, may_ask=False))


def _acp(arguments: Arguments) -> int:
    from agent_cli.acp.process import serve_process  # noqa: PLC0415
    from agent_cli.app.editor import EditorProgram  # noqa: PLC0415

    if arguments.continue_session or arguments.resume is not None or arguments.fork is not None:
        raise UsageError("the editor chooses the session: remove --continue, --resume or --fork")
    if sys.stdin.isatty():
        print("waiting for an editor's JSON-RPC on stdin; docs/acp.md says how", file=sys.stderr)
    program = EditorProgram(arguments)
    with program.logging():
        return run_loop(serve_process(program))


def _explain(arguments: Arguments) -> int:
    from agent_cli.cli.permissions import explain  # noqa: PLC0415

    tool, given = arguments.operands
    explanation = explain(start(arguments, may_ask=False), tool, given)
    if arguments.json:
        print(explanation.as_json())
        return 0
    from agent_cli.terminal.views.console import show  # noqa: PLC0415 - rich

    show(explanation, sys.stdout)
    return 0


COMMANDS: dict[str, Callable[[Arguments], int]] = {
    "repl": _repl,
    "print": _print,
    "demo": _demo,
    "doctor": _doctor,
    "config show": _config_show,
    "config example": _config_example,
    "trust": _trust,
    **dict.fromkeys(
        (f"sessions {verb}" for verb in ("list", "show", "export", "verify")), _sessions
    ),
    **dict.fromkeys(("sessions approve", "sessions reject"), _decide),
    "replay": _sessions,
    "permissions explain": _explain,
    "acp": _acp,
    "completion": complete,
    "hooks": _hooks,
    "mcp": _mcp,
}
