"""The program with a model behind the Chat Completions API."""

from pathlib import Path
from typing import Any

from tests.e2e.program import agent_cli
from tests.providers.openai_chat.server import Stream, chat_server, chunk, text, used
from tests.tables import each_row


def test_program_works_with_a_server_of_the_chat_completions_api() -> None:
    """The setting provider.wire_api, and an address: a tool is called, and the answer comes."""
    (Path.cwd() / "a.txt").write_text("seven\n")
    function = {"name": "read", "arguments": '{"path": "a.txt"}'}
    calls = {"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": function}]}
    reads = Stream([chunk(calls), chunk({}, "tool_calls"), used(10, 5)])
    with chat_server(reads, text("It is seven.")) as server:
        run = agent_cli(
            *("-p", "what is in a.txt?", "--model", "local-7b"),
            ANTHROPIC_API_KEY=None,
            OPENAI_BASE_URL=server.url,
            AGENT_CLI_PROVIDER__WIRE_API="chat",
        )

    assert (run.code, run.stdout) == (0, "It is seven.\n"), run.stderr
    assert [body["model"] for body in server.received] == ["local-7b"] * 2
    assert "seven" in server.received[1]["messages"][-1]["content"]


@each_row(
    "where",
    [
        {"AGENT_CLI_PROVIDER__WIRE_API": "chat", "OPENAI_API_KEY": "k"},
        {"AGENT_CLI_PROVIDER__COMPAT": "true"},
        {"AGENT_CLI_PROVIDER__PLATFORM": "bedrock"},
    ],
)
def test_place_of_inference_that_no_server_takes_ends_with_one_sentence(
    where: dict[str, Any],
) -> None:
    """Without it, the inference would be anywhere."""
    run = agent_cli("-p", "hi", AGENT_CLI_PROVIDER__INFERENCE_GEO="us", **where)

    assert run.code == 2
    assert "provider.inference_geo needs Anthropic's own API: remove it" in run.stderr


def test_chat_api_without_key_and_address_ends_with_one_sentence() -> None:
    run = agent_cli("-p", "hi", AGENT_CLI_PROVIDER__WIRE_API="chat")

    assert run.code == 2
    assert "neither OPENAI_API_KEY nor OPENAI_BASE_URL is set" in run.stderr
