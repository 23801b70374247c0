"""Say in plain words what pydantic found wrong with a file, a message or a call."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pydantic import ValidationError

from agent_cli.contracts.timeline import Json

_WHOLE, _NUMBER, _TEXT = "must be a whole number", "must be a number", "must be text"
_YES_NO, _LIST, _OBJECT = "must be true or false", "must be a list", "must be an object, {...}"
_WORDS: Final = {
    "missing": "is missing",
    "extra_forbidden": "is not known",
    "none_required": "must be null",
    "finite_number": "must be a finite number",
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float", "int_parsing_size"), _WHOLE),
    **dict.fromkeys(("float_type", "float_parsing"), _NUMBER),
    **dict.fromkeys(("bool_type", "bool_parsing"), _YES_NO),
    **dict.fromkeys(("string_type", "string_unicode"), _TEXT),
    **dict.fromkeys(("list_type", "tuple_type", "set_type", "frozen_set_type"), _LIST),
    **dict.fromkeys(("dict_type", "mapping_type", "model_type", "dataclass_type"), _OBJECT),
    **dict.fromkeys(("model_attributes_type", "dataclass_exact_type"), _OBJECT),
}
_BOUNDS: Final = {
    "greater_than": ("gt", "must be more than"),
    "greater_than_equal": ("ge", "must be at least"),
    "less_than": ("lt", "must be less than"),
    "less_than_equal": ("le", "must be at most"),
    "literal_error": ("expected", "must be"),
    "enum": ("expected", "must be"),
}


def first_fault(error: ValidationError, *, skip: int = 0) -> tuple[str, str]:
    """Return where the first fault is, as "servers.0.url", and what it is: "must be text".

    The value is not quoted: it may be a secret.

    Args:
        error: What pydantic raised.
        skip: How many parts of the path are ours, not the author's.
    """
    first = error.errors(include_url=False, include_input=False)[0]
    fault = _plain(first["type"], first.get("ctx", {}), first["msg"])
    return ".".join(map(str, first["loc"][skip:])), fault


def fault_line(error: ValidationError, *, whole: str = "it") -> str:
    """Return the first fault on one line: "servers.0.url must be text".

    Args:
        error: What pydantic raised.
        whole: The name of what was validated, for a fault of no part of it.
    """
    where, fault = first_fault(error)
    return f"{where or whole} {fault}"


def faults_of_call(error: ValidationError, schema: Mapping[str, Json]) -> Iterator[str]:
    """Yield each fault of a call for the model, with what *schema* says about the parameter.

    Models know other names from other agents' tools: all unknown ones are one fault.
    """
    known = schema.get("properties")
    parameters = known if isinstance(known, Mapping) else {}
    unknown = list[str]()
    for fault in error.errors():
        where = ".".join(map(str, fault["loc"])) or "input"
        if fault["type"] == "extra_forbidden" and len(fault["loc"]) == 1:
            unknown.append(where)
            continue
        parameter = parameters.get(where)
        meaning = parameter.get("description") if isinstance(parameter, Mapping) else None
        quoted = isinstance(fault["input"], str) and _WORDS.get(fault["type"]) in (_LIST, _OBJECT)
        found = f"{fault['msg']}{', not a string that holds one' if quoted else ''}"
        yield f"{where}: {found}" + (f" ({meaning})" if meaning else "")
    if unknown:
        there_are = f"they are {', '.join(parameters)}" if parameters else "there are none"
        yield f"no parameter is named {', '.join(unknown)}: {there_are}"


def json_fault(written: Json) -> str:
    """Return why *written*, the input of a call, is no JSON object."""
    try:
        json.loads(written if isinstance(written, str) else "", strict=False)
    except json.JSONDecodeError as error:
        return f"{error.msg.removesuffix(' at')} at character {error.pos + 1} of {len(error.doc)}"
    except (ValueError, RecursionError):
        return "a number or the nesting is beyond all limits"
    return "it is another kind of value, or cannot be sent as UTF-8 text"


def without_nulls(value: Json, schema: Json) -> Json:
    """Return *value* without parameters that are null though *schema* wants another value there.

    Many models, above all those that had to name each parameter, write null for one that they
    leave out.
    """
    if not isinstance(schema, Mapping):
        return value
    if isinstance(value, list):
        return [without_nulls(each, schema.get("items")) for each in value]
    parts = schema.get("properties")
    if not isinstance(value, Mapping) or not isinstance(parts, Mapping):
        return value
    kept = {
        name: without_nulls(each, parts.get(name))
        for name, each in value.items()
        if each is not None or not _refuses_null(parts.get(name))
    }
    required = schema.get("required")
    is_whole = not isinstance(required, Sequence) or kept.keys() >= set(map(str, required))
    return kept if is_whole else value


def _refuses_null(schema: Json) -> bool:
    """Return whether *schema* plainly allows no null; what it refers to is not looked up."""
    if not isinstance(schema, Mapping):
        return False
    kind, values = schema.get("type"), schema.get("enum")
    names_others = isinstance(kind, str) and kind != "null"
    return names_others or (isinstance(values, list) and None not in values)


def _plain(kind: str, context: Mapping[str, object], message: str) -> str:
    """Return a fault as the end of a sentence that begins with the name of the field."""
    if kind in _WORDS:
        return _WORDS[kind]
    if kind in _BOUNDS and _BOUNDS[kind][0] in context:
        key, words = _BOUNDS[kind]
        return f"{words} {context[key]}"
    message = message.removeprefix("Value error, ")
    return f"is not valid: {message[:1].lower()}{message[1:]}"
