"""Parse hooks in the format of Claude Code's settings: groups per event, each with its hooks.

    {"matcher": "Bash|Edit", "hooks": [{"type": "command", "command": "guard.py", "timeout": 30}]}

A guarding hook with a faulty definition is kept with its `fault`: it blocks and says why, because
leaving it out would remove the protection.
"""

import json
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, TypeAlias, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from agent_cli.contracts.claude_tools import claude_tool_name, exact_names, may_match
from agent_cli.contracts.errors import SettingsError
from agent_cli.contracts.input_faults import fault_line
from agent_cli.contracts.options import Function, require, require_number
from agent_cli.contracts.written_hooks import GUARDED, NOT_HERE, folded_keys
from agent_cli.hooks.events import ABOUT_CALLS, EVENTS, JUDGED, MATCHED, HookFunction
from agent_cli.hooks.file_watch import covers_file, pattern_fault
from agent_cli.system.records import dataclass, field
from agent_cli.system.shapes import is_mapping, is_sequence

_Type: TypeAlias = Literal["command", "http", "prompt", "agent", "mcp_tool"]
_JUDGES: Final[tuple[_Type, ...]] = ("prompt", "agent")
_SHOWN_CHARS: Final = 60

TIMEOUT_MAX_S: Final = 3_600.0
# Claude Code's, but that of addresses (there 600 s) and of SessionEnd (there 1.5 s in all).
_COMMAND_S: Final = 600.0
_PROMPT_S: Final = 30.0
_ANSWER_S: Final = 60.0
_END_S: Final = 5.0
_END_MAX_S: Final = 60.0

_ALL = ("", "*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """One hook: a command, a URL, a function of a Python program, a prompt or a server's tool.

    Attributes:
        event: The event that it is run for ("PreToolUse", "Stop", ...); docs/hooks.md lists them.
        matcher: "" matches all; else names joined by "|" or ",", or a regular expression. Names of
            tools are Claude Code's or ours, a regular expression is compared with Claude Code's.
            For files: names, paths below the workspace and patterns as in `.gitignore`.
        command: A shell command, or with `args` a program.
        args: None runs `command` in a shell.
        function: A Python program's own `async def`, called with a `HookEvent`.
        prompt: What a model, or with `is_agent` an agent that reads files, judges the event by.
        model: The model that judges; "" for the small one.
        server, tool: The MCP server and its tool to call, with the JSON object `arguments`.
        allowed_variables: Variables that a program gets beside the harmless ones (PATH, HOME, ...),
            and that `headers` may contain.
        condition: A permission rule; the hook runs only for calls that it covers. "" for all.
        timeout_s: The time limit of its definition; see `limit_s`.
        once: Whether it runs only once per session.
        background: Whether nothing waits for it, so that its answer decides nothing.
        wakes: Whether the model goes on with its words if it ends, in the background, with exit
            code 2; `wake_message` stands before them, and `wake_summary` is what the user sees.
        opens: Whether the action goes ahead if the hook cannot run.
        outside: Whether the user wants it to run outside the sandbox in any case; of no effect
            in a file of the workspace.
        answers: Whether it gets signed answers to the question that it tells of; of no effect for
            any hook but a Notification of the user's own.
        status: The text to show while it runs.
        origin: The file that defines it.
        is_project: Whether a file of the workspace defines it.
        root: The folder of the plugin that brings it, or ""; such a hook runs in the sandbox.
        variables: The plugin's folders and its user's values, for its environment.
        ignored: Its unknown keys.
        fault: Why it cannot be used, and how to fix it, or "".
    """

    event: str
    matcher: str = ""
    command: str = ""
    args: tuple[str, ...] | None = None
    function: HookFunction | None = None
    url: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    prompt: str = ""
    is_agent: bool = False
    model: str = ""
    server: str = ""
    tool: str = ""
    arguments: str = ""
    allowed_variables: tuple[str, ...] = ()
    condition: str = ""
    timeout_s: float | None = None
    once: bool = False
    background: bool = False
    wakes: bool = False
    wake_message: str = ""
    wake_summary: str = ""
    opens: bool = False
    status: str = ""
    outside: bool = False
    answers: bool = False
    origin: str = ""
    is_project: bool = False
    root: str = ""
    variables: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    ignored: tuple[str, ...] = ()
    fault: str = ""

    @property
    def is_about_calls(self) -> bool:
        """Whether its matcher is compared with the name of a tool."""
        return self.event in ABOUT_CALLS

    @property
    def is_foreign(self) -> bool:
        """Whether someone else wrote it: a project or a plugin, trusted by the user or not."""
        return self.is_project or bool(self.root)

    @property
    def guards(self) -> bool:
        """Whether it blocks when it cannot run."""
        return self.event in GUARDED and not self.background and not self.opens

    @property
    def limit_s(self) -> float:
        """The time limit of the definition; without one, the usual one of the event and kind."""
        if self.event == "SessionEnd":
            return _END_S if self.timeout_s is None else min(self.timeout_s, _END_MAX_S)
        if self.timeout_s is not None:
            return min(self.timeout_s, TIMEOUT_MAX_S)  # many published ones mean milliseconds
        if self.event == "UserPromptSubmit" or (self.prompt and not self.is_agent):
            return _PROMPT_S
        return _COMMAND_S if self.command or self.server else _ANSWER_S

    @property
    def shown(self) -> str:
        """The command it runs, or the URL or function it calls, for display."""
        if self.function:
            return getattr(self.function, "__qualname__", type(self.function).__name__)
        if self.prompt:
            asked = "agent" if self.is_agent else "prompt"
            return f"{asked}: {' '.join(self.prompt.split())[:_SHOWN_CHARS]}"
        if self.server:
            return f"{self.tool} of MCP server {self.server}"
        return self.url or " ".join((self.command, *(self.args or ()))) or "(unusable)"

    @property
    def file_names(self) -> tuple[str, ...]:
        """The names and patterns of files that its matcher lists, for a FileChanged hook."""
        is_listed = self.event == "FileChanged" and self.matcher not in _ALL
        listed = self.matcher.split("|") if is_listed else ()
        # `./a.py` and `/a.py` are of the root alone, as in .gitignore; `a.py` is of any folder.
        return tuple(re.sub(r"^\./", "/", each.strip()) for each in listed)

    def may_match(self, tools: Collection[str]) -> bool:
        """Return whether it can ever run in a session with *tools*; when in doubt, it can."""
        if self.matcher in _ALL or self.fault:
            return True
        if self.is_about_calls:
            return may_match(self.matcher, tools)
        return self.event not in MATCHED or self.matches(MATCHED[self.event])

    def matches(self, names: Sequence[str]) -> bool:
        """Return whether the matcher matches any of *names*; a faulty hook matches every name."""
        if self.matcher in _ALL or self.fault:
            return True
        if self.event == "FileChanged":
            return any(covers_file(name, names) for name in self.file_names)
        if listed := exact_names(self.matcher):
            if self.is_about_calls:
                listed |= {claude_tool_name(name) for name in listed}
            return not listed.isdisjoint(names)
        return any(re.search(self.matcher, name) for name in names)


@dataclass(frozen=True, slots=True)
class HookGroup:
    """An entry of a file for one event: a matcher with its hooks, not validated yet."""

    event: str
    written: object
    origin: str
    is_project: bool = False
    root: str = ""
    variables: tuple[tuple[str, str], ...] = field(default=(), repr=False)


class _Written(BaseModel):
    """A hook's table; it accepts Claude Code's names of keys and ours."""

    model_config = ConfigDict(strict=True)

    type: _Type = "command"
    command: str = ""
    args: list[str] | None = None
    url: str = ""
    headers: dict[str, str] = Field(default_factory=dict)
    prompt: str = ""
    model: str = ""
    server: str = ""
    tool: str = ""
    input: dict[str, Any] = Field(default_factory=dict)
    allowedenvvars: list[str] = Field(default_factory=list)
    condition: str = Field("", alias="if")
    timeout: float | None = Field(None, gt=0)
    once: bool = False
    background: bool = Field(default=False, alias="async")
    asyncrewake: bool = False
    rewakemessage: str = ""
    rewakesummary: str = ""
    onfailure: Literal["block", "allow", "continue"] = "block"
    sandbox: bool = True
    answers: bool = False
    statusmessage: str = ""
    shell: Literal["bash"] = "bash"

    @model_validator(mode="after")
    def _has_what_it_runs(self) -> "_Written":
        if self.type == "command" and not self.command.strip():
            raise ValueError("a command hook needs a command")
        if any("\0" in word for word in (self.command, *(self.args or ()))):
            raise ValueError("a command cannot hold the character NUL")
        if self.type == "http" and not re.match(r"https?://[^\s/]", self.url):
            raise ValueError("an http hook needs a url that begins with http:// or https://")
        if self.type in _JUDGES and not self.prompt.strip():
            raise ValueError(f"a hook of the type {self.type} needs a prompt")
        if self.type == "mcp_tool" and not (self.server and self.tool):
            raise ValueError("a hook of the type mcp_tool needs a server and a tool")
        if self.answers and self.type not in ("command", "http"):
            raise ValueError("answers are for hooks of the types command and http")
        return self


_KEYS: Final = frozenset(field.alias or name for name, field in _Written.model_fields.items())


def parse_hooks(groups: Sequence[HookGroup]) -> tuple[list[Hook], list[str]]:
    """Return the hooks of *groups*, equal ones once, and a sentence for each problem."""
    found: dict[Hook, Hook] = {}
    problems: list[str] = []
    for group in groups:
        if group.event not in EVENTS:
            why = NOT_HERE.get(group.event) or _unknown(group.event)
            problems.append(f"{group.origin}: hooks for {group.event} do not run: {why}")
            continue
        for hook in _hooks_of(group):
            if hook.fault:
                left_out = "it blocks" if hook.guards else "it never runs"
                problems.append(f"{hook.origin}: {hook.event} hook: {hook.fault}; {left_out}")
            if hook.ignored:
                names = ", ".join(hook.ignored)
                problems.append(f"{hook.origin}: {hook.event} hook: {names} not supported; ignored")
            if hook.guards or not hook.fault:
                # Two files may define the same hook; the user's counts.
                found.setdefault(replace(hook, origin="", is_project=False), hook)
    return list(found.values()), list(dict.fromkeys(problems))


def _unknown(event: str) -> str:
    from difflib import get_close_matches  # rare

    near = get_close_matches(event, EVENTS, n=1)
    return f"there is no such event; did you mean {near[0]}?" if near else "there is no such event"


def require_usable(hook: Hook) -> None:
    """Check a hook that a Python program defines.

    Raises:
        SettingsError: Its event or its matcher is not valid, or it does not run exactly one thing.
        AgentCliError: One of its parts has another type.
    """
    if hook.event not in EVENTS:
        raise SettingsError(f"hook {hook.shown}: its event must be one of {', '.join(EVENTS)}")
    if fault := _matcher_fault(hook.event, hook.matcher):
        raise SettingsError(f"{hook.event} hook {hook.shown}: {fault}")
    if sum((bool(hook.command), bool(hook.url), hook.function is not None)) != 1:
        raise SettingsError(f"{hook.event} hook {hook.shown}: give a function, a command or a url")
    named = f"{hook.event} hook {hook.shown}: its"
    require(hook.function, Function, type(None), what=f"{named} function")
    for name in ("command", "url", "condition", "origin"):
        require(getattr(hook, name), str, what=f"{named} {name}")
    if hook.timeout_s is not None:
        require_number(hook.timeout_s, what=f"{named} timeout_s")


def _hooks_of(group: HookGroup) -> Iterator[Hook]:
    base = Hook(
        event=group.event,
        origin=group.origin,
        is_project=group.is_project,
        root=group.root,
        variables=group.variables,
    )
    if not is_mapping(group.written):
        yield replace(base, fault="it is not a table; write a matcher and hooks")
        return
    matcher, hooks = group.written.get("matcher"), group.written.get("hooks")
    if fault := _matcher_fault(group.event, matcher):
        yield replace(base, fault=fault)
        return
    base = replace(base, matcher=str(matcher or ""))
    if not is_sequence(hooks) or not hooks:
        yield replace(base, fault="it has no list named hooks; add one")
        return
    for each in hooks:
        yield _hook(base, each)


def _matcher_fault(event: str, matcher: object) -> str:
    if matcher is None or matcher in _ALL:
        return ""
    if not isinstance(matcher, str):
        return "its matcher is not a string; write a name or a regular expression"
    if event == "FileChanged":
        return next((why for each in matcher.split("|") if (why := pattern_fault(each))), "")
    try:
        re.compile(matcher)
    except re.error as error:
        return f"its matcher {matcher!r} is not a valid regular expression ({error}); correct it"
    return ""


def _hook(base: Hook, each: object) -> Hook:
    if not is_mapping(each):
        return replace(base, fault="it is not a table; write type and command")
    folded = folded_keys(each)
    kept = replace(
        base,
        command=str(folded.get("command", "")),
        url=str(folded.get("url", "")),
        opens=folded.get("onfailure") in ("allow", "continue"),
        background=True in (folded.get("async"), folded.get("asyncrewake")),
    )
    try:
        written = _Written.model_validate(folded)
    except ValidationError as error:
        return replace(kept, fault=_sentence(error))
    judges = written.type in _JUDGES
    if judges and base.event not in JUDGED:
        why = f"a hook of the type {written.type} cannot run at {base.event}; use command or http"
        return replace(kept, fault=why)
    calls = written.type == "mcp_tool"
    return replace(
        kept,
        prompt=written.prompt if judges else "",
        is_agent=written.type == "agent",
        model=written.model if judges else "",
        server=written.server if calls else "",
        tool=written.tool if calls else "",
        arguments=json.dumps(written.input) if calls else "",
        command=written.command if written.type == "command" else "",
        args=None if written.args is None else tuple(written.args),
        url=written.url if written.type == "http" else "",
        headers=tuple(written.headers.items()),
        allowed_variables=tuple(written.allowedenvvars),
        condition=written.condition,
        timeout_s=written.timeout,
        once=written.once,
        wakes=written.asyncrewake,
        wake_message=written.rewakemessage,
        wake_summary=written.rewakesummary,
        status=written.statusmessage,
        outside=not (written.sandbox or base.is_foreign),
        answers=written.answers and base.event == "Notification" and not base.is_foreign,
        ignored=tuple(key for key in folded if key not in _KEYS),
    )


def _sentence(error: ValidationError) -> str:
    first = error.errors()[0]
    if first["loc"] == ("type",):
        return f"type {first['input']!r} is not supported; use one of {', '.join(get_args(_Type))}"
    return fault_line(error)
