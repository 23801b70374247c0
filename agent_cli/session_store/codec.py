"""Timeline entries as JSON and back, exactly. Knows no file.

An unknown kind (of a plugin that is not installed, or of a newer version) is kept and written back
unchanged.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeAlias, get_origin

from agent_cli.contracts.timeline import (
    Block,
    BlockOutput,
    CompactionOutput,
    CustomOutput,
    DiscardedOutput,
    Error,
    FileOutput,
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

# Any: read back from JSON that this program wrote and a checksum protects, so its shape is not
# validated again.
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


@dataclass(frozen=True, slots=True)
class UnknownOutput(Output):
    """An entry of a kind that is not registered; `data` is all of it. Never projected."""

    kind: ClassVar[str] = "unknown"
    data: Block


class Codec:
    """The kinds of entries that can be read; *extra* kinds are dataclasses with JSON fields."""

    def __init__(self, extra: Iterable[type[Output]] = ()) -> None:
        self._kinds = {cls.kind: (cls, _readers(cls)) for cls in (*KINDS, *extra)}

    def output(self, data: JsonObject) -> Output:
        """Return the entry for *data*; the inverse of `output_to_json`."""
        known = self._kinds.get(data["kind"])
        if known is not None:
            cls, readers = known
            try:
                read = {name: reader(data[name]) for name, reader in readers if name in data}
                return cls(**read)
            except (KeyError, TypeError, ValueError):
                pass  # another version's form of this kind: kept below, not decoded
        return UnknownOutput(str(data.get("id", "")), int(data.get("at_ms", 0)), data)

    def prompt(self, data: JsonObject) -> Prompt:
        """Return a prompt that just started; the inverse of `prompt_to_json`."""
        given = self.output(data["input"]) if data["input"] else None
        return Prompt(
            data["id"],
            data["user_id"],
            data["model"],
            data["at_ms"],
            data["visible"],
            input=given if isinstance(given, UserOutput) else None,
        )


def output_to_json(output: Output) -> JsonObject:
    """Return *output* as an object of JSON, its kind first."""
    if isinstance(output, UnknownOutput):
        return output.data
    return {"kind": output.kind, **_named(output)}


def prompt_to_json(prompt: Prompt) -> JsonObject:
    """Return *prompt* as it is when it starts: state, outputs and usage are recorded later."""
    return {
        "id": prompt.id,
        "user_id": prompt.user_id,
        "model": prompt.model,
        "at_ms": prompt.at_ms,
        "visible": prompt.visible,
        "input": output_to_json(prompt.input) if prompt.input else None,
    }


def usage_from_json(data: JsonObject) -> Usage:
    """Return the usage for *data*; the inverse of `usage_to_json`."""
    return Usage(**data)


def usage_to_json(usage: Usage) -> JsonObject:
    """Return *usage* as a JSON object that versions without a cost limit can read, too."""
    named = _named(usage)
    if not usage.held_microdollars:
        del named["held_microdollars"]
    return named


def _named(value: Output | ToolState | Usage) -> JsonObject:
    return {field.name: _to_json(getattr(value, field.name)) for field in fields(value)}


def _to_json(value: object) -> object:
    match value:
        case Pending() | Success() | Error():
            return {"state": value.state, **_named(value)}
        case Usage():
            return usage_to_json(value)
        case _:
            return value


def _readers(cls: type[Output]) -> list[tuple[str, _Reader]]:
    """Return for each field of *cls* the function that decodes its JSON."""
    return [(field.name, _reader(field.type)) for field in fields(cls)]


def _reader(kind: object) -> _Reader:
    if get_origin(kind) is tuple:
        return tuple
    if kind == ToolState:
        return _result
    return usage_from_json if kind is Usage else _as_it_is


def _as_it_is(value: object) -> object:
    return value


def _result(data: JsonObject) -> ToolState:
    if data["state"] == "pending":
        return Pending(data["why"], data["reason"])
    outcome = Success if data["state"] == "success" else Error
    return outcome(tuple(data["content"]), data["details"])
