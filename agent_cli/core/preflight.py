"""Check calls before they run: tool, input and permission; group those that may run in parallel."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from agent_cli.contracts.errors import ToolError
from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.frozen import same_json
from agent_cli.contracts.messages import is_cut_off
from agent_cli.contracts.timeline import Json, Pending, ToolOutput
from agent_cli.contracts.tooling import Allow, Ask, Deny, Tool, ToolResult, Verdict, check_input
from agent_cli.contracts.wording import MOVED
from agent_cli.core.arguments import checked_approval, checked_verdict
from agent_cli.core.foresight import Foresight
from agent_cli.core.returned_values import bounded, declared_paths, fix_paths, is_solo, settled
from agent_cli.core.turn import Turn
from agent_cli.system.logger import logger, traceback_of
from agent_cli.system.records import dataclass

_CUT_OFF = (
    "Not run: the reply ended with %s before this call was complete. Call again with less in it."
)
_CHANGED_LATE = (
    "Not run: its input was to be changed after the user had approved it. Call again, so that the"
    " user sees the changed input."
)
_STRICTER = "Not run: while it waited, the user chose to be asked about such calls. Call again."
_log = logger(__name__)


@dataclass(frozen=True, slots=True)
class CheckedCall:
    """A call that may run (`tool` is set), at once or if a person says so (`ask`), or a refusal."""

    call: ToolOutput
    tool: Tool | None = None
    params: object = None
    reads: Sequence[str] = ()
    writes: Sequence[str] = ()
    holds: Callable[[], bool] = lambda: True
    ask: Ask | None = None
    refusal: ToolResult | None = None


def refuse(call: ToolOutput, reason: str) -> CheckedCall:
    """Return *call* with an error result that gives *reason*."""
    return CheckedCall(call, refusal=ToolResult.error(reason))


async def check_all(
    turn: Turn, calls: Sequence[ToolOutput]
) -> tuple[list[CheckedCall], dict[str, Ask]]:
    """Sort the calls of a batch into calls that may run now and calls that need a decision.

    Nothing runs after a reply that was cut off: its last call may be incomplete. Other stop reasons
    do not matter: some servers send "end_turn" after a complete call. Calls are checked one at a
    time, in call order: two questions on one terminal would overlap. With `approval="defer"` the
    first question ends the check; with "batch" no call may run before all questions are answered.
    After a call to attempt, only further attempts are checked; they run first. After a question,
    no attempt is checked. A call that can only fail is refused at once, with its tool's error.
    """
    if is_cut_off(stop_reason := turn.conversation.last_reply().stop_reason):
        return [refuse(call, _CUT_OFF % stop_reason) for call in calls], {}
    ready, asks = list[CheckedCall](), dict[str, Ask]()
    foresight = Foresight(turn.config.path_order)
    for call in calls:
        item = await check(turn, call)
        # Checking an input may take 0.15 s. The loop looks for events only before the second step.
        for _ in range(2):
            await asyncio.sleep(0)
        if item.ask and (failure := await foresight.failure(item)):
            item = refuse(item.call, failure)
        foresight.add(item)
        is_attempt = bool(item.ask and item.ask.attempt_failed)
        if any(bool(ask.attempt_failed) is not is_attempt for ask in asks.values()):
            break
        if not item.ask:
            ready.append(item)
            continue
        asks[call.tool_call_id] = item.ask
        if turn.config.approval == "defer" and not is_attempt:
            break
    is_question = any(not ask.attempt_failed for ask in asks.values())
    return ([] if is_question and turn.config.approval == "batch" else ready), asks


def in_waves(turn: Turn, ready: Sequence[CheckedCall]) -> list[list[CheckedCall]]:
    """Group consecutive calls that may run in parallel; every other call forms its own wave."""
    waves, beside = list[list[CheckedCall]](), False
    for item in ready:
        parallel = turn.config.tool_execution == "parallel"
        safe = parallel and (item.tool is None or not is_solo(item.tool, item.params))
        if safe and beside:
            waves[-1].append(item)
        else:
            waves.append([item])
        beside = safe
    return waves


async def check(turn: Turn, call: ToolOutput) -> CheckedCall:
    """Check one call; a call that a person approved is not asked about again."""
    if call.decision == "rejected" and isinstance(call.result, Pending):
        return refuse(call, call.result.reason)
    tools = {tool.name: tool for tool in turn.tools if not tool.is_withdrawn}
    if (tool := tools.get(call.name)) is None:
        if (explain := turn.config.explain_missing) and (why := explain(call.name)):
            return refuse(call, bounded(f"Not run: {call.name} is not available. {why}"))
        known = ", ".join(sorted(tools)) or "none"
        gone = "is no longer available" if call.decision == "approved" else "does not exist"
        return refuse(call, bounded(f"The tool {call.name!r} {gone}; there are: {known}."))
    try:
        params = _params(tool, call)
        fixed = fix_paths(tool)
        declared_paths(fixed, params)  # if this fails, no question is needed
        verdict = await _policy(turn, call, fixed, params)
        if not isinstance(verdict, Deny) and _is_changed(verdict.input, call):
            if call.decision == "approved":
                return refuse(call, _CHANGED_LATE)
            call = turn.conversation.change_input(call.tool_call_id, verdict.input)
            params = _params(tool, call)
        reads, writes = declared_paths(fixed, params)
    except ToolError as error:
        return refuse(call, bounded(str(error)))
    joined = await _with_own(tool, params, verdict)
    if isinstance(joined, Deny):  # by a rule that may be newer than the person's approval
        denied = replace(ToolResult.error(bounded(joined.reason)), is_denied=True)
        return CheckedCall(call, refusal=denied)
    ask = joined if isinstance(joined, Ask) and call.decision != "approved" else None
    return CheckedCall(call, tool, params, reads, writes, holds=joined.holds, ask=ask)


async def recheck(turn: Turn, item: CheckedCall) -> CheckedCall:
    """Return *item*, checked again if its verdict no longer holds or it would touch other files.

    While it waited, the user may have chosen a stricter mode, or an earlier call may have put a
    symlink in its way. A person's approval does not cover the new files.
    """
    if item.tool is None:
        return item
    try:
        is_moved = declared_paths(item.tool, item.params) != (item.reads, item.writes)
    except ToolError as error:
        return refuse(item.call, bounded(str(error)))
    if not is_moved and item.holds():
        return item
    again = await check(turn, replace(item.call, decision=None) if is_moved else item.call)
    return refuse(item.call, MOVED if is_moved else _STRICTER) if again.ask else again


def _is_changed(used: Json, call: ToolOutput) -> bool:
    return used is not None and not same_json(used, call.input)


def _params(tool: Tool, call: ToolOutput) -> object:
    try:
        return check_input(tool, call.input)
    except ToolError:
        raise
    except (Exception, SystemExit) as error:
        _log.error("input not checked", tool=tool.name, exception=traceback_of(error))
        raise ToolError(f"{tool.name} could not check its input: {error!r}") from error


async def _policy(turn: Turn, call: ToolOutput, tool: Tool, params: object) -> Verdict:
    """Return the policy's verdict; `Ask` when the check itself fails."""
    if turn.config.authorize_tool is None:
        return Allow()
    try:
        verdict = await settled(turn.config.authorize_tool(ToolCall.of(call), tool, params))
        return checked_verdict(verdict)
    except (Exception, SystemExit) as error:
        return _failed(tool, error)


async def _with_own(tool: Tool, params: object, verdict: Verdict) -> Verdict:
    """Return *verdict*, or the question that the tool itself has about *params*."""
    if isinstance(verdict, Deny) or not tool.require_approval:
        return verdict
    try:
        rule = tool.require_approval
        approval = checked_approval(await settled(rule(params) if callable(rule) else rule))
    except (Exception, SystemExit) as error:
        return _failed(tool, error)
    policy = verdict.reason if isinstance(verdict, Ask) else ""
    if not approval.required:
        return verdict
    may_read = not isinstance(verdict, Ask) or verdict.may_read
    return Ask(_both(approval.reason, policy), may_read=may_read, holds=verdict.holds)


def _failed(tool: Tool, error: BaseException) -> Ask:
    _log.error("authorization failed", tool=tool.name, exception=traceback_of(error))
    return Ask(f"the permission check failed: {error}")


def _both(own: str, policy: str) -> str:
    """Return the reason for asking: the tool author's sentence, then the policy's."""
    if not own or policy in ("", own):
        return own or policy
    return f"{own} ({policy})"
