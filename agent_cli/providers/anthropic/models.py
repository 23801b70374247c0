"""Facts and prices of models, from models.toml, and the parameters of their thinking levels.

Reads no settings and asks no server.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from functools import cache
from importlib.resources import files
from typing import Any, Final, Literal, overload

from agent_cli.contracts import options
from agent_cli.contracts.errors import AgentCliError, ModelError, ProviderNotFound
from agent_cli.contracts.options import ThinkingLevel
from agent_cli.contracts.provider import Model, ModelRequest, Price
from agent_cli.contracts.timeline import NO_USAGE, Json, Usage
from agent_cli.providers.anthropic.platforms import plain_model_id
from agent_cli.system.records import dataclass

_PROVIDER: Final = "anthropic"
# Fast mode generates up to 2.5 times as much in a second.
_FAST_RATE: Final = Decimal("2.5")


@dataclass(frozen=True, slots=True)
class CacheMultiples:
    """Prices of cached tokens as multiples of the input price."""

    write_5m: Decimal
    write_1h: Decimal
    read: Decimal


@dataclass(frozen=True, slots=True)
class PriceTier:
    """Dollars per million tokens, for prompts of at most `up_to_prompt_tokens`."""

    input: Decimal
    output: Decimal
    up_to_prompt_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class KnownModel:
    """One entry of models.toml; its facts have the names of the fields of `Model`.

    `fast` is 0 for a model without fast mode.
    """

    model: Model
    prices: tuple[PriceTier, ...]
    cache: CacheMultiples
    fast: Decimal = Decimal(0)


@dataclass(frozen=True, slots=True)
class ModelTable:
    """The whole of models.toml, with a second entry for each model that has a fast mode."""

    prices_as_of: str
    us_only: Decimal
    web_searches: Decimal
    cache: CacheMultiples
    models: dict[str, KnownModel]


@cache
def model_table() -> ModelTable:
    """Return the content of models.toml, read once."""
    text = (files("agent_cli.providers.anthropic") / "models.toml").read_text(encoding="utf-8")
    # Decimal, because costs are added up and binary fractions would round 0.1 dollars.
    found = tomllib.loads(text, parse_float=Decimal)
    speed, cache = found["output_tokens_per_s"], found["cache"]
    known = [_known_model(id, speed, cache, entry) for id, entry in found["models"].items()]
    fast = (_at_fast_speed(each) for each in known if each.fast)
    return ModelTable(
        prices_as_of=found["prices_as_of"],
        us_only=Decimal(found["us_only"]),
        web_searches=Decimal(found["web_searches"]),
        cache=_multiples(cache),
        models={each.model.id: each for each in (*known, *fast)},
    )


# Any: what TOML holds. Not by pydantic, which a start would load for this table alone.
def _known_model(
    id: str, speed: int, usual_cache: Mapping[str, Any], entry: Mapping[str, Any]
) -> KnownModel:
    facts: dict[str, Any] = {**entry, "output_tokens_per_s": speed}
    prices, cache, fast = facts.pop("prices", ()), facts.pop("cache", {}), facts.pop("fast", 0)
    facts |= {name: frozenset(facts[name]) for name in ("thinking", "efforts")}
    tiers = tuple(
        PriceTier(Decimal(each["input"]), Decimal(each["output"]), each.get("up_to_prompt_tokens"))
        for each in prices
    )
    multiples = _multiples({**usual_cache, **cache})
    return KnownModel(Model(id, **facts), tiers, multiples, Decimal(fast))


def _at_fast_speed(known: KnownModel) -> KnownModel:
    rate = round(known.model.output_tokens_per_s * _FAST_RATE)
    model = replace(known.model, id=f"{known.model.id}{options.FAST}", output_tokens_per_s=rate)
    prices = tuple(_times(known.fast, tier) for tier in known.prices)
    return KnownModel(model, prices, known.cache)


def _times(factor: Decimal, tier: PriceTier) -> PriceTier:
    return replace(tier, input=factor * tier.input, output=factor * tier.output)


def standard_id(model_id: str) -> str:
    """Return the id of the model that *model_id* asks for, which may ask for fast mode too."""
    is_fast = model_id.endswith(options.FAST) and model_id in model_table().models
    return model_id.removesuffix(options.FAST) if is_fast else model_id


def _multiples(found: Mapping[str, Any]) -> CacheMultiples:
    return CacheMultiples(**{name: Decimal(value) for name, value in found.items()})


def prices_as_of() -> str:
    """Return the date of the prices, as YYYY-MM-DD."""
    return model_table().prices_as_of


def model_by_id(model_id: str) -> Model:
    """Return the model *model_id*; an unknown id gets conservative defaults."""
    known = _known(model_id)
    return replace(known.model, id=model_id) if known else Model(model_id)


@overload
def get_model(id: str, /) -> Model: ...
@overload
def get_model(provider: str, id: str, /) -> Model: ...
def get_model(provider: str, id: str | None = None, /) -> Model:
    """Return a model with its known facts: `get_model("anthropic", "claude-haiku-5-5")`.

    The provider may be left out. An unknown id gets conservative defaults: parameters that only
    some models accept are not sent to it.

    Raises:
        ProviderNotFound: There is no such provider.
        AgentCliError: The id is no text.
    """
    if id is None:
        provider, id = _PROVIDER, provider
    _require_text(id)
    if provider != _PROVIDER:
        raise ProviderNotFound(f"no provider {provider!r}; there is: {_PROVIDER}")
    return model_by_id(id)


def _require_text(id: object) -> None:
    if not isinstance(id, str):
        raise AgentCliError(f"the id of a model must be str, not {type(id).__name__}")


def with_known_facts(model: Model) -> Model:
    """Return *model*, with the facts of the table if it was made from its id alone."""
    if model.thinking or model.efforts:
        return model
    own = ("api", "provider", "context_window", "max_output_tokens", "output_tokens_per_s")
    return replace(model_by_id(model.id), **{name: getattr(model, name) for name in own})


def cost_microdollars(model_id: str, usage: Usage) -> int | None:
    """Return the cost of *usage* in millionths of a dollar, or None if no price is known.

    It counts the tokens of one reply at list price, and the web searches of the server.
    """
    known = _known(model_id)
    return _cost(known.prices, known.cache, usage) if known and known.prices else None


def price_list(of_user: Mapping[str, str]) -> Price:
    """Return `cost_microdollars`, with prices of the user's for some models.

    Args:
        of_user: Model id in lowercase → "INPUT/OUTPUT", in dollars per million tokens. Cached
            tokens cost the multiples of the input price that hold for most models.
    """

    def cost(model_id: str, usage: Usage) -> int | None:
        if own := tiers.get(model_id.lower()):
            return _cost((own,), model_table().cache, usage)
        return cost_microdollars(model_id, usage)

    tiers = {
        name: PriceTier(input=Decimal(input), output=Decimal(output))
        for name, text in of_user.items()
        for input, output in [text.split("/")]
    }
    for name, tier in list(tiers.items()):
        if (known := _known(name)) and known.fast:
            tiers.setdefault(f"{name}{options.FAST}", _times(known.fast, tier))
    return cost if tiers else cost_microdollars


def in_us(price: Price) -> Price:
    """Return *price* where the inference is kept in the United States, which costs more."""

    def cost(model_id: str, usage: Usage) -> int | None:
        whole = price(model_id, usage)
        searches = price(model_id, Usage(web_searches=usage.web_searches))
        if whole is None or searches is None:
            return None
        return round((whole - searches) * model_table().us_only) + searches

    return cost


# Below this, other words pass for a model: "bogus" for opus.
_LIKENESS_MIN: Final = 0.7


def doubt_about(model_id: str, price: Price = cost_microdollars) -> str:
    """Return a sentence about a model that is not in models.toml; "" for a known model."""
    from difflib import get_close_matches  # with an unknown id

    if _known(model_id):
        return ""
    known: dict[str, str] = {}
    for name in model_table().models:  # the newest of a family first
        known[name] = name
        known.setdefault(name.split("-")[1], name)
    near = get_close_matches(model_id, known, n=1, cutoff=_LIKENESS_MIN)
    hint = f" (did you mean {known[near[0]]}?)" if near else ""
    is_priced = price(model_id, NO_USAGE) is not None
    unpriced = "" if is_priced else " no cost is shown (prices in the settings may give one),"
    return (
        f"{model_id} is not among the models known here{hint}: no thinking level is sent,"
        f"{unpriced} and the API decides about the rest"
    )


def _cost(tiers: tuple[PriceTier, ...], cache: CacheMultiples, usage: Usage) -> int:
    tier = _tier(tiers, usage.prompt_tokens)
    in_input_tokens = (
        usage.input_tokens
        + usage.cache_read_tokens * cache.read
        + usage.cache_write_5m_tokens * cache.write_5m
        + usage.cache_write_1h_tokens * cache.write_1h
    )
    # Dollars per million tokens are micro-dollars per token; searches have dollars per thousand.
    searches = usage.web_searches * model_table().web_searches * 1_000
    return round(in_input_tokens * tier.input + usage.output_tokens * tier.output + searches)


def _known(model_id: str) -> KnownModel | None:
    models = model_table().models
    return models.get(model_id) or models.get(plain_model_id(model_id))


def _tier(tiers: tuple[PriceTier, ...], prompt_tokens: int) -> PriceTier:
    fitting = (t for t in tiers if prompt_tokens <= (t.up_to_prompt_tokens or prompt_tokens))
    return next(fitting, tiers[-1])


MIN_BUDGET_TOKENS = 1024
DEFAULT_BUDGETS: dict[ThinkingLevel, int] = {
    "minimal": 1024,
    "low": 4096,
    "medium": 10_000,
    "high": 20_000,
    # With the usual max_tokens, 32,000, a fourth is left for the answer.
    "xhigh": 24_000,
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
