"""`agent-cli hooks`: list lifecycle hooks, try one with an input, print Claude Code's hooks."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from agent_cli.app import parts
from agent_cli.app.hooks import defined_hooks, environment_of_hooks, listed
from agent_cli.app.hooks.confinement import HookConfinement
from agent_cli.app.startup import StartupContext
from agent_cli.contracts.claude_tools import our_tool_name
from agent_cli.contracts.errors import SettingsError, UsageError
from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.timeline import Json
from agent_cli.hooks.claude_terms import to_claude
from agent_cli.hooks.events import EVENTS, Payloads
from agent_cli.hooks.run import HookEnvironment
from agent_cli.hooks.runs import HookRuns
from agent_cli.settings import CLAUDE_FILES
from agent_cli.settings.files import ClaudeFile
from agent_cli.system.event_loop import run_loop
from agent_cli.system.json_text import not_json
from agent_cli.system.sanitize import reveal
from agent_cli.system.shapes import is_mapping, is_object, is_sequence

_USAGE = "write agent-cli hooks list, test EVENT [--input FILE], or import"
_COMMAND = ToolCall("toolu_test", "bash", {"command": "ls"})
# Sample payloads of events that are not about a tool call.
_CANNED: Mapping[str, dict[str, Json]] = {
    "UserPromptSubmit": {"prompt": "hello"},
    "SessionStart": {"source": "startup"},
    "SessionEnd": {"reason": "other"},
    "Stop": {"stop_hook_active": False, "last_assistant_message": "Done."},
    "PreCompact": {"trigger": "manual", "custom_instructions": ""},
    "PostCompact": {"trigger": "manual", "custom_instructions": ""},
    "Notification": {"message": "a test", "notification_type": "permission_prompt"},
}
# The field of such a payload that a matcher is compared with.
_MATCHED = {
    "SessionStart": "source",
    "SessionEnd": "reason",
    "PreCompact": "trigger",
    "PostCompact": "trigger",
    "Notification": "notification_type",
}


def run(words: Sequence[str], startup: StartupContext) -> int:
    """Run the subcommand in *words*; return 1 when a hook cannot be used.

    Raises:
        UsageError: They are not valid.
    """
    match words:
        case ["list"]:
            return _list(startup)
        case ["import"]:
            return _import(startup)
        case ["test", event]:
            return _test(startup, event, None)
        case ["test", event, "--input", file] | ["test", "--input", file, event]:
            return _test(startup, event, Path(file))
        case _:
            raise UsageError(_USAGE)


def _list(startup: StartupContext) -> int:
    hooks, faults = defined_hooks(startup)
    for line in listed(hooks) or ["no hooks are defined"]:
        print(reveal(line))
    for text in (*startup.notices, *faults):
        print(f"agent-cli: {reveal(text)}", file=sys.stderr)
    return 1 if faults else 0


def _test(startup: StartupContext, event: str, file: Path | None) -> int:
    if event not in EVENTS:
        raise UsageError(f"there is no event {event}; there are {', '.join(EVENTS)}")
    payload = _payload(startup, event) | (_read(file) if file else {})
    name = str(payload.get("tool_name", ""))
    names: tuple[str, ...] = (str(payload.get(_MATCHED.get(event, ""), "")),)
    if name:
        tool_input = payload.get("tool_input")
        names = (name, *to_claude(our_tool_name(name), tool_input, startup.workspace).names)
    sandbox = parts.sandbox(startup)
    around = HookEnvironment(
        startup.workspace, environment_of_hooks(startup), prepare=HookConfinement(startup, sandbox)
    )
    runs = HookRuns(defined_hooks(startup)[0], around)
    matching = runs.matching(event, names)
    if not matching:
        print(f"no hook matches {event} {names[0]}".rstrip())
        return 0
    try:
        answer = run_loop(runs.run(matching, payload))
    finally:
        sandbox.close()
    for ran in runs.done:
        reason = ran.answer.reason or ran.answer.fault
        print(reveal(f"{ran}: {reason}" if reason else str(ran)))
    print(f"together: {answer.decision or 'no decision'}")
    if answer.updated is not None:
        print(f"input: {json.dumps(answer.updated, ensure_ascii=False)}")
    return 1 if answer.fault else 0


def _payload(startup: StartupContext, event: str) -> dict[str, Json]:
    mode = startup.loaded.settings.permissions.mode
    payloads = Payloads(startup.workspace, lambda: "test", lambda: "", lambda: mode)
    if event in _CANNED:
        return payloads.payload(event, **_CANNED[event])
    theirs = payloads.translated(_COMMAND)
    return payloads.about_call(event, _COMMAND.id, theirs)


def _read(file: Path) -> dict[str, Json]:
    try:
        payload = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"--input: {file} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"--input: {not_json(file, error)}") from error
    if not is_object(payload):
        raise UsageError(f"--input: {file} must hold one JSON object")
    return payload


def _import(startup: StartupContext) -> int:
    """Print the hooks of Claude Code's settings files in the format of our settings."""
    files = [Path.home() / CLAUDE_FILES[0]]
    files += [startup.workspace / name for name in CLAUDE_FILES]
    found = 0
    for path in dict.fromkeys(files):
        try:
            file = ClaudeFile.read(path) if path.is_file() else None
            written = [*file.hooks(from_project=True)] if file else []
        except SettingsError as error:
            raise UsageError(str(error)) from error
        if written:
            print(f"# from {ascii(str(path))[1:-1]}")
        for group in written:
            fields: Mapping[str, object] = group.group if is_mapping(group.group) else {}
            print(f"[[hooks.{_key(group.event)}]]")
            for name, value in fields.items():
                print(f"{_key(name)} = {_toml(value)}")
            print()
            found += 1
    message = "put them into appsettings.toml" if found else "no Claude hooks found"
    print(f"agent-cli: {message}", file=sys.stderr)
    return 0


def _key(name: str) -> str:
    return name if name.isascii() and name.isidentifier() else json.dumps(name, ensure_ascii=False)


def _toml(value: object) -> str:
    if is_mapping(value):
        kept = {name: part for name, part in value.items() if part is not None}
        pairs = (f"{_key(str(name))} = {_toml(part)}" for name, part in kept.items())
        return "{ " + ", ".join(pairs) + " }"
    if is_sequence(value):
        return "[" + ", ".join(_toml(part) for part in value if part is not None) + "]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
