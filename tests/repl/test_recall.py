"""The recap of a resumed session."""

from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.timeline import text_block
from agent_cli.contracts.tooling import ToolContext
from agent_cli.repl.recall import recalled, said_in, typed_prompts
from tests.fakes import calls, says, scripted_agent, tool, tool_use


async def test_a_resumed_session_shows_what_its_tools_handed_over() -> None:
    """S2: widgets as their text, files with their path, between prompt and answer."""

    async def execute(_id: str, _params: object, _cancel: object, context: ToolContext) -> str:
        context.display_widget("table", {"columns": ["a"], "rows": []}, "a\n1")
        context.add_file_output("out.pdf", "application/pdf", "the report")
        return "done"

    asks = calls(tool_use("look", {}, "t1"))
    agent, *_ = scripted_agent(asks, says("All good."), tools=[tool("look", execute)])

    before = recalled(agent.conversation)
    await agent.prompt("Report!")

    assert before == ""
    assert recalled(agent.conversation).split("\n") == [
        *("1 prompt so far:", "you> Report!"),
        *("a", "1", "file out.pdf: application/pdf · the report"),
        "All good.",
    ]


async def test_a_resumed_session_shows_its_transcript_folded() -> None:
    """Not only the last exchange; of a long one the oldest prompts are counted."""

    async def execute(*_arguments: object) -> str:
        return "done"

    asks = calls(tool_use("look", {}, "t1"), tool_use("look", {}, "t2"))
    answers = [says(f"Answer {number}.\nMore.") for number in range(11)]
    agent, *_ = scripted_agent(asks, *answers, tools=[tool("look", execute)])
    for number in range(2):
        await agent.prompt(f"prompt {number}")
    two = recalled(agent.conversation)
    for number in range(2, 10):
        await agent.prompt(f"prompt {number}")

    assert two.split("\n") == [
        "2 prompts so far:",
        *("you> prompt 0", "  2 tool calls", "  Answer 0. … 1 more line"),
        *("you> prompt 1", "Answer 1.", "More."),
    ]
    ten = recalled(agent.conversation).split("\n")
    assert ten[:3] == ["10 prompts so far:", "… 1 older: /export writes them all", "you> prompt 1"]
    assert ten[-3:] == ["you> prompt 9", "Answer 9.", "More."]


async def test_a_prompt_is_called_by_what_was_typed_and_not_by_what_goes_with_it() -> None:
    """A command's output precedes it, and would fill the list of `/rewind`."""
    agent, *_ = scripted_agent(says("Because."))
    await agent.prompt(UserMessage((text_block("I ran this command:\n$ ls\n"), text_block("why?"))))

    assert [said_in(prompt) for prompt in typed_prompts(agent.conversation)] == ["why?"]
