"""The loop: for each turn up to the limit, take in what the user steered, prepare, ask the model,
run the tools it asks for, record the results; stop when it asks for none and nothing is queued.

It knows no feature. Features come in through `LoopConfig` (loop_config.py); events go out through
one event sink. Errors of the world become the run's stop reason; only bugs raise.
"""

from asyncio import CancelledError
from collections.abc import Callable, Sequence
from typing import NoReturn

from agent_cli.contracts import events
from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import SEND_A_MESSAGE, AgentCliError, ContextOverflow, LimitReached
from agent_cli.contracts.messages import Incoming, is_cut_off
from agent_cli.core.batch_end import give_up
from agent_cli.core.conversation import Conversation
from agent_cli.core.executor import Executor
from agent_cli.core.loop_config import LoopConfig
from agent_cli.core.model_call import ask
from agent_cli.core.returned_values import queued, settled
from agent_cli.core.run import ChatStateMachine, Phase, RunResult, Tally
from agent_cli.core.turn import Turn, emit_message


class Run:
    """One run over a conversation, from its prompts to the moment nothing is left to do."""

    def __init__(
        self,
        conversation: Conversation,
        config: Callable[[], LoopConfig],
        emit: events.EventSink,
        cancel: CancelToken,
    ) -> None:
        self._conversation = conversation
        self._config = config
        self._tally = Tally(emit, conversation)
        self._cancel = cancel
        self._phase = ChatStateMachine(lambda old, new: emit(events.StateChanged(old, new)))
        self._too_many = 0  # messages of the last request, if it was too long
        self._cut_off = False

    async def run(self, prompts: Sequence[Incoming] = ()) -> RunResult:
        """Run until nothing is left to do; without prompts, continue the history."""
        stop_reason, error = "error", None
        try:
            self._tally(events.AgentStart())
            async with self._cancel.scope():
                stop_reason = await self._turns(prompts)
        except AgentCliError as ending:
            stop_reason, error = self._tally.ended_by(ending)
            give_up(self._new_turn(self._config()), prompts, ending, has_turn=self._tally.has_turn)
        except BaseException as bug:
            if isinstance(bug, CancelledError | GeneratorExit) or self._cancel.cancelled:
                stop_reason = "aborted"
            else:
                error = repr(bug)
            give_up(self._new_turn(self._config()), prompts, bug, has_turn=self._tally.has_turn)
            raise
        finally:
            result = self._end(stop_reason, error)
        return result

    async def _turns(self, incoming: Sequence[Incoming]) -> str:
        turns = 0
        while True:
            config = self._config()
            again, steering = await self._turn(config, incoming)
            turns += 1
            if self._conversation.waiting:
                return "waiting_for_approval"
            self._cancel.check()
            if turns == config.max_rounds:  # queued messages stay queued
                return self._stop_at_limit(turns) if again else self._tally.stop_reason
            incoming = steering or await queued(config.get_steering_messages)
            if not (again or incoming):
                incoming = await queued(config.get_follow_up_messages)
                if not incoming:
                    return self._tally.stop_reason

    async def _turn(
        self, config: LoopConfig, incoming: Sequence[Incoming]
    ) -> tuple[bool, Sequence[Incoming]]:
        """Run one turn; return whether to ask the model again, and the user's steering messages."""
        executor: Executor | None = None
        self._tally(events.TurnStart())
        try:
            for message in incoming:
                added = self._conversation.add_user(message, model=config.model)
                emit_message(self._tally, added)
            for notice in self._conversation.take_reports():
                self._tally(notice)
            turn = await self._prepare(config)
            stop_reason = "tool_use"
            if not self._conversation.open_calls():
                self._tally.iterations += 1
                stop_reason = await ask(turn)
                self._too_many = 0
            if not self._conversation.open_calls():
                self._phase.go(Phase.RESPONDING)
                return stop_reason == "pause_turn", ()
            executor = Executor(turn)
            await executor.run()
            # After a reply was cut off in its calls, ask once more for smaller ones, but only once.
            cut_off = is_cut_off(stop_reason)
            again, self._cut_off = not (cut_off and self._cut_off), cut_off
            return again, executor.steering
        except ContextOverflow:
            # Once as it was, since a plugin may have made room; again only with fewer messages.
            if (messages := len(self._conversation.context())) >= self._too_many > 0:
                raise
            self._too_many = messages
            return True, ()
        finally:
            results = tuple(executor.results) if executor else ()
            self._tally(events.TurnEnd(self._tally.message, results))

    async def _prepare(self, config: LoopConfig) -> Turn:
        turn = self._new_turn(config)
        for contribute in config.prepare:
            await settled(contribute(turn))
        return turn

    def _new_turn(self, config: LoopConfig) -> Turn:
        return Turn(
            config, self._conversation, self._tally, self._cancel, self._phase, self._too_many > 0
        )

    def _stop_at_limit(self, turns: int) -> NoReturn:
        sentence = f"stopped after round {turns}, the limit max_rounds{SEND_A_MESSAGE}"
        raise LimitReached(sentence, limit="max_rounds")

    def _end(self, stop_reason: str, error: str | None = None) -> RunResult:
        self._phase.end(failed=stop_reason in ("error", "aborted"))
        self._conversation.complete()
        self._tally(events.AgentEnd(self._tally.added(), stop_reason, error, self._tally.trouble))
        return self._tally.result(stop_reason, error)
