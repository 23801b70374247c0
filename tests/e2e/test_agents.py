"""Agents of the installed program: killed in the middle, and continued."""

import signal
import threading

from tests.e2e.program import agent_cli, started
from tests.messages_api import Gate, ReceivedRequest, Reply, reply, serve_in_thread, tool_use

YOLO = ("--permission-mode", "yolo")
NAMES = ("one", "two", "three")


def test_session_killed_with_running_agents_can_be_continued() -> None:
    """No call is open, every session file is valid, and the cost limit still holds."""
    gate, asked, lock = Gate(), [], threading.Lock()

    def answer(request: ReceivedRequest) -> Reply:
        text = str(request.body["messages"][-1]["content"][-1].get("text", ""))
        with lock:
            asked.append(text)
        if text == "go":
            return reply(
                *(tool_use("agent", {"description": each, "prompt": each}) for each in NAMES)
            )
        return reply("never", gate=gate, hold_at=0) if text in NAMES else reply("Gone on.")

    with serve_in_thread(answer=answer) as api:
        with started("-p", "go", "--max-cost", "5", *YOLO, api=api) as process:
            api.wait_for_requests(1 + len(NAMES))
            process.send_signal(signal.SIGKILL)
            process.wait()
        verified = agent_cli("sessions", "verify", api=api)
        run = agent_cli("-p", "again", "--continue", "--max-cost", "5", *YOLO, api=api)
        gate.open(100)
        sent = api.requests[-1].body["messages"]

    assert (verified.code, verified.stdout) == (0, "4 sessions checked, 0 damaged\n")
    assert (run.code, run.stdout) == (0, "Gone on.\n")
    answers = [block for block in sent[2]["content"] if block["type"] == "tool_result"]
    assert len(answers) == len(NAMES)
    assert api.refusals == []


def test_denied_call_of_an_agent_is_reported_and_exits_with_3() -> None:
    """The answer is printed, but it misses the denied part."""
    ask = {"description": "write it", "prompt": "write it"}

    def answer(request: ReceivedRequest) -> Reply:
        messages = request.body["messages"]
        if len(messages) > 1:
            return reply("Left out." if "write it" in str(messages[0]) else "Done.")
        of_agent = "write it" in str(messages[0])
        return reply(
            tool_use("write", {"path": "a", "content": "b"}) if of_agent else tool_use("agent", ask)
        )

    with serve_in_thread(answer=answer) as api:
        run = agent_cli("-p", "go", api=api)

    assert (run.code, run.stdout) == (3, "Done.\n")
    assert "agent general: write skipped: cannot ask here" in run.stderr
    assert api.refusals == []


def test_an_agent_that_a_limit_ended_invites_nobody_to_send_it_a_message() -> None:
    """The model that reads it cannot."""
    look = {"description": "look", "prompt": "look around"}

    def answer(request: ReceivedRequest) -> Reply:
        messages = request.body["messages"]
        if "look around" in str(messages[0]):
            return reply(tool_use("bash", {"command": "true"}))
        return reply("Done." if len(messages) > 1 else tool_use("agent", look))

    with serve_in_thread(answer=answer) as api:
        run = agent_cli("-p", "go", *YOLO, api=api, AGENT_CLI_AGENTS__MAX_ROUNDS="1")
        result = str(api.requests[-1].body["messages"][-1])

    assert run.stdout == "Done.\n"
    assert "[stopped: stopped after round 1, the limit max_rounds]" in result
