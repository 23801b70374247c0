"""Background commands in the program itself: the notices to the model, and their end."""

import json
import signal
from typing import Any

from tests.e2e.program import (
    Finished,
    agent_cli,
    finished,
    long_sleep,
    processes_with,
    results_in,
    said_by_user,
    started,
    text_of,
)
from tests.messages_api import FakeMessagesApi, reply, serve_in_thread, tool_use
from tests.messages_api.script import Payload
from tests.waiting import wait_until

WAITS_FOR_GO = "until test -e go; do sleep 0.05; done; touch gone; exit 3"
JOB = tool_use("bash", {"command": WAITS_FOR_GO, "background": True})
GO = tool_use("bash", {"command": "touch go"})
YOLO = ("--permission-mode", "yolo")


def lasting() -> str:
    """Return a command that is found again in any process's command line."""
    return long_sleep(1_001)


def server() -> Payload:
    """Return a call that runs the command as a job."""
    return tool_use("bash", {"command": lasting(), "background": True})


def typed(api: FakeMessagesApi, *lines: str) -> Finished:
    """Return a session in which *lines* were typed."""
    script = "".join(f"{line}\n" for line in lines)
    return agent_cli(*YOLO, api=api, script=script)


def news(api: FakeMessagesApi) -> list[str]:
    """Return the notices about jobs in the last request."""
    texts = said_by_user(api.requests[-1].body)
    return [text for text in texts if text.startswith("[agent-cli: ") and "job" in text]


def waits() -> Any:  # Any: JSON
    """Return a call that waits for the end of the first job."""
    return tool_use("job_output", {"id": 1, "wait": 20})


def test_end_of_a_background_job_is_reported_to_the_model_once() -> None:
    """The model need not poll."""
    with serve_in_thread(
        reply(JOB), reply(GO), reply(waits()), *map(reply, ["Seen.", "Again."])
    ) as api:
        run = typed(api, "go", "and now")

    assert run.code == 0
    [told] = news(api)
    assert told.startswith("[agent-cli: the background command job 1 (`until test -e go;")
    assert "ended with exit 3. Its output is in " in told
    assert api.refusals == []


def test_end_of_a_job_is_not_reported_to_a_new_conversation() -> None:
    """A notice never enters a conversation that did not start the job."""
    with serve_in_thread(
        reply(JOB), reply("Started."), reply(GO), reply(waits()), reply("New.")
    ) as api:
        typed(api, "go", "/clear", "new")

    assert news(api) == []
    [refused] = results_in(api.requests[-1].body)
    assert "There is no job 1" in text_of(refused), "a job of another conversation is not read"


def test_job_killed_by_the_model_causes_no_notice() -> None:
    """The answer to its `kill` says so already."""
    end = reply(tool_use("bash", {"command": "kill %1"}))
    with serve_in_thread(reply(JOB), end, reply("Ended."), reply("Yes.")) as api:
        typed(api, "go", "well")

    assert "and all it started has ended" in json.dumps(api.requests[2].body["messages"])
    assert news(api) == []


def test_the_first_job_changes_no_byte_of_the_tools() -> None:
    """A tool that came with it rewrote the whole cache: 42,931 tokens, $0.108."""
    with serve_in_thread(reply(server()), reply("Up.")) as api:
        agent_cli("-p", "go", *YOLO, api=api)

    first, second = (request.body["tools"] for request in api.requests)
    assert json.dumps(first) == json.dumps(second)
    assert "job_output" in {tool["name"] for tool in first}


def test_job_of_a_headless_run_ends_with_the_run_and_is_named() -> None:
    """The model was told so in advance, and how to wait."""
    with serve_in_thread(reply(server()), reply("Up.")) as api:
        run = agent_cli("-p", "go", *YOLO, api=api)

    assert f"job 1 (`{lasting()}`) was still running; it ends with this run" in run.stderr
    assert "to wait for it, call job_output with wait" in text_of(
        results_in(api.requests[1].body)[0]
    )
    assert processes_with(lasting()) == []


def test_continued_session_reports_jobs_lost_with_a_killed_program() -> None:
    """S1-42: after kill -9 the conversation must not count on jobs that are gone."""
    with serve_in_thread(reply(server()), reply(waits()), reply(server()), reply("Again.")) as api:
        with started("-p", "go", *YOLO, api=api) as program:
            wait_until(lambda: len(api.requests) == 2, "the job is there")
            wait_until(lambda: processes_with(lasting()), "it runs")
            program.send_signal(signal.SIGKILL)
            finished(program)
        wait_until(lambda: not processes_with(lasting()), "it ended with the program")
        run = agent_cli("-p", "and now", "--continue", *YOLO, api=api)

    assert run.code == 0
    told = news(api)
    assert told[0] == (
        f"[agent-cli: these jobs ended with the program that ran them: 1 `{lasting()}`]"
    )
    assert len([each for each in told if "ended with the program" in each]) == 1
    started_again = text_of(results_in(api.requests[-1].body)[0])
    assert started_again.startswith("Started as job 2. "), "kill %1 must not mean this one"
