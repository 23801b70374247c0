"""Commands that ask the model: the REPL, `-p`, the answer to a waiting call, and the demo."""

import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TextIO, cast

from agent_cli.app.arguments import Arguments, SessionFolder
from agent_cli.app.option_table import CHOOSE_SESSION
from agent_cli.app.startup import StartupContext, start
from agent_cli.contracts.errors import NoCredentials, UsageError
from agent_cli.system import paths
from agent_cli.system.event_loop import run_loop
from agent_cli.system.loading import without_collections
from agent_cli.terminal.abilities import confirmed, may_color
from agent_cli.terminal.first_prompt import FIRST_PROMPT
from agent_cli.terminal.writer import print_complaint

if TYPE_CHECKING:
    from agent_cli.app.app import App
    from agent_cli.cli.sessions import CallDecision
    from agent_cli.core.conversation import Conversation
    from agent_cli.headless.report import OutputFormat


def open_repl(arguments: Arguments) -> int:
    """Run the REPL; piped input is one prompt."""
    if arguments.prompts_from is None and not sys.stdin.isatty():
        # Otherwise every line of a piped log would be a prompt of its own.
        return print_answer(arguments, piped=True)
    with _in_folder(arguments) as folder:
        return _run_repl(folder)


def _run_repl(folder: SessionFolder) -> int:
    from agent_cli.repl import Look, repl

    arguments = folder.arguments
    is_script = arguments.prompts_from is not None
    may_ask = not is_script and sys.stderr.isatty()
    chooses = arguments.resume == CHOOSE_SESSION and not is_script
    if chooses:
        arguments = arguments._replace(resume=None)
    try:
        startup = ready(arguments, may_ask=may_ask, copy_of=folder.copy_of)
    except NoCredentials as error:
        if not may_ask:
            raise
        return play_demo(arguments) if _wants_demo(error) else error.exit_code
    settings = startup.loaded.settings
    look = Look(
        color=may_color(os.environ),
        streaming=settings.streaming,
        show_thinking=settings.ui.show_thinking,
        chars_per_second=settings.ui.chars_per_second,
        theme=settings.ui.theme,
        notify=settings.ui.notify,
        vi=settings.ui.vi,
        keys=settings.ui.keys,
        screen_reader=settings.ui.screen_reader,
    )
    first_lines = [*(["/resume"] if chooses else []), *filter(None, [arguments.prompt])]
    with _script(arguments.prompts_from) as script:
        options = repl.ReplOptions(paths.history_file(), look, first_lines, script=script)
        return run_loop(repl.run(options, _builder(startup, one_shot=False)))


def print_answer(arguments: Arguments, *, piped: bool = False) -> int:
    """Answer one prompt; with *piped*, stdin is appended to the text of the command line."""
    with _in_folder(arguments) as folder:
        return _run_once(folder, piped=piped)


def _run_once(folder: SessionFolder, *, piped: bool) -> int:
    arguments = folder.arguments
    with without_collections():
        from agent_cli.cli.one_run import failure_kept, prompt_of, run_options
        from agent_cli.headless import run as headless

    options = run_options(arguments)
    with failure_kept(options.output_dir):
        prompt = (arguments.prompt or "-") if piped else prompt_of(arguments)
        startup = ready(arguments, may_ask=False, copy_of=folder.copy_of)
        if arguments.park and not startup.loaded.settings.session.enabled:
            raise UsageError("--park needs a session that can wait: remove --no-session")
    running = headless.run(
        prompt,
        _builder(startup, one_shot=True),
        output_format=cast("OutputFormat", arguments.output_format),  # validated
        color=may_color(os.environ),
        options=options,
    )
    return run_loop(running)


def decide(arguments: Arguments) -> int:
    """Approve or reject a waiting call, and continue its session."""
    from agent_cli.cli.sessions import CallDecision, require_workspace

    session_id, *rest = arguments.operands
    verdict: Literal["approve", "reject"]
    verdict = "approve" if arguments.command.endswith("approve") else "reject"
    startup = ready(_going_on(arguments, session_id), may_ask=False)
    require_workspace(session_id, startup.workspace)
    return _continued(CallDecision(verdict, *rest), startup, arguments)


def _going_on(arguments: Arguments, session_id: str) -> Arguments:
    """Return *arguments* with which a session goes on; a further question waits as the first."""
    return arguments._replace(resume=session_id, continue_session=False, fork=None, park=True)


def _continued(decision: "CallDecision", startup: StartupContext, arguments: Arguments) -> int:
    from agent_cli.headless import run as headless

    running = headless.run(
        decision,
        _builder(startup, one_shot=True),
        output_format=cast("OutputFormat", arguments.output_format),  # validated
        color=may_color(os.environ),
    )
    return run_loop(running)


def answer(arguments: Arguments) -> int:
    """Give the answer of a token, to the program that asks or to a session that waits.

    Raises:
        UsageError: The token is not valid, or what it answers does not wait any more.
    """
    from agent_cli.cli.remote_answer import RemoteAnswer  # rare
    from agent_cli.cli.sessions import CallDecision

    remote = RemoteAnswer.of(arguments.operands[0])
    if remote.is_taken():
        print(f"{remote.sentence}: the open session goes on", file=sys.stderr)
        return 0
    remote.enter_workspace()
    startup = ready(_going_on(arguments, remote.session_id), may_ask=False)
    remote.require_terms(startup)

    def accepted(conversation: "Conversation") -> None:
        remote.require_waiting(conversation)
        print(f"{remote.sentence}: the session goes on here", file=sys.stderr)
        remote.end_turn()

    decision = CallDecision(remote.verdict, remote.call_id, remote.reason, require=accepted)
    return _continued(decision, startup, arguments)


def play_demo(_arguments: Arguments) -> int:
    """Play the scripted session."""
    from agent_cli.cli.demo import run_demo

    return run_loop(run_demo())


def _in_folder(arguments: Arguments) -> AbstractContextManager[SessionFolder]:
    """Enter the session's directory: the worktree that *arguments* ask for, or the current one.

    Raises:
        UsageError: The worktree cannot be used or made.
    """
    if arguments.worktree is None:
        return nullcontext(SessionFolder(arguments))
    from agent_cli.cli.worktree import inside_worktree  # most sessions need none

    return inside_worktree(arguments)


def ready(arguments: Arguments, *, may_ask: bool, copy_of: Path | None = None) -> StartupContext:
    """Read the settings, and check that there is access to a model."""
    from agent_cli.app.checks import check_access, check_guards

    startup = start(arguments, may_ask=may_ask, copy_of=copy_of)
    if not may_ask:
        check_guards(startup)
    check_access(startup)
    return startup


def _builder(startup: StartupContext, *, one_shot: bool) -> "Callable[[], App]":
    def build() -> "App":
        with without_collections():
            from agent_cli.app.app import App  # in a thread, behind the prompt

            return App(startup, one_shot=one_shot)

    return build


def _wants_demo(error: NoCredentials) -> bool:
    """Report the missing key and offer the demo, which works without one."""
    FIRST_PROMPT.take_away()
    print_complaint(str(error))
    try:
        return confirmed("Play the demo now?", by_default=True)
    except KeyboardInterrupt:
        return False


def _script(name: str | None) -> AbstractContextManager[TextIO | None]:
    """Open the file of prompts; None stands for the terminal.

    Raises:
        UsageError: The file cannot be read, or is not UTF-8 text.
    """
    if name is None or name == "-":
        return nullcontext(None if name is None else sys.stdin)
    path = Path(name)
    try:
        if path.is_file():
            return StringIO(path.read_text(encoding="utf-8-sig"))
        return path.open(encoding="utf-8-sig", errors="replace")
    except UnicodeDecodeError as error:
        raise UsageError(f"--prompts-from: {name} is not UTF-8 text; save it as UTF-8") from error
    except OSError as error:
        raise UsageError(f"--prompts-from: {name} cannot be read: {error.strerror}") from error
