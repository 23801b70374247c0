"""A server's words, which are a stranger's: shown as such, and with nothing hidden in them.

Whatever would be invisible appears as an escape, and no row can be taken for one of ours.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from agent_cli.contracts.timeline import Block
from agent_cli.terminal.narration import one_line
from agent_cli.terminal.sanitize import reveal

_SHOWN_CHARS_MAX: Final = 4_000


def named(server: str) -> str:
    """Return what a server is called in a sentence."""
    return f"MCP server {one_line(reveal(server))}"


def said(text: str, who: str = "") -> Iterator[str]:
    """Yield rows of foreign words, each marked; what is very long is cut, and says so."""
    mark = f"  {reveal(who)} │ " if who else "  │ "
    for row in reveal(text[:_SHOWN_CHARS_MAX]).splitlines():
        yield f"{mark}{row}"
    if (left_out := len(text) - _SHOWN_CHARS_MAX) > 0:
        yield f"{mark}… and {left_out:,} more characters"


def shown_text(blocks: Sequence[Block]) -> str:
    """Return what blocks hold: their texts, and of anything else what it is."""
    texts = [block.get("text") for block in blocks]
    return "\n".join(
        text if isinstance(text, str) else f"[{block.get('type')}]"
        for text, block in zip(texts, blocks, strict=True)
    )
