"""Requests as JSON in UTF-8."""

import json
import math
import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from agent_cli.contracts.timeline import Json
from agent_cli.providers.encoding import EncodedBodies, Pieces, encodable, encoded

TEXTS = st.text(st.characters(max_codepoint=0x1F600), max_size=4)
VALUES: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@given(VALUES)
def test_every_value_can_be_encoded(value: Json) -> None:
    """S0-25: one value that cannot would make every further request fail."""
    sent = json.loads(encoded({"value": value}))["value"]

    assert sent == json.loads(encoded({"value": encodable(value)}))["value"]
    json.dumps(encodable(value), ensure_ascii=False, allow_nan=False).encode()


def test_value_that_needs_no_mending_is_not_copied() -> None:
    """Long histories and images are sent with each request."""
    value: Json = {"a": [1.5, "naïve \U0001f600", {"b": None}], "c": True}

    assert encodable(value) is value
    changed = encodable({"same": value, "name \udce9": [math.inf, "\ud83d\ude00"]})
    assert changed == {"same": value, "name \ufffd": [None, "\U0001f600"]}
    assert isinstance(changed, dict) and changed["same"] is value


@given(st.lists(VALUES, max_size=5), st.integers(0, 5), st.lists(VALUES, max_size=2), VALUES)
def test_kept_pieces_make_the_same_body(
    messages: list[Json], kept: int, new: list[Json], other: Json
) -> None:
    """Prompt caches compare bytes; what is mended is mended in each of them."""
    bodies = EncodedBodies()
    first: dict[str, Json] = {"max_tokens": 9, "messages": messages, "system": other}
    second: dict[str, Json] = {**first, "messages": [*messages[:kept], *new], "tools": other}

    for body in (first, second, {}, {"messages": other}, first):
        assert bodies.of(body) == encoded(body)


def test_request_makes_only_what_follows_the_same_messages() -> None:
    """A turn of a long conversation costs no more than one of a short one, also beside agents."""
    made: list[Json] = []

    def make(message: Json) -> bytes:
        made.append(message)
        return encoded({"it": message})

    pieces = Pieces(make)
    own: list[Json] = [{"text": f"{n}"} for n in range(100)]
    of_agent: list[Json] = [{"text": f"agent {n}"} for n in range(50)]
    pieces.of(own)
    pieces.of(of_agent)
    made.clear()

    marked: list[Json] = [*own[:-1], {"text": "99", "marked": True}, {"text": "new"}]
    assert pieces.of(marked) == [encoded({"it": each}) for each in marked]
    assert pieces.of([*of_agent, "next"]) == [encoded({"it": e}) for e in (*of_agent, "next")]
    assert made == [*marked[-2:], "next"]


def test_large_messages_are_not_kept() -> None:
    """A request may hold 32 MB of images."""
    kept: list[Json] = [{"image": "x" * 9_000_000}]
    tracemalloc.start()
    bodies = EncodedBodies()

    for _ in range(3):
        bodies.of({"messages": kept})
    held_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert held_bytes < 100_000
