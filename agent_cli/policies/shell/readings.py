"""Find all commands that a script might run, for the rules that deny or ask.

The opposite of `plain`: nothing is rejected, and every command in the script counts, also inside
substitutions, functions and quoted scripts; duplicates are better than a missed one. An unknown
word is None, and an unknown command is (None,).
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from agent_cli.policies.shell.starters import (
    ADDS_ARGUMENTS,
    RUN_WORDS,
    STARTERS,
    base_name,
    has_commands,
    is_shell,
    option_scripts,
    runs_input,
    set_value,
    started_at,
    with_unknown,
)
from agent_cli.policies.shell.syntax import (
    NOT_WORDS,
    SCRIPT,
    descendants,
    has_no_structure,
    is_too_large,
    outermost,
    overlooked,
    redirect_words,
    source,
    syntax_tree,
)
from agent_cli.policies.shell.words import likely_word, likely_words, without_quotes
from agent_cli.system.loading import late_pattern

if TYPE_CHECKING:
    from tree_sitter import Node

Reading: TypeAlias = tuple[str | None, ...]

UNSEEN: Reading = (None,)
# Nested too deep, or too long, to tell what it loses; no word of a command holds a NUL.
BEYOND: Reading = (None, "\0")
_RUNS_TEXT = frozenset({"eval", "trap"})
_RUNS_FILES = frozenset({"source", "."})
# Shell builtins that evaluate the subscript in a variable's name, and its value.
_EVALUATES = frozenset(
    {
        *("let", "printf", "read", "test", "[", "declare", "typeset", "local", "export"),
        *("readonly", "unset", "mapfile", "readarray", "wait", "getopts", "((", "[[", "compgen"),
    }
)
_CALLS_BACK = frozenset({"mapfile", "readarray", "hash", "compgen", "complete", "alias", "bind"})
_RUN_BY_THEMSELVES = _EVALUATES | _CALLS_BACK | {"at", "batch", "su"}
# Variables whose value bash runs, and those that name a file that it runs.
_RUN_VALUES = frozenset({"PROMPT_COMMAND", "PS0", "PS1", "PS2", "PS4"})
# And those of which programs do.
_COMMAND_VARIABLE = late_pattern(
    r"PROMPT_COMMAND|PS[0124]|MANPAGER|LESS(?:OPEN|CLOSE)|GIT_(?:PROXY_COMMAND|CONFIG_VALUE_\d+)"
    r"|RSYNC_(?:RSH|CONNECT_PROG)|FZF_DEFAULT_COMMAND|CC|CXX|RUSTC(?:_\w*WRAPPER)?|CARGO_\w+_RUNNER"
    r"|(?:\w+_)?(?:PAGER|EDITOR|VISUAL|BROWSER|SSH_COMMAND|ASKPASS|EXTERNAL_DIFF|(?i:SCRIPT_SHELL))"
)
_START_FILES = frozenset({"BASH_ENV", "ENV"})
_NAMED_COMMANDS = frozenset({"BASH_ALIASES", "BASH_CMDS"})
_STORES = frozenset({"read", "printf", "mapfile", "readarray", "getopts"})
_NAMES_COMMANDS: Mapping[str, str] = MappingProxyType({"alias": "=", "bind": ":"})
_SUBSTITUTES = late_pattern(r"\$\(|`")
_PLAIN_WORD = late_pattern(r"(?!-|[\d.]+[smhd]?$)[^=]*")
_DEPTH_MAX = 4
WORDS_MAX = 32  # of a long text, from each word on; longer than a rule is
_TAKEN_WHOLE_MAX = 1_000  # The last of many may be the home directory.
# Of a text whose structure is unknown, of which each word may begin a command.
_TAILS_WHOLE_MAX = 300
_LAST_WORDS_MATTER = frozenset(
    {"rm", "unlink", "shred", "truncate", "rimraf", "del-cli", "srm", "rmdir", "trash", "find"}
    | {"git", "dd", "rsync", "psql", "mysql", "mongosh", "redis-cli"}
)
_MANY_WHOLE_MAX = 20
WORDS_READ_MAX = 500_000  # of all readings; the checks take half a second for them

_COMMANDS = frozenset({"command", "declaration_command", "unset_command"})
_JOINED = frozenset({"list", "pipeline", "negated_command"})
_STDIN = ("/dev/stdin", "/dev/fd/", "/proc/")
_BREAKS = late_pattern(r"[\s;&|<>()`{}'\"\\$]+")


# Cached: a decision reads the same script four times.
@lru_cache(maxsize=16)
def readings(script: str, depth: int = 0) -> Sequence[Reading]:
    """Return every command that *script* might run, also behind wrappers; BEYOND if too much."""
    return tuple(bounded(_read(script, depth), WORDS_READ_MAX))


def bounded(found: Iterable[Reading], words_max: int) -> Iterator[Reading]:
    """Yield the readings of *found* up to *words_max* words in all, then BEYOND for the rest."""
    left = words_max
    for words in found:
        yield words
        left -= len(words) or 1
        if left < 0:
            yield BEYOND
            return


def _read(script: str, depth: int) -> Iterator[Reading]:
    if depth > _DEPTH_MAX or is_too_large(script):
        yield BEYOND
        return
    tree = syntax_tree(script)
    if has_no_structure(script):
        yield UNSEEN
        yield from pieces(script)
        # A comma in braces is between words, too.
        yield from pieces(without_quotes(script).replace(",", " "))
    for words in _commands(tree):
        yield from _unwrapped(words, depth)
    for node in descendants(tree):
        if node.type == "variable_assignment":
            yield from _run_later(*_assigned(node), depth)
        elif within := overlooked(node):
            yield from readings(within, depth + 1)


def seen_commands(script: str) -> list[str]:
    """Return the commands of *script* for display, in order; ? stands for unknown words."""
    return [
        " ".join("?" if word is None else word for word in words)
        for words in _commands(syntax_tree(script))
    ]


def written_commands(script: str, depth: int = 0) -> Iterator[Sequence[str]]:
    """Yield the words of each command as written, also in quoted scripts.

    The variable of a loop stands for the words that it takes. Scripts that are nested deeper than
    is read count as one command.
    """
    nodes = descendants(syntax_tree(script))
    loops: dict[str, list[str]] = {}
    for node in nodes:
        if node.type == "for_statement":
            name, *taken = (source(child) for child in node.named_children[:-1])
            loops |= dict.fromkeys((f"${name}", f"${{{name}}}"), taken)
        if node.type != "command":
            continue
        written = (source(child) for child in node.children if child.type not in NOT_WORDS)
        words = list(chain.from_iterable(loops.get(each.strip('"'), [each]) for each in written))
        yield words
        for word in words:
            inner = likely_word(word)
            if not inner or inner == word or not SCRIPT.search(inner):
                continue
            if depth < _DEPTH_MAX:
                yield from written_commands(inner, depth + 1)
            else:  # as one command, however many there are
                yield [each for each in _BREAKS.split(inner) if each]


def all_commands(script: str) -> list[Reading]:
    """Return the words of each command in *script*, in order; None stands for an unknown word."""
    return list(_commands(syntax_tree(script)))


def pieces(script: str) -> Iterator[Reading]:
    """Yield the words from each word on, for a script whose structure is unknown."""
    yield from tails([word for word in _BREAKS.split(script) if word])


def tails(words: Sequence[str | None]) -> Iterator[Reading]:
    """Yield each tail of *words*, the longest first; of many words only their first ones.

    But for programs whose last words matter, as if one is the home directory, and unknown ones;
    BEYOND if these are many.
    """
    left = _MANY_WHOLE_MAX if len(words) <= _TAKEN_WHOLE_MAX else 0
    is_short = len(words) <= _TAILS_WHOLE_MAX
    for at, word in enumerate(words):
        is_counted = not is_short and (word is None or base_name(word) in _LAST_WORDS_MATTER)
        left -= is_counted
        most = len(words) if is_short or (is_counted and left >= 0) else WORDS_MAX
        yield tuple(words[at : at + most])
        yield from (BEYOND,) if is_counted and not left else ()


def _commands(tree: "Node") -> Iterator[Reading]:
    for node in descendants(tree):
        if node.type in _COMMANDS:
            yield tuple(_words(node))
        elif node.type == "test_command":
            texts = (each for each in descendants(node) if each.type in ("raw_string", "string"))
            yield ("[[", *(likely_word(source(text)) for text in texts))
        elif node.type == "redirected_statement":
            # Words behind a redirect's destination belong to the command before it.
            behind = tuple(
                chain.from_iterable(
                    _behind(child) for child in node.children if child.type == "file_redirect"
                )
            )
            if behind:
                yield (*_words_of_last(node.children[0]), *behind)
                yield behind


def _words_of_last(node: "Node") -> Iterator[str | None]:
    """Yield the words of the last command in *node*, which may be a list."""
    while node.type in _JOINED and node.children:
        node = node.children[-1]
    if node.type in _COMMANDS:
        yield from _words(node)


def _words(command: "Node") -> Iterator[str | None]:
    for child in command.children:
        if child.type == "file_redirect":
            yield from _behind(child)
        elif child.type not in NOT_WORDS:
            # The output of a process is not in the text.
            yield from (None,) if _has_process(child) else likely_words(source(child))


def _has_process(word: "Node") -> bool:
    text = source(word)
    # Most words have none; looking at each node of long ones takes a quarter of a judgement.
    return ("<(" in text or ">(" in text) and any(
        each.type == "process_substitution" for each in descendants(word)
    )


def _behind(redirect: "Node") -> Iterator[str | None]:
    words = redirect_words(redirect)
    if words and words[0].type == "file_descriptor":
        yield source(words.pop(0))  # Bash treats it as an option of the command.
    yield from (likely_word(source(word)) for word in words[1:])


def _unwrapped(words: Reading, depth: int) -> Iterator[Reading]:
    """Yield *words* and, if they start another command, every candidate for it."""
    yield words
    head = words[0] if words else None
    yield from _run_by_itself(words, depth)
    if head is None:
        return
    started = 0 if is_shell(head) else started_at(words)
    if started is not None:
        yield from _started(with_unknown(words[started:]), depth)


def _run_by_itself(words: Reading, depth: int) -> Iterator[Reading]:
    """Yield what the program of *words* runs that is no wrapper: by a name, a value, an option."""
    head = words[0] if words else None
    if head is not None and runs_input(words):
        yield UNSEEN
    # Of `printf`, only behind the option that takes the name of a variable.
    if head in _EVALUATES and (head != "printf" or ([*words, ""][1] or "-v")[:2] == "-v"):
        for word in filter(None, words[1:]):
            if _SUBSTITUTES.search(word):
                yield from readings(word, depth + 1)
            name, is_set, value = word.partition("=")
            if is_set or head in _STORES:
                yield from _run_later(name, value if is_set else None, depth)
    if head == "enable" and any(re.match(r"-\w*f", word or "-f") for word in words[1:]):
        yield UNSEEN  # a builtin from a library
    if head in _CALLS_BACK:
        yield from _called_back(words, depth)
    for script in option_scripts(words):
        yield from readings(script, depth + 1)


def _started(words: Reading, depth: int) -> Iterator[Reading]:
    """Yield every candidate for the command that the first of *words* starts."""
    head = words[0] or ""
    if (most := len(words)) > _TAKEN_WHOLE_MAX:
        most = WORDS_MAX
        yield BEYOND
    is_found = False
    for at in range(_first_started(words), len(words)):
        rest = words[at : at + most]
        name = rest[0]
        yield rest
        if at < WORDS_MAX and name and (name in _RUN_BY_THEMSELVES or has_commands(name)):
            yield from _run_by_itself(rest, depth)
        if at and name and not is_found and base_name(name) in ADDS_ARGUMENTS:
            # `timeout 5 find … {}`: the names that it finds are not known either.
            is_found = True
            yield from _started(with_unknown(rest), depth + 1) if depth < _DEPTH_MAX else (BEYOND,)
        if base_name(head) in ADDS_ARGUMENTS:
            yield (*rest, None)
            starts = name and name not in _RUNS_FILES and base_name(name) in STARTERS
            if starts and not any(map(_is_program, rest[1:WORDS_MAX])):
                yield UNSEEN
        if name in _RUNS_FILES and "".join(filter(None, rest[1:2])).startswith(_STDIN):
            yield UNSEEN
        if name and name.startswith("-"):
            yield from _in_option(name, rest[1:], depth)
        if name is not None and SCRIPT.search(name):
            yield from _in_text(name, rest[1:], depth)
        elif name is not None and (bare := without_quotes(name)) != name:
            yield (bare, *rest[1:])
    starters = [
        word for word in words if word and (is_shell(word) or base_name(word) in _RUNS_TEXT)
    ]
    if base_name(head) in _RUNS_FILES:
        starters.insert(0, head)
    if starters:
        yield from _text_run(words, starters, depth)


def _first_started(words: Reading) -> int:
    """Return the index of the first word that may be the command started by `words[0]`."""
    runs = RUN_WORDS.get(base_name(words[0] or ""))
    if runs is None:
        return 1
    found = (at for at, word in enumerate(words) if word is None or runs.fullmatch(word))
    return next(found, len(words))


def _assigned(assignment: "Node") -> tuple[str, str | None]:
    """Return the name and the value that *assignment* sets; of an unknown one what is quoted."""
    name, _, written = source(assignment).partition("=")
    if _has_process(assignment):
        return name, None
    value = likely_word(written)
    if value is None:
        quoted = " ".join(source(each)[1:-1] for each in outermost(assignment, {"raw_string"}))
        return name, quoted if _SUBSTITUTES.search(quoted) else None
    return name, value


def _run_later(name: str, value: str | None, depth: int) -> Iterator[Reading]:
    """Yield what bash runs of a variable's value: a prompt, a subscript, a file for its start."""
    name = name.removesuffix("+").partition("[")[0]
    if name in _START_FILES and value and value.startswith(_STDIN):
        value = None
    if name in _NAMED_COMMANDS or (value is None and name in _START_FILES | _RUN_VALUES):
        yield UNSEEN
    elif value and (_COMMAND_VARIABLE.fullmatch(name) or _SUBSTITUTES.search(value)):
        yield from readings(value.removeprefix("!"), depth + 1)  # an alias of git


def _called_back(words: Reading, depth: int) -> Iterator[Reading]:
    """Yield what `mapfile -C` evaluates, and what `hash -p`, `alias`, `bind` put behind a name."""
    option = "p" if words[0] == "hash" else "C"
    for at, word in enumerate(words):
        if word and (mark := _NAMES_COMMANDS.get(words[0] or "")):
            if named := word.partition(mark)[2]:
                script = named if mark == "=" else named.strip("\"' ")
                yield from readings(script, depth + 1)
            continue
        if not word or not re.match(rf"-\w*{option}", word):
            continue
        text = word.partition(option)[2] or (words[at + 1] if at + 1 < len(words) else None)
        if text is None:
            yield UNSEEN
        elif words[0] == "hash":
            yield (text,)
        else:
            yield from readings(text, depth + 1)


def _is_program(word: str | None) -> bool:
    """Return whether *word*, an argument of a wrapper, may name a program."""
    return word is None or bool(_PLAIN_WORD.fullmatch(word))


def _in_option(option: str, rest: Reading, depth: int) -> Iterator[Reading]:
    """Yield the commands that an option may contain: `env -S"rm x"`."""
    short = option[2:] if option[1:2] != "-" else ""  # not `rm` of `docker run --rm`
    joined = {short, *(option.partition(mark)[2] for mark in ("S", "c", "="))}
    for text in filter(None, joined):
        yield (text, *rest)
        if SCRIPT.search(text):
            yield from _in_text(text, rest, depth)


def _in_text(text: str, rest: Reading, depth: int) -> Iterator[Reading]:
    """Yield the commands of *text*, which a program runs or splits into words before *rest*."""
    for script in filter(None, (text, set_value(text))):
        for words in readings(script, depth + 1):
            yield words
            if rest and words not in (UNSEEN, BEYOND):
                yield (*words, *rest)


def _text_run(words: Reading, starters: Sequence[str], depth: int) -> Iterator[Reading]:
    """Yield the scripts that shells and `eval` in *words* run; UNSEEN if not in the text."""
    behind = words[words.index(starters[0]) + 1 :]
    operands = [word for word in behind if word is None or not word.startswith("-")]
    known = [word for word in operands if word and not word.startswith(_STDIN)]
    if not known or len(known) < len(operands) or "-s" in behind:
        yield UNSEEN
    if base_name(starters[0]) in _RUNS_TEXT:
        yield from readings(" ".join(known), depth + 1)
