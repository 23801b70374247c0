"""Message content in spans: valid JSON, bounded, and without secrets."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agent_cli.contracts.messages import (
    AssistantMessage,
    LlmMessage,
    ToolResultMessage,
    UserMessage,
)
from agent_cli.contracts.timeline import Block, Json, text_block
from agent_cli.system.redaction import Redactor
from agent_cli.telemetry.conventions import Content
from tests.tables import each_row

SECRET = "canary-5d1f7c-secret"
LIMIT = 70_000
CONTENT = Content(Redactor([SECRET]).value)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def test_messages_have_the_shape_of_the_opentelemetry_conventions() -> None:
    """Images are named but not sent: they would be larger than everything else."""
    call: Block = {"type": "tool_use", "id": "t1", "name": "read", "input": {"path": "a"}}
    thought: Block = {"type": "thinking", "thinking": "hm", "signature": "s"}
    messages: list[LlmMessage] = [
        UserMessage.of("look", [{"type": "image", "source": {"type": "base64", "data": "canary"}}]),
        AssistantMessage((thought, call)),
        ToolResultMessage("t1", "read", (text_block("a tree"),)),
    ]

    assert json.loads(CONTENT.messages(messages)) == [
        {"role": "user", "parts": [{"type": "text", "content": "look"}, {"type": "image"}]},
        {
            "role": "assistant",
            "parts": [
                {"type": "reasoning", "content": "hm"},
                {"type": "tool_call", "id": "t1", "name": "read", "arguments": {"path": "a"}},
            ],
        },
        {
            "role": "tool",
            "parts": [
                {
                    "type": "tool_call_response",
                    "id": "t1",
                    "response": [{"type": "text", "content": "a tree"}],
                }
            ],
        },
    ]


def test_the_newest_messages_are_kept_when_not_all_fit() -> None:
    messages = [UserMessage.of(f"{number} " + "x" * 7_000) for number in range(100)]

    kept = json.loads(CONTENT.messages(messages))

    assert [each["parts"][0]["content"].split()[0] for each in kept] == [
        str(number) for number in range(100 - len(kept), 100)
    ]
    assert len(kept) > 5


@each_row(
    "value",
    [
        {"text": f"a {SECRET} b"},
        {"password": "anything at all"},
        {"header": "Authorization: Bearer abcdefghijkl"},
        {"deep": [{"api_key": "whatever"}]},
        {"long": "x" * 7_990 + SECRET},
    ],
)
def test_secrets_are_masked_before_anything_is_cut(value: Json) -> None:
    """Half a secret would not be recognized."""
    written = CONTENT.json(value)

    for part in (SECRET, SECRET[:10], "anything", "abcdefghijkl", "whatever"):
        assert part not in written


@given(value=VALUES)
def test_any_value_becomes_json_that_can_be_sent(value: Any) -> None:
    written = CONTENT.json(value)

    json.loads(written)
    assert written.encode().decode() == written
    assert len(written) <= LIMIT


def test_overlong_or_too_deep_value_is_marked_as_omitted() -> None:
    deep: list[Any] = []
    for _ in range(5_000):
        deep = [deep]

    assert json.loads(CONTENT.json(deep)) == {"omitted": "nested too deeply"}
    assert "omitted" in CONTENT.json([f"{number} " + "x" * 1_000 for number in range(100)])
