"""One run without a REPL: `agent-cli -p`, or `agent-cli sessions approve`."""

import shlex
import signal
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import replace
from typing import Final, TypeAlias

from agent_cli.attachments.attachments import Attachments
from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import (
    Aborted,
    AgentCliError,
    sentence_of,
    trouble_of,
)
from agent_cli.contracts.events import (
    AgentEvent,
    ApprovalRequested,
    ErrorShown,
    Event,
    Notice,
    PromptOutput,
    ToolCall,
    innermost,
)
from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.provider import Model
from agent_cli.contracts.timeline import Block, FileOutput, WidgetOutput, text_block, text_of
from agent_cli.contracts.wording import one_line
from agent_cli.core.agent import Agent
from agent_cli.core.call_decisions import NOBODY_ALLOWS, REFUSALS_MAX
from agent_cli.core.run import RunResult
from agent_cli.headless.inputs import PromptText, RunOptions, read_prompt
from agent_cli.headless.limits import LimitWatch
from agent_cli.headless.ports import Application
from agent_cli.headless.report import EXIT_CODES, OutputFormat, RunOutput, RunReport
from agent_cli.system import stop_signals
from agent_cli.system.event_loop import in_background
from agent_cli.system.logger import logger
from agent_cli.system.sanitize import reveal
from agent_cli.terminal.narration import cited_text, narrate, narrate_end, side_output
from agent_cli.terminal.writer import STDOUT_CLOSED_EXIT_CODE, Writer

Decide: TypeAlias = Callable[[Agent], Awaitable[RunResult]]

_COMMAND_CHARS_MAX: Final = 80
_INTERRUPTED: Final = frozenset({"aborted", "waiting_for_approval"})
"""Stop reasons of a run that a signal may have stopped; any other run ended by itself."""

_log = logger(__name__)


async def run(
    task: str | Decide,
    build: Callable[[], Application],
    *,
    output_format: OutputFormat = "text",
    color: bool = False,
    options: RunOptions | None = None,
) -> int:
    """Answer one prompt, or continue after a decision, on this process's streams.

    Args:
        task: The text of `-p`, to which piped stdin is appended; "-" reads all of it from stdin. Or
            the decision about a waiting call.
        build: Called once, in a thread.
        output_format: The format of stdout; everything else goes to stderr.
        color: Whether stderr may be coloured if it is a terminal.
        options: The run's limits, the form of its answer, and the output directory.

    Returns:
        The exit code.
    """
    return await _HeadlessRun(output_format, options or RunOptions(), color=color).run(task, build)


class _HeadlessRun:
    """One run: it always returns an exit code, and the JSON formats end with a result."""

    def __init__(self, output_format: OutputFormat, options: RunOptions, *, color: bool) -> None:
        self._options = options
        self._limits = LimitWatch(options.limits, self._stop_at_limit)
        self._answer_check = options.answer_check()
        self._failed_to_write = False
        self._writer = Writer(sys.stdout, sys.stderr, color=color)
        self._output = RunOutput(output_format, self._writer)
        self._outcome = RunReport()
        self._final: tuple[Block, ...] = ()
        self._signal: signal.Signals | None = None
        self._has_ended = False  # once True, the result is complete: only parts are being closed
        self._loading = CancelToken()
        self._stop: Callable[[], None] = self._loading.cancel
        self._refusals = 0

    async def run(self, task: str | Decide, build: Callable[[], Application]) -> int:
        outcome = self._outcome
        taken = stop_signals.taken(self._interrupt, known_code=self._printed_code)
        with taken, self._limits.running():
            try:
                await self._load_and_answer(task, build)
                outcome.exit_code = self._exit_code()
            except Aborted:
                outcome.stop_reason = self._limits.reached or "aborted"
                outcome.exit_code = self._exit_code()
            except Exception as error:
                outcome.exit_code = error.exit_code if isinstance(error, AgentCliError) else 1
                outcome.error, outcome.trouble = sentence_of(error), trouble_of(error)
                self._tell(ErrorShown(outcome.error))
            self._write_result()
            await self._output.end(self._printed, outcome)
            exit_code = STDOUT_CLOSED_EXIT_CODE if self._writer.stdout_closed else outcome.exit_code
            stop_signals.end_with(1 if self._output.failure else exit_code)
        if self._output.failure:
            raise self._output.failure
        return exit_code

    async def _load_and_answer(self, task: str | Decide, build: Callable[[], Application]) -> None:
        async with AsyncExitStack() as stack:
            async with self._loading.scope():
                prompt = await self._prompt_text(task) if isinstance(task, str) else None
                app = await in_background(build)
                stack.callback(self._note_undecided, app)  # once its jobs have ended
                await stack.enter_async_context(app)
                app.agent.subscribe(self._tell)
                if self._options.schema:
                    app.require_answer(self._options.schema.schema)
                if self._answer_check:
                    app.agent.subscribe(self._answer_check.listener(app.agent))
                stack.push_async_callback(self._write_changes, app)
                self._outcome.session_id = app.session_id
                await stack.enter_async_context(self._bugs_logged())
                message = await self._message(app, prompt) if prompt is not None else None
            self._loading.check()  # a signal in the last moment interrupts the scope no more
            # From here on only runs are awaited; a signal between two runs would stop nothing.
            self._stop = app.agent.abort
            if message is not None:
                await self._answer(app.agent, *message)
            elif not isinstance(task, str):
                self._note(await task(app.agent))
            self._note_goal(app)
            self._outcome.checks = await app.receipts()
            self._check_answer()
            self._tell_what_waits(app.agent)
            self._has_ended = True
            self._stop = app.leave
            await self._output.answer_early(self._printed)

    async def _prompt_text(self, prompt: str) -> PromptText:
        return await in_background(lambda: read_prompt(prompt, sys.stdin, self._warn))

    async def _message(
        self, app: Application, prompt: PromptText
    ) -> tuple[UserMessage, Model | None]:
        text, model = await app.written_out(prompt.text)
        with _preparing(text):
            attachments = Attachments.of(app, tell=lambda text: self._tell(Notice("info", text)))
            message = await attachments.message(text, data=prompt.piped)
        if check := self._options.require_check:
            from agent_cli.contracts.goals import Goal  # rare

            begun = text_block(app.goals.begin(Goal(text=text, check=check)))
            message = replace(message, content=(begun, *message.content))  # typed text is last
        schema = self._options.schema
        return (schema.asked_by(message) if schema else message), model

    @asynccontextmanager
    async def _bugs_logged(self) -> AsyncGenerator[None]:
        """Log the traceback of a bug here: the caller that handles it has no log sinks any more."""
        try:
            yield
        except Exception as error:
            if not isinstance(error, AgentCliError):
                # At level info: the user sees this line anyway, and the console would repeat it.
                _log.info("run failed", exc_info=True)
            raise

    def _warn(self, text: str) -> None:
        self._tell(Notice("warning", text))

    async def _answer(self, agent: Agent, message: UserMessage, model: Model | None) -> None:
        if agent.conversation.waiting:  # this run must not answer it, not even by rejecting
            self._warn("the prompt was not sent: decide first about what waits in this session")
            return
        self._note(await agent.prompt(message, model=model))
        if self._options.parks:
            return
        while self._outcome.stop_reason == "waiting_for_approval" and not self._is_stopped:
            for call in agent.conversation.questions():
                if self._refusals == REFUSALS_MAX:
                    return
                self._refusals += 1
                self._note_skipped(ToolCall.of(call))
                self._note(await agent.reject(call.tool_call_id, NOBODY_ALLOWS))

    def _note_skipped(self, call: ToolCall, agent: str = "") -> None:
        self._outcome.decline(call, agent)
        caller = f"agent {agent}: " if agent else ""
        self._warn(
            f"{caller}{call.name} skipped: cannot ask here; use --allow or --permission-mode"
        )

    def _note_goal(self, app: Application) -> None:
        """Report a goal of this session; a goal still pursued counts as not reached."""
        progress = app.goals.progress
        if progress is None:
            return
        self._outcome.check = progress.receipt()
        if progress.state == "active" and self._outcome.stop_reason == "end_turn":
            self._outcome.stop_reason = "check_failed"

    def _tell_what_waits(self, agent: Agent) -> None:
        if not agent.conversation.waiting:
            return
        self._outcome.stop_reason = "waiting_for_approval"
        id = self._outcome.session_id
        for call in agent.conversation.questions():
            if ToolCall.of(call).is_question:
                self._warn(
                    f"{call.name} waits for your answer: agent-cli --resume {id} asks again;"
                    f" agent-cli sessions reject {id} {call.tool_call_id} 'TEXT' answers"
                )
                continue
            self._warn(
                f"{call.name} waits for a decision: agent-cli sessions approve {id}"
                f" {call.tool_call_id}, or reject; agent-cli sessions show {id} shows it"
            )

    def _note(self, result: RunResult) -> None:
        error = result.ending if result.error else ""
        result = replace(result, error=error or None)
        at_limit = self._limits.reached if result.stop_reason == "aborted" else ""
        silent = at_limit or self._output.is_lost
        if (ended := narrate_end(result)) and not silent:
            failed = ended.style == "error"
            self._tell(ErrorShown(ended.text) if failed else Notice("warning", ended.text))
        final = result.final_message
        self._outcome.text = final.text if final and final.error is None else ""
        self._final = final.content if final and final.error is None else ()
        self._outcome.stop_reason = at_limit or result.stop_reason
        self._outcome.rounds += result.iterations
        self._outcome.error, self._outcome.trouble = error, result.trouble

    def _printed_code(self) -> int | None:
        return self._exit_code() if self._output.has_answered else None

    def _exit_code(self) -> int:
        if self._signal is not None and self._outcome.stop_reason in _INTERRUPTED:
            return stop_signals.exit_code_of(self._signal)
        code = EXIT_CODES.get(self._outcome.stop_reason)
        if code is not None:
            return code
        outcome = self._outcome
        refused = (*outcome.refused_commands, *outcome.refused_hosts)
        needs_person = outcome.declined_calls or outcome.undecided_files or refused
        return 3 if needs_person else int(self._failed_to_write)

    def _note_undecided(self, app: Application) -> None:
        self._outcome.undecided_files = app.undecided_files
        self._outcome.refused_commands = [*app.refused_commands]
        self._outcome.refused_hosts = [*app.refused_hosts]
        for command, rules in app.refused_commands.items():
            options = " ".join(f"--allow {shlex.quote(rule)}" for rule in rules)
            what = reveal(options) or "--allow with rules for all of it, or --permission-mode yolo"
            why = f"cannot ask here about the files that it takes; use {what}"
            self._warn(f"`{one_line(command, _COMMAND_CHARS_MAX)}` was refused: {why}")

    def _tell(self, event: Event) -> None:
        inner = innermost(event)
        if isinstance(event, AgentEvent) and isinstance(inner, ApprovalRequested):
            self._note_skipped(inner.call, event.agent)  # it reads the no itself
        self._outcome.note(event)
        self._output.event(event)
        if self._output.is_lost:
            self._stop()
        if sentence := narrate(event):
            self._writer.notice(sentence.text, sentence.style)
        elif isinstance(event, PromptOutput):
            match event.output:
                case FileOutput() | WidgetOutput() as output:
                    self._writer.notice(side_output(output))
                case _:
                    pass
        self._limits.note(event)

    def _check_answer(self) -> None:
        outcome = self._outcome
        if self._answer_check is None or outcome.stop_reason != "end_turn":
            return
        if fault := self._answer_check.settle(outcome):
            self._tell(ErrorShown(fault))

    async def _write_changes(self, app: Application) -> None:
        """Write the changes; called however the run ends, even if interrupted or failed."""
        self._outcome.held_microdollars = app.held_microdollars
        directory = self._options.output_dir
        if directory is None:
            return

        def write() -> None:
            directory.write_changes(app.file_changes.differences(), app.workspace)
            if app.session_path:
                directory.copy_journal(app.session_path)

        try:
            await in_background(write)
        except AgentCliError as error:
            self._fail(error)

    def _write_result(self) -> None:
        if self._options.output_dir is None:
            return
        try:
            self._options.output_dir.write_result(self._outcome.to_json())
        except AgentCliError as error:
            self._fail(error)
            self._outcome.exit_code = self._outcome.exit_code or 1

    def _fail(self, error: AgentCliError) -> None:
        self._tell(ErrorShown(str(error)))
        self._failed_to_write = True

    def _printed(self) -> str:
        """Return the answer for a person; a later check may have replaced what the model wrote."""
        text = self._outcome.text
        return cited_text(self._final) if text == text_of(self._final) else text

    @property
    def _is_stopped(self) -> bool:
        return bool(self._signal or self._limits.reached)

    def _stop_at_limit(self, sentence: str) -> None:
        if self._has_ended:
            return
        self._warn(sentence)
        self._stop()

    def _interrupt(self, number: signal.Signals) -> None:
        if not self._has_ended:
            self._signal = self._signal or number
        self._stop()


def _preparing(text: str) -> AbstractContextManager[None]:
    """Return a spinner on stderr, shown while attached images are shrunk."""
    if "@" not in text or not sys.stderr.isatty():
        return nullcontext()
    from agent_cli.terminal.views.progress import working  # rich, often not needed

    return working("preparing attachments", sys.stderr)
