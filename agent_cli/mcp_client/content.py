"""Convert a server's answers to content blocks that the Messages API accepts.

Unsupported kinds become text: an image of an unknown type would make every later request of the
session fail.
"""

import base64
import binascii
import json
import mimetypes
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path

from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from agent_cli.contracts.errors import SettingsError
from agent_cli.contracts.media_files import image_file_block
from agent_cli.contracts.timeline import Block, text_block
from agent_cli.contracts.tooling import ToolResult
from agent_cli.mcp_client.stored_files import write_private

_URL_SAFE = str.maketrans("-_", "+/")
_IMAGE_CHARS_MAX = 5 * 1024 * 1024


def tool_result(result: CallToolResult, files_dir: Path | None = None) -> ToolResult:
    """Convert *result*; structured content is used if there is no other.

    Args:
        files_dir: Folder for content that cannot be shown; None leaves it out.
    """
    blocks = list(content_blocks(result.content, files_dir))
    if not blocks and result.structured_content is not None:
        blocks = [text_block(json.dumps(result.structured_content, ensure_ascii=False))]
    # The API rejects empty text blocks, and models interpret an empty result as a failure.
    return ToolResult(
        tuple(blocks) or (text_block("The tool returned nothing."),), is_error=result.is_error
    )


def content_blocks(parts: Iterable[ContentBlock], files_dir: Path | None = None) -> Iterator[Block]:
    """Yield *parts* as blocks of the Messages API."""
    for part in parts:
        match part:
            case TextContent(text=text):
                if text.strip():
                    yield text_block(text)
            case ImageContent(data=data, mime_type=media_type):
                yield _binary(data, media_type, files_dir)
            case AudioContent(data=data, mime_type=media_type):
                yield _as_file(data, media_type, files_dir)
            case ResourceLink(uri=uri, name=name, description=description):
                more = f": {description}" if description else ""
                yield text_block(f"[{name}]({uri}){more}")
            case EmbeddedResource(resource=resource):
                yield from resource_blocks(resource, files_dir)


def resource_blocks(
    resource: TextResourceContents | BlobResourceContents, files_dir: Path | None
) -> Iterator[Block]:
    """Yield a resource's content, labelled with its URI."""
    if isinstance(resource, BlobResourceContents):
        media_type = resource.mime_type or "application/octet-stream"
        yield text_block(f"{resource.uri}:")
        yield _binary(resource.blob, media_type, files_dir)
    else:
        yield text_block(f"{resource.uri}:\n{resource.text}")


def _binary(data: str, media_type: str, files_dir: Path | None) -> Block:
    """Return an image of any declared type by its real type; anything else as a file."""
    if not media_type.startswith("image/") or len(data) > _IMAGE_CHARS_MAX:
        return _as_file(data, media_type, files_dir)
    try:
        return image_file_block(_decoded(data))
    except ValueError as error:
        return _as_file(data, media_type, files_dir, f"which {error}")


def _as_file(
    data: str, media_type: str, files_dir: Path | None, why: str = "which cannot be shown here"
) -> Block:
    """Save content that cannot be shown; return a note with the path, or that it is left out."""
    decoded = _decoded(data)
    if files_dir is None or not decoded:
        size = len(data) * 3 // 4
        return text_block(f"({media_type}, about {size:,} bytes, {why})")
    try:
        path = save_file(files_dir, decoded, media_type)
    except SettingsError as error:
        return text_block(f"({media_type}, {len(decoded):,} bytes, not saved: {error})")
    return text_block(f"({media_type}, {len(decoded):,} bytes, saved as {path})")


def _decoded(data: str) -> bytes:
    """Return the bytes of Base64, of its variant for URLs or a data: URL, b"" for other text."""
    if data[:5].lower() == "data:":
        data = data.partition(",")[2]
    plain = "".join(data.split()).rstrip("=").translate(_URL_SAFE)
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError):
        return b""


# Types that Python's own table lacks, or has only under another name.
_SUFFIXES = {"audio/wav": ".wav", "audio/ogg": ".ogg", "audio/flac": ".flac", "image/webp": ".webp"}


def save_file(folder: Path, data: bytes, media_type: str) -> Path:
    """Write *data* to a file below *folder* and return it; equal data share one file.

    Raises:
        SettingsError: It cannot be written.
    """
    # The server chooses the media type, never the file name.
    kind = media_type.partition(";")[0].strip().lower()
    suffix = _SUFFIXES.get(kind) or mimetypes.guess_extension(kind) or ".bin"
    path = folder / f"{sha256(data).hexdigest()[:16]}{suffix}"
    if not path.exists():
        write_private(path, data)
    return path
