"""The wire itself: malformed input, shutdown, timing, and stray output between the messages."""

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agent_cli.acp import RpcFault
from agent_cli.acp.schema import NewSessionParams, checked
from agent_cli.contracts.timeline import Json
from tests.acp.editor import LIMIT_S
from tests.e2e.program import AGENT_CLI, environment
from tests.forked import PipedProgram, start
from tests.messages_api import Answer, Gate, reply, serve_in_thread, tool_use
from tests.messages_api.script import Payload

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": 1, "clientCapabilities": {}},
}
INITIALIZE_LIMIT = 3  # times the import of an HTTP client
STARTS = 5


def started(*arguments: str, fresh: bool = False, **more: str | None) -> PipedProgram:
    return start(AGENT_CLI, *arguments, "acp", environment=environment(None, more), fresh=fresh)


def tell(program: PipedProgram, message: object) -> None:
    line = message if isinstance(message, str) else json.dumps(message)
    program.stdin.write(f"{line}\n")
    program.stdin.flush()


def heard(program: PipedProgram) -> Any:  # Any: JSON
    return json.loads(program.stdout.readline())


MALFORMED = [
    ("rubbish", None, -32700),
    ('{"jsonrpc": "2.0", "id": 1,', None, -32700),
    ("[" * 100_000, None, -32700),
    ("[]", None, -32600),
    ("[" + json.dumps(INITIALIZE) + "]", None, -32600),
    ("null", None, -32600),
    ("{}", None, -32600),
    ('{"jsonrpc": "1.0", "id": 7, "method": "initialize"}', 7, -32600),
    ('{"jsonrpc": "2.0", "id": 7, "method": 1}', 7, -32600),
    ('{"jsonrpc": "2.0", "id": {}, "method": "initialize"}', None, -32600),
    ('{"jsonrpc": "2.0", "id": "x", "method": "nothing"}', "x", -32601),
    ('{"jsonrpc": "2.0", "id": 7, "method": "session/prompt"}', 7, -32600),
    ('{"jsonrpc": "2.0", "id": 7, "method": "initialize", "params": [1]}', 7, -32602),
    ('{"jsonrpc": "2.0", "id": 7, "method": "authenticate"}', 7, -32602),
]
UNANSWERED = [
    "",
    "   ",
    '{"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "none"}}',
    '{"jsonrpc": "2.0", "method": "session/cancel"}',
    '{"jsonrpc": "2.0", "method": "nobody/knows"}',
    '{"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 99}}',
    '{"jsonrpc": "2.0", "id": 99, "result": {}}',
    '{"jsonrpc": "2.0", "id": true, "error": 5}',
]


def test_malformed_requests_get_errors_and_the_next_one_works() -> None:
    """One after the other in one program: none of them spoils what follows."""
    with started() as program:
        for line, id, code in MALFORMED:
            tell(program, line)
            answer = heard(program)
            assert (answer["id"], answer["error"]["code"]) == (id, code), line[:100]
        tell(program, INITIALIZE)

        assert heard(program)["result"]["protocolVersion"] == 1


def test_notifications_and_stray_responses_get_no_answer() -> None:
    with started() as program:
        for number, line in enumerate(UNANSWERED):
            tell(program, line)
            tell(program, {"jsonrpc": "2.0", "id": number, "method": "nothing"})

            assert heard(program)["id"] == number, line
        tell(program, INITIALIZE)

        assert heard(program)["result"]["protocolVersion"] == 1


def test_request_that_is_cancelled_before_it_began_is_answered() -> None:
    """A busy program reads both at once, and a client waits for the answer to each request."""
    both = [
        {"jsonrpc": "2.0", "id": 7, "method": "session/list", "params": {}},
        {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 7}},
    ]
    with started() as program:
        tell(program, "\n".join(map(json.dumps, both)))

        answer = heard(program)
        assert (answer["id"], answer["error"]["code"]) == (7, -32800)


def test_any_protocol_version_is_answered_with_version_1() -> None:
    """Clients send null for unsupported features, and fields of later versions."""
    strange = {
        "protocolVersion": 1,
        "clientCapabilities": {"fs": None, "elicitation": {"form": None}, "dance": True},
        "_meta": {"a": 1},
    }
    versions = (1, 2, 65535, "2025-02-11", 0)
    with started() as program:
        for params in (*({"protocolVersion": version} for version in versions), strange):
            tell(program, {**INITIALIZE, "params": params})

            assert heard(program)["result"]["protocolVersion"] == 1, params


def test_lone_surrogate_in_a_message_is_replaced() -> None:
    """JavaScript clients split texts within an emoji; strict parsers would refuse our echo."""
    with started() as program:
        tell(program, '{"jsonrpc": "2.0", "id": "\\ud83d", "method": "nothing"}')
        line = program.stdout.readline()

        assert "ud83d" not in line
        assert json.loads(line)["id"] == "\ufffd"


@pytest.mark.slow
def test_overlong_line_gets_an_error_and_the_next_line_is_read() -> None:
    """The limit is 64 MB."""
    with started() as program:
        program.stdin.write('"' + "x" * (65 * 1024 * 1024))
        tell(program, "")
        assert heard(program)["error"]["code"] == -32700
        tell(program, INITIALIZE)

        assert heard(program)["id"] == 1


def test_the_end_of_stdin_ends_the_program() -> None:
    with started() as program:
        tell(program, INITIALIZE)
        heard(program)
        program.stdin.close()

        assert program.wait(LIMIT_S) == 0
        assert program.stdout.read() == ""


def test_a_request_before_the_end_of_stdin_is_answered() -> None:
    """`echo ... | agent-cli acp` prints the available features."""
    with started() as program:
        stdout, stderr = program.communicate(json.dumps(INITIALIZE))

        assert json.loads(stdout)["result"]["agentInfo"]["name"] == "agent-cli"
        assert (program.returncode, stderr) == (0, "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_the_program(number: int) -> None:
    with started() as program:
        tell(program, INITIALIZE)
        heard(program)
        program.send_signal(number)

        assert program.wait(LIMIT_S) == 128 + number


def test_program_exits_when_the_client_closes_its_end_of_stdout() -> None:
    with started() as program:
        tell(program, INITIALIZE)
        heard(program)
        program.stdout.close()
        tell(program, INITIALIZE)

        assert program.wait(LIMIT_S) == 0


def test_session_options_on_the_command_line_are_refused() -> None:
    with started("--continue") as program:
        stdout, stderr = program.communicate()

        assert (program.returncode, stdout) == (2, "")
        assert "the editor chooses the session" in stderr


def test_invalid_settings_are_reported_on_stderr_only() -> None:
    """Nothing else ever reaches stdout."""
    folder = Path(os.environ["XDG_CONFIG_HOME"], "agent-cli")
    folder.mkdir(parents=True)
    (folder / "appsettings.toml").write_text("max_tokens = 'many'\n")
    with started() as program:
        stdout, stderr = program.communicate(json.dumps(INITIALIZE))

        assert (program.returncode, stdout) == (2, "")
        assert "max_tokens" in stderr


def test_handshake_takes_little_cpu_time() -> None:
    """An editor waits for it; a busy machine makes both take longer: the least counts."""
    spent, imported = list[float](), list[float]()
    while len(spent) < STARTS:
        spent.append(cpu_time_to_answer())
        imported.append(cpu_time_of("import httpx2"))
        if min(spent) < INITIALIZE_LIMIT * min(imported):
            return

    pytest.fail(f"{min(spent):.2f} s, and {min(imported):.2f} s to import httpx2")


def cpu_time_of(code: str) -> float:
    """Return the CPU seconds of a new interpreter that runs *code*."""
    with subprocess.Popen([sys.executable, "-c", code]) as program:
        _, program.returncode, used = os.wait4(program.pid, 0)
    return used.ru_utime + used.ru_stime


def cpu_time_to_answer() -> float:
    """Return the CPU seconds that a new process needs until it has answered the handshake."""
    with started(fresh=True) as program:
        tell(program, INITIALIZE)
        heard(program)
        fields = Path(f"/proc/{program.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_documented_first_exchange_of_an_editor_works() -> None:
    """The lines have the documented shapes, from the handshake to the answer."""
    client = {
        "protocolVersion": 1,
        "clientCapabilities": {
            "fs": {"readTextFile": True, "writeTextFile": True},
            "terminal": True,
            "_meta": {"terminal_output": True, "terminal-auth": True},
        },
        "clientInfo": {"name": "zed", "title": "Zed", "version": "0.201.5"},
    }
    said = [
        {"type": "text", "text": "Can you analyze this code for potential issues?"},
        {
            "type": "resource",
            "resource": {
                "uri": "file:///home/user/project/main.py",
                "mimeType": "text/x-python",
                "text": "def process_data(items):\n    for item in items:\n        print(item)",
            },
        },
    ]
    kinds = []
    with serve_in_thread(reply("It prints.")) as api:
        variables = environment(api, {})
        with start(AGENT_CLI, "acp", environment=variables) as program:
            tell(program, {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": client})
            assert heard(program)["result"]["protocolVersion"] == 1
            opening = {"cwd": str(Path.cwd()), "mcpServers": []}
            tell(program, {"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": opening})
            opened = heard(program)
            id = opened["result"]["sessionId"]
            prompt = {"sessionId": id, "prompt": said}
            tell(program, {"jsonrpc": "2.0", "id": 2, "method": "session/prompt", "params": prompt})
            while (message := heard(program)).get("id") != 2:
                kinds.append(message["params"]["update"]["sessionUpdate"])

    assert opened["id"] == 1, "nothing of a session comes before its id is known"
    assert message["result"]["stopReason"] == "end_turn"
    assert {"available_commands_update", "agent_message_chunk", "usage_update"} <= set(kinds)


def requested(id: int, method: str, **params: object) -> Payload:
    return {"jsonrpc": "2.0", "id": id, "method": f"session/{method}", "params": params}


def prompted(id: int, session: str, text: str = "go") -> Payload:
    return requested(id, "prompt", sessionId=session, prompt=[{"type": "text", "text": text}])


def cancelled(session: str) -> Payload:
    return {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}}


def tell_at_once(program: PipedProgram, *messages: Payload) -> None:
    """Send *messages* so that one read finds all of them."""
    tell(program, "\n".join(map(json.dumps, messages)))


def answers(program: PipedProgram, *ids: int) -> dict[int, Payload]:
    """Return the responses to the requests *ids*."""
    found: dict[int, Payload] = {}
    while len(found) < len(ids):
        message = heard(program)
        if "method" not in message and message["id"] in ids:
            found[message["id"]] = message
    return found


@contextmanager
def open_session(*replies: Answer, **capabilities: object) -> Generator[tuple[PipedProgram, str]]:
    """Yield the program with a session, and its id."""
    told = {"protocolVersion": 1, "clientCapabilities": capabilities}
    with (
        serve_in_thread(*replies) as api,
        start(AGENT_CLI, "acp", environment=environment(api, {})) as program,
    ):
        tell(program, {**INITIALIZE, "params": told})
        tell(program, requested(2, "new", cwd=str(Path.cwd()), mcpServers=[]))
        yield program, answers(program, 1, 2)[2]["result"]["sessionId"]


def test_cancel_right_behind_a_prompt_stops_it() -> None:
    """Both arrived in one read, and the prompt ran on: it had not begun at the cancel."""
    with open_session(reply("never")) as (program, session):
        tell_at_once(program, prompted(3, session), cancelled(session))

        assert answers(program, 3)[3]["result"]["stopReason"] == "cancelled"


def test_prompt_right_behind_a_cancel_runs_when_the_cancelled_one_has_ended() -> None:
    """It was refused with the advice to cancel first."""
    gate = Gate()
    held = reply("a long answer", gate=gate, hold_at=4)
    with open_session(held, reply("second")) as (program, session):
        tell(program, prompted(3, session))
        assert gate.reached.wait(LIMIT_S)
        tell_at_once(program, cancelled(session), prompted(4, session))
        ended = answers(program, 3, 4)

    assert [ended[id]["result"]["stopReason"] for id in (3, 4)] == ["cancelled", "end_turn"]


def test_prompt_that_is_cancelled_while_it_waits_reports_no_usage() -> None:
    """It reported that of the prompt before it, which counted twice in an editor's sum."""
    asking = reply(tool_use("bash", {"command": "touch x"}))
    with open_session(asking) as (program, session):
        tell(program, prompted(3, session))
        while heard(program).get("method") != "session/request_permission":
            pass
        stop = cancelled(session)
        tell_at_once(program, stop, prompted(4, session), stop)
        ended = answers(program, 3, 4)

    assert [ended[id]["result"]["stopReason"] for id in (3, 4)] == ["cancelled"] * 2
    assert ended[3]["result"]["usage"]["totalTokens"] > 0
    assert ended[4]["result"]["usage"]["totalTokens"] == 0


def test_prompt_right_behind_the_close_of_its_session_is_refused() -> None:
    """It ran in a session that was closed already, and nothing of it was stored."""
    with open_session(reply("never")) as (program, session):
        tell_at_once(program, requested(3, "close", sessionId=session), prompted(4, session))
        ended = answers(program, 3, 4)

    assert ended[3]["result"] == {}
    assert "is being closed" in ended[4]["error"]["message"]


@pytest.mark.parametrize(
    "answer", [{}, {"result": {"action": "accept", "content": {"q1": {"x": 1}}}}]
)
def test_malformed_answer_to_a_form_counts_as_none(answer: Payload) -> None:
    """Without a result and an error, it was waited for without end; an object became a text."""
    question = {"question": "Which?", "options": [{"label": "a"}, {"label": "b"}]}
    asking = reply(tool_use("ask_user", {"questions": [question]}))
    with open_session(asking, reply("ok"), elicitation={"form": {}}) as (program, session):
        tell(program, prompted(3, session))
        while (asked := heard(program)).get("method") != "elicitation/create":
            pass
        tell(program, {"jsonrpc": "2.0", "id": asked["id"], **answer})
        updates = []
        while (message := heard(program)).get("id") != 3:
            updates.append(json.dumps(message, ensure_ascii=False))

    assert message["result"]["stopReason"] == "end_turn"
    assert "→" not in "".join(updates)


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"cwd": "here", "mcpServers": []}, "cwd is not valid: the path must be absolute"),
        ({"cwd": "/", "mcpServers": 5}, "mcpServers must be a list"),
        ({"mcpServers": []}, "cwd is missing"),
    ],
)
def test_fault_in_a_request_is_named_in_plain_words(params: dict[str, Json], sentence: str) -> None:
    """It was pydantic's: "cwd: Value error, the path must be absolute"."""
    with pytest.raises(RpcFault, match=f"^{sentence}$"):
        checked(NewSessionParams, params)


def test_requests_with_random_parameters_never_break_the_connection() -> None:
    """Each request gets one answer, and the next one is read."""
    names = ("cwd", "sessionId", "mcpServers", "prompt", "modeId", "value", "configId", "cursor")
    values: tuple[object, ...] = (
        *(None, True, -1, 1e300, "", "\x00", "/", "../..", [], {}, [None], [[]], {"type": "text"}),
        *([{"type": "text"}], [{"type": "image", "data": "x"}], [{"name": "x", "command": 5}]),
    )
    methods = (
        "new",
        "load",
        "resume",
        "fork",
        "list",
        "close",
        "delete",
        "prompt",
        "set_mode",
        "cancel",
    )
    chooser = random.Random(7)
    with started(ANTHROPIC_API_KEY=None) as program:
        tell(program, INITIALIZE)
        heard(program)
        for id in range(300):
            params = {name: chooser.choice(values) for name in names if chooser.random() < 0.8}
            method = f"session/{chooser.choice(methods)}"
            tell(program, {"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        answered = {heard(program)["id"] for _ in range(300)}
        tell(program, {**INITIALIZE, "id": "after"})

        assert answered == set(range(300))
        assert heard(program)["id"] == "after"
