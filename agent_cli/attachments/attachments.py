"""Files and images sent with a prompt: named in it with an @, or added by a front end.

In the text a mark stands for an image, `[image 1: pic.png 800×600]`, for the user and the model.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agent_cli.attachments.files import (
    NamedFile,
    attach,
    judged,
    named_files,
    pdf_attached,
    resolve_mention,
)
from agent_cli.attachments.references import references
from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.media_files import REQUEST_CHARS_MAX, image_chars
from agent_cli.contracts.messages import UserMessage, typed_in
from agent_cli.contracts.timeline import Block, text_of
from agent_cli.contracts.wording import one_line
from agent_cli.system.loading import late_pattern
from agent_cli.system.paths import exists, real_path
from agent_cli.system.sanitize import reveal

if TYPE_CHECKING:
    from agent_cli.attachments.images import Image
    from agent_cli.core.application import AttachingApplication

_NAME_CHARS_MAX: Final = 60
# Shrinking the largest image takes a second or two.
_FITTED_LIMIT_S: Final = 60
# More names that are not found are no typing errors: the text was pasted.
_MISSING_MAX: Final = 3
# About 40,000 tokens.
_TOTAL_CHARS_MAX: Final = 150_000
# A name with a colon is a resource of an MCP server.
_FILE: Final = late_pattern(
    r"[^:]+\.(?:png|jpe?g|gif|webp|svg|pdf|txt|md|rst|log|csv|jsonl?|toml|ya?ml|xml|ini|cfg|lock"
    r"|py|jsx?|tsx?|html|css|c|h|cc|cpp|hpp|rs|go|java|kt|rb|php|sh|sql|swift)",
    re.IGNORECASE,
)


class Attachments:
    """The images of a session, by their marks; a mark is never reused."""

    def __init__(
        self,
        folder: Path,
        *,
        refusal: Callable[[Path], str] = lambda _path: "",
        outside: Callable[[Path], str] = lambda _path: "",
        names: bool = True,
        documents: bool = False,
        tell: Callable[[str], None] = lambda _sentence: None,
        note: Callable[[Path, bytes], None] = lambda _path, _content: None,
    ) -> None:
        """Attach nothing yet.

        Args:
            folder: The base of relative paths.
            refusal: Returns the reason the model may not read a file, or "".
            outside: Returns the reason that a name in a text alone attaches no file, or "": anyone
                may have written the text. A file that the user drops is attached nevertheless.
            names: Whether names in a text attach files at all.
            documents: Whether the model's API takes PDF files; otherwise their text is attached.
            tell: Receives a sentence about each named file: the part that is attached.
            note: Receives the real path and the content of each file attached whole.
        """
        self._folder = folder
        self._refusal = refusal
        self._outside = outside
        self._names = names
        self._documents = documents
        self._allowed: set[Path] = set()
        self._tell = tell
        self._note = note
        self._fitting = ThreadPoolExecutor(1, "fit image")
        self._blocks: dict[str, Future[Block]] = {}

    @classmethod
    def of(cls, app: "AttachingApplication", *, tell: Callable[[str], None]) -> "Attachments":
        """Return the attachments of prompts to *app*, by its rules; *tell* as above."""
        return cls(
            app.workspace,
            refusal=app.why_kept_back,
            outside=app.why_outside,
            names=app.attaches_names,
            documents=app.takes_documents,
            tell=tell,
            note=app.note_attached,
        )

    def add(self, image: "Image", name: str) -> str:
        """Return the mark for *image*, and start shrinking the image in a thread."""
        shown = one_line(reveal(name), _NAME_CHARS_MAX).replace("[", "(").replace("]", ")")
        mark = f"[image {len(self._blocks) + 1}: {shown} {image.width}×{image.height}]"
        self._blocks[mark] = self._fitting.submit(_fitted_block, image)
        return mark

    def add_file(self, path: str) -> str | None:
        """Return the mark for the image at *path*; None if there is none that may be read.

        Raises:
            UsageError: The image cannot be read or sent.
        """
        return self._image_at(path, self._refusal)

    def outside(self, text: str) -> list[Path]:
        """Return the real paths of the files named in *text* that only `allow` makes attachable."""
        if not self._names or "@" not in text:
            return []
        found = (judged(file, self._refusal) for file in named_files(text, self._folder)[0])
        return [real for real, why in found if not why and self._why_not_named(real)]

    def allow(self, real: Path) -> None:
        """Let a name in a text attach the file *real* although it is outside."""
        self._allowed.add(real)

    def _why_not_named(self, path: Path) -> str:
        """Return the reason that a name in a text does not attach *path*, or ""."""
        is_allowed = real_path(path) in self._allowed
        return self._refusal(path) or ("" if is_allowed else self._outside(path))

    def _image_at(self, path: str, refusal: Callable[[Path], str]) -> str | None:
        from agent_cli.attachments.images import is_image, read_image  # with an image

        found = resolve_mention(path, self._folder)
        if not is_image(found):
            return None
        real, why = judged(NamedFile(path, found), refusal)
        # The image, or the link to it, may be another by now.
        return None if why or not is_image(real) else self.add(read_image(real), found.name)

    def marked(self, text: str) -> str:
        """Return *text* with each `@path` of an image replaced by a mark.

        Raises:
            UsageError: One of them cannot be read or sent.
        """
        if not self._names:
            return text
        parts: list[str] = []
        at = 0
        for reference in references(text):
            if reference.start < at:
                continue
            if mark := self._image_at(reference.path, self._why_not_named):
                parts += [text[at : reference.start], mark]
                at = reference.start + 1 + reference.length
        return "".join([*parts, text[at:]])

    async def message(self, text: str, *, data: str = "") -> UserMessage:
        """Return *text* as a message with the files and images it names.

        Names in *data*, the part of *text* that was piped in, are ignored.

        Raises:
            UsageError: An image cannot be read or sent.
        """
        if data and data not in text:  # a command has rearranged it
            return UserMessage.of(text)
        before, _, after = text.rpartition(data) if data else (text, "", "")
        before, after = self.marked(before), self.marked(after)
        message = UserMessage.of(f"{before}{data}{after}")
        return await self.attached(message, typed=f"{before}\n{after}")

    async def attached(self, message: UserMessage, *, typed: str | None = None) -> UserMessage:
        """Return *message* with the images and files it names, before its other content.

        Args:
            message: The message to send.
            typed: The text in which files are named; None means the last text of *message*.

        Raises:
            UsageError: An image is damaged or takes too long to shrink, or all are too large
                together.
        """
        typed = typed_in(message.content) if typed is None else typed
        files = [block async for block in self._files(typed)]
        text = message.text
        marks = sorted((mark for mark in self._blocks if mark in text), key=text.index)
        images: list[Block] = []
        try:
            async with asyncio.timeout(_FITTED_LIMIT_S):
                for mark in marks:
                    # Shielded: a caller that stops waiting for an image may need it later.
                    images.append(await asyncio.shield(asyncio.wrap_future(self._blocks[mark])))
        except TimeoutError as error:
            raise UsageError(
                f"an image is not ready after {_FITTED_LIMIT_S} s; send a smaller copy of it"
            ) from error
        content = (*images, *files, *message.content)
        chars = sum(map(image_chars, content))
        if chars > REQUEST_CHARS_MAX:
            raise UsageError(
                f"the images and PDFs have {chars / 1e6:.0f} MB together, and a message has"
                f" room for {REQUEST_CHARS_MAX / 1e6:.0f} MB (in base64); attach fewer, or"
                " smaller copies"
            )
        return replace(message, content=content)

    async def _files(self, typed: str) -> AsyncIterator[Block]:
        if not self._names or "@" not in typed:  # no thread if no file is named
            return
        chars_left = _TOTAL_CHARS_MAX
        files, left_out = await asyncio.to_thread(named_files, typed, self._folder)
        if left_out:
            self._tell(left_out)
        else:
            for name in await asyncio.to_thread(self._missing, typed):
                self._tell(f"{one_line(name)} not found; sent as plain text")
        for file in files:
            if chars_left <= 0:
                self._tell(f"@{one_line(file.name)} not attached: the other files are long enough")
                continue
            if block := await self._block(file, self._why_not_named):
                chars_left -= len(text_of((block,)))
                yield block

    async def linked(self, file: NamedFile) -> Block | None:
        """Return the content of *file*, that the user links to; None if it is not attached.

        As a file that the user drops, it is attached wherever it lies.
        """
        return await self._block(file, self._refusal)

    async def _block(self, file: NamedFile, refusal: Callable[[Path], str]) -> Block | None:
        attached = await asyncio.to_thread(attach, file, refusal)
        if attached.pdf:
            attached = await pdf_attached(file, attached.pdf, documents=self._documents)
        self._tell(attached.sentence)
        if attached.whole:
            self._note(*attached.whole)
        return attached.block

    def _missing(self, text: str) -> list[str]:
        """Return the names after an @ in *text* that look like files but do not exist.

        Only names with a known file suffix or a slash at the end count: an @ also precedes people
        and decorators.
        """
        named: dict[int, list[str]] = {}
        for reference in references(text):
            named.setdefault(reference.start, []).append(reference.path)
        missing = (
            paths[-1]
            for paths in named.values()
            if (_FILE.fullmatch(paths[-1]) or paths[-1].endswith("/"))
            and not any(exists(resolve_mention(path, self._folder)) for path in paths)
        )
        return [*islice(missing, _MISSING_MAX)]


def _fitted_block(image: "Image") -> Block:
    from agent_cli.attachments.images import fitted  # with an image

    return fitted(image).block
