"""Images for the Messages API: read, checked, and shrunk if necessary.

It does not know where images come from. Pillow is optional: without it an image beyond the API's
limits is refused.
"""

import io
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.media_files import image_block, image_type, whole_image_facts
from agent_cli.contracts.timeline import Block
from agent_cli.system.loading import is_installed
from agent_cli.system.records import dataclass

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

# Larger images are shrunk if possible: a request with more than 20 images accepts none larger than
# this, some platforms accept half the bytes, and no model sees more detail anyway.
_SIDE_PIXELS_MAX: Final = 2_000
_BYTES_MAX: Final = 5 * 1024 * 1024 * 3 // 4
_FILE_BYTES_MAX: Final = 100 * 1024 * 1024
# A small file may hold an image that fills the memory once it is decoded.
_UNPACKED_PIXELS_MAX: Final = 50_000_000
_JPEG_QUALITY: Final = 85
_ADVICE: Final = (
    "attach a smaller copy, or let images be made smaller: pip install 'agent-cli-repl[images]'"
)


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
        with path.open("rb") as file:
            data = file.read(_FILE_BYTES_MAX + 1)  # it may grow meanwhile
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    if len(data) > _FILE_BYTES_MAX:
        raise UsageError(f"{path} is larger than 100 MB; attach a smaller copy")
    return image_of(data, name=str(path))


def image_of(data: bytes, *, name: str, advice: str = _ADVICE) -> Image:
    """Return *data* as an image that can be sent, after `fitted`.

    Args:
        data: The whole file.
        name: Its name, for the error.
        advice: The remedy for an image that is too large.

    Raises:
        UsageError: It is not an image, is damaged, or is too large and cannot be shrunk.
    """
    try:
        facts = whole_image_facts(data)
    except ValueError as error:
        raise UsageError(f"{name} {error}") from error
    if facts.fault and not _can_shrink():
        raise UsageError(f"{name} {facts.fault}: {advice}")
    return Image(facts.media_type, facts.width, facts.height, data)


def fitted(image: Image) -> Image:
    """Return *image*, shrunk to fit any request; takes up to a second for a large one.

    Returns:
        The image itself if it is small enough, or if Pillow is not installed.

    Raises:
        UsageError: The image is damaged, or would fill the memory.
    """
    is_small = max(image.width, image.height) <= _SIDE_PIXELS_MAX and len(image.data) <= _BYTES_MAX
    if is_small or not _can_shrink():
        return image
    if image.width * image.height > _UNPACKED_PIXELS_MAX:
        raise UsageError(
            f"the image has {image.width}×{image.height} pixels, too many to be unpacked:"
            " attach a smaller copy"
        )
    from PIL import Image as Pillow  # optional, and only large images need it
    from PIL import ImageOps

    try:
        with Pillow.open(io.BytesIO(image.data)) as opened:
            upright = ImageOps.exif_transpose(opened)
            if upright.mode in ("1", "P"):
                # Pillow shrinks a palette by leaving pixels out, and letters with them.
                upright = upright.convert("RGBA" if "transparency" in upright.info else "RGB")
            upright.thumbnail((_SIDE_PIXELS_MAX, _SIDE_PIXELS_MAX))
            if upright.mode.startswith("I"):
                # Grey of 16 bits: Pillow cuts what is above 255, nearly all of it, to white.
                scaled = upright.convert("I").point(lambda grey: grey / 256)  # pyright: ignore[reportUnknownMemberType]
                upright = scaled.convert("L")
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
    if not lossless or buffer.tell() > _BYTES_MAX:
        buffer = io.BytesIO()
        picture.convert("RGB").save(buffer, "JPEG", quality=_JPEG_QUALITY)
        return Image("image/jpeg", picture.width, picture.height, buffer.getvalue())
    return Image("image/png", picture.width, picture.height, buffer.getvalue())


def _can_shrink() -> bool:
    return is_installed("PIL")
