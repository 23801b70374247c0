"""The output and exit status of hooks, combined into one decision."""

import json

import pytest

from agent_cli.hooks.answers import HookAnswer, HookOutcome, merged, read_answer
from agent_cli.hooks.definition import Hook
from tests.tables import each_row


def said(event: str, stdout: object = "", *, code: int = 0, stderr: str = "") -> HookAnswer:
    text = stdout if isinstance(stdout, str) else json.dumps(stdout)
    fault = "" if code in (0, 2) else f"it ended with exit code {code}; correct it"
    return read_answer(
        Hook(event=event, command="guard"), HookOutcome(code, text, stderr, fault=fault)
    )


def specific(event: str, *, code: int = 0, **fields: object) -> HookAnswer:
    return said(event, {"hookSpecificOutput": {"hookEventName": event, **fields}}, code=code)


@each_row(
    ("word", "decision"), [("allow", "allow"), ("deny", "deny"), ("ask", "ask"), ("defer", "ask")]
)
def test_json_output_of_a_guard_decides(word: str, decision: str) -> None:
    answer = specific("PreToolUse", permissionDecision=word, permissionDecisionReason="why")

    assert (answer.decision, answer.reason) == (decision, "why")


def test_fields_of_the_event_count_beside_the_object_for_them_too() -> None:
    """A guard that printed {"permissionDecision": "deny"} let every call run."""
    refusal = said("PreToolUse", {"permissionDecision": "deny", "reason": "why"})
    changed = said("PreToolUse", {"updatedInput": {"command": "ls"}})
    watched = said("SessionStart", {"watchPaths": ["a.py"]})
    filled = said("Elicitation", {"action": "decline"})
    behind = said("PreToolUse", 'Welcome!\n{"permissionDecision": "deny", "reason": "why"}')

    assert (refusal.decision, refusal.reason) == (behind.decision, behind.reason) == ("deny", "why")
    assert (changed.updated, watched.watch) == ({"command": "ls"}, ("a.py",))
    assert filled.filled and filled.filled.action == "decline"


@each_row("event", ["PreToolUse", "PermissionRequest", "UserPromptSubmit", "Stop", "PreCompact"])
def test_exit_code_2_denies_with_stderr_as_the_reason(event: str) -> None:
    assert said(event, code=2, stderr="not here\n") == HookAnswer("deny", "not here")


def test_exit_code_2_after_a_tool_passes_stderr_to_the_model() -> None:
    answer = said("PostToolUse", code=2, stderr="lint: 3 errors")
    printed = said("PostToolUse", "a.py:1: F401\n", code=2)
    silent = said("PostToolUse", code=2)

    assert printed.contexts == ("a.py:1: F401",)
    assert [words.partition(" hook ")[0] for words in silent.contexts] == ["the PostToolUse"]

    assert (answer.decision, answer.contexts) == (None, ("lint: 3 errors",))


@each_row("code", [1, 3, 137])
@each_row(("word", "decision"), [("deny", "deny"), ("ask", "ask")])
def test_refusal_in_json_counts_whatever_the_exit_code(code: int, word: str, decision: str) -> None:
    """The model reads the reason that the script gives, and not that the script must be mended."""
    answer = specific(
        "PreToolUse", code=code, permissionDecision=word, permissionDecisionReason="why"
    )

    assert (answer.decision, answer.reason, answer.fault) == (decision, "why", "")


def test_hook_that_fails_never_allows_or_changes_a_call() -> None:
    """It may have ended before it had looked at everything."""
    answer = specific(
        "PreToolUse", code=1, permissionDecision="allow", updatedInput={"command": "ls"}
    )

    assert (answer.decision, answer.updated) == ("deny", None)
    assert "exit code 1" in answer.fault


def test_failed_hook_behind_a_tool_tells_the_model_only_a_refusal() -> None:
    """Plain text of a failed SessionStart hook is no context either."""
    blocks = json.dumps({"decision": "block", "reason": "lint: 3 errors"})

    assert said("PostToolUse", blocks, code=1).contexts == ("lint: 3 errors",)
    assert said("SessionStart", "half a text", code=1).contexts == ()


def test_reason_in_json_counts_with_exit_code_2_where_stderr_gives_none() -> None:
    blocks = {"permissionDecision": "deny", "permissionDecisionReason": "why"}
    printed = json.dumps({"hookSpecificOutput": blocks})

    assert said("PreToolUse", printed, code=2) == HookAnswer("deny", "why")
    assert said("PreToolUse", printed, code=2, stderr="mine") == HookAnswer("deny", "mine")
    blocks = {"decision": "block", "reason": "lint"}
    assert said("PostToolUse", json.dumps(blocks), code=2).contexts == ("lint",)


@each_row(
    "printed",
    [
        "{not json",
        {"hookSpecificOutput": {"permissionDecision": "dney"}},
        {"hookSpecificOutput": {"hookEventName": "Stop", "permissionDecision": "allow"}},
        {"hookSpecificOutput": []},
        {"hookSpecificOutput": {"updatedInput": "ls"}},
        {"decision": 5},
        '{"a":' * 100_000,
    ],
)
def test_invalid_output_of_a_guard_denies(printed: object) -> None:
    """A typo in a decision must not allow the call."""
    answer = said("PreToolUse", printed)

    assert answer.decision == "deny"
    assert "correct what it prints" in answer.reason


@pytest.mark.parametrize("answer", ['{"decision": "block", "reason": "no"}', ""])
def test_answer_behind_the_announcement_of_a_late_one_counts(answer: str) -> None:
    """A hook may print `{"async": true}` first; it is waited for all the same."""
    found = said("PreToolUse", '{"async": true, "asyncTimeout": 1000}\n' + answer)
    other = said("PreToolUse", '{"continue": true}\n{"decision": "allow"}')

    assert (found.decision, found.fault) == ("deny" if answer else None, "")
    assert other.decision == "deny"
    assert "more follows its object" in other.reason


@pytest.mark.parametrize("noise", ["Shell ready\n", "{ nvm }\nready\n\n", "a\n{b\n"])
def test_an_answer_behind_other_lines_counts(noise: str) -> None:
    """A shell profile or a tool prints before the guard does; its no must not get lost."""
    no = {"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "no"}}

    answer = said("PreToolUse", f"x{noise}{json.dumps(no, indent=2)}\n")

    assert (answer.decision, answer.reason) == ("deny", "no")


def test_text_with_braces_is_no_answer() -> None:
    """Only an object that ends the output is an answer."""
    answer = said("UserPromptSubmit", 'See:\n{"decision": "block"}\nin the docs')

    assert answer == HookAnswer(contexts=('See:\n{"decision": "block"}\nin the docs',))


@pytest.mark.parametrize("event", ["UserPromptSubmit", "SessionStart"])
def test_a_file_of_json_behind_a_line_is_context(event: str) -> None:
    """As `echo package.json:; cat package.json` prints: its keys are not those of an answer."""
    text = 'package.json:\n{\n  "name": "x",\n  "reason": 3\n}'

    assert said(event, f"{text}\n") == HookAnswer(contexts=(text,))


def test_an_answer_behind_other_lines_allows_nothing() -> None:
    """A hook that prints a command or a file prints words of the model or of a stranger."""
    yes = {"permissionDecision": "allow", "updatedInput": {"command": "ls"}}

    assert said("PreToolUse", f"checks:\n{json.dumps({'hookSpecificOutput': yes})}") == HookAnswer()
    assert said("PreToolUse", 'checks:\n{"decision": "approve"}') == HookAnswer()
    filled = {"hookSpecificOutput": {"action": "accept", "content": {"code": "1"}}}
    assert said("Elicitation", f"asked:\n{json.dumps(filled)}") == HookAnswer()


def test_bad_json_of_an_observing_hook_is_reported_to_the_user() -> None:
    answer = said("PostToolUse", "{nonsense")

    assert answer.decision is None
    assert "bad JSON" in answer.messages[0]


@pytest.mark.parametrize(
    ("event", "contexts"), [("UserPromptSubmit", ("on main",)), ("PreToolUse", ())]
)
def test_plain_text_output_is_context_for_prompt_hooks_only(
    event: str, contexts: tuple[str, ...]
) -> None:
    assert said(event, "on main\n") == HookAnswer(contexts=contexts)


def test_permission_request_hook_decides_by_behavior() -> None:
    answer = specific(
        "PermissionRequest", decision={"behavior": "allow", "updatedInput": {"command": "ls"}}
    )

    assert (answer.decision, answer.updated) == ("allow", {"command": "ls"})


def test_continue_false_ends_the_run() -> None:
    assert said("PostToolUse", {"continue": False, "stopReason": "enough"}).stops == "enough"


def test_block_reason_after_a_tool_reaches_the_model() -> None:
    assert said("PostToolUse", {"decision": "block", "reason": "bad"}).contexts == ("bad",)


def test_strictest_decision_of_several_hooks_wins() -> None:
    """Deny comes before ask, and ask before allow."""
    allow, ask, deny = HookAnswer("allow"), HookAnswer("ask", "sure?"), HookAnswer("deny", "no")

    assert merged([allow, ask, deny]).decision == "deny"
    assert merged([allow, ask]) == HookAnswer("ask", "sure?")
    assert merged([HookAnswer(), allow]).decision == "allow"
    assert merged([]) == HookAnswer()


def test_allow_does_not_cover_an_input_that_another_hook_changed() -> None:
    """The hook that allows has seen the input of the model."""
    allow, change = HookAnswer("allow"), HookAnswer(updated={"command": "a"})

    assert merged([allow, change]) == HookAnswer(updated={"command": "a"})
    assert merged([allow, HookAnswer("allow", updated={"command": "a"})]).decision == "allow"


def test_conflicting_input_rewrites_of_two_hooks_deny_the_call() -> None:
    """The result would depend on which hook is faster."""
    one, other = HookAnswer(updated={"command": "a"}), HookAnswer(updated={"command": "b"})

    assert merged([one, one]).updated == {"command": "a"}
    assert merged([one, other]).decision == "deny"


def test_half_an_emoji_in_an_answer_is_replaced() -> None:
    """JavaScript cuts texts there; UTF-8, and so the log and the session, cannot encode it."""
    cut = r'{"decision": "block", "reason": "no \ud83d", "systemMessage": "\ud83d\ude00"}'

    answer = said("PreToolUse", cut)

    assert (answer.reason, answer.messages) == ("no \ufffd", ("\U0001f600",))
