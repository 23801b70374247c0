"""The rule for a setting: a parser, and the sentence that names the allowed values.

A rule is part of its setting's annotation (`settings/schema.py`, `settings/extension_settings.py`).
"""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias, TypeGuard

from agent_cli.system.shapes import is_array, is_object, is_sequence

Parse: TypeAlias = Callable[[object], object]

KEY: Final = (
    r"ctrl-[a-z]|alt-[a-z0-9]|f(?:1\d|2[0-4]|[1-9])|esc|(?:alt-|shift-)?enter|(?:alt-)?backspace"
    r"|(?:shift-)?tab"
    r"|(?:ctrl-|shift-)?(?:up|down|left|right|home|end|insert|delete|pageup|pagedown)"
)
"""The names of the keys that can be changed, as a pattern."""


class SettingRule(NamedTuple):
    """The check of one setting.

    Attributes:
        parse: Value of a file → value of the setting; ValueError if it is not allowed.
        allowed: The values `parse` accepts, worded to follow "must be".
        unit: The unit of the number, or "".
        read: Text of a variable or an option → value as in a file; ValueError likewise.
        append: Later layers add to the list instead of replacing it.
        user_only: Never taken from a project, not even from a trusted one.
        stricter: Of the value so far and a project's, the one that allows less; it counts.
        secret: The value is never shown.
        by_name: The value is a table whose entries the layers add or replace one by one.
        item: The record type of a list of tables.
        prepare: Completes a record's keys before they are checked.
    """

    parse: Parse
    allowed: str
    unit: str = ""
    read: Callable[[str], object] = str
    append: bool = False
    user_only: bool = False
    stricter: Callable[[object, object], object] | None = None
    secret: bool = False
    by_name: bool = False
    item: type | None = None
    prepare: Callable[[dict[str, object]], dict[str, object]] | None = None


def fold(name: str) -> str:
    """Return *name* normalised: PascalCase, snake_case and kebab-case spellings compare equal."""
    return name.replace("_", "").replace("-", "").lower()


def whole(minimum: int, maximum: int, unit: str = "") -> SettingRule:
    """Accept a whole number in a range."""

    def parse(value: object) -> object:
        # True and False are integers in Python, but not to users.
        if isinstance(value, int) and value is not True and value is not False:
            return _within(value, minimum, maximum)
        raise ValueError

    return SettingRule(parse, f"a whole number from {minimum} to {maximum}", unit, read=int)


def lower_limit(one: object, other: object) -> object:
    """Return the lower of two limits."""
    assert isinstance(one, int | float)
    assert isinstance(other, int | float)
    return min(one, other)


def lower_limit_but_0(one: object, other: object) -> object:
    """Return the lower of two limits; 0 is no limit."""
    return lower_limit(one, other) if one and other else one or other


def off(one: object, other: object) -> object:
    """Return True if both are."""
    return bool(one and other)


def number(minimum: float, maximum: float, unit: str = "") -> SettingRule:
    """Accept a number in a range."""

    def parse(value: object) -> object:
        if isinstance(value, int | float) and value is not True and value is not False:
            return _within(value, minimum, maximum)
        raise ValueError

    return SettingRule(parse, f"a number from {minimum} to {maximum}", unit, read=float)


def flag() -> SettingRule:
    """Accept true or false."""

    def parse(value: object) -> object:
        if isinstance(value, bool):
            return value
        raise ValueError

    def read(text: str) -> object:
        return {"true": True, "1": True, "false": False, "0": False}.get(text.lower(), text)

    return SettingRule(parse, "true or false", read=read)


def flag_or(*names: str) -> SettingRule:
    """Accept true, false, or one of *names*."""
    either, named = flag(), choice(*names)

    def parse(value: object) -> object:
        return (named if isinstance(value, str) else either).parse(value)

    listed = ", ".join(f'"{name}"' for name in names)
    return SettingRule(parse, f"true, false or {listed}", read=either.read)


def choice(
    *names: str, also: Mapping[str, str] | None = None, user_only: bool = False
) -> SettingRule:
    """Accept one of *names* in any spelling; *also* maps names of other programs (folded) to ours.

    An explicit null, which only JSON has, means "none" if that is a choice.
    """
    known = {fold(name): name for name in names} | dict(also or {})

    def parse(value: object) -> object:
        if value is None:
            value = "none"
        if not isinstance(value, str) or fold(value) not in known:
            raise ValueError
        return known[fold(value)]

    return SettingRule(
        parse, "one of " + ", ".join(f'"{name}"' for name in names), user_only=user_only
    )


def choices(*names: str) -> SettingRule:
    """Accept a list of *names*, in any spelling; in a variable, a JSON array or one name."""
    one = choice(*names)

    def parse(value: object) -> object:
        if is_sequence(value):
            return tuple(one.parse(part) for part in value)
        raise ValueError

    listed = ", ".join(f'"{name}"' for name in names)
    return SettingRule(parse, f"a list of some of {listed}", read=_list)


def text(allowed: str = "text") -> SettingRule:
    """Accept text that is not empty."""

    def parse(value: object) -> object:
        if not _is_text(value) or not value.strip():
            raise ValueError
        return value

    return SettingRule(parse, allowed)


def texts(*, append: bool = False, user_only: bool = False) -> SettingRule:
    """Accept a list of strings; in a variable, a JSON array or one string."""

    def parse(value: object) -> object:
        if is_sequence(value) and all(map(_is_text, value)):
            return tuple(value)
        raise ValueError

    return SettingRule(parse, "a list of strings", read=_list, append=append, user_only=user_only)


def text_map(*, secret: bool = False, by_name: bool = False) -> SettingRule:
    """Accept a table of strings; the spelling of names is kept, except with *by_name*."""

    def parse(value: object) -> object:
        if is_object(value) and all(map(_is_text, value.values())):
            return MappingProxyType(dict(value))
        raise ValueError

    return SettingRule(parse, "a table of texts", read=_json, secret=secret, by_name=by_name)


def key_map() -> SettingRule:
    """Accept a table from keys to the keys whose work they do; Ctrl-C must keep its own."""

    def is_key(name: object) -> bool:
        return isinstance(name, str) and bool(re.fullmatch(KEY, name))

    def parse(value: object) -> object:
        if not is_object(value) or "ctrl-c" in value or not all(map(is_key, value)):
            raise ValueError
        if not all(meant == "none" or is_key(meant) for meant in value.values()):
            raise ValueError
        return MappingProxyType(dict(value))

    allowed = 'a table from keys to keys, such as "alt-enter" = "enter"; ctrl-c cannot be changed'
    return SettingRule(parse, allowed, read=_json, user_only=True)


def price_map() -> SettingRule:
    """Accept a table of prices: model id → "INPUT/OUTPUT", dollars per million tokens."""

    def parse(value: object) -> object:
        if is_object(value) and all(map(_is_price, value.values())):
            return MappingProxyType(dict(value))
        raise ValueError

    allowed = 'a table of texts such as "2.50/10", input and output'
    unit = "USD per million tokens"
    return SettingRule(parse, allowed, unit, read=_json, user_only=True, by_name=True)


def _is_price(value: object) -> bool:
    parts = value.split("/") if isinstance(value, str) else ()
    return len(parts) == len(("input", "output")) and all(
        part.isascii() and part.replace(".", "", 1).isdigit() for part in parts
    )


def table(*, secret: bool = False) -> SettingRule:
    """Accept any table; the code that uses it checks its content."""

    def parse(value: object) -> object:
        if is_object(value):
            return MappingProxyType(dict(value))
        raise ValueError

    return SettingRule(parse, "a table", read=_json, secret=secret)


def records(
    item: type, prepare: Callable[[dict[str, object]], dict[str, object]] | None = None
) -> SettingRule:
    """Accept a list of tables, or a table of tables whose names become `name`."""

    def parse(value: object) -> object:
        if is_object(value):
            value = [
                {"name": name, **part} if is_object(part) else part for name, part in value.items()
            ]
        if not is_array(value) or not all(is_object(part) for part in value):
            raise ValueError
        return value

    return SettingRule(parse, "a list of tables", read=_json, item=item, prepare=prepare)


def groups() -> SettingRule:
    """Accept a list of any tables, which each layer adds to."""

    def parse(value: object) -> object:
        if is_array(value) and all(is_object(part) for part in value):
            return _frozen(value)
        raise ValueError

    return SettingRule(parse, "a list of tables", read=_json, append=True)


def optional(rule: SettingRule) -> SettingRule:
    """Accept the values of *rule*, and an explicit null for "not set"."""

    def parse(value: object) -> object:
        return None if value is None else rule.parse(value)

    return rule._replace(parse=parse, allowed=f"{rule.allowed}, or left out")


def _is_text(value: object) -> TypeGuard[str]:
    # No path, argument or variable can hold NUL: the call that uses it would fail.
    return isinstance(value, str) and "\0" not in value


def _frozen(value: object) -> object:
    if is_object(value):
        return MappingProxyType({name: _frozen(part) for name, part in value.items()})
    return tuple(map(_frozen, value)) if is_array(value) else value


def _within(value: float, minimum: float, maximum: float) -> float:
    # Written so that NaN, which is neither below nor above, is refused.
    if minimum <= value <= maximum:
        return value
    raise ValueError


def _list(text: str) -> object:
    return _json(text) if text.lstrip().startswith("[") else [text]


def _json(text: str) -> object:
    import json  # only lists and tables in variables need it; the prompt waits

    parsed: object = json.loads(text)
    return parsed
