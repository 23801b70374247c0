"""What `rg` does for grep and glob, in plain Python, for where there is no ripgrep.

    python -I plain_search.py OPTION... -- PATH

A program of its own, because a regular expression of Python's can take for ever and only a process
can be stopped then. It takes the options grep and glob use and prints as ripgrep does; imports the
standard library and pathspec only, and is run by its path, so that starting it is quick.
"""

import codecs
import io
import os
import re
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import BinaryIO

from pathspec import GitIgnoreSpec

_FILE_BYTES_MAX = 20_000_000
_COLUMNS_MAX = 500
_LIFE_S = 60


@dataclass(frozen=True, slots=True)
class _Rules:
    """The ignore rules one directory adds for what is below it."""

    base: Path
    spec: GitIgnoreSpec


@dataclass(frozen=True, slots=True)
class _Options:
    path: Path
    regexp: str
    globs: tuple[str, ...]
    context: int
    ignore_case: bool
    files: bool
    files_with_matches: bool
    count: bool


def main(arguments: Sequence[str], output: BinaryIO) -> int:
    """Search; return 0 when something was found, 1 when not, 2 after a mistake."""
    options = _options(arguments)
    try:
        only = GitIgnoreSpec.from_lines(glob for glob in options.globs if glob[:1] != "!")
        without = GitIgnoreSpec.from_lines(glob[1:] for glob in options.globs if glob[:1] == "!")
    except (ValueError, re.error) as error:
        os.write(2, f"error parsing glob: {error}".encode())
        return 2
    files = [
        path
        for path in _walk(options.path)
        if (not len(only) or only.match_file(os.path.relpath(path)))
        and not without.match_file(os.path.relpath(path))
    ]
    if options.files:
        output.writelines(os.fsencode(path) + b"\0" for path in files)
        return 0 if files else 1
    try:
        regex = re.compile(options.regexp.encode(), re.IGNORECASE if options.ignore_case else 0)
    except re.error as error:
        os.write(2, f"regex parse error: {error}".encode())
        return 2
    found = False
    for path in sorted(files, key=_modified, reverse=True):
        for line in _search(path, regex, options):
            found = True
            output.write(line)
    return 0 if found else 1


def _options(arguments: Sequence[str]) -> _Options:
    """Read `--NAME` and `--NAME=VALUE`; what only changes how ripgrep prints is passed over."""
    # argparse would do, but it takes away a pattern that is "--".
    given = [argument.partition("=") for argument in arguments[:-2]]
    values = {name: value for name, _, value in given}
    return _Options(
        path=Path(arguments[-1]),
        regexp=values.get("--regexp", ""),
        globs=tuple(value for name, _, value in given if name == "--glob"),
        context=int(values.get("--context", "0")),
        ignore_case="--ignore-case" in values,
        files="--files" in values,
        files_with_matches="--files-with-matches" in values,
        count="--count" in values,
    )


def _walk(top: Path) -> Iterator[Path]:
    """Yield the files below *top* that are not ignored; symlinks are not followed."""
    if not top.is_dir():
        yield top
        return
    rules = [rule for folder in reversed(_parents_in_repository(top)) for rule in _rules(folder)]
    yield from _walk_folder(top, rules)


def _parents_in_repository(top: Path) -> list[Path]:
    """Return the folders above *top*, up to the one that holds the repository."""
    folder, above = top.resolve(), []
    while not (folder / ".git").exists():
        if folder.parent == folder:
            return []
        folder = folder.parent
        above.append(folder)
    return above


def _walk_folder(folder: Path, rules: list[_Rules]) -> Iterator[Path]:
    rules = [*rules, *_rules(folder)]
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return  # Not ours to look into.
    for entry in entries:
        path = folder / entry.name
        is_folder = entry.is_dir(follow_symlinks=False)
        if entry.name == ".git" or _is_ignored(path, rules, is_folder=is_folder):
            continue
        if is_folder:
            yield from _walk_folder(path, rules)
        elif entry.is_file(follow_symlinks=False):
            yield path


def _rules(folder: Path) -> Iterator[_Rules]:
    for name in (".git/info/exclude", ".gitignore", ".ignore"):
        path = folder / name
        try:
            # Opening a pipe would wait for somebody to write into it.
            text = path.read_text(errors="replace") if path.is_file() else ""
        except OSError:
            continue
        yield _Rules(folder.resolve(), _spec(text.splitlines()))


def _spec(lines: Sequence[str]) -> GitIgnoreSpec:
    """Return the rules in *lines*; ripgrep and git pass over those that are none, too."""
    try:
        return GitIgnoreSpec.from_lines(lines)
    except (ValueError, re.error):
        return GitIgnoreSpec.from_lines(filter(_is_rule, lines))


def _is_rule(line: str) -> bool:
    try:
        GitIgnoreSpec.from_lines([line])
    except (ValueError, re.error):
        return False
    return True


def _is_ignored(path: Path, rules: Sequence[_Rules], *, is_folder: bool) -> bool:
    """Whether the innermost rule about *path* leaves it out."""
    real = path.parent.resolve() / path.name
    for rule in reversed(rules):
        relative = real.relative_to(rule.base).as_posix() + ("/" if is_folder else "")
        verdict = rule.spec.check_file(relative).include
        if verdict is not None:
            return verdict
    return False


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _search(path: Path, regex: "re.Pattern[bytes]", options: _Options) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            content = file.read(_FILE_BYTES_MAX)
    except OSError:
        return
    if b"\0" in content:
        return
    lines = [line.rstrip(b"\n") for line in io.BytesIO(content.removeprefix(codecs.BOM_UTF8))]
    matches = [number for number, line in enumerate(lines) if regex.search(line)]
    name = os.fsencode(path) + b"\0"
    if not matches:
        return
    if options.files_with_matches:
        yield name
    elif options.count:
        yield name + b"%d\n" % len(matches)
    else:
        yield from _matching_lines(name, lines, matches, options.context)


def _matching_lines(
    name: bytes, lines: Sequence[bytes], matches: Sequence[int], context: int
) -> Iterator[bytes]:
    hits = set(matches)
    offsets = list(accumulate((len(line) + 1 for line in lines), initial=0))
    shown = {
        number
        for match in matches
        for number in range(max(0, match - context), min(len(lines), match + context + 1))
    }
    for number in sorted(shown):
        mark = b":" if number in hits else b"-"
        text = lines[number][:_COLUMNS_MAX]
        yield name + b"%d%b%d%b%b\n" % (number + 1, mark, offsets[number], mark, text)


if __name__ == "__main__":
    # Should nobody be left to stop us. No handler, so that it works in the middle of a match.
    signal.alarm(_LIFE_S)
    with open(1, "wb", closefd=False) as standard_output:
        sys.exit(main(sys.argv[1:], standard_output))
