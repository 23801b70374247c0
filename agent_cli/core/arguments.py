"""Check the options of a run, and the verdicts of its hooks, before anything changes.

The options and the record keep a wrong value that is accepted: it fails in every later request.
"""

from collections.abc import Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Final, get_args

from agent_cli.contracts import options
from agent_cli.contracts.errors import AgentCliError
from agent_cli.contracts.options import (
    Function,
    require,
    require_input,
    require_number,
    require_one_of,
    require_whole,
)
from agent_cli.contracts.provider import Model, ProviderRegistry
from agent_cli.contracts.tooling import Allow, Approval, Ask, Deny, Tool, Verdict

if TYPE_CHECKING:
    from agent_cli.core.loop_config import LoopConfig

_CHOICES: Final[Mapping[str, tuple[str | None, ...]]] = {
    "thinking_level": (*get_args(options.ThinkingLevel), None),
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


def check_options(config: "LoopConfig") -> None:
    """Raise `AgentCliError` if an option cannot be used, or two tools have one name."""
    for name, kinds in _KINDS.items():
        require(getattr(config, name), *kinds, what=name)
    for name, choices in _CHOICES.items():
        require_one_of(getattr(config, name), choices, what=name)
    for name in _FUNCTIONS:
        if (hook := getattr(config, name)) is not None:  # most are: each turn asks this twice
            require(hook, Function, type(None), what=name)
    for contributor in config.prepare:
        require(contributor, Function, what="each of prepare")
    _check_numbers(config)
    require_unique_names(config.tools)


def require_unique_names(tools: Sequence[Tool]) -> None:
    """Raise `AgentCliError`, saying where each is defined, when two of *tools* share a name."""
    at = {x.name: [each.execute.__module__ for each in tools if each.name == x.name] for x in tools}
    if twice := [f"{name} ({', '.join(each)})" for name, each in at.items() if len(each) > 1]:
        raise AgentCliError(f"more than one tool is named {', '.join(twice)}: rename or remove one")


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
        require_one_of(level, get_args(options.ThinkingLevel), what="each key of thinking_budgets")
        require_whole(tokens, 0, what=f"thinking_budgets[{level!r}]")


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
        require(verdict.holds, Function, what="holds of a verdict")
    return verdict


def checked_approval(approval: object) -> Approval:
    """Return *approval* if it is one; raises `AgentCliError` if not."""
    require(approval, Approval, what="what require_approval returns")
    assert isinstance(approval, Approval)
    return approval
