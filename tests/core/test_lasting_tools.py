"""Tools that come and go during a conversation change no earlier byte of its requests."""

from dataclasses import replace
from itertools import pairwise

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.found_tools import CALL_FOUND, added_by, withdrawn_by
from agent_cli.contracts.messages import ToolResultMessage
from agent_cli.contracts.provider import Reply
from agent_cli.contracts.tooling import Tool, ToolContext, ToolResult
from agent_cli.core.agent import Agent
from agent_cli.core.lasting_tools import LastingTools
from agent_cli.core.loop_config import LoopConfig
from agent_cli.core.turn import Turn
from tests.fakes import MODEL, ScriptedModel, calls, says, tool, tool_use
from tests.tables import each_row


class Source:
    """A `prepare` contributor with tools that a test changes."""

    def __init__(self, *tools: Tool, may_change: bool = True) -> None:
        self.tools = [*tools]
        self.refused: set[str] = set()
        self._lasting, self._may_change = LastingTools(), may_change

    def __call__(self, turn: Turn) -> None:
        turn.tools += self._lasting.offered(
            turn, self.tools, may_change=self._may_change, refused=self.refused
        )


def agent_with(source: Source, *script: Reply) -> tuple[Agent, ScriptedModel]:
    """Return an agent whose tools are those of *source*, and its model."""
    model = ScriptedModel(*script)
    return Agent(LoopConfig(model=MODEL, stream_fn=model, prepare=(source,))), model


def named(name: str) -> Tool:
    """Return a tool that answers with its name."""

    async def execute(
        _id: str, _params: object, _cancel: CancelToken, _context: ToolContext
    ) -> ToolResult:
        return ToolResult.of(f"{name} ran")

    return tool(name, execute)


def declared(model: ScriptedModel) -> list[list[str]]:
    """Return the names that stand before the messages of each request."""
    return [
        [each.name for each in request.tools if not each.is_deferred] for request in model.requests
    ]


def results(agent: Agent) -> list[str]:
    """Return the texts of all results, in order."""
    return [
        each.text for each in agent.conversation.context() if isinstance(each, ToolResultMessage)
    ]


async def test_tool_that_comes_later_is_added_by_a_message_and_can_be_called() -> None:
    source = Source(named("one"))
    script = says("Hi."), calls(tool_use("two")), says("Done.")
    agent, model = agent_with(source, *script)

    await agent.prompt("go")
    source.tools.append(named("two"))
    await agent.prompt("and now")

    assert declared(model) == [["one", CALL_FOUND]] * 3
    assert [*added_by(model.requests[1].messages)] == ["two"]
    assert model.requests[2].messages[: len(model.requests[1].messages)] == (
        model.requests[1].messages
    )
    assert results(agent) == ["two ran"]


async def test_tool_that_goes_stays_declared_and_cannot_be_called_until_it_comes_back() -> None:
    source = Source(named("one"), named("two"))
    script = says("Hi."), calls(tool_use("two")), says("Gone."), says("Back.")
    agent, model = agent_with(source, *script)

    await agent.prompt("go")
    [*there], source.tools[1:] = source.tools, []
    await agent.prompt("and now")
    source.tools[:] = there
    await agent.prompt("and then")

    assert declared(model) == [["one", "two", CALL_FOUND]] * 4
    assert "two ran" not in results(agent)
    gone = [withdrawn_by(request.messages) for request in model.requests]
    assert gone == [set(), {"two"}, {"two"}, set()]


@each_row("is_another", [False, True])
async def test_added_tool_that_goes_is_withdrawn_by_a_message_until_it_comes_back(
    is_another: bool,
) -> None:
    """With the definition that the model has read, or with another one."""
    source = Source(named("one"))
    two, other = named("two"), replace(named("two"), description="Another.")
    script = says("Hi."), says("Yes."), calls(tool_use("two")), says("Gone."), says("On.")
    agent, model = agent_with(source, *script, calls(tool_use("two", id="t2")), says("Done."))

    await agent.prompt("go")
    source.tools.append(two)
    await agent.prompt("and now")
    source.tools.pop()
    await agent.prompt("gone")
    await agent.prompt("still")
    source.tools.append(other if is_another else two)
    await agent.prompt("back")

    gone = [withdrawn_by(request.messages) for request in model.requests]
    assert gone == [set(), set(), {"two"}, {"two"}, {"two"}, set(), set()]
    assert declared(model) == [["one", CALL_FOUND]] * 7
    assert "two ran" not in results(agent)[0]
    assert results(agent)[1:] == ["two ran"]
    sent = str(model.sent())
    assert sent.count("cannot be called for now: two]") == 1
    assert sent.count("can be called again: two]") == (not is_another)
    assert sent.count("can be called from now on: two]") == 1 + is_another
    for earlier, later in pairwise(model.requests):
        assert later.messages[: len(earlier.messages)] == earlier.messages


async def test_added_tool_is_added_again_once_a_summary_took_the_message_away() -> None:
    source = Source(named("one"))
    agent, model = agent_with(source, *map(says, ("Hi.", "Yes.", "On.", "Still.")))

    await agent.prompt("go")
    source.tools.append(named("two"))
    await agent.prompt("and now")
    await agent.prompt("on")
    last = agent.conversation.prompts[-1].input
    assert last
    agent.conversation.compact("The notes.", last.id)
    await agent.prompt("still there?")

    assert "two" in added_by(model.requests[-1].messages)
    assert declared(model)[-1] == ["one", CALL_FOUND]


async def test_source_that_cannot_change_announces_nothing() -> None:
    """Its requests do not pay for what additions take; what changes all the same is declared."""
    source = Source(named("one"), may_change=False)
    agent, model = agent_with(source, says("Hi."), says("Yes."))

    await agent.prompt("go")
    source.tools.append(named("two"))
    await agent.prompt("and now")

    assert declared(model) == [["one"], ["one", "two"]]


async def test_refused_tool_is_declared_no_more() -> None:
    source = Source(named("one"), named("odd"))
    agent, model = agent_with(source, says("Hi."), says("Yes."))

    await agent.prompt("go")
    source.tools.pop()
    source.refused.add("odd")
    await agent.prompt("and now")

    assert declared(model) == [["one", "odd", CALL_FOUND], ["one", CALL_FOUND]]
    assert withdrawn_by(model.requests[-1].messages) == set()


@each_row(("last", "is_cut"), [("n" * 50, False), ("n" * 51, True)])
async def test_long_list_of_changed_tools_is_cut(last: str, *, is_cut: bool) -> None:
    """Servers choose the names and their number; the definitions beside the sentence say all."""
    source = Source(named("one"))
    agent, model = agent_with(source, says("Hi."), says("Yes."))
    names = [*(f"tool_{number:043}" for number in range(39)), last]

    await agent.prompt("go")
    source.tools += map(named, names)
    await agent.prompt("and now")

    listed = ", ".join(names)
    shown = f"{listed[:2_000]} …" if is_cut else listed
    assert f"[agent-cli: these tools can be called from now on: {shown}]" in str(model.sent())
    assert [*added_by(model.requests[-1].messages)] == names
