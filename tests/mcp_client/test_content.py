import pytest
from mcp_types import CallToolResult

from agent_cli.contracts.timeline import Block, Json, text_block
from agent_cli.contracts.tooling import ToolResult
from agent_cli.mcp_client.content import tool_result

PNG = "iVBORw0KGgo="
BLOB: dict[str, Json] = {"uri": "file:///x", "mimeType": "image/png", "blob": PNG}


def image(media_type: str = "image/png") -> Block:
    source: Json = {"type": "base64", "media_type": media_type, "data": PNG}
    return {"type": "image", "source": source}


def unknown(media_type: str, size: str) -> Block:
    return text_block(f"({media_type}, about {size} bytes, which cannot be shown here)")


@pytest.mark.parametrize(
    ("part", "blocks"),
    [
        ({"type": "text", "text": "hello"}, [text_block("hello")]),
        ({"type": "image", "data": PNG, "mimeType": "image/webp"}, [image("image/webp")]),
        (
            {"type": "image", "data": PNG, "mimeType": "image/svg+xml"},
            [unknown("image/svg+xml", "9")],
        ),
        (
            {"type": "image", "data": "not base64", "mimeType": "image/png"},
            [unknown("image/png", "7")],
        ),
        ({"type": "image", "data": "", "mimeType": "image/png"}, [unknown("image/png", "0")]),
        (
            {"type": "image", "data": "A" * 5_242_884, "mimeType": "image/png"},
            [unknown("image/png", "3,932,163")],
        ),
        ({"type": "audio", "data": PNG, "mimeType": "audio/wav"}, [unknown("audio/wav", "9")]),
        (
            {"type": "resource_link", "uri": "file:///a", "name": "a"},
            [text_block("[a](file:///a)")],
        ),
        ({"type": "resource", "resource": BLOB}, [text_block("file:///x:"), image()]),
        (
            {"type": "resource", "resource": {"uri": "file:///x", "blob": PNG}},
            [text_block("file:///x:"), unknown("application/octet-stream", "9")],
        ),
    ],
)
def test_every_kind_of_content_becomes_blocks_the_api_accepts(
    part: dict[str, Json], blocks: list[Block]
) -> None:
    """One block the API refuses would make every later request of the session fail."""
    result = CallToolResult.model_validate({"content": [part]}, by_name=False)

    assert tool_result(result) == ToolResult(tuple(blocks))


def test_empty_tool_result_says_that_nothing_was_returned() -> None:
    """The API refuses an empty text block."""
    empty: Json = [{"type": "text", "text": " \n"}]
    result = CallToolResult.model_validate({"content": empty, "isError": True}, by_name=False)

    assert tool_result(result) == ToolResult.error("The tool returned nothing.")
