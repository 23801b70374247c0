"""Parse scripts that are fully explicit, lists of commands of literal words, conditions included.

The tree must consist of known nodes only, and every character of the script must belong to one of
them or be a blank between two, so that text skipped by the parser is never run unchecked.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, dropwhile
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from agent_cli.policies.shell.syntax import (
    BLANKS,
    CLAUSES,
    COMPOUNDS,
    KEYWORDS,
    SEPARATORS,
    SPACE,
    WORDS,
    NotPlain,
    check_known,
    check_passed_over,
    children,
    descendants,
    is_harmless_setting,
    odd_character,
    readable,
    source,
    syntax_tree,
    without_input_text,
)
from agent_cli.policies.shell.words import (
    NotLiteral,
    Word,
    bracket_words,
    heredoc_text,
    literal_word,
    literal_words,
)
from agent_cli.system.loading import late_pattern
from agent_cli.system.records import dataclass, field

if TYPE_CHECKING:
    from tree_sitter import Node

SCRIPT_CHARS_MAX = 10_000
JOINED_MAX = 50
_FED_MAX = 20  # each is parsed with all that stands behind it
_NO_VARIABLES: Mapping[str, str] = MappingProxyType({})

# Names that are no setting of bash or of any program.
_LOOP_VARIABLE = late_pattern(
    r"(?!\w*proxy$)(?!histchars$)(?!auto_resume$)[a-z][a-z0-9_]{0,19}", re.ASCII
)


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """One program and its arguments, with the operator that joins it to the previous command.

    Attributes:
        words: At least one; the first is the program's name as written.
        after: "" at the beginning, else one of && || ; | |& or a newline.
        reads: Files redirected to its input.
        tells_errors: Its standard error goes to its standard output.
        is_fed: A text in the script is its input.
    """

    words: tuple[Word, ...]
    after: str = ""
    reads: tuple[Word, ...] = ()
    tells_errors: bool = False
    is_fed: bool = False

    @property
    def text(self) -> str:
        """The words for display, not to be run."""
        return " ".join(word.text for word in self.words)


# Runs for a text in a heredoc.
_CAT = SimpleCommand((Word("cat"),), ";")


@dataclass(frozen=True, slots=True)
class Compound:
    """Commands in parentheses, braces or an `if`, any of which may run.

    With an `own_shell`, a `cd` has no effect after them.
    """

    parts: "tuple[Part, ...]"
    after: str
    own_shell: bool


@dataclass(frozen=True, slots=True)
class Loop:
    """A `for` loop: `body` returns the commands for one value, which may be a pattern.

    `body` raises `NotLiteral` for a value that would be split into several words.
    """

    values: tuple[Word, ...]
    body: "Callable[[str], tuple[Part, ...]]" = field(compare=False)
    after: str = ""


Part: TypeAlias = SimpleCommand | Compound | Loop


@dataclass(frozen=True, slots=True)
class Unknown:
    """A script that is not fully explicit; `construct` is the first reason."""

    construct: str


def parse(
    script: str, variables: Mapping[str, str] = _NO_VARIABLES, *, fed: int = 0
) -> tuple[Part, ...] | Unknown:
    """Return the commands of *script* in order, or why they are unknown.

    Args:
        variables: Variables with known values.
        fed: The number of texts for the input of commands that were taken out of it.
    """
    if len(script) > SCRIPT_CHARS_MAX:
        return Unknown(f"is longer than {SCRIPT_CHARS_MAX:,} characters")
    if odd := odd_character(script):
        return Unknown(f"contains {odd}")
    if fed < _FED_MAX and (known := _with_fed_command(script, variables, fed + 1)):
        return known
    root = syntax_tree(script)
    text = script.encode()
    try:
        check_passed_over(text[: root.start_byte] + text[root.end_byte :], SPACE)
        nodes = [*descendants(root, is_leaf=_is_read_whole)]
        for node in nodes:
            if not is_harmless_setting(node):
                check_known(node, text)
        parts = tuple(_parts(root, variables))
    except (NotPlain, NotLiteral) as found:
        return Unknown(f"contains {found}")
    if any(map(_is_heredoc_text, nodes)):
        parts = (*parts, _CAT)  # not before a `cd`, which counts at the beginning alone
    return parts or Unknown("contains no command")


def _with_fed_command(
    script: str, variables: Mapping[str, str], fed: int
) -> tuple[Part, ...] | None:
    """Return the commands of *script* if a text in it is the input of one, else None."""
    if (texts := without_input_text(script)) is None:
        return None
    before, parts = (parse(each, variables, fed=fed) for each in texts)
    if isinstance(before, Unknown) or isinstance(parts, Unknown):
        return None
    last = len(before) - 1
    command = before[last]
    if not isinstance(command, SimpleCommand) or parts[: last + 1] != before:
        return None
    return (*before[:last], replace(command, is_fed=True), *parts[last + 1 :])


def _is_read_whole(node: "Node") -> bool:
    return node.type == "test_command" or _is_heredoc_text(node) or is_harmless_setting(node)


def _is_heredoc_text(node: "Node") -> bool:
    return node.type == "string" and heredoc_text(source(node)) is not None


def simple_commands(parts: Sequence[Part]) -> Iterator[SimpleCommand]:
    """Yield every command in *parts*; the commands of a loop once for each value."""
    for part in parts:
        match part:
            case SimpleCommand():
                yield part
            case Compound():
                yield from simple_commands(part.parts)
            case Loop():
                for value in part.values:
                    yield from simple_commands(part.body(value.text))


def _parts(
    node: "Node", variables: Mapping[str, str], after: str = "", depth: int = 0
) -> Iterator[Part]:
    """Yield the commands below *node*, a statement of any kind."""
    if depth > JOINED_MAX:
        raise NotPlain(f"more than {JOINED_MAX} commands joined")
    match node.type:
        case "command":
            yield SimpleCommand(_words(node, variables), after)
        case "test_command":
            yield SimpleCommand(bracket_words(source(node), variables), after)
        case "redirected_statement":
            yield from _redirected(node, variables, after, depth)
        case "negated_command":
            _mark, command = _two(node)
            yield from _parts(command, variables, after, depth + 1)
        case "for_statement":
            yield _loop(node, variables, after, depth)
        case kind if kind in COMPOUNDS:
            inside = tuple(_joined(node, variables, "", depth))
            first, *others = node.children
            if not inside or (first.type == "{" and others[0].start_byte == first.end_byte):
                raise NotPlain("a brace")  # Bash treats it as part of a word.
            yield Compound(inside, after, own_shell=kind == "subshell")
        case "program" | "list" | "pipeline":
            yield from _joined(node, variables, after, depth)
        case _:
            raise NotPlain(readable(node))


def _two(negated: "Node") -> Sequence["Node"]:
    parts = children(negated, BLANKS)
    if len(parts) != 2:
        raise NotPlain(readable(negated))
    return parts


def _redirected(
    node: "Node", variables: Mapping[str, str], after: str, depth: int
) -> Iterator[Part]:
    body, *redirects = children(node, BLANKS)
    *before, last = _parts(body, variables, after, depth + 1)
    yield from before
    for redirect in redirects:
        # In a list it belongs to the last command.
        last = _with_redirect(last, redirect, variables)
    yield last


def _joined(node: "Node", variables: Mapping[str, str], after: str, depth: int) -> Iterator[Part]:
    if not node.children:
        raise NotPlain("no command")
    for child in children(node, SPACE):
        if child.type in SEPARATORS:
            after = child.type
        elif child.type in CLAUSES:
            yield from _joined(child, variables, "\n", depth + 1)
        elif child.type in KEYWORDS:
            after = "\n"
        elif child.type != "comment":
            yield from _parts(child, variables, after, depth + 1)
            after = "\n"


def _loop(node: "Node", variables: Mapping[str, str], after: str, depth: int) -> Loop:
    """Parse a `for NAME in WORDS; do COMMANDS; done`."""
    keyword, name, within, *rest = children(node, SPACE)
    kinds = [child.type for child in rest]
    if keyword.type != "for" or within.type != "in" or kinds[-1:] != ["do_group"]:
        raise NotPlain("a loop over unknown words")
    if not _LOOP_VARIABLE.fullmatch(source(name)):
        raise NotPlain(f"a loop that sets {source(name)}")
    words = [child for child in rest[:-1] if child.type not in (";", "\n")]
    if not WORDS.issuperset(word.type for word in words):
        raise NotPlain("a loop over unknown words")
    values = tuple(chain.from_iterable(literal_words(source(word), variables) for word in words))
    body = partial(_body, rest[-1], variables, source(name), depth + 1)
    body("x")  # The body must be plain for every value.
    return Loop(values, body, after)


def _body(
    group: "Node", variables: Mapping[str, str], name: str, depth: int, value: str
) -> tuple[Part, ...]:
    inside = children(group, SPACE)
    if [inside[0].type, inside[-1].type] != ["do", "done"]:
        raise NotPlain("a loop without a body")
    known = {**variables, name: value}
    found: list[Part] = []
    after = "\n"
    for child in inside[1:-1]:
        if child.type in SEPARATORS:
            after = child.type
        elif child.type != "comment":
            found += _parts(child, known, after, depth + 1)
            after = "\n"
    return tuple(found)


def _words(command: "Node", variables: Mapping[str, str]) -> tuple[Word, ...]:
    written = children(command, BLANKS)
    parts = [*dropwhile(is_harmless_setting, written)]
    names = [part.type for part in parts]
    if names[0] != "command_name" or not WORDS.issuperset(names[1:]):
        # Bash parses `> file ls` as a redirect followed by a command, and so must we.
        raise NotPlain("a redirect before the end of a command")
    words = tuple(chain.from_iterable(literal_words(source(part), variables) for part in parts))
    if not words or words[0].glob or words[0].unknown or words[0].text == "!":
        raise NotPlain("a program whose name is not certain")
    return words


def _with_redirect(part: Part, redirect: "Node", variables: Mapping[str, str]) -> Part:
    """Add a redirect to /dev/null, &1 or &2, or from a file, to *part*.

    The parser treats words behind a destination as further destinations.
    """
    if redirect.type != "file_redirect":
        raise NotPlain(readable(redirect))
    parts = [each for each in redirect.children if each.type != "file_descriptor"]
    operator, *destinations = parts
    if len(destinations) != 1:
        raise NotPlain(f"words behind a redirect: {source(redirect)[:60]}")
    target = literal_word(source(destinations[0]), variables)
    known = ("1", "2") if operator.type == ">&" else ("/dev/null",)
    if target.text in known:
        is_told = operator.type == ">&" or operator.type.startswith("&")
        return (
            replace(part, tells_errors=True)
            if is_told and isinstance(part, SimpleCommand)
            else part
        )
    if (
        operator.type == "<"
        and len(parts) == len(redirect.children)
        and isinstance(part, SimpleCommand)
    ):
        return replace(part, reads=(*part.reads, target))
    raise NotPlain(f"a redirect: {source(redirect)[:60]}")


_UNARY = frozenset(f"-{letter}" for letter in "abcdefghknprstuwxzGLNOS")
_TEXT_BINARY = frozenset({"=", "==", "!="})
_NUMBER_BINARY = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
_FILE_BINARY = frozenset({"-nt", "-ot", "-ef"})
_BINARY = _TEXT_BINARY | _NUMBER_BINARY | _FILE_BINARY
_NUMBER = late_pattern(r"-?\d{1,9}")


def only_compares(name: str, words: Sequence[Word]) -> bool:
    """Return whether `test`, `[` or `[[` with *words* only compares."""
    words = words if name == "test" else words[:-1]
    if name == "[[":
        return _conjunction(list(words))
    return not any(word.glob for word in words) and _comparison(list(words), arithmetic=False)


def _conjunction(words: list[Word]) -> bool:
    """Return whether the *words* of a `[[` are comparisons joined by && and ||."""
    part: list[Word] = []
    parts = [part]
    for word in words:
        if word.text in ("&&", "||"):
            part = []
            parts.append(part)
        else:
            part.append(word)
    return all(_comparison(each, arithmetic=True) for each in parts)


def _comparison(words: list[Word], *, arithmetic: bool) -> bool:
    # -v and -R take a variable, and a subscript in its name may hold a command. In `[[`, operands
    # of numeric comparisons are evaluated, with the same effect; elsewhere they are plain text.
    if words and words[0].text == "!" and not words[0].unknown:
        words = words[1:]
    match words:
        case [Word() as only]:
            return not only.unknown and not only.glob
        case [operator, operand]:
            return operator.text in _UNARY and not operator.unknown and not operand.glob
        case [left, operator, right] if operator.text in _NUMBER_BINARY:
            return all(
                _NUMBER.fullmatch(word.text) or not (arithmetic or word.glob)
                for word in (left, right)
            )
        case [left, operator, right] if operator.text in _BINARY and not operator.unknown:
            return not left.glob and (arithmetic or not right.glob)
        case _:
            return False
