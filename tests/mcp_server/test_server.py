"""The agent as an MCP server, with the SDK's own client."""

import asyncio
import json
import os
import re
import sys
import threading
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp_types import ElicitRequestParams, ElicitResult, ErrorData

from agent_cli.app.arguments import parse_arguments
from agent_cli.app.served import ServedProgram
from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.events import AgentEnd
from agent_cli.contracts.listings import SessionInfo
from agent_cli.contracts.messages import UserMessage
from agent_cli.core.conversation import Conversation
from agent_cli.mcp_server.ports import Application, RunRequest
from agent_cli.mcp_server.runs import ServedRun
from agent_cli.mcp_server.server import make_server
from agent_cli.session_store import SessionStore
from agent_cli.system.paths import sessions_dir
from agent_cli.undo.stopped_calls import why_missing
from tests.app.agents.test_agents import Script, program
from tests.called import set_environment
from tests.e2e.program import AGENT_CLI, environment, processes_with, results_in, text_of
from tests.forked import arguments_of, start
from tests.messages_api import (
    FakeMessagesApi,
    Gate,
    ReceivedRequest,
    Reply,
    broken,
    error,
    reply,
    serve_in_thread,
    tool_use,
)
from tests.waiting import wait_until

WRITE = tool_use("write", {"path": "note.txt", "content": "done\n"})


class User:
    """Answers the server's questions as scripted; records them."""

    def __init__(self, *answers: bool | str) -> None:
        self.asked: list[str] = []
        self._answers = [*answers]

    async def answer(self, context: Any, params: ElicitRequestParams) -> ElicitResult | ErrorData:
        self.asked.append(params.message)
        answer = self._answers.pop(0)
        if answer == "fails":
            return ErrorData(code=-1, message="there is no window")
        if answer == "cancel":
            return ElicitResult(action="cancel")
        if isinstance(answer, str):
            return ElicitResult(action="accept", content={"answer": answer})
        return ElicitResult(action="accept", content={"allow": answer})


@asynccontextmanager
async def serving(
    api: FakeMessagesApi, *arguments: str, user: User | None = None, **options: Any
) -> AsyncGenerator[Client]:
    """Yield a client of our server, which serves the current folder in this process."""
    callback = user.answer if user else None
    with pytest.MonkeyPatch.context() as patch:
        set_environment(patch, environment(api, {}))
        program = ServedProgram(parse_arguments([*arguments, "mcp", "serve"]))
        server = make_server(program)
        with program.logging():
            async with Client(server, elicitation_callback=callback, **options) as client:
                yield client


@asynccontextmanager
async def serving_program(
    api: FakeMessagesApi, *arguments: str, user: User | None = None, **options: Any
) -> AsyncGenerator[Client]:
    """Yield a client of `agent-cli mcp serve` in the current folder."""
    parameters = StdioServerParameters(
        command=sys.executable,
        args=arguments_of(AGENT_CLI, *arguments, "mcp", "serve"),
        env=environment(api, {}),
    )
    callback = user.answer if user else None
    async with Client(stdio_client(parameters), elicitation_callback=callback, **options) as client:
        yield client


async def called(client: Client, tool: str, **given: object) -> dict[str, Any]:
    """Return the structured result of a successful call."""
    result = await client.call_tool(tool, given)
    assert not result.is_error, result.content
    assert isinstance(result.structured_content, dict)
    return result.structured_content


async def failed(client: Client, tool: str, **given: object) -> str:
    """Return the error text of a failing call."""
    result = await client.call_tool(tool, given)
    assert result.is_error
    return str(getattr(result.content[0], "text", ""))


async def test_ask_tool_and_reply_tool_share_one_session() -> None:
    """The terminal shares the session, too; the answer includes its cost.

    Models fill in optional arguments that they do not mean: an empty model is the server's own.
    """
    async with FakeMessagesApi(reply("First."), reply("Second.")) as api, serving(api) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        first = await called(client, "ask", prompt="one", model="")
        second = await called(client, "reply", session=first["session"], prompt="two")

        assert list(tools) == ["ask", "reply"]
        assert (first["text"], first["stop_reason"]) == ("First.", "end_turn")
        assert first["cost_usd"] > 0
        assert (second["text"], second["session"]) == ("Second.", first["session"])
        assert len(api.requests[1].body["messages"]) == 3


async def test_cost_of_a_call_includes_what_its_agents_cost() -> None:
    """As with `-p`; the caller keeps accounts by it."""

    def answer(request: ReceivedRequest) -> Reply:
        messages = request.body["messages"]
        if "count" in str(messages[0]):
            return reply("Counted.", usage={"input_tokens": 1_000_000, "output_tokens": 9})
        task = tool_use("agent", {"description": "count", "prompt": "count"})
        return reply("Done.") if len(messages) > 1 else reply(task)

    async with FakeMessagesApi(answer=answer) as api, serving(api) as client:
        outcome = await called(client, "ask", prompt="go")

    assert outcome["text"] == "Done."
    assert outcome["cost_usd"] > 0.1


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_approval_is_asked_of_the_clients_user(mode: str) -> None:
    """This works in both protocol revisions; the question contains the whole call."""
    user = User(True)
    async with (
        FakeMessagesApi(reply(WRITE), reply("Written.")) as api,
        serving(api, user=user, mode=mode) as client,
    ):
        outcome = await called(client, "ask", prompt="write it")

        assert '"content": "done\\n"' in user.asked[0]
        assert Path("note.txt").read_text() == "done\n"
        assert outcome["files_changed"] == [str(Path("note.txt").resolve())]


@pytest.mark.skipif(why_missing() != "", reason=why_missing() or "-")
async def test_client_learns_which_command_was_stopped_at_the_files_that_it_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where its user cannot be asked, a caller would take it for done."""
    removing = removes_files(monkeypatch)
    async with (
        FakeMessagesApi(removing, reply("Done.")) as api,
        serving(api, "--permission-mode", "auto-edit") as client,
    ):
        outcome = await called(client, "ask", prompt="go")

        assert outcome["refused_commands"] == ["rm f?"]
        assert len([*Path().glob("f?")]) == 2


@pytest.mark.skipif(why_missing() != "", reason=why_missing() or "-")
async def test_client_is_asked_before_a_command_takes_many_files(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In the midst of the call, the same question as in a terminal."""
    monkeypatch.setenv("AGENT_CLI_SANDBOX__MODE", "off")  # so it asks about each command
    removing = removes_files(monkeypatch)
    user = User(*(True, "Stop"), *(True, "cancel"), *(True, "Go on"))
    async with (
        FakeMessagesApi(*[removing, reply("Done.")] * 3) as api,
        serving(api, user=user, mode="legacy") as client,
    ):
        for number, left in enumerate((2, 2, 0)):
            removes_files(monkeypatch)
            outcome = await called(client, "ask", prompt="go")

            question = user.asked[2 * number + 1]
            assert "`rm f?` has deleted or overwritten 2 files" in question
            assert outcome["refused_commands"] == []
            assert len([*Path().glob("f?")]) == left


@pytest.mark.skipif(why_missing() != "", reason=why_missing() or "-")
async def test_yes_between_calls_covers_the_files_that_a_command_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing can be asked once the command runs, and the question says so."""
    monkeypatch.setenv("AGENT_CLI_SANDBOX__MODE", "off")  # so it asks about each command
    removing = removes_files(monkeypatch)
    user = User(True)
    async with (
        FakeMessagesApi(removing, reply("Done.")) as api,
        serving(api, user=user) as client,
    ):
        outcome = await called(client, "ask", prompt="go")

        assert "Yes also lets it delete or overwrite many files" in user.asked[0]
        assert outcome["refused_commands"] == []
        assert not [*Path().glob("f?")]


def removes_files(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a reply with a command that takes more files than it may."""
    monkeypatch.setenv("AGENT_CLI_UNDO__ASK_BEYOND_FILES", "2")
    monkeypatch.setenv("AGENT_CLI_UNDO__COMMANDS", "always")
    for number in range(4):
        Path(f"f{number}").touch()
    return reply(tool_use("bash", {"command": "rm f?"}))


async def test_approval_that_is_not_given_rejects_the_call() -> None:
    """A client that cannot ask after all used to end the call without a reason."""
    user = User(False, "cancel", "fails")
    async with (
        FakeMessagesApi(*[reply(WRITE), reply("Not written.")] * 3) as api,
        serving(api, user=user, mode="legacy") as client,
    ):
        for number in range(3):
            outcome = await called(client, "ask", prompt="write it")

            assert len(user.asked) == number + 1
            assert not Path("note.txt").exists()
            assert outcome["files_changed"] == []
            assert "does not want" in text_of(results_in(api.requests[-1].body)[0])


def test_request_with_half_an_emoji_is_answered() -> None:
    """JavaScript clients cut texts there; the SDK drops such a line, and the client waits."""
    asked = {"name": "ask", "arguments": {"prompt": "cut \ud83d"}}
    info = {"name": "js", "version": "1"}
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info}
    with serve_in_thread(reply("Done.")) as api:
        program = start(AGENT_CLI, "mcp", "serve", environment=environment(api, {}))
        with program:
            for id, method, params in (
                (1, "initialize", hello),
                (None, "notifications/initialized", {}),
                (2, "tools/call", asked),
            ):
                message = {"jsonrpc": "2.0", "method": method, "params": params}
                program.stdin.write(json.dumps(message | ({"id": id} if id else {})) + "\n")
            program.stdin.flush()
            answers = [json.loads(program.stdout.readline()) for _ in range(2)]

    assert answers[1]["result"]["structuredContent"]["text"] == "Done."
    assert api.requests[0].body["messages"][0]["content"][0]["text"] == "cut \ufffd"


async def test_call_is_rejected_if_the_client_cannot_ask_its_user() -> None:
    async with FakeMessagesApi(reply(WRITE), reply("No.")) as api, serving(api) as client:
        await called(client, "ask", prompt="write it")

        assert not Path("note.txt").exists()
        assert "nobody can be asked" in text_of(results_in(api.requests[1].body)[0])


async def test_each_tool_call_is_reported_as_progress() -> None:
    Path("a.txt").write_text("text")
    told: list[tuple[float, str | None]] = []

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, message))

    read = reply(tool_use("read", {"path": "a.txt"}), tool_use("glob", {"pattern": "*"}))
    async with FakeMessagesApi(read, reply("ok")) as api, serving(api) as client:
        await client.call_tool("ask", {"prompt": "look"}, progress_callback=progress)

    assert told == [(1, "Read a.txt"), (2, "Glob * in .")]


async def test_progress_that_is_still_being_reported_when_the_run_ends_is_not_lost() -> None:
    ended = asyncio.Event()
    told: list[str] = []

    async def progress(_number: int, text: str) -> None:
        await ended.wait()
        told.append(text)

    calls = reply(tool_use("glob", {"pattern": "*"}), tool_use("glob", {"pattern": "*.py"}))
    async with program(Script(go=[calls, reply("ok")])) as run:
        run.app.agent.subscribe(lambda event: ended.set() if isinstance(event, AgentEnd) else None)
        outcome = await ServedRun(run.app, allow=None, progress=progress).answer("go")

    assert outcome.text == "ok"
    assert told == ["Glob * in .", "Glob *.py in ."]


async def test_client_cannot_exceed_the_servers_folder_or_permission_mode() -> None:
    """The client's model writes the calls, and must not choose another folder or a freer mode."""
    Path("below").mkdir()
    async with FakeMessagesApi(reply("ok")) as api, serving(api) as client:
        outside = await failed(client, "ask", prompt="go", cwd="..")
        wrong = await failed(client, "ask", prompt="go", cwd="a\0b")
        freer = [
            await failed(client, "ask", prompt="go", permission_mode=mode)
            for mode in ("auto-edit", "yolo")
        ]
        unknown = await failed(client, "reply", session="0123456789ab", prompt="go")
        await called(
            client,
            "ask",
            prompt="go",
            cwd="below",
            model="claude-opus-5-5",
            max_cost=1,
            permission_mode="plan",
        )

        assert "where this server was started" in outside
        assert "cwd: 'a\\x00b' is not a path" in wrong
        assert all("allows more than ask, the server's own" in each for each in freer)
        assert "does not exist" in unknown
        assert api.requests[0].body["model"] == "claude-opus-5-5"
        assert len(api.requests) == 1


async def test_call_with_an_unknown_or_invalid_argument_is_refused_in_plain_words() -> None:
    """The client's model reads it; a limit of cost with another name would not hold."""
    async with FakeMessagesApi(reply("ok")) as api, serving(api) as client:
        [ask, _] = (await client.list_tools()).tools
        unknown = await failed(client, "ask", prompt="go", max_cost_usd=1)
        missing = await failed(client, "ask")
        several = await failed(client, "ask", prompt=5, max_cost=-1)
        nowhere = await failed(client, "nothing", prompt="go")

        assert not api.requests
    assert ask.input_schema["additionalProperties"] is False
    assert unknown == (
        "ask: no parameter is named max_cost_usd: they are prompt, cwd, model, max_cost,"
        " permission_mode"
    )
    assert missing == "Invalid input for ask: prompt: Field required"
    assert several == (
        "Invalid input for ask: prompt: Input should be a valid string;"
        " max_cost: Input should be greater than 0 (dollars)"
    )
    assert nowhere == "Unknown tool: nothing"


async def test_two_approvals_in_a_row_are_both_asked() -> None:
    """Since revision 2026-07-28 each needs one more request; the run waits in its session."""
    again = tool_use("write", {"path": "two.txt", "content": "2\n"})
    user = User(True, False)
    async with (
        FakeMessagesApi(reply(WRITE), reply(again), reply("Half.")) as api,
        serving(api, user=user) as client,
    ):
        outcome = await called(client, "ask", prompt="write both")

        assert (len(user.asked), outcome["text"]) == (2, "Half.")
        assert Path("note.txt").exists()
        assert not Path("two.txt").exists()
        assert api.refusals == []


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_only_true_in_the_form_allows_a_call(mode: str) -> None:
    """The form asks for a boolean; both protocol revisions read it alike."""

    class Wordy(User):
        async def answer(
            self, context: Any, params: ElicitRequestParams
        ) -> ElicitResult | ErrorData:
            await super().answer(context, params)
            return ElicitResult(action="accept", content={"allow": "yes"})

    async with (
        FakeMessagesApi(reply(WRITE), reply("Not written.")) as api,
        serving(api, user=Wordy(True), mode=mode) as client,
    ):
        await called(client, "ask", prompt="write it")

    assert not Path("note.txt").exists()


async def test_each_decision_is_recorded_while_the_next_is_asked_for() -> None:
    """A client that goes away then costs only the decisions that it had not sent."""
    again = tool_use("write", {"path": "two.txt", "content": "2\n"})
    recorded: list[str] = []

    class Watching(User):
        async def answer(
            self, context: Any, params: ElicitRequestParams
        ) -> ElicitResult | ErrorData:
            [session] = sessions_dir().rglob("*.jsonl")
            recorded.append(session.read_text())
            return await super().answer(context, params)

    async with (
        FakeMessagesApi(reply(WRITE, again), reply("Both.")) as api,
        serving(api, user=Watching(True, True), mode="legacy") as client,
    ):
        outcome = await called(client, "ask", prompt="write both")

    assert outcome["text"] == "Both."
    assert ['"decision":"approved"' in each for each in recorded] == [False, True]


@pytest.mark.parametrize("end", ["cancel", "fails"])
async def test_answers_before_a_closed_question_reach_the_model(end: str) -> None:
    """The client's user gave them; the model read that there were none."""
    options = [{"label": label, "description": ""} for label in ("Go on", "Stop")]
    questions = [
        {"question": f"Question {at}?", "header": f"Q{at}", "options": options} for at in (1, 2)
    ]
    asking = tool_use("ask_user", {"questions": questions})
    async with (
        FakeMessagesApi(reply(asking), reply("Done.")) as api,
        serving(api, user=User("Go on", end), mode="legacy") as client,
    ):
        await called(client, "ask", prompt="go")

    assert "They had answered:" in text_of(results_in(api.requests[1].body)[0])


async def test_failed_run_returns_the_error_text() -> None:
    failure = error(400, "invalid_request_error", "no such thing")
    async with FakeMessagesApi(failure) as api, serving(api) as client:
        assert "no such thing" in await failed(client, "ask", prompt="go")


async def test_failed_run_says_its_cost_and_its_session() -> None:
    """Tokens of earlier turns, and of replies that broke off, are paid for all the same."""
    write = reply(tool_use("bash", {"command": "true"}))
    failures = (
        error(400, "invalid_request_error", "no such thing"),
        broken(reply("Half of it"), "invalid"),
    )
    for failure in failures:
        async with (
            FakeMessagesApi(write, failure, reply("Went on.")) as api,
            serving(api, "--permission-mode", "yolo") as client,
        ):
            said = await failed(client, "ask", prompt="go")

            found = re.search(r"this call cost \$0\.00\d+.*; session (\w+) can be continued", said)
            assert found, said
            assert ("broke off at most" in said) == (failure is failures[1])
            again = await called(client, "reply", session=found[1], prompt="go on")
            assert again["text"] == "Went on."


async def test_run_that_ends_at_a_limit_is_an_error_that_names_the_session() -> None:
    """Its text is half an answer: the client's model must not take it for the whole."""
    write = tool_use("bash", {"command": "true"})
    async with (
        FakeMessagesApi(reply("Looking.", write), reply("Done.")) as api,
        serving(api, "--max-rounds", "1", "--permission-mode", "yolo") as client,
    ):
        said = await failed(client, "ask", prompt="go")

        assert "the limit max_rounds;" in said
        assert "send a message" not in said
        assert "this call cost $0.0" in said
        assert "can be continued with reply" in said
        assert "Looking." in said


async def test_saved_sessions_can_be_read_as_resources() -> None:
    async with FakeMessagesApi(reply("The answer.")) as api, serving(api) as client:
        outcome = await called(client, "ask", prompt="the question")
        id = outcome["session"]
        listed: Any = (await client.read_resource("sessions://all")).contents[0]
        session: Any = (await client.read_resource(f"session://{id}")).contents[0]

        assert [each["title"] for each in json.loads(listed.text)] == ["the question"]
        assert "The answer." in session.text
        with pytest.raises(Exception, match="does not exist"):
            await client.read_resource("session://0123456789ab")


async def test_sessions_of_other_folders_can_neither_be_read_nor_continued(tmp_path: Path) -> None:
    """Threat 24: a client of one project is not to learn what another project's user said."""
    other = tmp_path.with_name(f"{tmp_path.name}-other")
    other.mkdir()
    conversation = Conversation()
    session = SessionStore(sessions_dir()).create(conversation, other)
    conversation.publish = session.record
    conversation.begin(UserMessage.of("the secret plan"))
    session.close()
    async with FakeMessagesApi() as api, serving(api) as client:
        listed: Any = (await client.read_resource("sessions://all")).contents[0]
        why = await failed(client, "reply", session=session.id, prompt="what is the plan?")
        with pytest.raises(Exception, match="does not exist in this folder"):
            await client.read_resource(f"session://{session.id}")

    assert json.loads(listed.text) == []
    assert "does not exist in this folder" in why
    assert api.requests == []


async def test_client_disconnect_ends_the_running_command() -> None:
    marker = f"sleep 1007.{os.getpid():07}"
    async with (
        FakeMessagesApi(reply(tool_use("bash", {"command": f"touch begun; {marker}"}))) as api,
        serving_program(api, "--permission-mode", "yolo") as client,
        asyncio.TaskGroup() as group,
    ):
        call = group.create_task(client.call_tool("ask", {"prompt": "run"}))
        await asyncio.to_thread(wait_until, Path("begun").exists, "the command runs")
        call.cancel()
    await asyncio.to_thread(wait_until, lambda: not processes_with(marker), "the command has ended")


class Stuck:
    """A builder that does not finish until it is released."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.begun = 0

    def build_for(self, request: RunRequest) -> Application:
        self.begun += 1
        self.go_on.wait(60)
        raise UsageError("enough")

    def sessions(self) -> Sequence[SessionInfo]:
        return ()

    def transcript(self, id: str) -> str:
        return ""


async def test_second_reply_at_once_waits_for_the_end_of_the_first() -> None:
    """The session was "open in another agent-cli": a client's model can close none."""
    builder = Stuck()
    async with Client(make_server(builder)) as client, asyncio.TaskGroup() as group:
        first = group.create_task(failed(client, "reply", session="s1", prompt="go"))
        other = group.create_task(failed(client, "reply", session="s2", prompt="go"))
        await asyncio.to_thread(wait_until, lambda: builder.begun == 2, "two calls run")
        try:
            second = await failed(client, "reply", session="s1", prompt="and this")
        finally:
            builder.go_on.set()
        ended = [(await first), (await other)]

    assert second.endswith("session s1 answers another call: wait for its end")
    assert all(text.endswith("enough") for text in ended)


async def test_reply_to_a_new_session_at_work_waits_for_its_end() -> None:
    """Its id is in the list of sessions while the call that began it still runs."""
    gate = Gate()
    async with (
        FakeMessagesApi(reply("The answer.", gate=gate, hold_at=0)) as api,
        serving(api) as client,
        asyncio.TaskGroup() as group,
    ):
        first = group.create_task(called(client, "ask", prompt="go"))
        await asyncio.to_thread(wait_until, lambda: api.requests, "the call runs")
        try:
            listed: Any = (await client.read_resource("sessions://all")).contents[0]
            [session] = json.loads(listed.text)
            why = await failed(client, "reply", session=session["id"], prompt="and this")
        finally:
            gate.open()
        outcome = await first

    assert why.endswith(f"session {outcome['session']} answers another call: wait for its end")


async def test_calls_beyond_the_concurrency_limit_are_refused() -> None:
    """Each is a separate program; a call beyond the limit is refused, not queued."""
    builder = Stuck()
    async with Client(make_server(builder)) as client, asyncio.TaskGroup() as group:
        calls = [group.create_task(failed(client, "ask", prompt="go")) for _ in range(16)]
        await asyncio.to_thread(wait_until, lambda: builder.begun == 16, "16 calls run")
        try:
            assert "16 calls run already" in await failed(client, "ask", prompt="go")
        finally:
            builder.go_on.set()
        assert all([(await call).endswith("enough") for call in calls])
        assert (await failed(client, "ask", prompt="go")).endswith("enough")
