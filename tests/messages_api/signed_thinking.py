"""Rules that need memory of earlier replies: thinking must come back unchanged."""

from dataclasses import dataclass, field
from hashlib import sha256
from typing import TypeAlias

from tests.messages_api.prompt_cache import canonical
from tests.messages_api.refusals import Refusal, bad, binds_thinking, merged_messages
from tests.messages_api.rules import BINDING_BETA
from tests.messages_api.script import Payload, signature_of

THINKING = ("thinking", "redacted_thinking")

Signed: TypeAlias = tuple[tuple[str, str], ...]
"""The thinking of a reply: the signature and the text of each block."""


@dataclass(slots=True)
class SignedThinking:
    """The thinking sent: by the rest of its reply, by its signatures, and with what was before."""

    _beside: dict[bytes, set[Signed]] = field(default_factory=dict[bytes, set[Signed]])
    _marked: dict[str, set[Signed]] = field(default_factory=dict[str, set[Signed]])
    _prefixes: dict[str, set[bytes]] = field(default_factory=dict[str, set[bytes]])

    def remember(self, body: Payload, blocks: list[Payload]) -> None:
        """Record that *blocks* were the reply to *body*."""
        signed = _signed(blocks)
        self._beside.setdefault(_spoken(blocks), set()).add(signed)
        for mark, _text in signed:
            self._marked.setdefault(mark, set()).add(signed)
        if not any(block["type"] in THINKING for block in blocks):
            return
        prefix = _Prefix(body)
        for message in merged_messages(body["messages"]):
            prefix.add(message)
        for at, block in enumerate(blocks):
            if block["type"] in THINKING:
                self._prefixes.setdefault(_mark(block), set()).add(prefix.with_part(blocks[:at]))

    def check(self, body: Payload, betas: str) -> Refusal | None:
        """Return the first of R27, R28 and R30 that *body* breaks."""
        messages = merged_messages(body["messages"])
        replies = [(i, m["content"]) for i, m in enumerate(messages) if m["role"] == "assistant"]
        for index, blocks in replies:
            latest = index == replies[-1][0]
            refusal = self._modified(index, blocks) if latest else None
            refusal = refusal or self._unsigned(index, blocks)
            if refusal is not None:
                return refusal
        if _drops_mismatches(body) and BINDING_BETA in betas:
            return None
        for path in self._mismatches(body):
            return bad(
                "R30",
                f"{path}: Invalid `signature` in `thinking` block. The block is bound to a "
                "different conversation. Remove the block, or set "
                '`thinking.block_binding.prefix_mismatch_behavior` to "drop_block".',
            )
        return None

    def transformations(self, body: Payload) -> list[Payload]:
        """Return the API's report of the blocks it dropped from *body* (R31), once checked."""
        if not _drops_mismatches(body):
            return []  # `check` has refused a body with any
        return [
            {"type": "thinking_dropped", "path": path, "reason": "prefix_binding_mismatch"}
            for path in self._mismatches(body)
        ]

    def _modified(self, index: int, blocks: list[Payload]) -> Refusal | None:
        """R27: the latest reply's thinking is complete, unmodified and in order."""
        given = _signed(blocks)
        sent = self._beside.get(_spoken(blocks), set[Signed]()).union(
            *(self._marked.get(mark, ()) for mark, _text in given)
        )
        if not sent or any(_is_same(each, given) for each in sent):
            return None
        at = next((i for i, b in enumerate(blocks) if b["type"] in THINKING), 0)
        return bad(
            "R27",
            f"messages.{index}.content.{at}: `thinking` or `redacted_thinking` blocks in the "
            "latest assistant message cannot be modified. These blocks must remain as they were in "
            "the original response.",
        )

    def _unsigned(self, index: int, blocks: list[Payload]) -> Refusal | None:
        """R28: a signature is one of ours, or derived from its text (from before a restart)."""
        for at, block in enumerate(blocks):
            if block["type"] != "thinking" or _mark(block) in self._prefixes:
                continue
            if block.get("signature") != signature_of(block["thinking"]):
                place = f"messages.{index}.content.{at}"
                return bad("R28", f"{place}: Invalid `signature` in `thinking` block")
        return None

    def _mismatches(self, body: Payload) -> list[str]:
        if not binds_thinking(body["model"]):
            return []
        found: list[str] = []
        prefix = _Prefix(body)
        for index, message in enumerate(merged_messages(body["messages"])):
            blocks = message["content"]
            found += [
                f"messages.{index}.content.{at}"
                for at, block in enumerate(blocks)
                if block["type"] in THINKING
                and _mark(block) in self._prefixes
                and prefix.with_part(blocks[:at]) not in self._prefixes[_mark(block)]
            ]
            prefix.add(message)
        return found


def _mark(block: Payload) -> str:
    return str(block.get("signature") or block.get("data"))


def _spoken(blocks: list[Payload]) -> bytes:
    return canonical([block for block in blocks if block["type"] not in THINKING])


def _signed(blocks: list[Payload]) -> Signed:
    return tuple(
        (_mark(block), str(block.get("thinking", "")))
        for block in blocks
        if block["type"] in THINKING
    )


def _is_same(sent: Signed, given: Signed) -> bool:
    """Compare the thinking of two replies; text put into a block sent empty is ignored (R33)."""
    return len(sent) == len(given) and all(
        mine[0] == other[0] and mine[1] in ("", other[1])
        for mine, other in zip(sent, given, strict=True)
    )


def _drops_mismatches(body: Payload) -> bool:
    binding = (body.get("thinking") or {}).get("block_binding") or {}
    return bool(binding.get("prefix_mismatch_behavior") == "drop_block")


class _Prefix:
    """A digest of what is before a block; each message is read once, however many blocks follow."""

    def __init__(self, body: Payload) -> None:
        self._hash = sha256(canonical([body.get("system"), body.get("tools")]))

    def add(self, message: Payload) -> None:
        self._hash.update(b"\n" + canonical(message))

    def with_part(self, before: list[Payload]) -> bytes:
        """Return the digest up to here and of the blocks *before* in the next message."""
        whole = self._hash.copy()
        whole.update(b"\n" + canonical(before))
        return whole.digest()
