"""Find the files that a script reads although their names are known only when it runs.

For the rules that deny reading, where no sandbox hides files. What the text names is the task of
`named_paths`; here are the words about which the text says too little. Only programs that read
what they name count, or each `make $target` would be a question: a table of names and no proof,
since a program that is missing counts as reading nothing. What a program finds by itself, as
`grep -r` does, is not looked at.

For a sandbox that cannot hide a secret in a folder that may be written, scripts are recognised that
change files and yet read no secret: only what they name, if that. A link counts by where it leads
before the script; so once a copy or a move may have brought another one, nothing is read.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from agent_cli.policies.shell.assignments import Assignments, preset_values, script_in
from agent_cli.policies.shell.plain import SimpleCommand, Unknown, parse
from agent_cli.policies.shell.programs import PROGRAMS
from agent_cli.policies.shell.reach import Objection, Reach
from agent_cli.policies.shell.read_only import objections
from agent_cli.policies.shell.starters import STARTERS, base_name
from agent_cli.policies.shell.syntax import (
    NOT_WORDS,
    SCRIPT,
    descendants,
    opened_file,
    redirect_words,
    source,
    syntax_tree,
)
from agent_cli.policies.shell.words import NotLiteral, Word, has_glob, without_quotes
from agent_cli.system.loading import late_pattern
from agent_cli.system.records import dataclass

if TYPE_CHECKING:
    from tree_sitter import Node

_KNOWN_LATER: Final = "known only when it runs, so that rules that deny reading cannot be checked"
# The options, all without a value, with which a program reads and follows nothing else.
_OPTIONS_OF_CHANGES: Mapping[str, re.Pattern[str]] = MappingProxyType(
    {
        "mkdir": late_pattern(r"-[pv]+"),
        "rmdir": late_pattern(r"-[pv]+"),
        "touch": late_pattern(r"-[acm]+"),
        "rm": late_pattern(r"-[firRv]+"),
        "chmod": late_pattern(r"-[Rcfv]+"),
        "mv": late_pattern(r"-[finv]+"),
        "cp": late_pattern(r"-[afinprRv]+"),
    }
)
_BRINGS_LINKS = frozenset({"mv", "cp"})
_MODE_OF_CHMOD = late_pattern(r"[0-7]{3,4}|[ugoa]*[+=-][rwxX]+")
_DEPTH_MAX: Final = 4
_SHOWN_MAX: Final = 60
# With these a pattern matches other names than those that are looked up.
_OTHER_GLOBS: Final = late_pattern(r"dotglob|extglob|globstar|nocaseglob|GLOBIGNORE")
# Other users' homes, and folders that the shell was in.
_OTHER_FOLDER: Final = late_pattern(r"~(?!/|\+/|$)")
_CHANGES: Final = frozenset({"cd", "pushd", "chdir"})
_OWN_SHELLS: Final = frozenset({"subshell", "pipeline", "command_substitution"})
_ELSEWHERE: Final = frozenset({"ssh", "mosh", "docker", "podman", "kubectl", "lxc", "vagrant"})

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


def unknown_read(script: str, reach: Reach) -> str:
    """Return a clause about a file that *script* reads and whose name is not known; "" if none."""
    return next(_Script(script, preset_values(reach)).reasons(), "")


class _Script:
    """One script, or one inside of another."""

    def __init__(
        self,
        script: str,
        preset: Mapping[str, Sequence[str]],
        *,
        depth: int = 0,
        is_lost: bool = False,
        has_other_globs: bool = False,
    ) -> None:
        self._tree = syntax_tree(script)
        self._known = Assignments(self._tree, preset)
        self._preset, self._depth, self._is_lost = preset, depth, is_lost
        self._has_other_globs = has_other_globs or bool(_OTHER_GLOBS.search(script))
        self._lost = list(self._lost_folders())

    def reasons(self) -> Iterator[str]:
        for node in descendants(self._tree):
            if node.type == "command":
                yield from self._of_command(node, [*_words(node)])
            elif node.type == "redirected_statement" and (behind := [*_behind(node)]):
                # Words behind a redirect's destination belong to the command before it.
                yield from self._of_command(node, [*_words(node.children[0]), *behind])
            elif node.type == "file_redirect" and _is_read(node) and (file := opened_file(node)):
                yield from self._of_files("the redirect", [file], node)

    def _of_command(self, node: "Node", words: Sequence["Node"]) -> Iterator[str]:
        written = [without_quotes(source(word)) for word in words]
        name = base_name(written[0]) if written else ""
        if name in STARTERS and name not in _ELSEWHERE:
            yield from self._of_scripts(node, words[1:])
            begins = (at for at, word in enumerate(written) if _is_reader(base_name(word)))
            if (at := next(begins, None)) is None:
                return
            words, written = words[at:], written[at:]
            name = base_name(written[0])
        read = _read_operands(name, written[1:])
        yield from self._of_files(name, [words[at + 1] for at in read], node)

    def _of_files(self, name: str, words: Sequence["Node"], node: "Node") -> Iterator[str]:
        for word in words:
            texts = self._known.texts(word)
            shown = " ".join(source(word).split())[:_SHOWN_MAX]
            if texts is None or any(map(self._is_open, texts)):
                yield f"{name} reads {shown}, {_KNOWN_LATER}"
            elif self._is_lost_at(node) and any(map(_is_relative, texts)):
                yield f"{name} reads {shown} in a folder that is {_KNOWN_LATER}"

    def _is_open(self, text: str) -> bool:
        is_other_glob = self._has_other_globs and has_glob(text)
        return bool(is_other_glob or _OTHER_FOLDER.match(text))

    def _of_scripts(self, node: "Node", words: Sequence["Node"]) -> Iterator[str]:
        """Yield the reasons of the scripts among the *words* of a shell, `eval` or a wrapper."""
        if self._depth == _DEPTH_MAX:
            return
        for word in words:
            texts = self._known.texts(word) or [source(word)]
            for text in texts:
                if SCRIPT.search(inner := script_in(text)):
                    yield from self._inside(inner, node).reasons()

    def _inside(self, script: str, node: "Node") -> "_Script":
        return _Script(
            script,
            self._preset,
            depth=self._depth + 1,
            is_lost=self._is_lost_at(node),
            has_other_globs=self._has_other_globs,
        )

    def _lost_folders(self) -> Iterator[tuple[int, int]]:
        """Yield where the shell is in a folder that is not known: from which byte to which."""
        for node in descendants(self._tree):
            first, *words = [*_words(node)] if node.type == "command" else [node]
            if source(first) in _CHANGES and any(self._known.texts(each) is None for each in words):
                yield node.end_byte, _own_shell(node).end_byte

    def _is_lost_at(self, node: "Node") -> bool:
        lost_parts = (begin <= node.start_byte < end for begin, end in self._lost)
        return self._is_lost or any(lost_parts)


def _own_shell(node: "Node") -> "Node":
    """Return the part of the script in which a change of folder by *node* has an effect."""
    while node.parent is not None and node.type not in _OWN_SHELLS:
        node = node.parent
    return node


def _words(command: "Node") -> Iterator["Node"]:
    """Yield the words of a command, its name first."""
    for child in command.children:
        if child.type == "file_redirect":
            yield from redirect_words(child)[1:]
        elif child.type not in NOT_WORDS and child.is_named:
            yield child


def _behind(statement: "Node") -> Iterator["Node"]:
    for child in statement.children:
        if child.type == "file_redirect":
            yield from redirect_words(child)[1:]


def _is_read(redirect: "Node") -> bool:
    return any(child.type in ("<", "<>") for child in redirect.children)


def _is_relative(text: str) -> bool:
    bare = without_quotes(text)
    return bare not in ("", "-") and not bare.startswith(("/", "~/", "<("))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    values: frozenset[str] = _NO_OPTIONS
    files: frozenset[str] = _NO_OPTIONS
    instead: frozenset[str] = _NO_OPTIONS


def _read_operands(name: str, words: Sequence[str]) -> Sequence[int]:
    """Return the positions of the *words* that name files which the program *name* reads.

    Words are taken as written, without quotes, so that one of unknown value keeps its position.
    """
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


def _is_reader(name: str) -> bool:
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


def reads_no_secret(script: str, reach: Reach) -> bool:
    """Return whether *script* surely reads no secret, although it may change what it names."""
    commands = parse(script, reach.variables)
    if isinstance(commands, Unknown):
        return False
    if not all(isinstance(each, SimpleCommand) and each.words[0].text != "cd" for each in commands):
        return False
    may_be_other_links = has_changed = False
    for command, objection in objections(commands, reach):
        reads = objection is None
        name = command.words[0].text
        if (reads or name in _BRINGS_LINKS) and may_be_other_links:
            return False
        if reads:
            continue
        if not _changes_only_what_it_names(command, reach, may_expand=not has_changed):
            return False
        has_changed = True
        may_be_other_links = may_be_other_links or name in _BRINGS_LINKS
    return True


def _changes_only_what_it_names(command: SimpleCommand, reach: Reach, *, may_expand: bool) -> bool:
    words = command.words
    name, arguments = words[0].text, words[1:]
    allowed = _OPTIONS_OF_CHANGES.get(name)
    if allowed is None or command.after in ("|", "|&") or command.reads:
        return False
    operands = [each for each in arguments if each.glob or not each.text.startswith("-")]
    options = [each for each in arguments if each not in operands]
    if name == "chmod" and not (operands and _MODE_OF_CHMOD.fullmatch(operands.pop(0).text)):
        return False
    if any(each.unknown or (each.glob and not may_expand) for each in operands):
        return False
    if not all(allowed.fullmatch(each.text) for each in options):
        return False
    try:
        reach.check_program(name)
        return bool(operands) and _hold_no_secret(operands, reach)
    except (Objection, NotLiteral, OSError):
        return False


def _hold_no_secret(operands: Sequence[Word], reach: Reach) -> bool:
    """Return True.

    Raises:
        Objection: One of them is a secret, holds one, or lies outside the workspace.
    """
    folder = str(reach.root)
    for word in operands:
        for path in reach.expand(word, folder):
            if Path(reach.check_path(path, folder)).is_dir():
                reach.check_tree(path, folder)
    return True
