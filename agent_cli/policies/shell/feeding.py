"""Check programs that get file names from another: `find -exec`, and `xargs` behind a search.

The names are not in the text, but they are known: those that the search finds below its folders,
which are checked when the decision is made. What a script only shows is no list for another one.
"""

import re
from collections.abc import Collection, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from agent_cli.policies.shell.deleted_folders import FINDS, names_folder
from agent_cli.policies.shell.plain import SimpleCommand
from agent_cli.policies.shell.programs import PROGRAMS, ProgramArguments, check_operands, check_sed
from agent_cli.policies.shell.reach import Objection, Reach, Splitting
from agent_cli.policies.shell.readings import Reading
from agent_cli.policies.shell.searches import SEPARATOR, XARGS, removes
from agent_cli.policies.shell.starters import base_name
from agent_cli.policies.shell.syntax import descendants, source, syntax_tree
from agent_cli.policies.shell.words import Word, likely_word, text_of, words_of
from agent_cli.system.loading import late_pattern

if TYPE_CHECKING:
    from tree_sitter import Node

_LIMITS = late_pattern(r"-[nLP]\d{1,5}")
_NEVER_EMPTY = frozenset({"-r", "--no-run-if-empty"})
_ALONE = frozenset({"-0", "-r", "--null", "--no-run-if-empty"})
_NAMES_ONLY = {
    "rg": frozenset(
        [
            "-l",
            "-i",
            "-S",
            "-s",
            "-w",
            "-F",
            "-g",
            "-t",
            "-T",
            "-e",
            "-u",
            "-0",
            "--files",
            "--files-with-matches",
            "--files-without-match",
            "--glob",
            "--type",
            "--type-not",
            "--hidden",
            "--ignore-case",
            "--smart-case",
            "--fixed-strings",
            "--word-regexp",
            "--regexp",
            "--null",
        ]
    ),
    "grep": frozenset(
        [
            "-l",
            "-L",
            "-r",
            "-i",
            "-E",
            "-F",
            "-P",
            "-w",
            "-s",
            "-e",
            "-I",
            "-Z",
            "--include",
            "--exclude",
            "--exclude-dir",
            "--recursive",
            "--files-with-matches",
            "--ignore-case",
            "--null",
        ]
    ),
}
_LISTS = {
    "rg": frozenset({"-l", "--files", "--files-with-matches", "--files-without-match"}),
    "grep": frozenset({"-l", "-L", "--files-with-matches"}),
}
_GREP_FILTER = frozenset({"-v", "-i", "-E", "-F", "-w", "-e", "--invert-match", "--ignore-case"})

# The options of `fd` that run a command, that have a value, and that choose files by name.
_FD_FLAGS: Final = "-[HIuasigFlLpq0-9]*"
_FD_RUNS: Final = late_pattern(rf"{_FD_FLAGS}[xX](.*)|--exec(?:-batch)?(?:=(.*))?")
_FD_VALUE: Final = late_pattern(
    r"-[tdEcjSoC]|--(?:type|exclude|max-\w+|min-\w+|exact-depth|size|owner|color|changed-\w+|newer"
    r"|older|change-\w+-than|base-directory|search-path|path-separator|threads|ignore-file)"
)
_FD_NAMES: Final = late_pattern(rf"{_FD_FLAGS}e.*|--extension.*")
_FD_ALL: Final = late_pattern(r"[.^$*]*|\.\*")

SEARCHES_CONTENT: Final = frozenset({"grep", "egrep", "fgrep", "rg"})
"""They list lines, or files, by what these hold."""
_SEARCHES: Final = FINDS | SEARCHES_CONTENT
_HANDS_ON: Final = frozenset(
    {"command_substitution", "process_substitution", "variable_assignment"}
)
_MAY_BE_SCRIPTS: Final = frozenset({"string", "raw_string", "concatenation"})
_ONLY_SHOW: Final = frozenset({"head", "tail", "sort", "uniq", "wc", "cat", "less", "cut", "nl"})
_TO_FILE: Final = late_pattern(r"(?<!2)>(?!\s*/dev/null|&\d)")
# Names that end as the pattern says; a folder's content would be listed without its name.
_SOME_NAMES: Final = late_pattern(r"(?:\w[\w.-]*/)*(?:\w[\w.-]*)?[*?][\w.*?-]*\.\w+")
_LISTS_NAMES: Final = late_pattern(r"-[1trSdUXv]+")
_KEEPS_SOME: Final = late_pattern(
    r"sort(?: -[rnVu]+)*|(?:head|tail)(?: -n)? ?[-+]?\d+|[ef]?grep(?: -[vEiFwx]+)* [\w.-]+"
)
_REMOVES_NAMES: Final = late_pattern(r"xargs(?: -(?:r|t|n ?\d+))* rm(?: -[fv]+)*(?: --)?")
_HIDES_ERRORS: Final = late_pattern(r"\s2>\s*/dev/null(?=\s|$)")
# A pattern without a match may then be none at all, so that `ls` lists every name.
_NO_PLAIN_LIST: Final = late_pattern(
    r"[\"'\\$`(){}]|(?:^|[;&|\n]|\b(?:then|do|else))\s*\.\s|\b(?:shopt|BASHOPTS|function|alias|cd|pushd|popd|setopt|GLOBIGNORE|source)\b"
    # They take a list as xargs does.
    r"|\b(?:parallel|gxargs)\b"
)


def check_fed(words: Sequence[Word], sample: str, mark: str, reach: Reach, folder: str) -> None:
    """Accept a command that gets names in place of *mark*, or appended if there is none.

    Args:
        sample: A readable path that represents the names; "" if there may be none.

    Raises:
        Objection: It may do more than read the named files.
    """
    if not words:
        return  # xargs runs echo by default
    name = words[0].text
    reach.check_program(name)
    if any(mark in word.text and word.text != mark for word in words):
        raise Objection(f"{name} with names that are part of other words")
    if name == "sed" and sample:
        # No script begins with ./, but a file could be named s/a/b/e.
        sample = f"./{sample}"
    arguments = [Word(sample) if word.text == mark else word for word in words[1:]]
    if sample and mark not in [word.text for word in words]:
        arguments.append(Word(sample))
    if name == "echo":
        return
    if name == "sed":
        check_sed(arguments, reach, folder)
        return
    program = PROGRAMS.get(name)
    if program is None or program.no_folders or program.operands == "none":
        raise Objection(f"{name} may change the files it is given")
    if program.can_write or program.operands_max is not None:
        raise Objection(f"{name} can write to the files it is given")
    check_operands(name, program, arguments, reach, folder)


def check_xargs(
    arguments: Sequence[Word],
    upstream: Sequence[SimpleCommand] | None,
    reach: Reach,
    folder: str,
) -> None:
    """Accept `xargs` behind a search, with a command that only reads the found files.

    Raises:
        Objection: It may do more, or its names come from elsewhere.
    """
    words, mark, splitting = _options(arguments)
    if not upstream:
        raise Objection("xargs gets names from an unknown source")
    found, ends_in_nul = _search(upstream, reach, folder)
    if (splitting == "nul") != ends_in_nul:
        raise Objection("xargs splits names in another way than they are written")
    if splitting == "nul" and upstream[0].words[0].text == "find":
        splitting = "none"  # Each name begins with that of a folder.
    check_fed(words, found[0], mark, reach, folder)
    own = arguments[: len(arguments) - len(words)]
    if (
        words
        and _NEVER_EMPTY.isdisjoint(word.text for word in own)
        and mark not in [word.text for word in words]
    ):
        # Without any name xargs runs the command once: `grep -r x` then searches all below here.
        check_fed(words, "", mark, reach, folder)
    # Last: of many files, looking at all takes a second.
    for top in found:
        reach.check_found(top, folder, splitting)


def _options(arguments: Sequence[Word]) -> tuple[Sequence[Word], str, Splitting]:
    """Return the command, the mark for names, and how xargs splits its input into names."""
    words, mark = list(arguments), "{}"
    splits: set[Splitting] = {"blanks"}
    while words and words[0].text.startswith("-"):
        option = words.pop(0).text
        if option in ("-0", "--null"):
            splits.add("nul")
        if option in _ALONE or _LIMITS.fullmatch(option):
            continue
        if option.startswith("-I") and len(option) > 2:
            words.insert(0, Word(option[2:]))
            option = "-I"
        value = words.pop(0).text if words else ""
        if option in ("-n", "-L", "-P") and value.isdecimal():
            continue
        if option == "-I" and value in ("{}", "%", "@"):
            mark = value
            splits.add("lines")
        elif option == "-d" and value == "\\n":
            splits.add("exact lines")
        else:
            raise Objection(f"xargs {option} may do more than read")
    by_strength: Sequence[Splitting] = ("nul", "lines", "exact lines", "blanks")
    return words, mark, next(each for each in by_strength if each in splits)


def _search(upstream: Sequence[SimpleCommand], reach: Reach, folder: str) -> tuple[list[str], bool]:
    """Return the folders that a pipeline searches, and whether a NUL ends each name."""
    search, *filters = upstream
    for each in filters:
        if not _only_chooses(each):
            raise Objection(f"xargs gets names that {each.words[0].text} may have changed")
    name, arguments = search.words[0].text, search.words[1:]
    tops, nul = _searched(name, arguments)
    if nul and filters:
        raise Objection("xargs gets names that are cut apart")
    return [path for top in tops for path in reach.expand(top, folder)], nul


def _searched(name: str, arguments: Sequence[Word]) -> tuple[Sequence[Word], bool]:
    here = (Word("."),)
    if name == "find":
        return _found_by_find(arguments)
    if name == "git" and [word.text for word in arguments] in (["ls-files"], ["ls-files", "-z"]):
        return here, len(arguments) == 2
    if name in _NAMES_ONLY:
        line = PROGRAMS[name].options.sort(name, arguments)
        if line.options <= _NAMES_ONLY[name] and _LISTS[name] & line.options:
            nul = not line.options.isdisjoint({"-0", "-Z", "--null"})
            return _paths(name, line) or here, nul
    raise Objection("xargs gets names from something other than a search")


def _paths(name: str, line: ProgramArguments) -> Sequence[Word]:
    program = PROGRAMS[name]
    has_pattern = program.instead_of_pattern.isdisjoint(line.options)
    return line.operands[1:] if has_pattern else line.operands


def _found_by_find(arguments: Sequence[Word]) -> tuple[Sequence[Word], bool]:
    texts = [word.text for word in arguments]
    if any(text in ("-ls", "-exec", "-printf", "-print") for text in texts) or "," in texts:
        raise Objection("xargs gets more than names from find")
    expression = next(
        (at for at, text in enumerate(texts) if text.startswith("-") or text in ("!", "(")),
        len(texts),
    )
    nul = "-print0" in texts
    if nul and texts[-1] != "-print0":
        raise Objection("xargs gets more than names from find")
    return arguments[:expression] or (Word("."),), nul


def _only_chooses(command: SimpleCommand) -> bool:
    """Return whether *command* only selects lines of its input."""
    name, *texts = [word.text for word in command.words]
    if command.reads or any(word.glob for word in command.words):
        return False
    match name:
        case "head" | "tail":
            return bool(re.fullmatch(r"(?:-n ?-?\d+|-\d+)?", " ".join(texts)))
        case "sort":
            return set(texts) <= {"-u", "-r", "-ru", "-V"}
        case "uniq":
            return not texts
        case "grep":
            line = PROGRAMS["grep"].options.sort("grep", command.words[1:])
            has_pattern = "-e" not in line.options
            return line.options <= _GREP_FILTER and len(line.operands) == int(has_pattern)
        case _:
            return False


def searches_shown(script: str) -> Collection[tuple[str, Reading]]:
    """Return the searches, name and arguments, whose output *script* only shows."""
    shown, taken = set[tuple[str, Reading]](), set[tuple[str, Reading]]()
    for node in descendants(syntax_tree(script)):
        words = [*map(text_of, words_of(node))] if node.type == "command" else []
        if words and (name := base_name(words[0] or "")) in _SEARCHES:
            (taken if _is_handed_on(node) else shown).add((name, tuple(words[1:])))
        elif node.type in _MAY_BE_SCRIPTS and "|" in source(node):
            inner = likely_word(source(node)) or ""
            # A quote without an end is a text that holds itself.
            shown |= {*searches_shown(inner)} if len(inner) < len(source(node)) - 1 else set()
    return shown - taken


def _is_handed_on(node: "Node") -> bool:
    """Return whether another command, a file or a variable gets what the command *node* prints."""
    around = node.parent
    while around is not None:
        if around.type in _HANDS_ON:
            return True
        if around.type == "pipeline":
            last = around.children[-1]
            name = last.child_by_field_name("name")
            if node != last and not (name is not None and source(name) in _ONLY_SHOW):
                return True
        redirects = around.children[1:] if around.type == "redirected_statement" else ()
        if any(_TO_FILE.search(source(each)) for each in redirects):
            return True
        node, around = around, around.parent
    return False


def fd_removes_all(words: Sequence[str]) -> bool:
    """Return whether `fd` with *words* deletes its matches, and matches every file."""
    words = [word.strip("\"'") for word in words]
    runs = ((at, found) for at, word in enumerate(words) if (found := _FD_RUNS.fullmatch(word)))
    at, found = next(runs, (0, None))
    if found is None or not removes([*filter(None, found.groups()), *words[at + 1 :]]):
        return False
    own = words[:at]
    names = (
        word
        for before, word in zip(("", *own), own, strict=False)
        if not word.startswith("-") and not _FD_VALUE.fullmatch(before)
    )
    return not any(map(_FD_NAMES.fullmatch, own)) and bool(_FD_ALL.fullmatch(next(names, "")))


def lists_some(script: str, root: PurePath) -> bool:
    """Return whether each `xargs` in *script* deletes what `ls` lists of a pattern of files."""
    if not XARGS.search(script) or _NO_PLAIN_LIST.search(script):
        return False
    pipes = (each.split("|") for each in SEPARATOR.split(_HIDES_ERRORS.sub("", script)))
    return all(_removes_some(pipe, root) for pipe in pipes if any(map(XARGS.search, pipe)))


def _removes_some(pipe: Sequence[str], root: PurePath) -> bool:
    if len(pipe) < 2:  # it reads a file, or what the script reads
        return False
    first, *between, last = map(str.split, pipe)
    names = [word for word in first[1:] if not _LISTS_NAMES.fullmatch(word)]
    return (
        first[:1] == ["ls"]
        and bool(names)
        and all(map(_SOME_NAMES.fullmatch, names))
        and not any(names_folder(each, root) for each in names)
        and all(_KEEPS_SOME.fullmatch(" ".join(each)) for each in between)
        and _REMOVES_NAMES.fullmatch(" ".join(last)) is not None
    )
