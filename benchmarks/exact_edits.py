"""Exact edits at any cut of real files: the result must be the literal one, byte for byte.

    python -m benchmarks.exact_edits [SOURCE]... [--of=20000]

Sources are those of `benchmarks.edits`. Each case takes a real edit and quotes it with its lines
whole, without the indentation of the first one, from and to any character, or takes any other
piece of the file. The file has LF, CRLF or both, with and without a byte order mark; old and new
are quoted with the line ends of the file, or, of a file without mixed ones, with LF only.
Bar: every one right.
"""

import random
import sys
from collections import Counter
from pathlib import Path

from agent_cli_tools.diffs import diff
from agent_cli_tools.matching import Edit, NoMatch, apply_edits
from agent_cli_tools.textio import decode, encode
from benchmarks._cases import Case, cases_of
from benchmarks.edits import RECORDINGS

BOM = "\ufeff"
NEW_TEXTS = ("x", "", "\n", "x\ny", "    x\n", "x\n\ty\n", "\n\nclass A:\n    pass\n")
SHOWN_MAX = 3


def cut(case: Case, chance: random.Random) -> tuple[str, str, str]:
    """Return the file, and a text of it with its replacement."""
    text, old, new = case.text.replace("\r\n", "\n"), case.edit.old, case.edit.new
    start = text.find(old)
    kind = chance.randrange(4)
    if kind == 0 or start < 0:
        return text, old, new
    if kind == 1:
        return text, old.lstrip(" \t"), new.lstrip(" \t")
    if kind == 2:
        head, tail = chance.randrange(12), chance.randrange(12)
        return text, text[max(0, start - head) : start + len(old) + tail], chance.choice(NEW_TEXTS)
    first = chance.randrange(len(text))
    old = text[first : first + chance.randint(1, 120)]
    return text, old, chance.choice([*NEW_TEXTS, f"{old}x", old[1:], old.upper(), old * 2])


def with_ends(text: str, ends: str, chance: random.Random) -> str:
    if ends == "mixed":
        lines = text.split("\n")
        return "".join(line + chance.choice(["\n", "\r\n"]) for line in lines)
    return text.replace("\n", ends)


def literally(text: str, old: str, new: str) -> str | None:
    """Return the literal result; None if *old* does not stand there exactly once."""
    first = text.find(old)
    if not old or old == new or first < 0 or text.find(old, first + 1) >= 0:
        return None
    return text[:first] + new + text[first + len(old) :]


def outcome(case: Case, chance: random.Random) -> tuple[str, str]:
    """Return the kind of the case with its result, and what is wrong."""
    text, old, new = cut(case, chance)
    kind = chance.choice(["LF", "CRLF", "CRLF, quoted", "mixed, quoted"])
    has_bom = chance.random() < 0.2
    if kind == "mixed, quoted":
        # The piece of the mixed text itself; new has the ends that old has.
        text = with_ends(text, "mixed", chance)
        first = chance.randrange(len(text))
        # A quotation without the CR of its first LF is one with LF.
        first -= text[first - 1 : first + 1] == "\r\n"
        old = text[first : first + chance.randint(1, 120)]
        new = chance.choice([f"{old}x", old.upper(), "x", "", f"y{old}"])
        expected = literally(text, old, new)
    elif kind == "LF":
        expected = literally(text, old, new)
    else:
        expected = literally(text, old, new)
        expected = expected and expected.replace("\n", "\r\n")
        text = text.replace("\n", "\r\n")
        if kind == "CRLF, quoted":
            old, new = old.replace("\n", "\r\n"), new.replace("\n", "\r\n")
    if expected is None or "\n" not in text:
        return "", ""
    try:
        before, encoding = decode((BOM * has_bom + text).encode())
        result = encode(apply_edits(before, [Edit(old, new)]).text, encoding)
    except NoMatch as error:
        return f"{kind}: refused", str(error)
    if result == (BOM * has_bom + expected).encode():
        return f"{kind}: right", ""
    return f"{kind}: wrong", f"{old!r} -> {new!r}\n{diff(expected, result.decode()).text}"


def main() -> None:
    arguments = [argument for argument in sys.argv[1:] if not argument.startswith("--of=")]
    limits = [argument[5:] for argument in sys.argv[1:] if argument.startswith("--of=")]
    beside = [folder / RECORDINGS for folder in Path(__file__).parents]
    sources = arguments or [str(path) for path in beside if path.exists()][:1]
    cases = [case for source in sources for case in cases_of(source)]
    chance = random.Random(1)
    counts = Counter[str]()
    while counts.total() < int((limits or ["20000"])[0]):
        result, why = outcome(chance.choice(cases), chance)
        if result:
            counts[result] += 1
        if why and counts[result] <= SHOWN_MAX:
            print(f"  {result}: {why[:2000]}", file=sys.stderr)
    for name, count in sorted(counts.items()):
        print(f"{name:24} {count:6,}")
    print(f"{counts.total():,} exact edits")


if __name__ == "__main__":
    main()
