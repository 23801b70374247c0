"""`agent-cli batch --batch-api`: prompts as one Message Batch, half the price, each paid once."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.batches import results, write_tasks
from tests.e2e.program import agent_cli, finished, started_for
from tests.messages_api import FakeMessagesApi, ReceivedRequest, error, reply, serve_in_thread
from tests.messages_api.script import Answer, Payload
from tests.waiting import wait_until

RUNS_S = 120.0
ON_API = ("batch", "tasks.jsonl", "--batch-api", "--model", "claude-sonnet-4-5")
FULL_USD = (1_000 * 3 + 100 * 15) / 1_000_000
"""What the answers of the test server cost when they are asked for one by one."""


def params(api: FakeMessagesApi) -> list[Payload]:
    return [each["params"] for body in api.batches.created for each in body["requests"]]


def prompt_of(request: Payload) -> str:
    return json.dumps(request["messages"])


def test_prompts_are_answered_by_one_message_batch_at_half_the_price() -> None:
    """One request that fails has its own reason; the others have theirs."""
    write_tasks(*({"id": f"t{n}", "prompt": f"Question {n}?"} for n in range(4)))

    def answer(request: ReceivedRequest) -> Answer:
        if "Question 2?" in prompt_of(request.body):
            return error(400, "invalid_request_error", "not like this")
        return reply("Answer.")

    with serve_in_thread(answer=answer) as api:
        run = agent_cli(*ON_API, "--append-system-prompt", "Be brief.", "--budget", "1", api=api)

        assert [refusal.message for refusal in api.batches.refusals] == []
        assert len(api.batches.created) == 1
    found = results()
    assert (run.code, {id: each["status"] for id, each in found.items()}) == (
        1,
        {"t0": "done", "t1": "done", "t2": "failed", "t3": "done"},
    ), run.stderr
    assert found["t0"]["text"] == "Answer."
    assert found["t0"]["cost_usd"] == pytest.approx(FULL_USD / 2)
    assert "not like this" in found["t2"]["error"]
    sent = params(api)[0]
    assert "tools" not in sent
    assert [block["text"] for block in sent.pop("system")] == ["Be brief."]
    assert "cache_control" not in json.dumps(sent)  # nothing would read it


def test_killed_batch_collects_the_answers_it_had_asked_for() -> None:
    """Nothing is sent twice, and the cost is that of the answers."""
    write_tasks({"id": "a", "prompt": "One?"}, {"id": "b", "prompt": "Two?"})

    with serve_in_thread(answer=lambda _request: reply("Answer.")) as api:
        api.batches.polls = 10**6
        with started_for(RUNS_S, *ON_API, "--budget", "1", api=api) as process:
            wait_until(lambda: len(api.requests) > 1, "a poll", limit_s=RUNS_S)
            process.send_signal(signal.SIGKILL)
            process.wait()
        api.batches.polls = 0
        again = agent_cli(*ON_API, "--budget", "1", api=api)

        assert len(api.batches.created) == 1
    assert (again.code, again.stderr) == (0, "")
    assert {each["attempts"] for each in results().values()} == {1}
    assert f"${FULL_USD:.2f} of $1" in again.stdout


def test_batch_killed_before_it_noted_what_it_sent_finds_it() -> None:
    """Its requests are looked for among the Message Batches of the workspace, one of which is
    another batch's of the same size."""
    tasks = ({"id": "a", "prompt": "One?"}, {"id": "b", "prompt": "Two?"})
    write_tasks(*tasks)

    with serve_in_thread(answer=lambda _request: reply("Answer.")) as api:
        agent_cli(*ON_API, "--output-dir", "another", api=api)
        api.batches.arrived = lambda: running.kill()
        with started_for(RUNS_S, *ON_API, "--budget", "1", api=api) as running:
            running.wait()
        again = agent_cli(*ON_API, "--budget", "1", api=api)

        assert len(api.batches.created) == 2
    assert again.code == 0, again.stderr
    assert again.stderr == (
        "agent-cli: 2 prompts perhaps sent: looking for the Message Batch, to pay for it once\n"
    )
    assert {each["attempts"] for each in results().values()} == {1}
    assert f"${FULL_USD:.2f} of $1" in again.stdout


def test_interrupted_batch_ends_at_once_and_says_how_to_go_on() -> None:
    """The API goes on with it meanwhile."""
    write_tasks({"id": "a", "prompt": "One?"})

    with serve_in_thread(answer=lambda _request: reply("Answer.")) as api:
        api.batches.polls = 10**6
        with started_for(RUNS_S, *ON_API, api=api) as process:
            wait_until(lambda: len(api.requests) > 1, "a poll", limit_s=RUNS_S)
            process.send_signal(signal.SIGINT)
            run = finished(process)

    assert run.code == 130
    assert "run the same command to continue" in run.stderr


def test_cost_limit_shortens_a_request_or_keeps_it_back() -> None:
    """With the longest answer that the limit allows, a request costs no more than that.

    Not even where the workspace keeps the inference in the United States, a tenth dearer.
    """
    long = "word " * 40_000
    write_tasks({"id": "short", "prompt": "One?"}, {"id": "long", "prompt": long})

    with serve_in_thread(answer=lambda _request: reply("Answer.")) as api:
        run = agent_cli(*ON_API, "--max-cost", "0.01", api=api)

    assert run.code == 1
    assert {id: each["status"] for id, each in results().items()} == {
        "short": "done",
        "long": "limit",
    }
    [sent] = params(api)
    assert 0.009 < sent["max_tokens"] * 15 / 2 * 1.1 / 1_000_000 <= 0.01


def test_rejected_key_is_no_result() -> None:
    """The same command goes on once there is a valid one."""
    write_tasks(*({"id": f"t{n}", "prompt": "?"} for n in range(3)))

    with serve_in_thread(answer=lambda _request: reply("Answer."), key="another") as api:
        run = agent_cli(*ON_API, api=api)

    assert run.code == 75
    assert "(auth" in run.stderr
    assert not Path("tasks.batch/RESULTS.jsonl").exists()


def test_task_in_fast_mode_fails_before_anything_is_sent() -> None:
    """The API has none for batches."""
    write_tasks({"id": "a", "prompt": "One?"})

    run = agent_cli(*ON_API, "--model", "opus-fast")

    assert run.code == 1
    assert "no fast mode: name the model claude-opus-5-5" in run.stdout


@pytest.mark.parametrize(
    ("task", "options", "sentence"),
    [
        ({"max_rounds": 3}, (), "task 'a': max_rounds cannot be used with --batch-api"),
        ({}, ("--time-limit", "9"), "--time-limit cannot be used with --batch-api"),
        ({}, ("--max-rounds", "9"), "--max-rounds cannot be used with --batch-api"),
        ({}, ("--engine", "local"), "--engine cannot be used with --batch-api"),
    ],
)
def test_what_needs_tools_is_refused_before_anything_is_sent(
    task: dict[str, Any], options: tuple[str, ...], sentence: str
) -> None:
    write_tasks({"id": "a", "prompt": "One?", **task})

    run = agent_cli(*ON_API, *options)

    assert run.code == 2
    assert sentence in run.stderr
