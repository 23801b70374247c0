"""Real edits, exact and misquoted as models do: counts of correct, refused and wrong results.

    python -m benchmarks.edits [SOURCE]... [--only=NAME] [--half=1|2] [--of=EDITS] [--verbose]

A source is a file like edits.jsonl.gz, a git repository, or two folders with two versions of the
same files, `before=after`. `--half` takes the edits of half the files: tune with one half, look at
the other once.

Bar: none wrong; at least 98 % right where exactly one reading exists; every refusal names lines.
An `old` that stands in the file exactly once is literally replaced, so where a distortion leaves
it so, the literal result is the right one; "literal" counts those that differ from the undistorted
edit, "told" those of them of which the answer says so. A refusal counts
as open where other lines of the file differ from the quoted ones in indentation and blanks only, or
where two readings of the edit give different files (`benchmarks._readings`). "one parses" counts
the open edits of which a parser would accept one reading only: the edit tool knows no language. The
second share counts them as refused. Rows without a share have more than one reading for nearly
every edit. Without arguments, shared/data/edits.jsonl.gz beside the repository is read. Then speed:
50 edits of a file of 1 MB, with LF, CRLF and both, a refusal, and `all`.
"""

import random
import re
import sys
import time
from collections import Counter
from pathlib import Path

from agent_cli_tools.diffs import diff
from agent_cli_tools.matching import Edit, NoMatch, apply_edits
from agent_cli_tools.misfits import slips
from benchmarks._cases import Case, cases_of
from benchmarks._distortions import DISTORTIONS, Distortion
from benchmarks._readings import by_grammar, readings

RECORDINGS = Path("shared", "data", "edits.jsonl.gz")
SHOWN_WRONG_MAX = 3
ROUNDS = 5
_LINE = re.compile(r"lines? \d")


def outcome(
    case: Case, distortion: Distortion, worth: Counter[tuple[str, str]] | None = None
) -> tuple[str, str]:
    """Return right, literal, refused, wrong or "", with the reason; for the others, see above.

    Count in *worth*, for each repair made, what came of it.
    """
    given = distortion.apply(case.edit.old, case.edit.new)
    exact = (case.edit.old, case.edit.new)
    same = given == exact if distortion.is_of_new else given and given[0] == exact[0]
    if given is None or not given[0] or (same and distortion.name != "none"):
        return "", ""
    if not given[0].strip() or (distortion.is_guess and given[0] in case.text):
        return "", ""
    edit = Edit(*given, case.edit.all)
    literal = literally_replaced(case.text, edit)
    try:
        edited = apply_edits(case.text, [edit])
    except NoMatch as error:
        if literal is not None:
            return "wrong", f"refused, although old stands there once: {error}"
        if not _LINE.search(str(error)):
            return "wrong", f"a refusal without lines: {error}"
        return refused(case, given, distortion), str(error)
    result = edited.text
    worth = worth if worth is not None else Counter()
    for repair in edited.repairs[0] if result != case.text else ():
        is_right = result in {case.expected, literal}
        worth[re.sub(r"[\d(].*", "", repair).strip(), "right" if is_right else "wrong"] += 1
    if result == case.expected and literal in {None, result}:
        return "right", ""
    if literal is not None:
        told = "told" if slips(case.text, edited.text, [edit]) else "literal"
        return (told, "") if result == literal else ("wrong", diff(literal, result).text)
    if result == case.text:
        return "refused", "nothing to change"
    return "wrong", diff(case.expected, result).text


def literally_replaced(text: str, edit: Edit) -> str | None:
    """Return *text* with *edit* made literally; None if `old` does not stand there once."""
    old, new = edit.old, edit.new
    if "\r\n" in text:
        # Of the files here, none with CRLF has other line ends.
        old, new = (part.replace("\r\n", "\n").replace("\n", "\r\n") for part in (old, new))
    first = text.find(old)
    if first < 0 or (not edit.all and text.find(old, first + 1) >= 0):
        return None
    return text.replace(old, new)


def refused(case: Case, given: tuple[str, str], distortion: Distortion) -> str:
    """Return the kind of a refusal."""
    has_bar = not (distortion.is_guess or distortion.has_readings)
    files = readings(case.text, *given) if has_bar else set[str]()
    if is_open(case) or len(by_grammar(case.name, case.text, files)) > 1:
        return "open"
    if case.text.count(given[0]) > 1:
        # What is left of the quotation stands in several places.
        return "open"
    return "one parses" if len(files) > 1 else "refused"


def is_open(case: Case) -> bool:
    """Return whether other lines of the file are equal except for indentation and blanks."""
    lines = [line.strip() for line in case.text.replace("\r\n", "\n").split("\n")]
    old = [line.strip() for line in case.edit.old.replace("\r\n", "\n").strip("\n").split("\n")]
    return "\n".join(["", *lines, ""]).count("\n".join(["", *old, ""])) != 1


COLUMNS = ("right", "literal", "told", "refused", "open", "one parses", "wrong")


def quality(cases: list[Case], only: str | None, *, verbose: bool) -> None:
    print(
        f"{len(cases):,} edits\n{'':42}", *COLUMNS, " right of one reading, and of one that parses"
    )
    total = Counter[str]()
    worth = Counter[tuple[str, str]]()
    for distortion in DISTORTIONS:
        if only and only not in distortion.name:
            continue
        counts = Counter[str]()
        for case in cases:
            result, why = outcome(case, distortion, worth)
            counts[result] += 1
            if (result == "wrong" and (verbose or counts["wrong"] <= SHOWN_WRONG_MAX)) or (
                verbose and result in {"one parses", "refused"} and not distortion.is_guess
            ):
                print(f"  {result}: {case.name}\n    {why}", file=sys.stderr)
        total += counts
        _print_row(
            distortion.name, counts, has_bar=not (distortion.is_guess or distortion.has_readings)
        )
    _print_row("all", total, has_bar=False)
    print(f"{sum(total[each] for each in COLUMNS):,} distorted edits; repairs:")
    for repair in sorted({name for name, _ in worth}):
        print(f"  {repair:40} right {worth[repair, 'right']:6} wrong {worth[repair, 'wrong']:4}")


def _print_row(name: str, counts: Counter[str], *, has_bar: bool) -> None:
    right = sum(counts[each] for each in ("right", "literal", "told"))
    told = right + counts["refused"] + counts["wrong"]
    shares = [right / max(each, 1) for each in (told, told + counts["one parses"])]
    cells = " ".join(f"{counts[each]:{len(each)}}" for each in COLUMNS)
    share = " ".join(f"{each:7.2%}" for each in shares)
    print(f"{name:42} {cells}  {share if told and has_bar else ''}", flush=True)


def speed() -> None:
    lines = [f"    value_{n} = compute({n}, 'some text', other={n * 7})" for n in range(18_000)]
    text = "\n".join(lines) + "\n"
    print(f"\na file of {len(text) / 1e6:.2f} MB")
    edits = [Edit(lines[n * 300] + "\n", f"    changed_{n} = 1\n") for n in range(50)]
    _timed("50 exact edits (bar: 0.3 s)", text, edits)
    edits = [Edit(f"  {lines[n * 300]}\n", f"  {lines[n * 300]}  # {n}\n") for n in range(50)]
    _timed("50 repaired edits (bar: 0.3 s)", text, edits)
    crlf = text.replace("\n", "\r\n")
    _timed("50 repaired edits, CRLF (bar: 0.3 s)", crlf, edits)
    _timed("50 repaired edits, CRLF but for one (bar: 0.3 s)", crlf[:-2] + "\n", edits)
    _timed("a refusal (bar: 0.3 s)", text, [Edit(f"{lines[9_000]} # more\n", "")])
    _timed(
        "a refusal of many lines (bar: 0.3 s)", text, [Edit("\n".join([*lines[90:200], "x"]), "")]
    )
    for count in (4, 8):
        _timed(
            f"all: {count / 8:.2f} MB of commas", "a,b\n" * (count * 32_000), [Edit(",", ";", True)]
        )
    _timed("100 KB of equal lines", "x\n" * 50_000, [Edit("x", "y", True)])


def _timed(name: str, text: str, edits: list[Edit]) -> None:
    """Print the shortest of some times, diff included; the machine may be busy."""
    times_s: list[float] = []
    outcome = ""
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        try:
            diff(text, apply_edits(text, edits).text)
        except NoMatch:
            outcome = " (refused)"
        times_s.append(time.perf_counter() - begun)
    print(f"{name}: {min(times_s):.3f} s{outcome}")


def main() -> None:
    sources = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
    options: dict[str, str] = {}
    for argument in sys.argv[1:]:
        if argument.startswith("--"):
            name, _, value = argument[2:].partition("=")
            options[name] = value
    beside = [folder / RECORDINGS for folder in Path(__file__).parents]
    cases = [
        case
        for source in sources or [str(path) for path in beside if path.exists()][:1]
        for case in cases_of(source)
        if str(case.half) == options.get("half", str(case.half))
    ]
    random.Random(1).shuffle(cases)
    quality(
        cases[: int(options.get("of", len(cases)))],
        options.get("only"),
        verbose="verbose" in options,
    )
    speed()


if __name__ == "__main__":
    main()
