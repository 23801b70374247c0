"""Choices and defaults shared by the settings and the library's types, and checks of an option.

A default used only by a setting is in `settings/schema.py`; a default that lower layers also offer
to callers without settings is here, and both refer to it.
"""

import dataclasses
import inspect
import math
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final, Literal, TypeAlias, TypeVar

from agent_cli.contracts.errors import AgentCliError
from agent_cli.contracts.frozen import is_json
from agent_cli.system.shapes import is_object

ToolExecution: TypeAlias = Literal["parallel", "sequential"]
Steering: TypeAlias = Literal["skip_unstarted", "cancel_running", "after_batch"]
ApprovalOrder: TypeAlias = Literal["defer", "batch"]
Network: TypeAlias = bool | Literal["hosts"]
WebFetch: TypeAlias = bool | Literal["api"]
WebSearch: TypeAlias = bool | Literal["rule"]
AutoAllow: TypeAlias = Literal["never", "auto-edit", "always"]
Jitter: TypeAlias = Literal["none", "full"]
FailureKind: TypeAlias = Literal["429", "529", "5xx", "connection"]
Streaming: TypeAlias = Literal["live", "sequential"]
ThemeName: TypeAlias = Literal["dark", "light", "high-contrast", "none"]
ThemeChoice: TypeAlias = Literal["auto", "dark", "light", "high-contrast", "none"]
Notify: TypeAlias = Literal["auto", "bell", "osc9", "off"]
PlatformName: TypeAlias = Literal["anthropic", "bedrock", "vertex", "foundry", "aws"]
PlatformChoice: TypeAlias = Literal["auto"] | PlatformName
KeepWarm: TypeAlias = Literal["off", "idle", "always"]
InferenceGeo: TypeAlias = Literal["us", "global"]
ServiceTier: TypeAlias = Literal["auto", "standard_only"]
WireApi: TypeAlias = Literal["messages", "chat"]
ThinkingLevel: TypeAlias = Literal["off", "minimal", "low", "medium", "high", "xhigh"]
Effort: TypeAlias = ThinkingLevel | Literal["max"]
"""A level as it may be written: `max`, the highest of Claude Code and the API, is our `xhigh`."""

EFFORT_ALIASES: Final[Mapping[str, ThinkingLevel]] = {"max": "xhigh"}

FAST: Final = "-fast"
"""The end of a model's name or id that asks for its fast mode."""
MAX_TOKENS: Final = 32_000
MAX_ROUNDS: Final = 100
CONCURRENCY: Final = 8
TOOL_TIMEOUT_S: Final = 120
TOOL_EXECUTION: Final[ToolExecution] = "parallel"
STEERING: Final[Steering] = "skip_unstarted"
APPROVAL: Final[ApprovalOrder] = "batch"
AUTO_ALLOW: Final[AutoAllow] = "auto-edit"
USER_WORDS_CHARS: Final = 40_000
PROTECTED_TAIL_MESSAGES: Final = 6
JOBS_MAX: Final = 8
JOB_TIMEOUT_S: Final = 7_200

READ_TIMEOUT_S: Final = 90
STALL_TIMEOUT_S: Final = 600
RETRIES: Final = 5
RETRY_BASE_S: Final = 10
RETRY_OTHER_BASE_S: Final = 1
RETRY_FACTOR: Final = 2
RETRY_JITTER: Final[Jitter] = "none"
MAX_SERVER_DELAY_S: Final = 60

MCP_STARTUP_TIMEOUT_S: Final = 30
MCP_CALL_TIMEOUT_S: Final = 300

STREAMING: Final[Streaming] = "live"
THEME: Final[ThemeChoice] = "auto"
NOTIFY: Final[Notify] = "auto"

UNDO_KEEP_DAYS: Final = 30
T = TypeVar("T")

# Python checks no types at run time: a wrong value that is accepted fails far from its cause.


class _Callables(type):
    def __instancecheck__(cls, value: object) -> bool:
        return callable(value)


class Function(metaclass=_Callables):
    """Stands for all that can be called, as a kind of `require`."""


_SHOWN: Final = {type(None): "None", Function: "a function"}


def require(value: object, *kinds: type, what: str) -> None:
    """Raise `AgentCliError` if *value* is of none of *kinds*; *what* names it in the sentence."""
    if not isinstance(value, kinds):
        names = " or ".join(_SHOWN.get(kind, kind.__name__) for kind in kinds)
        raise AgentCliError(f"{what} must be {names}, not {type(value).__name__}")


def require_one_of(value: object, choices: Iterable[str | None], *, what: str) -> None:
    """Raise `AgentCliError` if *value* is none of *choices*."""
    known = tuple(choices)
    if not any(value is each or (isinstance(value, str) and value == each) for each in known):
        raise AgentCliError(f"{what} must be one of {', '.join(map(repr, known))}, not {value!r}")


def require_whole(value: object, least: int, *, what: str) -> None:
    """Raise `AgentCliError` unless *value* is a whole number from *least*; True is none."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise AgentCliError(f"{what} must be a whole number from {least}, not {_shown(value)}")


def require_number(value: object, *, most: float = math.inf, what: str) -> None:
    """Raise `AgentCliError` unless *value* is a number from 0 to *most*; True and NaN are none."""
    # Written so that NaN, which is neither below nor above, is refused.
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= most:
        limit = f" to {most:g}" if most < math.inf else ""
        raise AgentCliError(f"{what} must be a number from 0{limit}, not {_shown(value)}")


def _shown(value: object) -> str:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return f"{value}" if is_number else type(value).__name__


def all_of(values: Iterable[T], *kinds: type, what: str) -> tuple[T, ...]:
    """Return *values* as a tuple.

    Raises:
        AgentCliError: *values* is a text or cannot be iterated, or a value is of none of *kinds*;
            without kinds, any value will do.
    """
    if isinstance(values, str | bytes) or not _is_iterable(values):
        raise AgentCliError(f"{what} must be a sequence, not {type(values).__name__}")
    found = tuple(values)
    # Each turn asks this about every message, whose types are few.
    is_right = not kinds or {*map(type, found)}.issubset(kinds)
    for value in () if is_right else found:
        require(value, *kinds, what=f"each of {what}")
    return found


def require_all(values: Iterable[object], *kinds: type, what: str) -> None:
    """Raise `AgentCliError` as `all_of` does, or if *values* can be read only once.

    The check would use up a generator, and leave no rule or no tool.
    """
    if isinstance(values, Iterator):
        raise AgentCliError(f"{what} must be a sequence, not {type(values).__name__}")
    all_of(values, *kinds, what=what)


def _is_iterable(value: object) -> bool:
    return isinstance(value, Iterable)


def require_input(value: object, *, what: str) -> None:
    """Raise `AgentCliError` unless *value* is None or a JSON object, as the input of a call is.

    The record of a call holds it, and the model reads it as JSON.
    """
    if value is not None and not (is_object(value) and is_json(value)):
        held = " with something that JSON cannot hold" if is_object(value) else ""
        raise AgentCliError(
            f"{what} must be a JSON object or None, not {type(value).__name__}{held}"
        )


_BY_NAME: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_MANY: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def require_fields(kind: type[Any], of: type) -> None:  # Any: a dataclass
    """Raise `AgentCliError` unless a copy of a *kind* can be made from its fields alone, by name.

    Args:
        kind: A subclass, which may have an `__init__` of its own.
        of: Its base, for the message.
    """
    taken = inspect.signature(kind).parameters.values()
    fields = {each.name for each in dataclasses.fields(kind) if each.init}
    named = {each.name for each in taken if each.kind in _BY_NAME}
    takes_any = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in taken)
    needed = {each.name for each in taken if each.default is each.empty and each.kind not in _MANY}
    if not (needed <= fields & named and (takes_any or fields <= named)):
        raise AgentCliError(
            f"{kind.__name__}.__init__ must take every field of {of.__name__} by name and need"
            f" nothing else, for copies; or write a function that returns a {of.__name__}"
        )


def is_async(execute: object) -> bool:
    """Return whether calling *execute* returns an awaitable, as far as inspection can tell."""
    while isinstance(execute, partial):
        execute = execute.func
    if not inspect.isroutine(execute):
        execute = getattr(execute, "__call__", None)  # noqa: B004 - the method, not whether
    return inspect.iscoroutinefunction(execute)
