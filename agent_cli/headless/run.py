"""One run without a REPL: `agent-cli -p`, or `agent-cli sessions approve`."""

import select
import signal
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final, Literal, NamedTuple, TextIO, TypeAlias

from agent_cli.attachments.attachments import with_attachments
from agent_cli.contracts.agent_events import innermost
from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import Aborted, AgentCliError, SettingsError, UsageError
from agent_cli.contracts.events import ErrorShown, Event, Notice, PromptOutput, UsageChanged
from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.timeline import FileOutput, Json, Usage, WidgetOutput
from agent_cli.core.agent import Agent
from agent_cli.core.run_result import RunResult
from agent_cli.headless.ports import Application
from agent_cli.headless.stream_json import to_json, to_line
from agent_cli.system import stop_signals
from agent_cli.system.logger import logger
from agent_cli.terminal.background import in_background
from agent_cli.terminal.narration import narrate, narrate_end, side_output
from agent_cli.terminal.writer import STDOUT_CLOSED_EXIT_CODE, Writer

OutputFormat: TypeAlias = Literal["text", "json", "stream-json"]
Decide: TypeAlias = Callable[[Agent], Awaitable[RunResult]]

_log = logger(__name__)
# A refused model may ask again and again, and each answer begins a run with fresh limits.
_REFUSALS_MAX: Final = 10
_STDIN_LIMIT_S: Final = 3.0
_NOBODY: Final = (
    "This call needs a person's approval and nobody can be asked in this run. Go on without it,"
    " and say at the end what was left out."
)


@dataclass(slots=True)
class RunReport:
    """What is known of the run so far: the fields of `app.result`."""

    text: str = ""
    stop_reason: str = "error"
    rounds: int = 0
    usage: Usage = field(default_factory=Usage)
    session_id: str | None = None
    exit_code: int = 1

    def to_json(self) -> dict[str, Json]:
        """Return the `app.result` object."""
        tokens: dict[str, Json] = asdict(self.usage)
        del tokens["cost_microdollars"], tokens["held_microdollars"]
        cost = self.usage.cost_microdollars
        return {
            "type": "app.result",
            "text": self.text,
            "stop_reason": self.stop_reason,
            "rounds": self.rounds,
            "usage": tokens,
            "cost_usd": None if cost is None else cost / 1_000_000,
            "session_id": self.session_id,
            "exit_code": self.exit_code,
        }


async def run(
    task: str | Decide,
    build: Callable[[], Application],
    *,
    output_format: OutputFormat = "text",
    color: bool = False,
) -> int:
    """Answer one prompt, or go on after a decision, on this process's streams.

    Args:
        task: The text of `-p`; what is piped to stdin is appended, "-" reads it all from there. Or
            what decides about a call that waits.
        build: Called once, in a thread.
        output_format: What stdout gets; everything else goes to stderr.
        color: Whether stderr may be coloured where it is a terminal.

    Returns:
        The exit code.
    """
    return await _HeadlessRun(output_format, color=color).run(task, build)


class Given(NamedTuple):
    """The whole text of a prompt, and the part of it that was piped in."""

    text: str
    piped: str = ""


def read_prompt(prompt: str, stdin: TextIO, warn: Callable[[str], None]) -> Given:
    """Return *prompt* with what is piped to *stdin*.

    A pipe that stays open and silent, as supervisors and CI leave it, is waited for only when all
    of the prompt has to come from there.

    Raises:
        UsageError: Both are empty.
    """
    piped = ""
    if not stdin.isatty():
        if prompt == "-" or select.select([stdin], [], [], _STDIN_LIMIT_S)[0]:
            piped = stdin.read()
        else:
            warn(f"nothing came from stdin within {_STDIN_LIMIT_S:g} s; it is left out")
    parts = [piped] if prompt == "-" else [prompt, piped]
    text = "\n\n".join(part.strip() for part in parts if part.strip())
    if not text:
        raise UsageError("there is no prompt: give one after -p, or pipe one in")
    return Given(text, piped.strip())


class _HeadlessRun:
    """Whatever happens, `run` returns an exit code, and the JSON formats end with a result."""

    def __init__(self, output_format: OutputFormat, *, color: bool) -> None:
        self._format = output_format
        self._writer = Writer(sys.stdout, sys.stderr, color=color)
        self._outcome = RunReport()
        self._signal: signal.Signals | None = None
        self._loading = CancelToken()
        self._stop: Callable[[], None] = self._loading.cancel
        self._unwritable: OSError | None = None
        self._refusals = 0

    async def run(self, task: str | Decide, build: Callable[[], Application]) -> int:
        outcome = self._outcome
        with stop_signals.taken(self._interrupt):
            try:
                await self._load_and_answer(task, build)
                outcome.exit_code = self._exit_code()
            except Aborted:
                outcome.stop_reason, outcome.exit_code = "aborted", self._exit_code()
            except AgentCliError as error:
                self._tell(ErrorShown(str(error)))
                outcome.exit_code = 2 if isinstance(error, UsageError | SettingsError) else 1
            except Exception as error:
                self._tell(ErrorShown(f"{type(error).__name__}: {error}"))
            self._print_result()
            exit_code = STDOUT_CLOSED_EXIT_CODE if self._writer.stdout_closed else outcome.exit_code
            stop_signals.end_with(1 if self._unwritable else exit_code)
        if self._unwritable:
            raise self._unwritable
        return exit_code

    async def _load_and_answer(self, task: str | Decide, build: Callable[[], Application]) -> None:
        async with AsyncExitStack() as stack:
            async with self._loading.scope():
                given = await self._given(task) if isinstance(task, str) else None
                app = await in_background(build)
                await stack.enter_async_context(app)
                app.agent.subscribe(self._tell)
                self._outcome.session_id = app.session_id
                await stack.enter_async_context(self._bugs_logged())
                message = await self._message(app, given) if given is not None else None
            # From here on nothing is awaited but runs: a signal in between would stop nothing.
            self._stop = app.agent.abort
            if message is not None:
                await self._answer(app.agent, message)
            elif not isinstance(task, str):
                self._note(await task(app.agent))
            self._tell_what_waits(app.agent)

    async def _given(self, prompt: str) -> Given:
        return await in_background(lambda: read_prompt(prompt, sys.stdin, self._warn))

    async def _message(self, app: Application, given: Given) -> UserMessage:
        return await with_attachments(
            await app.written_out(given.text),
            Path.cwd(),
            data=given.piped,
            refusal=app.why_kept_back,
            note=app.note_attached,
            tell=lambda text: self._tell(Notice("info", text)),
        )

    @asynccontextmanager
    async def _bugs_logged(self) -> AsyncGenerator[None]:
        """Log the traceback of a bug while there are sinks; who catches it has none any more."""
        try:
            yield
        except Exception as error:
            if not isinstance(error, AgentCliError):
                # At level info: the console would repeat the line that the user gets anyway.
                _log.info("run failed", exc_info=True)
            raise

    def _warn(self, text: str) -> None:
        self._tell(Notice("warning", text))

    async def _answer(self, agent: Agent, message: UserMessage) -> None:
        if agent.conversation.waiting:
            return  # an earlier question: nobody here may answer it, not even with a no
        self._note(await agent.prompt(message))
        while self._outcome.stop_reason == "waiting_for_approval" and not self._signal:
            for call in agent.conversation.questions():
                if self._refusals == _REFUSALS_MAX:
                    return
                self._refusals += 1
                self._warn(
                    f"{call.name} skipped: cannot ask here; use --allow or --permission-mode"
                )
                self._note(await agent.reject(call.tool_call_id, _NOBODY))

    def _tell_what_waits(self, agent: Agent) -> None:
        if not agent.conversation.waiting:
            return
        self._outcome.stop_reason = "waiting_for_approval"
        id = self._outcome.session_id
        for call in agent.conversation.questions():
            self._warn(
                f"{call.name} waits for a decision: agent-cli sessions approve {id}"
                f" {call.tool_call_id}, or reject; agent-cli sessions show {id} shows it"
            )

    def _note(self, result: RunResult) -> None:
        if (ended := narrate_end(result)) and not (self._writer.stdout_closed or self._unwritable):
            failed = ended.style == "error"
            self._tell(ErrorShown(ended.text) if failed else Notice("warning", ended.text))
        final = result.final_message
        self._outcome.text = final.text if final and final.error is None else ""
        self._outcome.stop_reason = result.stop_reason
        self._outcome.rounds += result.iterations

    def _exit_code(self) -> int:
        if self._signal is not None:
            return stop_signals.exit_code_of(self._signal)
        match self._outcome.stop_reason:
            case "error" | "refusal" | "context_window" | "model_context_window_exceeded":
                return 1
            case "max_rounds" | "max_cost" | "max_tokens":
                return 4
            case "waiting_for_approval":
                return 3
            case "aborted":
                return stop_signals.exit_code_of(signal.SIGINT)
            case _:
                return 3 if self._refusals else 0

    def _tell(self, event: Event) -> None:
        told = innermost(event)
        if isinstance(told, UsageChanged):
            self._outcome.usage += told.reply
        if self._format == "stream-json":
            self._print(to_json(event))
        if sentence := narrate(event):
            self._writer.notice(sentence.text, sentence.style)
        elif isinstance(event, PromptOutput):
            match event.output:
                case FileOutput() | WidgetOutput() as output:
                    self._writer.notice(side_output(output))
                case _:
                    pass

    def _print_result(self) -> None:
        if self._format == "text":
            self._writer.answer(self._outcome.text)
            self._writer.end_answer()
        else:
            self._print(self._outcome.to_json())

    def _print(self, shown: dict[str, Json]) -> None:
        try:
            self._writer.answer(to_line(shown) + "\n")
        except OSError as error:  # a full disk: `run` raises it, once the run has ended
            self._unwritable = error
        if self._unwritable or self._writer.stdout_closed:
            self._stop()  # nobody reads any more

    def _interrupt(self, number: signal.Signals) -> None:
        self._signal = self._signal or number
        self._stop()
