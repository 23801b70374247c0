"""The images in a request: find them, and put notes in place of some; pure."""

import base64
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Final

from agent_cli.contracts.image_files import REQUEST_CHARS_MAX, image_facts
from agent_cli.contracts.timeline import Block, Json, text_block

MANY: Final = 20
MANY_SIDE_MAX: Final = 2_000
# The size of an image is in the beginning of its file: in that of a photo behind its preview.
_HEADS_CHARS: Final = (4_000, 400_000)
_OLD: Final = (
    "[An image was left out here: newer ones fill the space that a request has for images. Read its"
    " file again if it is needed.]"
)


def images(block: Json) -> Iterator[str]:
    """Yield the data of the images in a message, or in a block of one."""
    if not isinstance(block, dict):
        return
    if block.get("type") == "image":
        yield _data(block)
    content = block.get("content")
    for each in content if isinstance(content, list) else ():
        # Most blocks are text; the whole history is searched for each request.
        if isinstance(each, dict) and (each.get("type") == "image" or "content" in each):
            yield from images(each)


def holds_image(message: Block) -> bool:
    """Return whether there is an image in *message*."""
    return next(images(message), None) is not None


def with_notes(message: Block, note: Callable[[str], str]) -> Block:
    """Return *message* with a text in place of each image for whose data *note* returns one."""
    changed = _with_notes(message, note)
    assert isinstance(changed, dict)
    return changed


def without_large_among_many(messages: Sequence[Block]) -> list[Block]:
    """Return *messages*, with notes in place of large images if there are more than 20 images.

    Source: Messages API, which then accepts at most 2,000 pixels a side, in the whole request.
    """
    number = sum(1 for message in messages for _ in images(message))
    return [with_notes(each, _too_large) for each in messages] if number > MANY else [*messages]


def without_oldest(messages: Sequence[Block], chars_max: int) -> list[Block]:
    """Return *messages*, with notes in place of the oldest images beyond *chars_max* together.

    Then half of the space is made free, so that the next images change no earlier byte.
    """
    left_out = _left_out([len(data) for each in messages for data in images(each)], chars_max)
    position = count()

    def note(_data: str) -> str:
        return _OLD if next(position) < left_out else ""

    return [with_notes(each, note) for each in messages] if left_out else [*messages]


def unsent_images(contents: Sequence[Sequence[Block]], *, compat: bool) -> tuple[int, ...]:
    """Return for each message, given its content, how many of its images a request leaves out.

    *compat* as in `wire.parameters`, which leaves the same images out.
    """
    found = [[data for block in content for data in images(block)] for content in contents]
    oldest = _left_out([len(data) for each in found for data in each], REQUEST_CHARS_MAX)
    sizes = [(at, data) for at, each in enumerate(found) for data in each]
    unsent = Counter(at for at, _data in sizes[:oldest])
    if not compat and len(kept := sizes[oldest:]) > MANY:
        unsent.update(at for at, data in kept if _too_large(data))
    return tuple(unsent[at] for at in range(len(contents)))


def _left_out(sizes: Sequence[int], chars_max: int) -> int:
    """Return the number of images to leave out, from the first; further images never lower it."""
    first = total = 0
    for at, size in enumerate(sizes):
        total += size
        wanted = chars_max // 2 if total > chars_max else chars_max
        # The newest one stays if it fits at all.
        while total > (wanted if first < at else chars_max):
            total -= sizes[first]
            first += 1
    return first


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
    width, height = _pixels(data)
    if max(width, height) <= MANY_SIDE_MAX:
        return ""
    return (
        f"[An image of {width}×{height} pixels was left out here: among more than"
        f" {MANY} images, the API accepts at most {MANY_SIDE_MAX} pixels a side.]"
    )


def _pixels(data: str) -> tuple[int, int]:
    """Return width and height of an image; zeros if they cannot be found."""
    for chars in _HEADS_CHARS:
        try:
            facts = image_facts(base64.b64decode(data[:chars]))
        except ValueError:
            continue
        return facts.width, facts.height
    return 0, 0


def _data(image: Block) -> str:
    source = image.get("source")
    return str(source.get("data")) if isinstance(source, dict) else ""
