"""A server's form: shown whole, filled in, reviewed, and corrected by the number of a field."""

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime
from typing import Final
from urllib.parse import urlsplit

from agent_cli.contracts.dialogs import Filled, Form
from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.servers import FormField
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.wording import one_line
from agent_cli.repl.dialogue import ENTER, Dialogue
from agent_cli.repl.mcp import named
from agent_cli.system.sanitize import reveal

_LABEL_CHARS_MAX: Final = 40
_EMPTY: Final = "-"


class FormDialog:
    """Shows the form, asks for each field until the value is valid, and has the user review it."""

    def __init__(self, form: Form, prompt: Dialogue, show: Callable[..., None]) -> None:
        """Ask nothing yet; *show* writes rows, and faint below them what the keys do."""
        self._form = form
        self._prompt = prompt
        self._show = show
        self._server = reveal(form.server)

    async def fill(self) -> Filled:
        """Return the user's values; a form with one field is not shown again.

        Raises:
            KeyboardInterrupt, EOFError: The user stopped.
        """
        fields = self._form.fields
        if len(fields) == 1:
            self._show(["", label(fields[0]), *(f"  {row}" for row in explained(fields[0]))])
        else:
            self._show(
                ["", *(row for at, each in enumerate(fields, 1) for row in _blank(at, each))]
            )
        values: dict[str, Json] = {}
        for number, field in enumerate(fields, 1):
            await self._fill(number, field, values)
        while len(fields) > 1:
            self._show(
                [
                    "",
                    f"this goes to {named(self._form.server)}:",
                    *(
                        f"  {number} {label(field)}: {_value_in(field, values) or '-'}"
                        for number, field in enumerate(fields, 1)
                    ),
                ],
                "y = send · n = decline · a number = change that field, then Enter"
                " · Ctrl-C = cancel",
            )
            numbers = map(str, range(1, len(fields) + 1))
            message = f"{self._server}: send? (y/n/number) "
            answer = await self._prompt.choose_key(message, ["y", "n", *numbers], at_once=True)
            if answer == "y":
                break
            if answer == "n":
                return Filled("decline")
            number, field = int(answer), fields[int(answer) - 1]
            self._show(["", *_blank(number, field)])
            await self._fill(number, field, values)
        return Filled("accept", values)

    async def _fill(self, number: int, field: FormField, values: dict[str, Json]) -> None:
        """Ask for a valid value for *field*; Enter keeps the present value, or the default.

        An optional field that has either can be emptied: it is None then, and not sent.
        """
        now = one_line(_value_in(field, values), _LABEL_CHARS_MAX)
        counter = f"{number} " if len(self._form.fields) > 1 else ""
        can_empty = bool(now) and not field.required
        held = f" [{now}{f' · {_EMPTY} = empty' if can_empty else ''}]" if now else ""
        message = f"{self._server}: {counter}{label(field)}{held}> "
        while True:
            typed = await self._prompt.choose_next(message, ENTER)
            if field.name in values and not typed.strip():
                return
            if can_empty and typed.strip() == _EMPTY:
                values[field.name] = None
                return
            try:
                value = value_of(field, typed)
                fault = "" if value is None else self._form.fault(field.name, value)
                if not fault:
                    if value is not None:
                        values[field.name] = value
                    return
            except UsageError as error:
                fault = str(error)
            self._show([f"  not taken: {reveal(one_line(fault))}"])


def label(field: FormField) -> str:
    """Return the label of a field, shortened for a prompt."""
    return one_line(reveal(field.label), _LABEL_CHARS_MAX)


def _value_in(field: FormField, values: dict[str, Json]) -> str:
    return shown_value(field, values.get(field.name, field.default))


def _blank(number: int, field: FormField) -> list[str]:
    """Return the rows of a field of the form."""
    return [f"{number} {label(field)}", *(f"    {row}" for row in explained(field))]


# Parse the text typed into a field of a server's form, and describe valid values.

_WORDS: Final = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}
_EMAIL: Final = re.compile(r"[^@\s]+@[^@\s]+")
_NONE: Final = "none"
_FORMATS: Final = {
    "email": "an e-mail address such as anna@example.org",
    "uri": "a whole address such as https://example.org/page",
    "date": "a date such as 2026-08-31",
    "date-time": "a date with a time such as 2026-08-31T13:00:00Z",
}


def explained(field: FormField) -> list[str]:
    """Return the rows that describe *field* and its valid values."""
    rows = [reveal(field.description)] if field.description else []
    if field.kind in ("choice", "choices"):
        rows += _listed(field)
    optional = not field.required and field.default is None
    return [*rows, f"{_expected(field)}{'; may stay empty' if optional else ''}"]


def value_of(field: FormField, typed: str) -> Json:
    """Return the value of *typed*; None leaves the field to its default.

    Raises:
        UsageError: It is not valid; the message says what is.
    """
    typed = typed.strip()
    if not typed:
        if field.required and field.default is None:
            raise UsageError(f"it is required: {_expected(field)}")
        return None
    match field.kind:
        case "boolean":
            return _boolean(typed)
        case "integer" | "number":
            return _number(field, typed)
        case "choice":
            return _chosen(field, typed)
        case "choices":
            parts = [] if typed.lower() == _NONE else [part for part in typed.split(",") if part]
            return [_chosen(field, part.strip()) for part in parts]
        case "text":
            return _text(field, typed)


def shown_value(field: FormField, value: Json) -> str:
    """Return *value* as the user would type it, on one line."""
    labels = dict(field.options)
    match value:
        case bool():
            return "yes" if value else "no"
        case str():
            return reveal(labels.get(value, value))
        case list():
            return ", ".join(shown_value(field, each) for each in value) or _NONE
        case None:
            return ""
        case _:
            return reveal(json.dumps(value, ensure_ascii=False))


def _expected(field: FormField) -> str:
    match field.kind:
        case "boolean":
            return "yes or no"
        case "integer":
            return "a whole number"
        case "number":
            return "a number"
        case "choice":
            return "one of these"
        case "choices":
            return f"any of these, with commas between, or {_NONE}"
        case "text":
            return _FORMATS.get(field.format, "text")


def _listed(field: FormField) -> Iterator[str]:
    numbered = _is_numbered(field.options)
    for number, (value, label) in enumerate(field.options, 1):
        mark = f"{number:>3}" if numbered else "  -"
        name = "" if label == value else f" ({reveal(value)})"
        yield f"{mark}  {reveal(label)}{name}"


def _is_numbered(options: Sequence[tuple[str, str]]) -> bool:
    """Return whether options can be chosen by number: not if some are numbers themselves."""
    return not any(text.isdecimal() for option in options for text in option)


def _chosen(field: FormField, typed: str) -> Json:
    for value, label in field.options:
        if typed in (value, label):
            return value
    for value, label in field.options:
        if typed.lower() in (value.lower(), label.lower()):
            return value
    if _is_numbered(field.options) and typed.isdecimal() and 1 <= int(typed) <= len(field.options):
        return field.options[int(typed) - 1][0]
    raise UsageError(f"{reveal(typed)} is none of the choices")


def _boolean(typed: str) -> bool:
    try:
        return _WORDS[typed.lower()]
    except KeyError:
        raise UsageError(f"{reveal(typed)} is neither yes nor no") from None


def _number(field: FormField, typed: str) -> int | float:
    if re.fullmatch(r"[+-]?[0-9]{1,300}", typed):
        return int(typed)
    try:
        number = float(typed)
    except ValueError:
        number = math.nan
    if field.kind == "integer" or not math.isfinite(number) or "_" in typed:
        raise UsageError(f"{reveal(typed)} is not {_expected(field)}")
    return number


def _text(field: FormField, typed: str) -> str:
    if not _has_format(field.format, typed):
        raise UsageError(f"{reveal(typed)} is not {_expected(field)}")
    return typed


def _has_format(name: str, typed: str) -> bool:
    try:
        match name:
            case "email":
                return bool(_EMAIL.fullmatch(typed))
            case "uri":
                parts = urlsplit(typed)
                return bool(parts.scheme and (parts.netloc or parts.path))
            case "date":
                return date.fromisoformat(typed).isoformat() == typed
            case "date-time":
                return datetime.fromisoformat(typed).tzinfo is not None
            case _:
                pass
    except ValueError:
        return False
    return True
