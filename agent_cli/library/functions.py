"""Make a tool of a Python function: its signature is the schema, its docstring the description."""

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, get_origin, get_type_hints, is_typeddict, overload

from pydantic import BaseModel, ConfigDict, create_model
from pydantic.errors import PydanticUserError

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import AgentCliError
from agent_cli.contracts.options import is_async
from agent_cli.contracts.tooling import Tool, ToolContext, ToolResult

# Any parameters: the model's input is validated against the signature before each call.
ToolFunction: TypeAlias = Callable[..., Awaitable[ToolResult | str]]


@overload
def tool(function: ToolFunction, /) -> Tool: ...


@overload
def tool(
    *, name: str = "", changes: bool = True, timeout_s: float | None = None
) -> Callable[[ToolFunction], Tool]: ...


def tool(
    function: ToolFunction | None = None,
    /,
    *,
    name: str = "",
    changes: bool = True,
    timeout_s: float | None = None,
) -> Tool | Callable[[ToolFunction], Tool]:
    """Make a tool of an `async def`: `@tool`, or `@tool(changes=False)`.

    The model reads the docstring; `Annotated[int, Field(description="...")]` describes a parameter.
    A parameter of type `CancelToken` or `ToolContext` is the call's own and not the model's.

    Args:
        function: Returns a text or a `ToolResult`; raises `ToolError` to tell the model what to do.
        name: The name for the model; "" is the function's.
        changes: False for a tool that only reads: it runs without approval, and in plan mode.
        timeout_s: Seconds it may take; None uses the run's limit, 0 sets no limit.

    Raises:
        AgentCliError: The function is no `async def` or has no docstring, a parameter has no type,
            or the return type is neither a text nor a `ToolResult`.
    """

    def made(decorated: ToolFunction) -> Tool:
        # Since Python 3.14 a functools.partial is a routine, too.
        if not (inspect.isroutine(decorated) and hasattr(decorated, "__name__")):
            kind = type(decorated).__name__
            raise AgentCliError(f"what tool() makes a tool of must be a function, not {kind}")
        return _tool_of(decorated, name or decorated.__name__, changes=changes, timeout_s=timeout_s)

    return made if function is None else made(function)


def _tool_of(function: ToolFunction, name: str, *, changes: bool, timeout_s: float | None) -> Tool:
    if not is_async(function):
        raise AgentCliError(f"tool {name}: it must be an async def")
    description = inspect.getdoc(function)
    if not description:
        raise AgentCliError(f"tool {name}: write a docstring, which the model reads")
    own, parameters = _parameters(function, name)

    async def execute(
        _id: str, params: BaseModel, cancel: CancelToken, on_update: ToolContext
    ) -> ToolResult | str:
        values = {each: getattr(params, each) for each in type(params).model_fields}
        calls = {CancelToken: cancel, ToolContext: on_update}
        return await function(**values, **{each: calls[kind] for each, kind in own.items()})

    execute.__module__ = function.__module__  # messages say where a tool is defined
    return Tool(
        name=name,
        label=name,
        description=description,
        parameters=parameters,
        execute=execute,
        changes=changes,
        timeout_s=timeout_s,
    )


def _parameters(function: ToolFunction, name: str) -> tuple[dict[str, type], type[BaseModel]]:
    """Return the parameters that the call itself fills, by name, and a model of all others."""
    try:
        hints = get_type_hints(function, include_extras=True)
    except NameError as error:
        raise AgentCliError(
            f"tool {name}: a type in its signature is not known here: {error}"
        ) from error
    if _is_no_result(returned := hints.get("return", str)):
        raise AgentCliError(
            f"tool {name}: it must return str or ToolResult, not {returned.__name__}"
        )
    own: dict[str, type] = {}
    # Any: pydantic's own form of a field, the type and the default.
    asked: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        kind = hints.get(parameter.name)
        if kind is None or parameter.kind not in _BY_NAME or parameter.name.startswith("_"):
            raise AgentCliError(
                f"tool {name}: parameter {parameter.name} needs a type, and a name without _ or *"
            )
        if kind in (CancelToken, ToolContext):
            own[parameter.name] = kind
        else:
            default = ... if parameter.default is parameter.empty else parameter.default
            asked[parameter.name] = (kind, default)
    try:
        return own, create_model(name, __config__=ConfigDict(extra="forbid"), **asked)
    except (PydanticUserError, NameError, ValueError) as error:
        raise AgentCliError(f"tool {name}: {error}") from error


def _is_no_result(hint: object) -> bool:
    """Return whether no value of the type *hint*, such as `int` or `None`, is a result."""
    if is_typeddict(hint) or get_origin(hint) in (list, dict, tuple, set):
        return True
    is_other = get_origin(hint) is not None or hint == Any or getattr(hint, "_is_protocol", False)
    if is_other or not isinstance(hint, type):
        return False
    results: tuple[type, ...] = (str, ToolResult)
    return not (issubclass(hint, results) or any(issubclass(each, hint) for each in results))


_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
