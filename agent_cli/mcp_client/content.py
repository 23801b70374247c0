"""What a server answers, as content blocks the Messages API accepts.

Everything else becomes text: an image of a kind the API does not know would make every later
request of the session fail.
"""

import base64
import binascii
import json

from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
)

from agent_cli.timeline import Block, text_block
from agent_cli.tooling import ToolResult

_IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_IMAGE_CHARS_MAX = 5 * 1024 * 1024


def tool_result(result: CallToolResult) -> ToolResult:
    """Return *result* as ours; structured content stands in when there is no other."""
    blocks = [block for part in result.content for block in _blocks(part)]
    if not blocks and result.structured_content is not None:
        blocks = [text_block(json.dumps(result.structured_content, ensure_ascii=False))]
    # The API refuses empty text blocks, and models take an empty result for a failure.
    return ToolResult(
        tuple(blocks) or (text_block("The tool returned nothing."),), is_error=result.is_error
    )


def _blocks(part: ContentBlock) -> list[Block]:
    match part:
        case TextContent(text=text):
            return [text_block(text)] if text.strip() else []
        case ImageContent(data=data, mime_type=media_type):
            return [_binary(data, media_type)]
        case AudioContent(data=data, mime_type=media_type):
            return [_left_out(data, media_type)]
        case ResourceLink(uri=uri, name=name, description=description):
            return [text_block(f"[{name}]({uri})" + (f": {description}" if description else ""))]
        case EmbeddedResource(resource=resource):
            if isinstance(resource, BlobResourceContents):
                media_type = resource.mime_type or "application/octet-stream"
                return [text_block(f"{resource.uri}:"), _binary(resource.blob, media_type)]
            return [text_block(f"{resource.uri}:\n{resource.text}")]


def _binary(data: str, media_type: str) -> Block:
    if media_type not in _IMAGE_TYPES or len(data) > _IMAGE_CHARS_MAX or not _is_base64(data):
        return _left_out(data, media_type)
    return {
        "type": "image",
        "source": {"type": "base64", "media_type": media_type, "data": data},
    }


def _is_base64(data: str) -> bool:
    try:
        return len(base64.b64decode(data, validate=True)) > 0
    except (binascii.Error, ValueError):
        return False


def _left_out(data: str, media_type: str) -> Block:
    size = len(data) * 3 // 4
    return text_block(f"({media_type}, about {size:,} bytes, which cannot be shown here)")
