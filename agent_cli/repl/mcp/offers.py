"""Prompts and resources of MCP servers: `/mcp__server__prompt`, and `@server:uri` in a prompt."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from agent_cli.attachments.references import references
from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.servers import PromptArgument, ServerPrompt, ServerResource
from agent_cli.contracts.timeline import Block, text_block, text_of
from agent_cli.contracts.wording import counted, one_line
from agent_cli.repl.commands import Command, Context, OutgoingPrompt
from agent_cli.repl.mcp import ServersPort, named, quoted_rows, shown_text
from agent_cli.repl.ports import Application
from agent_cli.system.sanitize import reveal
from agent_cli.terminal.writer import Lines

WORD: Final = re.compile(r'"[^"]*"(?!\S)|\'[^\']*\'(?!\S)|\S+')
"""An argument: quotes count only around a whole word, so that apostrophes need no care."""
_SHOWN_ROWS: Final = 6


def server_commands(app: Application) -> Iterator[Command]:
    """Yield a command for each prompt currently offered by servers."""
    for prompt in app.servers.prompts():
        yield Command(
            prompt.command,
            reveal(prompt.description),
            partial(_fill, prompt),
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


async def _fill(prompt: ServerPrompt, context: Context, typed: str) -> None:
    """Ask for missing arguments of *prompt*, fetch it, and send it with the typed line."""
    arguments = typed_arguments(prompt, typed)
    line = f"/{prompt.command} {typed}".strip()
    missing = [each for each in prompt.arguments if each.required and each.name not in arguments]
    if missing:
        answers = await _asked(context, prompt, missing)
        arguments |= answers
        line = " ".join((line, *(f'"{answer}"' for answer in answers.values())))
    requests = context.app.servers.requests(prompt.server)
    blocks = await requests.get_prompt(prompt.name, arguments)
    if not blocks:
        raise UsageError(f"{named(prompt.server)} left the prompt {reveal(prompt.name)} empty")
    rows = [*quoted_rows(shown_text(blocks))]
    more = len(rows) - _SHOWN_ROWS
    note = [f"  │ … {more} more lines"] if more > 1 else rows[_SHOWN_ROWS:]
    context.writer.aside("\n".join([*rows[:_SHOWN_ROWS], *note]), "dim")
    # The line comes last: it alone is the user's word, and no text of a server passes for that.
    context.send(OutgoingPrompt(UserMessage((*blocks, text_block(line)))))


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


# About 25,000 tokens: longer resources should be read in parts by a tool.
_TEXT_CHARS_MAX: Final = 100_000
_NAMES: Final = re.compile(r"\{[^{}]*+\}")


class Named(NamedTuple):
    """A resource named in a prompt."""

    server: str
    uri: str


def named_in(text: str, servers: ServersPort) -> list[Named]:
    """Return the resources that *text* names, each once.

    A word behind an @ counts only if it begins with a server's name.
    """
    names = {state.name for state in servers.states()}
    spellings: dict[int, list[Named]] = {}
    for spelling in references(text):
        server, _, uri = spelling.path.partition(":")
        if uri and server in names:
            spellings.setdefault(spelling.start, []).append(Named(server, uri))
    resources = servers.resources()
    return list(dict.fromkeys(_likeliest(each, resources) for each in spellings.values()))


def _likeliest(spellings: Sequence[Named], resources: Sequence[ServerResource]) -> Named:
    """Return the likeliest of *spellings*: trailing punctuation may or may not belong to the URI.

    The longest that is listed; else the shortest, preferably one that matches a template. An
    unlisted resource may exist as well.
    """
    listed = {(each.server, each.uri) for each in resources}
    forms = [(each.server, _pattern(each.uri)) for each in resources if each.is_template]
    known = [each for each in spellings if each in listed]
    known += [
        each
        for each in reversed(spellings)
        if any(server == each.server and form.fullmatch(each.uri) for server, form in forms)
    ]
    return [*known, spellings[-1]][0]


async def with_resources(text: str, servers: ServersPort, lines: Lines) -> UserMessage:
    """Return a message of *text*, preceded by the content of each resource it names.

    Raises:
        AgentCliError: A resource cannot be read.
    """
    blocks: list[Block] = []
    for each in named_in(text, servers):
        content = [*_capped(await servers.requests(each.server).read_resource(each.uri))]
        blocks += content
        lines.aside(f"with @{each.server}:{each.uri}: {_measured(content)}", "dim")
    return UserMessage((*blocks, *UserMessage.of(text).content))


def _measured(blocks: Sequence[Block]) -> str:
    images = sum(block["type"] == "image" for block in blocks)
    parts = [counted(len(text_of(tuple(blocks))), "character")]
    if images:
        parts.append(counted(images, "image"))
    return ", ".join(parts)


def _capped(blocks: Sequence[Block]) -> Iterator[Block]:
    for block in blocks:
        text = block.get("text")
        if isinstance(text, str) and len(text) > _TEXT_CHARS_MAX:
            left_out = len(text) - _TEXT_CHARS_MAX
            yield text_block(f"{text[:_TEXT_CHARS_MAX]}\n[{left_out:,} more characters left out]")
        else:
            yield block


def _pattern(template: str) -> re.Pattern[str]:
    first, *others = map(re.escape, _NAMES.split(template))
    # Atomic: the first place of a literal is as good as any other, and a template of many variables
    # could otherwise take hours.
    inner = "".join(f"(?>.+?{literal})" for literal in others[:-1])
    return re.compile(f"{first}{inner}.+{others[-1]}" if others else first)
