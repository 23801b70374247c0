"""Images as the Messages API accepts them."""

import io
import sys
from pathlib import Path
from random import Random

import pytest
from PIL import Image as Pillow
from PIL import ImageStat

from agent_cli.attachments.images import Image, fitted, image_of, is_image, read_image
from agent_cli.contracts.errors import UsageError
from tests.tables import each_row

KINDS = {"PNG": "image/png", "JPEG": "image/jpeg", "GIF": "image/gif", "WEBP": "image/webp"}


def encoded(kind: str, width: int, height: int, **options: object) -> bytes:
    buffer = io.BytesIO()
    Pillow.new("RGB", (width, height), "navy").save(buffer, kind, **options)
    return buffer.getvalue()


@each_row("kind", KINDS)
def test_image_type_and_size_are_read_from_the_content(kind: str) -> None:
    """S6: the name of the file does not matter."""
    Path("picture.txt").write_bytes(data := encoded(kind, 80, 61))

    assert read_image(Path("picture.txt")) == Image(KINDS[kind], 80, 61, data)


@each_row("options", [{"lossless": True}, {"exif": b"Exif\0\0MM\0*"}])
def test_size_of_lossless_and_extended_webp_images_is_read(options: dict[str, object]) -> None:
    """Both store their size elsewhere."""
    image = image_of(encoded("WEBP", 300, 17, **options), name="it")

    assert (image.width, image.height) == (300, 17)


def test_size_of_a_jpeg_with_long_metadata_is_read() -> None:
    """Cameras put kilobytes before the frame that holds the size."""
    image = image_of(encoded("JPEG", 30, 20, comment=b"x" * 60_000, progressive=True), name="it")

    assert (image.width, image.height) == (30, 20)


def test_fill_bytes_between_jpeg_segments_are_skipped() -> None:
    """ITU-T T.81 B.1.1.2: any number of 0xFF may precede a marker."""
    data = encoded("JPEG", 30, 20)

    image = image_of(data[:2] + b"\xff\xff\xff" + data[2:], name="it")

    assert (image.width, image.height) == (30, 20)


def test_only_regular_files_that_begin_like_images_are_images() -> None:
    """Reading a pipe would block; an impossible path is just no image."""
    Path("a.png").write_text("no image")
    Path("b.png").write_bytes(encoded("PNG", 2, 2))

    assert is_image(Path("b.png"))
    assert not any(map(is_image, map(Path, ("a.png", ".", "none", "a\0b", "x" * 5_000))))


def test_unusable_image_is_refused_with_the_reason() -> None:
    """The message is one sentence."""
    with pytest.raises(UsageError, match=r"none\.png cannot be read: No such file"):
        read_image(Path("none.png"))
    with pytest.raises(UsageError, match="it is not a PNG, JPEG, GIF or WebP image"):
        image_of(b"%PDF", name="it")
    with pytest.raises(UsageError, match="it is damaged"):
        image_of(encoded("PNG", 2, 2)[:12], name="it")
    with pytest.raises(UsageError, match="it is damaged: its end is missing"):
        image_of(encoded("PNG", 2, 2)[:-12], name="it")


def test_small_image_is_unchanged_and_a_large_one_is_scaled_down() -> None:
    """S6: 2,000 pixels a side are accepted in every request; the aspect ratio stays."""
    small = image_of(encoded("PNG", 2_000, 10), name="it")
    large = fitted(image_of(encoded("PNG", 4_000, 2_000), name="it"))

    assert fitted(small) is small
    assert (large.media_type, large.width, large.height) == ("image/png", 2_000, 1_000)
    assert image_of(large.data, name="it") == large


def test_scaled_down_photo_stays_a_jpeg_and_is_turned_upright() -> None:
    """Phones write the rotation into the header, which is not sent along."""
    turned = Pillow.Exif()
    turned[0x0112] = 6

    small = fitted(image_of(encoded("JPEG", 4_000, 1_000, exif=turned), name="it"))

    assert (small.media_type, small.width, small.height) == ("image/jpeg", 500, 2_000)


@each_row("mode", ["1", "P"])
def test_thin_lines_of_a_picture_with_few_colours_survive_shrinking(mode: str) -> None:
    """Scans and optimised screenshots are such: letters lost every second line."""
    picture = Pillow.new(mode, (4_000, 40), 0)
    if mode == "P":
        picture.putpalette([255, 255, 255, 0, 0, 0])
    else:
        picture.paste(1, (0, 0, 4_000, 40))
    ink = 1 if mode == "P" else 0
    for x in range(0, 4_000, 2):
        picture.paste(ink, (x, 0, x + 1, 40))
    picture.save(buffer := io.BytesIO(), "PNG")

    small = fitted(image_of(buffer.getvalue(), name="it"))

    with Pillow.open(io.BytesIO(small.data)) as shown:
        levels = shown.convert("L").tobytes()
    assert small.width == 2_000
    assert 100 < min(levels) <= max(levels) < 160


def test_grey_of_16_bits_keeps_its_brightness() -> None:
    """As scanners and microscopes write it; as a JPEG nearly all of it was white."""
    grey = Pillow.frombytes("I;16", (2_100, 1_200), Random(1).randbytes(2 * 2_100 * 1_200))
    buffer = io.BytesIO()
    grey.save(buffer, "PNG")

    shrunk = fitted(image_of(buffer.getvalue(), name="it"))

    with Pillow.open(io.BytesIO(shrunk.data)) as picture:
        (mean,) = ImageStat.Stat(picture.convert("L")).mean
    assert 120 < mean < 135


def test_damaged_large_image_is_refused_with_an_error_message() -> None:
    """Its header and its end may be intact, and what is between them missing."""
    data = encoded("PNG", 3_000, 3_000)

    with pytest.raises(UsageError, match="cannot be made smaller"):
        fitted(image_of(data[: len(data) // 2] + data[-12:], name="it"))


def test_image_too_large_to_unpack_is_refused() -> None:
    """Threat 16: a few bytes may claim to be a picture of a gigabyte."""
    bomb = bytearray(encoded("PNG", 2, 2))
    bomb[16:24] = (20_000).to_bytes(4) * 2

    with pytest.raises(UsageError, match=r"20000×20000 pixels, too many to be unpacked"):
        fitted(image_of(bytes(bomb), name="it"))


def test_without_pillow_an_oversized_image_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the package to install."""
    within, beyond = encoded("PNG", 3_000, 10), encoded("PNG", 8_001, 10)
    monkeypatch.setattr("agent_cli.attachments.images._can_shrink", lambda: False)

    image = image_of(within, name="it")
    assert fitted(image) is image
    with pytest.raises(UsageError, match=r"8001×10 pixels.*pip install 'agent-cli-repl\[images\]'"):
        image_of(beyond, name="it")


def test_an_image_is_sent_as_base64() -> None:
    """The API requires this form."""
    assert Image("image/gif", 1, 1, b"GIF89a").block == {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/gif", "data": "R0lGODlh"},
    }


def test_pillow_is_not_imported_for_small_images(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow may not be installed."""
    monkeypatch.setitem(sys.modules, "PIL", None)

    assert fitted(image := Image("image/gif", 1, 1, b"GIF89a")) is image


def test_large_image_with_damaged_metadata_is_a_usage_error() -> None:
    """Pillow raises struct.error for it; in a message typed during a run, that was repeated."""
    exif = Pillow.Exif()
    exif.update({0x0112: 6, 0x010E: "a description"})
    data = encoded("JPEG", 2_100, 8, exif=exif)
    damaged = data.replace(b"\x01\x0e\x00\x02", b"\x01\x01\x00\x02", 1)  # a height in words

    assert damaged != data
    with pytest.raises(UsageError, match=r"cannot be made smaller .*: attach a smaller copy"):
        fitted(image_of(damaged, name="it"))
