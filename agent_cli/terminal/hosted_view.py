"""Show what the model's server ran for a reply: its calls like those of tools, its citations."""

from collections.abc import Iterator, Sequence

from agent_cli.contracts import events
from agent_cli.contracts.hosted_blocks import (
    WebPage,
    cited,
    error_of,
    is_result,
    is_use,
    shown_result,
    tool_of,
)
from agent_cli.contracts.messages import AssistantMessage
from agent_cli.contracts.provider import BlockEnd, TextDelta
from agent_cli.contracts.timeline import Block
from agent_cli.contracts.wording import one_line


class HostedView:
    """Adds events to those of a reply; see `__call__`.

    Cited pages are numbered through one reply, and listed behind it.
    """

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._pages: dict[str, WebPage] = {}

    def __call__(self, event: events.Event) -> Iterator[events.Event]:
        """Yield *event* and those to show beside it."""
        match event:
            case events.MessageUpdate(event=BlockEnd(index=index, block=block), snapshot=message):
                yield event
                yield from self._calls(block)
                if marks := _marks(block, self._pages):
                    yield events.MessageUpdate(message, TextDelta(index, marks))
            case events.MessageEnd(message=AssistantMessage() as message):
                if self._pages:
                    end = TextDelta(len(message.content), f"\n\n{_listed(self._pages)}")
                    yield events.MessageUpdate(lambda: message, end)
                self._pages = {}
                yield event
            case _:
                yield event

    def _calls(self, block: Block) -> Iterator[events.Event]:
        id = str(block.get("id") or block.get("tool_use_id"))
        if is_use(block):
            self._names[id] = str(block["name"])
            yield events.ToolExecutionStart(id, self._names[id], block.get("input"))
        elif is_result(block):
            name = self._names.pop(id, tool_of(block))
            yield events.ToolExecutionEnd(id, name, shown_result(block), bool(error_of(block)))


def cited_text(content: Sequence[Block]) -> str:
    """Return the text of *content* with a number behind each citation, and the pages at the end."""
    pages: dict[str, WebPage] = {}
    parts = [
        f"{block.get('text', '')}{_marks(block, pages)}"
        for block in content
        if block["type"] == "text"
    ]
    text = "".join(parts)
    return f"{text.rstrip()}\n\n{_listed(pages)}" if pages else text


def _marks(block: Block, pages: dict[str, WebPage]) -> str:
    """Return the numbers of the pages that *block* cites, and add new ones to *pages*."""
    found = cited(block)
    for source in found:
        pages.setdefault(source.url, source)
    numbers = [*pages]
    return "".join(f" [{numbers.index(source.url) + 1}]" for source in found)


def _listed(pages: dict[str, WebPage]) -> str:
    return "\n".join(
        f"[{number}] {' '.join(filter(None, (one_line(each.title), one_line(each.url, 500))))}"
        for number, each in enumerate(pages.values(), 1)
    )
