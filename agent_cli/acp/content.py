"""Content blocks of a prompt, and content blocks of updates."""

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from agent_cli.acp import INVALID_PARAMS, RpcFault
from agent_cli.acp.ports import Application
from agent_cli.acp.schema import (
    AudioBlock,
    ImageBlock,
    LinkBlock,
    PromptBlock,
    ResourceBlock,
    TextBlock,
)
from agent_cli.attachments.attachments import Attachments
from agent_cli.attachments.files import NamedFile, split_lines
from agent_cli.attachments.images import image_of
from agent_cli.contracts.errors import ConversationError, UsageError
from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.provider import Model
from agent_cli.contracts.timeline import Block, Json, text_block
from agent_cli.contracts.wording import without_fence
from agent_cli.core.incoming import checked_user_message
from agent_cli.system.event_loop import in_background
from agent_cli.system.sanitize import clean

_BACKTICKS: Final = re.compile(r"`{3,}")
_OUTPUT_CHARS_MAX: Final = 100_000


def text(words: str) -> dict[str, Json]:
    """Return Markdown as a content block."""
    return {"type": "text", "text": words}


def fenced(output: str, language: str = "") -> str:
    """Return *output* as a Markdown code block that shows it literally.

    Markdown in it must not be rendered: tool output is untrusted, and an editor that loads an image
    would tell the image's server what was read.
    """
    shown = clean(output)
    if len(shown) > _OUTPUT_CHARS_MAX:
        shown = (
            f"{shown[:_OUTPUT_CHARS_MAX]}\n[… {len(shown) - _OUTPUT_CHARS_MAX:,} more characters]"
        )
    longest = max((len(run) for run in _BACKTICKS.findall(shown)), default=2)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{shown.rstrip()}\n{fence}"


def shown_blocks(blocks: tuple[Block, ...]) -> list[Json]:
    """Return a tool's result as the content of its call."""
    return [{"type": "content", "content": block} for each in blocks if (block := _block(each))]


def message_chunk(kind: str, block: dict[str, Json], message_id: str = "") -> dict[str, Json]:
    """Return an update that adds *block* to a message of the user, the agent, or its thoughts."""
    update: dict[str, Json] = {"sessionUpdate": f"{kind}_chunk", "content": block}
    return {**update, "messageId": message_id} if message_id else update


def image(block: Block) -> dict[str, Json] | None:
    """Return an image of the Messages API as a content block; None for any other block."""
    match block:
        case {"type": "image", "source": {"type": "base64", "data": data, "media_type": kind}}:
            return {"type": "image", "data": data, "mimeType": kind}
        case _:
            return None


def _block(block: Block) -> dict[str, Json] | None:
    if block["type"] == "text":
        written = str(block.get("text", ""))
        return text(fenced(written)) if written.strip() else None
    return image(block)


# The typed text is one block at the end, with mentions in their places; images, files and
# resources come before it. A file that the model may not read without asking is not attached,
# however it was mentioned.
_RESOURCE_CHARS_MAX: Final = 150_000


async def user_message(
    blocks: Sequence[PromptBlock], app: Application, tell: Callable[[str], None]
) -> tuple[UserMessage, Model | None]:
    """Return the message of *blocks*, and the model it is for (None: the session's model).

    Args:
        tell: Receives a sentence about each file.

    Raises:
        RpcFault: A block cannot be used, or there is nothing to send.
    """
    try:
        message, model = await _message(blocks, app, tell)
        return checked_user_message(message), model
    except (UsageError, ConversationError) as error:
        raise RpcFault(INVALID_PARAMS, str(error)) from error


async def _message(
    blocks: Sequence[PromptBlock], app: Application, tell: Callable[[str], None]
) -> tuple[UserMessage, Model | None]:
    """Return the message and its model, as `user_message` does.

    Raises:
        RpcFault: A block cannot be used.
        UsageError: An image or a command cannot be used.
    """
    attachments = Attachments.of(app, tell=tell)
    typed: list[str] = []
    before: list[Block] = []
    for block in blocks:
        match block:
            case TextBlock():
                typed.append(block.text)
            case ImageBlock():
                data = _bytes(block.data)
                typed.append(f" {attachments.add(image_of(data, name='the image'), 'image')} ")
            case LinkBlock():
                words, attached = await _linked(block, app, attachments)
                typed.append(words)
                before += [attached] if attached else []
            case ResourceBlock() if why := _kept_back(block.resource.uri, app):
                tell(f"{block.resource.uri} not attached: {why}")
            case ResourceBlock():
                before += _embedded(block, attachments, typed)
            case AudioBlock():
                raise RpcFault(INVALID_PARAMS, "the model cannot take audio: send text or an image")
    text, model = await app.written_out("".join(typed).strip())
    message = await attachments.attached(UserMessage.of(attachments.marked(text)))
    return replace(message, content=(*before, *message.content)), model


async def _linked(
    block: LinkBlock, app: Application, attachments: Attachments
) -> tuple[str, Block | None]:
    """Return the text for a mention, and the block to attach to the message."""
    path = _local_path(block.uri)
    if path is None:
        return f"[{block.name or block.uri}]({block.uri})", None
    if mark := await in_background(lambda: attachments.add_file(str(path))):
        return f" {mark} ", None
    shown = path.relative_to(app.workspace) if path.is_relative_to(app.workspace) else path
    fragment = urlsplit(block.uri).fragment
    _, lines = split_lines(f"{path}#{fragment}")
    attached = await attachments.linked(NamedFile(str(shown), path, lines))
    return f"{shown}#{fragment}" if fragment else str(shown), attached


def _embedded(block: ResourceBlock, attachments: Attachments, typed: list[str]) -> Iterator[Block]:
    resource = block.resource
    if resource.text is not None:
        words = resource.text[:_RESOURCE_CHARS_MAX]
        more = len(resource.text) - len(words)
        note = f"\n[… {more:,} more characters]" if more else ""
        uri = escape(resource.uri)
        inside = without_fence(words, "resource")
        yield text_block(f'<resource uri="{uri}">\n{inside}{note}\n</resource>\n')
    elif resource.blob is not None and (resource.mime_type or "").startswith("image/"):
        data = _bytes(resource.blob)
        typed.append(f" {attachments.add(image_of(data, name=resource.uri), resource.uri)} ")
    else:
        typed.append(f"[{resource.uri}]({resource.uri})")


def _kept_back(uri: str, app: Application) -> str:
    """Return the reason the model may not read the file named by *uri*, or ""."""
    path = _local_path(uri)
    return app.why_kept_back(path) if path else ""


def _local_path(uri: str) -> Path | None:
    """Return the local file named by *uri*; None if it names something else."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    if parts.scheme != "file" or parts.netloc not in ("", "localhost") or not parts.path:
        return None
    path = unquote(parts.path)
    return None if "\0" in path else Path(path)


def _bytes(encoded: str) -> bytes:
    try:
        return base64.b64decode(encoded, validate=True)
    except binascii.Error as error:
        raise RpcFault(INVALID_PARAMS, f"an image is not base64: {error}") from error
