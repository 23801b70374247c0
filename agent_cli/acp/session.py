"""One open session: replayed, then prompts with their questions; settings and commands."""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final, NoReturn

from agent_cli.acp import (
    AUTH_REQUIRED,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    ConnectionLost,
    RpcFault,
)
from agent_cli.acp.client import (
    AgentCalls,
    EditorClient,
    EditorDocuments,
    PermissionRequests,
    QuestionClosed,
)
from agent_cli.acp.content import image, message_chunk, text, user_message
from agent_cli.acp.dialogs import EditorModelDialogs, EditorServerDialogs
from agent_cli.acp.options import available_commands, config_options, mode_state, run_command
from agent_cli.acp.ports import Application
from agent_cli.acp.schema import PromptBlock
from agent_cli.acp.updates import CallView, Updates
from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import Aborted, AgentBusy, AgentCliError
from agent_cli.contracts.events import AgentEnd, Event, Notice, ToolCall, UsageChanged
from agent_cli.contracts.messages import UserMessage, typed_in
from agent_cli.contracts.provider import Model
from agent_cli.contracts.timeline import (
    NO_USAGE,
    Block,
    DiscardedOutput,
    Error,
    Json,
    Pending,
    Prompt,
    TextOutput,
    ThinkingOutput,
    ToolOutput,
    Usage,
    UserOutput,
)
from agent_cli.contracts.tooling import Tool, ToolResult
from agent_cli.core.call_decisions import apply_decisions, decline_and_stop, record_decision
from agent_cli.core.projection import entries
from agent_cli.core.run import RunResult
from agent_cli.system.sanitize import clean
from agent_cli.terminal.narration import narrate_end

_STOP_REASONS: Final = {
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "max_rounds": "max_turn_requests",
    "max_cost": "max_turn_requests",
    "refusal": "refusal",
    "aborted": "cancelled",
}


class OpenSession:
    """A session whose application runs; created by the task that entered it, right after.

    Attributes:
        closed: Set when it is to end.
        ended: Set when its application has ended.
    """

    def __init__(self, app: Application, client: EditorClient) -> None:
        """Subscribe to *app*, and hold its updates until `release`."""
        self.app = app
        self.closed = asyncio.Event()
        self.ended = asyncio.Event()
        self._client = client
        self._held: list[dict[str, Json]] | None = []
        self._updates = Updates(app, self._send)
        self._cancels: set[CancelToken] = set()
        self._prompting: CancelToken | None = None
        self._turn = asyncio.Lock()
        self._unasked = asyncio.Event()
        self._is_closing = False
        self._used = NO_USAGE
        self._commands: list[Json] = []
        self._approvals = PermissionRequests(
            app, client, self._updates.described, self._updates.say
        )
        app.agent.subscribe(self._updates)
        app.agent.subscribe(self._note)
        if client.reads_files or client.writes_files:
            documents = EditorDocuments(client, asyncio.get_running_loop())
            self._updates.written = documents.written
            app.use_documents(documents)
        turn = asyncio.Lock()
        app.answer(
            EditorServerDialogs(client, turn, say=self._updates.say, on_change=self._tell_commands),
            EditorModelDialogs(client, lambda: self._updates.running_call, turn),
            AgentCalls(self._approvals, turn),
        )

    @property
    def id(self) -> str:
        """The session's id, the same as in the terminal."""
        return self.app.agent.conversation.id

    def state(self) -> dict[str, Json]:
        """Return modes and options for the response that opens the session."""
        self._updates.tell_settings()
        return {"modes": mode_state(self.app), "configOptions": config_options(self.app)}

    def replay(self) -> None:
        """Send the whole conversation again, at once."""
        prompts = self.app.agent.conversation.prompts
        for update in replayed(prompts, self.app.tools, self.app.workspace):
            self._client.update(update)

    def release(self) -> None:
        """Send the held updates: the client knows the session now."""
        held, self._held = self._held, None
        for update in held or ():
            self._client.update(update)
        self._tell_commands()
        if self.app.agent.conversation.prompts:
            self._updates.tell_plan()
            self._updates.tell_usage()

    def tell_settings(self) -> None:
        """Send the current settings to the client."""
        self._updates.tell_settings()

    async def prompt(self, blocks: Sequence[PromptBlock]) -> dict[str, Json]:
        """Run the user's prompt, and return the response.

        Raises:
            RpcFault: A prompt is running, or this one failed.
        """
        if self._is_closing:
            raise RpcFault(INVALID_REQUEST, "this session is being closed: load it again")
        if self._prompting and not self._prompting.cancelled:
            raise RpcFault(INVALID_REQUEST, "a prompt is running in this session: cancel it first")
        self._prompting = cancel = CancelToken()
        used = NO_USAGE
        try:
            async with self._my_turn(cancel):  # of a prompt that is cancelled, this awaits the end
                self._used = NO_USAGE
                try:
                    stop_reason = await self._answered(blocks, cancel)
                finally:
                    used = self._used
        except (Aborted, QuestionClosed):
            stop_reason = "cancelled"
        finally:
            if self._prompting is cancel:
                self._prompting = None
        return {"stopReason": stop_reason, "usage": _tokens(used)}

    async def ask_unprompted(self) -> NoReturn:
        """Ask about calls of runs started without a prompt: a job that ended, a reminder."""
        while True:
            await self._unasked.wait()
            self._unasked.clear()
            try:
                async with self._my_turn(cancel := CancelToken()):
                    while self.app.agent.conversation.waiting:
                        await self._decide(cancel)
            except (Aborted, QuestionClosed, ConnectionLost):
                continue  # declined, or left to the next client that opens the session
            except AgentCliError as error:
                self._updates.say(str(error))

    def cancel(self) -> None:
        """Stop the running prompt; its response reports that."""
        for cancel in self._cancels:
            cancel.cancel()
        self.app.agent.abort()

    async def end(self) -> None:
        """Cancel everything, refuse further prompts, and wait until the application has ended."""
        self._is_closing = True
        self.cancel()
        await self.app.agent.wait_for_idle()
        self.closed.set()
        await self.ended.wait()

    @asynccontextmanager
    async def _my_turn(self, cancel: CancelToken) -> AsyncGenerator[None]:
        """Wait until no other task asks the user; *cancel* cancels this turn."""
        is_mine = False
        self._cancels.add(cancel)
        try:
            async with cancel.scope():
                is_mine = await self._turn.acquire()
            yield
        finally:
            if is_mine:  # even if the lock was acquired during the cancel
                self._turn.release()
            self._cancels.discard(cancel)

    async def _answered(self, blocks: Sequence[PromptBlock], cancel: CancelToken) -> str:
        async with cancel.scope():
            if answer := await run_command(blocks, self.app):
                self._updates.say(answer)
                return "end_turn"
            await self.app.agent.wait_for_idle()
        while self.app.agent.conversation.waiting:  # from before the session was resumed
            await self._decide(cancel)
        async with cancel.scope():
            message, model = await user_message(blocks, self.app, self._tell)
        result = await self._prompted(message, model, cancel)
        while result.stop_reason == "waiting_for_approval":
            result = await self._decide(cancel)
        return self._stop_reason(result, cancel)

    async def _prompted(
        self, message: UserMessage, model: Model | None, cancel: CancelToken
    ) -> RunResult:
        """Start *message* as soon as no other prompt runs: a reminder may have been faster."""
        while True:
            async with cancel.scope():
                await self.app.agent.wait_for_idle()
            while self.app.agent.conversation.waiting:  # a reminder asked meanwhile
                await self._decide(cancel)
            cancel.check()
            try:
                return await self.app.agent.prompt(message, model=model)
            except AgentBusy:
                continue

    async def _decide(self, cancel: CancelToken) -> RunResult:
        """Ask about all waiting calls, and resume the run."""
        agent = self.app.agent
        calls = [ToolCall.of(output) for output in agent.conversation.questions()]
        for call in calls:
            self._updates.announce(call)
        try:
            async with cancel.scope():
                decisions = await self._approvals.decide(
                    calls, partial(record_decision, agent), check=cancel.check
                )
            cancel.check()
        except (Aborted, QuestionClosed):
            await decline_and_stop(agent, [call.id for call in calls])
            raise
        return await apply_decisions(agent, calls, decisions)

    def _stop_reason(self, result: RunResult, cancel: CancelToken) -> str:
        if cancel.cancelled:
            return "cancelled"
        if result.stop_reason in ("error", "context_window"):
            code = AUTH_REQUIRED if result.trouble == "auth" else INTERNAL_ERROR
            raise RpcFault(code, result.error or "the run ended in an error")
        stop_reason = _STOP_REASONS.get(result.stop_reason, "end_turn")
        if stop_reason != "cancelled" and (sentence := narrate_end(result)):
            self._updates.say(sentence.text)
        return stop_reason

    def _send(self, update: dict[str, Json]) -> None:
        if self._held is None:
            self._client.update(update)
        else:
            self._held.append(update)

    def _tell(self, sentence: str) -> None:
        self._updates(Notice("info", sentence))

    def _tell_commands(self) -> None:
        commands = available_commands(self.app)
        if commands != self._commands:
            self._commands = commands
            self._send(
                {"sessionUpdate": "available_commands_update", "availableCommands": commands}
            )

    def _note(self, event: Event) -> None:
        match event:
            case UsageChanged(reply=reply):
                self._used += reply
            case AgentEnd(stop_reason="waiting_for_approval") if self._prompting is None:
                self._unasked.set()
            case _:
                pass


def _tokens(used: Usage) -> dict[str, Json]:
    return {
        "totalTokens": used.prompt_tokens + used.output_tokens,
        "inputTokens": used.input_tokens,
        "outputTokens": used.output_tokens,
        "cachedReadTokens": used.cache_read_tokens,
        "cachedWriteTokens": used.cache_write_tokens,
        **({"thoughtTokens": used.thinking_tokens} if used.thinking_tokens else {}),
    }


def replayed(
    prompts: Sequence[Prompt], tools: Sequence[Tool], workspace: Path
) -> Iterator[dict[str, Json]]:
    """Yield the updates that show *prompts* as in the original session."""
    calls = CallView(lambda: tools, workspace)
    for output in entries([prompt for prompt in prompts if prompt.visible]):
        match output:
            case UserOutput() if output.is_typed:
                yield from _user_update(output)
            case TextOutput():
                if words := clean(output.text):
                    yield message_chunk("agent_message", text(words), output.reply_id)
            case ThinkingOutput():
                if words := clean(str(output.block.get("thinking", ""))):
                    yield message_chunk("agent_thought", text(words), output.reply_id)
            case ToolOutput():
                yield from _call(calls, output)
            case DiscardedOutput(text=words) if words:
                yield message_chunk("agent_message", text(clean(words)), output.id)
            case _:
                pass


def _user_update(output: UserOutput) -> Iterator[dict[str, Json]]:
    pictures = [shown for block in output.content if (shown := image(block))]
    for shown in [*pictures, text(typed_in(output.content))]:
        yield message_chunk("user_message", shown, output.id)


def _call(calls: CallView, output: ToolOutput) -> Iterator[dict[str, Json]]:
    """Yield a call and its outcome; the file it changed may have different content now."""
    call = ToolCall.of(output)
    shown = calls.described(call)
    yield {"sessionUpdate": "tool_call", **shown, "content": [], "status": "pending"}
    result = output.result
    if isinstance(result, Pending):
        return
    content: tuple[Block, ...] = result.content
    ended = calls.ended(
        call.id, ToolResult(content, result.details, is_error=isinstance(result, Error))
    )
    if "content" not in ended and (diffs := calls.fragments(call)):
        ended["content"] = diffs
    yield {"sessionUpdate": "tool_call_update", **ended}
