"""Parts of a request that the server refused: it would refuse every later request with them.

A refusal costs nothing, so the call is repeated without the part. Fast mode comes back some time
after its limit was used up.
"""

import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from agent_cli.contracts.claude_tools import OF_SERVERS
from agent_cli.contracts.media_files import REQUEST_CHARS_MAX, without_document
from agent_cli.contracts.provider import Model, ModelRequest
from agent_cli.contracts.timeline import Block, Json
from agent_cli.contracts.wording import requested_duration
from agent_cli.providers.anthropic.accepted_history import without_thinking
from agent_cli.providers.anthropic.betas import FAST_MODE, Beta, usable
from agent_cli.providers.anthropic.connection import Connection
from agent_cli.providers.anthropic.hosted_tools import hosted_by
from agent_cli.providers.anthropic.sent_images import (
    is_document,
    media,
    media_data,
    with_notes,
)
from agent_cli.providers.anthropic.wire import parameters
from agent_cli.providers.anthropic.wire_parts import Translated, messages_of
from agent_cli.providers.failures import CallFailed, rejects_size, rejects_thinking
from agent_cli.providers.found_tools import without_references
from agent_cli.providers.hosted_history import as_text, is_hosted
from agent_cli.system.loading import late_pattern
from agent_cli.system.logger import logger
from agent_cli.system.shapes import objects_in

# Optional fields: a server names the one it does not know. The API itself knows all but the last,
# which its newer models refuse.
OPTIONAL_FIELDS: Final = {
    "thinking": "thinking",
    "output_config": "output_config",
    "temperature": "extra_body",
}
LEFT_OUT: Final = "[An image was left out here: the API refused it.]"
REFUSED_DOCUMENT: Final = "the API refused it"
# "Could not process image", "messages.4.content.0.image.source.base64.data: ... exceed ..."
# "messages.0.content.0.pdf.source.base64.data: The PDF specified is password protected."
_MEDIA: Final = late_pattern(
    r"(?:\bmessages\.(\d+)\b.*)?\b(?:images?|(documents?|pdfs?))\b", re.DOTALL | re.IGNORECASE
)
# What the API found carries seals, which another organisation's do not fit.
_SEAL: Final = late_pattern(r"\bencrypted_(content|index)\b")
# "tools.31.custom.input_schema: JSON schema is invalid. ..."
_TOOL: Final = late_pattern(r"\btools\.(\d+)\.")
_NAMED_MAX: Final = 5
# Statuses of the limits of fast mode, which has its own, and its pause after one without a longer
# `retry-after`: each change of speed reads the whole conversation anew.
_FAST_LIMITS: Final = (429, 529)
_FAST_PAUSE_MIN_S: Final = 600.0
# Fewer characters of images are not the reason for a request that is too large.
_IMAGE_CHARS_MIN: Final = 250_000

_log = logger(__name__)


class RefusedParts:
    """The parts that one server refused so far; threads may share it."""

    def __init__(self, connection: Connection, clock: Callable[[], float] = time.monotonic) -> None:
        self._connection = connection
        self._clock = clock
        self._betas: set[Beta] = set()
        self._fast_from_s = clock()
        self._fields: set[str] = set()
        self._media: set[str] = set()
        self._tools: set[str] = set()
        self._image_chars_max = REQUEST_CHARS_MAX
        self._translated = Translated()

    @property
    def _unused(self) -> frozenset[Beta]:
        """The features that no request uses now."""
        is_paused = self._clock() < self._fast_from_s
        return frozenset([*self._betas, *([FAST_MODE] if is_paused else [])])

    def parameters(self, request: ModelRequest) -> dict[str, Json]:
        """Return the arguments for *request*, as `wire.parameters`, without the refused parts."""
        where = self._connection
        sent = parameters(
            request,
            compat=where.compat,
            platform=where.platform,
            image_chars_max=self._image_chars_max,
            refused=self._unused,
            translated=self._translated,
        )
        sent |= where.serving
        for name in tuple(self._fields):
            sent.pop(name, None)
        if self._media:
            sent["messages"] = [with_notes(each, self._note) for each in messages_of(sent)]
        if self._tools and "tools" in sent:
            sent["tools"] = [each for each in _tools(sent) if _definition(each) not in self._tools]
            left = {str(each["name"]) for each in _tools(sent)}
            gone = {str(json.loads(each)[0]) for each in self._tools} - left
            sent["messages"] = [without_references(each, gone) for each in messages_of(sent)]
        return sent

    def takes(self, beta: Beta, model: Model) -> bool:
        """Return whether requests for *model* use *beta*."""
        where = self._connection
        return beta in usable(model, where.platform, compat=where.compat, refused=self._unused)

    def lacking(self, model: Model) -> str:
        """Return a sentence about the pause of fast mode if *model* has it; "" without one."""
        where, pause_s = self._connection, self._fast_from_s - self._clock()
        asked = usable(model, where.platform, compat=where.compat, refused=self._betas)
        return _paused(pause_s) if pause_s > 0 and FAST_MODE in asked else ""

    def retry(
        self, request: ModelRequest, sent: dict[str, Json], failed: CallFailed, *, tries: int
    ) -> ModelRequest | None:
        """Return the request to send instead of *request*; None if nothing can be left out.

        Args:
            sent: The parameters that the server refused.
            failed: The refusal.
            tries: The number of earlier calls of this method for the request.
        """
        if rejects_size(failed):
            return request if self._makes_room(failed, sent) else None
        if failed.error.status in _FAST_LIMITS and "speed" in sent:
            if FAST_MODE not in self._unused:
                self._pause_fast_mode(failed)
            return request
        if failed.error.status != 400:
            return None
        if self.parameters(request) != sent:  # a call beside this one was refused first
            return request
        bare = without_thinking(request.messages)
        if rejects_thinking(failed) and bare != request.messages:
            _warn("earlier thinking is not sent", failed)
            return replace(request, messages=bare)
        if _SEAL.search(str(failed)) and is_hosted(request.messages):
            _warn("earlier searches are sent as text", failed)
            return replace(request, messages=as_text(request.messages))
        if betas := self._refused_betas(request, failed):
            return self._without(betas, request, failed)
        if tool := _refused_tool(failed, sent):
            _log.info("tool left out", reason=failed.reason, tool=tool["name"])
            self._tools.add(_definition(tool))
            self._connection.on_refused_tool(str(tool["name"]), failed.reason)
            return request
        if blamed := self._blamed(failed, messages_of(sent), tries):
            _warn("images or documents are not sent any more", failed)
            self._media.update(blamed)
            return request
        if field := self._unknown_field(failed, sent):
            _warn(f"{field} is not sent any more", failed)
            self._fields.add(OPTIONAL_FIELDS[field])
            return request
        return None

    def _without(
        self, betas: Sequence[Beta], request: ModelRequest, failed: CallFailed
    ) -> ModelRequest:
        """Use *betas* no more, and return *request*."""
        names = ", ".join(beta.name for beta in betas)
        _warn(f"{names}: not used any more", failed, "beta off")
        self._betas.update(betas)
        for beta in betas:
            if name := hosted_by(beta):
                self._connection.on_refused_tool(name, failed.reason)
        return request

    def _pause_fast_mode(self, failed: CallFailed) -> None:
        pause_s = max(failed.asked_delay_s or 0.0, _FAST_PAUSE_MIN_S)
        _warn(_paused(pause_s), failed, "fast mode paused")
        self._fast_from_s = self._clock() + pause_s

    def _makes_room(self, failed: CallFailed, sent: dict[str, Json]) -> bool:
        """Allow half of the media, by their size, from now on; return False without large ones."""
        found = (each for message in messages_of(sent) for each in media(message))
        chars = sum(len(media_data(each)) for each in found)
        if chars < _IMAGE_CHARS_MIN:
            return False
        _warn("older images are not sent any more", failed)
        self._image_chars_max = chars // 2
        return True

    def _refused_betas(self, request: ModelRequest, failed: CallFailed) -> list[Beta]:
        where = self._connection
        used = usable(request.model, where.platform, compat=where.compat, refused=self._unused)
        named = f"{failed} {failed.code or ''}"
        return [beta for beta in used if beta.is_named(named)]

    def _unknown_field(self, failed: CallFailed, sent: dict[str, Json]) -> str | None:
        fields = list(OPTIONAL_FIELDS.items())
        mine = fields if self._connection.compat else fields[-1:]
        named = (each for each in mine if re.search(rf"\b{each[0]}\b", str(failed)))
        return next((name for name, key in named if key in sent), None)

    def _blamed(self, failed: CallFailed, messages: Sequence[Block], tries: int) -> set[str]:
        """Return the data that the refusal is about: of the message it names, else the newest.

        If that does not help, of all images, or of all documents.
        """
        refusal = _MEDIA.search(str(failed))
        if refusal is None:
            return set()
        found = [
            {media_data(each) for each in media(message) if is_document(each) is bool(refusal[2])}
            for message in messages
        ]
        named = int(refusal[1]) if refusal[1] else len(found)
        if tries < _NAMED_MAX and named < len(found) and found[named]:
            return found[named]
        with_media = [each for each in found if each]
        return {data for each in (with_media if tries else with_media[-1:]) for data in each}

    def _note(self, block: Block) -> str:
        if media_data(block) not in self._media:
            return ""
        return without_document(block, REFUSED_DOCUMENT) if is_document(block) else LEFT_OUT


def _paused(pause_s: float) -> str:
    return f"fast mode: not used for the next {requested_duration(pause_s)}"


def _warn(text: str, failed: CallFailed, event: str = "") -> None:
    _log.warning(event or text, sentence=f"{text}: {failed.reason}", reason=failed.reason)


def _tools(sent: dict[str, Json]) -> list[Block]:
    return objects_in(sent.get("tools"))


def _refused_tool(failed: CallFailed, sent: dict[str, Json]) -> Block | None:
    """Return the tool whose definition the refusal is about; our own are never left out."""
    refusal, tools = _TOOL.search(str(failed)), _tools(sent)
    named = tools[int(refusal[1]) :][:1] if refusal else []
    return next((tool for tool in named if str(tool["name"]).startswith(OF_SERVERS)), None)


def _definition(tool: Block) -> str:
    return json.dumps([tool["name"], tool.get("description"), tool.get("input_schema")])
