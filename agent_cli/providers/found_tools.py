"""Send tools that a conversation has gained, without a change to earlier messages; pure.

Tools stand before all messages in what a server caches: adding one to them would make every later
request pay for the whole conversation again. The Messages API got three features against that, one
after the other, and a server may lack any of them:

* tool references: a definition with `defer_loading` stays out of the prompt until a
  `tool_reference` in the result of a search loads it;
* tool changes: a `tool_removal` in a system message withdraws a tool, and a `tool_addition` with a
  `tool_reference` offers it again;
* inline tools: a `tool_addition` with a `tool_definition` adds a tool that no search found.

Elsewhere the result or message holds the definition as text, and one tool that never changes calls
it.

Source: https://platform.claude.com/docs/en/agents-and-tools/tool-use/tool-search-tool and
https://platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages
"""

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final, cast

from agent_cli.contracts.found_tools import CALL_FOUND, REFERENCE, change_in, definition_in
from agent_cli.contracts.timeline import Block, Json, text_block
from agent_cli.contracts.tooling import ToolSpec
from agent_cli.providers.encoding import whole_input
from agent_cli.system.shapes import objects_in

# The first deferred tool adds a preamble to the beginning of the prompt; so there always is one.
_PLACEHOLDER: Final[Block] = {
    "name": "placeholder_of_found_tools",
    "description": "Not for use.",
    "input_schema": {"type": "object", "properties": {}},
    "defer_loading": True,
}
_CALLER: Final[Block] = {
    "name": CALL_FOUND,
    "description": "Call a tool that a search for tools has found, or that was added.",
    "input_schema": {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "Its name"},
            "input": {"type": "object", "description": "Its input, as its schema says"},
        },
        "required": ["name", "input"],
    },
}
_INTRODUCTION: Final = f"Call these with {CALL_FOUND}:"
# Models may stop where a prompt ends with definitions: they look like its beginning.
_END: Final = text_block("The tools are loaded.")
_LEFT_OUT: Final = text_block("The API refused these tools; do without them.")


def with_found(
    messages: Sequence[Block],
    tools: Sequence[ToolSpec],
    earlier: Sequence[Block] = (),
    *,
    tool_references: bool,
    tool_changes: bool = False,
    inline_tools: bool = False,
) -> tuple[list[Block], list[Block]]:
    """Return the messages and the definitions of *tools* to send.

    Args:
        messages: As `core.api_messages.to_api` returns them.
        tools: The tools of the request, found and added ones among them.
        earlier: Those before *messages* that refer to tools. Then none of *messages* does, and none
            of these is returned.
        tool_references: Whether the API has this feature; the module's docstring explains all.
        tool_changes: The same for this one; it is sent only if the API has the other two.
        inline_tools: The same for this one; it is sent only if the API has tool references.
    """
    eager = [
        _definition(tool) for tool in tools if not tool.is_deferred and tool.name != CALL_FOUND
    ]
    may_find = any(tool.name == CALL_FOUND or tool.finds_tools for tool in tools)
    # Most conversations; the passes below walk through each whole one, for every request.
    referring = [*earlier, *filter(refers, messages)]
    if not (may_find or referring):
        return [*messages], eager
    names = {str(tool["name"]) for tool in eager}
    found = {str(each["name"]): each for each in _found(referring)}
    added = {str(each["name"]) for message in referring for each in _added(message)}
    changes = tool_changes and any(_changes(message, names) for message in referring)
    awaits = changes or bool(added) or any(tool.name == CALL_FOUND for tool in tools)
    if not (found or awaits or any(tool.finds_tools for tool in tools)):
        return list(map(_without_changes, messages)), eager
    added -= names
    # A request in which every tool is deferred is refused.
    if tool_references and eager and (inline_tools or not awaits):
        deferred: list[Block] = [
            {**each, "defer_loading": True} for name, each in found.items() if name not in names
        ]
        sent: list[Block] = []
        known = {*names}
        for each in messages:
            declared = known if tool_changes else ()
            sent += _with_additions(_with_references(each), added, declared=declared)
            known |= {str(new["name"]) for new in _added(each)}
        return sent, [*eager, _PLACEHOLDER, *deferred]
    declared = {*names, CALL_FOUND}
    return [_with_texts(each, added, declared) for each in messages], [*eager, _CALLER]


def without_references(message: Block, names: Collection[str]) -> Block:
    """Return *message* without references to *names*: they would have no definition."""

    def kept(result: Block) -> Block:
        content = [each for each in _blocks(result) if each.get("tool_name") not in names]
        return {**result, "content": [*(content or [_LEFT_OUT])]}

    return _with_results(message, kept)


def true_call(block: Block) -> Block:
    """Return a call of `CALL_FOUND` as a call of the tool that it names, any other block as is."""
    match block:
        case {"type": "tool_use", "name": str(name), "input": {"name": str(found), **rest}} if (
            name == CALL_FOUND
        ):
            return {**block, "name": found, "input": whole_input(cast("Json", rest.get("input")))}
        case _:
            return block


def refers(message: Block) -> bool:
    """Return whether *message*, or a result in it, refers to a tool."""
    content = message["content"]
    for block in content if isinstance(content, list) else ():
        if not isinstance(block, dict):
            continue
        if block["type"] == REFERENCE:
            return True
        inner = block.get("content") if block["type"] == "tool_result" else None
        if isinstance(inner, list) and any(each["type"] == REFERENCE for each in _blocks(block)):
            return True
    return False


def _definition(tool: ToolSpec) -> Block:
    return {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema}


def _found(messages: Sequence[Block]) -> Iterator[Block]:
    for message in messages:
        for block in _blocks(message):
            if block["type"] == "tool_result":
                yield from _definitions_in(block)


def _definitions_in(holder: Block) -> list[Block]:
    return [each for inner in _blocks(holder) if (each := definition_in(inner))]


def _with_references(message: Block) -> Block:
    """Return *message* with references as the API takes them: alone in their result."""

    def bare(result: Block) -> Block:
        named: list[Json] = [
            {"type": REFERENCE, "tool_name": each["tool_name"]}
            for each in _blocks(result)
            if each["type"] == REFERENCE
        ]
        return {**result, "content": named} if named else result

    changed = _with_results(message, bare)
    if changed is message:
        return message
    content = _blocks(changed)
    behind = max(at for at, each in enumerate(content) if each["type"] == "tool_result") + 1
    return {**changed, "content": [*content[:behind], _END, *content[behind:]]}


def _with_texts(message: Block, added: Collection[str], declared: Collection[str]) -> Block:
    """Return *message* with definitions as text, and calls of undeclared tools as calls of one.

    What was found later must not decide it: a model may call a tool that it only knows by name.
    """

    def as_text(result: Block) -> Block:
        definitions = _definitions_in(result)
        return {**result, "content": [_as_text(definitions)]} if definitions else result

    if message["role"] == "user":
        return _with_results(_added_as_text(message, added), as_text)
    content: list[Json] = [
        {**each, "name": CALL_FOUND, "input": {"name": each["name"], "input": each.get("input")}}
        if each["type"] == "tool_use" and each["name"] not in declared
        else each
        for each in _blocks(message)
    ]
    return {**message, "content": content}


def _added(message: Block) -> list[Block]:
    """Return the definitions of the tools that *message* itself adds."""
    return _definitions_in(message) if message["role"] == "user" else []


def _changes(message: Block, declared: Collection[str]) -> list[tuple[str, bool]]:
    """Return which tools *message* withdraws and offers again, of those *declared* so far."""
    found = filter(None, map(change_in, _blocks(message) if message["role"] == "user" else ()))
    return [(name, there) for name, there in found if name in declared]


def _without_references(message: Block) -> list[Block]:
    return [each for each in _blocks(message) if each["type"] != REFERENCE]


def _without_changes(message: Block) -> Block:
    """Return *message* without references of its own; the text beside them says the same."""
    kept = _without_references(message) if message["role"] == "user" else _blocks(message)
    return message if len(kept) == len(_blocks(message)) else {**message, "content": [*kept]}


def _with_additions(
    message: Block, names: Collection[str], *, declared: Collection[str]
) -> list[Block]:
    """Return *message*, followed by a system message that adds its tools with the given *names*.

    The system message also withdraws *declared* tools and offers them again. The API takes it only
    behind the last message of a user's turn.
    """
    definitions = _added(message)
    rest = _without_changes(message)
    changed: list[Json] = [
        {
            "type": "tool_addition" if there else "tool_removal",
            "tool": {"type": "tool_reference", "name": name},
        }
        for name, there in _changes(message, declared)
    ]
    defined: list[Json] = [
        {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": each}}
        for each in definitions
        if each["name"] in names
    ]
    additions = [*changed, *defined]
    return [rest, {"role": "system", "content": additions}] if additions else [rest]


def _added_as_text(message: Block, names: Collection[str]) -> Block:
    definitions = _added(message)
    content: list[Json] = [*_without_references(message)]
    if len(content) == len(_blocks(message)):
        return message
    if added := [each for each in definitions if each["name"] in names]:
        content.append(_as_text(added))
    return {**message, "content": content}


def _as_text(definitions: Sequence[Block]) -> Block:
    lines = [json.dumps(each, ensure_ascii=False) for each in definitions]
    return text_block("\n".join([_INTRODUCTION, *lines]))


def _with_results(message: Block, change: Callable[[Block], Block]) -> Block:
    """Return *message* with its tool results changed; the same object if none was."""
    before = _blocks(message)
    after: list[Json] = [change(each) if each["type"] == "tool_result" else each for each in before]
    same = all(one is other for one, other in zip(before, after, strict=True))
    return message if same else {**message, "content": after}


def _blocks(holder: Block) -> list[Block]:
    return objects_in(holder["content"])
