"""Report the cost of a change to the cached prefix, once for each change."""

from collections.abc import Callable
from dataclasses import replace

from agent_cli.contracts.provider import Model
from agent_cli.contracts.timeline import Block, Json
from agent_cli.contracts.tooling import Tool
from agent_cli.plugins.api import Plugin, PluginContext
from tests.fakes import calls, returns, says, tool, tool_use
from tests.plugins.contributing import Contributing

LONG = "x" * 40_000


def in_turn(*rounds: Callable[[PluginContext], None]) -> Plugin:
    """Return a plugin with a different effect in each round; the last one repeats."""
    left = list(rounds)

    def prepare(ctx: PluginContext) -> None:
        (left.pop(0) if len(left) > 1 else left[0])(ctx)

    return Plugin(name="p", prepare=prepare)


def nothing(_ctx: PluginContext) -> None:
    pass


def offers(*tools: Tool) -> Callable[[PluginContext], None]:
    return lambda ctx: ctx.tools.extend(tools)


def tells(text: str) -> Callable[[PluginContext], None]:
    return lambda ctx: ctx.add_context(text)


async def test_change_of_tools_is_reported_once_with_its_cost() -> None:
    """C10: everything after the tools is reread; 40,000 characters are 10,000 tokens."""
    look, grep = (tool(name, returns("")) for name in ("look", "grep"))
    run = Contributing(
        [in_turn(nothing, offers(look, grep), offers(look, grep), offers(grep))],
        *map(says, ("one", "two", "three", "four")),
    )
    await run.prompt(LONG)
    assert run.notices() == []
    await run.prompt()
    await run.prompt()
    assert len(run.notices()) == 1
    await run.prompt()

    assert run.notices() == [
        "the tools changed (+grep, +look): about 10,025 tokens not read from the cache ($0.0251)",
        "the tools changed (-look): about 10,018 tokens not read from the cache ($0.0251)",
    ]


async def test_changed_tool_definition_is_reported() -> None:
    """The model sees a description; tools are cached for an hour, at twice the input's price."""
    look = tool("look", returns(""))
    other = replace(look, description=LONG)
    run = Contributing([in_turn(offers(look), offers(other))], says("one"), says("two"))
    await run.prompt()
    await run.prompt()

    assert run.notices() == [
        "the tools changed (their order or definitions): about 10,013 tokens not read from the"
        " cache ($0.0401)"
    ]


async def test_changed_plugin_context_costs_only_the_tokens_after_it() -> None:
    """C10: tools, the stable block and unchanged context before it stay cached, not counted."""
    huge = tool("huge", returns(""))
    run = Contributing(
        [Plugin(name="first", prepare=tells(LONG)), in_turn(tells("a"), tells("b" * 4_000))],
        says("one"),
        says("two"),
        tools=[replace(huge, description=LONG)],
    )
    await run.prompt()
    await run.prompt()

    assert run.notices() == [
        "the context of plugins changed: about 1,001 tokens not read from the cache ($0.0025)"
    ]


async def test_changed_system_prompt_is_reported() -> None:
    """C10: a new stable block is the most expensive change."""
    run = Contributing([], says("one"), says("two"))
    await run.prompt()
    run.agent.set_system_prompt(LONG)
    await run.prompt()

    assert run.notices() == [
        "the system prompt changed: about 10,001 tokens not read from the cache ($0.04)"
    ]


async def test_change_for_a_model_without_a_price_is_reported_in_tokens_only() -> None:
    """An unknown model has no price, and none is invented."""
    plugin = in_turn(tells("a"), tells("b"))
    run = Contributing([plugin], says("one"), says("two"), price=lambda _id, _usage: None)
    await run.prompt()
    await run.prompt()

    assert run.notices() == [
        "the context of plugins changed: about 1 tokens not read from the cache"
    ]


async def test_new_conversation_or_model_causes_no_report() -> None:
    """Content that was never cached costs nothing extra."""
    run = Contributing(
        [in_turn(tells("a"), tells("b"), tells("c"))], says("one"), says("two"), says("three")
    )
    await run.prompt()
    run.agent.reset()
    await run.prompt()
    run.agent.set_model(Model("other-model", api="scripted"))
    await run.prompt()

    assert run.notices() == []


async def test_unchanged_prefix_is_not_reported() -> None:
    """Rounds with tools, and equal tools created again each time."""
    run = Contributing(
        [Plugin(name="p", prepare=lambda ctx: ctx.add_tool(tool("look", returns("a tree"))))],
        calls(tool_use("look")),
        says("done"),
    )
    await run.prompt()

    assert run.notices() == []


async def test_image_in_the_prefix_counts_as_an_image_and_not_as_text() -> None:
    """Counted as text, this image would be half a million tokens."""
    data: Json = {"type": "base64", "media_type": "image/png", "data": "A" * 2_000_000}
    picture: Block = {"type": "image", "source": data}
    look = tool("look", returns(""))
    run = Contributing([in_turn(nothing, offers(look))], says("one"), says("two"))
    await run.prompt("what is this?", [picture])
    await run.prompt()

    assert run.notices() == [
        "the tools changed (+look): about 1,618 tokens not read from the cache ($0.0041)"
    ]
