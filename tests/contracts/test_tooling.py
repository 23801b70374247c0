"""The parts of a tool shown to the model and to the user, and the validation of its input."""

from dataclasses import fields, replace
from functools import partial
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import AgentCliError, ToolError
from agent_cli.contracts.late_models import input_schema
from agent_cli.contracts.timeline import Json, text_block
from agent_cli.contracts.tooling import (
    Tool,
    ToolContext,
    ToolResult,
    ToolSpec,
    check_input,
)
from tests.fakes import returns
from tests.tables import each_row


class Move(BaseModel):
    """Where to."""

    x: int = Field(description="Columns to the right")
    title: str = "none"


async def execute(
    tool_call_id: str, params: object, cancel: CancelToken, on_update: ToolContext
) -> str:
    return "ok"


def move(parameters: type[BaseModel] | dict[str, Json]) -> Tool:
    return Tool(
        name="move",
        label="Move it",
        description="Move the thing",
        parameters=parameters,
        execute=execute,
    )


SCHEMA: dict[str, Json] = {
    "type": "object",
    "properties": {"x": {"type": "integer"}},
    "required": ["x"],
}


def test_tool_spec_has_only_name_description_and_schema() -> None:
    """S0-16, S3-21: the model sees neither label nor code."""
    assert move(SCHEMA).spec == ToolSpec("move", "Move the thing", SCHEMA)


def test_input_schema_omits_empty_defaults() -> None:
    """S0-16: false, an empty string or null is implied; any other default is stated."""

    class Options(BaseModel):
        deep: bool = False
        name: str = ""
        count: int = 0
        kind: str = "all"

    assert input_schema(Options)["properties"] == {
        "deep": {"type": "boolean"},
        "name": {"type": "string"},
        "count": {"default": 0, "type": "integer"},
        "kind": {"default": "all", "type": "string"},
    }


def test_input_schema_has_no_titles_but_may_have_a_title_parameter() -> None:
    """S0-16: pydantic's titles repeat the name."""
    schema = input_schema(Move)

    assert schema["properties"] == {
        "x": {"description": "Columns to the right", "type": "integer"},
        "title": {"default": "none", "type": "string"},
    }
    assert "title" not in schema


@each_row("parameters", [Move, SCHEMA])
@each_row("given", [{"x": "far"}, {}, [], None, "x"])
def test_error_about_invalid_tool_input_names_the_tool_and_the_remedy(
    parameters: type[BaseModel] | dict[str, Json], given: Json
) -> None:
    """S2-21: the model reads the error, and corrects the call."""
    with pytest.raises(ToolError, match=r"Invalid input for move: .+Correct it and call again"):
        check_input(move(parameters), given)


def test_valid_tool_input_is_parsed_or_passed_as_received() -> None:
    """S3-21: an instance of the model, or the JSON object."""
    assert check_input(move(Move), {"x": 1}) == Move(x=1)
    assert check_input(move(SCHEMA), {"x": 1, "more": 2}) == {"x": 1, "more": 2}


def test_every_fault_of_a_tool_input_is_named_with_its_path() -> None:
    """S2-21: one round trip suffices to correct all of them."""

    class Outer(BaseModel):
        inner: Move
        n: int

    with pytest.raises(ToolError, match=r"inner\.x: .*; n: "):
        check_input(move(Outer), {"inner": {}, "n": "many"})


def test_list_or_object_in_a_string_is_named_as_such() -> None:
    """Models that quote them read "should be a valid list", and repeated the same call."""

    class Outer(BaseModel):
        inner: Move
        names: list[str]

    with pytest.raises(ToolError) as error:
        check_input(move(Outer), {"inner": '{"x": 1}', "names": '["a"]'})

    assert str(error.value).count(", not a string that holds one") == 2
    with pytest.raises(ToolError, match=r"names: Input should be a valid list\. Correct"):
        check_input(move(Outer), {"inner": {"x": 1}, "names": 7})


TITLED: dict[str, Json] = {
    "type": "object",
    "properties": {"x": {"type": "integer"}, "title": {"enum": ["a", "b"]}},
    "required": ["x"],
}


@each_row("parameters", [Move, TITLED])
def test_null_stands_for_an_optional_parameter_left_out(
    parameters: type[BaseModel] | dict[str, Json],
) -> None:
    """Models that have to name each parameter write it, and read "should be a valid string"."""
    assert check_input(move(parameters), {"x": 1, "title": None}) == (
        Move(x=1) if parameters is Move else {"x": 1}
    )
    with pytest.raises(ToolError, match=r"Invalid input for move: .*\bx: "):
        check_input(move(parameters), {"x": None, "title": None})


def test_null_is_kept_where_it_may_be() -> None:
    """Only what is plainly invalid is left out, also in lists of objects."""

    class Part(BaseModel):
        name: str
        note: str | None = "none"
        size: int = 3

    class Outer(BaseModel):
        parts: list[Part]
        n: int = 1

    part: dict[str, Json] = {"name": "a", "note": None, "size": None}
    assert check_input(move(Outer), {"parts": [part], "n": None}) == Outer(
        parts=[Part(name="a", note=None)]
    )


def test_tool_without_parameters_says_so_when_it_gets_one() -> None:
    """The list of those there are was empty, and the sentence had no end."""

    class Nothing(BaseModel):
        model_config = ConfigDict(extra="forbid")

    with pytest.raises(ToolError, match="no parameter is named depth: there are none"):
        check_input(move(Nothing), {"depth": 2})


def test_tool_updates_may_be_text_or_results() -> None:
    """S0-19, S3-22: a tool context is also the function `on_update`."""
    seen: list[ToolResult] = []
    context = ToolContext(update=seen.append)

    context("half")
    context(ToolResult.of("most", details={"n": 1}))

    assert seen == [ToolResult.of("half"), ToolResult((text_block("most"),), {"n": 1})]


def test_tool_context_can_be_created_without_arguments() -> None:
    """S1-16: so a tool can be called in a test without a run; nobody has approved that."""
    context = ToolContext()

    context("nobody listens")
    context.require_decided("/any/path")

    assert (context.user_id, context.is_approved) == ("local", False)


def test_call_may_use_only_the_paths_for_which_it_was_decided() -> None:
    """A symlink that has changed since leads elsewhere."""
    context = ToolContext(paths=["/w/a"])

    context.require_decided("/w/a")
    with pytest.raises(ToolError, match="it would touch other files now than when it was checked"):
        context.require_decided("/w/b")


@each_row(
    ("part", "reason"),
    [
        ({"$ref": "#/$defs/none"}, "refers to a part that is not there"),
        ({"$dynamicRef": "#none"}, "refers to a part that is not there"),
        ({"$ref": "#/properties/x"}, "refers to itself without an end"),
        ({"type": "strin"}, "is not valid"),
    ],
)
def test_call_of_a_tool_with_an_invalid_schema_is_an_error(
    part: dict[str, Json], reason: str
) -> None:
    """The fault is the tool's: the model must not try to correct its input."""
    tool = move({"type": "object", "properties": {"x": part}})

    with pytest.raises(ToolError, match="move cannot be called: its schema") as caught:
        check_input(tool, {"x": 1})

    assert reason in str(caught.value)


def test_schema_patterns_are_not_checked() -> None:
    """JavaScript patterns are not Python's, and either kind may take for ever."""
    part: Json = {"type": "string", "pattern": r"^(\p{L}+)+$"}
    schema: dict[str, Json] = {
        "type": "object",
        "patternProperties": {r"\p{L}": part},
        "additionalProperties": False,
    }

    assert check_input(move(schema), {"x": "a" * 40 + "!"}) == {"x": "a" * 40 + "!"}


def test_error_about_invalid_input_lists_only_the_first_faults() -> None:
    """A thousand messages would fill the context, and the first are enough to begin with."""
    tool = move({"type": "object", "additionalProperties": {"type": "null"}})

    with pytest.raises(ToolError) as caught:
        check_input(tool, {f"key{at}": "x" * 5000 for at in range(1000)})

    assert len(str(caught.value)) < 12_000


class Counter:
    """A tool's body that is an object."""

    async def __call__(
        self, tool_call_id: str, params: object, cancel: CancelToken, on_update: ToolContext
    ) -> str:
        return "1"

    async def method(
        self, tool_call_id: str, params: object, cancel: CancelToken, on_update: ToolContext
    ) -> str:
        return "2"


def blocking(tool_call_id: str, params: object, cancel: CancelToken, on_update: ToolContext) -> str:
    return "3"


class Blocking:
    def __call__(
        self, tool_call_id: str, params: object, cancel: CancelToken, on_update: ToolContext
    ) -> str:
        return "4"


def named(name: str, execute: object = returns("ok")) -> Tool:
    return Tool(
        name=name,
        label="L",
        description="D",
        parameters={"type": "object"},
        execute=execute,  # type: ignore[arg-type]  # as an author without a type checker
    )


@each_row("name", ["", "t t", "é", "a.b", "t\n", "x" * 65])
def test_tool_name_the_api_would_refuse_is_refused_at_creation(name: str) -> None:
    """S0-16: the request would fail for all tools; here the error names the tool and the reason."""
    with pytest.raises(AgentCliError, match=r"a tool cannot be named '.*letters, digits, _ and -$"):
        named(name)


@each_row("name", ["t", "mcp__a-b__C_9", "x" * 64])
def test_tool_name_the_api_accepts_is_accepted(name: str) -> None:
    assert named(name).spec.name == name


@each_row("execute", [blocking, Blocking(), partial(blocking), None, "text"])
def test_execute_that_is_not_a_coroutine_function_is_refused_at_creation(execute: object) -> None:
    """S0-18: the first call of such a tool would block the whole program, and then fail."""
    with pytest.raises(AgentCliError, match=r"^execute of the tool 't' must be an async def$"):
        named("t", execute)


@each_row(
    ("field", "value", "sentence"),
    [
        ("name", 5, "name of the tool 5 must be str, not int"),
        ("label", None, "label of the tool 't' must be str, not NoneType"),
        ("description", b"d", "description of the tool 't' must be str, not bytes"),
        ("changes", "no", "changes of the tool 't' must be bool, not str"),
        ("timeout_s", "5", "timeout_s of the tool 't' must be a number from 0, not str"),
        ("timeout_s", -1, "timeout_s of the tool 't' must be a number from 0, not -1"),
        ("timeout_s", float("nan"), "timeout_s of the tool 't' must be a number from 0, not nan"),
        ("parallel_safe", None, "parallel_safe of the tool 't' must be bool or a function, not"),
        ("require_approval", True, "require_approval of the tool 't' must be Approval or a func"),
        ("attempt", "x", "attempt of the tool 't' must be a function or None, not str"),
        ("reads", ["a"], "reads of the tool 't' must be a function, not list"),
        ("summary", None, "summary of the tool 't' must be a function, not NoneType"),
        ("hosted", True, "hosted of the tool 't' must be Hosted or None, not bool"),
    ],
)
def test_field_of_another_type_is_refused_at_creation(
    field: str, value: object, sentence: str
) -> None:
    """A time limit of text left the run as a TypeError; others made every call fail, or ask."""
    # Any: an author without a type checker.
    wrong: dict[str, Any] = {field: value}

    with pytest.raises(AgentCliError) as refused:
        replace(named("t"), **wrong)

    assert str(refused.value).startswith(sentence)


class _Greeting(Tool):
    def __init__(self, word: str) -> None:
        async def greet(*_call: object) -> str:
            return word

        super().__init__(
            name="greet", label="Greet", description="Greet.", parameters=Move, execute=greet
        )


class _Counted(Tool):
    def __init__(self, **given: Any) -> None:  # Any: the fields of a tool
        super().__init__(**given)


class _Renamed(Tool):
    def __init__(self, suffix: str, **given: Any) -> None:  # Any: as above
        super().__init__(**{**given, "name": given["name"] + suffix})


def test_class_of_tools_that_cannot_be_copied_is_refused_at_creation() -> None:
    """Each call makes a copy with fixed paths: it ended in a TypeError."""
    plain = named("t")
    values = {each.name: getattr(plain, each.name) for each in fields(Tool)}

    with pytest.raises(
        AgentCliError, match=r"^_Greeting\.__init__ must take every field of .*Tool"
    ):
        _Greeting("hello")
    with pytest.raises(AgentCliError, match=r"by name and need nothing else, for copies"):
        _Renamed("_2", **values)

    assert replace(_Counted(**values), label="T").label == "T"


def test_only_a_tool_can_check_an_input() -> None:
    """A name in its place was an AttributeError."""
    with pytest.raises(AgentCliError, match=r"^tool must be Tool, not str$"):
        check_input("t", {})  # type: ignore[arg-type]  # as an author without a type checker


@each_row("parameters", [{}, {"type": "string"}, {"type": ["object"]}, int, 5, None])
def test_parameters_the_api_would_refuse_are_refused_at_creation(parameters: object) -> None:
    """S0-16: each request of the session failed, and the error did not name the tool."""
    with pytest.raises(AgentCliError, match=r"^parameters of the tool 't' must be a pydantic mo"):
        replace(named("t"), parameters=parameters)  # type: ignore[arg-type]


@each_row("execute", [returns("ok"), Counter(), Counter().method, partial(partial(returns("ok")))])
def test_execute_may_be_any_kind_of_coroutine_function(execute: object) -> None:
    assert named("t", execute).execute is execute
