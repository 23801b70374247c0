"""A server's form, filled in field by field."""

from collections.abc import Callable, Iterable
from typing import Final

from agent_cli.contracts.dialogs import Filled, Form
from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.servers import FormField
from agent_cli.contracts.timeline import Json
from agent_cli.repl.dialogue import ENTER, Dialogue
from agent_cli.repl.mcp.foreign_words import named
from agent_cli.repl.mcp.form_values import explained, shown_value, value_of
from agent_cli.terminal.narration import one_line
from agent_cli.terminal.sanitize import reveal

_LABEL_CHARS_MAX: Final = 40


class FormDialog:
    """Asks for each field until the value is valid, and shows the form before it is sent."""

    def __init__(self, form: Form, prompt: Dialogue, show: Callable[[Iterable[str]], None]) -> None:
        """Ask nothing yet; *show* writes rows."""
        self._form = form
        self._prompt = prompt
        self._show = show
        self._server = reveal(form.server)

    async def fill(self) -> Filled:
        """Return the user's values; a form with one field is not shown again.

        Raises:
            KeyboardInterrupt, EOFError: The user stopped.
        """
        while True:
            values = await self._values()
            if len(self._form.fields) == 1:
                return Filled("accept", values)
            self._show(
                [
                    "",
                    f"this goes to {named(self._form.server)}:",
                    *(f"  {label(field)}: {_given(field, values)}" for field in self._form.fields),
                    "y = send · n = decline · a = fill it in again, then Enter · Ctrl-C = cancel",
                ]
            )
            message = f"{self._server}: send? (y/n/a) "
            match await self._prompt.choose_key(message, "yna", at_once=True):
                case "y":
                    return Filled("accept", values)
                case "n":
                    return Filled("decline")
                case _:
                    pass

    async def _values(self) -> dict[str, Json]:
        values: dict[str, Json] = {}
        for number, field in enumerate(self._form.fields, 1):
            value = await self._value(number, field)
            if value is not None:
                values[field.name] = value
        return values

    async def _value(self, number: int, field: FormField) -> Json:
        """Return a valid value for *field*; None leaves it to its default."""
        of = f"{number} of {len(self._form.fields)}: " if len(self._form.fields) > 1 else ""
        self._show(["", f"{of}{label(field)}", *(f"  {row}" for row in explained(field))])
        default = one_line(shown_value(field, field.default), _LABEL_CHARS_MAX)
        message = f"{self._server}: {label(field)}{f' [{default}]' if default else ''}> "
        while True:
            typed = await self._prompt.choose_next(message, ENTER)
            try:
                value = value_of(field, typed)
                fault = "" if value is None else self._form.fault(field.name, value)
                if not fault:
                    return value
            except UsageError as error:
                fault = str(error)
            self._show([f"  not taken: {reveal(one_line(fault))}"])


def label(field: FormField) -> str:
    """Return the label of a field, shortened for a prompt."""
    return one_line(reveal(field.label), _LABEL_CHARS_MAX)


def _given(field: FormField, values: dict[str, Json]) -> str:
    return shown_value(field, values.get(field.name, field.default)) or "-"
