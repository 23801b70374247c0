"""Nobody is asked about an edit or a write that can only fail."""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.permissions import Rule
from agent_cli.contracts.timeline import Block, Json
from agent_cli.contracts.tooling import Allow, Approval, Ask, Tool, Verdict
from agent_cli.core.agent import Agent
from agent_cli.core.conversation import Conversation
from agent_cli.core.foresight import Foresight
from agent_cli.core.loop_config import LoopConfig
from agent_cli.core.preflight import CheckedCall
from agent_cli.core.waits import InOrder
from agent_cli.policies.permission_rules import RuleSet, parse_rule
from agent_cli.policies.permissions import Permissions
from agent_cli.policies.shell.reach import Reach
from tests.fakes import ScriptedModel, calls, says, scripted_agent, texts, tool_use
from tests.tools.calling import Tools, tools_in
from tests.waiting import StoppedClock

_Authorize = Callable[[ToolCall, Tool, object], Verdict | Awaitable[Verdict]]


@pytest.fixture
def tools(tmp_path: Path) -> Iterator[Tools]:
    with tools_in(tmp_path) as made:
        yield made


def _edit(path: str, old: str, new: str, id: str = "t1", *, all: bool = False) -> Block:
    edit: Json = {"old": old, "new": new, "all": all}
    return tool_use("edit", {"path": path, "edits": [edit]}, id)


def _write(path: str, content: str, id: str) -> Block:
    return tool_use("write", {"path": path, "content": content}, id)


def _asks(call: ToolCall, _tool: Tool, _params: object) -> Verdict:
    return Allow() if call.name == "read" else Ask("changes files", may_read=True)


def _agent(
    tools: Tools,
    *uses: Block,
    authorize: _Authorize = _asks,
    approval: Literal["batch", "defer"] = "batch",
    tree: InOrder | None = None,
) -> tuple[Agent, ScriptedModel]:
    options = LoopConfig(authorize_tool=authorize, approval=approval, path_order=tree)
    there = [*map(tools.named, ("edit", "write", "read", "bash"))]
    agent, model, _ = scripted_agent(calls(*uses), says("ok"), tools=there, options=options)
    return agent, model


def _waiting(agent: Agent) -> list[str]:
    return [call.tool_call_id for call in agent.conversation.questions()]


@pytest.mark.parametrize(
    ("use", "answer"),
    [
        (_edit("a.py", "absent", "x"), "old was not found"),
        (_edit("a.py", "one", "x"), "4 "),
        (_edit("b.py", "one", "x"), "b.py does not exist"),
        (_edit("a.py", "one", "one"), "nothing to change"),
        (_write("a.py", "new\n", "t1"), "was not read in full yet"),
    ],
)
async def test_call_that_can_only_fail_gets_the_answer_of_its_tool_at_once(
    tools: Tools, use: Block, answer: str
) -> None:
    """No question; the text is that of the tool, word for word."""
    tools.file("a.py", "one\n" * 4)
    agent, model = _agent(tools, use)
    given = use["input"]
    assert isinstance(given, dict)

    result = await agent.prompt("go")

    assert _waiting(agent) == []
    told = texts(result.messages)["t1"]
    assert answer in told
    assert told == await tools.error(str(use["name"]), **given)
    assert len(model.requests) == 2


async def test_call_that_takes_too_long_to_foresee_is_asked_about(tools: Tools) -> None:
    """A file on a share that hangs must not keep the question back for more than five seconds."""
    clock, reached_s = StoppedClock(), list[float]()

    async def hang(*_given: object) -> None:
        for passed_s in (4.9, 0.2):
            await clock.pass_s(passed_s)
            reached_s.append(passed_s)

    agent, _ = _agent(tools, _edit("a.py", "absent", "x"))
    agent.set_tools([replace(tools.named("edit"), foresee=hang)])

    await agent.prompt("go")

    assert (_waiting(agent), reached_s) == (["t1"], [4.9])


async def test_call_that_is_not_asked_about_has_no_failure_foreseen() -> None:
    """The answer is a text in any case: "" is none."""
    conversation = Conversation()
    conversation.begin(UserMessage.of("go"))
    conversation.add_reply(calls(_edit("a.py", "absent", "x")))
    [call] = conversation.open_calls()

    assert await Foresight(InOrder()).failure(CheckedCall(call)) == ""


@pytest.mark.parametrize("approval", ["batch", "defer"])
async def test_earlier_calls_of_the_reply_count_as_if_they_had_run(
    tools: Tools, approval: Literal["batch", "defer"]
) -> None:
    """Write a file, edit it twice; what misses even then is refused. All that was asked runs."""
    uses = (
        _write("n.py", "a = 1\n", "t1"),
        _edit("n.py", "a = 1", "b = 2", "t2"),
        _edit("n.py", "b = 2", "c = 3", "t3"),
        _edit("n.py", "z = 9", "y = 8", "t4"),
        _write("n.py", "d = 4\n", "t5"),
    )
    agent, _ = _agent(tools, *uses, approval=approval)

    result, asked = await agent.prompt("go"), []
    while waiting := _waiting(agent):
        asked += waiting
        for id in waiting:
            result = await agent.approve(id)

    assert asked == ["t1", "t2", "t3", "t5"]
    assert (tools.root / "n.py").read_text() == "d = 4\n"
    assert "old was not found" in texts(agent.state.messages)["t4"]
    assert result.stop_reason == "end_turn"


async def test_edit_that_fits_only_if_an_earlier_one_is_refused_is_asked(tools: Tools) -> None:
    """The person may want the second of two edits of one line."""
    tools.file("a.py", "x = 1\n")
    uses = (_edit("a.py", "x = 1", "x = 2", "t1"), _edit("a.py", "x = 1", "x = 3", "t2"))
    agent, _ = _agent(tools, *uses)

    await agent.prompt("go")

    assert _waiting(agent) == ["t1", "t2"]


@pytest.mark.parametrize(
    "before",
    [
        tool_use("bash", {"command": "make a.py"}, "t0"),
        tool_use("read", {"path": "a.py"}, "t0"),
    ],
    ids=["command", "read"],
)
async def test_call_behind_one_whose_effect_is_not_known_is_asked(
    tools: Tools, before: Block
) -> None:
    """A command may make the file fit; a read makes it known."""
    tools.file("a.py", "x = 1\n")

    agent, _ = _agent(tools, before, _write("a.py", "y\n", "t1"), _edit("a.py", "q", "r", "t2"))
    await agent.prompt("go")

    assert _waiting(agent)[-2:] == ["t1", "t2"]


async def test_file_that_another_agent_is_changing_is_asked_about(tools: Tools) -> None:
    """Its edit may put the text there; once it has ended, this one cannot succeed."""
    path, tree = tools.file("a.py", "x = 1\n"), InOrder()
    agent, _ = _agent(tools, _edit("a.py", "y", "z"), tree=tree)
    later, _ = _agent(tools, _edit("a.py", "y", "z"), tree=tree)

    async with tree.turn((), [str(path)]):
        await agent.prompt("go")
    await later.prompt("go")

    assert _waiting(agent) == ["t1"]
    assert _waiting(later) == []


async def test_a_question_of_the_tool_itself_is_foreseen_like_one_of_the_policy(
    tools: Tools,
) -> None:
    """The policy allows, so that the file may be read."""
    tools.file("a.py", "x = 1\n")
    agent, _ = _agent(tools, _edit("a.py", "absent", "z"), authorize=lambda *_: Allow())
    agent.set_tools([replace(tools.named("edit"), require_approval=Approval(required=True))])

    await agent.prompt("go")

    assert _waiting(agent) == []


async def test_input_changed_by_a_hook_is_the_one_foreseen(tools: Tools) -> None:
    """The model's would fit, the hook's does not."""
    tools.file("a.py", "x = 1\n")

    def changes(_call: ToolCall, _tool: Tool, _params: object) -> Verdict:
        return Ask("", may_read=True, input=_edit("a.py", "absent", "z")["input"])

    agent, _ = _agent(tools, _edit("a.py", "x = 1", "z"), authorize=changes)
    await agent.prompt("go")

    assert _waiting(agent) == []


@pytest.mark.parametrize(
    ("path", "deny", "ask"),
    [
        ("{outside}/a.py", "", ""),
        ("a.py", "read(a.py)", ""),
        ("a.py", "", "read(*.py)"),
        ("a.py", "read", ""),
        ("a.py", "", "read"),
    ],
)
async def test_failed_edit_tells_nothing_of_a_file_that_may_not_be_read(
    tools: Tools, tmp_path_factory: pytest.TempPathFactory, path: str, deny: str, ask: str
) -> None:
    """The tool's answer quotes the nearest lines."""
    outside = tmp_path_factory.mktemp("outside")
    for folder in (outside, tools.root):
        (folder / "a.py").write_text("secret = 1\n")
    rules = RuleSet(deny=_rules(deny), ask=_rules(ask))
    permissions = Permissions(Reach(root=tools.root), rules=rules, access=tools.workspace)
    use = _edit(path.format(outside=outside), "secret = 2", "x")
    agent, _ = _agent(tools, use, authorize=permissions)

    await agent.prompt("go")

    assert _waiting(agent) == ["t1"]


def _rules(written: str) -> tuple[Rule, ...]:
    return (parse_rule(written),) if written else ()
