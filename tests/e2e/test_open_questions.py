"""A question or plan that was open when its program was killed, at each door that continues it."""

from pathlib import Path

import pytest

from agent_cli.contracts.messages import UserMessage
from agent_cli.core.conversation import Conversation
from agent_cli.session_store import SessionStore
from agent_cli.session_store.history import NEVER_ANSWERED
from agent_cli.system.paths import sessions_dir
from tests.acp.editor import editor_of_program
from tests.e2e.program import agent_cli, in_terminal, results_in, text_of
from tests.e2e.test_person import PLAN, QUESTION
from tests.fakes import calls, says
from tests.mcp_server.test_server import User, called, serving_program
from tests.messages_api import FakeMessagesApi, reply, serve_in_thread, tool_use
from tests.messages_api.script import Payload

ASKED, PLANNED = "❯ 1 SQLite  one file", "❯ 1 Yes, and edit files"
ANSWERED = "Which database?\n→ SQLite"
APPROVED = "The user approved the plan."
CASES = pytest.mark.parametrize(
    ("call", "shown", "told"), [(QUESTION, ASKED, ANSWERED), (PLAN, PLANNED, APPROVED)]
)


def left_open(call: Payload) -> str:
    """Write the session that a kill during *call* leaves, after a compaction; return its id."""
    conversation = Conversation()
    session = SessionStore(sessions_dir()).create(conversation, Path.cwd())
    conversation.publish = session.record
    conversation.begin(UserMessage.of("before"))
    conversation.add_reply(says("earlier"))
    conversation.compact("a summary", conversation.prompts[-1].output[0].id)
    conversation.complete()
    conversation.begin(UserMessage.of("go"))
    conversation.add_reply(calls({**call, "id": "q1"}))
    conversation.start_call("q1", asks_person=True)
    session.close()
    return session.id


def told_to_the_model(api: FakeMessagesApi, request: int = 0) -> str:
    """Return the result of the question in a request."""
    [result] = results_in(api.requests[request].body)
    return text_of(result)


@CASES
def test_open_question_is_asked_in_another_folder_and_belongs_to_the_first_that_continues(
    call: Payload, shown: str, told: str
) -> None:
    """`-c` means this folder's sessions; a session that is named is continued anywhere.

    The second program is told how to get a copy, in which the question is closed.
    """
    id = left_open(call)
    with (
        serve_in_thread(reply("Copied."), reply("Thanks.")) as api,
        pytest.MonkeyPatch.context() as place,
    ):
        Path("elsewhere").mkdir()
        place.chdir("elsewhere")
        latest = agent_cli("-c", "-p", "go on", api=api)
        with in_terminal(api, "--resume", id) as first:
            first.until(shown)
            second = agent_cli("--resume", id, "-p", "go on", api=api)
            copy = agent_cli("--fork", id, "-p", "go on", api=api)
            first.send("\r")
            first.until("Thanks.")

    assert (latest.code, "no session of" in latest.stderr) == (2, True)
    assert second.code == 1 and f"--fork {id}" in second.stderr
    assert copy.stdout == "Copied.\n"
    assert [told_to_the_model(api, request) for request in (0, 1)] == [NEVER_ANSWERED, told]


@CASES
def test_headless_run_leaves_an_open_question_and_names_both_ways_to_answer(
    call: Payload, shown: str, told: str
) -> None:
    """Nothing is sent; the shell command passes the person's words on, or approves a plan."""
    id = left_open(call)
    with serve_in_thread(reply("Thanks.")) as api:
        run = agent_cli("-c", "-p", "go on", api=api)
        sent = len(api.requests)
        decision = ("approve", id) if call is PLAN else ("reject", id, "q1", ANSWERED)
        answered = agent_cli("sessions", *decision, api=api)

    assert (run.code, sent) == (3, 0)
    assert f"--resume {id} asks again" in run.stderr
    assert f"sessions reject {id} q1 'TEXT' answers" in run.stderr
    assert answered.stdout == "Thanks.\n"
    assert told in told_to_the_model(api)


@CASES
async def test_editor_that_loads_the_session_gets_the_open_question(
    call: Payload, shown: str, told: str
) -> None:
    id = left_open(call)
    async with FakeMessagesApi(reply("Thanks."), reply("Done.")) as api:
        async with editor_of_program(api) as (client, _):
            await client.agent.initialize(protocol_version=1)
            await client.agent.load_session(cwd=str(Path.cwd()), session_id=id)
            client.permissions.append("0" if call is QUESTION else "auto-edit")
            await client.say(id, "go on")

        assert len(client.asked) == 1
        assert told_to_the_model(api) == told


@CASES
async def test_mcp_client_is_not_asked_to_allow_a_question(
    call: Payload, shown: str, told: str
) -> None:
    """It can say yes or no, which answers neither; so nobody is asked, and nothing is approved."""
    id = left_open(call)
    user = User(True)
    async with FakeMessagesApi(reply("Thanks."), reply("Done.")) as api:
        async with serving_program(api, user=user) as client:
            await called(client, "reply", session=id, prompt="go on")

        assert user.asked == []
        assert "nobody can be asked here" in told_to_the_model(api)


def test_decision_that_was_given_before_a_kill_is_not_asked_for_again() -> None:
    """Of three calls one was allowed and one declined; both hold once the third is decided."""
    uses = [tool_use("bash", {"command": f"echo >> {name}"}) for name in ("a", "b", "c")]
    with serve_in_thread(reply(*uses), reply("Done.")) as api:
        with in_terminal(api) as killed:
            killed.until_prompt()
            killed.send("go\r")
            for number, name, answer in ((1, "a", "y\r"), (3, "c", "n\r")):
                killed.until("❯ y Yes, all")
                killed.send(f"{number}\r")
                killed.until(f"── Run echo >> {name} ─")
                killed.until("❯ 1 Yes")
                killed.send(answer)
            killed.until("── Run echo >> b ─")
            killed.child.kill()
            killed.exit_code()
        with in_terminal(api, "-c") as terminal:
            terminal.until("❯ 1 Yes")
            asked = terminal.text
            terminal.send("y\r")
            terminal.until("Done.")

    assert "allow all" not in asked
    assert "allowed before: Run echo >> a\ndeclined before: Run echo >> c\n\n── Run" in asked
    assert [Path(name).exists() for name in ("a", "b", "c")] == [True, True, False]
    assert Path("a").read_text() == "\n"
