"""Tools made of functions."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, TypedDict

import pytest
from pydantic import Field

from agent_cli import (
    AgentCliError,
    CancelToken,
    Tool,
    ToolContext,
    ToolError,
    ToolResult,
    check_input,
    tool,
)
from tests.tables import each_row


async def pay(
    amount: Annotated[float, Field(gt=0, description="in euros")],
    to: str = "bank",
    *,
    cancel: CancelToken,
    on_update: ToolContext,
) -> str:
    """Pay someone.

    At most once a day.
    """
    on_update("paying")
    cancel.check()
    return f"paid {amount:g} to {to}"


async def run(made: Tool, given: dict[str, object]) -> object:
    params = check_input(made, given)  # type: ignore[arg-type]  # invalid values too
    return await made.execute("toolu_1", params, CancelToken(), ToolContext())


async def test_signature_is_the_schema_and_the_docstring_the_description() -> None:
    """What belongs to the call is not offered to the model."""
    made = tool(pay)

    assert (made.name, made.description) == ("pay", "Pay someone.\n\nAt most once a day.")
    assert made.spec.input_schema == {
        "type": "object",
        "properties": {
            "amount": {"type": "number", "exclusiveMinimum": 0, "description": "in euros"},
            "to": {"type": "string", "default": "bank"},
        },
        "required": ["amount"],
    }
    assert await run(made, {"amount": 2}) == "paid 2 to bank"
    assert await run(made, {"amount": 2.5, "to": "me"}) == "paid 2.5 to me"


@each_row("given", [{}, {"amount": 0}, {"amount": 1, "other": 2}, {"amount": "x"}])
async def test_input_that_does_not_fit_the_signature_reaches_no_function(
    given: dict[str, object],
) -> None:
    with pytest.raises(ToolError, match="Invalid input for pay"):
        await run(tool(pay), given)


def test_tool_that_only_reads_says_so() -> None:
    """Then it needs no approval, and plan mode offers it."""
    made = tool(changes=False, name="payments", timeout_s=5)(pay)

    assert (made.name, made.changes, made.timeout_s) == ("payments", False, 5)
    assert tool(pay).changes


class Movement(TypedDict):
    """A dictionary, whose class answers no `issubclass`."""

    x: int


def test_function_that_is_no_tool_is_refused_in_one_sentence() -> None:
    """When it is decorated, not when the model first calls it."""

    async def silent(x: int) -> str:
        return str(x)

    async def untyped(x) -> str:  # type: ignore[no-untyped-def] # noqa: ANN001
        """Say x."""
        return str(x)  # pyright: ignore

    async def any_number(*xs: int) -> str:
        """Say all."""
        return str(xs)

    async def hidden(_x: int) -> str:
        """Say x."""
        return str(_x)

    def plain(x: int) -> str:
        """Say x."""
        return str(x)

    async def number(x: int) -> int:
        """Say x."""
        return x

    async def listed(x: int) -> list[str]:
        """Say x."""
        return [str(x)]

    async def typed(x: int) -> Movement:
        """Say x."""
        return {"x": x}

    async def nothing(x: int) -> None:
        """Say nothing."""

    async def unknown(x: int) -> str:
        """Say x."""
        return str(x)

    unknown.__annotations__["return"] = "Elsewhere"

    for function, sentence in (
        ("lookup", "must be a function, not str"),
        (silent, "write a docstring"),
        (untyped, "parameter x needs a type"),
        (any_number, "parameter xs needs"),
        (hidden, "parameter _x needs"),
        (plain, "must be an async def"),
        (number, "must return str or ToolResult, not int"),
        (nothing, "must return str or ToolResult, not NoneType"),
        (listed, "must return str or ToolResult, not list"),
        (typed, "must return str or ToolResult, not Movement"),
        (unknown, "a type in its signature is not known here: name 'Elsewhere'"),
        (partial(pay, amount=1), "must be a function, not partial"),
    ):
        with pytest.raises(AgentCliError, match=sentence):
            tool(function)  # type: ignore[arg-type]  # that is the point


def test_return_types_that_may_hold_a_result_are_no_reason_to_refuse() -> None:
    """A type checker says more than `tool` can know."""

    class Text(str):
        __slots__ = ()

    async def fixed(x: int) -> str:
        """Say x."""
        return str(x)

    for kind in (
        Text,
        str | None,
        ToolResult | str,
        Any,
        object,
        Sequence[str],
        Annotated[str, "short"],
        "str",
    ):
        fixed.__annotations__["return"] = kind
        assert tool(fixed).name == "fixed"
