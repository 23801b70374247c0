"""Read-only programs: allowed options and operands of each, scripts of `sed`, and the check.

Left out on purpose: options that write (sort -o), run programs (rg --pre, rg -z, find -exec),
follow links (grep -R, tree -l), take names from a file (wc --files0-from, strings @file), wait for
ever (tail -f), use the network (hostname -i), show the environment (env, ps e) or are parsed in an
unusual way (xxd -ps IN OUT). Short options whose value can only be joined to them are left out too
(od -w16), because a path as the next word would pass for the value.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Literal, TypeAlias

from agent_cli.policies.shell.reach import Objection, Reach
from agent_cli.policies.shell.words import Word
from agent_cli.system.loading import late_pattern
from agent_cli.system.records import dataclass

# Every match of --include=*.py also begins with --include=, so it is the same option.
_TEXT_OPTION = late_pattern(r"--[\w-]+=", re.ASCII)
# The kind of operands. "pattern": a pattern, then paths. "text": no file names.
Operands: TypeAlias = Literal["paths", "pattern", "text", "none"]
_SED_DELIMITERS = "/|,#:@!"


@dataclass(frozen=True, slots=True)
class ProgramArguments:
    """The arguments of a program: names of its options, and its operands in order."""

    options: frozenset[str]
    operands: tuple[Word, ...]


@dataclass(frozen=True, slots=True)
class KnownOptions:
    """The options of a program, read as getopt_long does; any other may write a file one day.

    Attributes:
        takes_value: Option → whether it takes a value; None if only with =.
        numbers: Whether a number like -20 is an option.
        values_apart: The value of a short option is always the next word, so its letter must be
            alone: `tree -Po a b` takes a as the pattern and b as the file to write.
    """

    takes_value: Mapping[str, bool | None]
    numbers: bool
    values_apart: bool

    def sort(self, program: str, arguments: Sequence[Word]) -> ProgramArguments:
        """Split *arguments* into options and operands.

        Raises:
            Objection: An option is not known.
        """
        options: set[str] = set()
        operands: list[Word] = []
        waiting = iter(arguments)
        for word in waiting:
            if word.text == "--":
                operands += waiting
            elif word.text == "-" or not word.text.startswith("-"):
                operands.append(word)
            elif not (self.numbers and word.text[1:].isdecimal()):
                options.update(self._read(program, word, waiting))
        return ProgramArguments(frozenset(options), tuple(operands))

    def _read(self, program: str, word: Word, following: Iterator[Word]) -> Iterator[str]:
        """Yield the names of the options in *word*; consume the next word if it is a value."""
        if word.glob and not _TEXT_OPTION.match(word.text):
            raise Objection(f"{program}: an option that is a pattern")
        if word.text.startswith("--"):
            name, joined, _ = word.text.partition("=")
            takes = self._known(program, name)
            yield name
            if joined and takes is False:
                raise Objection(f"{program} {name} is not known to take a value")
            if takes and not joined:
                _take(program, name, following)
            return
        for at, letter in enumerate(word.text[1:], 2):
            name = f"-{letter}"
            takes = self._known(program, name)
            yield name
            if takes is None:
                return  # The rest of the word is its value.
            if takes:
                if self.values_apart and len(word.text) > len(name):
                    raise Objection(f"{program} {name} is joined to something else")
                if at == len(word.text):
                    _take(program, name, following)
                return

    def _known(self, program: str, name: str) -> bool | None:
        if name not in self.takes_value:
            raise Objection(f"{program} {name} may do more than read")
        return self.takes_value[name]


def _take(program: str, name: str, following: Iterator[Word]) -> None:
    value = next(following, None)
    if value is None or value.glob:
        raise Objection(f"{program} {name} lacks a value")


def known_options(written: str, *, values_apart: bool = False) -> KnownOptions:
    """Parse the list of options in *written*.

    `-ab` are two options without a value, `-n=` and `--lines=` take one, `--color[=]` takes an
    optional one after =, and `-NUMBER` stands for numbers.
    """
    takes_value: dict[str, bool | None] = {}
    for each in written.replace("-NUMBER", "").split():
        name = each.rstrip("[=]")
        takes = None if each.endswith("[=]") else each.endswith("=")
        if name.startswith("--"):
            takes_value[name] = takes
        else:
            takes_value |= {f"-{letter}": takes for letter in name[1:]}
    return KnownOptions(takes_value, "-NUMBER" in written, values_apart)


_SED_OPTIONS = known_options("-nErsuz -e= --quiet --silent --regexp-extended --posix --expression=")


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """The allowed calls of a program.

    Attributes:
        can_write: It has options or operands that write, so patterns are not allowed.
        no_folders: Folders are not allowed, because it would choose files in them by itself.
        searches: Options with which it reads all files below a folder; "" means always.
        instead_of_pattern: Options that replace the pattern, so that the first operand is a path.
        operands_max: None for any number.
    """

    options: KnownOptions
    operands: Operands = "paths"
    operands_max: int | None = None
    can_write: bool = False
    no_folders: bool = False
    searches: frozenset[str] = frozenset()
    instead_of_pattern: frozenset[str] = frozenset()


def _paths(
    options: str = "", *, operands_max: int | None = None, can_write: bool = False
) -> Program:
    return Program(options=known_options(options), operands_max=operands_max, can_write=can_write)


def _text(options: str = "") -> Program:
    return Program(options=known_options(options), operands="text")


def _nothing(options: str = "") -> Program:
    return Program(options=known_options(options), operands="none")


_LS = (
    "-aAbBcdfFgGhiklmnNopqQrRsStuUvxX1 -w= -I= -T= --all --almost-all --author --escape"
    " --block-size= --color[=] --directory --classify[=] --file-type --format= --full-time"
    " --group-directories-first --no-group --human-readable --si --hide= --indicator-style="
    " --inode --ignore= --kibibytes --literal --numeric-uid-gid --quote-name --quoting-style="
    " --reverse --recursive --size --sort= --time= --width= --zero"
)
_GREP = (
    "-EFGPnHhilLcovwxsqrabzTUI -A= -B= -C= -m= -e= -NUMBER --extended-regexp --fixed-strings"
    " --perl-regexp --basic-regexp --regexp= --ignore-case --no-ignore-case --word-regexp"
    " --line-regexp --no-messages --invert-match --max-count= --line-number --with-filename"
    " --no-filename --only-matching --quiet --silent --text --binary-files= --recursive"
    " --include= --exclude= --exclude-dir= --files-without-match --files-with-matches --count"
    " --initial-tab --null --before-context= --after-context= --context= --color[=] --colour[=]"
)
_RG = (
    "-nNiSsFwxlcovHIUPq0p -A= -B= -C= -m= -e= -g= -t= -T= -r= -M= -d= -j= --files --regexp="
    " --glob= --iglob= --type= --type-not= --type-list --line-number --no-line-number"
    " --ignore-case --smart-case --case-sensitive --fixed-strings --word-regexp --line-regexp"
    " --files-with-matches --files-without-match --count --count-matches --only-matching"
    " --invert-match --with-filename --no-filename --no-heading --heading --column --multiline"
    " --pcre2 --quiet --stats --trim --max-count= --max-depth= --max-columns= --max-filesize="
    " --context= --after-context= --before-context= --color= --colors= --sort= --sortr= --json"
    " --vimgrep --no-messages --no-config --threads= --replace= --null --passthru --encoding="
)
_DIFF = (
    "-qsuybBwiaEZNtT -U= -C= -W= --brief --report-identical-files --unified[=] --context[=]"
    " --side-by-side --width= --suppress-common-lines --ignore-case --ignore-all-space"
    " --ignore-space-change --ignore-blank-lines --ignore-tab-expansion --text --color[=]"
    " --minimal --label= --strip-trailing-cr --expand-tabs --normal"
)
_SORT = (
    "-bdfginhMRrVsuczC -k= -t= --ignore-leading-blanks --dictionary-order --ignore-case"
    " --general-numeric-sort --numeric-sort --human-numeric-sort --month-sort --random-sort"
    " --reverse --version-sort --stable --unique --check[=] --key= --field-separator="
    " --zero-terminated"
)
_CHECKSUM = _paths("-b -t -z --binary --text --tag --zero")

PROGRAMS: Mapping[str, Program] = MappingProxyType(
    {
        "ls": _paths(_LS),
        "cat": _paths("-AbeEnstTuv --show-all --number-nonblank --number --squeeze-blank"),
        "tac": _paths("-b -r -s= --before --regex --separator="),
        "nl": _paths("-p -b= -d= -f= -h= -i= -l= -n= -s= -v= -w= --body-numbering="),
        "rev": _paths(),
        "head": _paths("-qvz -n= -c= -NUMBER --lines= --bytes= --quiet --silent --verbose"),
        "tail": _paths("-qvz -n= -c= -NUMBER --lines= --bytes= --quiet --silent --verbose"),
        "wc": _paths("-clmwL --bytes --chars --lines --words --max-line-length --total="),
        "cut": _paths(
            "-nsz -b= -c= -d= -f= --bytes= --characters= --delimiter= --fields= --complement"
            " --only-delimited --output-delimiter= --zero-terminated"
        ),
        "fold": _paths("-bs -w= --bytes --spaces --width="),
        "fmt": _paths("-cstu -w= -g= --width="),
        "paste": _paths("-sz -d= --delimiters= --serial"),
        "column": _paths("-tx -s= -c= -o= --table --separator= --output-separator="),
        "expand": _paths("-i -t= --initial --tabs="),
        "unexpand": _paths("-a -t= --all --first-only --tabs="),
        "comm": _paths("-123z --total --output-delimiter= --check-order --nocheck-order"),
        "join": _paths("-iz -a= -e= -j= -o= -t= -v= -1= -2= --ignore-case --header"),
        "cmp": _paths("-bls -i= -n= --print-bytes --verbose --silent --quiet --bytes="),
        "od": _paths("-abcdfilosxv -A= -j= -N= -t= --address-radix= --format= --read-bytes="),
        "hexdump": _paths("-bcCdovx -n= -s= -e="),
        "base64": _paths("-di -w= --decode --ignore-garbage --wrap="),
        "stat": _paths("-Lft -c= --dereference --file-system --terse --format= --printf="),
        "file": _paths("-bhikLr0 --brief --mime --mime-type --mime-encoding --extension"),
        "du": _paths(
            "-abchklmsSx0 -d= -t= --all --apparent-size --bytes --total --human-readable"
            " --max-depth= --summarize --si --separate-dirs --one-file-system --exclude= --inodes"
        ),
        "df": _paths("-ahHiklPT -t= --all --human-readable --si --inodes --print-type --total"),
        "tree": Program(
            options=known_options(
                "-adfispughDFrtUvCnS -L= -P= -I= --noreport --dirsfirst --du --prune"
                " --ignore-case --matchdirs --gitignore",
                values_apart=True,
            )
        ),
        "realpath": _paths("-eLmPqsz --canonicalize-existing --canonicalize-missing --logical"),
        "readlink": _paths("-efmnqsvz --canonicalize --no-newline"),
        "uniq": _paths(
            "-cdDuiz -f= -s= -w= --count --repeated --unique --ignore-case --skip-fields="
            " --skip-chars= --check-chars= --zero-terminated",
            operands_max=1,
            can_write=True,
        ),
        "sort": _paths(_SORT, can_write=True),
        "diff": Program(options=known_options(_DIFF), no_folders=True),
        **dict.fromkeys(("md5sum", "sha1sum", "sha256sum", "sha512sum", "cksum"), _CHECKSUM),
        "grep": Program(
            options=known_options(_GREP),
            operands="pattern",
            searches=frozenset({"-r", "--recursive"}),
            instead_of_pattern=frozenset({"-e", "--regexp"}),
        ),
        "rg": Program(
            options=known_options(_RG),
            operands="pattern",
            searches=frozenset({""}),
            instead_of_pattern=frozenset({"-e", "--regexp", "--files", "--type-list"}),
        ),
        "tr": _text("-cCdst --complement --delete --squeeze-repeats --truncate-set1"),
        "seq": _text("-w -f= -s= --equal-width --format= --separator="),
        "basename": _text("-az -s= --multiple --suffix= --zero"),
        "dirname": _text("-z --zero"),
        "which": _text("-a"),
        "uname": _nothing("-asnrvmpio --all --kernel-name --kernel-release --machine"),
        "nproc": _nothing("--all"),
        "arch": _nothing(),
        "uptime": _nothing("-ps --pretty --since"),
        "free": _nothing("-bkmght -s= --human --mebi --gibi --total --wide"),
        "hostname": _nothing("-s --short"),
        "lscpu": _nothing("-e -p -J --json"),
        "locale": _nothing("-a"),
        "tty": _nothing("-s"),
        "groups": _nothing(),
        "logname": _nothing(),
        "getconf": _text(),
        "whoami": _nothing(),
        "id": _nothing("-ugGnr --user --group --groups --name --real"),
    }
)


def check_operands(
    name: str, program: Program, arguments: Sequence[Word], reach: Reach, folder: str
) -> None:
    """Accept *arguments* with which *program* only reads files of the workspace.

    Raises:
        Objection: They may do more.
    """
    line = program.options.sort(name, arguments)
    if program.can_write and any(word.glob for word in arguments):
        raise Objection(f"{name} can write files, and a pattern may give it an option")
    if program.operands == "none" and line.operands:
        raise Objection(f"{name} may change files")
    if program.operands_max is not None and len(line.operands) > program.operands_max:
        raise Objection(f"{name} writes to its last argument")
    if program.operands in ("paths", "pattern"):
        _check_paths(name, program, line, reach, folder)
    else:
        check_names(arguments, reach, folder)


def check_names(words: Sequence[Word], reach: Reach, folder: str) -> None:
    """Accept words that are plain text; a pattern among them reveals the names in a folder."""
    for word in words:
        if word.glob:
            for name in reach.expand(word, folder):
                reach.check_path(name, folder)


def check_readable(words: Sequence[Word], reach: Reach, folder: str) -> None:
    """Accept words that name files to read."""
    for word in words:
        for path in reach.expand(word, folder):
            if path != "-":
                reach.check_path(path, folder)


def _check_paths(
    name: str, program: Program, line: ProgramArguments, reach: Reach, folder: str
) -> None:
    searches = "" in program.searches or not program.searches.isdisjoint(line.options)
    words = line.operands
    if program.operands == "pattern" and program.instead_of_pattern.isdisjoint(line.options):
        if words and words[0].glob:
            raise Objection(f"{name}: the search text is a pattern of file names; quote it")
        words = words[1:]
    if searches and not words:
        words = (Word("."),)
    for word in words:
        for path in reach.expand(word, folder):
            if path == "-":
                continue
            real = reach.check_path(path, folder)
            if searches:
                reach.check_tree(path, folder)
            if program.no_folders and Path(real).is_dir():
                raise Objection(f"{name} on a folder reads files that it chooses itself: {path}")


def _sed_text(delimiter: str, *, brackets: bool) -> str:
    """Return a pattern for the text between two *delimiter*s.

    A bracket must be closed before the next delimiter: programs disagree on whether it may contain
    one.
    """
    end = re.escape(delimiter)
    if not brackets:
        return rf"(?:[^\\\n{end}]|\\[^\n])*"
    member = rf"(?:\[:\w+:\]|[^\]\[\\\n{end}])"
    # A ] at the beginning is a literal member.
    return rf"(?:[^\\\[\n{end}]|\\[^\n]|\[\^?(?:\]|(?!\^){member}){member}*\])*"


_SED_ADDRESS = rf"(?:\d+(?:~\d+)?|\$|/{_sed_text('/', brackets=True)}/I?)"
_SED_WHERE = rf"(?:{_SED_ADDRESS}(?:,(?:{_SED_ADDRESS}|[+~]\d+))?)?\s*!?\s*"
_SED_SUBSTITUTE = "|".join(
    rf"s{re.escape(each)}{_sed_text(each, brackets=True)}{re.escape(each)}"
    rf"{_sed_text(each, brackets=False)}{re.escape(each)}[gpiI0-9]*"
    for each in _SED_DELIMITERS
)
_SED_COMMAND = rf"\s*{_SED_WHERE}(?:[pdqnNDPhHgGxl=]|q\d+|{_SED_SUBSTITUTE})\s*"
_SED_SCRIPT = late_pattern(rf"{_SED_COMMAND}(?:[;\n]{_SED_COMMAND})*;?\s*")
_SED_CHARS_MAX = 500


def check_sed(arguments: Sequence[Word], reach: Reach, folder: str) -> None:
    """Accept `sed` with a script that only prints, and files that may be read.

    Raises:
        Objection: It may do more.
    """
    line = _SED_OPTIONS.sort("sed", arguments)
    scripts, paths = _sed_scripts(arguments), line.operands
    if not scripts:
        if not paths or paths[0].glob:
            raise Objection("sed without a script")
        scripts, paths = [paths[0].text], paths[1:]
    for script in scripts:
        if len(script) > _SED_CHARS_MAX or not _SED_SCRIPT.fullmatch(script):
            raise Objection("sed with a script that may write files or run programs")
    check_readable(paths, reach, folder)


def _sed_scripts(arguments: Sequence[Word]) -> list[str]:
    """Return the values of -e, which must be separate words."""
    texts = [word.text for word in arguments]
    found: list[str] = []
    for at, text in enumerate(texts):
        if text == "-e" or text == "--expression":
            found.append(texts[at + 1])
        elif text.startswith(("-e", "--expression")) or re.fullmatch(r"-[nErsuz]+e.*", text):
            raise Objection("sed with a script joined to its option")
    return found
