"""The recap of a resumed session."""

from dataclasses import replace

from agent_cli.contracts.errors import ToolError
from agent_cli.contracts.events import MessageUpdate, ToolExecutionEnd
from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.timeline import Json, ToolOutput, text_block
from agent_cli.contracts.tooling import ToolContext
from agent_cli.repl.recall import cut_rows, last_answer, prompt_line, recalled, typed_prompts
from tests.fakes import calls, says, scripted_agent, tool, tool_use


async def test_recap_shows_the_side_outputs_of_tools() -> None:
    """S2: widgets as their text, files with their path, between the prompt and the answer."""

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
        *("1 prompt so far:", "you> Report!", "  1 tool call"),
        *("a", "1", "file out.pdf: application/pdf · the report"),
        "All good.",
    ]


async def test_recap_shows_the_transcript_folded() -> None:
    """More than the last exchange is shown; the oldest prompts of a long session are counted."""

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


async def test_recap_names_calls_that_ran_when_the_program_was_killed() -> None:
    """The model is told that their outcome is unknown, and so must the user be."""

    async def execute(*_arguments: object) -> str:
        raise ToolError("broken")

    path: Json = {"path": "a"}
    inputs: list[Json] = [{"timeout": 5, "command": "make\n all"}, {}, *[path] * 5]
    asks = calls(*(tool_use("run", given, f"t{at}") for at, given in enumerate(inputs)))
    agent, *_ = scripted_agent(asks, says("Sorry."), tools=[tool("run", execute)])
    await agent.prompt("Build!")
    prompt = agent.conversation.prompts[-1]
    killed = [
        replace(each, ended_at_ms=None) if isinstance(each, ToolOutput) else each
        for each in prompt.output
    ]

    assert cut_rows(prompt) == ()
    assert cut_rows(replace(prompt, output=killed)) == [
        "the program ended while these ran; check what they did:",
        *("  run make all", "  run", "  run a", "  run a", "  run a", "  and 2 more"),
    ]


async def test_recap_shows_no_earlier_answer_below_a_prompt_without_one() -> None:
    """The program was killed, or the run stopped, before the model answered."""
    agent, *_ = scripted_agent(says("One."), says("Two."))
    for number in ("one", "two"):
        await agent.prompt(number)
    conversation = agent.conversation
    answered = recalled(conversation)
    conversation.prompts[-1].output.clear()

    assert answered.split("\n")[-2:] == ["you> two", "Two."]
    assert recalled(conversation).split("\n")[-3:] == [
        *("  One.", "you> two"),
        "no answer yet; your next prompt is sent together with this one",
    ]


async def test_last_answer_has_all_parts_of_a_reply_that_paused() -> None:
    """`/copy` and the recap gave the last part alone."""
    agent, *_ = scripted_agent(says("One, ", stop_reason="pause_turn"), says("two."))
    await agent.prompt("count")

    assert last_answer(agent.conversation) == "One, two."
    assert recalled(agent.conversation).endswith("One, two.")


async def test_recap_says_that_the_last_answer_was_interrupted() -> None:
    agent, *_ = scripted_agent(says("A long answer."))
    agent.subscribe(lambda event: agent.abort() if isinstance(event, MessageUpdate) else None)
    await agent.prompt("one")

    assert recalled(agent.conversation).split("\n")[-1] == "interrupted"


async def test_recap_says_that_a_run_ended_at_its_tool_calls() -> None:
    """The text before them looked like the answer, though the user had stopped the command."""

    async def execute(*_arguments: object) -> str:
        return "done"

    asks = calls(tool_use("look", {}, "t1"), text="I look.")
    agent, *_ = scripted_agent(asks, says("Never sent."), tools=[tool("look", execute)])
    agent.subscribe(lambda event: agent.abort() if isinstance(event, ToolExecutionEnd) else None)
    await agent.prompt("one")

    assert recalled(agent.conversation).split("\n")[-3:] == [
        "  1 tool call",
        "I look.",
        "the run ended before it had an answer",
    ]


async def test_prompt_is_listed_by_its_typed_text_without_attached_command_output() -> None:
    """The output precedes it, and would fill the list of `/rewind`."""
    agent, *_ = scripted_agent(says("Because."))
    await agent.prompt(UserMessage((text_block("I ran this command:\n$ ls\n"), text_block("why?"))))

    assert [prompt_line(prompt) for prompt in typed_prompts(agent.conversation)] == ["why?"]
