"""Run hooks around tool calls: before a call, before the user is asked, and after the call."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from agent_cli.contracts.authors import HOOK
from agent_cli.contracts.errors import AgentCliError, ToolError
from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.timeline import BlockOutput, Json, Success, ToolOutput, text_block
from agent_cli.contracts.tooling import Allow, Ask, Deny, Tool, ToolResult, Verdict, check_input
from agent_cli.contracts.wording import ASKED_BY_HOOK
from agent_cli.core.conversation import Conversation
from agent_cli.core.returned_values import Maybe, settled
from agent_cli.core.turn import Turn
from agent_cli.hooks.answers import HookAnswer, merged
from agent_cli.hooks.claude_terms import ClaudeCall, from_claude, response_of
from agent_cli.hooks.definition import Hook
from agent_cli.hooks.events import Payloads, after_call, exit_code, for_model
from agent_cli.hooks.runs import HookRuns, unmatched

Authorize: TypeAlias = Callable[[ToolCall, Tool, object], Awaitable[Verdict]]
Finish: TypeAlias = Callable[[ToolCall, ToolResult], Maybe[ToolResult]]
_Fields: TypeAlias = Mapping[str, Json]
_Key: TypeAlias = tuple[str, str, str]


class CallHooks:
    """Wraps the permissions in `authorize_tool`, and the final size limit in `finish_result`.

    Also a `prepare` contributor: answers count only for the calls that are open, since some servers
    use the id of a call again.

    A hook that allows a call skips only the question of the mode, never a rule or a question asked
    in every mode. The permissions decide about an input changed by a hook like any other.
    """

    def __init__(
        self,
        runs: HookRuns,
        payloads: Payloads,
        *,
        authorize: Authorize,
        finish: Finish,
        covers: Callable[[ToolCall, str], bool],
        heard: Callable[[HookAnswer], None],
        asks: Callable[[ToolCall], None],
        stopped: Callable[[], str] = str,
    ) -> None:
        """Wrap the functions *authorize* and *finish*.

        Args:
            authorize: The permissions.
            finish: The final size limit of a result.
            covers: Whether a permission rule, the `if` of a hook, covers a call.
            heard: Called with every answer, for its other parts than the decision.
            asks: Called with a call that a hook asks about, which no new rule answers.
            stopped: Returns why a hook ended the run, or "".
        """
        self._runs = runs
        self._payloads = payloads
        self._authorize = authorize
        self._finish = finish
        self._covers = covers
        self._heard = heard
        self._asks = asks
        self._stopped = stopped
        self._answers: dict[_Key, HookAnswer] = {}
        self._contexts: dict[str, tuple[str, ...]] = {}
        self._conversation: Conversation | None = None
        self._batch = ""

    async def __call__(self, turn: Turn) -> None:
        """Forget the answers about the calls of earlier replies.

        Raises:
            AgentCliError: A hook ended the run, which ends an agent of it as well.
        """
        self._conversation = turn.conversation
        if not turn.conversation.open_calls():
            self._answers.clear()
            self._contexts.clear()
            await self._after_batch(turn)
            if why := self._stopped():
                raise AgentCliError(f"a hook ended the run: {why}")

    async def _after_batch(self, turn: Turn) -> None:
        """Run the PostToolBatch hooks once for the calls of the last reply.

        Raises:
            AgentCliError: One of them does not let the model go on.
        """
        hooks = self._runs.matching("PostToolBatch", ("",))
        calls = _last_batch(turn.conversation) if hooks else []
        if not calls or calls[0].reply_id == self._batch:
            return
        self._batch = calls[0].reply_id
        payload = self._payloads.payload("PostToolBatch", tool_calls=[*map(self._ended, calls)])
        answer = await self._runs.run(hooks, payload)
        self._heard(answer)
        if answer.decision == "deny" and not answer.stops:
            raise AgentCliError(f"a hook ended the run: {answer.reason}")
        for text in answer.contexts:
            turn.tell_model(for_model(text), author=HOOK)

    def _ended(self, call: ToolOutput) -> dict[str, Json]:
        theirs = self._payloads.translated(ToolCall.of(call))
        ended: dict[str, Json] = {
            "tool_name": theirs.name,
            "tool_input": theirs.input,
            "tool_use_id": call.tool_call_id,
        }
        if isinstance(call.result, Success):
            ended["tool_response"] = response_of(theirs, ToolResult(call.result.content))
        return ended

    async def authorize(self, call: ToolCall, tool: Tool, params: object) -> Verdict:
        """Decide about a call; hooks are asked only once about the same input."""
        proposed = call.input
        before = await self._answer("PreToolUse", call)
        if before.decision == "deny":
            return _denied(before)
        try:
            call, params = _changed(call, tool, params, before)
            verdict = await self._beside(before, call, tool, params)
            request = HookAnswer()
            if isinstance(verdict, Ask) and verdict.attempt_failed is None:
                request = await self._answer("PermissionRequest", call)
                if request.decision == "deny":
                    return _denied(request)
                if request.updated is not None:
                    call, params = _changed(call, tool, params, request)
                    before = _stricter(before, await self._answer("PreToolUse", call))
                    if before.decision == "deny":
                        return _denied(before)
                    verdict = await self._beside(before, call, tool, params)
                if request.decision == "allow" and isinstance(verdict, Ask) and verdict.by_mode:
                    verdict = Allow(holds=verdict.holds)
        except ToolError as error:
            return Deny(f"A hook of the user's changed the input of this call. {error}")
        self._keep(call, before, request)
        if isinstance(verdict, Deny):
            return await self._refused(call, verdict)
        if call.input == proposed:
            return verdict
        return replace(verdict, input=call.input)

    async def _beside(
        self, before: HookAnswer, call: ToolCall, tool: Tool, params: object
    ) -> Verdict:
        """Return the permissions' verdict joined with the answer of the PreToolUse hooks."""
        verdict = await self._authorize(call, tool, params)
        if before.decision == "ask" and not isinstance(verdict, Deny):
            self._asks(call)
            reason = f"{ASKED_BY_HOOK}: {before.reason}" if before.reason else ASKED_BY_HOOK
            if isinstance(verdict, Allow):
                return Ask(reason, may_read=True, holds=verdict.holds)
            if not verdict.by_mode:
                reason = f"{reason}; {verdict.reason}"
            return replace(verdict, reason=reason, by_mode=False, attempt_failed=None)
        if before.decision == "allow" and isinstance(verdict, Ask) and verdict.by_mode:
            return Allow(holds=verdict.holds)
        return verdict

    async def _refused(self, call: ToolCall, verdict: Deny) -> Deny:
        """Run PermissionDenied hooks, and add their text to the reason."""
        answer = await self._ask("PermissionDenied", call, lambda _: {"reason": verdict.reason})
        return replace(
            verdict, reason="\n".join((verdict.reason, *map(for_model, answer.contexts)))
        )

    async def finish(self, call: ToolCall, result: ToolResult) -> ToolResult:
        """Return *result* for the model, after the hooks have seen and maybe changed it."""
        has_failed = result.is_error or exit_code(result) != 0
        event = "PostToolUseFailure" if has_failed else "PostToolUse"
        contexts, content = self._contexts.pop(call.id, ()), result.content
        answer = await self._ask(
            event, call, lambda theirs: after_call(theirs, result, self._took_ms(call.id))
        )
        if answer.output is not None:
            others = tuple(each for each in content if each["type"] != "text")
            content = (text_block(answer.output), *others)
            result = replace(result, content=content, full_chars=None)
        if contexts := (*contexts, *answer.contexts):
            words = tuple(text_block(f"\n\n{for_model(each)}") for each in contexts)
            result = replace(result, content=(*content, *words))
        return await settled(self._finish(call, result))

    def _took_ms(self, call_id: str) -> int | None:
        if self._conversation is None:
            return None
        started_ms = self._conversation.call(call_id).started_at_ms
        return None if started_ms is None else self._conversation.now() - started_ms

    async def _answer(self, event: str, call: ToolCall) -> HookAnswer:
        key = _key(event, call)
        if key not in self._answers:
            answer = await self._ask(event, call)
            if answer.contexts:
                earlier = self._contexts.get(call.id, ())
                self._contexts[call.id] = tuple(dict.fromkeys((*earlier, *answer.contexts)))
            self._answers[key] = answer
        return self._answers[key]

    async def _ask(
        self, event: str, call: ToolCall, more: Callable[[ClaudeCall], _Fields] = lambda _theirs: {}
    ) -> HookAnswer:
        """Run the hooks of *event* for *call*; *more* returns further fields of the payload."""
        theirs = self._payloads.translated(call)
        hooks = self._runs.matching(event, theirs.names, lambda rule: self._covers(call, rule))
        if not hooks:
            return HookAnswer()
        payload = self._payloads.about_call(event, call.id, theirs, **more(theirs))
        answers = await self._answers_of(hooks, payload, theirs, call)
        answer = merged([*answers.values()])
        if event == "PreToolUse" and answer.updated is not None and answer.decision != "deny":
            again = await self._about_changed(call, answer.updated, answers)
            answer = merged([*answers.values(), *again])
        self._heard(answer)
        return answer

    async def _about_changed(
        self, call: ToolCall, updated: _Fields, answers: Mapping[Hook, HookAnswer]
    ) -> Sequence[HookAnswer]:
        """Return the PreToolUse answers about the *updated* input, but of those that changed it."""
        try:
            changed = replace(call, input=from_claude(call.name, updated))
        except ToolError:  # The call is refused for it.
            return ()
        theirs = self._payloads.translated(changed)
        hooks = self._runs.matching(
            "PreToolUse", theirs.names, lambda rule: self._covers(changed, rule)
        )
        changers = {unmatched(hook) for hook, each in answers.items() if each.updated is not None}
        others = [each for each in hooks if unmatched(each) not in changers and not each.background]
        payload = self._payloads.about_call("PreToolUse", call.id, theirs)
        found = await self._answers_of(others, payload, theirs, call)
        return [*found.values()]

    async def _answers_of(
        self, hooks: Sequence[Hook], payload: _Fields, theirs: ClaudeCall, call: ToolCall
    ) -> dict[Hook, HookAnswer]:
        """Return the answers of *hooks*; one that returns the input as it is does not change it."""
        answers = await self._runs.answers(hooks, payload, f"{theirs.name} {call.id}")
        for hook, each in answers.items():
            if each.updated == theirs.input:
                answers[hook] = replace(each, updated=None)
        return answers

    def _keep(self, call: ToolCall, before: HookAnswer, request: HookAnswer) -> None:
        """Store the answers for the current input of *call*, which is authorized once more."""
        for event, answer in (("PreToolUse", before), ("PermissionRequest", request)):
            self._answers[_key(event, call)] = replace(answer, updated=None)


def _last_batch(conversation: Conversation) -> list[ToolOutput]:
    """Return the calls of the last reply of the prompt at work; none if that made no calls."""
    prompts = conversation.prompts
    output = prompts[-1].output if prompts else ()
    replied = [each for each in output if isinstance(each, BlockOutput)]
    if not replied:
        return []
    calls = [each for each in replied if isinstance(each, ToolOutput)]
    return [call for call in calls if call.reply_id == replied[-1].reply_id]


def _stricter(before: HookAnswer, again: HookAnswer) -> HookAnswer:
    """Return the answer of *again* about another input; what *before* asked is asked as well."""
    own = replace(before, decision=None if before.decision == "allow" else before.decision)
    return replace(merged([own, again]), updated=None)


def _key(event: str, call: ToolCall) -> _Key:
    return event, call.id, json.dumps(call.input, sort_keys=True, default=str)


def _denied(answer: HookAnswer) -> Deny:
    # Nobody decided about the call if a hook could not run, and it may be the project's.
    who = "This call was not made" if answer.fault else "A hook of the user's declined this call"
    return Deny(f"{who}: {answer.reason}")


def _changed(
    call: ToolCall, tool: Tool, params: object, answer: HookAnswer
) -> tuple[ToolCall, object]:
    """Return *call* with the input changed by *answer*.

    Raises:
        ToolError: The tool does not accept that input.
    """
    if answer.updated is None:
        return call, params
    used: Json = from_claude(call.name, answer.updated)
    return replace(call, input=used), check_input(tool, used)
