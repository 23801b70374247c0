"""Values typed into the fields of a server's form."""

import pytest

from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.servers import FieldKind, FormField
from agent_cli.contracts.timeline import Json
from agent_cli.repl.mcp.form_dialog import explained, shown_value, value_of
from tests.tables import each_row

COLOURS = (("r", "Red"), ("g", "Green"), ("b", "b"))


def field(kind: FieldKind, **more: object) -> FormField:
    return FormField(name="it", label="It", kind=kind, **more)  # type: ignore[arg-type]


@each_row(
    ("asked", "typed", "value"),
    [
        (field("text"), " some words ", "some words"),
        (field("text"), "", None),
        (field("text", format="email"), "a@b.example", "a@b.example"),
        (field("text", format="uri"), "https://a.example/b", "https://a.example/b"),
        (field("text", format="date"), "2026-08-31", "2026-08-31"),
        (field("text", format="date-time"), "2026-08-31T13:00:00Z", "2026-08-31T13:00:00Z"),
        (field("integer"), "-12", -12),
        (field("number"), "12", 12),
        (field("number"), "1.5e3", 1500.0),
        (field("boolean"), "Yes", True),
        (field("boolean"), "n", False),
        (field("choice", options=COLOURS), "2", "g"),
        (field("choice", options=COLOURS), "green", "g"),
        (field("choice", options=COLOURS), "r", "r"),
        (field("choice", options=(("2", "2"), ("1", "1"))), "1", "1"),
        (field("choices", options=COLOURS), "1, b", ["r", "b"]),
        (field("choices", options=COLOURS), "none", []),
    ],
)
def test_typed_text_becomes_a_form_value(asked: FormField, typed: str, value: Json) -> None:
    """Choices by number, label or value; empty input takes the field's default."""
    assert value_of(asked, typed) == value


@each_row(
    ("asked", "typed", "fault"),
    [
        (field("text", required=True), " ", "it is required: text"),
        (field("text", format="email"), "anna", "anna is not an e-mail address"),
        (field("text", format="uri"), "example", "example is not a whole address"),
        (field("text", format="uri"), "http://[", "http://[ is not a whole address"),
        (field("text", format="date"), "20260831", "20260831 is not a date such as 2026-08-31"),
        (field("text", format="date-time"), "2026-08-31T13:00", "is not a date with a time"),
        (field("integer"), "1.0", "1.0 is not a whole number"),
        (field("integer"), "1_0", "1_0 is not a whole number"),
        (field("number"), "nan", "nan is not a number"),
        (field("number"), "1_0.5", "1_0.5 is not a number"),
        (field("boolean"), "maybe", "maybe is neither yes nor no"),
        (field("choice", options=COLOURS), "4", "4 is none of the choices"),
        (field("choice", options=(("2", "2"),)), "1", "1 is none of the choices"),
        (field("choices", options=COLOURS), "red, blue", "blue is none of the choices"),
    ],
)
def test_invalid_form_value_is_refused_with_the_reason(
    asked: FormField, typed: str, fault: str
) -> None:
    """The user reads the reason and types again."""
    with pytest.raises(UsageError, match=rf"^.*{fault.replace('[', '.')}"):
        value_of(asked, typed)


def test_form_field_explains_which_values_fit() -> None:
    """It shows its description, its numbered choices, and whether it may stay empty."""
    assert explained(field("choice", description="A \x1bcolour", options=COLOURS)) == [
        "A \\x1bcolour",
        "  1  Red (r)",
        "  2  Green (g)",
        "  3  b",
        "one of these; may stay empty",
    ]
    assert explained(field("integer", required=True)) == ["a whole number"]
    numbers = explained(field("choices", options=(("10", "ten"),), required=True))
    assert numbers == ["  -  ten (10)", "any of these, with commas between, or none"]


def test_form_value_is_shown_as_it_would_be_typed() -> None:
    """For the default in the prompt and the review before sending."""
    asked = field("choices", options=COLOURS)

    assert shown_value(asked, ["r", "b"]) == "Red, b"
    assert shown_value(asked, []) == "none"
    assert [shown_value(asked, each) for each in (True, False, None, 1.5)] == [
        "yes",
        "no",
        "",
        "1.5",
    ]
