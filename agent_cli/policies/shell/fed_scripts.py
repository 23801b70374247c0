"""Find the commands in text that a script prints, feeds, assigns or hands on, and that then run.

`. <(printf 'git reset --hard')` and `eval "$x"` run a text that `readings` does not follow. Where a
script runs such a text, each text in it may be that one. A program that is not known may run its
arguments, and code of another language what stands in its strings. An editor, a debugger or a
client of a database runs what stands behind a mark in a line that it reads: `!rm -rf ~`.
"""

import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, compress, dropwhile, islice, pairwise, product
from math import inf
from typing import TYPE_CHECKING, Final

from agent_cli.policies.shell.assignments import EXPANSIONS, Assignments, script_in
from agent_cli.policies.shell.effects import is_known
from agent_cli.policies.shell.foreign_code import (
    commands_in,
    is_of_windows,
    lines_obeyed,
    of_windows,
    reads_code,
    started_by,
    starts_code,
)
from agent_cli.policies.shell.known_words import with_known_words
from agent_cli.policies.shell.readings import (
    BEYOND,
    UNSEEN,
    WORDS_MAX,
    WORDS_READ_MAX,
    Reading,
    bounded,
    pieces,
    readings,
    tails,
)
from agent_cli.policies.shell.remote_commands import (
    script_read,
    target_of_input,
    without_input_elsewhere,
)
from agent_cli.policies.shell.run_files import IS_CODE, FileKind, goals_of, scripts_of
from agent_cli.policies.shell.starters import (
    OPTION_OF_PROSE,
    OPTION_WITH_PROSE,
    STARTERS,
    base_name,
    is_shell,
    started_at,
)
from agent_cli.policies.shell.syntax import (
    NOT_WORDS,
    SCRIPT,
    descendants,
    outermost,
    source,
    syntax_tree,
)
from agent_cli.policies.shell.words import decoded, has_glob, likely_word
from agent_cli.policies.shell.written_texts import files_run, texts_in
from agent_cli.system.loading import late_pattern

if TYPE_CHECKING:
    from tree_sitter import Node

_RUN_TEXT: Final = frozenset({"eval", "trap", "ssh", "su"})
# A program that makes a text of what it is given as base64, in hexadecimal digits, or reversed.
_DECODES: Final = late_pattern(r"\b(?:base64|b64decode|xxd|openssl|rev)\b")
_ENCODED_MAX: Final = 200
_COMPOSED_MAX: Final = 200
_OF_STARTER: Final = late_pattern(r"-.*|\w+=.*|[\d.]+[smhd]?", re.DOTALL)
_LIST: Final = late_pattern(r"\"?\$(?:[@*]|\{[@*]\})\"?")
_QUOTE: Final = late_pattern(r"[\"']")
_QUOTED: Final = late_pattern(r"\"([^\"]*)\"|'([^']*)'")
_KEPT: Final = "\0"  # for a blank in a quoted word of a list
_WHOLE: Final = late_pattern(r"\$(?:\{(\w+)(?:\[[@*]\])?\}|(\w+))", re.ASCII)
_DEFAULT: Final = late_pattern(r"\$\{\w+:?[-=+]([^{}$`]*)\}", re.ASCII)
_MAY_BE_SCRIPTS: Final = frozenset({"string", "raw_string", "ansi_c_string", "concatenation"})
_SPLITS_AT: Final = late_pattern(r"\bIFS=\$?[\"']?([^\s;$\"'\\a-zA-Z0-9]+)")
_DEPTH_MAX: Final = 4
_TEXTS_WITHIN_MAX: Final = 20
# Of all texts that may run: a word of `eval` may go on with each of the words behind it.
_TEXTS_CHARS_MAX: Final = 40_000
_TEXTS_TIMES_MAX: Final = 4
_SUBCOMMANDS_MAX: Final = 5
_GROWN_CHARS_MAX: Final = 4_096
# As an argument of another program, a subcommand of its own: `adb reboot`.
_SUBCOMMANDS: Final = frozenset({"shutdown", "reboot", "halt", "poweroff"})


def possible_commands(script: str) -> list[Reading]:
    """Return the readings of *script*, and of each text in it that may run."""
    return [*readings(script), *fed_commands(script)]


def fed_commands(script: str) -> Iterator[Reading]:
    """Yield the readings of each text that may run, in *script* and those that it hands on."""
    chars = sum(map(len, chain.from_iterable(map(texts_run, all_scripts(script)))))
    if chars > _TEXTS_CHARS_MAX + _TEXTS_TIMES_MAX * len(script):
        yield BEYOND
        return
    found = chain.from_iterable(map(_fed_commands, all_scripts(script)))
    within = chain.from_iterable(map(readings, _texts_run_within(script)))
    inside = (reading for reading in within if reading != UNSEEN)
    yield from bounded(chain(found, inside), 2 * WORDS_READ_MAX)


def _texts_run_within(script: str) -> Iterator[str]:
    """Yield the texts that run in the texts that run in *script*, for the first of these.

    With known words in their place: what a text assigns is not looked for within its own texts.
    """
    left = [*chain.from_iterable(map(texts_run, all_scripts(script)))]
    done = {*left, *all_scripts(script)}
    for outer in islice(left, _TEXTS_WITHIN_MAX):  # those that are added, too
        for part in chain.from_iterable(map(all_scripts, _as_known(outer))):
            new = {text: is_whole for text, is_whole in texts_run(part).items() if text not in done}
            done |= new.keys()
            left += new
            for text, is_whole in new.items():
                yield from _as_known(text) if is_whole else (text,)


def _as_known(text: str) -> Sequence[str]:
    return with_known_words(text, own_temporary=False) or (text,)


def _fed_commands(script: str) -> Iterator[Reading]:
    seen, texts = readings(script), texts_run(script)
    for line in lines_obeyed(seen, _inside(script)):
        yield from _with_arguments(pieces(line))
    for text, is_whole in texts.items():
        found = [*chain.from_iterable(map(readings, _as_known(text) if is_whole else [text]))]
        yield from (reading for reading in found if reading != UNSEEN)
        # A variable may be empty, or hold `sudo`.
        yield from _run_by_unknown_programs([each for each in found if each[:1] == (None,)])
    yield from _run_by_unknown_programs(seen)
    scripts = (script, *_with_values_of(script, texts)) if "$" in script else ()
    each_composed = chain.from_iterable(map(_composed, scripts))
    composed = dict.fromkeys(islice(each_composed, _COMPOSED_MAX))
    for command in composed:
        words = ('"$_"' if word is None else shlex.quote(word) for word in command)
        yield from readings(" ".join(words))
    if len(composed) == _COMPOSED_MAX:
        yield BEYOND


# Cached: a decision asks for those of the same script twice, and for those of its texts.
@lru_cache(maxsize=64)
def texts_run(script: str) -> Mapping[str, bool]:
    """Return each text in *script* that may run, and whether it is a file, whole as it stands."""
    script, read_elsewhere = without_input_elsewhere(script)
    seen = readings(script)
    codes = [words for words in seen if starts_code(words)]
    of_read = [words for words in codes if reads_code(words)]
    is_unseen = UNSEEN in seen or BEYOND in seen
    inside = [*_inside(script)] if of_read or is_unseen else []
    handed = [*_with_values(script, is_all=is_unseen)]
    texts = [*read_elsewhere, *chain.from_iterable(map(started_by, codes))]
    if of_read:
        texts += chain.from_iterable(map(commands_in, inside))
    if is_unseen:
        texts += inside
        # What one shell prints, another one may run: `sh <<E | sh`.
        if seen.count(UNSEEN) > 1:
            texts += chain.from_iterable(map(texts_in, inside))
    elif targets := {*map(target_of_input, seen)} - {None}:
        texts += (script_read(each, targets) for each in texts_in(script))
    texts += handed
    for_windows = [*(inside if any(map(is_of_windows, of_read)) else ())]
    for_windows += handed if any(map(is_of_windows, codes)) else ()
    texts += chain.from_iterable(of_windows(each, has_aliases=True) for each in for_windows)
    found = dict.fromkeys(texts, False)
    goals = goals_of(seen, script)
    for text, kind, is_whole in _written_and_run(script):
        for each in (text, *(_unpacked(text) if _DECODES.search(script) else ())):
            found |= dict.fromkeys(scripts_of(each, kind, goals), is_whole and kind not in IS_CODE)
            found |= dict.fromkeys(of_windows(each, has_aliases=kind == "windows"), is_whole)
    return found


def _written_and_run(script: str) -> Collection[tuple[str, FileKind, bool]]:
    """Return what `files_run` does, also for the files that those of *script* run, or write."""
    found, within = dict[tuple[str, FileKind, bool], None](), dict[str, None]()
    for _ in range(_DEPTH_MAX):
        run = files_run(all_scripts(script), (*within,))
        new = dict.fromkeys(each for each in run if each not in found)
        found |= new
        each_reading = map(readings, (script, *within) if new else ())
        goals = goals_of([*chain.from_iterable(each_reading)], script)
        for text, kind, _ in new:
            # Any interpreter may stand for the one that runs it.
            within |= {f"perl -e {shlex.quote(text)}": None} if kind in IS_CODE else {}
            within |= dict.fromkeys(scripts_of(text, kind, goals))
        if not new or len(within) > _COMPOSED_MAX or syntax_tree(script).has_error:
            break
    return found


def _unpacked(text: str) -> Iterator[str]:
    """Yield what *text* becomes by a program that decodes, or turns around, what it is."""
    yield from chain.from_iterable(map(decoded, islice(text.split(), _ENCODED_MAX)))
    yield "\n".join(line[::-1] for line in text.splitlines())


def all_scripts(script: str) -> Sequence[str]:
    """Return *script* and each one that a shell gets as one word in it."""
    return (script, *_scripts_handed(script))


def _inside(script: str) -> Iterator[str]:
    """Yield each text in *script*, and what it is if it is encoded."""
    texts = texts_in(script)
    if _DECODES.search(script):
        words = islice(chain.from_iterable(map(str.split, texts)), _ENCODED_MAX)
        yield from chain.from_iterable(map(decoded, words))
    yield from texts


# Cached: a decision asks for those of the same script twice.
@lru_cache(maxsize=8)
def _scripts_handed(script: str, depth: int = 0) -> Sequence[str]:
    """Return the scripts that shells get as one word in *script*, and those within them."""
    texts = (_script_of(node) for node, is_handed in _strings(script) if is_handed)
    found = [text for text in texts if SCRIPT.search(text)]
    inside = (_scripts_handed(text, depth + 1) for text in found if depth < _DEPTH_MAX)
    return [*found, *chain.from_iterable(inside)]


def _with_values(script: str, *, is_all: bool) -> Iterator[str]:
    """Yield the scripts with a `$` that shells get as one word; with *is_all*, all in quotes."""
    for node, is_handed in _strings(script) if "$" in script else ():
        is_string = node.type == "string"
        if "$" in source(node) and (is_handed or (is_all and is_string)):
            yield (text := _script_of(node))
            if is_string and any(outermost(node, EXPANSIONS)):
                # In double quotes, those within do not keep a value from being put in.
                yield text.replace("'", "")


def _strings(script: str) -> Iterator[tuple["Node", bool]]:
    """Yield the words of commands that may be scripts, and whether a shell gets them."""
    for node in descendants(syntax_tree(script)):
        command = node.parent if node.type in _MAY_BE_SCRIPTS else None
        if command is not None and command.type == "command":
            yield node, _shell_ends(command) < node.start_byte


def _script_of(word: "Node") -> str:
    """Return the script that *word* is for a shell, with the values of variables left open."""
    if word.type == "concatenation" and any(outermost(word, EXPANSIONS)):
        return "".join(map(_script_of, word.children))
    read = script_in if word.type in ("string", "raw_string", *EXPANSIONS) else likely_word
    return read(source(word)) or ""


# Cached: it is asked for each word of a command, one after the other.
@lru_cache(maxsize=1)
def _shell_ends(command: "Node") -> float:
    """Return where the first word of *command* ends that may run a text behind it, in bytes."""
    words = ((base_name(source(word)), word.end_byte) for word in _words(command))
    return next((end for name, end in words if is_shell(name) or name in _RUN_TEXT), inf)


def _with_values_of(script: str, texts: Iterable[str]) -> Iterator[str]:
    """Yield each of *texts* in which a variable is read, behind what *script* assigns."""
    texts = [each for each in texts if "$" in each and each != script]
    nodes = descendants(syntax_tree(script)) if texts else ()
    values = "\n".join(source(node) for node in nodes if node.type == "variable_assignment")
    yield from (f"{values}\n{each}" for each in texts)


def _composed(script: str) -> Iterator[Reading]:
    """Yield the commands of *script* whose program or options a variable or `set` holds."""
    nodes = [node for node in descendants(syntax_tree(script)) if node.type == "command"]
    known = Assignments(syntax_tree(script), {"HOME": ["~"]})
    written = ([likely_word(source(word)) for word in _words(node)] for node in nodes)
    lists = [_operands(words) for words in written if words[:1] == ["set"]]
    grown = _grown(syntax_tree(script))
    blanks = str.maketrans(dict.fromkeys("".join(_SPLITS_AT.findall(script)), " "))
    for words in chain.from_iterable(map(_started, map(_words, nodes))):
        unknown = [any(outermost(word, EXPANSIONS)) for word in words]
        if not any(unknown):
            continue
        values = [_values(word, known, lists, grown, blanks) for word in words]
        # Of the first arguments, a few may be subcommands; many are files.
        begins = [each for each in values[:2] if each is values[0] or len(each) <= _SUBCOMMANDS_MAX]
        is_put_in = any(x and y != [(None,)] for x, y in zip(unknown, begins, strict=False))
        taken = [*chain.from_iterable(compress(values[1:], unknown[1:]))]
        if is_put_in or any(len(x) > 1 or "".join(filter(None, x))[:1] == "-" for x in taken):
            yield from (tuple(chain.from_iterable(each)) for each in product(*values))


def _started(words: Sequence["Node"]) -> Iterator[Sequence["Node"]]:
    """Yield *words*, and those behind the programs that start them, and behind their options."""
    yield (left := words)
    while left and (name := base_name(source(left[0]))) in STARTERS and not is_shell(name):
        left = [*dropwhile(lambda word: _OF_STARTER.fullmatch(source(word)), left[1:])]
    yield from (left,) if left is not words else ()


def _operands(words: Sequence[str | None]) -> Reading:
    """Return the arguments that `set` with *words* gives a script."""
    if "--" in words:
        return tuple(words[words.index("--") + 1 :])
    return tuple(dropwhile(lambda word: word and word.startswith(("-", "+")), words[1:]))


def _words(command: "Node") -> list["Node"]:
    return [word for word in command.named_children if word.type not in NOT_WORDS]


def _values(
    word: "Node",
    known: Assignments,
    lists: Sequence[Reading],
    grown: Mapping[str, str],
    blanks: Mapping[int, str],
) -> Sequence[Reading]:
    """Return the words that *word* may become, unknown ones as None; *blanks* are what splits."""
    written = source(word)
    if _LIST.fullmatch(written):
        return lists or [(None,)]
    if not any(outermost(word, EXPANSIONS)):
        return [(likely_word(written),)]
    if (whole := _WHOLE.fullmatch(written.strip('"'))) and (whole[1] or whole[2]) in grown:
        text, is_quoted = grown[whole[1] or whole[2]], written[0] == '"'
        text = text if is_quoted else text.replace(_KEPT, " ")
        found = [text] if is_quoted and "[" not in written else text.split()
        words = (each.replace(_KEPT, " ") for each in found)
        return [tuple(None if {"$", "`"} & {*each} else each for each in words)]
    if default := _DEFAULT.fullmatch(written.strip('"')):
        return [(None,), tuple(_QUOTE.sub("", default[1]).split())]
    texts = [_QUOTE.sub("", text) for text in known.texts(word) or ()]
    if written[0] != '"':
        split = (each.translate(blanks).split() for each in texts)
        # A pattern may become any names.
        known_ones = (tuple(None if has_glob(x) or "$" in x else x for x in each) for each in split)
        return [*known_ones] or [(None,)]
    return [(text,) for text in texts] or [(None,)]


def _grown(tree: "Node") -> Mapping[str, str]:
    """Return the texts of lists, and of variables that grow, as the script leaves them.

    A part that only some runs of the script add counts as well.
    """
    texts: dict[str, str] = {}
    grown: dict[str, None] = {}
    for node in descendants(tree):
        name, is_set, value = source(node).partition("=")
        if node.type != "variable_assignment" or not is_set:
            continue
        adds, is_list = name.endswith("+"), value.startswith("(")
        name = name.removesuffix("+")
        if is_list:
            value = _QUOTED.sub(lambda found: re.sub(r"\s", _KEPT, found[0]), f" {value[1:-1]} ")
        before, text = texts.get(name, ""), _QUOTE.sub("", value)
        itself = re.compile(rf"\$(?:\{{{re.escape(name)}(?:\[[@*]\])?\}}|{re.escape(name)}\b)")
        grows = adds or is_list or itself.search(text)
        whole = before + text if adds else before.join(itself.split(text))
        texts[name] = whole[:_GROWN_CHARS_MAX]
        grown |= {name: None} if grows else {}
    return {name: texts[name] for name in grown}


def _run_by_unknown_programs(seen: Sequence[Reading]) -> Iterator[Reading]:
    whole: Reading = ()
    for reading, after in pairwise((*dict.fromkeys(seen), ())):
        words = reading[:-1] if reading[-1:] == (None,) else reading
        if not words or words[1:] == whole[len(whole) - len(words) + 1 :]:
            continue  # The arguments were read already, from each word on.
        if len(words) == WORDS_MAX and words[1:] == after[:-1]:
            continue  # The next one has them: a long text is read from each word on.
        if started_at(words) is not None:
            whole = words
        elif words[0] is None or not is_known(words[0]):
            whole = words
            yield from _handed_on(words)


def _with_arguments(commands: Iterable[Reading]) -> Iterator[Reading]:
    return (each for each in commands if len(each) > 1 and each[0] not in _SUBCOMMANDS)


def _handed_on(words: Reading) -> Iterator[Reading]:
    """Yield the commands that a program may run of its arguments."""
    known = [
        word
        for before, word in pairwise(words)
        if not OPTION_OF_PROSE.fullmatch(before or "")
        and not OPTION_WITH_PROSE.fullmatch(word or "")
    ]
    inside = (pieces(word) for word in known if word and " " in word)
    yield from _with_arguments(chain(tails(known), chain.from_iterable(inside)))
