"""Check a caller's arguments at the door: a wrong type is refused before anything changes.

Types are not checked at run time by themselves. What was taken here would fail in the next request,
and in every later one, because it stands in the record or in the options by then.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, TypeVar, get_args

from agent_cli.contracts import options
from agent_cli.contracts.errors import AgentCliError
from agent_cli.contracts.frozen import is_json
from agent_cli.contracts.provider import Model, ThinkingLevel
from agent_cli.contracts.tooling import Allow, Ask, Deny, Verdict, require_unique_names
from agent_cli.system.shapes import is_object

if TYPE_CHECKING:
    from agent_cli.core.loop_config import LoopConfig

_CHOICES: Final[Mapping[str, tuple[str | None, ...]]] = {
    "thinking_level": (*get_args(ThinkingLevel), None),
    "tool_execution": get_args(options.ToolExecution),
    "steering": get_args(options.Steering),
    "approval": get_args(options.ApprovalOrder),
}
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


def all_of(values: Iterable[T], *kinds: type, what: str) -> tuple[T, ...]:
    """Return *values* as a tuple.

    Raises:
        AgentCliError: They are one text or cannot be iterated, or one of them is of none of
            *kinds*; without kinds, of any.
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
    """Raise `AgentCliError` if an option is of another type, or two tools have one name."""
    require(config.system_prompt, str, what="system_prompt")
    require(config.model, Model, type(None), what="model")
    for name, choices in _CHOICES.items():
        require_one_of(getattr(config, name), choices, what=name)
    require_unique_names(config.tools)


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
