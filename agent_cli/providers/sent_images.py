"""The images in a request: find them, and put notes in place of some; pure."""

import base64
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from agent_cli.contracts.image_files import image_facts
from agent_cli.contracts.timeline import Block, Json, text_block

MANY: Final = 20
MANY_SIDE_MAX: Final = 2_000
# The size of an image is in the beginning of its file.
_HEAD_CHARS: Final = 400_000


def images(block: Json) -> Iterator[str]:
    """Yield the data of the images in a message, or in a block of one."""
    if not isinstance(block, dict):
        return
    if block.get("type") == "image":
        yield _data(block)
    content = block.get("content")
    for each in content if isinstance(content, list) else ():
        yield from images(each)


def with_notes(message: Block, note: Callable[[str], str]) -> Block:
    """Return *message* with a text in place of each image for whose data *note* returns one."""
    changed = _with_notes(message, note)
    assert isinstance(changed, dict)
    return changed


def without_large_among_many(messages: Sequence[Block]) -> list[Block]:
    """Return *messages*, with notes in place of large images if there are more than 20 images.

    Source: Messages API, which then accepts at most 2,000 pixels a side, in the whole request.
    """
    count = sum(1 for message in messages for _ in images(message))
    return [with_notes(each, _too_large) for each in messages] if count > MANY else [*messages]


def _with_notes(block: Json, note: Callable[[str], str]) -> Json:
    if not isinstance(block, dict):
        return block
    if block.get("type") == "image" and (text := note(_data(block))):
        marker = {key: block[key] for key in ("cache_control",) if key in block}
        return text_block(text) | marker
    content = block.get("content")
    if isinstance(content, list):
        return {**block, "content": [_with_notes(each, note) for each in content]}
    return block


def _too_large(data: str) -> str:
    try:
        facts = image_facts(base64.b64decode(data[:_HEAD_CHARS]))
    except ValueError:
        return ""
    if max(facts.width, facts.height) <= MANY_SIDE_MAX:
        return ""
    return (
        f"[An image of {facts.width}×{facts.height} pixels was left out here: among more than"
        f" {MANY} images, the API accepts at most {MANY_SIDE_MAX} pixels a side.]"
    )


def _data(image: Block) -> str:
    source = image.get("source")
    return str(source.get("data")) if isinstance(source, dict) else ""
