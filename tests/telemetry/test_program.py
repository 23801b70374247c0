"""The installed program with telemetry on, against a receiver that parses the data."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from agent_cli.app.arguments import Arguments
from agent_cli.app.startup import start
from agent_cli.app.telemetry import NOT_INSTALLED, SessionTelemetry, telemetry_checks
from tests.e2e.program import KEY, Finished, agent_cli, environment
from tests.messages_api import ReceivedRequest, Reply, reply, serve_in_thread, tool_use
from tests.telemetry.receiver import Receiver, receiving

YOLO = ("--permission-mode", "yolo")
MODEL, CHILD_MODEL = "claude-sonnet-5-5", "claude-haiku-5-5"
TOOLS = {"glob", "bash", "agent", "grep"}
ASKED, CLIENT = "gen_ai.request.model", 3
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"


def answer(request: ReceivedRequest) -> Reply:
    """Two concurrent tools, then an agent that reads once itself."""
    blocks = request.body["messages"][-1]["content"]
    said = [str(block.get("text", "")) for block in blocks]
    if "go" in said:
        return reply(
            tool_use("glob", {"pattern": "*.txt"}),
            tool_use("bash", {"command": "echo trace=$TRACEPARENT"}),
            tool_use(
                "agent", {"description": "look", "prompt": "look", "subagent_type": "explore"}
            ),
        )
    if "look" in said:
        return reply(tool_use("grep", {"pattern": "x"}))
    return reply("Done.")


def test_spans_of_a_run_with_tools_and_an_agent_form_one_tree() -> None:
    """Each span is below its cause; commands are part of the trace of their call."""
    with receiving() as receiver, serve_in_thread(answer=answer) as api:
        run = agent_cli("-p", "go", *YOLO, api=api, TRACEPARENT=PARENT, **receiver.variables)
        sent = [request.body["messages"] for request in api.requests]

    assert (run.code, run.stdout, run.stderr) == (0, "Done.\n", "")
    ((root, *below),) = receiver.tree()
    assert (root, sorted(below, key=str)) == (
        "invoke_agent agent-cli",
        sorted(
            [
                [f"chat {MODEL}"],
                [f"chat {MODEL}"],
                ["execute_tool glob"],
                ["execute_tool bash"],
                [
                    "execute_tool agent",
                    [
                        "invoke_agent explore",
                        [f"chat {CHILD_MODEL}"],
                        ["execute_tool grep"],
                        [f"chat {CHILD_MODEL}"],
                    ],
                ],
            ],
            key=str,
        ),
    )
    top, bash = receiver.one("invoke_agent agent-cli"), receiver.one("execute_tool bash")
    assert {span.trace for span in receiver.spans} == {TRACE}
    assert top.parent == SPAN
    results = [block for message in sent[-1] for block in message["content"]]
    assert f"trace=00-{TRACE}-{bash.id}-01" in json.dumps(results)
    require_attributes(receiver)
    require_metrics(receiver)


def require_attributes(receiver: Receiver) -> None:
    """Check the attributes that the conventions require or recommend, on each kind of span."""
    top, child = receiver.one("invoke_agent agent-cli"), receiver.one("invoke_agent explore")
    chats = receiver.named(f"chat {MODEL}")
    run = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "anthropic",
        "agent_cli.stop_reason": "end_turn",
    }
    assert {**run, "gen_ai.agent.name": "agent-cli"}.items() <= top.attributes.items()
    assert top.attributes["gen_ai.request.model"] == MODEL
    assert {**run, "gen_ai.agent.name": "explore"}.items() <= child.attributes.items()
    assert child.attributes["gen_ai.request.model"] == CHILD_MODEL
    assert top.attributes["gen_ai.agent.id"] != child.attributes["gen_ai.agent.id"]
    for name in ("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"):
        assert top.attributes[name] == sum(span.attributes[name] for span in chats) > 0
    asked = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.request.model": MODEL,
        "gen_ai.response.model": MODEL,
        "gen_ai.request.stream": True,
        "gen_ai.response.finish_reasons": ["tool_use"],
        "gen_ai.conversation.id": top.attributes["gen_ai.conversation.id"],
        "server.address": "127.0.0.1",
    }
    first = chats[0]
    assert first.kind == CLIENT
    assert asked.items() <= first.attributes.items()
    assert first.attributes["gen_ai.request.max_tokens"] > 0
    assert first.attributes["gen_ai.response.time_to_first_chunk"] > 0
    assert first.attributes.keys() >= {"server.port", "gen_ai.response.id", "anthropic.request.id"}
    glob = receiver.one("execute_tool glob").attributes
    assert glob["gen_ai.operation.name"] == "execute_tool"
    assert (glob["gen_ai.tool.name"], glob["gen_ai.tool.type"]) == ("glob", "function")
    assert glob["gen_ai.tool.call.id"].startswith("toolu_")
    assert not any(span.failed for span in receiver.spans)
    assert receiver.resources[0]["service.name"] == "agent-cli"


def require_metrics(receiver: Receiver) -> None:
    """Check that the metrics agree with the spans."""
    for model in (MODEL, CHILD_MODEL):
        chats = receiver.named(f"chat {model}")
        points = [each for each in receiver.points if each.attributes.get(ASKED) == model]
        counted = {
            kind: sum(span.attributes[f"gen_ai.usage.{kind}_tokens"] for span in chats)
            for kind in ("input", "output")
        }
        assert {
            each.attributes["gen_ai.token.type"]: (each.count, each.sum)
            for each in points
            if each.metric == "gen_ai.client.token.usage"
        } == {kind: (len(chats), tokens) for kind, tokens in counted.items()}
        by_name = {each.metric: each for each in points}
        assert by_name["gen_ai.client.operation.duration"].count == len(chats)
        assert by_name["agent_cli.cost.usd"].sum > 0
    tools = receiver.of_metric("gen_ai.execute_tool.duration")
    assert {point.attributes["gen_ai.tool.name"] for point in tools} == TOOLS
    decided = {
        point.attributes["gen_ai.tool.name"]: (
            point.attributes["agent_cli.permission.decision"],
            point.sum,
        )
        for point in receiver.of_metric("agent_cli.permission.decisions")
    }
    assert decided == dict.fromkeys(TOOLS, ("allow", 1))


def test_losses_of_the_cache_are_data_in_stream_json_and_telemetry() -> None:
    """Their tokens, their price and whether the user knew; the cause stands in the span."""
    used = {"input_tokens": 10, "output_tokens": 5}
    wrote = used | {"cache_read_input_tokens": 0, "cache_creation_input_tokens": 50_000}
    script = [reply(tool_use("glob", {"pattern": "x"}), usage=wrote), reply("Done.", usage=wrote)]
    with receiving() as receiver, serve_in_thread(*script) as api:
        run = agent_cli("-p", "go", "--output-format", "stream-json", api=api, **receiver.variables)

    assert run.code == 0, run.stderr
    [loss] = [
        event
        for event in map(json.loads, run.stdout.splitlines())
        if event["type"] == "app.cache_lost"
    ]
    lost_usd = loss["cost_microdollars"] / 1_000_000
    assert (loss["tokens"], loss["was_announced"]) == (50_000, False)
    assert loss["cause"].startswith("no change of ours")
    assert lost_usd > 0
    labels = {"agent_cli.cache_lost.announced": False}
    for metric, expected in (("tokens", 50_000), ("usd", pytest.approx(lost_usd))):
        [point] = receiver.of_metric(f"agent_cli.cache_lost.{metric}")
        assert (point.attributes, point.sum) == (labels, expected)
    assert receiver.one("invoke_agent agent-cli").events == ["agent_cli.cache_lost"]


def asked_to_read(request: ReceivedRequest) -> Reply:
    """Read a file, then answer; both hold text that must not be sent by default."""
    if any(block["type"] == "tool_result" for block in request.body["messages"][-1]["content"]):
        return reply(f"canary-reply {KEY}")
    return reply(tool_use("read", {"path": "canary-path.txt"}))


def sent_with(*, content: str) -> tuple[Receiver, str]:
    """Run one prompt; return the receiver, and everything sent as text."""
    Path("canary-path.txt").write_text(f"canary-result {KEY}\n")
    with receiving() as receiver, serve_in_thread(answer=asked_to_read) as api:
        run = agent_cli(
            *("-p", f"canary-prompt {KEY}", *YOLO),
            api=api,
            AGENT_CLI_TELEMETRY__CONTENT=content,
            **receiver.variables,
        )
    assert (run.code, run.stderr) == (0, "")
    return receiver, b"".join(receiver.bodies).decode(errors="replace")


def test_message_content_is_not_sent_by_default() -> None:
    """Prompts, replies, arguments and results are all left out."""
    receiver, sent = sent_with(content="false")

    assert len(receiver.spans) == 4
    assert "canary" not in sent
    assert KEY not in sent
    assert str(Path.cwd()) not in sent


def test_message_content_is_sent_with_secrets_masked_if_enabled() -> None:
    """The masking is the same as in the log."""
    receiver, sent = sent_with(content="true")

    for said in ("canary-prompt", "canary-reply", "canary-path.txt", "canary-result"):
        assert said in sent
    assert KEY not in sent
    read = receiver.one("execute_tool read").attributes
    assert json.loads(read["gen_ai.tool.call.arguments"]) == {"path": "canary-path.txt"}
    last = receiver.named(f"chat {MODEL}")[-1].attributes
    (answered,) = json.loads(last["gen_ai.output.messages"])
    assert answered["parts"] == [{"type": "text", "content": "canary-reply ***"}]
    roles = [message["role"] for message in json.loads(last["gen_ai.input.messages"])]
    assert roles == ["user", "assistant", "tool"]


def test_project_can_neither_enable_telemetry_nor_set_its_endpoint() -> None:
    """A repository must not learn about runs, trusted or not."""
    with receiving() as theirs, receiving() as mine, serve_in_thread(*[reply("ok")] * 2) as api:
        Path(".env").write_text(
            "AGENT_CLI_TELEMETRY__ENABLED=true\n"
            f"OTEL_EXPORTER_OTLP_ENDPOINT={theirs.url}\n"
            "OTEL_EXPORTER_OTLP_HEADERS=x=1\n"
        )
        Path("appsettings.toml").write_text(
            f'[telemetry]\nenabled = true\nendpoint = "{theirs.url}"\ncontent = true\n'
        )
        off = agent_cli("-p", "go", "--trust", api=api)
        endpoint = mine.variables["OTEL_EXPORTER_OTLP_ENDPOINT"]
        on = agent_cli(
            *("-p", "go", "--trust"),
            api=api,
            AGENT_CLI_TELEMETRY__ENABLED="true",
            AGENT_CLI_TELEMETRY__FLUSH_TIMEOUT_S="60",
            AGENT_CLI_TELEMETRY__ENDPOINT=endpoint,
        )

    assert (off.code, on.code) == (0, 0)
    for key in ("enabled", "endpoint", "content"):
        assert f"telemetry.{key} cannot be set by a project" in off.stderr
    assert theirs.paths == []
    assert sorted({*mine.paths}) == ["/v1/metrics", "/v1/traces"]
    assert "x" not in mine.headers[0]
    assert "gen_ai.input.messages" not in mine.spans[0].attributes


def test_silent_collector_does_not_affect_the_run() -> None:
    """The program waits for `telemetry.flush_timeout_s` at its end, and prints nothing about it."""
    with receiving(silent=True) as receiver, serve_in_thread(reply("ok")) as api:
        variables = {**receiver.variables, "AGENT_CLI_TELEMETRY__FLUSH_TIMEOUT_S": "0.1"}
        run = agent_cli("-p", "go", api=api, **variables)
        assert not receiver.released.is_set()

    assert run == Finished(0, "ok\n", "")


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({"OTEL_SDK_DISABLED": "true"}, []),
        (
            {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            ["telemetry is off: OTEL_EXPORTER_OTLP_PROTOCOL"],
        ),
        (
            {"OTEL_METRIC_EXPORT_INTERVAL": "-1"},
            ["telemetry is off: interval value -1.0 is invalid"],
        ),
        (
            {
                "OTEL_TRACES_SAMPLER": "nonsense",
                "OTEL_BSP_MAX_QUEUE_SIZE": "x",
                "OTEL_EXPORTER_OTLP_CERTIFICATE": "/nowhere",
            },
            [
                "telemetry: Couldn't recognize sampler nonsense.",
                "telemetry: Unable to parse value for OTEL_BSP_MAX_QUEUE",
            ],
        ),
    ],
)
def test_disabling_or_invalid_telemetry_variable_breaks_no_run(
    variables: dict[str, str], told: list[str]
) -> None:
    """One line says so, without the SDK's traceback."""
    with receiving() as receiver, serve_in_thread(reply("ok")) as api:
        run = agent_cli("-p", "go", api=api, **receiver.variables | variables)

    assert (run.code, run.stdout) == (0, "ok\n")
    lines = run.stderr.splitlines()
    assert [text for text in told if sum(text in line for line in lines) != 1] == []
    assert len(lines) == len(told)
    if "OTEL_SDK_DISABLED" in variables or "off" in str(told):
        assert receiver.paths == []


def test_disabled_telemetry_imports_nothing() -> None:
    """Neither our modules nor OpenTelemetry's are loaded in a whole run."""
    script = """
import atexit, sys
from agent_cli.__main__ import main
atexit.register(lambda: print(*sorted(sys.modules)))
sys.argv = ["agent-cli", "-p", "go"]
main()
"""
    with serve_in_thread(reply("ok")) as api:
        run = subprocess.run(
            [sys.executable, "-P", "-c", script],
            env=environment(api, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318"}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )

    said, modules = run.stdout.splitlines()
    found = [
        name
        for name in modules.split()
        if name.startswith(("opentelemetry", "requests", "agent_cli.telemetry"))
    ]
    assert (said, found) == ("ok", [])


async def test_doctor_says_whether_the_collector_can_be_reached(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without telemetry there is no line; a password in the address is not shown."""
    off = await checks_of_telemetry()
    with receiving() as receiver:
        for name, value in receiver.variables.items():
            monkeypatch.setenv(name, value.replace("//", "//me:secret@"))
        on = await checks_of_telemetry()
    gone = await checks_of_telemetry()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    wrong = await checks_of_telemetry()
    monkeypatch.setitem(sys.modules, "requests", None)
    missing = await checks_of_telemetry()
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")

    url = receiver.url
    assert off == []
    assert on == [(True, f"traces to {url}/v1/traces"), (True, f"metrics to {url}/v1/metrics")]
    assert [(ok, "nobody answers there" in text) for ok, text in gone] == [(False, True)] * 2
    assert [(ok, text.partition(" ")[0]) for ok, text in wrong] == [
        (False, "OTEL_EXPORTER_OTLP_PROTOCOL")
    ]
    assert missing == [(False, NOT_INSTALLED)]
    assert await checks_of_telemetry() == [(None, "off: OTEL_SDK_DISABLED is true")]


async def checks_of_telemetry() -> list[tuple[bool | None, str]]:
    checks = await asyncio.to_thread(lambda: [*telemetry_checks(start(Arguments(), may_ask=False))])
    return [(check.ok, check.text) for check in checks]


def test_missing_telemetry_extra_is_reported_with_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AGENT_CLI_TELEMETRY__ENABLED", "true")
    monkeypatch.setitem(sys.modules, "requests", None)
    monkeypatch.delitem(sys.modules, "agent_cli.telemetry.otlp", raising=False)
    told: list[str] = []

    telemetry = SessionTelemetry(start(Arguments(), may_ask=False), told.append)

    assert told == [NOT_INSTALLED]
    assert telemetry.command_variables() == {}
