"""Background commands in the program itself: their end is told to the model, once."""

import json
from pathlib import Path
from typing import Any

from tests.e2e.program import Finished, agent_cli, said_by_user
from tests.messages_api import FakeMessagesApi, Reply, reply, serve_in_thread, tool_use

WAITS_FOR_GO = "until test -e go; do sleep 0.05; done; touch gone; exit 3"
JOB = tool_use("bash", {"command": WAITS_FOR_GO, "background": True})
END = tool_use("bash", {"command": "touch go; until test -e gone; do sleep 0.05; done"})
# The job ends right after `gone` is there; what is not known by then is told with the next prompt.
WAIT = tool_use("bash", {"command": "sleep 0.3"})


def typed(api: FakeMessagesApi, *lines: str) -> Finished:
    """Return a session in which *lines* were typed."""
    script = "".join(f"{line}\n" for line in lines)
    return agent_cli("--permission-mode", "yolo", "--prompts-from", "-", api=api, script=script)


def news(api: FakeMessagesApi) -> list[str]:
    """Return what the last request says about background commands."""
    texts = said_by_user(api.requests[-1].body)
    return [text for text in texts if "background command" in text]


def test_the_model_is_told_once_that_a_background_command_has_ended() -> None:
    """It need not look again and again."""
    replies = ["Waiting.", "Seen.", "Again."]
    with serve_in_thread(reply(JOB), reply(END), reply(WAIT), *map(reply, replies)) as api:
        run = typed(api, "go", "and now")

    assert run.code == 0
    [told] = news(api)
    assert told.startswith("[agent-cli: the background command `until test -e go;")
    assert "ended with exit 3. Its output is in " in told
    assert api.refusals == []


def test_another_conversation_is_not_told() -> None:
    """Nothing of a job gets into a conversation that did not start it."""
    with serve_in_thread(
        reply(JOB), reply("Started."), reply(END), reply(WAIT), reply("New.")
    ) as api:
        typed(api, "go", "/clear", "new")

    assert news(api) == []
    assert Path("gone").exists()


def test_a_command_that_the_model_ended_is_no_news() -> None:
    """The answer to its `kill` says so already."""

    def end(request: Any) -> Reply:  # Any: as in MakeAnswer
        text = json.dumps(request.body["messages"])
        group = text.rpartition("Started as process group ")[2].split(";")[0]
        return reply(tool_use("bash", {"command": f"kill -- -{group}"}))

    with serve_in_thread(reply(JOB), end, reply("Ended."), reply("Yes.")) as api:
        typed(api, "go", "well")

    assert "and all in it has ended" in json.dumps(api.requests[2].body["messages"])
    assert news(api) == []
