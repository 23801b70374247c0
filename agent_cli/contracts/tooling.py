"""Types of a tool: its definition, call context and result. Knows no tool and no model.

A tool is a value, not a class to inherit from:

    class Add(BaseModel):
        a: int
        b: int

    async def add(call_id: str, params: Add, cancel: CancelToken, on_update: ToolContext) -> str:
        return str(params.a + params.b)

    Tool(name="add", label="Add", description="Add two numbers", parameters=Add, execute=add)
"""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import AgentCliError, ToolError
from agent_cli.contracts.late_models import BaseModel, ConfigDict, check_schema, input_schema
from agent_cli.contracts.options import (
    Function,
    is_async,
    require,
    require_fields,
    require_number,
)
from agent_cli.contracts.timeline import Block, FileOutput, Json, WidgetOutput, text_block, text_of
from agent_cli.contracts.wording import MOVED
from agent_cli.system.loading import late_pattern
from agent_cli.system.records import dataclass, field

if TYPE_CHECKING:
    from pydantic.config import JsonDict

# Ends an error about invalid input, for the model; front ends leave it out.
CALL_AGAIN: Final = " Correct it and call again."
INVALID_JSON: Final = "INVALID_JSON"
"""The only key of an input that was no JSON object; its value is the text as the model wrote it."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool: `content` (text and images) for the model, `details` for the screen.

    Attributes:
        full_chars: Characters of the whole text, where the text in `content` is an excerpt of it.
        is_denied: A rule, a hook or the permission mode forbade the call, so it did not run.
    """

    content: tuple[Block, ...]
    details: Json = None
    is_error: bool = False
    full_chars: int | None = None
    is_denied: bool = False

    @classmethod
    def of(cls, text: str, details: Json = None) -> "ToolResult":
        """Return a result of one text block."""
        return cls((text_block(text),), details)

    @classmethod
    def error(cls, text: str, details: Json = None) -> "ToolResult":
        """Return an error result: one plain sentence, then what to do next."""
        return cls((text_block(text),), details, is_error=True)

    @property
    def text(self) -> str:
        """The text blocks, joined."""
        return text_of(self.content)


@dataclass(frozen=True, slots=True)
class Approval:
    """A tool's answer whether a call needs approval, with the sentence for the person."""

    required: bool
    reason: str = ""


def _holds() -> bool:
    """Return True: nothing changes this verdict."""
    return True


@dataclass(frozen=True, slots=True)
class Allow:
    """The call may run, with *input* in place of the model's if given.

    Attributes:
        holds: Asked right before the call runs, which may be much later; if it returns False, the
            call is checked again.
    """

    input: Json = None
    holds: Callable[[], bool] = field(default=_holds, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Deny:
    """The call may not run; the model reads *reason*."""

    reason: str


@dataclass(frozen=True, slots=True)
class Ask:
    """A person must decide; that person reads *reason*. The run pauses.

    Attributes:
        input: The input to show and run in place of the model's; None keeps the model's.
        by_mode: Only the permission mode asks; no rule and no effect of the call does.
        may_read: The model may read the files of the call without approval, so the tool may tell
            it before the question that the call can only fail.
        attempt_failed: If given, `Tool.attempt` comes before the person. If that has no result,
            this is called, and the call is checked again.
        holds: As in `Allow`, for a call that a person has approved.
    """

    reason: str
    input: Json = None
    by_mode: bool = False
    may_read: bool = False
    attempt_failed: Callable[[], None] | None = field(default=None, compare=False, repr=False)
    holds: Callable[[], bool] = field(default=_holds, compare=False, repr=False)


Verdict: TypeAlias = Allow | Deny | Ask
WEB_SEARCH_TOOL: Final = "web_search"
WEB_FETCH_TOOL: Final = "web_fetch"
RECALL_TOOL: Final = "recall"  # Settings may take it away; then nothing refers to it.


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosted:
    """A tool that the API's server runs itself; no rule, hook or question can stop a single call.

    Attributes:
        is_open: It is there from the first request. Otherwise the model calls the tool here first,
            and its result refers to the server's (`found_tools.reference_to_hosted`).
        falls_back: The tool here does the same, where the server has none.
        uses_max: Calls in one request.
        domains: The only ones it may reach; empty for all.
        blocked: Domains that it may not reach.
    """

    is_open: bool = False
    falls_back: bool = False
    uses_max: int = 5
    domains: tuple[str, ...] = ()
    blocked: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """The definition of a tool as sent to the model: name, description and JSON schema.

    `finds_tools`, `is_deferred` and `hosted` are those of the `Tool`.
    """

    name: str
    description: str
    input_schema: dict[str, Json]
    finds_tools: bool = False
    is_deferred: bool = False
    hosted: Hosted | None = None


def _no_update(_partial: ToolResult) -> None:
    """Discard a streaming update."""


def _no_output(_output: FileOutput | WidgetOutput) -> None:
    """Discard a side output."""


@dataclass(frozen=True, slots=True)
class ToolContext:
    """A call's connection to the run. Calling it streams an update: `on_update("12 of 40 files")`.

    `state` is shared between tools and plugins and is persisted; a write to a key that a concurrent
    call has changed since it was read raises `ToolError`. `services` are the objects the program
    registered. `add_output` records a file or widget right behind the call's own entry and assigns
    an id where it has none. `is_approved` says that a person approved this very call. `paths` are
    the paths that the tool declared when it was decided whether the call may run; None outside a
    run.
    """

    tool_call_id: str = ""
    tool_name: str = ""
    user_id: str = "local"
    state: MutableMapping[str, Json] = field(default_factory=dict[str, Json])
    services: Mapping[str, object] = field(default_factory=dict[str, object])
    update: Callable[[ToolResult], None] = _no_update
    add_output: Callable[[FileOutput | WidgetOutput], None] = _no_output
    is_approved: bool = False
    paths: Sequence[str] | None = None

    def __call__(self, partial: ToolResult | str) -> None:
        """Show *partial* while the tool runs; it never reaches the model or the record."""
        self.update(ToolResult.of(partial) if isinstance(partial, str) else partial)

    def require_decided(self, path: str) -> None:
        """Refuse to use the real *path* unless the call was permitted to.

        Raises:
            ToolError: A symlink has changed since the decision.
        """
        if self.paths is not None and path not in self.paths:
            raise ToolError(MOVED)

    def display_widget(self, widget: str, data: Json, fallback: str) -> None:
        """Show something to the user, right behind this call; the model never sees it.

        Args:
            widget: What to draw. The terminal knows "table", "progress" and "diff".
            data: For a table {"columns": [...], "rows": [[...], ...]}; for progress {"label",
                "done", "total"}, with None for an unknown total; for a diff {"diff": unified diff}.
            fallback: The text shown for any other widget or shape, and where widgets are not drawn.
        """
        self.add_output(WidgetOutput("", 0, self.tool_call_id, widget, data, fallback))

    def add_file_output(self, path: str, media_type: str, summary: str) -> None:
        """Hand a file to the user; the model reads *summary* at the end of the call's result."""
        self.add_output(FileOutput("", 0, self.tool_call_id, path, media_type, summary))


# The second argument has the type of `parameters` (an instance of it, or a dict for a JSON schema);
# a type variable here would make every list of tools generic for no gain.
Execute: TypeAlias = Callable[[str, Any, CancelToken, ToolContext], Awaitable[ToolResult | str]]
FileContents: TypeAlias = MutableMapping[str, bytes]
"""Files as the earlier calls of a reply will leave them, by real path."""
Foresee: TypeAlias = Callable[[Any, ToolContext, FileContents], Awaitable[None]]
Attempt: TypeAlias = Callable[[str, Any, CancelToken, ToolContext], Awaitable[ToolResult | None]]
RequireApproval: TypeAlias = Approval | Callable[[Any], Approval | Awaitable[Approval]]


_NAME: Final = late_pattern(r"[a-zA-Z0-9_-]{1,64}")
_FLAGS: Final = ("takes_slot", "changes", "destroys", "asks_person", "finds_tools", "is_deferred")
_OF_A_CALL: Final = ("doubt", "reads", "writes", "subject", "remembered", "summary")
_KINDS: Final[Mapping[str, tuple[type, ...]]] = {
    **dict.fromkeys(("name", "label", "description"), (str,)),
    **dict.fromkeys((*_FLAGS, "is_withdrawn"), (bool,)),
    **dict.fromkeys(_OF_A_CALL, (Function,)),
    **dict.fromkeys(("attempt", "foresee"), (Function, type(None))),
    "parallel_safe": (bool, Function),
    "require_approval": (Approval, Function, type(None)),
    "hosted": (Hosted, type(None)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool: its definition for the model, its label for the screen, and its function.

    Attributes:
        name: 1 to 64 ASCII letters, digits, "_" and "-", unique in a run.
        label: For people.
        parameters: A pydantic model, or a JSON schema of type "object".
        execute: `(tool_call_id, params, cancel, on_update)`, an `async def`; a str is a text
            result; raise `ToolError` to tell the model what to do instead.
        attempt: Like `execute`, but without any lasting effect; returns None where the call needs
            one. The policy says which calls may be attempted unasked (`Ask.attempt_failed`).
        parallel_safe: False makes the call run alone, never beside another; or a function that
            returns it for the input of a call.
        takes_slot: False for a tool that waits for agents, jobs or people: it leaves the slots of
            its reply (`concurrency`) to other calls, and its paths order nothing.
        changes: False for a tool that only reads; plan mode offers only these.
        destroys: Its server says that it may destroy something: no model decides about a call.
        doubt: Returns why a call needs approval although the tool only reads: one clause for the
            person, or "".
        asks_person: True for a tool that is a question to the person and has no effect of its own:
            if the program ends before the answer, the question waits for the next session.
        timeout_s: Seconds this tool may take; None uses the run's limit, 0 sets no limit.
        require_approval: Called after validation, before the call; raising counts as "required".
        foresee: Called before a person is asked: raises `ToolError` if the call can only fail, and
            keeps the content that it would leave in the mapping. It changes nothing.
        reads: Returns the paths it reads, absolute; it runs after earlier calls that write them.
        writes: Returns the paths it writes, absolute; it runs after earlier calls that use them.
        finds_tools: True for a tool whose results refer to others (`found_tools.reference_to`).
        is_deferred: No request declares it; the model knows it from such a result or a message.
        hosted: The server's own tool of this name, which may take its place.
        is_withdrawn: Requests still declare it, to keep the cache, but it cannot be called.
        subject: Returns the part of a call, "GROUP:DETAIL", that the text of a permission rule is
            compared with, for a tool without paths; "" for none.
        remembered: Returns the text of the rule that "always" adds for a call with a subject.
        summary: Returns a call in a few words for the screen, e.g. the path or the command.

    Raises:
        AgentCliError: The API would refuse name or parameters, `execute` is no `async def`, or a
            field has another type.
    """

    name: str
    label: str
    description: str
    parameters: type[BaseModel] | dict[str, Json]
    execute: Execute
    attempt: Attempt | None = None
    parallel_safe: bool | Callable[[Any], bool] = True
    takes_slot: bool = True
    changes: bool = True
    destroys: bool = False
    doubt: Callable[[Any], str] = lambda _params: ""
    asks_person: bool = False
    finds_tools: bool = False
    is_deferred: bool = False
    hosted: Hosted | None = None
    is_withdrawn: bool = False
    timeout_s: float | None = None
    require_approval: RequireApproval | None = None
    foresee: Foresee | None = None
    reads: Callable[[Any], Sequence[str]] = lambda _params: ()
    writes: Callable[[Any], Sequence[str]] = lambda _params: ()
    subject: Callable[[Any], str] = lambda _params: ""
    remembered: Callable[[Any], str] = lambda _params: ""
    summary: Callable[[Any], str] = lambda _params: ""

    def __post_init__(self) -> None:
        for name, kinds in _KINDS.items():
            require(getattr(self, name), *kinds, what=f"{name} of the tool {self.name!r}")
        if self.timeout_s is not None:
            require_number(self.timeout_s, what=f"timeout_s of the tool {self.name!r}")
        if not _NAME.fullmatch(self.name):
            raise AgentCliError(
                f"a tool cannot be named {self.name!r}: use 1 to 64 ASCII letters, digits, _ and -"
            )
        if type(self) is not Tool:
            require_fields(type(self), Tool)
        if not is_async(self.execute):
            raise AgentCliError(f"execute of the tool {self.name!r} must be an async def")
        check_schema(self.name, self.parameters)

    @property
    def spec(self) -> ToolSpec:
        """The part of the tool that the model sees."""
        shown = (self.name, self.description, input_schema(self.parameters))
        return ToolSpec(*shown, self.finds_tools, self.is_deferred, self.hosted)


def check_input(tool: Tool, arguments: Json) -> Any:  # Any: an instance of Tool.parameters
    """Validate *arguments* and return them as the tool's `execute` expects.

    Raises:
        ToolError: They are not valid; the text names each fault with its path, for the model.
        AgentCliError: *tool* is no tool.
    """
    require(tool, Tool, what="tool")
    if isinstance(arguments, Mapping) and list(arguments) == [INVALID_JSON]:
        from agent_cli.contracts.input_faults import json_fault

        # Never to the tool: many schemas allow any key, and the tool would run with its defaults.
        raise ToolError(
            f"Not run: the input of {tool.name} is not a JSON object"
            f" ({json_fault(arguments[INVALID_JSON])}). Call again with the whole input."
        )
    arguments = deepcopy(arguments)  # plain: the record is frozen, and a tool may change it
    if isinstance(tool.parameters, dict):
        # jsonschema costs 40 ms, and a tool with pydantic parameters needs none of it.
        from agent_cli.contracts.schema_check import UncheckableSchema, schema_faults

        try:
            faults = schema_faults(tool.parameters, arguments)
        except UncheckableSchema as error:
            raise ToolError(
                f"{tool.name} cannot be called: {error}. Go on without it, and tell the user."
            ) from error
    else:
        from pydantic import ValidationError

        try:
            return tool.parameters.model_validate(arguments)
        except ValidationError as error:
            from agent_cli.contracts.input_faults import faults_of_call

            faults = [*faults_of_call(error, input_schema(tool.parameters))]
    if faults:
        from agent_cli.contracts.input_faults import without_nulls

        if (fewer := without_nulls(arguments, input_schema(tool.parameters))) != arguments:
            return check_input(tool, fewer)
        raise ToolError(f"Invalid input for {tool.name}: {'; '.join(faults)}.{CALL_AGAIN}")
    return arguments


def without_docstring(schema: "JsonDict") -> None:
    """Remove the class docstring from a schema: it is for readers of the code and costs tokens."""
    schema.pop("description", None)


class Parameters(BaseModel):
    """Parameters given by the model; an unknown name is an error that the model reads."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=without_docstring)
