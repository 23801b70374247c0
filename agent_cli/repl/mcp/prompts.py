"""Prompts of MCP servers as commands: `/mcp__server__prompt "first argument" second`."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.servers import PromptArgument, ServerPrompt
from agent_cli.contracts.wording import one_line
from agent_cli.repl.commands.spec import Command, Context, OutgoingPrompt
from agent_cli.repl.mcp.foreign_words import named, quoted_rows, shown_text
from agent_cli.repl.ports import Application
from agent_cli.terminal.sanitize import reveal

WORD: Final = re.compile(r'"[^"]*"(?!\S)|\'[^\']*\'(?!\S)|\S+')
"""An argument: quotes count only around a whole word, so that apostrophes need no care."""
_SHOWN_ROWS: Final = 6


def server_commands(app: Application) -> Iterator[Command]:
    """Yield a command for each prompt currently offered by servers."""
    for prompt in app.servers.prompts():
        yield Command(
            prompt.command,
            reveal(prompt.description),
            _Filling(prompt).run,
            " ".join(_shown(argument) for argument in prompt.arguments),
            during_a_run=False,
            asks_the_model=True,
            source=named(prompt.server),
            more="\n".join(_explained(argument) for argument in prompt.arguments),
        )


def typed_arguments(prompt: ServerPrompt, typed: str) -> dict[str, str]:
    """Return the arguments by name, in order; surplus words belong to the last one.

    Raises:
        UsageError: The prompt takes no arguments.
    """
    names = [argument.name for argument in prompt.arguments]
    found = [*WORD.finditer(typed)]
    if found and not names:
        raise UsageError(f"/{prompt.command} takes no argument")
    words = [bare(word[0]) for word in found]
    if len(words) > len(names):
        words[len(names) - 1] = typed[found[len(names) - 1].start() :].strip()
    return dict(zip(names, words, strict=False))


def bare(word: str) -> str:
    """Return *word* without the quotes around it."""
    return word[1:-1] if len(word) > 1 and word[0] in "\"'" and word[-1] == word[0] else word


class _Filling:
    """Runs one prompt: asks for missing arguments, fetches the prompt, and sends it."""

    def __init__(self, prompt: ServerPrompt) -> None:
        self._prompt = prompt

    async def run(self, context: Context, typed: str) -> None:
        """Send the prompt as a message of the user."""
        prompt = self._prompt
        given = typed_arguments(prompt, typed)
        missing = [each for each in prompt.arguments if each.required and each.name not in given]
        if missing:
            given |= await _asked(context, prompt, missing)
        requests = context.app.servers.requests(prompt.server)
        blocks = await requests.get_prompt(prompt.name, given)
        if not blocks:
            raise UsageError(f"{named(prompt.server)} left the prompt {reveal(prompt.name)} empty")
        rows = [*quoted_rows(shown_text(blocks))]
        more = len(rows) - _SHOWN_ROWS
        note = [f"  │ … {more} more lines"] if more > 1 else rows[_SHOWN_ROWS:]
        context.writer.aside("\n".join([*rows[:_SHOWN_ROWS], *note]), "dim")
        context.send(OutgoingPrompt(UserMessage(tuple(blocks))))


async def _asked(
    context: Context, prompt: ServerPrompt, missing: Sequence[PromptArgument]
) -> Mapping[str, str]:
    """Ask for the required arguments of a prompt.

    Raises:
        UsageError: No user can be asked, or they cancelled.
    """
    names = ", ".join(reveal(argument.name) for argument in missing)
    if not context.questions.can_ask:
        raise UsageError(f"/{prompt.command} needs {names} after it")
    answers: dict[str, str] = {}
    for argument in missing:
        if argument.description:
            context.writer.aside(_explained(argument))
        message = f"{reveal(prompt.server)}: {one_line(reveal(argument.name))}> "
        try:
            answer = await context.questions.choose_next(message, "")
            while not answer.strip():
                answer = await context.questions.choose_next(message, "")
        except (KeyboardInterrupt, EOFError):
            raise UsageError(f"/{prompt.command} was not sent: it needs {names}") from None
        answers[argument.name] = answer.strip()
    return answers


def _shown(argument: PromptArgument) -> str:
    name = one_line(reveal(argument.name))
    return name if argument.required else f"[{name}]"


def _explained(argument: PromptArgument) -> str:
    described = f": {reveal(argument.description)}" if argument.description else ""
    return f"{_shown(argument)}{described}"
