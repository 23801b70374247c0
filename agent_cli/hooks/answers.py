"""The result of a hook and its answer; decisions are merged: deny before ask before allow."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final, Literal, TypeAlias

from agent_cli.contracts.dialogs import Action, Filled
from agent_cli.contracts.timeline import Json
from agent_cli.hooks.definition import Hook
from agent_cli.hooks.events import QUESTIONS
from agent_cli.system.json_text import mend_surrogates
from agent_cli.system.records import dataclass
from agent_cli.system.shapes import is_array, is_object

Decision: TypeAlias = Literal["deny", "ask", "allow"]
_WORDS: Final[Mapping[str, Decision]] = {
    "deny": "deny",
    "block": "deny",
    "ask": "ask",
    "defer": "ask",
    "allow": "allow",
    "approve": "allow",
}
_ORDER: Final[tuple[Decision, ...]] = ("deny", "ask", "allow")
# The exit code 2 blocks only at events at which something can still be prevented.
_BLOCKED_BY_EXIT_2: Final = frozenset(
    {
        *("PreToolUse", "PermissionRequest", "UserPromptSubmit", "Stop", "SubagentStop"),
        *("PreCompact", "PostToolBatch", "UserPromptExpansion", "PreModelSwitch"),
        *("Elicitation", "ElicitationResult", "TaskCreated", "TaskCompleted"),
    }
)
_TEXT_IS_CONTEXT: Final = frozenset(
    {"UserPromptSubmit", "UserPromptExpansion", "SessionStart", "PreCompact"}
)
_EITHER: Final = frozenset(
    {
        *("permissionDecision", "permissionDecisionReason", "updatedInput", "updatedToolOutput"),
        *("additionalContext", "watchPaths", "retry", "action", "content"),
    }
)
"""Fields of hookSpecificOutput that count beside it, too, lest a guard's "deny" is overlooked."""
_KEYS: Final = frozenset(
    {
        *("hookSpecificOutput", "decision", "continue", "systemMessage", "suppressOutput"),
        *("permissionDecision", "updatedInput", "additionalContext", "updatedToolOutput", "async"),
    }
)
"""An object with none of them is no answer, but a part of a text."""
_WATCHES: Final = frozenset({"SessionStart", "FileChanged"})
_ACTIONS: Final[tuple[Action, ...]] = ("decline", "cancel", "accept")
_TRY_AGAIN: Final = "You may try this call again."


class _Faulty(Exception):
    """The answer is not valid; the message says why."""


# A SessionStart hook appends lines such as `export NAME=value` to the file in `CLAUDE_ENV_FILE`.
# The shell that starts the hook then reads the file where the hook ran, in the sandbox if it ran
# there.
@dataclass(frozen=True, slots=True)
class Exports:
    """Variables for commands, and whether the hook that set them ran in the sandbox.

    It may have run what the model wrote, so these are for commands in the sandbox only.
    """

    variables: Mapping[str, str]
    is_confined: bool
    fault: str = ""


@dataclass(frozen=True, slots=True)
class HookAnswer:
    """The answer of one hook, or the merged answers of several.

    Attributes:
        decision: None without a decision.
        reason: The reason of the decision, for the model or the user.
        updated: The input to run with, in Claude Code's fields; None if unchanged.
        output: The text that replaces a tool's output for the model; None if unchanged.
        contexts: Additional information for the model.
        messages: Messages for the user.
        stops: Why the run must end, or "".
        fault: Why the hook could not be used, or "".
        broken: Why a Stop guard could not run, or "". Nothing that the model does mends that, so
            the run ends instead of sending the model back.
        exports: The variables that SessionStart and FileChanged hooks set for commands.
        watch: The paths to watch from now on; None without a change.
        filled: The answer to a server's question; None leaves it as it is.
    """

    decision: Decision | None = None
    reason: str = ""
    updated: Mapping[str, Json] | None = None
    output: str | None = None
    contexts: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    stops: str = ""
    fault: str = ""
    broken: str = ""
    exports: tuple[Exports, ...] = ()
    watch: tuple[str, ...] | None = None
    filled: Filled | None = None

    @property
    def refusal(self) -> str:
        """Why it refuses what it was asked about, also by ending the run; or ""."""
        return (self.reason or self.stops) if self.decision == "deny" or self.stops else ""


@dataclass(frozen=True, slots=True)
class HookOutcome:
    """The result of running a hook.

    Attributes:
        code: Its exit code; 0 for a URL that answered with success.
        fault: Why it could not run to its end, and how to fix it; "" if it did.
        is_broken: Whether it did not even run, so that another attempt would fail alike.
        exports: The variables it set for commands; None where it may set none.
    """

    code: int = 0
    stdout: str = ""
    stderr: str = ""
    fault: str = ""
    elapsed_s: float = 0.0
    is_broken: bool = False
    exports: Exports | None = None


def read_answer(hook: Hook, outcome: HookOutcome) -> HookAnswer:
    """Return the answer of *hook*; a guarding hook that could not run denies."""
    refusal = _printed_refusal(hook, outcome.stdout) if outcome.code else None
    if outcome.fault:
        return refusal or _failed(hook, outcome.fault, is_broken=outcome.is_broken)
    if outcome.code == 2:
        reason = outcome.stderr.strip() or (refusal.reason if refusal else "")
        if hook.background or hook.event not in _BLOCKED_BY_EXIT_2:
            # Too late to prevent it; tell the model, as Claude Code does. Linters print to stdout.
            objects = f"the {hook.event} hook {hook.shown} objects and gives no reason"
            reason = reason or outcome.stdout.strip() or objects
            return HookAnswer(reason=reason, contexts=(reason,))
        return HookAnswer("deny", reason or f"{hook.shown} says no and gives no reason")
    try:
        exports = () if outcome.exports is None else (outcome.exports,)
        return replace(_parsed(hook, outcome.stdout), exports=exports)
    except _Faulty as error:
        return _failed(hook, f"{error}; correct what it prints")


def merged(answers: Sequence[HookAnswer]) -> HookAnswer:
    """Return the answers merged into one; the strictest decision wins, with its reasons joined.

    An allow does not cover an input that a hook changed which allows nothing itself.
    """
    decided = {answer.decision for answer in answers}
    if any(a.updated is not None and a.decision != "allow" for a in answers):
        decided -= {"allow"}
    decision: Decision | None = next((each for each in _ORDER if each in decided), None)
    changes = [answer.updated for answer in answers if answer.updated is not None]
    forms = [answer.filled for answer in answers if answer.filled is not None]
    reasons = [a.reason for a in answers if a.decision == decision and a.reason]
    one = HookAnswer(
        decision=decision,
        reason="\n".join(dict.fromkeys(reasons)),
        updated=changes[0] if changes else None,
        output=next((answer.output for answer in answers if answer.output is not None), None),
        # A hook that is asked about a changed input, too, says the same of it.
        contexts=tuple(dict.fromkeys(text for answer in answers for text in answer.contexts)),
        messages=tuple(dict.fromkeys(text for answer in answers for text in answer.messages)),
        stops=next((answer.stops for answer in answers if answer.stops), ""),
        fault=next((answer.fault for answer in answers if answer.fault), ""),
        broken=next((answer.broken for answer in answers if answer.broken), ""),
        exports=tuple(each for answer in answers for each in answer.exports),
        watch=_merged_watch(answers),
        filled=min(forms, key=lambda form: _ACTIONS.index(form.action), default=None),
    )
    if any(change != changes[0] for change in changes):
        why = "two hooks change the input of this call differently; let only one of them do it"
        return replace(one, decision="deny", reason=why, updated=None)
    if all(form.action == "accept" for form in forms) and any(f != forms[0] for f in forms):
        why = "two hooks answer this question differently; let only one of them do it"
        return replace(one, decision="deny", reason=why, filled=None)
    return one


def _merged_watch(answers: Sequence[HookAnswer]) -> tuple[str, ...] | None:
    lists = [answer.watch for answer in answers if answer.watch is not None]
    return tuple(path for each in lists for path in each) if lists else None


def _printed_refusal(hook: Hook, stdout: str) -> HookAnswer | None:
    """Return the refusal or question that a hook printed in JSON before it ended with an error.

    Claude Code, too, obeys these whatever the exit code is. Nothing else counts of such a hook.
    """
    with suppress(_Faulty):
        answer = _restricting(_parsed(hook, stdout))
        return answer if answer.decision or answer.stops else None
    return None


def _failed(hook: Hook, fault: str, *, is_broken: bool = False) -> HookAnswer:
    why = f"the {hook.event} hook {hook.shown} cannot be used: {fault}"
    if hook.guards and hook.event == "Stop" and is_broken:
        return HookAnswer("deny", why, broken=why)  # not a fault: the run's own error says it
    if hook.guards:
        return HookAnswer("deny", why, fault=fault)
    return HookAnswer(messages=(why,), fault=fault)


def _parsed(hook: Hook, stdout: str) -> HookAnswer:
    text = stdout.strip()
    is_alone = text.startswith("{")
    try:
        mended = mend_surrogates(text.encode()).decode()
        printed = (_last_object if is_alone else _object_at_end)(mended)
    except (ValueError, RecursionError) as error:
        raise _Faulty(f"it printed bad JSON ({error})") from error
    if printed is None:
        context = bool(text) and hook.event in _TEXT_IS_CONTEXT
        return HookAnswer(contexts=(text,) if context else ())
    specific = printed.get("hookSpecificOutput", {})
    if not is_object(specific):
        raise _Faulty("hookSpecificOutput must be an object")
    named = specific.get("hookEventName", hook.event)
    if named != hook.event:
        raise _Faulty(f"hookEventName must be {hook.event}, not {named!r}")
    specific = {**{name: printed[name] for name in _EITHER & printed.keys()}, **specific}
    answer = _answer(hook, printed, specific)
    # With other lines before it, it may be part of a command or a file that the hook prints.
    return answer if is_alone else _restricting(answer)


def _object_at_end(text: str) -> dict[str, Json] | None:
    """Return the answer behind lines such as a shell profile prints; None if *text* has none."""
    # The braces inside an object of several lines are indented.
    _, found, behind = text.rpartition("\n{")
    if not found:
        return None
    with suppress(ValueError, RecursionError):
        printed = _last_object(f"{{{behind}")
        return None if _KEYS.isdisjoint(printed) else printed
    return None


def _restricting(answer: HookAnswer) -> HookAnswer:
    """Return *answer* without what it allows or fills in."""
    allows = answer.decision == "allow"
    return replace(
        answer,
        decision=None if allows else answer.decision,
        reason="" if allows else answer.reason,
        updated=None if allows else answer.updated,
        filled=None,
    )


def _last_object(text: str) -> dict[str, Json]:
    """Return the object behind an announcement of a late answer such as `{"async": true}`.

    Such a hook is waited for; `async` in its definition has it run in the background.

    Raises:
        ValueError: It is no JSON.
    """
    decoded: tuple[dict[str, Json], int] = json.JSONDecoder().raw_decode(text)
    first, end = decoded
    behind = text[end:].strip()
    if not behind:
        return first
    if first.get("async") is not True:
        raise ValueError(f"more follows its object: {behind[:40]!r}")
    answer: dict[str, Json] = json.loads(behind) if behind.startswith("{") else {}
    return answer


def _answer(hook: Hook, printed: Mapping[str, Json], specific: Mapping[str, Json]) -> HookAnswer:
    decision, reason, updated = _decision(hook, printed, specific)
    contexts = _text(specific, "additionalContext")
    stops = ""
    if printed.get("continue") is False:
        stops = _text(printed, "stopReason") or f"{hook.shown} ended the run"
    elif decision == "deny" and _interrupts(hook, printed, specific):
        stops = reason
    output = specific.get("updatedToolOutput")
    if output is not None and not isinstance(output, str):
        output = json.dumps(output, ensure_ascii=False)
    message = _text(printed, "systemMessage")
    if decision == "deny" and hook.event in ("PostToolUse", "PostToolUseFailure"):
        contexts = "\n".join(filter(None, (reason, contexts)))
    if hook.event == "PermissionDenied" and specific.get("retry") is True:
        contexts = "\n".join(filter(None, (contexts, _TRY_AGAIN)))
    return HookAnswer(
        decision=decision,
        reason=reason,
        updated=updated,
        output=output,
        contexts=(contexts,) if contexts else (),
        messages=(message,) if message else (),
        stops=stops,
        watch=_watch(hook, specific),
        filled=_filled(hook, specific),
    )


def _filled(hook: Hook, specific: Mapping[str, Json]) -> Filled | None:
    action, content = specific.get("action"), specific.get("content", {})
    if action is None or hook.event not in QUESTIONS:
        return None
    if action not in _ACTIONS or not is_object(content):
        raise _Faulty("action must be accept, decline or cancel, and content an object")
    return Filled(action, content if action == "accept" else {})


def _watch(hook: Hook, specific: Mapping[str, Json]) -> tuple[str, ...] | None:
    paths = specific.get("watchPaths")
    if paths is None or hook.event not in _WATCHES:
        return None
    if not is_array(paths) or not all(isinstance(path, str) for path in paths):
        raise _Faulty("watchPaths must be a list of paths")
    return tuple(map(str, paths))


def _decision(
    hook: Hook, printed: Mapping[str, Json], specific: Mapping[str, Json]
) -> tuple[Decision | None, str, Mapping[str, Json] | None]:
    word: Json = specific.get("permissionDecision", printed.get("decision"))
    reason = _text(specific, "permissionDecisionReason") or _text(printed, "reason")
    updated: Json = specific.get("updatedInput")
    request: Json = specific.get("decision", word if isinstance(word, dict) else None)
    if hook.event == "PermissionRequest" and request is not None:
        if not isinstance(request, dict):
            raise _Faulty("decision must be an object with behavior")
        word, updated = request.get("behavior"), request.get("updatedInput")
        reason = _text(request, "message")
    if updated is not None and not isinstance(updated, dict):
        raise _Faulty("updatedInput must be an object")
    if word is None:
        return None, reason, updated
    decision = _WORDS.get(word) if isinstance(word, str) else None
    if decision is None:
        raise _Faulty(f"its decision must be allow, ask or deny, not {word!r}")
    return decision, reason or ("no reason given" if decision != "allow" else ""), updated


def _interrupts(hook: Hook, printed: Mapping[str, Json], specific: Mapping[str, Json]) -> bool:
    """Return whether the refusal of a permission also ends the run."""
    request = specific.get("decision", printed.get("decision"))
    if hook.event != "PermissionRequest" or not isinstance(request, dict):
        return False
    return request.get("interrupt") is True


def _text(printed: Mapping[str, Json], key: str) -> str:
    value = printed.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _Faulty(f"{key} must be text")
    return value
