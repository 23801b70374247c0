"""Translate thinking levels into the parameters of each model generation; pure."""

from typing import Literal

from agent_cli.contracts.errors import ModelError
from agent_cli.contracts.provider import Model, ModelRequest, ThinkingLevel
from agent_cli.contracts.timeline import Json
from agent_cli.providers.anthropic.models import with_known_facts

MIN_BUDGET_TOKENS = 1024
DEFAULT_BUDGETS: dict[ThinkingLevel, int] = {
    "minimal": 1024,
    "low": 4096,
    "medium": 10_000,
    "high": 20_000,
    "xhigh": 32_000,
}
EFFORTS: dict[ThinkingLevel, Literal["low", "medium", "high", "xhigh"]] = {
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "xhigh",
}


def thinking_parameters(request: ModelRequest, *, compat: bool) -> dict[str, Json]:
    """Return `thinking` and `output_config` for *request*; empty means the model's default.

    Raises:
        ModelError: The model cannot think at the level asked for.
    """
    model, level = with_known_facts(request.model), request.thinking_level
    if level is None:
        known = "adaptive" in model.thinking and not compat
        return {"thinking": _adaptive(compat=compat)} if known else {}
    if level == "off":
        return _off(model)
    if not (model.thinking or compat):
        return {}  # an unknown model may be an older one that rejects what newer ones need
    if "adaptive" in model.thinking:
        return _effort(model, level, compat=compat)
    return {"thinking": {"type": "enabled", "budget_tokens": _budget(request, level)}}


def effort_level(model: Model | None, level: ThinkingLevel | None) -> str:
    """Return the effort that *model* is asked for at *level*, in the API's words; "" for none."""
    effort = EFFORTS.get(level, "") if level and level != "off" else ""
    return effort if model and effort in with_known_facts(model).efforts else ""


def level_for(model: Model, level: ThinkingLevel | None) -> ThinkingLevel | None:
    """Return *level* if *model* can be asked for it, else None, which means the model's default."""
    known = with_known_facts(model)
    if level is None or not known.thinking:
        return level
    if level == "off":
        return level if known.thinking & {"disabled", "between_tools"} else None
    return level if not known.efforts or EFFORTS[level] in known.efforts else None


def _adaptive(*, compat: bool) -> dict[str, Json]:
    if compat:
        return {"type": "adaptive"}
    # "summarized": otherwise the thinking blocks of these models have no text to show.
    return {"type": "adaptive", "display": "summarized"}


def _off(model: Model) -> dict[str, Json]:
    if "disabled" in model.thinking:
        return {"thinking": {"type": "disabled"}}
    if "between_tools" in model.thinking:
        return {"thinking": {"type": "between_tools"}}
    if not model.thinking:
        return {}
    raise ModelError(
        f"{model.id} cannot switch thinking off; choose minimal, its lowest level, or another model"
    )


def _effort(model: Model, level: ThinkingLevel, *, compat: bool) -> dict[str, Json]:
    effort = EFFORTS[level]
    if model.efforts and effort not in model.efforts:
        known = [name for name, value in EFFORTS.items() if value in model.efforts]
        raise ModelError(
            f"{model.id} has no thinking level {level}; choose one of: {', '.join(known)}"
        )
    return {"thinking": _adaptive(compat=compat), "output_config": {"effort": effort}}


def _budget(request: ModelRequest, level: ThinkingLevel) -> int:
    asked = request.thinking_budgets.get(level, DEFAULT_BUDGETS[level])
    most = min(request.max_tokens, request.model.max_output_tokens) - 1
    if most < MIN_BUDGET_TOKENS:
        raise ModelError(
            f"max_tokens {request.max_tokens} leaves no room to think; set it above "
            f"{MIN_BUDGET_TOKENS} or switch thinking off"
        )
    return max(MIN_BUDGET_TOKENS, min(asked, most))
