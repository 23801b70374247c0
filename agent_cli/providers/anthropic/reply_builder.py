"""Convert stream events of the API to our events and build the reply, blocks as received.

Blocks are built from the raw JSON: typed copies would add fields that must not be sent back, and
the SDK's accumulation copies the reply for every delta.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from uuid import uuid4

from agent_cli.contracts.hosted_blocks import is_use
from agent_cli.contracts.options import FAST
from agent_cli.contracts.provider import (
    BlockEnd,
    Price,
    Reply,
    ReplyStart,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallStart,
)
from agent_cli.contracts.timeline import NO_USAGE, Block, Json, ModelUsage, Usage
from agent_cli.providers.anthropic.accepted_history import FALLBACK
from agent_cli.providers.anthropic.hosted_tools import own_name
from agent_cli.providers.anthropic.models import cost_microdollars, in_us, standard_id
from agent_cli.providers.anthropic.platforms import plain_model_id
from agent_cli.providers.encoding import count_in, tool_input, whole_input
from agent_cli.providers.failures import BrokenReply
from agent_cli.providers.found_tools import true_call
from agent_cli.system.records import dataclass, field
from agent_cli.system.shapes import objects_in


@dataclass(slots=True)
class _OpenBlock:
    """A block that still grows: its start event's content, and the pieces since."""

    block: Block
    pieces: list[str] = field(default_factory=list[str])


class ReplyBuilder:
    """One reply under construction. Feed it every event; `reply()` after the last one."""

    def __init__(
        self,
        model_id: str,
        request_id: str | None,
        price: Price = cost_microdollars,
        *,
        is_placed: bool = False,
    ) -> None:
        """Build nothing yet; *is_placed* says that *price* is that of where the inference is."""
        self.begun = False
        self.ended = False
        self._model_id = model_id
        self._request_id = request_id
        self._price = price
        self._is_placed = is_placed
        self._message: Mapping[str, Json] = {}
        self._usage: dict[str, Json] = {}
        self._end: Mapping[str, Json] = {}
        self._open: dict[int, _OpenBlock] = {}
        self._blocks: dict[int, Block] = {}

    def feed(self, event: Mapping[str, Json]) -> Iterator[StreamEvent]:
        """Process one event and yield our events for it. Unknown events are skipped.

        Raises:
            BrokenReply: The event does not fit the preceding ones.
        """
        match event.get("type"):
            case "message_start":
                self._message = _mapping(event.get("message"))
                self._take_usage(self._message.get("usage"))
                self.begun = True
                yield ReplyStart(self._model, self._billed(self._model))
            case "content_block_start":
                yield from self._start_block(event)
            case "content_block_delta":
                yield from self._grow_block(event)
            case "content_block_stop":
                yield self._end_block(_index(event))
            case "message_delta":
                self._end = {**self._end, **_mapping(event.get("delta"))}
                self._take_usage(event.get("usage"))
            case "message_stop":
                # Some servers omit the ends of blocks; their content must not be lost.
                for index in sorted(self._open):
                    yield self._end_block(index)
                self.ended = True
            case _:
                pass

    @property
    def complete(self) -> bool:
        """Whether the reply is usable: it ended, with a stop reason."""
        return self.ended and self._end.get("stop_reason") is not None

    def reply(self) -> Reply:
        """Return the complete reply.

        If a model declined and another answered, the calls before the change are left out: the API
        accepts no result for them.
        """
        blocks = [self._blocks[index] for index in sorted(self._blocks)]
        change = max((at for at, each in enumerate(blocks) if each["type"] == FALLBACK), default=-1)
        serving = self._fallback()
        return Reply(
            id=str(self._message.get("id") or f"msg_{uuid4().hex}"),
            model=str(serving.get("model")) if serving else self._model,
            content=tuple(
                block
                for at, block in enumerate(blocks)
                if at > change or not str(block["type"]).endswith("tool_use")
            ),
            stop_reason=str(self._end["stop_reason"]),
            usage=self._usage_of(self._model),
            request_id=self._request_id,
            stop_details=self._end.get("stop_details"),
            cache_miss=_cache_miss(self._message.get("diagnostics")),
            declined=self._model_id if serving else "",
            beside=self._beside(),
        )

    @property
    def _model(self) -> str:
        """The id of the model that began the reply; in fast mode the one that asks for it."""
        model = str(self._message.get("model") or self._model_id)
        fast = f"{plain_model_id(model).removesuffix(FAST)}{FAST}"
        speed = self._usage.get("speed")
        # Without a word about the speed, the higher price is the safe one.
        is_fast = speed == "fast" or (speed is None and fast == self._model_id)
        return fast if is_fast else model

    def _start_block(self, event: Mapping[str, Json]) -> Iterator[StreamEvent]:
        index = _index(event)
        block = dict(_mapping(event.get("content_block")))
        if not isinstance(block.get("type"), str):
            raise BrokenReply(f"block {index} has no type")
        if block["type"] == "tool_use":
            # Some servers leave the id empty, but the tool result has to refer to one.
            block["id"] = str(block.get("id") or f"toolu_{uuid4().hex}")
            block["name"] = own_name(str(block.get("name") or ""))
            yield ToolCallStart(index, str(block["id"]), str(block["name"]))
        self._open[index] = _OpenBlock(block)

    def _grow_block(self, event: Mapping[str, Json]) -> Iterator[StreamEvent]:
        index, delta = _index(event), _mapping(event.get("delta"))
        growing = self._open.get(index)
        if growing is None:
            raise BrokenReply(f"a piece of block {index}, which never began")
        match delta:
            case {"type": "text_delta", "text": str(text)}:
                growing.pieces.append(text)
                yield TextDelta(index, text)
            case {"type": "thinking_delta", "thinking": str(text)}:
                growing.pieces.append(text)
                yield ThinkingDelta(index, text)
            case {"type": "input_json_delta", "partial_json": str(text)}:
                growing.pieces.append(text)
                if not is_use(growing.block):  # the server's own call is told whole, at its end
                    yield ToolCallDelta(index, text)
            case {"type": "signature_delta", "signature": str(signature)}:
                growing.block["signature"] = signature
            case {"type": "citations_delta", "citation": citation}:
                cited = growing.block.get("citations")
                growing.block["citations"] = [*(cited if isinstance(cited, list) else []), citation]
            case {"type": "compaction_delta"}:
                growing.block.update({k: v for k, v in delta.items() if k != "type"})
            case _:
                pass

    def _end_block(self, index: int) -> BlockEnd:
        done = self._open.pop(index, None)
        if done is None:
            raise BrokenReply(f"the end of block {index}, which never began")
        block, written = done.block, "".join(done.pieces)
        if block["type"] in ("text", "thinking"):
            key = str(block["type"])
            block[key] = str(block.get(key) or "") + written
        elif written.strip():
            block["input"] = tool_input(written)
        elif block["type"] == "tool_use":
            block["input"] = whole_input(block.get("input"))
        self._blocks[index] = block = true_call(block)
        return BlockEnd(index, block)

    def _take_usage(self, usage: Json) -> None:
        """Keep the latest figures, because they are cumulative."""
        counts: Mapping[str, Json] = _mapping(usage) if usage is not None else {}
        self._usage.update({name: value for name, value in counts.items() if value is not None})

    def _usage_of(self, model: str) -> Usage:
        """Return the usage of the model that answered, or of the last that declined."""
        last = self._last()
        if last is None:
            # Of a summary alone, the usage names no token beside its iterations.
            made = [
                _tokens(each) for each in self._iterations() if each.get("type") == "compaction"
            ]
            return self._with_cost(model, sum(made, _tokens(self._usage)))
        searches = _tokens(self._usage).web_searches
        return self._with_cost(self._model_of(last), replace(_tokens(last), web_searches=searches))

    def _billed(self, model: str) -> Usage:
        return sum((each.usage for each in self._beside()), self._usage_of(model))

    def _beside(self) -> tuple[ModelUsage, ...]:
        """Return the usage of the server's other calls for the reply, for each model."""
        last, used = self._last(), dict[str, Usage]()
        for each in self._iterations() if last else ():
            if each is not last:
                model, tokens = self._model_of(each), replace(_tokens(each), web_searches=0)
                used[model] = used.get(model, NO_USAGE) + self._with_cost(model, tokens)
        return tuple(ModelUsage(model, usage) for model, usage in used.items())

    def _with_cost(self, model: str, tokens: Usage) -> Usage:
        is_dearer = self._usage.get("inference_geo") == "us" and not self._is_placed
        price = in_us(self._price) if is_dearer else self._price
        return replace(tokens, cost_microdollars=price(model, tokens))

    def _model_of(self, iteration: Mapping[str, Json]) -> str:
        model = str(iteration.get("model") or self._model_id)
        is_asked = plain_model_id(model) == standard_id(self._model_id)
        return self._model_id if is_asked else model

    def _last(self) -> Mapping[str, Json] | None:
        """Return the usage of the last model that was asked, if there were several."""
        if serving := self._fallback():
            return serving
        asked = [each for each in self._iterations() if each.get("type") == "message"]
        return asked[-1] if len(set(map(self._model_of, asked))) > 1 else None

    def _iterations(self) -> list[dict[str, Json]]:
        return objects_in(self._usage.get("iterations"))

    def _fallback(self) -> Mapping[str, Json] | None:
        """Return the usage of the model that answered in place of a declining model, or None."""
        served = (each for each in self._iterations() if each.get("type") == "fallback_message")
        return next(served, None)


def _tokens(counts: Mapping[str, Json]) -> Usage:
    written = count_in(counts, "cache_creation_input_tokens")
    split, by_server, generated = (
        part if isinstance(part := counts.get(name), dict) else {}
        for name in ("cache_creation", "server_tool_use", "output_tokens_details")
    )
    hour = count_in(split, "ephemeral_1h_input_tokens")
    # A gateway may send empty parts beside the whole: the rest of it is of the usual kind.
    short = max(written - hour, count_in(split, "ephemeral_5m_input_tokens"))
    return Usage(
        input_tokens=count_in(counts, "input_tokens"),
        output_tokens=count_in(counts, "output_tokens"),
        cache_read_tokens=count_in(counts, "cache_read_input_tokens"),
        cache_write_5m_tokens=short,
        cache_write_1h_tokens=hour,
        web_searches=count_in(by_server, "web_search_requests"),
        thinking_tokens=count_in(generated, "thinking_tokens"),
    )


def _cache_miss(diagnostics: Json) -> str:
    match diagnostics:
        case {"cache_miss_reason": {"type": str(reason)}}:
            return reason
        case _:
            return ""


def _mapping(value: Json) -> Mapping[str, Json]:
    if not isinstance(value, dict):
        raise BrokenReply(f"an object was expected, not {json.dumps(value)[:40]}")
    return value


def _index(event: Mapping[str, Json]) -> int:
    index = event.get("index")
    if not isinstance(index, int):
        raise BrokenReply("a block event without an index")
    return index
