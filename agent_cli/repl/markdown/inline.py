"""Inline Markdown: emphasis, strong, strike-through, code, links.

A small part of CommonMark in one pass, linear in the text. Unknown syntax stays as it was typed, so
that no word is lost.
"""

import re
from bisect import bisect_right
from collections import defaultdict
from typing import Final

from agent_cli.repl.markdown.styles import Span, Spans, Theme, join_styles, linked
from agent_cli.system.records import dataclass

_TOKEN: Final = re.compile(
    r"""\\(?P<escaped>[!-/:-@\[-`{-~\n])
    | (?P<ticks>`+)
    | (?P<run>\*+|_+|~+)
    | (?P<open>!?\[)
    | (?P<close>\])
    | <(?P<auto>(?:https?://|mailto:)[^\s<>]*)>
    | (?P<url>https?://[^\s<>`*\]]*[^\s<>`*\].,:;!?'")])
    | &(?P<entity>amp|lt|gt|quot|nbsp|\#39);
    """,
    re.VERBOSE,
)
_TARGET: Final = re.compile(
    r"""\(\s*+
    (?: <(?P<angled>[^<>\n]*)> | (?P<bare>[^\s()]*+(?>(?:\([^\s()]*+\)[^\s()]*+)*)) )
    (?: \s++ (?P<title>"[^"\n]{0,200}"|'[^'\n]{0,200}'|\([^()\n]{0,200}\)) )?
    \s*+\)""",
    re.VERBOSE,
)
_UNFINISHED_TARGET: Final = re.compile(r"\]\([^\s()]*\Z")
# Only these: a numeric reference could bring back a control character that was filtered out.
_ENTITIES: Final = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "nbsp": " ", "#39": "'"}


@dataclass(slots=True)
class _Node:
    """A piece of text with its own style; matched marks lose characters."""

    text: str
    style: str = ""


@dataclass(slots=True)
class _Mark:
    """A run of `*`, `_` or `~` that may begin an emphasis."""

    node: int
    character: str
    count: int


def parse_inline(text: str, theme: Theme, *, base: str = "", provisional: bool = False) -> Spans:
    """Return *text* without its marks, with the styles they express.

    Args:
        base: The style of the whole text, such as a heading's.
        provisional: More text follows: marks open at the end are shown as if closed there, and a
            mark at the very end is not shown yet.
    """
    if provisional:
        text = text.rstrip("*_~`\\![")
        if _UNFINISHED_TARGET.search(text):
            text += ")"
    if not _TOKEN.search(text):
        return [(text, base)] if text else []
    return _Parser(text, theme, provisional).spans(base)


def beside(text: str, mark: re.Match[str]) -> tuple[str, str]:
    """Return the characters before and behind *mark* in *text*; a blank where *text* ends."""
    start, end = mark.span()
    return text[start - 1 : start] or " ", text[end : end + 1] or " "


def is_product(before: str, after: str) -> bool:
    """Return whether marks between *before* and *after* stay: 2*3*4 would be shown as 234.

    CommonMark has emphasis there.
    """
    return before.isdigit() and after.isdigit()


class _Parser:
    """The parser of one text; used once."""

    def __init__(self, text: str, theme: Theme, provisional: bool) -> None:
        self._text = text
        self._theme = theme
        self._provisional = provisional
        self._nodes: list[_Node] = []
        self._marks: list[_Mark] = []
        self._waiting: defaultdict[str, int] = defaultdict(int)  # marks per character
        self._brackets: list[int] = []
        self._started: defaultdict[int, list[str]] = defaultdict(list)  # node → styles
        self._ended: defaultdict[int, list[str]] = defaultdict(list)
        self._ticks: dict[int, list[int]] | None = None  # length of a run → start positions

    def spans(self, base: str) -> Spans:
        position = 0
        text = self._text
        while match := _TOKEN.search(text, position):
            if match.start() > position:
                self._nodes.append(_Node(text[position : match.start()]))
            position = self._take(match)
        if position < len(text):
            self._nodes.append(_Node(text[position:]))
        if self._provisional:
            self._close_marks()
        return self._styled(base)

    def _take(self, match: re.Match[str]) -> int:
        """Add the node for *match*; return the position behind it."""
        kind, found, end = match.lastgroup, match[match.lastgroup or 0], match.end()
        if kind == "ticks":
            return self._code(match.start(), match.end())
        if kind == "close":
            return self._link(match.end())
        if kind == "run":
            self._run(match)
        elif kind == "open":
            self._brackets.append(len(self._nodes))
            self._nodes.append(_Node(found))
        elif kind == "url":
            # Of `(https://a.example/Foo_(bar))` the inner bracket is part of the address.
            open_ones = found.count("(") - found.count(")")
            while open_ones > 0 and self._text[end : end + 1] == ")":
                open_ones, end = open_ones - 1, end + 1
            address = self._text[match.start() : end]
            self._nodes.append(_Node(address, self._url(address)))
        elif kind == "auto":
            self._nodes.append(_Node(found, self._url(found)))
        elif kind == "entity":
            self._nodes.append(_Node(_ENTITIES[found]))
        else:
            self._nodes.append(_Node(match[0] if self._theme.keeps_marks else found))
        return end

    def _code(self, start: int, end: int) -> int:
        ticks = self._text[start:end]
        close = self._closing_ticks(end, len(ticks))
        if close is None and not self._provisional:
            self._nodes.append(_Node(ticks))
            return end
        stop = len(self._text) if close is None else close
        content = self._text[end:stop]
        if self._theme.keeps_marks:
            content = f"{ticks}{content}{ticks}"
        elif content.startswith(" ") and content.endswith(" ") and not content.isspace():
            content = content[1:-1]
        self._nodes.append(_Node(content, self._theme.code))
        return stop if close is None else stop + len(ticks)

    def _closing_ticks(self, start: int, length: int) -> int | None:
        if self._ticks is None:
            self._ticks = defaultdict(list)
            for run in re.finditer("`+", self._text):
                self._ticks[len(run[0])].append(run.start())
        starts = self._ticks.get(length, [])
        index = bisect_right(starts, start - 1)
        return starts[index] if index < len(starts) else None

    def _link(self, end: int) -> int:
        """Show `[text](target)` as "text (target)"; anything else stays."""
        opened = self._brackets.pop() if self._brackets else None
        target = _TARGET.match(self._text, end) if opened is not None else None
        if opened is None or target is None:
            self._nodes.append(_Node("]"))
            return end
        address = target["angled"] if target["angled"] is not None else target["bare"]
        shown = "".join(node.text for node in self._nodes[opened + 1 :])
        self._nodes[opened].text = ""
        parts = [] if address in (shown, "") else [address]
        parts += [target["title"]] if target["title"] else []
        if address and not parts:
            self._restyle(opened + 1, self._url(address))
        elif parts:
            gap = [_Node(" (" if shown else "("), _Node(parts[0], self._url(parts[0]))]
            title = [_Node(f" {part}", self._theme.url) for part in parts[1:]]
            self._nodes += [*gap, *title, _Node(")")]
        return target.end()

    def _url(self, address: str) -> str:
        """Return the style of a text that is exactly *address*, so that no link text is misleading.

        A streaming address is not linked yet, because it changes with each character.
        """
        is_linked = self._theme.links and not self._provisional
        return linked(self._theme.url, address) if is_linked else self._theme.url

    def _restyle(self, first: int, style: str) -> None:
        for node in self._nodes[first:]:
            node.style = style

    def _run(self, match: re.Match[str]) -> None:
        """Close emphasis with a run of marks; its rest may open another."""
        run = match["run"]
        character, count = run[0], len(run)
        before, after = beside(self._text, match)
        inside_word = character == "_" or is_product(before, after)
        opens = not after.isspace() and not (inside_word and before.isalnum())
        closes = not before.isspace() and not (inside_word and after.isalnum())
        node = len(self._nodes)
        self._nodes.append(_Node(run))
        if character == "~" and count != 2:
            return
        while closes and count and self._waiting[character]:
            count -= self._close(character, count, node)
        if opens and count:
            self._marks.append(_Mark(node, character, count))
            self._waiting[character] += 1

    def _close(self, character: str, count: int, node: int) -> int:
        """Match the nearest mark of *character*; return the number of characters consumed."""
        while self._marks[-1].character != character:
            self._waiting[self._marks.pop().character] -= 1
        mark = self._marks[-1]
        used = 2 if mark.count >= 2 and count >= 2 else 1
        self._span(mark, used, node)
        if mark.count == 0:
            self._waiting[character] -= 1
            self._marks.pop()
        return used

    def _span(self, mark: _Mark, used: int, end: int) -> None:
        """Style the nodes between *mark* and *end*, and remove the marks' characters."""
        mark.count -= used
        style = self._theme.strong if used == 2 else self._theme.emphasis
        if mark.character == "~":
            style = self._theme.strike
        self._started[mark.node].append(style)
        self._ended[end].append(style)
        if not self._theme.keeps_marks:
            self._nodes[mark.node].text = self._nodes[mark.node].text[used:]
            if end < len(self._nodes):
                self._nodes[end].text = self._nodes[end].text[used:]

    def _close_marks(self) -> None:
        for mark in reversed(self._marks):
            while mark.count:
                self._span(mark, min(mark.count, 2), len(self._nodes))

    def _styled(self, base: str) -> Spans:
        if not self._started:
            return [(node.text, join_styles(base, node.style)) for node in self._nodes if node.text]
        spans: list[Span] = []
        active: defaultdict[str, int] = defaultdict(int)
        outer = base
        for index, node in enumerate(self._nodes):
            for style in self._ended.get(index, ()):
                active[style] -= 1
            if node.text:
                style = join_styles(outer, node.style)
                spans.append((node.text, style))
            changes = self._started.get(index)
            for style in changes or ():
                active[style] += 1
            if changes or index in self._ended:
                outer = base
                for style in sorted(active):
                    outer = join_styles(outer, style) if active[style] > 0 else outer
        return spans
