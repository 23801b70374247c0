"""Find the texts that a word of a script may stand for, by what the script itself assigns.

For the rules about files, and for what cannot be taken back. A variable is known if each of its
values stands in the script: in an assignment or as a word of a loop. Where the script reads one, or
takes one from its surroundings, nothing is known. When which value holds is not looked at: each one
counts.
"""

import os.path
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from agent_cli.policies.shell.braces import TooManyWords, unbraced
from agent_cli.policies.shell.reach import Reach
from agent_cli.policies.shell.syntax import descendants, outermost, source, syntax_tree
from agent_cli.policies.shell.words import likely_word
from agent_cli.system.loading import late_pattern

if TYPE_CHECKING:
    from tree_sitter import Node

_EXPANSIONS = frozenset(
    {"simple_expansion", "expansion", "command_substitution", "arithmetic_expansion"}
)
_FILLS = frozenset({"read", "mapfile", "readarray", "getopts"})
_HOLD_WORDS = frozenset({"command", "file_redirect"})
# Their values are words already.
_EXPANDED_ALONE = frozenset({"command_substitution", "arithmetic_expansion"})
_TEXTS_MAX = 200
_CHARS_MAX = 4096
_DEPTH_MAX = 20
_SCRIPTS_DEPTH_MAX = 4
_ESCAPE = late_pattern(r'\\([$`"\\])')
_BLANK = late_pattern(r"\s")
_NAME = late_pattern(r"[A-Za-z_]\w*", re.ASCII)
_VALUE = late_pattern(r"\$(?:\{(\w+)(?:\[[^\]]*\])?\}|(\w+))", re.ASCII)
_SETS = late_pattern(r"\$\{(\w+):?=", re.ASCII)
_NUMBER = late_pattern(r"\$(?:[#?$!]|\{#\w+(?:\[[@*]\])?\}|\(\s*seq(?:\s+-?\d+)+\s*\))")
_FOLDER = late_pattern(r"\$\(\s*pwd\s*\)|`\s*pwd\s*`")
_RUNS = late_pattern(r"\$\(|`")
_NEW_FILE = late_pattern(r"(?:\$\(|`)\s*mktemp(?:\s+[\w./+=-]+)*\s*[)`]")
# A file that mktemp has just made; no name holds this private-use character.
_NEW = "/tmp/\ue001"
_NEW_HERE = "./new-in-tmp"
_QUOTED = late_pattern(r"\"([^\"'\\]*)\"|'([^\"'\\]*)'")
_PLAIN = late_pattern(r"[\w./+@%,=:*?{}-]+", re.ASCII)
_OF_TEMPORARY = late_pattern(r"/tmp(?=/|$)")
_WORDS_OF_BRACES_MAX = 20
_ALL_CHARS_MAX = 50_000
_CHANGE_FOLDER = frozenset({"cd", "pushd", "popd"})
MAY_RUN_ELSEWHERE = late_pattern(r"[;\n(`!]|\|\||(?<![&>])&(?![&\d>])")
"""What may be in a script whose commands do not surely run one after the other, by `&&`."""
# With one of them, a variable may get another value, or its value be split elsewhere.
_SETS_UNSEEN = late_pattern(
    r"\b(?:IFS|eval|source|coproc|let)\b|(?:^|[;&|(\s])\.\s|\(\(|\bwait\s+-|\{\w+\}[<>]"
)
# A database of tests is made anew by such a task.
_ON_TEST_DATABASE = late_pattern(
    r"(?:RAILS_ENV|RACK_ENV|MIX_ENV)=test (?:bundle exec )?(?:bin/)?(?:rails|rake|mix)"
    r"(?: (?:db|ecto)[:.][\w:.]+)+"
)
_DOES_NOTHING = ":"
_STATEMENTS = frozenset({"list", "declaration_command"})


def preset_values(reach: Reach) -> Mapping[str, Sequence[str]]:
    """Return the values of the variables that a script need not assign."""
    home = {"HOME": [reach.home]} if reach.home else {}
    return {"PWD": [".", str(reach.root)], **home}


class Assignments:
    """The variables of one script with the words that they may get; None for unknown ones."""

    def __init__(self, tree: "Node", preset: Mapping[str, Sequence[str]]) -> None:
        """Read *tree*; *preset* are values of variables that the shell itself sets."""
        self._words: dict[str, list[Node] | None] = {}
        for node in descendants(tree):
            for name, words in _assigned(node):
                known = self._words.get(name, [])
                self._words[name] = None if known is None or words is None else [*known, *words]
        self._values: dict[str, Sequence[str] | None] = {
            name: texts for name, texts in preset.items() if name not in self._words
        }

    def texts(self, word: "Node", depth: int = 0) -> Sequence[str] | None:
        """Return the texts that *word* may stand for, quotes kept; None if they are not known."""
        pieces: list[Sequence[str]] = []
        at, text = word.start_byte, word.text or b""
        for node in outermost(word, _EXPANSIONS):
            pieces.append([text[at - word.start_byte : node.start_byte - word.start_byte].decode()])
            if (values := self._texts_of(node, depth)) is None:
                return None
            pieces.append(values)
            at = node.end_byte
        pieces.append([text[at - word.start_byte :].decode()])
        longest = sum(max(map(len, each)) for each in pieces)
        if prod(map(len, pieces)) > _TEXTS_MAX or longest > _CHARS_MAX:
            return None
        return ["".join(each) for each in product(*pieces)]

    def is_set_at(self, expansion: "Node") -> bool:
        """Return whether *expansion* surely has one of the known values, and is not empty."""
        found = _VALUE.fullmatch(source(expansion))
        if not found:
            return _FOLDER.fullmatch(source(expansion)) is not None
        name = found[1] or found[2]
        words = self._words.get(name) or ()
        return (name == "PWD" and not words) or any(_sets_before(word, expansion) for word in words)

    def _texts_of(self, expansion: "Node", depth: int) -> Sequence[str] | None:
        written = source(expansion)
        if expansion.type == "arithmetic_expansion" or _NUMBER.fullmatch(written):
            return ["0"]
        if _FOLDER.fullmatch(written):
            return self._value("PWD", depth)
        if _NEW_FILE.fullmatch(written):
            return [_NEW]
        found = _VALUE.fullmatch(written)
        return self._value(found[1] or found[2], depth) if found else None

    def _value(self, name: str, depth: int) -> Sequence[str] | None:
        if name not in self._values:
            # A variable that is set by its own value is not known.
            self._values[name] = None
            words = self._words.get(name)
            if words is not None and depth < _DEPTH_MAX:
                known = [self.texts(word, depth + 1) for word in words]
                texts = dict.fromkeys(text for each in known for text in each or ())
                is_known = None not in known and len(texts) <= _TEXTS_MAX
                self._values[name] = [*texts] or [""] if is_known else None
        return self._values[name]


def composed_words(
    script: str, preset: Mapping[str, Sequence[str]], depth: int = 0
) -> Iterator[str]:
    """Yield the texts of words in which *script* puts known values, also in scripts inside."""
    tree = syntax_tree(script)
    known = Assignments(tree, preset)
    for node in descendants(tree):
        if node.type not in _HOLD_WORDS:
            continue
        for word in node.named_children:
            has_values = word.type not in _EXPANDED_ALONE and any(outermost(word, _EXPANSIONS))
            texts = known.texts(word) if has_values or _BLANK.search(source(word)) else None
            for text in texts or ():
                if has_values:
                    yield text
                if depth < _SCRIPTS_DEPTH_MAX and _BLANK.search(text):
                    yield from composed_words(script_in(text), preset, depth + 1)


def with_known_words(script: str, *, own_temporary: bool) -> Sequence[str]:
    """Return *script* with known words in the place of those that bash expands; () if it has none.

    One script for each value of a variable that has several, and one for none where it may have
    none. A pattern is a known word if it stands for names in the folder alone, neither for all of
    them nor for git's own data; so is a file that mktemp makes, and, with *own_temporary*, each
    in /tmp: no other program has files there. Tasks that only empty a database of tests are left
    out.
    """
    tree = syntax_tree(script)
    known = None if _SETS_UNSEEN.search(script) else Assignments(tree, {"PWD": ["."]})
    place, is_sequence = _Place(), not MAY_RUN_ELSEWHERE.search(script)
    changes: list[tuple[Node, Sequence[str]]] = []
    for node in descendants(tree):
        if node.type != "command":
            continue
        if _ON_TEST_DATABASE.fullmatch(source(node)):
            changes.append((node, [_DOES_NOTHING]))
        name = node.child_by_field_name("name")
        is_folder = name is not None and source(name) in _CHANGE_FOLDER
        for word in node.children_by_field_name("argument"):
            values = _values(word, known, is_folder=is_folder)
            texts: Sequence[str | None] = [
                _known(each, own_temporary=own_temporary) for each in values
            ]
            texts = place.after(node, texts) if is_folder and is_sequence else texts
            if texts and None not in texts and texts != [source(word)]:
                changes.append((word, [each or "" for each in texts]))
    count = max((len(texts) for _, texts in changes), default=0)
    if count * len(script) > _ALL_CHARS_MAX:
        return ()
    return [_changed(tree, changes, at) for at in range(count)]


class _Place:
    """The folder that a script is in after each `cd`, from where it started; ".." if unknown."""

    def __init__(self) -> None:
        self._folder, self._before = ".", ".."

    def after(self, command: "Node", texts: Sequence[str | None]) -> Sequence[str | None]:
        """Return the folder that *command*, a `cd` to one of *texts*, changes to, if known."""
        text = texts[0] if len(texts) == 1 else None
        is_alone = len(command.children_by_field_name("argument")) == 1
        in_pipe = command.parent is not None and command.parent.type == "pipeline"
        if not text or in_pipe or not is_alone or text.startswith(("/", "'", _NEW_HERE)):
            self._folder = ".."
            return texts
        folder = self._before if text == "-" else os.path.normpath(f"{self._folder}/{text}")
        self._folder, self._before = folder, self._folder
        return [folder]


def _changed(tree: "Node", changes: Sequence[tuple["Node", Sequence[str]]], chosen: int) -> str:
    """Return the script of *tree* with one of the texts, the *chosen* one, for each word."""
    text, at, pieces = tree.text or b"", 0, list[bytes]()
    for word, texts in changes:
        if word.start_byte >= at:
            known = texts[min(chosen, len(texts) - 1)]
            pieces += [text[at : word.start_byte], known.encode()]
            at = word.end_byte
    return b"".join([*pieces, text[at:]]).decode()


def _values(word: "Node", known: Assignments | None, *, is_folder: bool) -> Sequence[str]:
    """Return the texts that *word* may stand for, without quotes; () if they are not known.

    Of a variable that may be empty nothing is left: no word, or, for `cd`, the home directory.
    """
    expansions = [*outermost(word, _EXPANSIONS)]
    if expansions and known is None:
        return ()
    texts = (known.texts(word) if known else [source(word)]) or ()
    written = source(word)
    is_alone = len(expansions) == 1 and source(expansions[0]) == written.strip('"')
    if known and (is_folder or not is_alone) and not all(map(known.is_set_at, expansions)):
        for each in expansions:
            written = written.replace(source(each), "")
        texts = [*texts, written] if texts else ()
    return [_QUOTED.sub(lambda found: found[1] or found[2] or "", each) for each in texts]


def _known(text: str, *, own_temporary: bool) -> str | None:
    """Return the word *text* as it is put in a script; None if what it stands for is not known."""
    text = text.replace(_NEW, _NEW_HERE)
    if own_temporary:
        text = _OF_TEMPORARY.sub(_NEW_HERE, text, count=1) if text.startswith("/tmp") else text
    if not _PLAIN.fullmatch(text.replace(_NEW_HERE, ".")):
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
    parts = [part for part in word.split("/") if part != "."]
    if word.startswith("/") or ".." in parts or ".git" in word:
        return False
    hidden = (part for part in parts if part.startswith(".") and {"*", "?"}.intersection(part))
    return not any(hidden) and any(re.search(r"\w", part) for part in parts)


def _sets_before(value: "Node", use: "Node") -> bool:
    """Return whether the statement that sets a variable to *value* surely came before *use*."""
    node = value.parent
    written = source(value).strip('"')
    if node is None or not written or (_RUNS.search(written) and not _FOLDER.fullmatch(written)):
        return False
    if node.type == "for_statement":
        body = node.child_by_field_name("body")
        return body is not None and body.start_byte <= use.start_byte < body.end_byte
    while node.parent is not None and node.parent.type in _STATEMENTS:
        if node.parent.named_children[0].id != node.id:
            return False  # of a list, only the first surely runs
        node = node.parent
    is_run = node.parent is not None and node.parent.type == "program"
    in_background = node.next_sibling is not None and node.next_sibling.type == "&"
    return is_run and not in_background and value.end_byte <= use.start_byte


def script_in(text: str) -> str:
    """Return the script that a shell gets if one word of its call is *text*, quotes included."""
    if text[:1] == '"':
        return _ESCAPE.sub(r"\1", text[1:-1])
    return text[1:-1] if text[:1] == "'" else text


def _assigned(node: "Node") -> Iterator[tuple[str, "list[Node] | None"]]:
    """Yield the variables that *node* sets, with the words of their values; None if not known."""
    match node.type:
        case "variable_assignment":
            yield _assignment(node)
        case "for_statement":
            name = node.child_by_field_name("variable")
            values = node.children_by_field_name("value")
            yield source(name) if name else "", values or None
        case "expansion":
            if found := _SETS.match(source(node)):
                yield found[1], None
        case "declaration_command":
            # A second name for another variable.
            words = [source(child) for child in node.children]
            if any(re.match(r"-\w*n", word) for word in words):
                yield from ((word.partition("=")[2], None) for word in words)
        case "unset_command":
            yield from ((source(child), None) for child in node.named_children)
        case "command":
            yield from ((name, None) for name in _filled(node))
        case _:
            pass


def _assignment(node: "Node") -> tuple[str, "list[Node] | None"]:
    name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
    written = source(name) if name else ""
    is_added = any(child.type == "+=" for child in node.children)
    is_for_one = node.parent is not None and node.parent.type == "command"
    if is_added or is_for_one or not _NAME.fullmatch(written):
        return written.partition("[")[0], None
    if value is None:
        return written, []
    return written, value.named_children if value.type == "array" else [value]


def _filled(command: "Node") -> Iterator[str]:
    """Yield the variables that `read` and its like fill."""
    words = [likely_word(source(child)) or "" for child in command.named_children]
    if words[:1] and words[0] in _FILLS:
        yield from filter(_NAME.fullmatch, words[1:])
    elif words[:1] == ["printf"] and "-v" in words[:-1]:
        yield words[words.index("-v") + 1]
