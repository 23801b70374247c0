"""A server's form: shown whole, filled in, reviewed, and corrected by the number of a field."""

from collections.abc import Callable, Iterable
from typing import Final

from agent_cli.contracts.dialogs import Filled, Form
from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.servers import FormField
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.wording import one_line
from agent_cli.repl.dialogue import ENTER, Dialogue
from agent_cli.repl.mcp.foreign_words import named
from agent_cli.repl.mcp.form_values import explained, shown_value, value_of
from agent_cli.terminal.sanitize import reveal

_LABEL_CHARS_MAX: Final = 40
_EMPTY: Final = "-"


class FormDialog:
    """Shows the form, asks for each field until the value is valid, and has the user review it."""

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
        fields = self._form.fields
        if len(fields) == 1:
            self._show(["", label(fields[0]), *(f"  {row}" for row in explained(fields[0]))])
        else:
            self._show(["", *(row for place in enumerate(fields, 1) for row in _blank(*place))])
        values: dict[str, Json] = {}
        for number, field in enumerate(fields, 1):
            await self._fill(number, field, values)
        while len(fields) > 1:
            self._show(
                [
                    "",
                    f"this goes to {named(self._form.server)}:",
                    *(
                        f"  {number} {label(field)}: {_given(field, values) or '-'}"
                        for number, field in enumerate(fields, 1)
                    ),
                    "y = send · n = decline · a number = change that field, then Enter"
                    " · Ctrl-C = cancel",
                ]
            )
            answer = await self._prompt.choose_next(f"{self._server}: send? (y/n/number) ", ENTER)
            match answer.strip().lower():
                case "y":
                    break
                case "n":
                    return Filled("decline")
                case text if text in map(str, range(1, len(fields) + 1)):
                    number, field = int(text), fields[int(text) - 1]
                    self._show(["", *_blank(number, field)])
                    await self._fill(number, field, values)
                case _:
                    pass
        return Filled("accept", values)

    async def _fill(self, number: int, field: FormField, values: dict[str, Json]) -> None:
        """Ask for a valid value for *field*; Enter keeps the one it has, or its default.

        An optional field that has either can be emptied: it is None then, and not sent.
        """
        now = one_line(_given(field, values), _LABEL_CHARS_MAX)
        place = f"{number} " if len(self._form.fields) > 1 else ""
        can_empty = bool(now) and not field.required
        held = f" [{now}{f' · {_EMPTY} = empty' if can_empty else ''}]" if now else ""
        message = f"{self._server}: {place}{label(field)}{held}> "
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


def _given(field: FormField, values: dict[str, Json]) -> str:
    return shown_value(field, values.get(field.name, field.default))


def _blank(number: int, field: FormField) -> list[str]:
    """Return the rows of a field of the form."""
    return [f"{number} {label(field)}", *(f"    {row}" for row in explained(field))]
