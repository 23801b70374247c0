"""Rank tools by how well they fit a query: BM25 over their names, titles and descriptions.

Words are compared by their stems and without accents, and names are split at capitals, digits and
punctuation. Parameters count a little: "url" finds a tool that takes one.
"""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from typing import Final

from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import Tool
from agent_cli.system.loading import late_pattern
from agent_cli.system.shapes import is_object

# Chinese, Japanese and Korean have no spaces: there each character counts.
_ALONE: Final = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD: Final = late_pattern(rf"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[{_ALONE}]|[^\W\d_A-Za-z{_ALONE}]+")
_NAME: Final = late_pattern(r"[\w.-]+")
_FILLING: Final = (
    "a an and any are as at be by can do for from how i in is it its me my of on or our please"
    " some that the their then there these this to tool use using want what where which will"
    " with you your"
)
# A query's word is often another than the name's.
_ALIKE: Final = (
    ("create", "add", "new", "make", "insert"),
    ("delete", "remove", "drop", "erase", "forget"),
    ("update", "edit", "change", "modify", "set"),
    ("change", "diff"),
    ("get", "read", "fetch", "retrieve", "show", "view", "details"),
    ("list", "all", "enumerate"),
    ("search", "find", "query", "look"),
    ("run", "execute", "start", "launch", "evaluate"),
    ("stop", "cancel", "abort"),
    ("open", "navigate", "go", "visit"),
    ("send", "post"),
    ("reply", "answer"),
    ("picture", "image", "photo", "screenshot"),
    ("log", "history"),
)
_SHORT_FORMS: Final = {
    "config": "configuration",
    "db": "database",
    "dir": "directory",
    "doc": "document",
    "env": "environment",
    "folder": "directory",
    "info": "information",
    "js": "javascript",
    "msg": "message",
    "org": "organization",
    "repo": "repository",
}
_ALIKE_WEIGHT: Final = 0.4
_EXACT: Final = 1e6  # more than any sum of word scores
_PLURALS: Final = (
    *(("ies", "y"), ("ied", "y"), ("sses", "ss"), ("xes", "x"), ("ches", "ch"), ("shes", "sh")),
    *(("ss", "ss"), ("us", "us"), ("is", "is"), ("s", "")),
)
_ROOT_MIN: Final = {"ing": 3, "ed": 3, "ment": 5, "ion": 4}
_SHORT, _LONG = 3, 6

# BM25: the usual values; descriptions differ in length for reasons that say little.
_SATURATION, _LENGTH = 1.2, 0.6
_NAME_WEIGHT, _SERVER_WEIGHT, _TITLE_WEIGHT, _DESCRIPTION_WEIGHT = 3.0, 1.5, 2.0, 1.0
_PARAMETER_WEIGHT, _PARAMETER_TEXT_WEIGHT = 0.5, 0.2
_USUAL_NAME, _NAME_LENGTH = 3, 0.8
_DESCRIPTION_WORDS_MAX: Final = 80


class ToolIndex:
    """The words of some tools, for queries."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        """Read the words of *tools*."""
        self._tools = tools
        self._counts = [_weights(tool) for tool in tools]
        self._lengths = [sum(counts.values()) for counts in self._counts]
        self._usual_length = sum(self._lengths) / len(tools) if tools else 1.0
        self._holders = Counter(word for counts in self._counts for word in counts)

    def best(self, query: str, limit: int) -> list[Tool]:
        """Return at most *limit* tools that have words of *query*, the best first."""
        weights = _expanded(_stems(query))
        named = {name.lower() for name in _NAME.findall(query)}
        scored: list[tuple[float, str, Tool]] = []
        for tool, counts, length in zip(self._tools, self._counts, self._lengths, strict=True):
            score = sum(
                weight * self._score(word, counts[word], length) for word, weight in weights.items()
            )
            if named & {tool.name.lower(), own_name(tool).lower()}:
                score += _EXACT
            if score > 0:
                scored.append((-score, tool.name, tool))
        return [tool for _, _, tool in sorted(scored, key=lambda each: each[:2])[:limit]]

    def _score(self, word: str, count: float, length: float) -> float:
        if not count:
            return 0.0
        holders = self._holders[word]
        rarity = math.log(1 + (len(self._tools) - holders + 0.5) / (holders + 0.5))
        norm = 1 - _LENGTH + _LENGTH * length / self._usual_length
        return rarity * count * (_SATURATION + 1) / (count + _SATURATION * norm)


def own_name(tool: Tool) -> str:
    """Return the name of a server's tool without its prefix, "mcp__server__"."""
    return tool.name.split("__", 2)[-1]


def server_of(tool: Tool) -> str:
    """Return the name of a tool's server, as its label has it."""
    return tool.label.partition(":")[0]


def _weights(tool: Tool) -> Counter[str]:
    """Return word → how much it counts for *tool*."""
    found: Counter[str] = Counter()
    title = tool.label.partition(":")[2]
    name = set(_stems(own_name(tool)))
    schema = tool.parameters if isinstance(tool.parameters, dict) else {}
    parts: Iterable[tuple[float, Iterable[str]]] = (
        (_name_weight(name), name),
        (_SERVER_WEIGHT, set(_stems(server_of(tool)))),
        (_TITLE_WEIGHT, set(_stems(title))),
        (_DESCRIPTION_WEIGHT, _stems(tool.description)[:_DESCRIPTION_WORDS_MAX]),
        (_PARAMETER_WEIGHT, {stem for name in _parameters(schema) for stem in _stems(name)}),
        (_PARAMETER_TEXT_WEIGHT, {stem for text in _texts(schema) for stem in _stems(text)}),
    )
    for weight, stems in parts:
        for stem in stems:
            found[stem] += weight  # type: ignore[assignment]  # a Counter of floats
    return found


def _name_weight(stems: Collection[str]) -> float:
    """Return the weight of each word of a name: "list_issues" is all about listing issues."""
    return _NAME_WEIGHT * math.pow(_USUAL_NAME / max(len(stems), 1), _NAME_LENGTH)


def _parameters(schema: dict[str, Json]) -> Iterator[str]:
    properties = schema.get("properties")
    if is_object(properties):
        yield from properties


def _texts(schema: dict[str, Json]) -> Iterator[str]:
    properties = schema.get("properties")
    if is_object(properties):
        for each in properties.values():
            if is_object(each) and isinstance(text := each.get("description"), str):
                yield text


def _expanded(stems: Sequence[str]) -> dict[str, float]:
    """Return word → weight: the words of a query, and their synonyms."""
    weights = {stem: _ALIKE_WEIGHT for word in stems for stem in _alike().get(word, frozenset())}
    return weights | dict.fromkeys(stems, 1.0)


@lru_cache
def _alike() -> dict[str, frozenset[str]]:
    groups = [frozenset(_stem(word) for word in group) for group in _ALIKE]
    alike: dict[str, frozenset[str]] = {}
    for group in groups:
        alike |= {word: alike.get(word, frozenset()) | group for word in group}
    return alike


def _stems(text: str) -> list[str]:
    """Return the stems of the words of *text*; filling words are left out."""
    plain = "".join(
        each for each in unicodedata.normalize("NFKD", text) if not unicodedata.combining(each)
    )
    words = (word.lower() for word in _WORD.findall(plain))
    return [_stem(word) for word in words if word not in _filling()]


@cache
def _filling() -> frozenset[str]:
    return frozenset(_FILLING.split())


@lru_cache(maxsize=50_000)
def _stem(word: str) -> str:
    """Return an English *word* without the endings of its forms: "queries", "created", "deletion".

    The result need not be a word; only equal stems matter.
    """
    for ending, rest in _PLURALS:
        if word.endswith(ending) and len(word) > len(ending) + 1:
            word = word.removesuffix(ending) + rest
            break
    for ending in ("ing", "ed", "ment", "ion"):
        root = word.removesuffix(ending)
        if root != word and len(root) >= _ROOT_MIN[ending] and re.search("[aeiouy]", root):
            is_doubled = len(root) > _SHORT and re.search(r"([bdgklmnprt])\1$", root)
            word = root[:-1] if is_doubled else root
            break
    if word in _SHORT_FORMS:
        return _stem(_SHORT_FORMS[word])
    word = word.removesuffix("e") if len(word) > _SHORT else word
    return word.removesuffix("at") if len(word) > _LONG else word
