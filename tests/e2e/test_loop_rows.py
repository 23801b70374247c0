"""The agent loop, seen from outside: the server's requests and the user's screen."""

import subprocess
from pathlib import Path

from agent_cli.system import paths
from tests.e2e.program import agent_cli, results_in, said_by_user, text_of
from tests.messages_api import error, reply, serve_in_thread, tool_use

YOLO = ("--permission-mode", "yolo")


def bash(command: str, id: str | None = None) -> dict[str, object]:
    return tool_use("bash", {"command": command}, id=id)


def test_a_session_of_several_prompts_and_tools_is_one_valid_history() -> None:
    """S1-02, S1-06, S1-11, S1-18, S1-31, S0-27: n tool rounds make n+1 whole requests."""
    Path("notes.txt").write_text("blue\n")
    with serve_in_thread(
        reply("Hello."),
        reply("Looking.", tool_use("read", {"path": "notes.txt"})),
        reply(bash("echo green > notes.txt")),
        reply("Changed."),
    ) as api:
        run = agent_cli(*YOLO, api=api, script="  hi \n\n   \nchange it\nexit\nnever read\n")

    assert run.code == 0
    assert run.stdout == "Hello.\nLooking.\nChanged.\n"
    assert api.refusals == []
    assert [len(request.body["messages"]) for request in api.requests] == [1, 3, 5, 7]
    assert said_by_user(api.requests[-1].body) == ["hi", "change it"]
    names = {"read", "edit", "write", "bash", "grep", "glob", "web_fetch"}
    names |= {"agent", "todo", "recall", "ask_user", "present_plan", "job_output"}
    [session] = paths.sessions_dir().glob("*.jsonl")
    for request in api.requests:
        assert request.body["stream"] is True
        assert {tool["name"] for tool in request.body["tools"]} == names
        assert request.body["system"] == api.requests[0].body["system"]
        assert request.body["metadata"] == {"user_id": session.stem}
    assert "blue" in text_of(results_in(api.requests[2].body)[0])
    assert Path("notes.txt").read_text() == "green\n"


def test_token_of_a_remote_is_hidden_from_the_model() -> None:
    """Threat 4: a checkout in a workflow leaves one in the configuration of git."""
    token = "ghs_16C7e42F292c6912E7710c838347Ae178B4a"
    url = f"https://x-access-token:{token}@github.com/a/b"
    for each in (["init", "-q"], ["remote", "add", "origin", url]):
        subprocess.run(["git", *each], check=True)
    with serve_in_thread(
        reply(bash("git remote -v; cat .git/config"), tool_use("read", {"path": ".git/config"})),
        reply("Done."),
    ) as api:
        run = agent_cli("-p", "go", *YOLO, api=api)

    shown = [text_of(result) for result in results_in(api.requests[1].body)]
    assert run.code == 0
    assert [text.count("x-access-token:[hidden: a credential of git]@") for text in shown] == [3, 1]
    assert token not in str(api.requests[1].body)


def test_tool_calls_of_one_reply_run_in_parallel_and_answer_in_call_order() -> None:
    """S1-07, S1-08, S1-09, S2-48: each waits for a later one, so they end in reverse order."""
    waits = "for i in $(seq 500); do [ -e {0} ] && break; sleep 0.02; done; [ -e {0} ]"
    calls = [
        bash(f"{waits.format('two')} && touch one && echo first", "toolu_1"),
        bash(f"{waits.format('three')} && touch two && echo second", "toolu_2"),
        bash("touch three && echo third", "toolu_3"),
    ]
    with serve_in_thread(reply("Now.", *calls), reply("Done.")) as api:
        run = agent_cli("-p", "go", *YOLO, api=api)

    answers = api.requests[1].body["messages"][2]
    results = results_in(api.requests[1].body)
    assert run.code == 0
    assert answers["role"] == "user"
    assert answers["content"][: len(results)] == results
    assert [result["tool_use_id"] for result in results] == ["toolu_1", "toolu_2", "toolu_3"]
    words = ["first", "second", "third"]
    assert all(word in text_of(result) for word, result in zip(words, results, strict=True))


def test_tool_errors_are_returned_to_the_model_and_the_loop_continues() -> None:
    """S1-12, S1-13, S1-14, S2-40: each is an error with its cause; the loop continues."""
    with serve_in_thread(
        reply(
            tool_use("lok", {}),
            tool_use("read", {"path": 7}),
            tool_use("read", {"path": "nowhere.txt"}),
        ),
        reply("I see."),
    ) as api:
        run = agent_cli("-p", "go", *YOLO, api=api)

    results = results_in(api.requests[1].body)
    assert run.stdout == "I see.\n"
    assert [result.get("is_error") for result in results] == [True, True, True]
    for result, word in zip(results, ["lok", "path", "nowhere.txt"], strict=True):
        assert word in text_of(result)


def test_a_prompt_whose_request_failed_stays_in_the_history() -> None:
    """S1-03, S1-30, S1-46: one line with the request's id, `you>` again, and no message is lost."""
    with serve_in_thread(
        reply("One."),
        error(400, "invalid_request_error", "no such thing", request_id="req_four_hundred"),
        reply("Three."),
    ) as api:
        run = agent_cli(api=api, script="a\nb\nc\n")

    complaints = [line for line in run.stderr.splitlines() if "no such thing" in line]
    assert run.code == 0
    assert run.stdout == "One.\nThree.\n"
    assert len(complaints) == 1
    assert "req_four_hundred" in complaints[0]
    assert said_by_user(api.requests[2].body) == ["a", "b", "c"]
    assert api.refusals == []


def test_one_connection_serves_the_whole_session() -> None:
    """S1-15: created once; its connection is kept between the prompts."""
    with serve_in_thread(reply("1"), reply("2"), reply("3")) as api:
        agent_cli(api=api, script="a\nb\nc\n")

        assert len(api.requests) == 3
        assert api.connections_made == 1
