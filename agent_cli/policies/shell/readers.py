"""Find the words of a command that name files which its program reads.

A table of names and no proof: a program that is missing counts as reading nothing. Words are taken
as written, without quotes, so that a word of unknown value keeps its position.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Final

from agent_cli.policies.shell.programs import PROGRAMS
from agent_cli.system.loading import late_pattern
from agent_cli.system.records import dataclass

# Programs: options with a value that is no file; options with a file that is read; options that
# stand for the pattern or script that is otherwise the first operand, "none" if nothing does.
_TABLE: Final = """
cat bat batcat tac rev cut fold fmt paste column expand unexpand comm join cmp:
head tail nl od hexdump base64 base32 uniq md5sum sha1sum sha256sum sha512sum cksum sum b2sum:
zcat bzcat xzcat zstdcat gzcat less more zless most pr tsort:
sort shuf: -o --output -n; --files0-from
wc: ; --files0-from
diff colordiff sdiff: ; --from-file --to-file
xxd: -c -g -l -o -s -n
strings: -n -t -e
iconv: -f -t -o
split: -l -b -n -a -C
xargs: -I -n -P -L -d -s -E; -a --arg-file; none
openssl: -out -k -pass; -in
grep egrep fgrep zgrep rg ag ack: -A -B -C -m -e -g -t -T -M -d; -f --file; -e --regexp -f --files
sed gsed: -e -l; -f --file; -e --expression -f --file
awk gawk mawk nawk: -F -v -e; -f --file; -f --file -e
jq yq gojq: --indent; -f --from-file; -f --from-file
perl ruby: -e -E -M -I; ; -e -E
cp mv ln install rsync scp: -t -S -m -o -g -e
tar: -f --file -C --directory
zip: ; ; none
curl: ; -T --upload-file -K --config
git blame:
git diff --no-index:
"""
_WRITES_LAST: Final = frozenset({"cp", "mv", "ln", "install", "rsync", "scp"})
# Other words of these programs name no files.
_MARKS: Final[Mapping[str, re.Pattern[str]]] = MappingProxyType(
    {
        "dd": late_pattern("if="),
        "curl": late_pattern(r"(?:-[dF]|--data[\w-]*=|--form=)?(?:[\w-]+=)?[@<]"),
        **dict.fromkeys(("git show", "git cat-file"), late_pattern(r"(?!-)[^:]*:.*[$`]")),
    }
)
_PAIRS: Final = frozenset({"--arg", "--argjson", "--slurpfile", "--rawfile"})
_EACH_LINE: Final = late_pattern(r"-\w*[np]\w*")
_NO_OPTIONS: Final[frozenset[str]] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    values: frozenset[str] = _NO_OPTIONS
    files: frozenset[str] = _NO_OPTIONS
    instead: frozenset[str] = _NO_OPTIONS


def read_operands(name: str, words: Sequence[str]) -> Sequence[int]:
    """Return the positions of the *words* that name files which the program *name* reads."""
    name = _called(name, words)
    if name == "tar" and words:  # `tar xf` is `tar -xf`
        words = [f"-{words[0].removeprefix('-')}", *words[1:]]
    if name in ("perl", "ruby") and not any(map(_EACH_LINE.fullmatch, words)):
        return []
    found: list[int] = []
    if (reader := _readers().get(name)) is not None:
        operands, found, options = _sorted(reader, words)
        if reader.instead and options.isdisjoint(reader.instead):
            operands = operands[1:]
        if name in _WRITES_LAST and len(operands) > 1:
            operands = operands[:-1]
        found += [] if name in _MARKS else operands
    if mark := _MARKS.get(name):
        found += [at for at, word in enumerate(words) if mark.match(word)]
    return found


def is_reader(name: str) -> bool:
    """Return whether the program *name* reads files that its words name."""
    return name in _readers() or name in _MARKS or name == "git"


def _called(name: str, words: Sequence[str]) -> str:
    if name != "git":
        return name
    if "--no-index" in words:
        return "git diff --no-index"
    named = (word for at, word in enumerate(words) if words[at - 1 : at] not in (["-C"], ["-c"]))
    return f"git {next((word for word in named if not word.startswith('-')), '')}"


def _sorted(reader: _Reader, words: Sequence[str]) -> tuple[list[int], list[int], set[str]]:
    """Return the positions of operands and of options' files, and the options."""
    operands: list[int] = []
    files: list[int] = []
    options: set[str] = set()
    waiting = iter(range(len(words)))
    for at in waiting:
        word = words[at]
        if word == "--":
            operands += waiting
        elif word == "-" or not word.startswith("-"):
            operands.append(at)
        else:
            option, is_joined = _option(reader, word)
            options.add(option)
            if option in _PAIRS:
                next(waiting, None)
            if not is_joined and option in reader.values | reader.files | _PAIRS:
                at = next(waiting, at)
            if option in reader.files or option in ("--slurpfile", "--rawfile"):
                files.append(at)
    return operands, files, options


def _option(reader: _Reader, word: str) -> tuple[str, bool]:
    """Return the option of *word* that takes a value, and whether the value is joined to it."""
    whole, joined, _value = word.partition("=")
    known = reader.values | reader.files
    if word.startswith("--") or whole in known:
        return whole, bool(joined)
    for at, letter in enumerate(word[1:], 2):
        if f"-{letter}" in known:
            return f"-{letter}", at < len(word)
        if not letter.isalnum():
            break
    return word, False


@cache
def _readers() -> Mapping[str, _Reader]:
    found: dict[str, _Reader] = {}
    for line in _TABLE.strip().splitlines():
        names, _, options = line.partition(":")
        kinds = [frozenset(each.split()) for each in options.split(";")]
        values, files, instead = (*kinds, *[_NO_OPTIONS] * (3 - len(kinds)))
        for name in [names] if names.startswith("git ") else names.split():
            program = PROGRAMS.get(name)
            known = program.options.takes_value.items() if program else ()
            valued = values.union(option for option, takes in known if takes)
            found[name] = _Reader(values=valued - files, files=files, instead=instead)
    return found
