"""Check a caller's arguments at the door: a wrong type is refused before anything changes.

Python checks no types at run time. A wrong value that is accepted fails in the next request and in
every later one, because the record or the options keep it.
"""

import math
from collections.abc import Iterable, Mapping, MutableMapping
from typing import TYPE_CHECKING, Final, TypeVar, get_args

from agent_cli.contracts import options
from agent_cli.contracts.errors import AgentCliError
from agent_cli.contracts.frozen import is_json
from agent_cli.contracts.provider import Model, ProviderRegistry, ThinkingLevel
from agent_cli.contracts.tooling import Allow, Approval, Ask, Deny, Verdict, require_unique_names
from agent_cli.system.shapes import is_object

if TYPE_CHECKING:
    from agent_cli.core.loop_config import LoopConfig

_CHOICES: Final[Mapping[str, tuple[str | None, ...]]] = {
    "thinking_level": (*get_args(ThinkingLevel), None),
    "tool_execution": get_args(options.ToolExecution),
    "steering": get_args(options.Steering),
    "approval": get_args(options.ApprovalOrder),
}
_KINDS: Final[Mapping[str, tuple[type, ...]]] = {
    "model": (Model, type(None)),
    "system_prompt": (str,),
    "registry": (ProviderRegistry, type(None)),
    "api_key": (str, type(None)),
    "session_id": (str, type(None)),
    "user_id": (str,),
    "thinking_budgets": (Mapping,),
    "services": (Mapping,),
    "state": (MutableMapping,),
}
_FUNCTIONS: Final = (
    *("stream_fn", "transform_context", "convert_to_llm", "authorize_tool", "explain_missing"),
    *("finish_result", "get_steering_messages", "get_follow_up_messages", "wait_for_steering"),
    "get_api_key",
)
# The least value of each.
_COUNTS: Final = {"max_tokens": 1, "max_rounds": 0, "concurrency": 1}
_TEMPERATURE_MAX: Final = 2.0
_SECONDS: Final = ("tool_timeout_s", "tool_stop_timeout_s")
T = TypeVar("T")


def require(value: object, *kinds: type, what: str) -> None:
    """Raise `AgentCliError` if *value* is of none of *kinds*; *what* names it in the sentence."""
    if not isinstance(value, kinds):
        names = " or ".join("None" if kind is type(None) else kind.__name__ for kind in kinds)
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


def require_function(value: object, *, what: str) -> None:
    """Raise `AgentCliError` if *value* cannot be called."""
    if not callable(value):
        raise AgentCliError(f"{what} must be a function, not {type(value).__name__}")


def all_of(values: Iterable[T], *kinds: type, what: str) -> tuple[T, ...]:
    """Return *values* as a tuple.

    Raises:
        AgentCliError: *values* is a text or cannot be iterated, or a value is of none of *kinds*;
            without kinds, any value will do.
    """
    if isinstance(values, str | bytes) or not _is_iterable(values):
        raise AgentCliError(f"{what} must be a sequence, not {type(values).__name__}")
    found = tuple(values)
    for value in found if kinds else ():
        require(value, *kinds, what=f"each of {what}")
    return found


def _is_iterable(value: object) -> bool:
    return isinstance(value, Iterable)


def check_options(config: "LoopConfig") -> None:
    """Raise `AgentCliError` if an option cannot be used, or two tools have one name."""
    for name, kinds in _KINDS.items():
        require(getattr(config, name), *kinds, what=name)
    for name, choices in _CHOICES.items():
        require_one_of(getattr(config, name), choices, what=name)
    for name in _FUNCTIONS:
        if (function := getattr(config, name)) is not None:
            require_function(function, what=name)
    for contributor in config.prepare:
        require_function(contributor, what="each of prepare")
    _check_numbers(config)
    require_unique_names(config.tools)


def _check_numbers(config: "LoopConfig") -> None:
    for name, least in _COUNTS.items():
        require_whole(getattr(config, name), least, what=name)
    for name in _SECONDS:
        require_number(getattr(config, name), what=name)
    if config.max_retry_delay_ms is not None:
        require_whole(config.max_retry_delay_ms, 0, what="max_retry_delay_ms")
    if config.temperature is not None:
        require_number(config.temperature, most=_TEMPERATURE_MAX, what="temperature")
    for level, tokens in config.thinking_budgets.items():
        require_one_of(level, get_args(ThinkingLevel), what="each key of thinking_budgets")
        require_whole(tokens, 0, what=f"thinking_budgets[{level!r}]")


def require_input(value: object, *, what: str) -> None:
    """Raise `AgentCliError` if *value* is neither None nor a JSON object: no call has that input.

    The record of a call holds it, and the model reads it as JSON.
    """
    if value is not None and not (is_object(value) and is_json(value)):
        held = " with something that JSON cannot hold" if is_object(value) else ""
        raise AgentCliError(
            f"{what} must be a JSON object or None, not {type(value).__name__}{held}"
        )


def checked_verdict(verdict: object) -> Verdict:
    """Return *verdict* if it is one, with an input and a reason that can be recorded.

    Raises:
        AgentCliError: It is something else.
    """
    require(verdict, Allow, Deny, Ask, what="a verdict")
    assert isinstance(verdict, Allow | Deny | Ask)
    if not isinstance(verdict, Allow):
        require(verdict.reason, str, what="the reason of a verdict")
    if not isinstance(verdict, Deny):
        require_input(verdict.input, what="the input of a verdict")
    return verdict


def checked_approval(approval: object) -> Approval:
    """Return *approval* if it is one; raises `AgentCliError` if not."""
    require(approval, Approval, what="what require_approval returns")
    assert isinstance(approval, Approval)
    return approval
