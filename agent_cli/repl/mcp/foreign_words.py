"""Display text of servers as untrusted: marked, and with nothing hidden in it.

Invisible characters appear as escapes, and no row can pass for one of this program.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from agent_cli.contracts.timeline import Block
from agent_cli.contracts.wording import one_line
from agent_cli.terminal.sanitize import reveal

_SHOWN_CHARS_MAX: Final = 4_000


def named(server: str) -> str:
    """Return the name of a server for a sentence."""
    return f"MCP server {one_line(reveal(server))}"


def said(text: str, who: str = "") -> Iterator[str]:
    """Yield marked rows of untrusted text; very long text is cut with a note."""
    mark = f"  {reveal(who)} │ " if who else "  │ "
    for row in reveal(text[:_SHOWN_CHARS_MAX]).splitlines():
        yield f"{mark}{row}"
    if (left_out := len(text) - _SHOWN_CHARS_MAX) > 0:
        yield f"{mark}… and {left_out:,} more characters"


def shown_text(blocks: Sequence[Block]) -> str:
    """Return the content of blocks: their texts, and a label for any other block."""
    texts = [block.get("text") for block in blocks]
    return "\n".join(
        text if isinstance(text, str) else f"[{block.get('type')}]"
        for text, block in zip(texts, blocks, strict=True)
    )
