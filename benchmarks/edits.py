"""Real edits, exact and misquoted as models do: counts of correct, refused and wrong results.

    python -m benchmarks.edits [edits.jsonl.gz | git repository]... [--only=NAME] [--verbose]

Bar: none wrong; at least 99 % right where exactly one reading exists. A refusal counts as open
where other lines of the file differ from the quoted ones in indentation and blanks only, or where
two readings of the edit give different files (`benchmarks._readings`). "one parses" counts the open
edits of which a parser would accept one reading only: the edit tool knows no language. The second
share counts them as refused. Rows without a share have more than one reading for nearly every edit.
Without arguments, shared/data/edits.jsonl.gz beside the repository is read. Then speed: 50 edits of
a file of 1 MB, with LF, CRLF and both, a refusal, and `all`.
"""

import base64
import gzip
import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import islice
from pathlib import Path

from agent_cli_tools.diffs import diff
from agent_cli_tools.matching.edits import Edit, NoMatch, apply_edits
from agent_cli_tools.textio import decode, looks_binary
from benchmarks._distortions import DISTORTIONS, Distortion
from benchmarks._readings import by_grammar, readings

RECORDINGS = Path("shared", "data", "edits.jsonl.gz")
FILE_BYTES_MAX = 200_000
EDITS_OF_A_HISTORY_MAX = 2_000
EDITS_OF_A_FILE_MAX = 5
CONTEXT_LINES_MAX = 3
SHOWN_WRONG_MAX = 3
ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Case:
    """One edit of a text, and its result."""

    name: str
    text: str
    edit: Edit
    expected: str


def recorded(path: Path) -> Iterator[Case]:
    with gzip.open(path, "rt") as file:
        for line in map(json.loads, file):
            text, _ = decode(base64.b64decode(line["before_b64"]))
            for given in line["edits"]:
                edit = Edit(given["old_string"], given["new_string"], given["replace_all"])
                after = apply_edits(text, [edit]).text
                yield Case(line["id"], text, edit, after)
                text = after


def history(repository: Path) -> Iterator[Case]:
    """Yield changes of any commits, one edit each, with as much context as it needs."""
    chance = random.Random(1)
    commits = _git(repository, "rev-list", "--no-merges", "HEAD").split()
    changed = [entry for commit in commits for entry in _changed_files(repository, commit)]
    chance.shuffle(changed)
    hunks = (
        hunk
        for name, *blobs in changed
        for hunk in islice(_changes(name, repository, blobs, chance), EDITS_OF_A_FILE_MAX)
    )
    return islice(hunks, EDITS_OF_A_HISTORY_MAX)


def _changed_files(repository: Path, commit: str) -> Iterator[tuple[str, str, str]]:
    """Yield a name, the blob before and the blob after of each file that *commit* modifies."""
    for entry in _git(repository, "diff-tree", "-r", "--diff-filter=M", commit).splitlines():
        if entry.startswith(":"):
            _, _, before, after, rest = entry.split(maxsplit=4)
            yield f"{commit[:10]} {rest[2:]}", before, after


def _changes(
    name: str, repository: Path, blobs: Sequence[str], chance: random.Random
) -> Iterator[Case]:
    raws = [_blob(repository, blob) for blob in blobs]
    if any(looks_binary(raw) or len(raw) > FILE_BYTES_MAX for raw in raws):
        return
    before, after = (decode(raw)[0] for raw in raws)
    yield from _hunks(name, before, after, chance)


def _hunks(name: str, before: str, after: str, chance: random.Random) -> Iterator[Case]:
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    if "".join(old) != before or before.count("\n") < len(old) - 1:
        return
    for kind, a, a_end, b, b_end in SequenceMatcher(None, old, new).get_opcodes():
        if kind == "equal" or b_end - b > 200:
            continue
        context = chance.randint(0, CONTEXT_LINES_MAX)
        for around in range(context, context + 8):
            start, end = max(0, a - around), min(len(old), a_end + around)
            quoted = "".join(old[start:end])
            instead = "".join([*old[start:a], *new[b:b_end], *old[a_end:end]])
            is_only = before.find(quoted) == before.rfind(quoted)
            if is_only and quoted.strip() and quoted != instead:
                expected = "".join([*old[:start], instead, *old[end:]])
                yield Case(name, before, Edit(quoted, instead), expected)
                break


def _git(repository: Path, *arguments: str) -> str:
    command = ["git", "-C", str(repository), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _blob(repository: Path, blob: str) -> bytes:
    command = ["git", "-C", str(repository), "cat-file", "blob", blob]
    return subprocess.run(command, check=True, capture_output=True).stdout


def outcome(case: Case, distortion: Distortion) -> tuple[str, str]:
    """Return right, refused, wrong or "", with the reason; open and one parses: see above."""
    given = distortion.apply(case.edit.old, case.edit.new)
    exact = (case.edit.old, case.edit.new)
    same = given == exact if distortion.is_of_new else given and given[0] == exact[0]
    if given is None or (same and distortion.name != "none"):
        return "", ""
    if names_other_text(case, given[0], is_guess=distortion.is_guess):
        return "", ""
    edit = Edit(*given, case.edit.all)
    try:
        result = apply_edits(case.text, [edit]).text
    except NoMatch as error:
        has_bar = not (distortion.is_guess or distortion.has_readings)
        files = readings(case.text, *given) if has_bar else set[str]()
        if is_open(case) or len(by_grammar(case.name, case.text, files)) > 1:
            return "open", str(error)
        return ("one parses" if len(files) > 1 else "refused"), str(error)
    if result == case.text != case.expected:
        return "refused", "nothing to change"
    if result == case.expected:
        return "right", ""
    return "wrong", diff(case.expected, result).text


def names_other_text(case: Case, old: str, *, is_guess: bool) -> bool:
    """Return whether the distorted *old* is an exact text of another place, or a shorter one."""
    place = case.text.find(old)
    return place >= 0 and (
        is_guess
        or not old.strip()
        or case.edit.old.find(old.strip()) < 0
        or abs(place - case.text.find(case.edit.old)) > len(case.edit.old)
    )


def is_open(case: Case) -> bool:
    """Return whether other lines of the file are equal except for indentation and blanks."""
    lines = [line.strip() for line in case.text.replace("\r\n", "\n").split("\n")]
    old = [line.strip() for line in case.edit.old.replace("\r\n", "\n").strip("\n").split("\n")]
    return "\n".join(["", *lines, ""]).count("\n".join(["", *old, ""])) != 1


def quality(cases: list[Case], only: str | None, *, verbose: bool) -> None:
    print(f"{len(cases):,} edits")
    print(
        f"{'':34} {'right':>6} {'refused':>7} {'open':>5} {'one parses':>10} {'wrong':>5}  right of"
        " one reading, and with those of which one parses"
    )
    for distortion in DISTORTIONS:
        if only and only not in distortion.name:
            continue
        counts: Counter[str] = Counter()
        for case in cases:
            result, why = outcome(case, distortion)
            counts[result] += 1
            if (result == "wrong" and counts["wrong"] <= SHOWN_WRONG_MAX) or (
                verbose and result in {"wrong", "refused"} and not distortion.is_guess
            ):
                print(f"  {result}: {case.name}\n    {why}", file=sys.stderr)
        has_bar = not distortion.is_guess and not distortion.has_readings
        told = counts["right"] + counts["refused"] + counts["wrong"]
        shares = [counts["right"] / max(each, 1) for each in (told, told + counts["one parses"])]
        share = " ".join(f"{each:7.2%}" for each in shares)
        print(
            f"{distortion.name:34} {counts['right']:6} {counts['refused']:7}"
            f" {counts['open']:5} {counts['one parses']:10} {counts['wrong']:5}"
            f"  {share if told and has_bar else ''}",
            flush=True,
        )


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
    arguments = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
    only = next((a.removeprefix("--only=") for a in sys.argv if a.startswith("--only=")), None)
    beside = [folder / RECORDINGS for folder in Path(__file__).parents]
    paths = [Path(argument) for argument in arguments] or [p for p in beside if p.exists()][:1]
    for path in paths:
        print(path.name)
        cases = list(recorded(path) if path.is_file() else history(path))
        quality(cases, only, verbose="--verbose" in sys.argv)
    speed()


if __name__ == "__main__":
    main()
