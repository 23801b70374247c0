"""Find what needs a person's approval in code of other languages that a command contains.

A program in Python, Node, Perl or awk is not parsed: its string literals are read as paths and as
commands, and a few names say that it looks for the home directory, deletes folders, or decodes what
it runs. That is a list of words and no proof.
"""

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice, pairwise
from typing import Final

from agent_cli.policies.shell.data_losses import has_data_loss
from agent_cli.policies.shell.reach import Reach, is_foreign
from agent_cli.policies.shell.readings import Reading
from agent_cli.policies.shell.starters import base_name, sed_commands, set_value
from agent_cli.policies.shell.words import literals_in, unescaped
from agent_cli.system.loading import late_pattern

# They run commands that stand in what they read, behind one of the marks in a line.
_OBEYS_LINES: Final = frozenset(
    {
        *("ed", "red", "ex", "vi", "vim", "nvim", "view", "tclsh", "wish", "expect", "m4", "gm4"),
        *("gdb", "lldb", "ftp", "sftp", "lftp", "bc", "dc", "psql", "mysql", "mariadb", "sqlite3"),
        *("duckdb", "irb", "pry", "ipython", "erl", "iex", "gnuplot", "octave", "mail", "mailx"),
    }
)
_RUNS_BEHIND: Final = late_pattern(
    r"!|\b(?:exec|open|spawn|system|popen|e?syscmd|shell|sh|cmd)\b", re.IGNORECASE
)
_MARKS: Final = (
    (_OBEYS_LINES, _RUNS_BEHIND),
    (frozenset({"crontab"}), late_pattern(r"^\s*(?:@\w+\s|(?:[^#\s]\S*\s+){5})")),  # times
    (frozenset({"parallel"}), late_pattern("^")),
)
INTERPRETERS: Final = late_pattern(
    r"(?:python|pypy|perl|ruby|node|nodejs|deno|bun|php|lua|luajit|julia|Rscript|osascript"
    r"|[gmn]?awk|sed|gsed|tsx|ts-node|elixir|iex|erl|emacs|pwsh|powershell|R|swift|kotlin|scala"
    r"|groovy|jshell|clojure|clj|bb|ghc|runghc|runhaskell|ocaml|racket|guile|sbcl|tclsh|wish|octave)"
    r"[\d.]*(?:\.exe)?|cmd(?:\.exe)?",
    re.IGNORECASE,
)
_OPTIONS_OF_AWK: Final = frozenset({"-v", "-F", "-l", "-i", "--include", "--assign"})
_OPTIONS_OF_SED: Final = frozenset({"-l"})
LINE_EDITORS: Final = late_pattern(r"[gmn]?awk|g?sed")
# Options whose value is code: `-c`, `-e`, `-pe`, `--eval`; behind them or joined to them.
CODE_OPTION: Final = late_pattern(r"-[a-zA-Z]*[ceErp]|-?eval|--(?:eval|print|expression|execute)")
_SAYS_WHAT_IT_IS: Final = frozenset({"--version", "-V", "--help"})
_HOME: Final = (
    r"Path\.home|Dir\.home|\bHOME\b|USERPROFILE|user\.home|user_home|home-dir|NSHomeDirectory"
)
_ELSEWHERE: Final = late_pattern(
    rf"{_HOME}|expanduser|homedir\s*\(|getpwnam|getpwuid"
    r"|pardir|\.parents\b|cwd\(\)\)?\.parent|environ\[[^\]]*\](?!\s*=[^=])|environ\.get|getenv"
    r"|process\.env|\bENV\[|gettempdir"
)
_REMOVERS: Final = (
    r"rmtree|remove_tree|rm_rf|rm_r\b|rimraf|RemoveAll|delete-directory|remove_dir(?:_all)?"
    r"|remove_all|remove_entry(?:_secure)?|deleteTree(?:Absolute)?|deleteRecursively|deleteDir"
    r"|delete-tree|del_dir_r|removeDirectoryRecursive|removePathForcibly|removeItem\(at\w*"
    r"|file\s+delete"
)
_DELETES: Final = late_pattern(
    rf"{_REMOVERS}|removedirs|recursive['\"]?\s*(?::|=>?)\s*(?:true|1|T)\b"
)
# A call that deletes a folder, and the rest of its statement.
_DELETION: Final = late_pattern(
    rf"(?:\b(?:{_REMOVERS}|removeSync|emptyDir(?:Sync)?)\b|\b(?:rm|rmdir)(?:Sync)?\s*(?=\()"
    r"|\b(?:remove|unlink)\s*(?=\([^;\n]{0,200}\brecursive\b))([^;\n]*)"
)
# A call that moves a file; alone, `replace` is of texts.
_MOVE: Final = late_pattern(
    r"\b(?:os\.(?:renames?|replace)|(?:shutil\.)?move(?:Sync)?|rename(?:Sync)?|File\.rename"
    r"|FileUtils\.mv)\s*\(|\brename\s+(?=[\"'])"
)
_STATEMENT: Final = late_pattern(r"[^;\n]+")
# A call that sends a statement to a database, but none that is gone with the program.
_QUERIES: Final = late_pattern(r"\.(?:execute(?:script|many)?|query|raw)\s*[(\"'`]")
# The value comes later, as in a program that serves requests.
_OF_ONE_ROW: Final = late_pattern(r"\bwhere\b[^;]*=\s*[\"']?(?:\?|%s|[:@$]\w|\$?\{)", re.IGNORECASE)
# A call that deletes one file, which it names by its whole path.
_UNLINKS: Final = late_pattern(
    r"\b(?:os\.(?:remove|unlink)|unlink(?:Sync)?|File\.delete)[\s(]*(?:os\.path\.expanduser\(\s*)?"
    r"[\"'](?P<file>[/~][^\"'$@{}\n]*)[\"']"
    r"|\bPath\(\s*[\"'](?P<path>[/~][^\"'$@{}\n]*)[\"']\s*\)(?:\.expanduser\(\))?\.unlink\("
    r"|\bfile\s+delete\s+(?:-\w*\s+|\"(?=~))*(?P<tree>[/~][^\s;\]\"'$@{}]*)"
)
# The folder itself; elsewhere, a dot between two quotes joins what is in quotes around it.
_IS_HERE: Final = late_pattern(r"(?:^|[(\[,=\s])(['\"])\.\1\s*(?:[),\]]|$)")
_AT_HOME: Final = late_pattern(rf"{_HOME}|homedir")
# Only at the characters that one begins with are they tried: 20 times as fast in a long text.
_STARTS: Final = late_pattern(
    r"(?=[spcefq%`|\"'])(?:subprocess|popen|\bsystem\b|shell_exec|passthru|proc_open|spawn"
    r"|child_process|\bexec|\bfork\b|\bpty\b|%x|\bqx|`|\|&?\s*getline|[\"']\s*\||\|&?\s*[\"']"
    r"|shell-command|call-?(?:process|command)|command_?line|\bsh(?:ell)?\s+[\"']|\bshell\(|\bCommand\("
    r"|\bProcess(?:Builder)?\(|Sys\.command|(?<=os[.:])cmd\b|[\"']\.execute\(|[\"']actions[\"']"
    r"|\b(?:s|session|c|ctx|context|conn)\.(?:run|run_always|sudo|local)\()",
    re.IGNORECASE,
)
_RUNS_TEXT: Final = late_pattern(
    r"\b(?:exec|eval|compile|system|popen|spawn\w*|run|Function|require|import_module)\s*\("
    r"|__import__|\beval\b"
)
_DECODES: Final = late_pattern(
    r"b64|base64|base32|fromhex|unhex|rot_?13|codecs|decompress|marshal|pickle|fromCharCode|\bchr\b"
    r"|\bpack\b|atob|\[::-1\]|reverse|getattr"
)
# The home directory, as a call or a variable gives it.
_IS_HOME: Final = late_pattern(
    r"(?:\b(?:process|os|Sys|System|Deno|vim)[./])?\$?(?:get)?(?:env(?:iron)?|property)(?:\.get)?"
    r"[\s.(\[{]+[\"']?(?:HOME|USERPROFILE|user\.home)\b[\"']?[)\]}]?"
    r"|\b(?:(?:Dir|Path)\.home|(?:os\.)?homedir|System\.user_home!?|NSHomeDirectory)\b(?:\(\))?",
    re.IGNORECASE,
)
_JOINED: Final = late_pattern(r"(['\"])\s*+(?:[+.]\s*+)?\1")
# In a script of sed.
_FILE_OF_SED: Final = late_pattern(r"[rRwW]\s*([~/.]\S*)")
_OF_WINDOWS: Final = late_pattern(r"(?:pwsh|powershell|cmd).*")
_REMOVES_THERE: Final = r"\b(?:remove-item|clear-content)\b|\[[\w.]*(?:file|directory)\]::delete\("
_CMDLET: Final = late_pattern(_REMOVES_THERE, re.IGNORECASE)
_CMDLET_OR_ALIAS: Final = late_pattern(
    rf"{_REMOVES_THERE}|(?:^|[;|{{(&\"']|\s(?:-c\w*|/[ck]))\s*@?"
    r"(?:(?:ri|rm|rmdir|rd|del|erase)(?=[\s/])|format(?=\s+\w:))",
    re.IGNORECASE | re.MULTILINE,
)
# The name of a path, joined to it: `-Path:x`.
_PATH_JOINED: Final = late_pattern(r"\s-(?:literalpath|path|pspath|lp):", re.IGNORECASE)
_HOME_THERE: Final = late_pattern(
    r"\$(?:\{env:|env:)(?:userprofile|home(?:path)?)\}?|%(?:userprofile|homepath)%", re.IGNORECASE
)
_SWITCH: Final = late_pattern(
    r"\s-(?:recurse|force|confirm|whatif|path|literalpath)(?::\$\w+)?(?=[\s;|})\"']|$)"
    r"|(?<=\s)/(?![ckCK]\s)\w(?::\S*)?(?=\s|$)",
    re.IGNORECASE,
)
_DRIVE: Final = late_pattern(r"(?<!\w)\w+:(?=[/\s\"']|$)")
_NAMES_NOTHING: Final = late_pattern(r"rm -rf (?=\s*(?:[;|})&\n\"']|$))")
_COMMANDS_OF_TOX: Final = late_pattern(r"commands(?:_pre|_post)?\s*=\s*")
_ENTERED_BY_TOX: Final = late_pattern(r"(?m)^change_?dir\s*=[ \t]*[\"']?([^\s\"']+)")
_MARK_OF_TOX: Final = late_pattern(r"^\s*(?:[\w.,{}!-]+:\s+)?[-!]?\s*")
_ROOT_OF_TOX: Final = late_pattern(r"\{(?:toxinidir|tox_root)\}")
_FOLDER_OF_TOX: Final = late_pattern(r"\{(?:toxworkdir|work_dir|distdir|env_?\w*dir|env_tmp_dir)\}")
_VARIABLE_OF_TOX: Final = late_pattern(r"(?a)\{env:(\w+)(?::[^{}]*)?\}")
_LITERALS_MAX: Final = 400
_NAMES_MAX: Final = 4
_ONE_LINERS: Final = late_pattern(r"(?:python|perl|ruby|node|nodejs|deno|bun|php)[\d.]*")
# In a script of one line: it deletes, and takes every name of a folder.
_SCRIPT_DELETES: Final = late_pattern(
    r"\b(?:unlink(?:Sync)?|remove|rm(?:Sync)?|rmtree|remove_tree|rm_r?f|rmdir|delete)\b"
)
_SCRIPT_LISTS: Final = late_pattern(
    r"\b(?:listdir|scandir|iterdir|walk|readdir(?:Sync)?|opendir)\b"
)
_PATTERN_BEGINS: Final = late_pattern(r"(?:glob|Dir\[|<)[\s(]*+")
_WITHOUT_BLANK: Final = late_pattern(r"\S*+")
_EVERY_NAME_HERE: Final = late_pattern(r"[\"']?\*(?:\.\*|\*)?[\"'>)\]]")
_EVERY_NAME_BELOW: Final = late_pattern(r"/\*(?:\.\*|\*)?[\"'>)\]]")


def starts_code(words: Reading) -> bool:
    """Return whether *words* start an interpreter."""
    return bool(words and words[0] and INTERPRETERS.fullmatch(base_name(words[0])))


def code_of(words: Reading) -> Iterator[str]:
    """Yield the words of an interpreter's command line that are code."""
    name, *arguments = base_name(words[0] or ""), *words[1:]
    found = False
    for at, word in enumerate(arguments):
        if word and CODE_OPTION.fullmatch(word) and at + 1 < len(arguments):
            code = arguments[at + 1]
            if code:
                found = True
                yield code
        elif word and word.startswith("-") and re.search(r"[\s=(]", word):
            found = True
            yield word
    if not found and LINE_EDITORS.fullmatch(name):
        before = pairwise(("", *arguments))
        takes_value = _OPTIONS_OF_AWK if "awk" in name else _OPTIONS_OF_SED
        operands = (word for option, word in before if option not in takes_value)
        yield from [word for word in operands if word and not word.startswith("-")][:1]


def code_leaves(code: str, reach: Reach, is_reserved: Callable[[str], bool]) -> bool:
    """Return whether *code* leaves the workspace, deletes folders, or hides what it runs.

    *is_reserved* judges a command that the code may start.
    """
    if _ELSEWHERE.search(code) or _DELETES.search(code):
        return True
    if _RUNS_TEXT.search(code) and _DECODES.search(code):
        return True
    literals = _literals(code)
    if len(literals) == _LITERALS_MAX or any(is_foreign(each, reach) for each in literals):
        return True
    return any(map(is_reserved, _started(code, literals)))


def started_by(words: Reading) -> Iterator[str]:
    """Yield the commands that code on the command line of an interpreter may start.

    Its arguments too: `perl -e 'system @ARGV' rm x`, `awk -v c='rm x' 'BEGIN {system(c)}'`.
    """
    codes = dict.fromkeys(code_of(words))
    for code in codes:
        yield from commands_in(code)
    if any(map(_STARTS.search, codes)):
        behind = max(at for at, word in enumerate(words) if word in codes) + 1
        yield " ".join(filter(None, words[behind:]))
        others = (word for word in words[1:] if word and word not in codes and " " in word)
        yield from (set_value(word) or word for word in others)
    if is_of_windows(words):
        line = " ".join("$_" if word is None else word for word in words)
        yield from of_windows(line, has_aliases=True)


def is_of_windows(words: Reading) -> bool:
    """Return whether *words* start a shell of Windows."""
    return bool(words and words[0] and _OF_WINDOWS.fullmatch(base_name(words[0])))


def of_windows(code: str, *, has_aliases: bool) -> Iterator[str]:
    """Yield *code* as a script for bash if it is one of Windows that deletes something.

    With *has_aliases*, it surely is one, so that short names count, too: `del`, `ri`.
    """
    removes = _CMDLET_OR_ALIAS if has_aliases else _CMDLET
    if removes.search(code):
        named = _SWITCH.sub(" ", _PATH_JOINED.sub(" ", _HOME_THERE.sub("~", code)))
        named = removes.sub("\nrm -rf ", named).replace("\\", "/")
        named = re.sub(r"[\"']", "", named)
        yield _NAMES_NOTHING.sub('rm -rf "$_"', _DRIVE.sub("/", named))


def commands_in(code: str, *, is_test: bool = False) -> Iterator[str]:
    """Yield the commands that *code* may start, and one for each deletion and move in it.

    A test works on a database of its own.
    """
    literals = _literals(code)
    yield from _started(code, literals)
    if _AT_HOME.search(code) and (known := _IS_HOME.sub('"~"', code)) != code:
        yield from chain(_started(known, of_known := _literals(known)), _deletions(known, of_known))
    yield from _moves(code)
    yield from _deletions(code, literals)
    yield from of_windows(code, has_aliases=False)
    if not is_test and _QUERIES.search(code) and ":memory:" not in code:
        lost = (each for each in literals_in(code) if not _OF_ONE_ROW.search(each))
        yield from (f"sqlite3 x {shlex.quote(each)}" for each in lost if has_data_loss(each))
    for found in _UNLINKS.finditer(code):
        path = found["file"] or found["path"] or found["tree"]
        option = "-rf" if found["tree"] else "-f"
        yield f"rm {option} {path if path[0] == '~' else shlex.quote(path)}"


def commands_of_tox(text: str) -> str:
    """Return what `tox` runs in all of the environments of *text*."""
    lines, is_command = [f"cd {each}" for each in _ENTERED_BY_TOX.findall(text)], False
    for line in text.replace("\\\n", " ").split("\n"):
        if line[:1].strip(" \t]"):
            found = _COMMANDS_OF_TOX.match(line)
            is_command, line = found is not None, line[found.end() :] if found else ""
        if is_command:
            lists = re.findall(r"\[([^][]*)\]", line)
            texts = [shlex.join(literals_in(each)) for each in lists] or [line]
            lines += [_MARK_OF_TOX.sub("", each) for each in texts]
    inside = _FOLDER_OF_TOX.sub(".tox", _ROOT_OF_TOX.sub(".", "\n".join(lines)))
    inside = _VARIABLE_OF_TOX.sub(r"${\1}", inside.replace("{homedir}", "~"))
    return re.sub(r"\{posargs:?([^{}]*)\}", r'\1 "$@"', inside)


def lines_obeyed(seen: Sequence[Reading], texts: Iterable[str]) -> Iterator[str]:
    """Yield what stands in the lines of *texts* behind a mark that a program of *seen* obeys."""
    heads = {base_name(words[0]) for words in seen if words and words[0]}
    marks = [mark for programs, mark in _MARKS if not programs.isdisjoint(heads)]
    for text in texts if marks else ():
        for line in text.replace("\\\n", " ").splitlines():
            yield from (line[x.end() :] for x in (mark.search(line) for mark in marks) if x)


def reads_code(words: Reading) -> bool:
    """Return whether an interpreter is given no file and no code, so that it reads its input."""
    if not starts_code(words) or not _SAYS_WHAT_IT_IS.isdisjoint(words):
        return False
    operands = [word for word in words[1:] if word is None or not re.match("-.", word)]
    if "-" in operands or operands[:1] == ["/dev/stdin"]:
        return True  # what stands behind it are arguments
    return not operands and not any(map(CODE_OPTION.fullmatch, filter(None, words[1:])))


def _started(code: str, literals: Sequence[str]) -> Iterator[str]:
    if _STARTS.search(code):
        yield from (each for each in literals if " " in each)
        # In Lisp and in lists without commas, those with a blank between are not joined.
        apart = [*islice(literals_in(code), _LITERALS_MAX)]
        # The first ones may be names of modules and of variables.
        for each in (literals, apart) if len(apart) != len(literals) else (literals,):
            yield from (" ".join(each[at:]) for at in range(min(len(each), _NAMES_MAX)))


def _deletions(code: str, literals: Sequence[str]) -> Iterator[str]:
    """Yield `rm -rf` for each folder that *code* names to delete.

    For any path in it where a call names none.
    """
    folders, is_unclear = dict[str, None](), False
    for found in _DELETION.finditer(code):
        named = [
            *_literals(found[1]),
            *(["."] if _IS_HERE.search(found[1]) else []),
            *(["~"] if _AT_HOME.search(found[1]) else []),
        ]
        is_unclear = is_unclear or not named
        folders |= dict.fromkeys(named)
    if is_unclear:
        folders |= dict.fromkeys(each for each in literals if each.startswith(("/", "~")))
    for each in folders:
        yield f"rm -rf {each if each.startswith('~') else shlex.quote(each)}"


def _moves(code: str) -> Iterator[str]:
    """Yield `mv` of what each statement of *code* names that moves a file: the last is where to."""
    for statement in _STATEMENT.findall(code) if _MOVE.search(code) else ():
        if _MOVE.search(statement):
            named = _literals(statement)
            is_clear = len(named) > 1
            yield " ".join(("mv", "--", *map(shlex.quote, named), *(() if is_clear else ('"$_"',))))


def sed_leaves(code: str, reach: Reach, is_reserved: Callable[[str], bool]) -> bool:
    """Return whether a script of sed names a file outside, or a command that is reserved."""
    return any(is_foreign(name, reach) for name in _FILE_OF_SED.findall(code)) or any(
        map(is_reserved, sed_commands(code))
    )


def _literals(code: str) -> Sequence[str]:
    """Return the string literals of *code*; adjacent literals are joined."""
    found = literals_in(_JOINED.sub("", code))
    escaped = chain.from_iterable(
        {each: 0, unescaped(each): 0} if "\\" in each else (each,) for each in found
    )
    return [*islice(map(str.strip, escaped), _LITERALS_MAX)]


def lists_and_deletes(name: str, words: Sequence[str]) -> bool:
    """Return whether the program *name* runs, among *words*, code that deletes what it lists."""
    return bool(_ONE_LINERS.fullmatch(name)) and any(map(_deletes_what_it_lists, words))


def _deletes_what_it_lists(script: str) -> bool:
    if not _SCRIPT_DELETES.search(script):
        return False
    return bool(_SCRIPT_LISTS.search(script)) or has_pattern_of_all(script)


def has_pattern_of_all(script: str) -> bool:
    """Return whether *script* lists files by a pattern that every name of a folder matches."""
    searched = 0
    for begin in _PATTERN_BEGINS.finditer(script):
        at = begin.end()
        if _EVERY_NAME_HERE.match(script, at):
            return True
        # A word is searched once, from its first begin on: it may hold thousands.
        if at >= searched and (word := _WITHOUT_BLANK.match(script, at)):
            searched = word.end()
            if _EVERY_NAME_BELOW.search(script, at, searched):
                return True
    return False
