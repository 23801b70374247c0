"""Everything that can go wrong between us and the API, through the whole program."""

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from agent_cli.system import paths
from tests.e2e.program import AGENT_CLI, Finished, agent_cli, said_by_user
from tests.forked import arguments_of
from tests.messages_api import (
    FAULTS,
    Answer,
    FakeMessagesApi,
    Gate,
    broken,
    error,
    raw,
    reply,
    serve_in_thread,
    tool_use,
)

RETRIED = ("drop", "reset", "stall", "eof", "error", "rate_limit", "error_text")
RETRIED_JUNK = ("bad_json", "bad_utf8", "bad_index")
HTML = raw(200, b"<html>Welcome</html>", content_type="text/html")
JSON = raw(200, b'{"type": "message"}', content_type="application/json")
EMPTY = raw(200, content_type="text/plain")


def session(*script: Answer, prompts: list[str]) -> tuple[Finished, FakeMessagesApi]:
    with serve_in_thread(*script) as api:
        run = agent_cli(
            api=api,
            script="".join(f"{prompt}\n" for prompt in prompts),
            AGENT_CLI_PROVIDER__READ_TIMEOUT_S="1",
        )
    return run, api


def test_every_stream_fault_is_repaired_by_a_retry() -> None:
    """S1-22, S1-31: an incomplete reply is never in the history; the same request is sent again."""
    faults = [*RETRIED, *RETRIED_JUNK]
    script = [
        answer
        for fault in faults
        for answer in (
            broken(reply("Half an answer that breaks", gate=held(fault), hold_at=5), fault),
            reply(f"Whole after {fault}."),
        )
    ]

    run, api = session(*script, prompts=faults)

    assert run.code == 0
    assert api.refusals == []
    assert len(api.requests) == len(script)
    for index, fault in enumerate(faults):
        first, again = api.requests[2 * index : 2 * index + 2]
        assert first.body["messages"] == again.body["messages"]
        assert said_by_user(again.body) == faults[: index + 1]
        assert f"Whole after {fault}." in run.stdout
    assert "Half" not in str(api.requests[-1].body["messages"])
    assert run.stderr.count("retry 1 of 5") == len(faults)
    assert run.stderr.count("the reply so far is discarded") == len(faults)


def held(fault: str) -> Gate | None:
    """A stall waits at the reply's gate; other faults need none."""
    return Gate() if fault == "stall" else None


def test_every_fault_of_the_fake_server_is_tested() -> None:
    """Every fault that the server supports has a test in this file."""
    assert {*RETRIED, *RETRIED_JUNK, "invalid"} == set(FAULTS)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (error(401, "authentication_error", "invalid x-api-key"), "check ANTHROPIC_API_KEY"),
        (error(403, "permission_error", "no access"), "has no permission"),
        (error(404, "not_found_error", "model: x"), "check the model id"),
        (
            error(429, "rate_limit_error", "spent", code="enforced_spend_limit_reached"),
            "spending limit",
        ),
        (error(429, "rate_limit_error", "slow", headers={"retry-after": "900"}), "15 min"),
        (HTML, "ANTHROPIC_BASE_URL"),
        (JSON, "ANTHROPIC_BASE_URL"),
        (EMPTY, "ANTHROPIC_BASE_URL"),
        (broken(reply("Half an answer"), "invalid"), "broke the reply off"),
    ],
    ids=["401", "403", "404", "spent", "long wait", "html", "json", "empty", "invalid"],
)
def test_error_without_a_retry_is_one_line_and_exit_code_1(answer: Answer, words: str) -> None:
    """S1-20, S1-46: one request; the message says what to do."""
    with serve_in_thread(answer, reply("never asked")) as api:
        run = agent_cli("-p", "go", api=api)

    [line] = run.stderr.strip().splitlines()
    assert run.code == 1
    assert words in line
    assert run.stdout == ""
    assert len(api.requests) == 1


def test_prompt_returns_and_history_stays_valid_after_errors_that_end_a_run() -> None:
    """S1-30, S1-31: the error may also come between a tool's result and the next reply."""
    read = reply("Let me look.", tool_use("glob", {"pattern": "*"}))
    run, api = session(
        error(400, "invalid_request_error", "bad"),
        HTML,
        read,
        error(500, "api_error", "down", headers={"x-should-retry": "false"}),
        broken(reply("Half"), "invalid"),
        reply("Whole."),
        prompts=["a", "b", "c", "d", "e"],
    )

    assert run.code == 0
    assert api.refusals == []
    assert run.stdout.endswith("Whole.\n")
    assert said_by_user(api.requests[-1].body) == ["a", "b", "c", "d", "e"]


def test_rate_limit_is_retried_and_reported_on_stderr_only() -> None:
    """S1-19, S1-21, C17: the table's waits scaled by base_s; the sixth failure is final."""
    limited = error(429, "rate_limit_error", "slow down")
    with serve_in_thread(*[limited] * 6, reply("never asked")) as api:
        run = agent_cli("-p", "go", api=api, AGENT_CLI_RETRY__BASE_S="0.01")

    told = [line.partition("retry ")[2] for line in run.stderr.splitlines() if "retry" in line]
    waits = ["0.01", "0.02", "0.04", "0.08", "0.16"]
    assert told == [f"{i} of 5 in {wait} s" for i, wait in enumerate(waits, 1)]
    assert paths.log_file().read_text().count('"event": "retry"') == 5
    assert run.stdout == ""
    assert run.code == 1
    assert len(api.requests) == 6


def test_unreachable_server_is_retried_then_reported_in_one_line() -> None:
    """C15: connection errors are retried; then one sentence, and exit code 1."""
    run = agent_cli("-p", "go", ANTHROPIC_BASE_URL="http://127.0.0.1:9", AGENT_CLI_RETRY__MAX="1")

    assert run.code == 1
    assert run.stdout == ""
    assert run.stderr.count("retry 1 of 1") == 1
    assert len(run.stderr.strip().splitlines()) == 2
    assert "Traceback" not in run.stderr


def test_a_base_url_that_ends_in_v1_works() -> None:
    """Other programs require the version there; we do not add a second one."""
    with serve_in_thread(reply("Here.")) as api:
        run = agent_cli("-p", "go", api=api, ANTHROPIC_BASE_URL=f"{api.base_url}/v1")

    assert run.stdout == "Here.\n"


def test_max_tokens_refusal_and_stop_sequence_are_each_handled() -> None:
    """A cut-off call is not run but requested again; a refused exchange is left out."""
    run, api = session(
        reply("Cut", tool_use("bash", {"command": "touch ran"}), stop_reason="max_tokens"),
        reply("Smaller."),
        reply("No.", stop_reason="refusal"),
        reply("Stopped", stop_reason="stop_sequence"),
        prompts=["a", "b", "c"],
    )

    assert run.code == 0
    assert api.refusals == []
    assert len(api.requests) == 4
    assert not Path("ran").exists()
    assert said_by_user(api.requests[3].body) == ["a", "c"]
    assert run.stdout.endswith("Stopped\n")
    assert "the model refused" in run.stderr


_CLOSED: Final = "agent-cli: stdout is closed: the answer cannot be written\n"


@pytest.mark.parametrize(
    ("line", "code", "complaint"),
    [
        ("--help >/dev/full", 1, "agent-cli: the disk is full: the answer cannot be written\n"),
        ("--help <&- >&-", 1, _CLOSED),
        ("--help 2>&- >/dev/null", 0, ""),
        ("--help </dev/null 1</dev/null", 1, _CLOSED),
        ("--bogus --output-format=json 2>/dev/null >&-", 2, ""),
        ("mcp serve 0>/dev/null", 0, ""),
    ],
)
def test_full_disk_or_closed_streams_cause_no_traceback(
    line: str, code: int, complaint: str
) -> None:
    """This happens under cron, in services, and with output redirected to a file.

    With closed streams it is a new interpreter, which finds them so. Nobody got what was to be
    written to a closed stdout, so the exit code claims no success, as that of `cat` or `grep`.
    """
    forked = shlex.join([sys.executable, *arguments_of(AGENT_CLI)])
    program = AGENT_CLI if line.startswith("--") else forked
    run = subprocess.run(
        ["/bin/sh", "-c", f"{program} {line}"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert (run.returncode, run.stdout, run.stderr) == (code, "", complaint)


def test_an_answer_that_a_closed_stdout_could_not_take_ends_with_1() -> None:
    """A script that asks the exit code must not go on as if it had the answer."""
    with serve_in_thread(reply("Here.")) as api:
        run = subprocess.run(
            ["/bin/sh", "-c", f"{AGENT_CLI} -p hi >&-"],
            env=os.environ | {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": api.base_url},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    assert (run.returncode, run.stderr) == (1, _CLOSED)
    assert len(api.requests) == 1
