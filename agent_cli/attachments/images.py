"""Images for the Messages API: media type, size, and shrinking if necessary.

It knows file formats and the API's limits, but not where images come from. Pillow is optional:
without it an image beyond the limits is refused.
"""

import importlib.util
import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.timeline import Block, image_block

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

# The API's limits for one image: pixels of a side, and bytes before base64 encoding.
_SIDE_MAX: Final = 8_000
_BYTES_MAX: Final = 10 * 1024 * 1024 * 3 // 4
# Larger images are shrunk if possible: a request with more than 20 images accepts none larger than
# this, some platforms accept half the bytes, and no model sees more detail anyway.
_WANTED_SIDE: Final = 2_000
_WANTED_BYTES: Final = _BYTES_MAX // 2
_FILE_BYTES_MAX: Final = 100 * 1024 * 1024
# A small file may hold an image that fills the memory once it is decoded.
_UNPACKED_PIXELS_MAX: Final = 50_000_000
_JPEG_QUALITY: Final = 85
# Start-of-frame markers; 0xC4, 0xC8 and 0xCC among them mean something else.
_JPEG_FRAMES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


@dataclass(frozen=True, slots=True)
class Image:
    """An image in a format of the API. `data` is the whole file, width and height are pixels."""

    media_type: str
    width: int
    height: int
    data: bytes

    @property
    def block(self) -> Block:
        """The image as a content block."""
        return image_block(self.data, self.media_type)


def image_type(start: bytes) -> str | None:
    """Return the media type of an image by its first 12 bytes; None if the API does not take it."""
    if start.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if start.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if start.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if start.startswith(b"RIFF") and start[8:12] == b"WEBP":
        return "image/webp"
    return None


def is_image(path: Path) -> bool:
    """Return whether *path* is a file that starts like an image; False if it cannot be read."""
    try:
        # Reading a pipe or a device could block.
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return image_type(file.read(12)) is not None
    except (OSError, ValueError):  # ValueError: not a valid path
        return False


def read_image(path: Path) -> Image:
    """Read an image that can be sent, after `fitted`.

    Raises:
        UsageError: The image cannot be read or sent; the message suggests a fix.
    """
    try:
        if path.stat().st_size > _FILE_BYTES_MAX:
            raise UsageError(f"{path} is larger than 100 MB; attach a smaller copy")
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    return image_of(data, name=str(path))


def image_of(data: bytes, *, name: str) -> Image:
    """Return *data* as an image that can be sent, after `fitted`; *name* is for the error.

    Raises:
        UsageError: It is not an image, is damaged, or is too large and cannot be shrunk.
    """
    media_type = image_type(data)
    if media_type is None:
        raise UsageError(f"{name} is not a PNG, JPEG, GIF or WebP image")
    width, height = _size_of(data, media_type)
    if not width or not height:
        raise UsageError(f"{name} is damaged: it does not say how large the image is")
    image = Image(media_type, width, height, data)
    if not _is_within(image, _SIDE_MAX, _BYTES_MAX) and not _can_shrink():
        raise UsageError(
            f"{name} is too large to be sent ({width}×{height} pixels, {len(data) / 1e6:.1f} MB; at"
            f" most {_SIDE_MAX} pixels a side and {_BYTES_MAX / 1e6:.1f} MB): attach a smaller"
            " copy, or let images be made smaller: pip install 'agent-cli-repl[images]'"
        )
    return image


def fitted(image: Image) -> Image:
    """Return *image*, shrunk to fit any request; takes up to a second for a large one.

    Returns:
        The image itself if it is small enough, or if Pillow is not installed.

    Raises:
        UsageError: The image is damaged, or would fill the memory.
    """
    if _is_within(image, _WANTED_SIDE, _WANTED_BYTES) or not _can_shrink():
        return image
    if image.width * image.height > _UNPACKED_PIXELS_MAX:
        raise UsageError(
            f"the image has {image.width}×{image.height} pixels, too many to be unpacked:"
            " attach a smaller copy"
        )
    from PIL import Image as Pillow  # noqa: PLC0415 - optional, and only large images need it
    from PIL import ImageOps  # noqa: PLC0415

    try:
        with Pillow.open(io.BytesIO(image.data)) as opened:
            upright = ImageOps.exif_transpose(opened)
            upright.thumbnail((_WANTED_SIDE, _WANTED_SIDE))
            return _encoded(upright, lossless=image.media_type != "image/jpeg")
    except Exception as error:  # for a damaged file Pillow raises TypeError and struct.error too
        raise UsageError(
            f"the image cannot be made smaller ({error}): attach a smaller copy"
        ) from error


def _encoded(picture: "Picture", *, lossless: bool) -> Image:
    """Return *picture* as PNG, which keeps text sharp, or as JPEG if that is too large."""
    buffer = io.BytesIO()
    if lossless:
        picture.save(buffer, "PNG")
    if not lossless or buffer.tell() > _WANTED_BYTES:
        buffer = io.BytesIO()
        picture.convert("RGB").save(buffer, "JPEG", quality=_JPEG_QUALITY)
        return Image("image/jpeg", picture.width, picture.height, buffer.getvalue())
    return Image("image/png", picture.width, picture.height, buffer.getvalue())


def _is_within(image: Image, side: int, size: int) -> bool:
    return max(image.width, image.height) <= side and len(image.data) <= size


def _can_shrink() -> bool:
    return importlib.util.find_spec("PIL") is not None


def _size_of(data: bytes, media_type: str) -> tuple[int, int]:
    """Return width and height from the file's header; zeros if they are missing."""
    match media_type:
        case "image/png":
            return int.from_bytes(data[16:20]), int.from_bytes(data[20:24])
        case "image/gif":
            return int.from_bytes(data[6:8], "little"), int.from_bytes(data[8:10], "little")
        case "image/webp":
            return _webp_size(data)
        case _:
            return _jpeg_size(data)


def _webp_size(data: bytes) -> tuple[int, int]:
    """Return width and height. Source: RFC 9649 sections 2.5 to 2.7, RFC 6386 section 9.1."""
    match data[12:16]:
        case b"VP8X":
            width, height = data[24:27], data[27:30]
            return 1 + int.from_bytes(width, "little"), 1 + int.from_bytes(height, "little")
        case b"VP8L":
            bits = int.from_bytes(data[21:25], "little")
            return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
        case _:
            width, height = data[26:28], data[28:30]
            return (
                int.from_bytes(width, "little") & 0x3FFF,
                int.from_bytes(height, "little") & 0x3FFF,
            )


def _jpeg_size(data: bytes) -> tuple[int, int]:
    """Walk the segments to the first frame. Source: ITU-T T.81 annex B."""
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker in _JPEG_FRAMES:
            return int.from_bytes(data[at + 7 : at + 9]), int.from_bytes(data[at + 5 : at + 7])
        # A fill byte before the marker is not a segment.
        at += 1 if marker == 0xFF else 2 + int.from_bytes(data[at + 2 : at + 4])
    return 0, 0
