"""The points where a conversation can branch, and the content of each branch."""

import pytest

from agent_cli.contracts.errors import SessionNotFound
from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.timeline import Prompt, ReplyOutput, Success, TextOutput, text_block
from agent_cli.core.branching import BranchPoint, branch_points, up_to
from agent_cli.core.conversation import Conversation
from tests.fakes import calls, says, tool_use


@pytest.fixture
def talk() -> Conversation:
    """Prompts: one of three replies, a hidden one, a triggered one, and an unanswered one."""
    conversation = Conversation()
    conversation.begin(UserMessage.of("go"))
    both = tool_use("look", {}, "t1"), tool_use("read", {}, "t2")
    conversation.add_reply(calls(*both, text="I look."))
    conversation.settle_call("t1", Success((text_block("a tree"),)))
    conversation.settle_call("t2", Success((text_block("leaves"),)))
    conversation.add_user(UserMessage.of("quickly"))
    conversation.add_reply(calls(tool_use("look", {}, "t3")))
    conversation.settle_call("t3", Success((text_block("a tree"),)))
    conversation.add_reply(says("A tree."))
    conversation.complete()
    conversation.begin(UserMessage.of("Nobody sees this"), visible=False)
    conversation.add_reply(says("Nor this."))
    conversation.complete()
    conversation.begin(None)
    conversation.add_reply(says("It is noon."))
    conversation.complete()
    conversation.begin(UserMessage.of("and now?"))
    return conversation


def marks(prompt: Prompt) -> list[str]:
    return [output.id for output in prompt.output if isinstance(output, ReplyOutput)]


def test_branch_points_are_the_ends_of_prompts_and_of_their_replies(talk: Conversation) -> None:
    """S2-53: the last reply is the prompt's own end; S2-49: a hidden prompt is no branch point."""
    first, _, trigger, last = talk.prompts
    one, two, _ = marks(first)
    [noon] = marks(trigger)

    assert branch_points(talk.prompts) == [
        BranchPoint(one, answered="I look.", called=("look", "read")),
        BranchPoint(two, called=("look",)),
        BranchPoint(first.id, prompt_text="go"),
        BranchPoint(noon, answered="It is noon."),
        BranchPoint(last.id, prompt_text="and now?"),
    ]


def test_branch_up_to_a_prompt_has_its_complete_answer(talk: Conversation) -> None:
    first, second, *_ = talk.prompts

    assert up_to(talk.prompts, first.id, session="47f8") == [first]
    assert up_to(talk.prompts, second.id, session="47f8") == [first, second]


def test_branch_up_to_an_entry_of_a_reply_has_the_complete_reply(talk: Conversation) -> None:
    """S2-53: a reply is never split, so a branch up to a call keeps that call."""
    [first, *_] = talk.prompts
    end = first.output.index(next(o for o in first.output if isinstance(o, ReplyOutput)))

    branches = [
        up_to(talk.prompts, output.id, session="47f8") for output in first.output[: end + 1]
    ]

    assert [[p.output for p in branch] for branch in branches] == [
        [first.output[: end + 1]] for _ in branches
    ]
    assert {branch[0].state for branch in branches} == {"running"}
    assert (first.state, len(branches)) == ("completed", 4)


def test_branch_up_to_an_entry_outside_a_reply_ends_with_that_entry(talk: Conversation) -> None:
    [first, *_] = talk.prompts
    steered = next(i for i, output in enumerate(first.output) if output.kind == "user")

    [branch] = up_to(talk.prompts, first.output[steered].id, session="47f8")

    assert branch.output == first.output[: steered + 1]


def test_branch_within_an_unfinished_reply_ends_at_the_entry() -> None:
    """A program killed during a write leaves such a reply."""
    half = [TextOutput(id, 0, "r", text_block(id)) for id in ("a1", "b2")]
    prompt = Prompt("p1", "me", "m", 0, output=[*half])

    [branch] = up_to([prompt], "a1", session="47f8")

    assert branch.output == half[:1]
    assert half[0].text == "a1"


def test_branch_accepts_a_unique_id_prefix_and_refuses_an_ambiguous_one() -> None:
    """An id that is also a prefix of another one is a full match."""
    prompts = [Prompt(id, "me", "m", 0) for id in ("ab", "abc", "b1", "b2", "c")]

    assert [p.id for p in up_to(prompts, "abc", session="47f8")] == ["ab", "abc"]
    assert [p.id for p in up_to(prompts, "ab", session="47f8")] == ["ab"]
    assert [p.id for p in up_to(prompts, "b2", session="47f8")] == ["ab", "abc", "b1", "b2"]
    lists = "`agent-cli sessions show 47f8 --entries` lists them"
    with pytest.raises(
        SessionNotFound, match=f"^the session has several entries .* 'b': b1, b2; {lists}$"
    ):
        up_to(prompts, "b", session="47f8")
    for missing in ("x", ""):
        with pytest.raises(SessionNotFound, match=f"has no prompt or entry '{missing}'; {lists}$"):
            up_to(prompts, missing, session="47f8")
