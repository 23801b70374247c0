from mcp_types import CallToolResult

from agent_cli.contracts.timeline import Block, Json, text_block
from agent_cli.contracts.tooling import ToolResult
from agent_cli.mcp_client.content import tool_result
from tests.tables import each_row

# The beginning of a file of 2×2 pixels, of one of 8,001×2, and the signature alone.
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAIAAAACSUVORA=="
LARGE = "iVBORw0KGgoAAAANSUhEUgAAH0EAAAACSUVORA=="
DAMAGED = "iVBORw0KGgo="
BLOB: dict[str, Json] = {"uri": "file:///x", "mimeType": "image/png", "blob": PNG}


def image() -> Block:
    source: Json = {"type": "base64", "media_type": "image/png", "data": PNG}
    return {"type": "image", "source": source}


def unknown(media_type: str, size: str, why: str = "cannot be shown here") -> Block:
    return text_block(f"({media_type}, about {size} bytes, which {why})")


def damaged(size: str = "10") -> Block:
    return unknown("image/png", size, "is damaged: it does not say how large the image is")


NO_IMAGE = "is not a PNG, JPEG, GIF or WebP image"


@each_row(
    ("part", "blocks"),
    [
        ({"type": "text", "text": "hello"}, [text_block("hello")]),
        ({"type": "image", "data": PNG, "mimeType": "image/png"}, [image()]),
        ({"type": "image", "data": PNG, "mimeType": "image/webp"}, [image()]),
        ({"type": "image", "data": PNG, "mimeType": "image/jpg"}, [image()]),
        (
            {"type": "image", "data": f"data:image/png;base64,{PNG}", "mimeType": "image/png"},
            [image()],
        ),
        ({"type": "image", "data": "iVBORw0KGgo-_w", "mimeType": "image/png"}, [damaged()]),
        ({"type": "image", "data": f"{PNG[:9]}\n{PNG[9:]}", "mimeType": "image/png"}, [image()]),
        (
            {"type": "image", "data": LARGE, "mimeType": "image/png"},
            [
                unknown(
                    "image/png",
                    "30",
                    "is too large to be sent (8001×2 pixels, 0.0 MB; at most 8000 pixels a side"
                    " and 7.9 MB)",
                )
            ],
        ),
        (
            {"type": "image", "data": DAMAGED, "mimeType": "image/png"},
            [damaged("9")],
        ),
        (
            {"type": "image", "data": "PHN2Zz4=", "mimeType": "image/svg+xml"},
            [unknown("image/svg+xml", "6", NO_IMAGE)],
        ),
        (
            {"type": "image", "data": "not base64", "mimeType": "image/png"},
            [unknown("image/png", "7", NO_IMAGE)],
        ),
        (
            {"type": "image", "data": "", "mimeType": "image/png"},
            [unknown("image/png", "0", NO_IMAGE)],
        ),
        (
            {"type": "image", "data": "A" * 5_242_884, "mimeType": "image/png"},
            [unknown("image/png", "3,932,163")],
        ),
        ({"type": "audio", "data": PNG, "mimeType": "audio/wav"}, [unknown("audio/wav", "30")]),
        (
            {"type": "resource_link", "uri": "file:///a", "name": "a"},
            [text_block("[a](file:///a)")],
        ),
        ({"type": "resource", "resource": BLOB}, [text_block("file:///x:"), image()]),
        (
            {"type": "resource", "resource": {"uri": "file:///x", "blob": PNG}},
            [text_block("file:///x:"), unknown("application/octet-stream", "30")],
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
