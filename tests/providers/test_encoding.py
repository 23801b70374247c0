"""Requests as JSON in UTF-8."""

import json
import math

from hypothesis import given
from hypothesis import strategies as st

from agent_cli.contracts.timeline import Json
from agent_cli.providers.encoding import encodable, encoded

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
