"""Convert a server's answers to content blocks that the Messages API accepts.

Unsupported kinds become text: an image of an unknown type would make every later request of the
session fail.
"""

import base64
import binascii
import json
import mimetypes
from collections.abc import Iterable, Iterator, Sequence
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
from agent_cli.contracts.timeline import Block, Json, text_block
from agent_cli.contracts.tooling import ToolResult
from agent_cli.mcp_client.mended_messages import STRUCTURED
from agent_cli.mcp_client.stored_files import write_private

_URL_SAFE = str.maketrans("-_", "+/")
_IMAGE_CHARS_MAX = 5 * 1024 * 1024


def tool_result(result: CallToolResult, files_dir: Path | None = None) -> ToolResult:
    """Convert *result*; structured content is used where the text lacks it.

    Args:
        files_dir: Folder for content that cannot be shown; None leaves it out.
    """
    blocks = list(content_blocks(result.content, files_dir))
    structured = structured_content(result)
    if structured is not None and not _is_in_text(structured, result.content):
        blocks.append(text_block(json.dumps(structured, ensure_ascii=False)))
    # The API rejects empty text blocks, and models interpret an empty result as a failure.
    return ToolResult(
        tuple(blocks) or (text_block("The tool returned nothing."),), is_error=result.is_error
    )


def structured_content(result: CallToolResult) -> Json:
    """Return the structured content of *result*, an object in older revisions; None without."""
    if result.structured_content is None:
        return (result.meta or {}).get(STRUCTURED)
    structured: Json = result.structured_content
    return structured


def _is_in_text(structured: Json, parts: Sequence[ContentBlock]) -> bool:
    """Return whether the texts of a result repeat its structured content.

    Some servers send only a word beside it. An object of one member often wraps a plain value.
    """
    texts = [part.text for part in parts if isinstance(part, TextContent)]
    values = [_value(text) for text in texts]
    in_text = [*values, *texts, values, texts, "\n".join(texts)]
    [only, *others] = structured.values() if isinstance(structured, dict) and structured else [None]
    wrapped = not others and only is not None
    # A part that is no text, e.g. an image, may stand for the value.
    return structured in in_text or (wrapped and (only in in_text or len(texts) < len(parts)))


def _value(text: str) -> Json:
    try:
        value: Json = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value


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
