"""Facts about models and their prices, with costs computed by hand."""

import re
from typing import cast

import pytest

from agent_cli.contracts.errors import AgentCliError, ProviderNotFound
from agent_cli.contracts.provider import Model
from agent_cli.contracts.timeline import Usage
from agent_cli.providers.anthropic.models import (
    cost_microdollars,
    doubt_about,
    get_model,
    in_us,
    model_by_id,
    model_table,
    price_list,
    prices_as_of,
    with_known_facts,
)
from tests.tables import each_row

MILLION = 1_000_000


@each_row(
    ("model", "usage", "microdollars"),
    [
        ("claude-opus-5-5", Usage(input_tokens=MILLION), 4 * MILLION),
        ("claude-opus-5-5", Usage(output_tokens=1000), 20_000),
        ("claude-opus-5-5", Usage(cache_read_tokens=MILLION), 200_000),  # a twentieth, not a tenth
        ("claude-opus-5-5", Usage(cache_write_5m_tokens=MILLION), 5 * MILLION),
        ("claude-opus-5-5", Usage(cache_write_1h_tokens=MILLION), 8 * MILLION),
        ("claude-fable-5-1", Usage(cache_read_tokens=MILLION), 250_000),
        ("claude-haiku-4-5", Usage(cache_read_tokens=MILLION), 100_000),
        ("claude-sonnet-4-6", Usage(MILLION, MILLION, MILLION), 18_300_000),
        ("claude-haiku-4-5-20251001", Usage(input_tokens=MILLION), MILLION),
        ("claude-haiku-5-5", Usage(input_tokens=100_000, output_tokens=100), 10_050),
        # With one token more, the whole request costs the higher price.
        ("claude-haiku-5-5", Usage(input_tokens=100_001, output_tokens=100), 50_250),
        ("claude-haiku-5-5", Usage(input_tokens=1, cache_read_tokens=100_000), 5_000),
        ("claude-opus-5-5", Usage(), 0),
        # In fast mode all tokens cost twice as much, but a search does not.
        ("claude-opus-5-5-fast", Usage(MILLION, 1000, 1000, 1000, 1000), 8_066_400),
        ("claude-fable-5-2-fast", Usage(cache_read_tokens=MILLION, web_searches=1), 410_000),
        ("claude-sonnet-5-5-fast", Usage(input_tokens=1), None),
        ("claude-fable-5-2", Usage(cache_read_tokens=MILLION, output_tokens=1), 200_040),
        ("claude-opus-4-5", Usage(input_tokens=2, output_tokens=1), 35),
        ("claude-sonnet-4-5-20250929", Usage(input_tokens=2, output_tokens=1), 21),
        ("claude-mythos-5-1", Usage(1, 1, cache_read_tokens=1_000), 310),
        ("claude-mythos-5-2", Usage(input_tokens=1), None),
        ("somebody-elses", Usage(input_tokens=1), None),
    ],
)
def test_cost_of_a_reply_follows_the_price_list(
    model: str, usage: Usage, microdollars: int | None
) -> None:
    """Costs are whole micro-dollars; without a known price the cost is None, not zero."""
    assert cost_microdollars(model, usage) == microdollars


def test_prices_of_the_user_hold_for_the_fast_mode_of_the_model_too() -> None:
    """Twice as much, unless the user says how much."""
    price = price_list({"claude-opus-5": "6/30", "claude-opus-5-5": "1/2"})
    other = price_list({"claude-opus-5": "6/30", "claude-opus-5-fast": "7/31"})

    assert price("claude-opus-5-fast", Usage(1, 1)) == 72
    assert other("claude-opus-5-fast", Usage(1, 1)) == 38


def test_inference_in_the_united_states_costs_a_tenth_more() -> None:
    """All tokens do, in fast mode too; a search does not."""
    usage = Usage(1_000, 100, 1_000, 1_000, 1_000, web_searches=1)
    plain, fast = ("claude-opus-5-5", "claude-opus-5-5-fast")

    # 1,000 x (4 + 0.2 + 5 + 8) + 100 x 20 = 19,200 microdollars for the tokens.
    assert in_us(cost_microdollars)(plain, usage) == 21_120 + 10_000
    assert in_us(cost_microdollars)(fast, usage) == 42_240 + 10_000
    assert in_us(cost_microdollars)("somebody-elses", usage) is None


def test_fast_mode_generates_more_in_the_time_that_a_broken_reply_had() -> None:
    """Up to 2.5 times as much; the cost of such a reply is bounded by it."""
    ids = ("claude-opus-5-5", "claude-opus-5-5-fast")

    assert [model_by_id(id).output_tokens_per_s for id in ids] == [500, 1_250]


def test_prices_of_the_user_apply_to_their_models_only() -> None:
    """A model of another server has a cost then, so that a limit of cost can be held."""
    price = price_list({"of-mine": "2.50/10"})

    assert price("Of-Mine", Usage(input_tokens=2, cache_read_tokens=10, output_tokens=3)) == 38
    assert price("claude-opus-5-5", Usage(output_tokens=1)) == 20
    assert price("somebody-elses", Usage(output_tokens=1)) is None
    assert "no cost" not in doubt_about("of-mine", price)
    assert "no cost" in doubt_about("somebody-elses", price)


def test_price_list_has_a_date() -> None:
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", prices_as_of())


def test_unknown_model_gets_conservative_defaults() -> None:
    assert model_by_id("somebody-elses") == Model("somebody-elses")


def test_known_model_has_the_facts_of_the_table() -> None:
    assert model_by_id("claude-sonnet-5-5") == Model(
        "claude-sonnet-5-5",
        context_window=MILLION,
        max_output_tokens=128_000,
        thinking=frozenset({"adaptive", "between_tools"}),
        efforts=frozenset({"low", "medium", "high", "xhigh", "max"}),
        binds_thinking=True,
        takes_task_budget=True,
        takes_system_messages=True,
        takes_threads=True,
        signs_summaries=True,
        default_effort="high",
        output_tokens_per_s=500,
    )


def test_last_price_tier_of_every_model_has_no_length_limit() -> None:
    models = model_table().models
    assert models
    for name, facts in models.items():
        assert all(tier.up_to_prompt_tokens for tier in facts.prices[:-1]), name
        assert not any(tier.up_to_prompt_tokens for tier in facts.prices[-1:]), name


def test_unknown_model_id_gives_a_warning_with_the_nearest_known_id() -> None:
    """The model may still be used: the API may know models that this table does not."""
    assert doubt_about("claude-opus-5-5") == doubt_about("claude-haiku-4-5-20251001") == ""
    assert doubt_about("claude-opuss").startswith(
        "claude-opuss is not among the models known here (did you mean claude-opus"
    )
    assert "(did you mean claude-sonnet-5-5?)" in doubt_about("sonet")
    for other in ("somebody-elses", "bogus"):
        assert "did you mean" not in doubt_about(other)


@pytest.mark.parametrize("id", ["claude-sonnet-5-5", "claude-haiku-4-5-20251001", "of-tomorrow"])
def test_get_model_works_with_and_without_the_provider_name(id: str) -> None:
    """S3-01: the document's quick start has both; an unknown id works, too."""
    assert get_model("anthropic", id) == get_model(id) == model_by_id(id)


@pytest.mark.parametrize("id", [3, b"claude"])
def test_get_model_names_the_type_of_an_id_that_is_no_text(id: object) -> None:
    """It raised what a regular expression says about it."""
    with pytest.raises(AgentCliError, match=r"^the id of a model must be str, not \w+$"):
        get_model(cast("str", id))


def test_error_about_an_unknown_provider_lists_the_known_ones() -> None:
    """S0-05, C21: the error also names the unknown provider."""
    with pytest.raises(ProviderNotFound, match=r"^no provider 'openai'; there is: anthropic$"):
        get_model("openai", "gpt")


@pytest.mark.parametrize("id", ["claude-haiku-4-5", "claude-opus-5-5", "of-tomorrow"])
def test_model_created_from_its_id_gets_thinking_facts_from_the_table(id: str) -> None:
    """S3-09: `Model("claude-haiku-4-5")` used to get adaptive thinking, which it refuses."""
    found, table = with_known_facts(Model(id, context_window=7)), model_by_id(id)

    assert (found.thinking, found.efforts) == (table.thinking, table.efforts)
    assert (found.binds_thinking, found.context_window) == (table.binds_thinking, 7)


def test_model_facts_given_by_the_caller_override_the_table() -> None:
    """The table is used only for a model created from its id alone."""
    own = Model("claude-haiku-4-5", thinking=frozenset({"adaptive"}), efforts=frozenset({"low"}))

    assert with_known_facts(own) == own
