"""Frozen JSON behaves like plain JSON except that it cannot be changed."""

import copy
import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_cli.contracts.frozen import FrozenDict, FrozenList, frozen
from agent_cli.contracts.timeline import CustomOutput, Json, Success, UserOutput
from tests.tables import each_row

values: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


@given(values)
def test_frozen_value_equals_its_json_source(value: Json) -> None:
    """S2-43: frozen values compare, serialise, copy and pickle like plain ones."""
    kept = frozen(value)

    assert kept == value
    assert json.dumps(kept) == json.dumps(value)
    assert frozen(kept) is kept
    for plain in (copy.deepcopy(kept), pickle.loads(pickle.dumps(kept))):
        assert plain == value
        assert type(plain) is type(value)


CHANGES: list[tuple[str, Callable[[Any], object]]] = [
    ("d[k] = v", lambda v: v["d"].__setitem__("k", 1)),
    ("del d[k]", lambda v: v["d"].__delitem__("a")),
    ("d |= e", lambda v: v["d"].__ior__({"a": 2})),
    ("clear", lambda v: v["d"].clear()),
    ("pop", lambda v: v["d"].pop("a")),
    ("popitem", lambda v: v["d"].popitem()),
    ("setdefault", lambda v: v["d"].setdefault("k", 1)),
    ("update", lambda v: v["d"].update(k=1)),
    ("l[0] = v", lambda v: v["l"].__setitem__(0, 1)),
    ("del l[0]", lambda v: v["l"].__delitem__(0)),
    ("l += m", lambda v: v["l"].__iadd__([1])),
    ("l *= 2", lambda v: v["l"].__imul__(2)),
    ("append", lambda v: v["l"].append(1)),
    ("list.clear", lambda v: v["l"].clear()),
    ("extend", lambda v: v["l"].extend([1])),
    ("insert", lambda v: v["l"].insert(0, 1)),
    ("list.pop", lambda v: v["l"].pop()),
    ("remove", lambda v: v["l"].remove("x")),
    ("reverse", lambda v: v["l"].reverse()),
    ("sort", lambda v: v["l"].sort()),
    ("a dict in a list", lambda v: v["l"][1].update(y=1)),
]


@each_row("change", [change for _, change in CHANGES], ids=[n for n, _ in CHANGES])
def test_changing_a_frozen_value_in_place_is_refused(change: Callable[[Any], object]) -> None:
    """S0-56: the message says how to get a mutable copy."""
    value: Json = {"d": {"a": 1}, "l": ["x", {"y": 2}]}
    kept = frozen(value)

    with pytest.raises(TypeError, match=r"cannot be changed.*copy\.deepcopy"):
        change(kept)

    assert kept == value


def test_frozen_dict_and_list_override_every_mutating_method() -> None:
    """A later Python may add such a method."""
    harmless = {"__init__", "__new__", "__getattribute__", "__class_getitem__"}
    for kind, made in ((dict, FrozenDict), (list, FrozenList)):
        readers = {"copy", "count", "fromkeys", "get", "index", "items", "keys", "values"}
        methods = {n for n, each in vars(kind).items() if callable(each)} - readers - harmless
        public = {name for name in methods if not name.startswith("_")}
        in_place = {n for n in methods if n.startswith("__i") and n not in ("__iter__",)}
        writers = public | in_place | {"__setitem__", "__delitem__"}
        assert {name for name in writers if name not in vars(made)} == set()


def test_shallow_copy_of_a_frozen_value_can_be_changed() -> None:
    kept = frozen({"a": [1]})
    assert isinstance(kept, dict)

    copied = copy.copy(kept)
    copied["a"] = 2

    assert (copied, kept) == ({"a": 2}, {"a": [1]})
    assert isinstance(kept["a"], list)
    other = copy.copy(kept["a"])
    other.append(2)
    assert kept["a"] == [1]


def test_timeline_entry_copies_the_mutable_values_it_is_given() -> None:
    """S2-09: blocks, details and data, at any depth."""
    block: dict[str, Json] = {"type": "text", "text": "a"}
    data: dict[str, Json] = {"list": [{"x": 1}]}
    entries = [
        UserOutput("1", 0, (block,)),
        Success((block,), data),
        CustomOutput("2", 0, "note", data),
    ]

    block["text"] = "b"
    assert isinstance(data["list"], list)
    data["list"].append(2)

    assert "b" not in str([getattr(entry, "content", ()) for entry in entries])
    assert isinstance(entries[1], Success) and isinstance(entries[2], CustomOutput)
    assert entries[1].details == entries[2].data == {"list": [{"x": 1}]}
