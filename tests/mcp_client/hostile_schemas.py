"""Fifty input schemas of real and hostile servers, and the outcome for a tool with each."""

from typing import Any, Literal, TypeAlias

Fate: TypeAlias = Literal["left out", "not callable", "called"]
"""Not offered, with a note; offered, and a call is an error the model reads; offered, and works."""

TEXT = {"type": "string"}
CATASTROPHE = "^(([a-z])+.)+[A-Z]([a-z])+$"


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def _with_defs(ref: str, **defs: Any) -> dict[str, Any]:
    return {**_object(a={"$ref": ref}), "$defs": defs}


def _nested(depth: int, key: str) -> dict[str, Any]:
    inner: Any = {}
    for _ in range(depth):
        inner = {key: [inner]} if key in ("allOf", "anyOf", "oneOf") else {key: inner}
    return _object(a=inner)


def _doubling(depth: int, key: str) -> dict[str, Any]:
    """Each definition names the next one twice: 2 ** depth steps."""
    defs: dict[str, Any] = {
        f"n{i}": {key: [{"$ref": f"#/$defs/n{i + 1}"}] * 2} for i in range(depth)
    }
    leaf = {"type": "number"} if key == "anyOf" else {}
    return _with_defs("#/$defs/n0", **defs, **{f"n{depth}": leaf})


def _branching_root(width: int, depth: int) -> dict[str, Any]:
    """A root that would be merged width ** depth times."""
    defs: dict[str, Any] = {
        f"n{i}": {"anyOf": [{"$ref": f"#/$defs/n{i + 1}"}] * width} for i in range(depth)
    }
    return {"type": "object", "$ref": "#/$defs/n0", "$defs": {**defs, f"n{depth}": {}}}


HOSTILE: dict[str, tuple[Fate, dict[str, Any]]] = {
    # References
    "dangling_ref": ("called", _with_defs("#/$defs/none")),
    "dangling_anchor": ("called", _object(a={"$ref": "#nowhere"})),
    "dangling_dynamic_ref": ("called", _object(a={"$dynamicRef": "#nowhere"})),
    "dangling_in_items": ("called", _object(a={"items": {"$ref": "#/$defs/none"}})),
    "dangling_in_any_of": ("called", _object(a={"anyOf": [TEXT, {"$ref": "#/$defs/none"}]})),
    "dangling_in_one_of": ("called", _object(a={"oneOf": [TEXT, {"$ref": "#/$defs/none"}]})),
    "dangling_in_not": ("called", _object(a={"not": {"$ref": "#/$defs/none"}})),
    "ref_through_a_text": ("called", _with_defs("#/$defs/x/type/y", x=TEXT)),
    "ref_to_itself": ("left out", _with_defs("#/$defs/x", x={"$ref": "#/$defs/x"})),
    "refs_in_a_circle": (
        "left out",
        _with_defs("#/$defs/x", x={"$ref": "#/$defs/y"}, y={"$ref": "#/$defs/x"}),
    ),
    "root_ref_to_itself": ("left out", {"type": "object", "$ref": "#"}),
    "circle_through_all_of": (
        "not callable",
        _with_defs("#/$defs/x", x={"allOf": [{"$ref": "#/$defs/x"}]}),
    ),
    "circle_through_not": (
        "not callable",
        _with_defs("#/$defs/x", x={"not": {"$ref": "#/$defs/x"}}),
    ),
    "remote_ref": ("left out", _object(a={"$ref": "https://attacker.invalid/schema"})),
    "file_ref": ("left out", _object(a={"$ref": "file:///etc/passwd"})),
    "relative_ref": ("left out", _object(a={"$ref": "other.json#/x"})),
    "ref_that_is_no_text": ("left out", _object(a={"$ref": 7})),
    "a_tree": ("called", {**_object(a=TEXT, b={"items": {"$ref": "#"}})}),
    "escaped_ref": ("called", _with_defs("#/$defs/a~1b", **{"a/b": TEXT})),
    # Numbers and texts that JSON cannot carry
    "nan": ("left out", _object(a={"type": "string", "default": float("nan")})),
    "infinity": ("left out", _object(a={"type": "string", "maxLength": float("inf")})),
    "minus_infinity": ("left out", _object(a={"enum": ["x", float("-inf")]})),
    "nan_in_an_extension": ("left out", {**_object(a=TEXT), "x-weight": float("nan")}),
    "half_a_character": ("called", _object(a={"type": "string", "default": "\ud83d"})),
    "half_a_character_as_a_name": ("called", _object(**{"\udc00": TEXT})),
    "a_huge_number": ("called", _object(a={"type": "string", "maxLength": 10**300})),
    # Regular expressions
    "catastrophic_pattern": ("called", _object(a={"type": "string", "pattern": CATASTROPHE})),
    "catastrophic_names": ("called", _object(a=TEXT) | {"patternProperties": {CATASTROPHE: TEXT}}),
    "catastrophic_property_names": (
        "called",
        _object(a=TEXT) | {"propertyNames": {"pattern": CATASTROPHE}},
    ),
    "unicode_property": ("called", _object(a={"type": "string", "pattern": r"^\p{L}+$"})),
    "named_group": ("called", _object(a={"type": "string", "pattern": r"(?<year>\d{4})"})),
    "sticky_class": ("called", _object(a={"type": "string", "pattern": r"[^]"})),
    "unclosed_group": ("called", _object(a={"type": "string", "pattern": "("})),
    "names_and_nothing_more": (
        "called",
        _object(a=TEXT) | {"patternProperties": {r"\p{L}": {}}, "additionalProperties": False},
    ),
    # Branches
    "doubling_all_of": ("not callable", _doubling(40, "allOf")),
    "doubling_any_of": ("not callable", _doubling(40, "anyOf")),
    "doubling_one_of": ("not callable", _doubling(40, "oneOf")),
    "branching_root": ("left out", _branching_root(20, 7)),
    "deep_items": ("left out", _nested(400, "items")),
    "deep_all_of": ("left out", _nested(400, "allOf")),
    # Values that are no schema, or no object schema
    "unknown_type": ("left out", _object(a={"type": "strin"})),
    "type_is_a_number": ("left out", _object(a={"type": 3})),
    "required_is_a_text": ("left out", _object(a=TEXT) | {"required": "a"}),
    "properties_is_a_list": ("left out", {"type": "object", "properties": [TEXT]}),
    "not_an_object": ("left out", {"type": "array"}),
    "alternatives_of_no_object": ("called", {"anyOf": [{"type": "array"}]}),
    "multiple_of_zero": ("left out", _object(a={"multipleOf": 0})),
    "unknown_dialect": ("called", {"$schema": "https://example.invalid/my", **_object(a=TEXT)}),
    "old_dialect": (
        "called",
        {"$schema": "http://json-schema.org/draft-04/schema#", **_object(a=TEXT)},
    ),
    # Schemas that would cost or break every request
    "a_megabyte": ("left out", _object(a={"enum": ["x" * 1_000_000]})),
    "a_name_the_api_refuses": ("called", _object(**{"$filter": TEXT})),
    "a_name_without_an_end": ("called", _object(**{"a" * 65: TEXT})),
}
