"""Timeline entries as JSON and back, exactly. Knows no file.

An unknown kind (of a plugin that is not installed, or of a newer version) is kept and written back
unchanged, and so is an entry that no request is made of in a form that this version does not know.
An entry of the conversation in such a form is damage.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import cache
from types import UnionType
from typing import Any, ClassVar, Final, Literal, TypeAlias, Union, cast, get_args, get_origin

from agent_cli.contracts.authors import PROGRAM
from agent_cli.contracts.messages import typed_in
from agent_cli.contracts.timeline import (
    Block,
    BlockOutput,
    CompactionOutput,
    CustomOutput,
    DiscardedOutput,
    Error,
    FileOutput,
    ModelUsage,
    Output,
    Pending,
    Prompt,
    ReplyOutput,
    Success,
    TextOutput,
    ThinkingOutput,
    ToolOutput,
    ToolState,
    TrimOutput,
    Usage,
    UserOutput,
    WidgetOutput,
)
from agent_cli.system.records import dataclass
from agent_cli.system.shapes import is_object

# Any: read back from JSON; decoding checks its form.
JsonObject: TypeAlias = dict[str, Any]
_Reader: TypeAlias = Callable[[Any], Any]

KINDS: tuple[type[Output], ...] = (
    UserOutput,
    BlockOutput,
    TextOutput,
    ThinkingOutput,
    ToolOutput,
    ReplyOutput,
    DiscardedOutput,
    FileOutput,
    WidgetOutput,
    CompactionOutput,
    TrimOutput,
    CustomOutput,
)
_CONVERSATION: Final = KINDS[:6]
"""Kinds that requests consist of: if one entry is missing, its neighbours are not valid."""
_EARLIER_MARK: Final = "[Not from the user:] Instructions"
_KEYS: Final = {"text": ("text",), "thinking": ("thinking",), "tool_use": ("id", "name")}
"""Texts that a block of a type must have."""
_CALL: Final = "tool_use"
_BESIDE_USAGE: Final = ("thinking_tokens",)


UNREADABLE: Final = (LookupError, TypeError, ValueError, AttributeError, OverflowError)
"""The errors of reading a record that another program wrote, in any form."""


@dataclass(frozen=True, slots=True)
class UnknownOutput(Output):
    """An entry of a kind that is not registered; `data` holds the whole entry. Never projected."""

    kind: ClassVar[str] = "unknown"
    data: Block


def output_from_json(data: JsonObject) -> Output:
    """Return the entry for *data*; the inverse of `output_to_json`.

    Raises:
        Exception: One of `UNREADABLE`: it is no entry, or an entry of the conversation in another
            form than that of this version.
    """
    known = _kinds().get(data["kind"])
    if known is not None:
        cls, readers = known
        try:
            read = {name: reader(data[name]) for name, reader in readers if name in data}
            return _completed(cls(**read), data)
        except UNREADABLE:
            if cls in _CONVERSATION:
                raise
            # Another version's form of this kind: kept below, not decoded.
    return UnknownOutput(str(data.get("id", "")), int(data.get("at_ms", 0)), data)


def prompt_from_json(data: JsonObject) -> Prompt:
    """Return a prompt that just started; the inverse of `prompt_to_json`."""
    entry = output_from_json(data["input"]) if data["input"] else None
    return Prompt(
        text_in(data["id"]),
        text_in(data["user_id"]),
        text_in(data["model"]),
        _number(data["at_ms"]),
        bool(data["visible"]),
        input=entry if isinstance(entry, UserOutput) else None,
        once=bool(data.get("once")),
    )


@cache
def _kinds() -> Mapping[str, tuple[type[Output], Sequence[tuple[str, _Reader]]]]:
    return {cls.kind: (cls, _readers(cls)) for cls in KINDS}


def _completed(output: Output, data: JsonObject) -> Output:
    """Add what *data* has elsewhere, or says in the way of an earlier version.

    That named no author of a message that quotes a repository's files.
    """
    match output:
        case ReplyOutput() if "usage" in data:
            return replace(output, usage=usage_in(data))
        case UserOutput(content=content) if "author" not in data:
            is_quote = typed_in(content).startswith(_EARLIER_MARK)
            return replace(output, author=PROGRAM) if is_quote else output
        case _:
            return output


def output_to_json(output: Output) -> JsonObject:
    """Return *output* as an object of JSON, its kind first."""
    if isinstance(output, UnknownOutput):
        return output.data
    return {"kind": output.kind, **_named(output)}


def prompt_to_json(prompt: Prompt) -> JsonObject:
    """Return *prompt* as JSON at its start: state, outputs and usage are recorded later."""
    return {
        "id": prompt.id,
        "user_id": prompt.user_id,
        "model": prompt.model,
        "at_ms": prompt.at_ms,
        "visible": prompt.visible,
        "input": output_to_json(prompt.input) if prompt.input else None,
        **({"once": True} if prompt.once else {}),
    }


def usage_from_json(data: JsonObject) -> Usage:
    """Return the usage for *data*, which names all of its figures."""
    usage = Usage(**data)
    for name, value in data.items():
        if not (isinstance(value, int) or (value is None and name == "cost_microdollars")):
            raise ValueError(name)
        float(value or 0)  # beyond its range, no dollars can be said
    return usage


def usage_in(record: JsonObject) -> Usage:
    """Return the usage of *record*; the inverse of `usage_fields`."""
    newer = {name: record[name] for name in _BESIDE_USAGE if name in record}
    return usage_from_json({**record["usage"], **newer})


def usage_fields(usage: Usage) -> JsonObject:
    """Return the fields of a record that has *usage*.

    Version 0.12 reads no usage with a figure that it does not know, but ignores fields.
    """
    named = _named(usage)
    for name in ("held_microdollars", "web_searches", *_BESIDE_USAGE):
        if not named[name]:
            del named[name]
    newer = {name: named.pop(name) for name in _BESIDE_USAGE if name in named}
    return {"usage": named, **newer}


def _named(value: Output | ToolState | Usage) -> JsonObject:
    named = {field.name: _to_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, UserOutput) and value.is_typed:
        del named["author"]  # as in earlier versions, which knew no other author
    if isinstance(value, ReplyOutput):
        named |= usage_fields(value.usage)
        named["beside"] = [{"model": e.model, **usage_fields(e.usage)} for e in value.beside]
        for name in ("beside", "message_id"):
            if not named[name]:
                del named[name]
    return named


def _to_json(value: object) -> object:
    match value:
        case Pending() | Success() | Error():
            return {"state": value.state, **_named(value)}
        case _:
            return value


def _readers(cls: type[Output]) -> list[tuple[str, _Reader]]:
    """Return for each field of *cls* the function that decodes its JSON."""
    block = _call if issubclass(cls, ToolOutput) else _no_call
    return [
        (field.name, block if field.name == "block" else _reader(field.type))
        for field in fields(cls)
    ]


def text_in(value: object) -> str:
    """Return *value*, which must be a string."""
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _number(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError(value)
    return value


def _reader(kind: object) -> _Reader:
    """Return the function that checks and decodes a value of the type *kind*."""
    exact: dict[object, _Reader] = {
        str: text_in,
        int: _number,
        Block: _block,
        tuple[Block, ...]: _blocks,
        ToolState: _result,
        Usage: usage_from_json,
        tuple[ModelUsage, ...]: _model_usages,
    }
    if isinstance(kind, type) or kind in exact:
        return exact.get(kind, _as_it_is)
    if get_origin(kind) in (Union, UnionType):
        return _one_of(get_args(kind))
    return _as_it_is


def _one_of(kinds: Sequence[object]) -> _Reader:
    """Return a reader of words, texts, numbers and None."""
    types = tuple(kind for kind in kinds if isinstance(kind, type))
    words = {word for kind in kinds if get_origin(kind) is Literal for word in get_args(kind)}

    def read(value: object) -> object:
        if isinstance(value, types) or value in words:
            return value
        raise TypeError(value)

    return read


def _as_it_is(value: object) -> object:
    return value


def _block(value: Any) -> Block:
    kind = text_in(value["type"])
    for key in _KEYS.get(kind, ()):
        text_in(value[key])
    return cast("Block", value)


def _blocks(value: Any) -> tuple[Block, ...]:
    if not isinstance(value, list | tuple):
        raise TypeError(value)
    return tuple(map(_block, cast("Sequence[Any]", value)))


def _model_usages(value: Any) -> tuple[ModelUsage, ...]:
    return tuple(ModelUsage(text_in(e["model"]), usage_in(e)) for e in value)


def _call(value: Any) -> Block:
    if value["type"] != _CALL:  # its result would answer no call
        raise ValueError(value["type"])
    if not is_object(value["input"]):  # every request with it would be refused
        raise TypeError(value["input"])
    return _block(value)


def _no_call(value: Any) -> Block:
    if value["type"] == _CALL:  # it would have no result
        raise ValueError(value["type"])
    return _block(value)


def _result(data: JsonObject) -> ToolState:
    match data["state"]:
        case "pending":
            return Pending(data["why"], text_in(data["reason"]))
        case "success" | "error" as state:
            outcome = Success if state == "success" else Error
            return outcome(_blocks(data["content"]), data["details"])
        case other:
            raise ValueError(other)
