"""Replace what a script surely expands to by its words, for the check of irreversible commands.

Where a word may stand for something else, it is left as it is: the script is then judged without.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, product
from math import prod
from typing import TYPE_CHECKING

from agent_cli.policies.shell.assignments import EXPANSIONS, NEW, Assignments, script_in
from agent_cli.policies.shell.braces import TooManyWords, unbraced
from agent_cli.policies.shell.deleted_folders import CHANGE_DIR, is_cache
from agent_cli.policies.shell.entered_folders import CurrentFolder, whole_text
from agent_cli.policies.shell.remote_commands import MAY_BE_OTHERS, removals_elsewhere
from agent_cli.policies.shell.starters import is_shell
from agent_cli.policies.shell.syntax import (
    ENTERS_FIRST,
    descendants,
    outermost,
    source,
    syntax_tree,
)
from agent_cli.system.loading import late_pattern

if TYPE_CHECKING:
    from tree_sitter import Node

_QUOTED = late_pattern(r"\"([^\"'\\]*)\"|'([^\"'\\]*)'")
_PLAIN = late_pattern(r"[\w./+@%,=:*?{}-]+", re.ASCII)
_OF_TEMPORARY = late_pattern(r"/tmp(?=/|$)")
_WORDS_OF_BRACES_MAX = 20
_ALL_CHARS_MAX = 50_000
MAY_RUN_ELSEWHERE = late_pattern(r"[;\n(`!]|\|\||(?<![&<>])&(?![&>])")
"""What may be in a script whose commands do not surely run one after the other, by `&&`."""
_CHANGES_AGAIN = late_pattern(r"\b(?:cd|chdir)\b")
_MAKES_LINKS = late_pattern(r"\b(?:ln|symlink|link)\b")
# With one of them, a variable may get another value, or its value be split elsewhere.
_SETS_UNSEEN = late_pattern(
    r"\b(?:IFS|coproc|let|unset|select)\b|\(\(|\bwait\s+-|\{\w+\}[<>]|\$\{[^}={]*=|\]:?="
    r"|\bprintf\s+(?![\"']?[\w%\\]|[\"']\s)|\b(?:OLD)?PWD\+?="
    r"|\$\{?(?:_|REPLY|DIRSTACK|BASH\w*|FUNCNAME|OLDPWD)\b"
)
# So may these, as commands: in `find . -exec`, two of them are arguments.
_SET = frozenset(
    {".", "source", "eval", "trap", "alias", "shopt", "builtin", "command", "enable", "exec"}
    | {"read", "mapfile", "readarray", "getopts"}
)
_NAMES_SETTER = late_pattern(rf"(?:^|[;&|(\s])\.\s|\b(?:{'|'.join(sorted(_SET - {'.'}))})\b")
_PRECEDE_COMMAND = frozenset({"time", "noglob", "nocorrect", "-", "repeat"})
_RUNS_WITHIN = frozenset({"process_substitution"})
_WORDS = frozenset({"word", "string", "raw_string", "concatenation"}) | EXPANSIONS
_DECLARES = frozenset({"declare", "typeset", "local", "export", "readonly"})
# Names, and options that change no value.
_PLAIN_DECLARATION = late_pattern(r"\w+|-[afgrxp]+", re.ASCII)
_PROGRAM = late_pattern(r"[\w./+\[-]+", re.ASCII)
_PATH_OF_PROGRAM = late_pattern(r"\"?\$(?:(\w+)|\{(\w+)\})\"?/[\w./+-]+\"?", re.ASCII)
_PLAIN_VALUE = late_pattern(r"=([\"']?)[\w./+-]+\1", re.ASCII)
# Functions of these names would answer otherwise.
_ANSWER = frozenset({"pwd", "mktemp", "seq"})
# A pattern may then stand for .git.
_MATCHES_HIDDEN = late_pattern(r"\b(?:shopt|GLOBIGNORE|BASHOPTS)\b")
# A hidden pattern that may stand for .git, or for the folder above.
_MAY_BE_GIT = late_pattern(r"\.(?![a-fh-zA-FH-Z0-9_])")
# And with one of them, a folder may be another one.
_MOVES_UNSEEN = late_pattern(r"\b(?:pushd|popd|set|OLDPWD|CDPATH)\b")
# A database of tests is made anew by such a task.
_ON_TEST_DATABASE = late_pattern(
    r"(?:RAILS_ENV|RACK_ENV|MIX_ENV)=test (?:bundle exec )?(?:bin/)?(?:rails|rake|mix)"
    r"(?: (?:db|ecto)[:.][\w:.]+)+"
)
_DOES_NOTHING = ":"
_SIGNAL = late_pattern(r"EXIT|(?:SIG)?(?:INT|TERM|HUP|QUIT)|0|1|2|3|15")
_EXPANDED_AT_ONCE = late_pattern(r"\\[^\"]|[`#]|\$\(")  # a comment hides values
_RUNS_TEXT = late_pattern(r"\b(?:eval|trap)\b")
_MAKES_LOCAL = late_pattern(r"\b(?:local|declare|typeset)\b")
_RUNS_SCRIPT = late_pattern(r"-[a-zA-Z]*c")
_MARK = late_pattern(r"[\"'\\$`]")
_TEXT = late_pattern(r"[^'\"\\$`]*\s[^'\"\\$`]*")
_COMBINATIONS_MAX = 200
_ALL_HERE = frozenset({"*", "./*"})
# An empty word is a name of no file for them.
_IGNORE_EMPTY = frozenset({"rm", "rmdir"})


def with_known_words(script: str, *, own_temporary: bool, is_whole: bool = False) -> Sequence[str]:
    """Return *script* with known words in the place of those that bash expands; () if it has none.

    One script for each value of a variable that has several, and one for none where it may have
    none. A pattern is a known word if it stands for names in the folder alone, neither for all of
    them nor for git's own data; so is a file that mktemp makes, and, with *own_temporary*, each
    in /tmp: no other program has files there. Tasks that only empty a database of tests are left
    out. With *is_whole*, no other script is around it that may have set what is not seen here.
    """
    # Of a longer script there would be none; looking through a million characters takes long.
    if len(script) > _ALL_CHARS_MAX or _MATCHES_HIDDEN.search(script):
        return ()
    script, composed = _with_texts_run(script)
    tree = syntax_tree(script)
    known = Assignments(tree, {"PWD": ["."]}) if _sets_nothing_unseen(tree, script) else None
    if not all(_is_plain(node, known) for node in _expansions(tree, composed)):
        return ()
    is_sequence = known is not None and _runs_in_order(script)
    has_folder = is_whole and known is not None
    may_be_others = MAY_BE_OTHERS.search(script) is not None
    current = CurrentFolder(has_links=_MAKES_LINKS.search(script) is not None)
    changes: list[tuple[Node, Sequence[str]]] = []
    for node in descendants(tree):
        if node.type != "command":
            continue
        if _ON_TEST_DATABASE.fullmatch(source(node)):
            changes.append((node, [_DOES_NOTHING]))
        elsewhere = () if may_be_others else removals_elsewhere(node, script, has_folder=has_folder)
        changes += [(word, [text]) for word, text in elsewhere]
        name = node.child_by_field_name("name")
        is_folder = name is not None and source(name) in CHANGE_DIR
        needs = name is None or source(name) not in _IGNORE_EMPTY
        words = node.children_by_field_name("argument")
        if is_folder and is_sequence and not words:
            current.after(node, ())
        for word in words:
            if any(outermost(word, _RUNS_WITHIN)):
                continue
            texts = _texts(word, known, needs_text=needs, own_temporary=own_temporary)
            texts = current.after(node, texts) if is_folder and is_sequence else texts
            if not needs and is_sequence and source(word) in _ALL_HERE:
                texts = current.all_files() or texts
            if texts and None not in texts and texts != [source(word)]:
                changes.append((word, [each or "" for each in texts]))
    # Words that stand for the same texts change together: mostly, they are one variable.
    choices = [*dict.fromkeys(tuple(texts) for _, texts in changes)]
    count = prod(map(len, choices))
    chars = len(script) + sum(max(len(each or "") for each in texts) for _, texts in changes)
    if not changes or count > _COMBINATIONS_MAX or count * chars > _ALL_CHARS_MAX:
        return ()
    return [
        _changed(tree, changes, dict(zip(choices, each, strict=True))) for each in product(*choices)
    ]


def _runs_in_order(script: str) -> bool:
    """Return whether each command of *script* surely runs in the folder of the `cd` before it."""
    entered = ENTERS_FIRST.fullmatch(script)
    ends = entered is not None and (entered["ends"] or entered["exits"])
    # All of it runs there if it changes to no other folder.
    if entered and ends and not _CHANGES_AGAIN.search(rest := entered["rest"]):
        # Before `&&`, `cd` may fail despite `set -e`: what is not joined to it then runs here.
        apart = MAY_RUN_ELSEWHERE.search(rest) if entered["sure"] == "&&" else None
        is_apart = apart is not None and "*" in rest[apart.start() :]
        return not (is_apart or _MOVES_UNSEEN.search(rest))
    return not (MAY_RUN_ELSEWHERE.search(script) or _MOVES_UNSEEN.search(script))


def _with_texts_run(script: str) -> tuple[str, Sequence[tuple[int, int]]]:
    """Return *script* with what `eval` and its traps run in their place.

    And from where to where, in bytes, texts stand there in which values are put in before they are
    read.
    """
    if not _RUNS_TEXT.search(script):
        return script, ()
    tree = syntax_tree(script)
    text, at, whole = whole_text(tree), 0, b""
    has_local = _MAKES_LOCAL.search(script) is not None
    composed: list[tuple[int, int]] = []
    for node in descendants(tree):
        if node.type != "command" or node.start_byte < at:
            continue
        if run := _run_in_place(node, has_local=has_local):
            whole += text[at : node.start_byte]
            start, at = len(whole), node.end_byte
            whole += run.encode()
            if node.children[1].type == "string":
                composed.append((start, len(whole)))
    return (whole + text[at:]).decode(), composed


def _run_in_place(command: "Node", *, has_local: bool) -> str:
    """Return what *command* has run: an `eval`, or a `trap` at the end or by a signal; else "".

    With *has_local*, a trap may run where a variable is another one than here.
    """
    name, *words = map(source, command.children)
    match name:
        case "eval" if len(words) == 1:
            is_later = False
        case "trap" if len(words) > 1 and all(map(_SIGNAL.fullmatch, words[1:])):
            is_later = True
        case _:
            return ""
    if words[0].isidentifier():
        return words[0] if is_later else ""  # a function
    text, kind = words[0][1:-1], command.children[1].type
    if kind == "string" and not _EXPANDED_AT_ONCE.search(text):
        if "'" in text and '"' in text:
            return ""  # one kind may stand within the other
        # Around values that are put in at once.
        text = text.replace('\\"', '"').replace("'", '"')
    elif kind != "raw_string" or (is_later and has_local):
        return ""
    return f"{{ {text}\n}}" if text.strip() and not syntax_tree(text).has_error else ""


def _expansions(tree: "Node", ranges: Sequence[tuple[int, int]]) -> Iterator["Node"]:
    for node in descendants(tree) if ranges else ():
        if node.type in EXPANSIONS and any(start <= node.start_byte < end for start, end in ranges):
            yield node


def _is_plain(expansion: "Node", known: Assignments | None) -> bool:
    """Return whether each value of *expansion* is a word, and no part of a script."""
    texts = (known.texts(expansion) if known else None) or ["$"]
    return all(_PLAIN.fullmatch(_without_quotes(each).replace(NEW, ".")) for each in texts)


def _sets_nothing_unseen(tree: "Node", script: str) -> bool:
    """Return whether each variable that *script* sets is seen to be set."""
    if _SETS_UNSEEN.search(script) or (tree.has_error and _NAMES_SETTER.search(script)):
        return False
    for node in descendants(tree):
        name = node.child_by_field_name("name")
        match node.type:
            case "command" if name is not None and not _names_program(source(name), script):
                return False
            case "command" if name is not None and _sets(source(name), node):
                return False
            case "command" if not _DECLARES.isdisjoint(map(source, node.children)):
                return False  # behind `time`, or a value for the command alone
            case "function_definition" if name is not None and source(name) in _ANSWER:
                return False
            case "declaration_command":
                words = (each for each in node.named_children if each.type in _WORDS)
                if not all(_PLAIN_DECLARATION.fullmatch(source(each)) for each in words):
                    return False
            case _:
                pass
    return True


def _names_program(written: str, script: str) -> bool:
    """Return whether *written* is the name of a program, or surely the path of one."""
    if found := _PATH_OF_PROGRAM.fullmatch(written):
        name = found[1] or found[2]
        # Without quotes, of a value with a blank the first word would be the program.
        values = re.findall(rf"(?<![$\w{{]){name}\b([^\s;&|)]*)", script)
        return written[0] == '"' or (values != [] and all(map(_PLAIN_VALUE.fullmatch, values)))
    return _PROGRAM.fullmatch(written) is not None


def _sets(name: str, command: "Node") -> bool:
    """Return whether *command* of this *name*, or what stands behind `time` there, may set any."""
    words = map(source, command.children) if name in _PRECEDE_COMMAND else ()
    return name in _SET or not _SET.isdisjoint(words)


def _changed(
    tree: "Node",
    changes: Sequence[tuple["Node", Sequence[str]]],
    chosen: Mapping[tuple[str, ...], str],
) -> str:
    """Return the script of *tree* with one of its texts, the *chosen* one, for each word."""
    text, at, pieces = whole_text(tree), 0, list[bytes]()
    for word, texts in changes:
        if word.start_byte >= at:
            pieces += [text[at : word.start_byte], chosen[tuple(texts)].encode()]
            at = word.end_byte
    return b"".join([*pieces, text[at:]]).decode()


def _texts(
    word: "Node", known: Assignments | None, *, needs_text: bool, own_temporary: bool
) -> Sequence[str | None]:
    """Return the texts that may stand in a script for *word*, for an array all of it in one."""
    if _is_script(word):
        return _scripts(word, known, own_temporary=own_temporary)
    elements = known.elements(word) if known else ()
    if not elements:
        values = _values(word, known, needs_text=needs_text)
        is_text = _is_text(word, known)
        return [_known(each, own_temporary=own_temporary, is_text=is_text) for each in values]
    of_each = [
        _texts(each, known, needs_text=True, own_temporary=own_temporary) for each in elements
    ]
    known_ones = [texts[0] for texts in of_each if len(texts) == 1 and texts[0] is not None]
    return [" ".join(known_ones)] if len(known_ones) == len(elements) else []


def _is_text(word: "Node", known: Assignments | None) -> bool:
    """Return whether *word*, of a command, stays one word: in quotes, or with a part in quotes."""
    is_argument = word.parent is not None and word.parent.type == "command"
    is_quoted = not {"'", '"'}.isdisjoint(source(word))
    values = known.pieces(word)[1::2] if known and word.type != "string" else ()
    is_split = any(re.search(r"\s", each) for each in chain(*values))
    return is_argument and is_quoted and not is_split


def _is_script(word: "Node") -> bool:
    """Return whether *word* is what a shell gets behind `-c`."""
    command, before = word.parent, word.prev_sibling
    if command is None or before is None or word.type not in ("string", "raw_string"):
        return False
    name = command.child_by_field_name("name")
    return (
        _RUNS_SCRIPT.fullmatch(source(before)) is not None
        and name is not None
        and is_shell(source(name))
    )


def _scripts(
    word: "Node", known: Assignments | None, *, own_temporary: bool
) -> Sequence[str | None]:
    """Return the scripts, as words, that *word* may be for a shell, with words that these know."""
    expansions = [*outermost(word, EXPANSIONS)] if word.type == "string" else []
    texts: Sequence[str] = [script_in(source(word))]
    if expansions:
        texts = _composed(word, expansions, known) if known else ()
    inside = (with_known_words(each, own_temporary=own_temporary) or [each] for each in texts)
    return [*map(shlex.quote, chain.from_iterable(inside))]


def _composed(word: "Node", expansions: Sequence["Node"], known: Assignments) -> Sequence[str]:
    """Return the scripts that *word*, in double quotes, may be with values for its *expansions*."""
    pieces: list[Sequence[str]] = []
    for at, texts in enumerate(known.pieces(word)):
        if at % 2 == 0:
            pieces.append([script_in(f'"{each}"') for each in texts])
            continue
        expansion, values = expansions[at // 2], [*map(_without_quotes, texts)]
        if not known.is_assigned_at(expansion) or any(map(_MARK.search, values)):
            return ()
        pieces.append([*values, ""] if known.may_be_empty(expansion) else values)
    return ["".join(each)[1:-1] for each in product(*pieces)] if pieces else ()


def _values(word: "Node", known: Assignments | None, *, needs_text: bool) -> Sequence[str]:
    """Return the texts that *word* may stand for, without quotes; () if they are not known.

    Of a variable that may be empty nothing is left: no word, or, for `cd`, the home directory. One
    that may not be assigned at all is not known: it may come from the environment.
    """
    expansions = [*outermost(word, EXPANSIONS)]
    if expansions and (known is None or not all(map(known.is_assigned_at, expansions))):
        return ()
    texts = (known.texts(word) if known else [source(word)]) or ()
    written = source(word)
    is_alone = len(expansions) == 1 and source(expansions[0]) == written.strip('"')
    if known and (needs_text or not is_alone) and any(map(known.may_be_empty, expansions)):
        for each in expansions:
            written = written.replace(source(each), "")
        texts = [*texts, written] if texts else ()
    return [*map(_without_quotes, texts)]


def _without_quotes(text: str) -> str:
    return _QUOTED.sub(lambda found: found[1] or found[2] or "", text)


def _known(text: str, *, own_temporary: bool, is_text: bool) -> str | None:
    """Return the word *text* as it is put in a script; None if what it stands for is not known."""
    if is_text and (not text or _TEXT.fullmatch(text)):
        return f"'{text}'"  # such as the script of `sh -c`
    if own_temporary and not text.startswith(NEW):
        text = _OF_TEMPORARY.sub(NEW, text, count=1) if text.startswith("/tmp") else text
    if not _PLAIN.fullmatch(text.replace(NEW, ".")):
        return None
    try:
        words = [*unbraced(text, words_max=_WORDS_OF_BRACES_MAX)]
    except TooManyWords:
        return None
    return " ".join(map(_quoted, words)) if all(map(_is_chosen, words)) else None


def _quoted(word: str) -> str:
    return f"'{word}'" if set("*?{}") & set(word) else word


def _is_chosen(word: str) -> bool:
    """Return whether *word*, if it is a pattern, stands for some names in the folder alone."""
    if not {"*", "?"}.intersection(word):
        return True
    if is_cache(word):
        return True
    parts = [part for part in word.split("/") if part != "."]
    # macOS takes .GIT for .git.
    if word.startswith("/") or ".." in parts or ".git" in word.casefold():
        return False
    hidden = (part for part in parts if part.startswith(".") and {"*", "?"}.intersection(part))
    return not any(map(_MAY_BE_GIT.match, hidden)) and any(re.search(r"\w", x) for x in parts)
