"""Letters with marks and joined emoji (grapheme clusters) are passed over and deleted as a whole.

Imported before the first prompt: standard library, prompt_toolkit, and wcwidth, which that imports.
"""

from prompt_toolkit.buffer import Buffer
from wcwidth import grapheme_boundary_before, iter_graphemes


class ClusterBuffer(Buffer):
    """A buffer that deletes no part of a grapheme cluster."""

    def delete_before_cursor(self, count: int = 1) -> str:
        """Delete *count* characters before the cursor, and the rest of the first one's cluster."""
        start = max(self.cursor_position - count, 0)
        start = outside_cluster(self.text, start, came_from=self.cursor_position)
        return super().delete_before_cursor(self.cursor_position - start)

    def delete(self, count: int = 1) -> str:
        """Delete *count* characters behind the cursor, and the rest of the last one's cluster."""
        end = self.cursor_position + count
        end = outside_cluster(self.text, end, came_from=self.cursor_position)
        return super().delete(end - self.cursor_position)


def outside_cluster(text: str, cursor: int, *, came_from: int) -> int:
    """Return the position outside a cluster for *cursor*, in the direction of its movement."""
    if not 0 < cursor < len(text) or text[cursor].isascii():
        return cursor
    begin = grapheme_boundary_before(text, cursor + 1)
    if begin == cursor or cursor < came_from:
        return begin
    return begin + len(next(iter_graphemes(text, begin)))
