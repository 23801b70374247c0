"""Resources of MCP servers named in a prompt as `@server:uri`, and their contents."""

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.servers import ServerResource
from agent_cli.contracts.timeline import Block, text_block, text_of
from agent_cli.contracts.wording import counted
from agent_cli.repl.mcp.ports import ServersPort
from agent_cli.terminal.references import references
from agent_cli.terminal.writer import Lines

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
