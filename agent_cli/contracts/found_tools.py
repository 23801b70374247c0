"""Tools that the model gets during a conversation; how a result or a message refers to them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import ToolError
from agent_cli.contracts.messages import LlmMessage, Message, ToolResultMessage, UserMessage
from agent_cli.contracts.timeline import Block, Json
from agent_cli.contracts.tooling import Tool, ToolContext, ToolSpec

REFERENCE: Final = "tool_reference"
CALL_FOUND: Final = "call_found_tool"
"""The tool that calls found tools, for models that cannot be given tools in a conversation. The
provider translates its calls: nothing else sees them, unless their input is no JSON object."""
HOW_TO_CALL: Final = (
    "Give it an object with the name of a tool that was found or added, and its input."
)


def reference_to(spec: ToolSpec) -> Block:
    """Return a block that makes *spec* known to the model from its place on.

    It holds the definition: what the model has read must not change when the server does.
    """
    definition: Json = {"description": spec.description, "input_schema": spec.input_schema}
    return {"type": REFERENCE, "tool_name": spec.name, "definition": definition}


def reference_to_hosted(name: str) -> Block:
    """Return a block that makes the server's own tool *name* known; the server has its definition.

    See `tooling.Hosted`.
    """
    return {"type": REFERENCE, "tool_name": name}


def names_hosted(block: Mapping[str, Json]) -> bool:
    """Return whether *block* refers to a tool of the server's own."""
    return block["type"] == REFERENCE and "definition" not in block


def hosted_in(messages: Iterable[LlmMessage]) -> set[str]:
    """Return the names of the server's own tools to which results of *messages* refer."""
    results = (each for each in messages if isinstance(each, ToolResultMessage))
    blocks = (block for each in results for block in each.content)
    return {str(block["tool_name"]) for block in blocks if names_hosted(block)}


def definition_in(block: Mapping[str, Json]) -> Block | None:
    """Return the definition that a reference holds, as the API takes it; None for another block."""
    match block:
        case {"type": "tool_reference", "tool_name": str(name), "definition": dict(definition)}:
            return {"name": name, **definition}
        case _:
            return None


def change_of(name: str, *, there: bool) -> Block:
    """Return a block that offers the tool *name* again, declared or added, or withdraws it."""
    return {"type": REFERENCE, "tool_name": name, "there": there}


def changes_to_tell(
    tools: Iterable[Tool], context: Sequence[Message], named: Callable[[Sequence[Tool]], str]
) -> tuple[list[str], list[Block]]:
    """Return the news for a model of *tools* that went or came back: lines, and blocks for the API.

    Args:
        tools: The tools that are declared or added.
        context: The messages that the model has; a change that they hold is not told again.
        named: Returns the names of some tools as the model reads them.
    """
    gone = withdrawn_by(context)
    changed = [tool for tool in tools if tool.is_withdrawn != (tool.name in gone)]
    lines = [
        f"[agent-cli: these tools {what}: {named(alike)}]"
        for what, there in (("cannot be called for now", False), ("can be called again", True))
        if (alike := [tool for tool in changed if tool.is_withdrawn != there])
    ]
    return lines, [change_of(tool.name, there=not tool.is_withdrawn) for tool in changed]


def addition(names: str) -> str:
    """Return the line for a model that the tools of these *names* were added."""
    return f"[agent-cli: these tools can be called from now on: {names}]"


def change_in(block: Mapping[str, Json]) -> tuple[str, bool] | None:
    """Return the tool that `change_of` made *block* for, and whether it is there."""
    match block:
        case {"type": "tool_reference", "tool_name": str(name), "there": bool(there)}:
            return name, there
        case _:
            return None


def withdrawn_by(messages: Iterable[Message]) -> set[str]:
    """Return the names of the tools that *messages* in the user's role withdraw in the end.

    A summary that a server signed holds what the messages before it had withdrawn.
    """
    gone: set[str] = set()
    users = [message for message in messages if isinstance(message, UserMessage)]
    for message in users:
        if message.signed:
            gone.update(_withdrawn_in(message.signed.block))
    for block in (block for message in users for block in message.content):
        if change := change_in(block):
            gone = gone - {change[0]} if change[1] else {*gone, change[0]}
        elif definition := definition_in(block):
            gone.discard(str(definition["name"]))
    return gone


def _withdrawn_in(summary: Block) -> Iterator[str]:
    """Yield the names of the tools that a signed *summary* withdraws."""
    changes = summary.get("tool_changes")
    for change in changes if isinstance(changes, list) else ():
        match change:
            case {"type": "tool_removal", "tool": {"name": str(name)}}:
                yield name
            case _:
                pass


def added_by(messages: Iterable[Message]) -> dict[str, Block]:
    """Return name → definition of the tools that *messages* in the user's role add."""
    users = (message for message in messages if isinstance(message, UserMessage))
    found = (definition_in(block) for message in users for block in message.content)
    return {str(each["name"]): each for each in found if each}


def is_added(tool: Tool, added: Mapping[str, Block]) -> bool:
    """Return whether *added* holds *tool* by its present definition; see `added_by`."""
    return definition_in(reference_to(tool.spec)) == added.get(tool.name)


async def _refuse(_id: str, _params: object, _cancel: CancelToken, _context: ToolContext) -> str:
    raise ToolError(HOW_TO_CALL)


def no_more(definition: Block, label: str) -> Tool:
    """Return a withdrawn tool that stands for one whose *definition* alone is left."""
    schema = definition["input_schema"]
    return Tool(
        name=str(definition["name"]),
        label=label,
        description=str(definition["description"]),
        parameters=schema if isinstance(schema, dict) else {"type": "object"},
        execute=_refuse,
        is_deferred=True,
        is_withdrawn=True,
    )


ADDITIONS: Final = Tool(
    name=CALL_FOUND,
    label="Call an added tool",
    description="",
    parameters={
        "type": "object",
        "properties": {"name": {"type": "string"}},
        "required": ["name"],
    },
    execute=_refuse,
    changes=False,
)
"""Announces in the tools of a request that messages may add some: the provider declares what that
takes."""
