"""The outputs of a notebook's cells for the model: short texts, and images as images."""

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Final

from agent_cli.attachments.images import fitted, image_of
from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.timeline import Block, Json
from agent_cli.system.records import dataclass, field
from agent_cli_tools.folding import folded
from agent_cli_tools.notebooks import Cell, text_in
from agent_cli_tools.output import without_escapes

# Errors stand at the end.
_HEAD_CHARS: Final = 1_000
_TAIL_CHARS: Final = 3_000
_FOLDED_CHARS_MAX: Final = 200_000
IMAGES_MAX: Final = 8
IMAGES_BYTES_MAX: Final = 5 * 1024 * 1024
_IMAGE_TYPES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
_TEXT_TYPES: Final = ("text/plain", "text/markdown", "text/latex", "text/html")
_TOO_MANY: Final = "not shown, too many images; read this cell alone with offset"
_BLANKS: Final = re.compile(r"\s+")


@dataclass(slots=True)
class ShownOutputs:
    """The outputs shown in one result, and the images among them in their order."""

    images: list[Block] = field(default_factory=list[Block])
    _bytes: int = 0

    def text_of(self, cell: Cell) -> str:
        """Return the outputs of *cell*, each line marked; "" if it has none."""
        text = "\n".join(
            part.strip("\n") for output in cell.outputs for part in self._parts(output)
        )
        text = _cut(folded(_cut(without_escapes(text), _FOLDED_CHARS_MAX)).text)
        return "\n".join(f">\t{line}" for line in text.splitlines())

    def _parts(self, output: Json) -> Iterator[str]:
        if not isinstance(output, dict):
            return
        if (text := text_in(output.get("text"))) is not None:
            yield text
        trace = output.get("traceback")
        if isinstance(trace, list) and trace:
            yield "\n".join(map(str, trace))
        elif "ename" in output:
            yield f"{output['ename']}: {output.get('evalue')}"
        data = output.get("data")
        if isinstance(data, dict) and data:
            yield self._shown(data)

    def _shown(self, data: dict[str, Json]) -> str:
        """Return the representation of *data*, one output in several media types."""
        texts = {kind: text for kind, value in data.items() if (text := text_in(value)) is not None}
        text = next((texts[kind] for kind in _TEXT_TYPES if kind in texts), "")
        kind = next((kind for kind in _IMAGE_TYPES if kind in texts), "")
        if kind:
            note, is_shown = self._image(kind, texts[kind])
            return note if is_shown or not text else f"{note}\n{text}"
        return text or f"[{', '.join(data)}: not shown]"

    def _image(self, kind: str, encoded: str) -> tuple[str, bool]:
        """Return the line for an image, and whether the image is shown."""
        if len(self.images) == IMAGES_MAX:
            return f"[{kind}: {_TOO_MANY}]", False
        try:
            data = base64.b64decode(_BLANKS.sub("", encoded), validate=True)
            image = fitted(image_of(data, name=kind))
        except (binascii.Error, UsageError) as error:
            return f"[{kind}: not shown: {error}]", False
        size = len(image.data) * 4 // 3
        if size > IMAGES_BYTES_MAX:
            return f"[{kind}: not shown: too large, {len(data):,} bytes]", False
        if self._bytes + size > IMAGES_BYTES_MAX:
            return f"[{kind}: {_TOO_MANY}]", False
        self.images.append(image.block)
        self._bytes += size
        return f"[image {len(self.images)} below: {kind}, {len(data):,} bytes]", True


def _cut(text: str, chars_max: int = _HEAD_CHARS + _TAIL_CHARS) -> str:
    """Return *text* without its middle if it is too long."""
    if len(text) <= chars_max:
        return text
    head = chars_max * _HEAD_CHARS // (_HEAD_CHARS + _TAIL_CHARS)
    left_out = len(text) - chars_max
    return (
        f"{text[:head]}\n[… {left_out:,} characters of output left out; they are in the file's"
        f" JSON …]\n{text[head - chars_max :]}"
    )
