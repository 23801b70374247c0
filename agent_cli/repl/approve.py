"""Asking a person whether a tool may run, and showing them what exactly that would be."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, Protocol, TypeAlias

from agent_cli.events import ToolCall
from agent_cli.repl.changes import changes_of
from agent_cli.terminal.sanitize import reveal
from agent_cli.terminal.writer import Lines
from agent_cli.timeline import Json

Mode: TypeAlias = Literal["ask", "auto-edit", "plan", "yolo"]

_NOBODY: Final = (
    "This call needs a person's approval and nobody can be asked here. Go on without it, and say"
    " at the end what was left out."
)
_REFUSED: Final = "The user does not want this call to run. Do not try it again in another form."
_EDIT_MARKS: Final = {"old": "- ", "new": "+ "}
_STOPPED: Final = "The user stopped here instead of answering."


class Rule(Protocol):
    """A rule about tool calls; as text it is how somebody wrote it."""

    @property
    def origin(self) -> str:
        """Where it stands, or ""."""
        ...


class Permissions(Protocol):
    """What the terminal needs of the permission policy."""

    mode: Mode

    def rules(self) -> Iterable[tuple[str, Rule]]:
        """Return the rules in force and what they do, the strongest first."""
        ...

    def rule_for(self, call: ToolCall) -> str | None:
        """Return the rule that "always this session" would add; None when there is none."""
        ...

    def remember(self, call: ToolCall) -> None:
        """Allow calls like this one for the rest of the session."""
        ...


class Questions(Protocol):
    """What the dialogue needs of a prompt; see `TerminalPrompt.choose`."""

    @property
    def can_ask(self) -> bool:
        """Whether somebody is there to answer."""
        ...

    async def choose(self, message: str, keys: str) -> str:
        """Return one of *keys* or other text."""
        ...


@dataclass(frozen=True, slots=True)
class Approved:
    """The call may run."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """The call may not run, for *reason*; `stop` when the person wants the prompt back."""

    reason: str
    stop: bool = False


Decision: TypeAlias = Approved | Rejected


async def decide(
    call: ToolCall,
    *,
    questions: Questions,
    writer: Lines,
    permissions: Permissions,
    workspace: Path,
) -> Decision:
    """Show *call* and ask; "always" is remembered before this returns."""
    if not questions.can_ask:
        writer.notice(f"{call.name} not run: it needs an approval and nobody can be asked", "error")
        return Rejected(_NOBODY)
    rule = permissions.rule_for(call)
    writer.aside("\n".join(_question(call, rule, workspace)))
    try:
        while not (answer := (await questions.choose("allow? ", "yna" if rule else "yn")).strip()):
            pass
    except (KeyboardInterrupt, EOFError):
        return Rejected(_STOPPED, stop=True)
    match answer.lower():
        case "y" | "yes":
            return Approved()
        case "a" | "always" if rule:
            permissions.remember(call)
            return Approved()
        case "n" | "no":
            return Rejected(_REFUSED)
        case _:
            return Rejected(f"The user does not want this call to run and says: {answer}")


def preview(given: Json) -> Iterator[str]:
    """Yield the lines that show all of a call's input: command, changes, or plain values.

    Nothing is left out and nothing is hidden: what would be invisible appears as an escape.
    """
    for name, value in given.items() if isinstance(given, dict) else [("input", given)]:
        match name, value:
            case "command", str():
                yield from _marked("$ ", value)
            case "content", str():
                yield from _marked("+ ", value)
            case "edits", [*edits]:
                for edit in edits:
                    yield from _edit(edit)
            case _, str() if "\n" not in value:
                yield f"{name}: {reveal(value)}"
            case _:
                yield f"{name}: {_literal(value)}"


def _question(call: ToolCall, rule: str | None, workspace: Path) -> Iterator[str]:
    yield f"{reveal(call.name)} asks to run:"
    for line in changes_of(call.input, workspace) or preview(call.input):
        yield f"  {line}"
    if call.reason:
        yield f"why it asks: {reveal(call.reason)}"
    if rule:
        yield f"a = always this session: {reveal(rule)}"
    yield "y = yes · n = no · any other text = no, and the model reads it"


def _edit(edit: Json) -> Iterator[str]:
    if not isinstance(edit, dict):
        yield _literal(edit)
        return
    for name, value in edit.items():
        if name in _EDIT_MARKS and isinstance(value, str):
            yield from _marked(_EDIT_MARKS[name], value)
        else:
            yield f"{name}: {_literal(value)}"


def _marked(mark: str, text: str) -> Iterator[str]:
    for line in reveal(text).split("\n"):
        yield mark + line


def _literal(value: Json) -> str:
    return reveal(json.dumps(value, ensure_ascii=False))
