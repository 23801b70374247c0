"""Find the texts that a script writes: prints, feeds, assigns, or puts in a file that it then runs.

Which files a script runs is known by what its commands name: a shell or an interpreter that is
given the file, the file's own path, its name where the script sets PATH, a program that runs files
of such names by itself, as `make` does, or a pattern or a variable, which may be any file. Scripts
within it are part of it: one may write what another runs.
"""

import re
import shlex
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Final

from agent_cli.policies.shell.assignments import script_in
from agent_cli.policies.shell.entered_folders import LEADS_UP, OWN_NAMES, with_own_folder
from agent_cli.policies.shell.foreign_code import (
    CODE_OPTION,
    LINE_EDITORS,
    code_of,
    is_of_windows,
    starts_code,
)
from agent_cli.policies.shell.readings import Reading, readings
from agent_cli.policies.shell.run_files import RUN_BY_NAME, RUN_OPTION, FileKind
from agent_cli.policies.shell.starters import base_name, is_shell
from agent_cli.policies.shell.syntax import (
    descendants,
    document,
    opened_file,
    source,
    syntax_tree,
)
from agent_cli.policies.shell.words import has_glob, likely_word, literals_in, unescaped, unquoted
from agent_cli.system.loading import late_pattern

if TYPE_CHECKING:
    from tree_sitter import Node

_PRINTS: Final = frozenset({"echo", "printf"})
_VALUE_PRINTED: Final = late_pattern(r"%[-+ #0]*[\d*]*(?:\.\d+)?([a-zA-Z%])")
_FILLED_MAX: Final = 100  # of a format that is used again for more values
_WRITES: Final = late_pattern(
    r">|\b(?:tee|sponge|dd|install|stdin|ed|ex|sed|open|writeFile\w*|inplace|perl)\b"
)
# They write what they read to a file that they are given.
_KEEP_INPUT: Final = frozenset({"tee", "sponge", "dd", "install", "cp", "ed", "ex"})
_UNPACKS: Final = frozenset({"gunzip", "gzip", "unxz", "xz", "bunzip2", "bzip2", "unzstd", "zstd"})
# A here-document in which bash puts values before it is written, and the name of such a value.
_IS_FILLED: Final = late_pattern(r"<<-?\s*[^\s'\"\\<-]")
_PUT_IN: Final = late_pattern(r"(?<!\\)(?:\\\\)*\$\{?[!#]?(\w+)", re.ASCII)
_QUOTE: Final = late_pattern(r"[\"']")
_RUN_FILES: Final = frozenset({"source", "."})
_SOURCED: Final = frozenset({("source",), (".",)})
_OPTION: Final = late_pattern(r"[-+]")
_SHELL_SETTING: Final = late_pattern(r"[-+]\w*[oO]")
_ANY_FILE: Final = "*"  # that is run, of which the name is not known
_CODE_FOLLOWS: Final = late_pattern(r"-[a-zA-Z]*c")
_START_FILES: Final = frozenset({"--rcfile", "--init-file"})
_KEEPS_NAMES: Final = frozenset({"cat", "tee", "mkdir", "chmod", "echo", "bash", "sh", "dash"})
_SETS_START_FILE: Final = late_pattern(r"\b(?:BASH_)?ENV\b")
_SETS_PATH: Final = late_pattern(r"\bPATH\+?=")
_COPIES: Final = (("mv",), ("cp",), ("ln",), ("install",), ("rsync",), ("dd",), ("scp",))
_LOADS: Final = late_pattern(r"\b(?:import|require|load)\b")
_VERSION: Final = late_pattern(r"-?[\d.]+$")
_FILE_OF_CODE: Final = late_pattern(r"-\w*[fE](.*)|--file(?:=(.*))?")
_FILE_OF_TASKS: Final = late_pattern(r"-[cft](.*)|--(?:(?:make|just|task)?file|conf)(?:=(.*))?")
_START_FILE: Final = late_pattern(r"\b(?:BASH_)?ENV=[\"']?([\w./-]+)")
_MAKEFILES: Final = late_pattern(r"\bMAKEFILES\+?=[\"']?([\w./ -]+)")
_REDIRECTS_ALL: Final = late_pattern(r"(?<![\w-])exec\s*\d*[>&]")
_PARTS_OF_SED: Final = late_pattern(r"(?<!\\)[/|#,@\n]|(?<=[ai])\s+|\\\n?")
_FUNCTION: Final = late_pattern(r"(?<![^\s;&|(){}])([^\s;&|(){}]+)\s*\(\s*\)")
_OF_DD: Final = late_pattern(r"[io]f=")
_FILE_OF_WINDOWS: Final = late_pattern(r".*\.(?:bat|cmd|ps1)", re.IGNORECASE | re.DOTALL)
_SWITCH_OF_WINDOWS: Final = late_pattern(r"/\w")
# What an interpreter reads, and does not run, if it is given some file.
_DATA: Final = late_pattern(
    r".*\.(?:md|rst|txt|html?|json|ya?ml|toml|ini|cfg|csv|tsv|log|sql|xml)", re.IGNORECASE
)


# Cached: a decision asks for those of the same script, and of its parts, several times.
@lru_cache(maxsize=64)
def texts_in(script: str) -> Sequence[str]:
    """Return each text that *script* prints, feeds to a command or assigns."""
    return [*_texts(script)]


def _texts(script: str) -> Iterator[str]:
    for words in [each for each in readings(script) if each and each[0] in _PRINTS]:
        known = ["$_" if word is None else word for word in words[1:]]
        printed = [word.replace(r"\n", "\n").replace(r"\t", "\t") for word in known]
        yield from (" ".join(printed), *printed)
        if None in words:  # each may be nothing, too
            yield " ".join(word for word in printed if word != "$_")
        if any("\\" in word or "%" in word for word in known):
            yield _as_printed(words[0] or "", known)
    yield from documents(script)
    for words in filter(starts_code, readings(script)):
        yield from chain.from_iterable(map(_printed_by_code, code_of(words)))
    for node in descendants(syntax_tree(script)):
        if node.type == "variable_assignment":
            # An alias of git begins with a mark.
            yield (likely_word(source(node).partition("=")[2]) or "").removeprefix("!")
        elif node.type == "string" and (command := node.parent) and "$" in source(node):
            is_printed = source(command).partition(" ")[0] in _PRINTS
            yield from (script_in(source(node)),) if is_printed else ()


def _printed_by_code(code: str) -> Iterator[str]:
    """Yield what *code* of an interpreter may print, or write: its texts of several words."""
    texts = chain(literals_in(code), _PARTS_OF_SED.split(code))
    yield from (each for each in map(unescaped, texts) if " " in each and each != code)


def _as_printed(name: str, words: Sequence[str]) -> str:
    """Return what `echo` or `printf` prints for *words*: escapes resolved, values put in."""
    if name == "echo":
        return " ".join(map(unescaped, words))
    written, *values = words[2:] if words[:1] == ["-v"] else words
    each_value = iter(values)
    found, times = "", len(values) or 1
    for _ in range(min(times, _FILLED_MAX)):
        found += _VALUE_PRINTED.sub(
            lambda each: "%" if each[1] == "%" else next(each_value, ""), unescaped(written)
        )
        if not _VALUE_PRINTED.search(written):
            break
    return found


def documents(script: str) -> Iterator[str]:
    """Yield the here-documents and here-strings of *script*."""
    for node in descendants(syntax_tree(script)):
        if node.type == "herestring_redirect":
            yield "".join(map(_text_of, node.named_children))
        elif node.type == "heredoc_body":
            yield document(node)


def _text_of(word: "Node") -> str:
    """Return the text of *word*, as far as it is written there."""
    text = likely_word(source(word)) if word.type == "ansi_c_string" else None
    return unquoted(source(word)) if text is None else text


def files_run(
    scripts: Sequence[str], within: Sequence[str] = ()
) -> Iterator[tuple[str, FileKind, bool]]:
    """Yield each text that the first of *scripts*, or one within it, writes to a file that it runs.

    And what runs it, and whether it is whole: nothing is put in before it is written. The scripts
    *within* such files run and write, too.
    """
    script, seen = scripts[0], readings(scripts[0])
    kinds = defaultdict[str, set[FileKind]](set)
    for each in (script, *within) if any(map(_WRITES.search, scripts)) else ():
        for path, of_path in _files_started(readings(each), each).items():
            kinds[path.rpartition("/")[2]] |= of_path
    if not kinds:
        return
    scripts, patterns = (*scripts, *within), [*filter(has_glob, kinds)]
    named, done = _run_as_named(seen, script), set[tuple[str, ...]]()
    nodes = [*chain.from_iterable(descendants(syntax_tree(each)) for each in scripts)]
    # From the end on: a file may be made of one that was written before.
    for node in reversed(nodes):
        opened = opened_file(node) if node.type == "file_redirect" else None
        if opened is None or ">" not in source(node):
            continue
        path = _plain_path(_QUOTE.sub("", source(opened)))
        if not (of_path := _kinds_of(path, kinds, patterns)):
            continue
        part = source(_statement_around(node))
        if _REDIRECTS_ALL.search(part) or part.partition(" ")[0] in _functions(script):
            part = script
        for each in _files_read(part) if (part, "", *of_path) not in done else ():
            patterns += [each] if has_glob(each) and each not in kinds else []
            kinds[each] |= of_path
        done.add((part, "", *of_path))
        for kind in of_path:
            if (part, path, kind) not in done:
                done.add((part, path, kind))
                yield from _as_run(part, [path], kind, named)
    each_written = (_written_by_programs(readings(each), each) for each in (script, *within))
    paths = defaultdict[tuple[str, FileKind], dict[str, None]](dict)
    for part, path in chain.from_iterable(each_written):
        for kind in _kinds_of(path, kinds, patterns):
            paths[part, kind][path] = None
    for (part, kind), written in paths.items():
        yield from _as_run(part, [*written], kind, named)


def _written_by_programs(seen: Sequence[Reading], script: str) -> Iterator[tuple[str, str]]:
    """Yield each file that a program of *script* may write, behind the part with what it writes."""
    for words in filter(None, seen):
        part, named = script, words[1:]
        if starts_code(words):
            part = shlex.join(filter(None, words))
            literals = chain.from_iterable(map(literals_in, code_of(words)))
            named = tuple(each for each in (*named, *literals) if each and " " not in each)
        elif base_name(words[0] or "") not in _KEEP_INPUT:
            continue
        for path in {_plain_path(_OF_DD.sub("", each)) for each in named if each}:
            yield part, path


# Cached: it is asked for each redirection.
@lru_cache(maxsize=8)
def _functions(script: str) -> Set[str]:
    return {*_FUNCTION.findall(script)}


# Cached: a part may have many redirections.
@lru_cache(maxsize=8)
def _files_read(part: str) -> Collection[str]:
    """Return the names of files that *part* of a script may copy: any that a program is given."""
    found = dict[str, None]()
    for words in dict.fromkeys(readings(part)):
        is_editor = words and LINE_EDITORS.fullmatch(base_name(words[0] or ""))
        if words and (is_editor or not (starts_code(words) or is_shell(words[0]))):
            found |= dict.fromkeys(filter(None, words[1:]))
    for node in descendants(syntax_tree(part)) if "<" in part else ():
        opened = opened_file(node) if node.type == "file_redirect" else None
        if opened is not None and "<" in source(node):
            found[_QUOTE.sub("", source(opened))] = None
    return {each.rpartition("/")[2] for each in found}


def _kinds_of(
    path: str, kinds: Mapping[str, Set[FileKind]], patterns: Sequence[str]
) -> Set[FileKind]:
    """Return what runs the file *path*, by the *kinds* of each name, of which some are *patterns*.

    They are few, and looking for them each time took a tenth of a judgement.
    """
    name = path.rpartition("/")[2]
    found: set[FileKind] = {*kinds.get(name, ())}
    if not {"$", "`"}.isdisjoint(name):
        found |= {"shell", *chain.from_iterable(kinds.values())}
    for pattern in (each for each in patterns if each != _ANY_FILE):
        found |= kinds[pattern] if fnmatchcase(name, pattern) else set()
    found |= {
        each for each in kinds.get(_ANY_FILE, ()) if each == "shell" or not _DATA.fullmatch(name)
    }
    return found


def _statement_around(redirect: "Node") -> "Node":
    """Return the statement of *redirect*, which may stand behind the mark of a heredoc."""
    node = redirect
    while node.parent is not None and node.type != "redirected_statement":
        node = node.parent
    return node


def _as_run(
    part: str, paths: Sequence[str], kind: FileKind, named: Collection[str]
) -> Iterator[tuple[str, FileKind, bool]]:
    """Yield each text in *part*, the script in any of *paths*, with the folder for `dirname $0`.

    And as it is, unless it surely runs as that path, as those that are *named* do.
    """
    put_in = {*_PUT_IN.findall(part)} if _IS_FILLED.search(part) else set[str]()
    runs_as_named = put_in.isdisjoint(OWN_NAMES)
    sets = re.compile(rf"(?<![$\{{\w])(?:{'|'.join(put_in) or '(?!)'})\b")
    for text in dict.fromkeys(texts_in(part)):
        first = text.lstrip().partition("\n")[0] if text.lstrip()[:2] == "#!" else ""
        is_code = kind == "shell" and any(starts_code((word,)) for word in first[2:].split())
        is_whole = not sets.search(text)
        # A hundred paths may be written; most texts are the same in all of them.
        for path in paths if "$(" in text else paths[:1]:
            known, is_sure = with_own_folder(text, path), runs_as_named and path in named
            for each in (known,) if is_sure or known == text else (known, text):
                yield each, "code" if is_code else kind, is_whole


def _files_started(seen: Sequence[Reading], script: str) -> Mapping[str, Set[FileKind]]:
    """Return the files that *seen*, of *script*, run, also by a former name, and what runs them."""
    found = defaultdict[str, set[FileKind]](set)
    by_name = _SETS_PATH.search(script) is not None
    for words in reversed(seen):
        if words[:1] in _COPIES:
            named = [_plain_path(_OF_DD.sub("", word)) for word in words[1:] if word]
            kinds = set[FileKind]().union(*(found[each] for each in named if each in found))
            for each in named if kinds else ():
                found[each] |= kinds
        for pattern, by_itself in _run_by_name(words).items():
            found[pattern].add(by_itself)
            for path in _files_of_option(words, _FILE_OF_TASKS) if by_itself == "tasks" else ():
                found[_plain_path(path)].add(by_itself)
        is_unpacked = words and base_name(words[0] or "") in _UNPACKS
        for packed in filter(None, words[1:] if is_unpacked else ()):
            found[_plain_path(packed)] |= found[_plain_path(packed.rpartition(".")[0])]
        if starts_code(words):
            kind: FileKind = "windows" if is_of_windows(words) else "code"
            for path in _code_files(words):
                found[_plain_path(path)].add(kind)
        for path in _scripts_run(words):
            found[_plain_path(path)].add("shell")
            if _FILE_OF_WINDOWS.fullmatch(path):
                found[_plain_path(path)].add("windows")
        if by_name and words and words[0]:
            found[_plain_path(words[0])].add("shell")
    for path in _START_FILE.findall(script):
        found[_plain_path(path)].add("shell")
    for path in chain.from_iterable(map(str.split, _MAKEFILES.findall(script))):
        found[_plain_path(path)].add("tasks")
    return {path: kinds for path, kinds in found.items() if kinds}


def _run_by_name(words: Reading) -> Mapping[str, FileKind]:
    """Return patterns of the files that the program of *words* runs by their names, and how."""
    if RUN_OPTION in words:
        return RUN_BY_NAME["npm"]
    if starts_code(words) and "-m" in words[:-1]:
        words = words[words.index("-m") + 1 :]
    elif starts_code(words) and any(map(CODE_OPTION.fullmatch, filter(None, words[1:]))):
        words = words if any(map(_LOADS.search, code_of(words))) else ()
    return RUN_BY_NAME.get(_VERSION.sub("", base_name(words[0] or "")), {}) if words else {}


def _run_as_named(seen: Sequence[Reading], script: str) -> Collection[str]:
    """Return the scripts that *seen*, of *script*, run by the names which those find in `$0`.

    Not one that is sourced, nor one that may run by another name, too. Where one may go up from its
    folder, only one beside which nothing runs that may copy it, or run it otherwise.
    """
    started = {_plain_path(path) for words in seen for path in _scripts_run(words)}
    names = {words[0] or "?" for words in seen if words and (words[0] or "?")[0] != "-"}
    is_alone = len(started) == 1 and {*map(_plain_path, names)} <= _KEEPS_NAMES | started
    if _SETS_START_FILE.search(script) or (LEADS_UP.search(script) and not is_alone):
        return ()
    others = (
        words[1:]
        for words in seen
        if words[:1] in (*_COPIES, *_SOURCED) or not _START_FILES.isdisjoint(words)
    )
    return started - {_plain_path(word) for words in others for word in words if word}


def _plain_path(path: str) -> str:
    """Return *path* as it is compared with another one of the same script."""
    return path.removeprefix("./")


def _code_files(words: Reading) -> Iterator[str]:
    """Yield the words, up to the first path, of an interpreter's command line that may be code."""
    if LINE_EDITORS.fullmatch(base_name(words[0] or "")):
        yield from _files_of_option(words, _FILE_OF_CODE)
        return
    for before, word in pairwise(words):
        if before == "-m":
            yield f"{word.rpartition('.')[2]}.py" if word else _ANY_FILE
            return
        if word is None or has_glob(word):
            yield from () if CODE_OPTION.fullmatch(before or "") else (_ANY_FILE,)
            if word is None:  # which may be an option, or nothing
                continue
            return
        if word[:1] in ("", "-") or (is_of_windows(words) and _SWITCH_OF_WINDOWS.fullmatch(word)):
            continue
        yield word
        if "." in word or "/" in word:
            return


def _files_of_option(words: Reading, option: re.Pattern[str]) -> Iterator[str]:
    for word, behind in pairwise((*words, None)):
        if found := option.fullmatch(word or ""):
            yield found[1] or found[2] or behind or _ANY_FILE


def _scripts_run(words: Sequence[str | None]) -> Iterator[str]:
    """Yield the files that the shell, or the path, of *words* may run as a script."""
    head = (words[0] if words else None) or ""
    if not is_shell(head) and head not in _RUN_FILES:
        yield from (head,) if "/" in head else ()
        return
    if words[1:2] == ("-n",) and not any(map(_OPTION.match, filter(None, words[2:]))):
        return  # it is only parsed: neither `+n` nor `-i` follows
    for before, word in pairwise(words):
        if word is None or has_glob(word):
            yield from () if before and _CODE_FOLLOWS.fullmatch(before) else (_ANY_FILE,)
            return
        if word and word[0] not in "-+" and not _SHELL_SETTING.fullmatch(before or ""):
            yield word
            if before not in _START_FILES:
                return
