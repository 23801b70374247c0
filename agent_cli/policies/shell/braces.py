"""Expand the braces of a word as bash does, before anything else in it: {a,b} and {1..9}."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise

from agent_cli.system.loading import late_pattern

_SEQUENCE = late_pattern(
    r"(?:(?P<first>-?\d{1,18})\.\.(?P<last>-?\d{1,18})|(?P<from>[A-Za-z])\.\.(?P<to>[A-Za-z]))"
    r"(?:\.\.(?P<step>-?\d{1,18}))?"
)
_MARKS = late_pattern(r"[{},]|\.\.(?!\})")
_NESTED_MAX = 50
_BRACES_MAX = 200


class TooManyWords(Exception):
    """The braces of a word stand for more words than are looked at."""

    def __init__(self) -> None:
        super().__init__("braces that stand for too many words")


def unbraced(source: str, *, words_max: int) -> Iterator[str]:
    """Yield the brace expansions of *source*, which has no quotes, in bash's order.

    Raises:
        TooManyWords: They are more than *words_max*, or nested too deep.
    """
    for count, word in enumerate(_unbraced(source, words_max, _NESTED_MAX)):
        if count >= words_max:
            raise TooManyWords
        yield word


def _unbraced(source: str, words_max: int, deeper: int) -> Iterator[str]:
    """Yield the expansions of the first braces of *source*, and of what stands behind them."""
    if (found := _first_braces(source)) is None:
        yield source
        return
    if not deeper:
        raise TooManyWords
    begin, end = found
    inside = source[begin + 1 : end]
    chosen: Iterable[str]
    if "," in inside:
        parts = _split(inside)
        chosen = (each for part in parts for each in _unbraced(part, words_max, deeper - 1))
    else:
        steps = _sequence(inside, words_max)
        if not steps and end + 1 == len(source):
            yield source
            return
        chosen = steps or [source[begin : end + 1]]
    rests = [*islice(_unbraced(source[end + 1 :], words_max, deeper - 1), words_max + 1)]
    for each in chosen:
        yield from (f"{source[:begin]}{each}{rest}" for rest in rests)


def _first_braces(source: str) -> tuple[int, int] | None:
    """Return where the first braces that bash looks into begin and end."""
    if source.count("{") > _BRACES_MAX:
        raise TooManyWords
    begin = source.find("{")
    while begin >= 0:
        is_plain = source[begin - 1 : begin] != "$" and (begin or source[1:2] != "}")
        if is_plain and (end := _closing(source, begin + 1)):
            return begin, end
        begin = source.find("{", begin + 1)
    return None


def _closing(source: str, at: int) -> int:
    """Return where the braces end that begin before *at*; 0 if they hold no comma and no range."""
    depth, parts = 0, 1
    for mark in _MARKS.finditer(source, at):
        match mark[0]:
            case "{":
                depth += 1
            case "}" if depth:
                depth -= 1
            case "}" if parts > 1:
                return mark.start()
            case "," | ".." if not depth:
                parts += 1
            case _:
                pass
    return 0


def _split(inside: str) -> Sequence[str]:
    """Return the parts of *inside* between the commas that are in no braces of it."""
    depth, commas = 0, [-1]
    for at, character in enumerate(inside):
        if character == "{":
            depth += 1
        elif character == "}" and depth:
            depth -= 1
        elif character == "," and not depth:
            commas.append(at)
    return [inside[begin + 1 : end] for begin, end in pairwise((*commas, len(inside)))]


def _sequence(inside: str, words_max: int) -> Sequence[str]:
    """Return what braces with *inside* stand for if it is a sequence, such as 1..9 or a..e..2."""
    found = _SEQUENCE.fullmatch(inside)
    if found is None:
        return ()
    written = (found["first"] or found["from"], found["last"] or found["to"])
    first, last = map(int, written) if found["first"] else map(ord, written)
    step = abs(int(found["step"] or 1)) or 1
    if abs(last - first) // step >= words_max:
        raise TooManyWords
    numbers = range(first, last + (1 if last >= first else -1), step if last >= first else -step)
    if not found["first"]:
        return [chr(number) for number in numbers]
    is_padded = any(re.match(r"-?0\d", each) for each in written)
    width = max(map(len, written)) if is_padded else 0
    return [f"{number:0{width}}" for number in numbers]
