"""Branch points of a conversation, and the prompts up to a branch point.

Pure: it reads prompts, and copies those it shortens.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from agent_cli.contracts.errors import SessionNotFound
from agent_cli.contracts.messages import typed_in
from agent_cli.contracts.timeline import (
    BlockOutput,
    Output,
    Prompt,
    ReplyOutput,
    TextOutput,
    ToolOutput,
)
from agent_cli.system.records import dataclass


@dataclass(frozen=True, slots=True)
class BranchPoint:
    """The end of a prompt, or the end of any of its replies but the last.

    Attributes:
        id: The prompt or entry that a copy ends with.
        prompt_text: What the person typed; "" for a reply.
        answered: Text of the reply; "" for a prompt.
        called: The tools the reply called.
    """

    id: str
    prompt_text: str = ""
    answered: str = ""
    called: tuple[str, ...] = ()


def branch_points(prompts: Sequence[Prompt]) -> list[BranchPoint]:
    """Return the branch points of *prompts*, in order; hidden prompts have none."""
    return [point for prompt in prompts if prompt.visible for point in _points_in(prompt)]


def up_to(prompts: Sequence[Prompt], last: str, *, session: str) -> list[Prompt]:
    """Return *prompts* up to the prompt or entry *last*, with the reply that entry belongs to.

    Args:
        prompts: All of them; they are not changed.
        last: The id, or a prefix that no other id has.
        session: The session's id, for the command that lists the entries.

    Raises:
        SessionNotFound: No prompt or entry has that id, or several begin so.
    """
    number, index = _find(prompts, last, session)
    if index is None:
        return [*prompts[: number + 1]]
    prompt = prompts[number]
    kept = prompt.output[: _end_of_reply(prompt.output, index) + 1]
    return [*prompts[:number], replace(prompt, state="running", output=kept)]


def _points_in(prompt: Prompt) -> list[BranchPoint]:
    ends = [i for i, output in enumerate(prompt.output) if isinstance(output, ReplyOutput)]
    replies = [_reply(prompt.output[begin + 1 : end + 1]) for begin, end in pairwise([-1, *ends])]
    if prompt.input is None:
        return replies
    return [*replies[:-1], BranchPoint(prompt.id, prompt_text=typed_in(prompt.input.content))]


def _reply(entries: Sequence[Output]) -> BranchPoint:
    texts = [out.text for out in entries if isinstance(out, TextOutput)]
    called = tuple(out.name for out in entries if isinstance(out, ToolOutput))
    return BranchPoint(entries[-1].id, answered=" ".join(texts).strip(), called=called)


def _find(prompts: Sequence[Prompt], last: str, session: str) -> tuple[int, int | None]:
    """Return the number of a prompt and the index of its entry; None is the whole prompt."""
    found: dict[str, tuple[int, int | None]] = {}
    for number, prompt in enumerate(prompts):
        found[prompt.id] = number, None
        found |= {output.id: (number, index) for index, output in enumerate(prompt.output)}
    matches = [last] if last in found else [id for id in found if last and id.startswith(last)]
    if len(matches) != 1:
        several = f"has several entries that begin with {last!r}: {', '.join(matches)}"
        problem = several if matches else f"has no prompt or entry {last!r}"
        raise SessionNotFound(
            f"the session {problem}; `agent-cli sessions show {session} --entries` lists them"
        )
    return found[matches[0]]


def _end_of_reply(outputs: Sequence[Output], index: int) -> int:
    """Return the index of the mark that ends the reply at *index*, to keep the reply whole."""
    entry = outputs[index]
    if isinstance(entry, BlockOutput):
        for end, output in enumerate(outputs[index:], index):
            if isinstance(output, ReplyOutput) and output.reply_id == entry.reply_id:
                return end
    return index
