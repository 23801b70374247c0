"""Typical misquotations by models; each turns an exact edit into a distorted one."""

import html
import json
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from agent_cli.system.alignment import common_start

Text: TypeAlias = Callable[[str], str]
Both: TypeAlias = Callable[[str, str], tuple[str, str] | None]
"""old and new → the same, distorted; None where it cannot be said of them."""


@dataclass(frozen=True, slots=True)
class Distortion:
    """A kind of misquotation.

    Attributes:
        apply: Distorts an edit.
        is_guess: The intention can only be guessed, so all must be refused.
        is_of_new: It changes new, and perhaps not old.
        has_readings: There are two different ones, except for some edits; the others must be
            refused. Without a bar of its own but that: none wrong.
    """

    name: str
    apply: Both
    is_guess: bool = False
    is_of_new: bool = False
    has_readings: bool = False


def _both(change: Text) -> Both:
    return lambda old, new: (change(old), change(new))


def _old(change: Text) -> Both:
    return lambda old, new: (change(old), new)


def _lines(change: Text, *, blank: bool = False) -> Text:
    def apply(text: str) -> str:
        body = text.removesuffix("\n")
        lines = [change(line) if blank or line.strip() else line for line in body.split("\n")]
        return "\n".join(lines) + text[len(body) :] if text else text

    return apply


def _numbered(form: str) -> Text:
    def apply(text: str) -> str:
        body = text.removesuffix("\n")
        lines = [form.format(number) + line for number, line in enumerate(body.split("\n"), 41)]
        return "\n".join(lines) + text[len(body) :] if text else text

    return apply


def _filled(old: str, new: str) -> tuple[str, str] | None:
    """Put blanks into blank lines, if all of them were empty."""
    if re.search(r"^[ \t]+$", f"{old}\n{new}", re.MULTILINE):
        return None
    fill = _lines(lambda line: line if line.strip() else "    ", blank=True)
    return fill(old), fill(new)


def _margin(text: str) -> str:
    """Return the indentation that all lines start with."""
    lines = [line for line in text.split("\n") if line.strip()]
    indents = [line[: len(line) - len(line.lstrip())] for line in lines]
    first, last = min(indents, default=""), max(indents, default="")
    return first[: common_start(first, last)]


def _dedent_both(old: str, new: str) -> tuple[str, str] | None:
    """Remove the margin common to all lines of both."""
    margin = _margin(f"{old}\n{new}")
    strip = _lines(lambda line: line.removeprefix(margin))
    return (strip(old), strip(new)) if margin else None


def _dedent_old(old: str, new: str) -> tuple[str, str] | None:
    margin = _margin(old)
    return (_lines(lambda line: line.removeprefix(margin))(old), new) if margin else None


def _indent(change: Text) -> Text:
    """Change the indentation of each line that is not blank."""

    def apply(line: str) -> str:
        body = line.lstrip(" \t")
        return change(line[: len(line) - len(body)]) + body

    return _lines(apply)


def _with_indentation(change: Text) -> Both:
    """Distort spaces only if there are no tabs, so that nothing is lost."""

    def apply(old: str, new: str) -> tuple[str, str] | None:
        margins = re.findall(r"^[ \t]+", f"{old}\n{new}", re.MULTILINE)
        if any("\t" in margin for margin in margins):
            return None
        if any(len(margin) % 4 for margin in margins):
            return None
        return _indent(change)(old), _indent(change)(new)

    return apply


def _expanded(old: str, new: str) -> tuple[str, str] | None:
    """Write tabs as spaces if none follows a space, so that nothing is lost."""
    if re.search(r"^[ \t]* \t", f"{old}\n{new}", re.MULTILINE):
        return None
    expand = _indent(lambda indent: indent.replace("\t", "    "))
    return expand(old), expand(new)


def _first_line(part: float) -> Both:
    """Cut this part of the first line's indentation off both."""

    def apply(old: str, new: str) -> tuple[str, str] | None:
        indent = old[: len(old) - len(old.lstrip(" \t"))]
        cut = indent[: round(len(indent) * part)]
        return (old.removeprefix(cut), new.removeprefix(cut)) if cut else None

    return apply


def _dedent_half(old: str, new: str) -> tuple[str, str] | None:
    """Remove half of the margin common to all lines of both."""
    margin = _margin(f"{old}\n{new}")
    half = margin[: len(margin) // 2]
    strip = _lines(lambda line: line.removeprefix(half))
    return (strip(old), strip(new)) if half else None


def _cut(old: str, new: str, start: int, end: int) -> tuple[str, str] | None:
    """Cut common characters off both ends, so that both begin and end in mid-line."""
    if not start + end or start + end >= len(old):
        return None
    return old[start : len(old) - end], new[start : len(new) - end]


def _common_ends(old: str, new: str) -> tuple[str, str]:
    """Return what the first lines have in common at their start, and the last at their end."""
    head = common_start(old, new)
    tail = min(common_start(old[::-1], new[::-1]), min(len(old), len(new)) - head)
    return old[:head].split("\n", maxsplit=1)[0], old[len(old) - tail :].rsplit("\n", maxsplit=1)[
        -1
    ]


def _cut_in_middle(old: str, new: str) -> tuple[str, str] | None:
    head, tail = _common_ends(old, new)
    return _cut(old, new, (len(head) + 1) // 2, (len(tail) + 1) // 2)


def _cut_to_first_letter(old: str, new: str) -> tuple[str, str] | None:
    """Start behind the first letter of the first line."""
    letter = re.match(r"[ \t]*\S", _common_ends(old, new)[0])
    return _cut(old, new, letter.end(), 0) if letter else None


def _cut_behind_first_letter(old: str, new: str) -> tuple[str, str] | None:
    """End behind the first letter of the last line."""
    line = old.removesuffix("\n").split("\n")[-1]
    letter = re.match(r"[ \t]*\S", line)
    tail = common_start(old[::-1], new[::-1])
    end = len(line) - letter.end() + old.endswith("\n") if letter else 0
    return _cut(old, new, 0, end) if end <= tail else None


def _curly(text: str) -> str:
    text = re.sub(r'"([^"\n]*)"', "“\\1”", text)
    return re.sub(r"(?<=\w)'(?=\w)", "’", text)


def _curled(change: Both) -> Both:
    """Change quotes only if all are straight, so that nothing is lost."""
    return lambda old, new: None if re.search("[“”„‘’]", old + new) else change(old, new)


def _straight(text: str) -> str:
    return text.translate(str.maketrans("“”„‘’", '"""\'\''))


def _straightened(old: str, new: str) -> tuple[str, str] | None:
    """Change quotes only if all are curly, so that nothing is lost."""
    return None if re.search("[\"']", old + new) else (_straight(old), _straight(new))


def _fenced(opening: str) -> Both:
    def fence(text: str) -> str:
        return f"{opening}\n{text}{'' if text.endswith(chr(10)) else chr(10)}```"

    # A fence ends in a newline, so it hides which of the two texts had one.
    return lambda old, new: (
        (fence(old), fence(new))
        if new != "\n" and (old.endswith("\n") == new.endswith("\n") or not new)
        else None
    )


def _fenced_plainly(old: str, new: str) -> tuple[str, str]:
    """Put each text between two lines, whether or not it ends in a newline."""
    return f"```\n{old}\n```", f"```\n{new}\n```"


def _dropped_newline(old: str, new: str) -> tuple[str, str] | None:
    # A blank line that is dropped at the end is an edit like any other.
    is_told = old.endswith("\n") and new.strip("\n") and not new.endswith("\n\n")
    return (old, new.removesuffix("\n")) if is_told else None


def _dropped_newlines(old: str, new: str) -> tuple[str, str] | None:
    is_told = all(re.search(r"[^\n]\n\Z", text) for text in (old, new))
    return (old[:-1], new[:-1]) if is_told else None


def _in_middle(change: Callable[[list[str]], list[str] | None]) -> Both:
    """Change the lines between the first and the last of old."""

    def changed(old: str, new: str) -> tuple[str, str] | None:
        lines = old.removesuffix("\n").split("\n")
        middle = change(lines[1:-1]) if len(lines) > 2 else None
        if middle is None or middle == lines[1:-1]:
            return None
        return "\n".join([lines[0], *middle, lines[-1]]) + "\n" * old.endswith("\n"), new

    return changed


def _without_one(lines: list[str]) -> list[str] | None:
    texts = [index for index, line in enumerate(lines) if line.strip()]
    return [line for index, line in enumerate(lines) if index != texts[0]] if texts else None


def _json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _newlines(*, in_strings: bool) -> Both:
    """Escape the newlines, of texts that have such escapes of their own, or of others."""
    escape = _both(lambda text: text.replace("\n", "\\n"))
    return lambda old, new: escape(old, new) if ("\\n" in old + new) == in_strings else None


def _wrong_word(text: str) -> str:
    return re.sub(r"[A-Za-z]{3,}", "zqxzq", text, count=1)


def _swapped(lines: list[str]) -> list[str] | None:
    return [lines[1], lines[0], *lines[2:]] if len(lines) > 1 else None


def _blanks_and_indent(old: str, new: str) -> tuple[str, str] | None:
    dedented = _dedent_both(old, new)
    return dedented and (_ADD_BLANKS(dedented[0]), _ADD_BLANKS(dedented[1]))


_ADD_BLANKS = _lines(lambda line: f"{line}  ")

DISTORTIONS = (
    Distortion("none", _both(str)),
    Distortion("line numbers, tab", _both(_numbered("{}\t"))),
    Distortion("line numbers, padded", _both(_numbered("{:6}\t"))),
    Distortion("line numbers, arrow", _both(_numbered("{:6}→"))),
    Distortion("line numbers, 12:", _both(_numbered("{}:"))),
    Distortion("line numbers, 12: and a blank", _both(_numbered("{}: "))),
    Distortion("line numbers, 12|", _both(_numbered("{}|"))),
    Distortion("line numbers, 12 | ", _both(_numbered("{:4} | "))),
    Distortion("line numbers, old alone", _old(_numbered("{:6}\t"))),
    Distortion("CRLF", _both(lambda text: text.replace("\n", "\r\n"))),
    Distortion("CRLF, old alone", _old(lambda text: text.replace("\n", "\r\n"))),
    Distortion("curly quotes", _curled(_both(_curly))),
    Distortion("curly quotes, old alone", _curled(_old(_curly))),
    Distortion("straight quotes for curly", _straightened),
    Distortion("straight quotes for some", _both(_straight), has_readings=True),
    Distortion("dashes for hyphens", _both(lambda text: text.replace(" - ", " – "))),
    Distortion("hyphens for dashes", _both(lambda text: re.sub("[–—]", "-", text))),
    Distortion("ellipsis for dots", _both(lambda text: re.sub(r"(?<=\S)\.\.\.", "…", text))),
    Distortion("no-break spaces", _both(lambda text: text.replace(", ", ",\u00a0"))),
    Distortion("NFD", _both(lambda text: unicodedata.normalize("NFD", text))),
    Distortion("NFD, old alone", _old(lambda text: unicodedata.normalize("NFD", text))),
    Distortion("blanks at line ends", _both(_ADD_BLANKS)),
    Distortion("blanks at line ends, old alone", _old(_ADD_BLANKS)),
    Distortion("blanks at all line ends", _both(_lines(lambda line: f"{line} ", blank=True))),
    Distortion("no blanks at line ends", _both(_lines(str.rstrip, blank=True)), has_readings=True),
    Distortion("blank lines filled", _filled),
    Distortion("dedented", _dedent_both),
    Distortion("dedented, old alone", _dedent_old, has_readings=True),
    Distortion("dedented, blanks at line ends", _blanks_and_indent),
    Distortion("indented by 2", _both(_lines(lambda line: f"  {line}"))),
    Distortion("indented by 4", _both(_lines(lambda line: f"    {line}"))),
    Distortion(
        "indented by 4, old alone", _old(_lines(lambda line: f"    {line}")), has_readings=True
    ),
    Distortion("tabs for spaces", _with_indentation(lambda s: s.replace("    ", "\t"))),
    Distortion("spaces for tabs", _expanded),
    Distortion(
        "indentation halved",
        _with_indentation(lambda s: s[: len(s) // 2]),
        has_readings=True,
    ),
    Distortion("indentation doubled", _with_indentation(lambda s: s * 2), has_readings=True),
    Distortion(
        "indentation 4 to 3",
        _with_indentation(lambda s: s[: len(s) * 3 // 4]),
        has_readings=True,
    ),
    Distortion("first line stripped", _first_line(1)),
    Distortion("first line half-stripped", _first_line(0.5)),
    Distortion("half-stripped", _dedent_half),
    Distortion("cut in mid-line", _cut_in_middle),
    Distortion("cut: starts behind a line's first letter", _cut_to_first_letter),
    Distortion("cut: ends behind a line's first letter", _cut_behind_first_letter),
    Distortion("final newline dropped in new", _dropped_newline, is_of_new=True),
    Distortion("final newline dropped in both", _dropped_newlines),
    Distortion("code fence", _fenced("```")),
    Distortion("code fence, language", _fenced("```python")),
    Distortion("code fence, plain", _fenced_plainly, has_readings=True),
    Distortion("blank lines around", _both(lambda text: f"\n{text}\n")),
    Distortion("HTML escapes", _both(html.escape)),
    Distortion("doubled backslashes", _both(lambda text: text.replace("\\", "\\\\"))),
    Distortion("JSON escapes", _both(_json)),
    Distortion("JSON escapes, quotes", _both(lambda text: text.replace('"', '\\"'))),
    Distortion("JSON escapes, newlines", _newlines(in_strings=False)),
    Distortion("JSON escapes, newlines and \\n", _newlines(in_strings=True), has_readings=True),
    Distortion("… in the middle", _in_middle(lambda _lines: ["…"]), is_guess=True),
    Distortion("a wrong word", _old(_wrong_word), is_guess=True),
    Distortion("a missing line", _in_middle(_without_one), is_guess=True),
    Distortion("lines swapped", _in_middle(_swapped), is_guess=True),
)
