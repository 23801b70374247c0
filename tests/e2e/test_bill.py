"""The reported cost, held against a server that keeps its own bill."""

import signal

import pytest

from agent_cli.contracts.timeline import Usage
from agent_cli.providers.anthropic.models import cost_microdollars
from tests.e2e.program import agent_cli, finished, started
from tests.messages_api import Gate, broken, reply, serve_in_thread
from tests.messages_api.script import Payload

MODEL = "claude-sonnet-5-5"
TOKENS = 9_000


def figures(output_tokens: int) -> Payload:
    return {"input_tokens": TOKENS, "output_tokens": output_tokens}


def billed(*outputs: int) -> float:
    costs = [cost_microdollars(MODEL, Usage(TOKENS, each)) or 0 for each in outputs]
    assert all(costs)
    return sum(costs) / 1e6


@pytest.mark.parametrize("limit", [(), ("--max-cost", "5")])
def test_dropped_replies_are_in_the_bill(limit: tuple[str, ...]) -> None:
    """The prompts are certain: the API counted them. The half replies may have been billed."""
    answer = reply("One two three four five six", usage=figures(12))
    drops = [broken(answer, "drop", after=4) for _ in range(3)]
    with serve_in_thread(*drops, answer) as api:
        run = agent_cli("-p", "go", "--model", MODEL, "--output-format", "json", *limit, api=api)

    cost, held = run.result["cost_usd"], run.result["held_usd"]
    assert run.code == 0
    assert billed(1, 1, 1, 12) <= cost <= billed(12, 12, 12, 12) * 1.05
    assert cost + held >= billed(12, 12, 12, 12)


def test_cheap_call_is_made_under_a_tight_limit() -> None:
    """The bytes of the prompt are four times its tokens: the API counts them."""
    answer = reply("hi")
    with serve_in_thread(answer, count=lambda request: len(request.raw) // 4) as api:
        run = agent_cli(
            "-p", "go", "--model", MODEL, "--output-format", "json", "--max-cost", "0.05", api=api
        )

    assert run.code == 0, run.stderr
    assert len(api.counted) == 1
    assert not api.refusals
    assert run.result["cost_usd"] < 0.01


def test_dropped_replies_do_not_use_up_the_limit() -> None:
    """They can have generated little in their time."""
    answer = reply("One two three four five six", usage=figures(12))
    drops = [broken(answer, "drop", after=4) for _ in range(4)]
    with serve_in_thread(*drops, answer) as api:
        run = agent_cli(
            "-p", "go", "--model", MODEL, "--output-format", "json", "--max-cost", "1", api=api
        )

    assert run.code == 0, run.stderr
    assert run.result["cost_usd"] + run.result["held_usd"] < 0.6


def test_reply_stopped_by_ctrl_c_is_in_the_bill() -> None:
    gate = Gate()
    answer = reply("One two three", usage=figures(12), gate=gate)
    with (
        serve_in_thread(answer) as api,
        started("-p", "go", "--model", MODEL, "--output-format", "stream-json", api=api) as process,
    ):
        for line in process.stdout:
            if '"message_start"' in line and '"assistant"' in line:
                break
        process.send_signal(signal.SIGINT)
        run = finished(process)

    assert run.code == 130
    assert run.result["cost_usd"] >= billed(1)
    assert run.result["cost_usd"] + run.result["held_usd"] >= billed(12)
