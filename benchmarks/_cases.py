"""Real edits for benchmarks: recorded ones, and changes between two versions of files."""

import base64
import gzip
import json
import random
import subprocess
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import islice
from pathlib import Path

from agent_cli_tools.matching import Edit
from agent_cli_tools.textio import decode, looks_binary

FILE_BYTES_MAX = 200_000
EDITS_OF_A_SOURCE_MAX = 2_000
EDITS_OF_A_FILE_MAX = 5
CONTEXT_LINES_MAX = 3
LINES_MAX = 200
WITHOUT_LINE_END = 0.3
"""Share of the edits that quote their last line without its end."""


@dataclass(frozen=True, slots=True)
class Case:
    """One edit of a text, and its result."""

    name: str
    text: str
    edit: Edit
    expected: str

    @property
    def half(self) -> int:
        """The half of all cases that it belongs to, 1 or 2; all edits of a file to the same."""
        return 1 + zlib.crc32(self.name.encode()) % 2


def cases_of(source: str) -> list[Case]:
    """Return the edits of *source*: recordings, a git repository, or folders, `before=after`."""
    before, _, after = source.partition("=")
    if after:
        return list(_between(Path(before), Path(after)))
    path = Path(source)
    return list(_recorded(path) if path.is_file() else _history(path))


def _recorded(path: Path) -> Iterator[Case]:
    with gzip.open(path, "rt") as file:
        for line in map(json.loads, file):
            text, _ = decode(base64.b64decode(line["before_b64"]))
            for given in line["edits"]:
                edit = Edit(given["old_string"], given["new_string"], given["replace_all"])
                yield Case(line["id"], text, edit, after := _replaced(text, edit))
                text = after


def _replaced(text: str, edit: Edit) -> str:
    """Return *text* after an exact edit, without the measured code."""
    if "\r\n" in text:
        # In these recordings, such a file has no other endings.
        old, new = (
            part.replace("\r\n", "\n").replace("\n", "\r\n") for part in (edit.old, edit.new)
        )
        return text.replace(old, new)
    return text.replace(edit.old, edit.new) if edit.old else edit.new


def _between(before: Path, after: Path) -> Iterator[Case]:
    """Yield changes between the files of the same name in two folders."""
    chance = random.Random(1)
    names = sorted(
        path.relative_to(before)
        for path in before.rglob("*")
        if (after / path.relative_to(before)).is_file()
    )
    chance.shuffle(names)
    hunks = (
        hunk
        for name in names
        for hunk in _some_changes(
            f"{before.parent.name}/{name}",
            (before / name).read_bytes(),
            (after / name).read_bytes(),
            chance,
        )
    )
    yield from islice(hunks, EDITS_OF_A_SOURCE_MAX)


def _history(repository: Path) -> Iterator[Case]:
    """Yield changes of any commits, one edit each, with as much context as it needs."""
    chance = random.Random(1)
    commits = _git(repository, "rev-list", "--no-merges", "HEAD").split()
    changed = [entry for commit in commits for entry in _changed_files(repository, commit)]
    chance.shuffle(changed)
    hunks = (
        hunk
        for name, before, after in changed
        for hunk in _some_changes(name, _blob(repository, before), _blob(repository, after), chance)
    )
    return islice(hunks, EDITS_OF_A_SOURCE_MAX)


def _changed_files(repository: Path, commit: str) -> Iterator[tuple[str, str, str]]:
    """Yield a name, the blob before and the blob after of each file that *commit* modifies."""
    for entry in _git(repository, "diff-tree", "-r", "--diff-filter=M", commit).splitlines():
        if entry.startswith(":"):
            _, _, before, after, rest = entry.split(maxsplit=4)
            yield f"{commit[:10]} {rest[2:]}", before, after


def _some_changes(name: str, before: bytes, after: bytes, chance: random.Random) -> Iterator[Case]:
    if any(looks_binary(raw) or len(raw) > FILE_BYTES_MAX for raw in (before, after)):
        return
    hunks = _hunks(name, decode(before)[0], decode(after)[0], chance)
    yield from islice(hunks, EDITS_OF_A_FILE_MAX)


def _hunks(name: str, before: str, after: str, chance: random.Random) -> Iterator[Case]:
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    if "".join(old) != before or before.count("\n") < len(old) - 1:
        return
    for kind, a, a_end, b, b_end in SequenceMatcher(None, old, new).get_opcodes():
        if kind == "equal" or b_end - b > LINES_MAX:
            continue
        context = chance.randint(0, CONTEXT_LINES_MAX)
        for around in range(context, context + 8):
            start, end = max(0, a - around), min(len(old), a_end + around)
            quoted = "".join(old[start:end])
            instead = "".join([*old[start:a], *new[b:b_end], *old[a_end:end]])
            expected = "".join([*old[:start], instead, *old[end:]])
            if (
                chance.random() < WITHOUT_LINE_END
                and quoted.endswith("\n")
                and instead.endswith("\n")
            ):
                quoted, instead = (
                    text.removesuffix("\n").removesuffix("\r") for text in (quoted, instead)
                )
            is_only = before.find(quoted) == before.rfind(quoted)
            if is_only and quoted.strip() and quoted != instead:
                yield Case(name, before, Edit(quoted, instead), expected)
                break


def _git(repository: Path, *arguments: str) -> str:
    command = ["git", "-C", str(repository), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _blob(repository: Path, blob: str) -> bytes:
    command = ["git", "-C", str(repository), "cat-file", "blob", blob]
    return subprocess.run(command, check=True, capture_output=True).stdout
