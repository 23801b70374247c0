"""Every feature that document S2 uses as a comparison, in one conversation with one loop."""

from dataclasses import replace

from pydantic import BaseModel

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.events import PromptOutput
from agent_cli.contracts.timeline import FileOutput, Pending, WidgetOutput
from agent_cli.contracts.tooling import Approval, ToolContext
from agent_cli.core.loop_config import LoopConfig
from agent_cli.plugins.api import Plugin, PluginContext, PluginState
from tests.fakes import Gate, calls, does, problems, returns, says, tool, tool_use
from tests.plugins.contributing import Contributing, tool_results


class Report(BaseModel):
    drawn: bool = False


REPORT = PluginState("report", Report)


async def draw(context: ToolContext) -> str:
    context.display_widget("table", {"rows": [[1, 2]]}, "1 | 2")
    context.add_file_output("out/report.pdf", "application/pdf", "3 pages on trees")
    context.display_widget("progress", 1.0, "done")
    REPORT.write(context.state, Report(drawn=True))
    return "drawn"


def report_plugin() -> Plugin:
    """A plugin whose second tool exists once the first has run, and needs approval."""
    send = replace(tool("send", returns("sent")), require_approval=Approval(True, "mail a client"))

    def prepare(ctx: PluginContext) -> None:
        ctx.add_context("Reports go to clients.")
        if REPORT.read(ctx.state).drawn:
            ctx.add_tool(send)

    fixed = replace(tool("draw", does(draw)), parallel_safe=False)
    return Plugin(name="report", tools=[fixed], prepare=prepare, state=REPORT)


async def test_dynamic_tools_widgets_files_approval_and_context_work_in_one_loop() -> None:
    """S2-52: none of them needs a graph node, a second channel or a line in the loop."""
    run = Contributing(
        [report_plugin()],
        calls(tool_use("draw", id="t1")),
        calls(tool_use("send", id="t2"), text="Mailing it."),
        says("All done."),
    )
    await run.prompt("Draw and mail the report")
    assert run.agent.conversation.waiting
    [question] = run.agent.conversation.questions()
    assert (question.name, question.result) == ("send", Pending("approval", "mail a client"))
    result = await run.agent.approve("t2")

    assert (result.stop_reason, tool_results(run)) == ("end_turn", ["drawn", "sent"])
    assert run.offered() == [["draw"], ["draw", "send"], ["draw", "send"]]
    assert run.contexts() == [["Reports go to clients."]] * 3
    [prompt] = run.agent.conversation.prompts
    kinds = [output.kind for output in prompt.output]
    assert kinds == [
        *("tool", "widget", "file", "widget", "reply", "custom"),
        *("text", "tool", "reply"),
        *("text", "reply"),
    ]
    assert prompt.state == "completed"
    sent = str(run.model.sent())
    assert "[file for the user: out/report.pdf] 3 pages on trees" in sent
    assert "1 | 2" not in sent
    assert problems(run.model.sent()) == []


async def test_side_outputs_of_parallel_calls_directly_follow_their_own_call() -> None:
    """S2-38, S2-39: it does not matter which call emits first; outputs have ids and times."""
    first, second = Gate(), Gate()
    second.open()

    async def emit(context: ToolContext) -> str:
        # The second call is finished before the first one begins to emit.
        gate = first if context.tool_call_id == "t1" else second
        await gate.pass_through()
        context.display_widget("note", context.tool_call_id, "fallback text")
        context.add_file_output(f"{context.tool_call_id}.txt", "text/plain", "a file")
        first.open()
        return "ok"

    run = Contributing(
        [],
        calls(tool_use("emit", id="t1"), tool_use("emit", id="t2")),
        says("done"),
        tools=[tool("emit", does(emit))],
        options=LoopConfig(tool_execution="parallel"),
    )
    await run.prompt()

    outputs = run.agent.conversation.prompts[0].output
    seen = [(output.kind, getattr(output, "tool_call_id", "")) for output in outputs[:6]]
    assert seen == [
        *[("tool", "t1"), ("widget", "t1"), ("file", "t1")],
        *[("tool", "t2"), ("widget", "t2"), ("file", "t2")],
    ]
    side = [output for output in outputs if isinstance(output, WidgetOutput | FileOutput)]
    assert len({output.id for output in outputs}) == len(outputs)
    assert all(output.id and output.at_ms for output in side)
    assert {o.fallback for o in side if isinstance(o, WidgetOutput)} == {"fallback text"}
    told = [e.output for e in run.events if isinstance(e, PromptOutput)]
    assert all(output in told for output in side)
    assert "fallback text" not in str(run.model.sent())


async def test_tool_called_outside_a_run_may_emit_side_outputs() -> None:
    """S2-38: without a surface, side outputs cost a tool nothing."""

    async def emit(context: ToolContext) -> str:
        context.display_widget("table", None, "text")
        context.add_file_output("a", "text/plain", "a file")
        context("half way")
        return "emitted"

    alone = await tool("emit", does(emit)).execute("t1", None, CancelToken(), ToolContext())

    assert alone == "emitted"
