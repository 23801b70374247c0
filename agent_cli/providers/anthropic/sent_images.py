"""The images and PDFs in a request: find them, and put notes in place of some; pure."""

import base64
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Final

from agent_cli.contracts.media_files import (
    DOCUMENT_PAGES_MAX,
    REQUEST_CHARS_MAX,
    image_facts,
    pages_of,
    without_document,
)
from agent_cli.contracts.timeline import Block, Json, text_block

MANY: Final = 20
MANY_SIDE_MAX: Final = 2_000
# Images and pages of documents in a request, with a context window of this size and a larger one.
_SMALL_WINDOW: Final = 200_000
_NUMBER_MAX, _NUMBER_MAX_LARGE = 100, 600
# The size of an image is in the beginning of its file: in that of a photo behind its preview.
_HEADS_CHARS: Final = (4_000, 400_000)
_OLD: Final = (
    "[An image was left out here: newer ones fill the space that a request has for images. Read its"
    " file again if it is needed.]"
)
_OLD_DOCUMENT: Final = "newer ones fill the space that a request has"
_NO_DOCUMENTS: Final = "this server takes no PDF"
_MEDIA: Final = ("image", "document")


def media(block: Json) -> Iterator[Block]:
    """Yield the images and documents in a message, or in a block of one."""
    if not isinstance(block, dict):
        return
    if block.get("type") in _MEDIA:
        yield block
        return
    content = block.get("content")
    for each in content if isinstance(content, list) else ():
        # Most blocks are text; the whole history is searched for each request.
        if isinstance(each, dict) and (each.get("type") in _MEDIA or "content" in each):
            yield from media(each)


def holds_media(message: Block) -> bool:
    """Return whether there is an image or a document in *message*."""
    return next(media(message), None) is not None


def is_document(block: Block) -> bool:
    """Return whether a block of `media` is a document."""
    return block["type"] == "document"


def media_data(block: Block) -> str:
    """Return the data of an image or a document, in base64."""
    source = block.get("source")
    return str(source.get("data")) if isinstance(source, dict) else ""


def with_notes(message: Block, note: Callable[[Block], str]) -> Block:
    """Return *message* with a text in place of each of its `media` for which *note* returns one."""
    changed = _with_notes(message, note)
    assert isinstance(changed, dict)
    return changed


def without_documents(messages: Sequence[Block]) -> list[Block]:
    """Return *messages*, with notes in place of documents."""

    def note(block: Block) -> str:
        return without_document(block, _NO_DOCUMENTS) if is_document(block) else ""

    return [with_notes(each, note) for each in messages]


def without_large_among_many(messages: Sequence[Block]) -> list[Block]:
    """Return *messages*, with notes in place of large images if there are more than 20 images.

    Source: Messages API, which then accepts at most 2,000 pixels a side, in the whole request.
    """
    number = sum(not is_document(each) for message in messages for each in media(message))
    return [with_notes(each, _too_large) for each in messages] if number > MANY else [*messages]


def number_max(context_window: int) -> int:
    """Return how many images and pages of documents a request may have.

    Source: Messages API.
    """
    return _NUMBER_MAX if context_window <= _SMALL_WINDOW else _NUMBER_MAX_LARGE


def without_oldest(messages: Sequence[Block], chars_max: int, number_max: int) -> list[Block]:
    """Return *messages*, with notes in place of the oldest media where they are too many.

    That is beyond *chars_max* characters or *number_max* images and pages, together. Then half of
    the space is made free, so that the next ones change no earlier byte.
    """
    found = [block for each in messages for block in media(each)]
    left_out = _left_out(found, chars_max, number_max)
    position = count()

    def note(block: Block) -> str:
        if next(position) >= left_out:
            return ""
        return without_document(block, _OLD_DOCUMENT) if is_document(block) else _OLD

    return [with_notes(each, note) for each in messages] if left_out else [*messages]


def unsent_images(
    contents: Sequence[Sequence[Block]], *, compat: bool, context_window: int
) -> tuple[int, ...]:
    """Return for each message, given its content, how many of its `media` a request leaves out.

    *compat* as in `wire.parameters`, which leaves the same ones out; *context_window* is the
    model's.
    """
    found = [
        (at, block)
        for at, content in enumerate(contents)
        for each in content
        for block in media(each)
    ]
    unsent = Counter(at for at, block in found if compat and is_document(block))
    found = [(at, block) for at, block in found if not (compat and is_document(block))]
    blocks = [block for _at, block in found]
    oldest = _left_out(blocks, REQUEST_CHARS_MAX, number_max(context_window))
    unsent.update(at for at, _block in found[:oldest])
    kept = [(at, block) for at, block in found[oldest:] if not is_document(block)]
    if not compat and len(kept) > MANY:
        unsent.update(at for at, block in kept if _too_large(block))
    return tuple(unsent[at] for at in range(len(contents)))


def _left_out(found: Sequence[Block], chars_max: int, number_max: int) -> int:
    """Return the number of media to leave out, from the first; further ones never lower it."""
    # Each takes the larger of its two shares, so that the sum exceeds neither limit.
    sizes = [max(len(media_data(block)) * number_max, _pages(block) * chars_max) for block in found]
    room = chars_max * number_max
    first = total = 0
    for at, size in enumerate(sizes):
        total += size
        target = room // 2 if total > room else room
        # The newest one stays if it fits at all.
        while total > (target if first < at else room):
            total -= sizes[first]
            first += 1
    return first


def _pages(block: Block) -> int:
    return pages_of(block) or DOCUMENT_PAGES_MAX if is_document(block) else 1


def _with_notes(block: Json, note: Callable[[Block], str]) -> Json:
    if not isinstance(block, dict):
        return block
    if block.get("type") in _MEDIA:
        if not (text := note(block)):
            return block
        marker = {key: block[key] for key in ("cache_control",) if key in block}
        return text_block(text) | marker
    content = block.get("content")
    if isinstance(content, list):
        return {**block, "content": [_with_notes(each, note) for each in content]}
    return block


def _too_large(block: Block) -> str:
    width, height = (0, 0) if is_document(block) else _pixels(media_data(block))
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
