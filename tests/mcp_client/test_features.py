"""Server features and requests other than tools, over real connections to an SDK server."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol  # Any: fields of ServerConfig, kinds of changes

import pytest
from mcp import Client

from agent_cli.contracts.errors import ToolError
from agent_cli.contracts.servers import PromptArgument, SamplingRequest, ServerPrompt
from agent_cli.contracts.timeline import Json, text_block
from agent_cli.mcp_client import McpServers, ServerConfig
from agent_cli.mcp_client.host import Elicitation, ElicitationAnswer, Host, Sampled
from tests.forked import arguments_of
from tests.mcp_client.conftest import HttpServer
from tests.records import captured_records
from tests.waiting import at_growing_limits

if TYPE_CHECKING:
    from mcp.client.subscriptions import Subscription

    from tests.mcp_client.conftest import Call, RawServer

Until = Callable[[Callable[[], object]], Awaitable[None]]
LIMIT_S = 40


class Running(Protocol):
    """Connect to the server, with optional changes to its configuration."""

    def __call__(
        self, host: Host | None = None, **changes: Any
    ) -> AbstractAsyncContextManager[McpServers]: ...


@pytest.fixture(scope="module")
def full_server() -> Iterator[HttpServer]:
    """One process for all tests: starting it takes longer than any of them."""
    script = str(Path(__file__).with_name("full_server.py"))
    with closing(HttpServer("http", script)) as server:
        yield server


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def running(full_server: HttpServer) -> Running:
    # The older revision: servers ask during a call, and announce changes by themselves.
    full = ServerConfig(name="full", transport="http", url=full_server.url, protocol="legacy")

    @asynccontextmanager
    async def connected(host: Host | None = None, **changes: Any) -> AsyncGenerator[McpServers]:
        async with McpServers(os.environ, host=host) as servers:
            servers.start([replace(full, **changes)])
            assert await servers.wait_started(LIMIT_S)
            yield servers

    return connected


async def test_elicitation_answer_combines_user_input_and_defaults(
    running: Running,
    call: "Call",
) -> None:
    """The user sees a plain form; omitted fields get the server's defaults."""
    asked: list[Elicitation] = []

    async def answer(question: Elicitation) -> ElicitationAnswer:
        asked.append(question)
        return ElicitationAnswer("accept", {"count": 3})

    async with running(Host(elicit=answer)) as servers:
        result = await call(servers, "mcp__full__ask")

    assert result.text == "accept: {'colour': 'green', 'count': 3}"
    assert (asked[0].server, asked[0].message) == ("full", "Which colour?")


@pytest.mark.parametrize(
    "answer", [ElicitationAnswer("decline"), ElicitationAnswer("accept", {"count": "many"})]
)
async def test_declined_or_invalid_elicitation_answer_is_sent_as_decline(
    running: Running, call: "Call", answer: ElicitationAnswer
) -> None:
    """A server never gets values that its form does not allow."""

    async def say(_question: Elicitation) -> ElicitationAnswer:
        return answer

    async with running(Host(elicit=say)) as servers:
        assert (await call(servers, "mcp__full__ask")).text == "decline: None"


async def test_elicitation_without_a_user_is_declined(running: Running, call: "Call") -> None:
    """In a headless run, the tool continues without an answer, and so does the run."""
    async with running() as servers:
        assert (await call(servers, "mcp__full__ask")).text == "decline: None"
        assert (await call(servers, "mcp__full__ask_to_visit")).text == "decline"


async def test_url_elicitation_is_shown_with_its_address(running: Running, call: "Call") -> None:
    asked: list[Elicitation] = []

    async def answer(question: Elicitation) -> ElicitationAnswer:
        asked.append(question)
        return ElicitationAnswer("accept")

    async with running(Host(elicit=answer)) as servers:
        assert (await call(servers, "mcp__full__ask_to_visit")).text == "accept"

    assert asked == [Elicitation(server="full", message="Please pay", url="https://pay.example/1")]


async def test_call_timeout_is_paused_while_the_user_answers(
    running: Running, call: "Call"
) -> None:
    """A dialog inside a call is not a silent server."""

    async def asked(limit_s: int) -> str:
        async def think_long(_question: Elicitation) -> ElicitationAnswer:
            await asyncio.sleep(1.5 * limit_s)
            return ElicitationAnswer("decline")

        async with running(Host(elicit=think_long), call_timeout_s=float(limit_s)) as servers:
            return (await call(servers, "mcp__full__ask")).text

    await at_growing_limits(asked, "decline: None".__eq__)


@pytest.mark.parametrize("way", ["http", "stdio"])
async def test_question_of_a_server_that_died_is_closed(
    call: "Call", tmp_path: Path, stack: ExitStack, way: str
) -> None:
    """Over http the connection stays, and the user filled in a form for nobody."""
    asked, closed = asyncio.Event(), asyncio.Event()
    script = str(Path(__file__).with_name("full_server.py"))

    async def answer(_question: Elicitation) -> ElicitationAnswer:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            closed.set()
        raise AssertionError

    pid = tmp_path / "pid"
    if way == "http":
        http = stack.enter_context(closing(HttpServer("http", script)))
        config = ServerConfig(name="full", transport="http", url=http.url, protocol="legacy")
        kill = http.kill
    else:
        arguments = tuple(arguments_of(script, "stdio", str(pid)))
        config = ServerConfig(
            name="full", command=sys.executable, args=arguments, protocol="legacy"
        )

        def kill() -> None:
            os.kill(int(pid.read_text()), signal.SIGKILL)

    async with McpServers(os.environ, host=Host(elicit=answer)) as servers:
        servers.start([config])
        assert await servers.wait_started(LIMIT_S)
        async with asyncio.timeout(LIMIT_S):
            calling = asyncio.ensure_future(call(servers, "mcp__full__ask"))
            await asked.wait()
            kill()
            outcome = await calling
            await closed.wait()

    assert outcome.is_error


async def test_sampling_request_of_a_server_is_answered_by_the_host(
    running: Running, call: "Call"
) -> None:
    requests: list[SamplingRequest] = []

    async def sample(request: SamplingRequest) -> Sampled:
        requests.append(request)
        return Sampled("4", "small-model")

    async with running(Host(sample=sample)) as servers:
        assert (await call(servers, "mcp__full__think")).text == "small-model: 4"

    assert requests == [
        SamplingRequest(
            server="full",
            messages=(("user", (text_block("2 + 2?"),)),),
            system_prompt="Count.",
            max_tokens=10,
        )
    ]


async def test_refused_sampling_is_an_error_for_the_server(running: Running, call: "Call") -> None:
    async def refuse(_request: SamplingRequest) -> Sampled:
        raise ToolError("the user did not let the server ask the model")

    async with running(Host(sample=refuse)) as servers:
        result = await call(servers, "mcp__full__think")

    assert result.is_error
    assert "the user did not let the server ask the model" in result.text


async def test_server_can_ask_for_our_roots(running: Running, call: "Call", tmp_path: Path) -> None:
    folders = [tmp_path, tmp_path / "more"]
    async with running(Host(roots=lambda: folders)) as servers:
        asked = await call(servers, "mcp__full__where")

    assert asked.text == f"{tmp_path.as_uri()} {(tmp_path / 'more').as_uri()}"


async def test_added_root_is_announced_to_servers(
    running: Running, call: "Call", tmp_path: Path
) -> None:
    """After /add-dir, a server that confines itself to the roots requests them again."""
    folders = [tmp_path]
    async with running(Host(roots=lambda: folders)) as servers:
        await call(servers, "mcp__full__where")
        folders.append(tmp_path / "added")
        servers.tell_roots()
        async with asyncio.timeout(LIMIT_S):
            while (await call(servers, "mcp__full__heard")).text != "changed":
                pass
        asked = await call(servers, "mcp__full__where")

    assert asked.text.endswith((tmp_path / "added").as_uri())


async def test_new_tools_of_a_running_server_are_offered(
    running: Running, call: "Call", until: Until
) -> None:
    """G11: a changed list is loaded."""
    async with running() as servers:
        before = servers.tools()
        await call(servers, "mcp__full__grow", {"name": "grown"})
        await until(lambda: len(servers.tools()) > len(before))

        assert {tool.name for tool in servers.tools()} - {tool.name for tool in before} == {
            "mcp__full__grown"
        }
        assert servers.states()[0].tools == len(servers.tools())
        assert (await call(servers, "mcp__full__grown")).text == "new"


async def test_new_tools_are_noticed_with_the_newest_protocol_revision(
    running: Running, call: "Call", until: Until
) -> None:
    """G11: such a server announces them only on a stream that we opened."""
    async with running(protocol="auto") as servers:
        before = servers.tools()
        await call(servers, "mcp__full__grow", {"name": "grown_again"})
        await until(lambda: len(servers.tools()) > len(before))


async def test_new_tools_from_before_that_stream_opened_are_noticed(
    running: Running, call: "Call", until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G11: the tools are listed while it opens, and nothing announces a change on it again."""
    grown = asyncio.Event()
    listen = Client.listen

    @asynccontextmanager
    async def late(client: Client, **kinds: Any) -> AsyncGenerator["Subscription"]:
        await grown.wait()
        async with listen(client, **kinds) as changes:
            yield changes

    monkeypatch.setattr(Client, "listen", late)
    async with running(protocol="auto") as servers:
        before = servers.tools()
        await call(servers, "mcp__full__grow", {"name": "grown_early"})
        grown.set()
        await until(lambda: len(servers.tools()) > len(before))


async def test_server_prompts_are_fetched_and_their_arguments_completed(
    running: Running, until: Until
) -> None:
    async with running() as servers:
        await until(servers.prompts)
        [prompt] = servers.prompts()
        requests = servers.requests("full")
        text = await requests.get_prompt("greet", {"name": "Ada"})
        values = await requests.complete("greet", "style", "w", {"name": "Ada"})
        with pytest.raises(ToolError, match="MCP server 'full', prompt greet"):
            await requests.get_prompt("greet", {})

    assert prompt == ServerPrompt(
        server="full",
        name="greet",
        command="mcp__full__greet",
        description="Greet somebody",
        arguments=(PromptArgument("name", required=True), PromptArgument("style")),
    )
    assert text == (text_block("Write a warm greeting for Ada."),)
    assert values == ("warm", "wild")


async def test_resources_are_listed_and_read(running: Running, until: Until) -> None:
    async with running() as servers:
        await until(lambda: len(servers.resources()) == 2)
        listed = [(each.uri, each.is_template) for each in servers.resources()]
        blocks = await servers.requests("full").read_resource("note://today")
        with pytest.raises(ToolError, match="resource gone://x"):
            await servers.requests("full").read_resource("gone://x")

    assert listed == [("note://today", False), ("note://{day}", True)]
    assert blocks == (text_block("note://today:\nbuy milk"),)


async def test_refused_list_leaves_the_other_lists_alone(
    raw_server: "RawServer", until: Until
) -> None:
    """Servers of Python's SDK declare resources, and know no method for templates of them."""
    offers: dict[str, Json] = {"tools": {}, "prompts": {}, "resources": {}}
    about: dict[str, Json] = {"protocolVersion": "2025-06-18", "capabilities": offers}
    resources: list[Json] = [{"name": "memo", "uri": "memo://insights"}]
    answers: dict[str, Json] = {
        "initialize": {"result": about},
        "prompts/list": {"error": {"code": -32603, "message": "it broke"}},
        "resources/list": {"result": {"resources": resources}},
    }
    async with McpServers(os.environ) as servers:
        servers.start([raw_server({"answers": answers})])
        await until(servers.resources)

        assert [each.uri for each in servers.resources()] == ["memo://insights"]
        assert servers.prompts() == ()


async def test_list_that_never_comes_leaves_the_earlier_ones(
    raw_server: "RawServer", until: Until
) -> None:
    """Some servers do not answer what they do not know: after the limit, all lists were dropped."""
    about: dict[str, Json] = {"protocolVersion": "2025-06-18", "capabilities": {"resources": {}}}
    resources: list[Json] = [{"name": "memo", "uri": "memo://insights"}]
    answers: dict[str, Json] = {
        "initialize": {"result": about},
        "resources/list": {"result": {"resources": resources}},
        "resources/templates/list": None,
    }
    async with McpServers(os.environ) as servers:
        servers.start([raw_server({"answers": answers})])
        await until(servers.resources)

        assert [each.uri for each in servers.resources()] == ["memo://insights"]


async def test_audio_result_is_saved_as_a_private_file_and_named(
    running: Running, call: "Call", tmp_path: Path
) -> None:
    """The model cannot hear; a person can."""
    async with running(Host(files_dir=lambda: tmp_path / "files")) as servers:
        result = await call(servers, "mcp__full__sing")

    [file] = (tmp_path / "files").iterdir()
    assert result.text == f"(audio/wav, 13 bytes, saved as {file})"
    assert (file.suffix, file.read_bytes()) == (".wav", b"RIFF la la la")
    assert file.stat().st_mode & 0o777 == 0o600


async def test_server_ping_is_answered_and_server_log_goes_to_our_log(
    running: Running, call: "Call", until: Until
) -> None:
    """It never goes to the screen, and has no terminal control sequences."""
    with captured_records() as logged:
        async with running() as servers:
            assert (await call(servers, "mcp__full__ping")).text == "pinged"
            await call(servers, "mcp__full__grumble")
            await until(lambda: any(each["event"] == "mcp server says" for each in logged))

    [said] = [each for each in logged if each["event"] == "mcp server says"]
    assert (said["level"], said["server_level"], said["text"]) == (
        "info",
        "error",
        "it is[31m cold",
    )


async def test_hidden_characters_are_removed_from_server_instructions(running: Running) -> None:
    async with running() as servers:
        assert servers.instructions() == {"full": "Be kind."}


async def test_thousands_of_log_lines_before_an_answer_are_counted(
    raw_server: "RawServer", call: "Call"
) -> None:
    """Each cost a task and a record, and 30,000 held the answer back for up to 26 s."""
    message: Json = {"level": "info", "data": "drip"}
    line = json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": message})
    with captured_records() as logged:
        async with McpServers(os.environ) as servers:
            servers.start([raw_server()])
            assert await servers.wait_started(30)
            result = await call(servers, "mcp__raw__raw", {"line": "\n".join([line] * 3000)})

            said = sum(each["event"] == "mcp server says" for each in logged)
            left_out = sum(each.get("left_out", 0) for each in logged)
    assert (result.text, said + left_out) == ("answered", 3000)
    assert left_out >= 1000
