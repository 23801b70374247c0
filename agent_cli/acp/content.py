"""Outgoing content blocks, and updates that consist of one."""

import re
from typing import Final

from agent_cli.contracts.timeline import Block, Json
from agent_cli.terminal.sanitize import clean

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
            pass
    return None


def _block(block: Block) -> dict[str, Json] | None:
    if block["type"] == "text":
        written = str(block.get("text", ""))
        return text(fenced(written)) if written.strip() else None
    return image(block)
