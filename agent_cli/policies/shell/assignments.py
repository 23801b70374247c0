"""Find the texts that a word of a script may stand for, by what the script itself assigns.

For the rules about files, and for what cannot be taken back. A variable is known if each of its
values stands in the script: in an assignment or as a word of a loop. Where the script reads one, or
takes one from its surroundings, nothing is known. When which value holds is not looked at: each one
counts.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import pairwise, product
from math import prod
from typing import TYPE_CHECKING

from agent_cli.policies.shell.reach import Reach
from agent_cli.policies.shell.syntax import CLAUSES, descendants, outermost, source, syntax_tree
from agent_cli.policies.shell.words import likely_word
from agent_cli.system.loading import late_pattern

if TYPE_CHECKING:
    from tree_sitter import Node

EXPANSIONS = frozenset(
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
_LEVELS_MAX = 40
_ESCAPE = late_pattern(r'\\([$`"\\])')
_BLANK = late_pattern(r"\s")
_NAME = late_pattern(r"[A-Za-z_]\w*", re.ASCII)
_VALUE = late_pattern(r"\$(?:\{(\w+)(?:\[[^\]]*\])?\}|(\w+))", re.ASCII)
_LIST = late_pattern(r"\"\$\{(\w+)\[@\]\}\"|\$\{(\w+)\[[@*]\]\}", re.ASCII)
_MAKES_LOCAL = frozenset({"local", "declare", "typeset"})
_TAKE_LISTS = frozenset({"command", "for_statement"})
_SETS = late_pattern(r"\$\{(\w+):?=", re.ASCII)
_NUMBER = late_pattern(r"\$(?:[#?$!]|\{#\w+(?:\[[@*]\])?\}|\(\s*seq(?:\s+-?\d+)+\s*\))")
_FOLDER = late_pattern(r"\$\(\s*pwd\s*\)|`\s*pwd\s*`")
_RUNS = late_pattern(r"\$\(|`")
_NEW_FILE = late_pattern(r"(?:\$\(|`)\s*mktemp(?:\s+[\w./+=-]+)*\s*[)`]")
# A file that mktemp has just made; no name holds this private-use character.
NEW = "/tmp/\ue001"
_STATEMENTS = frozenset({"declaration_command", "variable_assignments"})
# What runs one after the other, from the first to the last.
_BLOCKS = frozenset(
    {"program", "compound_statement", "do_group", "subshell", "if_statement", "elif_clause"}
    | {"else_clause"}
)


def preset_values(reach: Reach) -> Mapping[str, Sequence[str]]:
    """Return the values of the variables that a script need not assign."""
    home = {"HOME": [reach.home]} if reach.home else {}
    return {"PWD": [".", str(reach.root)], **home}


class Assignments:
    """The variables of one script with the words that they may get; None for unknown ones."""

    def __init__(self, tree: "Node", preset: Mapping[str, Sequence[str]]) -> None:
        """Read *tree*; *preset* are values of variables that the shell itself sets."""
        self._tree = tree
        self._words: dict[str, list[Node] | None] = {}
        self._emptied, self._is_whole = set[str](), dict[str, bool]()
        self._ranges: dict[str, Sequence[tuple[int, int]]] = {}
        self._declared: dict[str, list[int]] = {}
        self._functions: list[tuple[int, int]] = []
        for node in descendants(tree):
            if node.type == "function_definition":
                self._functions.append((node.start_byte, node.end_byte))
            for name in _declared(node):
                self._declared.setdefault(name, []).append(node.start_byte)
            for name, words in _assigned(node):
                if not words:
                    self._emptied.add(name)
                known = self._words.get(name, [])
                self._words[name] = None if known is None or words is None else [*known, *words]
        self._values: dict[str, Sequence[str] | None] = {
            name: texts for name, texts in preset.items() if name not in self._words
        }

    def texts(self, word: "Node", depth: int = 0) -> Sequence[str] | None:
        """Return the texts that *word* may stand for, quotes kept; None if they are not known."""
        pieces = self.pieces(word, depth)
        return ["".join(each) for each in product(*pieces)] if pieces else None

    def pieces(self, word: "Node", depth: int = 0) -> Sequence[Sequence[str]]:
        """Return the text of *word* before its first expansion, the values of that, and so on.

        () if one is not known, or there are too many.
        """
        pieces: list[Sequence[str]] = []
        at, text = word.start_byte, word.text or b""
        for node in outermost(word, EXPANSIONS):
            pieces.append([text[at - word.start_byte : node.start_byte - word.start_byte].decode()])
            if (values := self._texts_of(node, depth)) is None:
                return ()
            pieces.append(values)
            at = node.end_byte
        pieces.append([text[at - word.start_byte :].decode()])
        longest = sum(max(map(len, each)) for each in pieces)
        if prod(map(len, pieces)) > _TEXTS_MAX or longest > _CHARS_MAX:
            return ()
        return pieces

    def is_assigned_at(self, expansion: "Node", depth: int = 0) -> bool:
        """Return whether *expansion* surely has one of the known values there, or is empty."""
        found = _VALUE.fullmatch(source(expansion))
        if not found:
            return True
        name = found[1] or found[2]
        words = self._words.get(name)
        if not words:
            return name == "PWD" and words is None and "[" not in found[0]
        if "[" in found[0] and (name in self._emptied or not _is_list(expansion, words)):
            return False  # it may have no such element
        at = expansion.start_byte
        if not any(start <= at < end for start, end in self._ranges_of(name, words)):
            return False
        if name not in self._is_whole and depth < _DEPTH_MAX:
            inner = [each for word in words for each in outermost(word, EXPANSIONS)]
            self._is_whole[name] = False  # until it is known
            self._is_whole[name] = all(
                self.is_assigned_at(each, depth + 1)
                and (_is_run_alone(each) or not self.may_be_empty(each))
                for each in inner
            )
        return self._is_whole.get(name, False)

    def elements(self, word: "Node") -> Sequence["Node"]:
        """Return the words of the array that *word* surely stands for; () if it is no array."""
        found = _LIST.fullmatch(source(word))
        words = (self._words.get(found[1] or found[2]) or ()) if found else ()
        if not 0 < len(words) <= _TEXTS_MAX:
            return ()
        return words if all(map(self.is_assigned_at, outermost(word, EXPANSIONS))) else ()

    def may_be_empty(self, expansion: "Node") -> bool:
        """Return whether *expansion* may stand for nothing, although it is assigned there."""
        written = source(expansion)
        found = _VALUE.fullmatch(written)
        if not found:
            return _FOLDER.fullmatch(written) is None
        name = found[1] or found[2]
        words = self._words.get(name) or ()
        return (
            name in self._emptied
            or any(map(_may_be_empty, words))
            or self._is_only_declared(name, words, expansion.start_byte)
        )

    def _is_only_declared(self, name: str, words: Sequence["Node"], at: int) -> bool:
        """Return whether *name* may be a variable of a function that has no value yet, *at* there.

        A function that is called from there has the same variable.
        """
        here = self._function_at(at)
        for start in self._declared.get(name, ()):
            function = self._function_at(start)
            if function is None or here is None:
                continue
            if here != function or len(words) > _TEXTS_MAX:
                return True
            ranges = (_range_of(word, self._around) for word in words)
            if not any(start < begin <= at < end for begin, end in filter(None, ranges)):
                return True
        return False

    def _function_at(self, at: int) -> tuple[int, int] | None:
        around = [each for each in self._functions if each[0] <= at < each[1]]
        return around[-1] if around else None

    def _ranges_of(self, name: str, words: Sequence["Node"]) -> Sequence[tuple[int, int]]:
        if name not in self._ranges:
            kept: list[tuple[int, int]] = []
            ranges = (_range_of(word, self._around) for word in words)
            for start, end in filter(None, ranges):
                if not kept or end > kept[-1][1]:
                    kept.append((start, end))
            self._ranges[name] = kept
        return self._ranges[name]

    @cached_property
    def _around(self) -> Mapping[int, tuple["Node", "Node | None"]]:
        """The parent of each node, by its id, and what stands behind it."""
        # Asked for one of them, a node searches the tree from its root on.
        return {
            child.id: (parent, behind)
            for parent in descendants(self._tree)
            for child, behind in pairwise((*parent.children, None))
            if child
        }

    def _texts_of(self, expansion: "Node", depth: int) -> Sequence[str] | None:
        written = source(expansion)
        if expansion.type == "arithmetic_expansion" or _NUMBER.fullmatch(written):
            return ["0"]
        if _FOLDER.fullmatch(written):
            return self._value("PWD", depth)
        if _NEW_FILE.fullmatch(written):
            return [NEW]
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
            has_values = word.type not in _EXPANDED_ALONE and any(outermost(word, EXPANSIONS))
            texts = known.texts(word) if has_values or _BLANK.search(source(word)) else None
            if has_values:
                yield from _behind_first(known.pieces(word), outermost(word, EXPANSIONS))
            for text in texts or ():
                if has_values:
                    yield text
                if depth < _SCRIPTS_DEPTH_MAX and _BLANK.search(text):
                    yield from composed_words(script_in(text), preset, depth + 1)


def _behind_first(pieces: Sequence[Sequence[str]], expansions: Iterable["Node"]) -> Iterator[str]:
    """Yield the words that lists become but for their first: in "x/${d[@]}" no x is before them."""
    for at, expansion in enumerate(expansions if pieces else ()):
        if "[@]" in source(expansion):
            yield from map("".join, product(*pieces[2 * at + 1 :]))


def _is_list(expansion: "Node", words: Sequence["Node"]) -> bool:
    """Return whether *expansion* becomes a word for each of *words*, which are of one array."""
    parent = expansion.parent
    word = parent if parent is not None and parent.type == "string" else expansion
    is_taken = word.parent is not None and word.parent.type in _TAKE_LISTS
    arrays = {each.parent.id for each in words if each.parent and each.parent.type == "array"}
    is_one = len(arrays) == 1 and all(each.parent and each.parent.id in arrays for each in words)
    return is_taken and is_one and _LIST.fullmatch(source(word)) is not None


def _is_run_alone(expansion: "Node") -> bool:
    """Return whether *expansion* runs a command, and is all of a value: that is then empty, too."""
    parent = expansion.parent
    around = source(parent).strip('"') if parent is not None and parent.type == "string" else ""
    is_alone = parent is not None and parent.type == "variable_assignment"
    return expansion.type == "command_substitution" and (is_alone or around == source(expansion))


def _may_be_empty(value: "Node") -> bool:
    written = source(value).strip("\"'")
    is_run = _RUNS.search(written) is not None and _FOLDER.fullmatch(written) is None
    return not written or is_run


def _range_of(
    value: "Node", around: Mapping[int, tuple["Node", "Node | None"]]
) -> tuple[int, int] | None:
    """Return from where to where a variable that is set to *value* is surely set."""
    (node, _), start = around[value.id], value.end_byte
    if node.type == "for_statement":
        body = node.child_by_field_name("body")
        return (body.start_byte, body.end_byte) if body else None
    if node.type == "array":
        start, (node, _) = node.end_byte, around[node.id]
    end, is_sure = start, True
    for _ in range(_LEVELS_MAX):
        if node.id not in around:
            return None
        parent, behind = around[node.id]
        is_first = next(each for each in parent.children if each.is_named).id == node.id
        if is_in_background := behind is not None and behind.type == "&":
            end = node.end_byte if is_sure else end
        if parent.type == "redirected_statement":
            end, is_sure = parent.end_byte, False
        elif parent.type == "list" and any(each.type == "&&" for each in parent.children):
            # Behind `&&`, what stands on the left has run; alone, only the first surely runs.
            end = parent.end_byte if is_first and not is_sure else end
            is_sure = is_sure and is_first
        elif parent.type == "list" and not is_first:
            return None
        elif parent.type not in _STATEMENTS and (parent.type != "list" or not is_sure):
            is_sure = is_sure and parent.type in _BLOCKS and not is_in_background
            return (start, _end_of(parent) if is_sure else end)
        node = parent
    return (start, end)


# Cached: it holds for each of a thousand assignments in one block.
@lru_cache(maxsize=8)
def _end_of(block: "Node") -> int:
    """Return where *block* ends, an `if` without its other branches."""
    branches = (each.start_byte for each in block.children if each.type in CLAUSES)
    return next(branches, block.end_byte)


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


def _declared(node: "Node") -> Iterator[str]:
    """Yield the variables that *node*, a `local` or its like, makes without a value."""
    if node.type == "declaration_command" and source(node.children[0]) in _MAKES_LOCAL:
        yield from (source(each) for each in node.children if each.type == "variable_name")


def _assignment(node: "Node") -> tuple[str, "list[Node] | None"]:
    name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
    written = source(name) if name else ""
    is_added = any(child.type == "+=" for child in node.children)
    is_for_one = node.parent is not None and node.parent.type == "command"
    if is_added or is_for_one or not _NAME.fullmatch(written):
        return written.partition("[")[0], None
    if value is None:
        return written, []
    if value.type != "array":
        return written, [value]
    return written, [each for each in value.named_children if each.type != "comment"]


def _filled(command: "Node") -> Iterator[str]:
    """Yield the variables that `read` and its like fill."""
    words = [likely_word(source(child)) or "" for child in command.named_children]
    if words[:1] and words[0] in _FILLS:
        yield from filter(_NAME.fullmatch, words[1:])
    elif words[:1] == ["printf"] and "-v" in words[:-1]:
        yield words[words.index("-v") + 1]
