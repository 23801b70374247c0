"""The reported cost, held against a server that keeps its own bill."""

import json
import random
import re
import signal
import threading
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from agent_cli.contracts.timeline import Usage
from agent_cli.providers.anthropic.models import cost_microdollars
from tests.e2e.program import agent_cli, finished, started
from tests.e2e.test_settings import user_config
from tests.hooks.test_kinds import asked
from tests.hooks.test_scripts import YOLO, bash, hooks
from tests.messages_api import (
    Gate,
    ReceivedRequest,
    Reply,
    broken,
    error,
    reply,
    serve_in_thread,
    tool_use,
)
from tests.messages_api.script import Answer, Payload

MODEL = "claude-sonnet-5-5"
TOKENS = 9_000
QUICK_RUNS: Final = 2
SOAK_RUNS: Final = 100
NO_REPLIES: Final = (
    (529, "overloaded_error", "busy"),
    (500, "api_error", "it failed"),
    (429, "rate_limit_error", "too many"),
)


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


def test_sentence_about_an_unknown_price_names_the_rows_that_give_it() -> None:
    """Written into the settings as it says, the limit holds."""
    limited = ("-p", "go", "--model", "claude-mythos-5-2", "--max-cost", "0.5")
    with serve_in_thread(reply("hi")) as api:
        refused = agent_cli(*limited, api=api)
        found = re.search(r"write (\[prices\]) (.*?), in dollars per million", refused.stderr)
        assert found
        rows = f"{found[1]}\n{found[2].replace('INPUT/OUTPUT', '10/50')}\n"
        user_config("appsettings.toml", rows)
        run = agent_cli(*limited, api=api)

    assert (refused.code, run.code, run.stdout) == (4, 0, "hi\n")


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


def test_first_reply_of_a_workspace_in_the_united_states_stays_within_the_limit() -> None:
    """All tokens cost a tenth more there, and only the reply says so."""

    def longest(request: ReceivedRequest) -> Reply:
        written = {"ephemeral_1h_input_tokens": len(request.raw) // 4}
        used = {"input_tokens": 0, "output_tokens": request.body["max_tokens"]}
        return reply("hi", usage={**used, "cache_creation": written, "inference_geo": "us"})

    limited = ("-p", "go", "--output-format", "json", "--max-cost", "0.3")
    costs: list[float] = []
    with serve_in_thread(answer=longest, count=lambda request: len(request.raw) // 4) as api:
        for model in (MODEL, "claude-opus-5-5-fast"):
            costs.append(agent_cli(*limited, "--model", model, api=api).result["cost_usd"])

    assert all(0.25 < cost <= 0.3 for cost in costs), costs


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


class Billing:
    """Answers in order, and adds up what it charges: at least, and with all of what broke off."""

    def __init__(self, *answers: Reply) -> None:
        self._answers = list(answers)
        self.least = self.most = 0.0

    def __call__(self, request: ReceivedRequest) -> Answer:
        answer = self._answers.pop(0)
        tokens = (answer.usage or figures(12))["input_tokens"]
        costs = [cost_microdollars(request.body["model"], Usage(tokens, n)) or 0 for n in (1, 12)]
        self.most += costs[1] / 1e6
        self.least += costs[bool(not answer.fault)] / 1e6
        return replace(answer, usage={"input_tokens": tokens, "output_tokens": 12})


def broken_off(text: str) -> Reply:
    return broken(reply(text), "drop", after=4)


@pytest.mark.parametrize("limit", [(), ("--max-cost", "5")])
@pytest.mark.parametrize("kind", ["prompt", "agent"])
def test_broken_replies_to_a_hook_are_in_the_bill(kind: str, limit: tuple[str, ...]) -> None:
    hooks(None, PreToolUse=asked(kind, "Bash", prompt="Is it safe?"))
    verdict = '{"ok": true} and no more than that'
    server = Billing(
        reply(bash("true")), *[broken_off(verdict)] * 2, reply(verdict[:12]), reply("Done.")
    )

    with serve_in_thread(answer=server) as api:
        run = agent_cli("-p", "go", *YOLO, "--output-format", "json", *limit, api=api)

    cost, held = run.result["cost_usd"], run.result["held_usd"]
    assert run.code == 0, run.stderr
    assert server.least <= cost <= server.most * 1.05
    assert cost + held >= server.most


@pytest.mark.parametrize("limit", [(), ("--max-cost", "5")])
def test_replies_of_a_summary_that_failed_are_in_the_bill(
    limit: tuple[str, ...], tmp_path: Path
) -> None:
    """The first called a tool, and the others broke off."""
    (tmp_path / "long.txt").write_text("some words\n" * 2_000)
    reads = [reply(tool_use("read", {"path": "long.txt", "limit": 1_900 - n})) for n in range(7)]
    reads[-1] = replace(reads[-1], usage={"input_tokens": 150_000})
    drops = [broken_off("The user wanted this and that.")] * 2
    server = Billing(*reads, reply(bash("true")), *drops, reply("Done."))

    with serve_in_thread(answer=server) as api:
        run = agent_cli(
            *("-p", "go", *YOLO, "--model", MODEL, "--output-format", "json", *limit),
            api=api,
            AGENT_CLI_RETRY__MAX="1",
            AGENT_CLI_COMPACTION__THRESHOLD_TOKENS="100000",
        )

    cost, held = run.result["cost_usd"], run.result["held_usd"]
    assert "compaction failed" in run.stderr
    assert run.result["text"] == "Done."
    assert server.least <= cost <= server.most * 1.05
    assert cost + held >= server.most


class RandomBilling:
    """Answers an agent and those it starts at random; refuses some requests, breaks off others."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)
        self._lock = threading.Lock()
        self.least = self.most = 0
        self.broken_off = 0

    def __call__(self, request: ReceivedRequest) -> Answer:
        with self._lock:
            if self._dice.random() < 0.15:
                return error(*self._dice.choice(NO_REPLIES))
            return self._billed(request, self._answer(request.body["messages"]))

    def _answer(self, messages: list[Payload]) -> Reply:
        if len(messages) > 1:
            return reply("All is done. " * self._dice.randint(1, 10))
        if "work" in json.dumps(messages):
            return reply(bash("true"), "Some words. " * 20)
        asked = {"description": "d", "prompt": "work"}
        return reply(*(tool_use("agent", asked) for _ in range(self._dice.randint(1, 3))))

    def _billed(self, request: ReceivedRequest, answer: Reply) -> Reply:
        fresh, outputs = self._dice.randint(2_000, 20_000), self._dice.randint(12, 400)
        read, written = self._dice.choice([(0, 0), (5_000, 0), (0, 3_000)])
        least, most = (
            cost_microdollars(
                request.body["model"],
                Usage(fresh, n, cache_read_tokens=read, cache_write_5m_tokens=written),
            )
            or 0
            for n in (1, outputs)
        )
        breaks_off = self._dice.random() < 0.3
        self.broken_off += breaks_off
        self.least += least if breaks_off else most
        self.most += most
        usage = {
            "input_tokens": fresh,
            "output_tokens": outputs,
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": written,
        }
        answer = replace(answer, usage=usage)
        return broken(answer, "drop", after=self._dice.randint(1, 6)) if breaks_off else answer


def check_random_runs(first: int, count: int) -> None:
    for seed in range(first, first + count):
        server, limit = RandomBilling(seed), ("--max-cost", "5") if seed % 2 else ()
        with serve_in_thread(answer=server) as api:
            run = agent_cli("-p", "go", *YOLO, "--output-format", "json", *limit, api=api)

        cost = round(run.result["cost_usd"] * 1e6)
        held = round(run.result.get("held_usd", 0) * 1e6)
        assert server.least <= cost <= server.most * 1.05, seed
        assert cost + held >= server.most, seed
        if not server.broken_off:
            assert (cost, held) == (server.most, 0), seed


def test_random_replies_to_agents_are_in_the_bill() -> None:
    """What is known is exact; what broke off is never reported below the bill, as cost or held."""
    check_random_runs(0, QUICK_RUNS)


@pytest.mark.slow
def test_many_random_replies_to_agents_are_in_the_bill() -> None:
    check_random_runs(1_000, SOAK_RUNS)
