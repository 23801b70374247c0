"""The interface to the parser of bash, and the nodes of its trees that are understood."""

import re
import time
import unicodedata
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from agent_cli.system.loading import late_pattern

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

WRITING: Final = frozenset({">", ">>", ">|", "&>", "&>>", "<>"})
"""The operators of redirects that write the file they open."""
NOT_WORDS: Final = frozenset({"variable_assignment", "herestring_redirect", "heredoc_redirect"})
"""The kinds of a command's children that are none of its words."""
SCRIPT: Final = late_pattern(r"[\s;&|<>()`$]")
"""Characters that no bare name has: a word with one of them may be a script for a shell."""
ENTERS_FIRST: Final = late_pattern(
    r"(?>(?:\s*#[^\n]*\n)*)\s*(?P<ends>set\s+-[ux]*e[ux]*(?:o\s+pipefail)?\s*[;\n]\s*)?"
    r"cd\s+(?P<quote>[\"']?)(?P<folder>[\w./@+~-]+)(?P=quote)"
    r"\s*(?:(?P<sure>&&|(?P<exits>\|\|\s*exit(?:\s+\d+)?\s*[;\n]))|[;\n])(?P<rest>.*)",
    re.DOTALL | re.ASCII,
)
"""A script that enters a folder first; *rest* surely runs there if *sure*, *exits* or *ends*."""
TOO_LONG: Final = "runs commands that are nested too deep, or are too long, to be checked"
# What is longer, or of more parts, would hold the session while it is looked at: up to a second.
_CHARS_MAX: Final = 128_000
_NODES_MAX: Final = 12_500
_PARSED_AT_ONCE: Final = 4_000  # bytes, which take an eighth of a second at most
_PARSING_MAX_S: Final = 0.125  # six times as long as a tree of _NODES_MAX takes without errors
# Stands for it: everything that understands only what parses rejects it.
_UNPARSABLE: Final = "("
_HEREDOCS_NESTED_MAX: Final = 8  # the innermost backquote has 255 backslashes
_QUOTES_MARK: Final = late_pattern(rb"['\"\\]")
_BACKQUOTED: Final = late_pattern(rb"\\.|`(?P<script>(?:[^`\\]|\\.)*)`", re.DOTALL)
_ESCAPED: Final = late_pattern(rb"\\([$`\\])")
_INNER_BACKQUOTE: Final = late_pattern(rb"`(?:[^`\\]|\\.)*`.", re.DOTALL)
_NO_MARK: Final = late_pattern(r"\$|.*\\\s", re.DOTALL)
_NO_WORD: Final = late_pattern(r"(?:[^\\]|\\.)*\n", re.DOTALL)
_UNUSUAL: Final = late_pattern(r"[^ \n\t!-~]")
_GAP: Final = late_pattern(r"(?:\\\n)*[ \t](?:[ \t]|\\\n)*")


def is_too_large(script: str) -> bool:
    """Return whether *script* has too many characters or parts to be looked at."""
    if len(script) > _CHARS_MAX or (root := _parsed(script)) is None:
        return True
    return root.descendant_count > _NODES_MAX


def syntax_tree(script: str) -> "Node":
    """Return the root of the tree of *script*; unparsable text is an ERROR node.

    So is a whole script that is too long.
    """
    root = None if is_too_large(script) else _parsed(script)
    return root or _parser().parse(_UNPARSABLE.encode()).root_node


# Cached: a decision parses the same script three times.
@lru_cache(maxsize=8)
def _parsed(script: str) -> "Node | None":
    # A lone surrogate cannot be encoded; it becomes "?", which no allowlist accepts.
    text = script.encode(errors="replace")
    root = _tree(text)
    # The parser takes backquotes in a heredoc for text; another heredoc may stand in them.
    for _ in range(_HEREDOCS_NESTED_MAX):
        if root is None or b"`" not in text or (known := _without_backquotes(root, text)) == text:
            break
        text = known
        root = _tree(text)
    return root


def _tree(text: bytes) -> "Node | None":
    """Return the root of the tree of *text*; None if the parser takes too long, or it is large."""
    if len(text) > _PARSED_AT_ONCE and not _is_parsed_soon(text):
        return None
    return _parser().parse(text).root_node


def _is_parsed_soon(text: bytes) -> bool:
    """Return whether the parser needs less than an eighth of a second for a tree not too large.

    Its way out of some errors, as a `;` at the beginning of each line, takes quadratic time. Only
    a parse of pieces can be stopped, and the nodes of its tree are slow.
    """
    ends_s = time.thread_time() + _PARSING_MAX_S
    try:
        # By a parser of its own: in a callback another thread may go on, and parse.
        tree = _new_parser().parse(
            lambda at, _point: text[at : at + _PARSED_AT_ONCE],
            progress_callback=lambda _at, _has_error: time.thread_time() > ends_s,
        )
    except ValueError:
        return False
    return tree.root_node.descendant_count <= _NODES_MAX


def _without_backquotes(root: "Node", text: bytes) -> bytes:
    """Return *text* with `$(...)` for backquotes in the heredocs below *root* that are expanded."""
    for body in reversed([*outermost(root, {"heredoc_body"})]):
        if _is_expanded(body):
            begin, end = body.start_byte, body.end_byte
            text = text[:begin] + _BACKQUOTED.sub(_with_dollar, text[begin:end]) + text[end:]
    return text


def _is_expanded(body: "Node") -> bool:
    around = body.parent.children if body.parent else ()
    mark = b"".join(each.text or b"" for each in around if each.type == "heredoc_start")
    return not _QUOTES_MARK.search(mark)


def document(body: "Node") -> str:
    """Return the text of the heredoc *body* as bash hands it on, but for values that it puts in."""
    text = body.text or b""
    return (_ESCAPED.sub(rb"\1", text) if _is_expanded(body) else text).decode()


def _with_dollar(found: re.Match[bytes]) -> bytes:
    inside = found["script"]
    return found[0] if inside is None else b"$(%b)" % _ESCAPED.sub(rb"\1", inside)


def source(node: "Node") -> str:
    """Return the source text of *node*."""
    return (node.text or b"").decode()


def is_descriptor(node: "Node") -> bool:
    """Return whether *node* is a stream number; in `sort -oa1>b` the parser takes -oa1 for one."""
    return node.type == "file_descriptor" and source(node).isdecimal()


def redirect_words(redirect: "Node") -> list["Node"]:
    """Return the words of a redirect: the file it opens, then the words that the command gets.

    Before them may stand what the parser takes for a stream number; see `is_descriptor`.
    """
    return [child for child in redirect.children if child.is_named and not is_descriptor(child)]


def opened_file(redirect: "Node") -> "Node | None":
    """Return the word that names the file a redirect opens."""
    words = (word for word in redirect_words(redirect) if word.type != "file_descriptor")
    return next(words, None)


def descendants(
    node: "Node", *, is_leaf: Callable[["Node"], bool] | None = None
) -> Iterator["Node"]:
    """Yield *node* and its descendants in text order, but nothing below a leaf."""
    is_whole = is_leaf is None and node.type == "program"
    return iter(_whole(node)) if is_whole else _walk(node, is_leaf)


# Cached: a decision looks through the same tree twenty times.
@lru_cache(maxsize=8)
def _whole(root: "Node") -> list["Node"]:
    return [*_walk(root, None)]


def _walk(node: "Node", is_leaf: Callable[["Node"], bool] | None) -> Iterator["Node"]:
    waiting = [node]
    while waiting:
        node = waiting.pop()
        yield node
        if is_leaf is None or not is_leaf(node):
            waiting.extend(reversed(node.children))


def outermost(node: "Node", kinds: Container[str]) -> Iterator["Node"]:
    """Yield the nodes of *kinds* in *node*, itself included; none that is within another."""

    def is_one(each: "Node") -> bool:
        return each.type in kinds

    return filter(is_one, descendants(node, is_leaf=is_one))


def is_misread(node: "Node") -> bool:
    """Return whether bash would split *node* into other words than the parser does.

    They differ about a backslash behind a quote or at the end of a line, a line that begins with a
    backslash, a comment behind a redirect, and the mark of a heredoc that begins with $, whose text
    bash expands, or has a backslash before a blank. And a backquote ends a script in quotes too.
    """
    if node.type == "command_substitution":
        return _INNER_BACKQUOTE.match(node.text or b"") is not None
    if node.type == "word":
        word = source(node)
        return word.startswith("#") or ("\n" in word and bool(_NO_WORD.match(word)))
    if node.type == "heredoc_start":
        return bool(_NO_MARK.match(source(node)))
    if node.type != "command":
        return False
    text, begin = node.text or b"", node.start_byte
    gaps = (
        text[before.end_byte - begin : after.start_byte - begin].decode()
        for before, after in pairwise(node.children)
        if not after.type.endswith("_redirect")
    )
    return not all(map(_GAP.fullmatch, gaps))


def has_no_structure(script: str) -> bool:
    """Return whether *script* cannot be parsed, or not as bash does."""
    tree = syntax_tree(script)
    return tree.has_error or any(map(is_misread, descendants(tree)))


def overlooked(node: "Node") -> str:
    """Return the scripts that bash runs for *node*, "" if the parser sees the same.

    It sees none in a pattern of `${…}`, of those in backquotes none in a default, and backslashes
    that bash has removed.
    """
    text = node.text or b""
    if node.type == "regex" and (b"`" in text or b"$(" in text):
        return f": {text.decode()}"
    if b"`" not in text or node.type not in ("expansion", "command_substitution"):
        return ""
    if node.type == "command_substitution" and (text[:1] != b"`" or b"\\" not in text):
        return ""
    scripts = (found["script"] or b"" for found in _BACKQUOTED.finditer(text))
    return "\n".join(_ESCAPED.sub(rb"\1", each).decode() for each in scripts)


def odd_character(script: str) -> str | None:
    """Return the first invisible or misleading character in *script*, described; else None.

    These are control characters, marks that change the text direction, zero-width characters, and
    spaces that the shell does not treat as blanks.
    """
    for character in _UNUSUAL.findall(script):
        category = unicodedata.category(character)
        if category[0] in "CZ":
            return f"the character U+{ord(character):04X}"
    return None


@cache
def _parser() -> "Parser":
    return _new_parser()


def _new_parser() -> "Parser":
    # Loaded with the first command, so that other sessions do not load the grammar.
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


_SHOWN_MAX = 40
_EXPANSIONS = frozenset({"simple_expansion", "expansion", "brace_expression"})
WORDS = _EXPANSIONS | {"word", "number", "string", "raw_string", "concatenation"}
COMPOUNDS = frozenset({"subshell", "compound_statement", "if_statement"})
CLAUSES = frozenset({"elif_clause", "else_clause"})
_NAMED = (
    WORDS
    | COMPOUNDS
    | CLAUSES
    | {
        *("program", "list", "pipeline", "redirected_statement", "command", "command_name"),
        *("string_content", "file_redirect", "file_descriptor", "comment", "negated_command"),
        *("for_statement", "do_group", "variable_name", "special_variable_name", "test_command"),
    }
)
SEPARATORS = frozenset({"&&", "||", ";", "\n", "|", "|&"})
KEYWORDS = frozenset({"(", ")", "{", "}", "if", "then", "elif", "else", "fi", "!"})
_FILE_OPERATORS = frozenset({">", ">>", "&>", "&>>", "<"})
_ANONYMOUS = (
    SEPARATORS
    | KEYWORDS
    | _FILE_OPERATORS
    | {'"', ">&", "$", "${", "..", "for", "in", "do", "done"}
)
# Behind a blank, bash removes a backslash at the end of a line without joining two words.
BLANKS = late_pattern(r"[ \t]+(?:\\\n[ \t]*)*")
SPACE = late_pattern(r"(?:[ \t\n]+(?:\\\n[ \t\n]*)*)?")


# Before a command, they change how it reports and no program that it runs. A value with a / could
# name a file, such as a locale.
_HARMLESS_SETTING = late_pattern(
    r"(?:CI|NODE_ENV|NO_COLOR|FORCE_COLOR|CLICOLOR(?:_FORCE)?|RUST_BACKTRACE|PYTHONUNBUFFERED"
    r"|PYTHONDONTWRITEBYTECODE|GIT_TERMINAL_PROMPT|DEBIAN_FRONTEND|COLUMNS|TZ|LANG|LC_[A-Z]+"
    r"|GOOS|GOARCH|CGO_ENABLED)=[\w.,@-]*|(?:GIT_)?PAGER=cat",
    re.ASCII,
)


# A text for the input of a command in which nothing expands: `COMMAND <<'EOF'`, lines, and EOF, or
# `COMMAND <<EOF` and lines without $, ` and \, or `COMMAND <<< TEXT`. Behind a `;` or a line end it
# would be the input of the next command, and a letter behind the mark belongs to the mark.
_BEHIND = r"(?:[ \t;&|)][^#<\n\\'\"]*)?"
_TEXT_FOR_INPUT = late_pattern(
    r"(?P<before>[^#<]*[^\s#<;&|({][ \t]+)(?:"
    rf"<<[ \t]?'(?P<mark>\w+)'(?P<quoted>{_BEHIND})\n(?:.*\n)*?(?P=mark)"
    rf"|<<[ \t]?(?P<bare>\w+)(?P<plain>{_BEHIND})\n(?:[^$`\\\n]*\n)*?(?P=bare)"
    rf"|<<<[ \t]?(?:'[^'\n]*'|\"[^\"$`\\\n]*\"|[\w.,:/@%+-]+)(?P<string>{_BEHIND})"
    r")(?P<rest>\n(?s:.*)|\Z)",
    re.ASCII,
)


def without_input_text(script: str) -> tuple[str, str] | None:
    """Return *script* up to the first text for the input of a command, and all without that text.

    None without such a text. It is one only if what stands before it is complete by itself.
    """
    found = _TEXT_FOR_INPUT.fullmatch(script)
    if found is None:
        return None
    before, *behind = found.group("before", "quoted", "plain", "string")
    return before, "".join((before, *filter(None, behind), found["rest"]))


class NotPlain(Exception):
    """The message names the construct."""


def is_harmless_setting(node: "Node") -> bool:
    """Return whether *node* sets a variable that does not decide what a command does."""
    is_setting = node.type == "variable_assignment"
    return is_setting and _HARMLESS_SETTING.fullmatch(source(node)) is not None


def check_known(node: "Node", text: bytes) -> None:
    """Accept one node of the script *text*, without its children.

    Raises:
        NotPlain: It is of an unknown kind, or possibly misparsed.
    """
    if node.type == "ERROR" or node.is_missing:
        raise NotPlain("syntax that cannot be parsed")
    if node.type not in (_NAMED if node.is_named else _ANONYMOUS):
        raise NotPlain(readable(node))
    if node.type == "file_descriptor" and not is_descriptor(node):
        raise NotPlain(f"an option before a redirect: {source(node)}")
    if node.type == "comment" and text[: node.start_byte][-1:] not in (b"", b" ", b"\t", b"\n"):
        raise NotPlain("a # that may not begin a comment")


_CONSTRUCTS: Mapping[str, str] = MappingProxyType(
    {
        "herestring_redirect": "a here-string",
        "heredoc_redirect": "a heredoc, which rules cannot check",
        "command_substitution": "a command substitution",
        "process_substitution": "a process substitution",
        "variable_assignment": "a variable assignment",
        "variable_assignments": "variable assignments",
        "ansi_c_string": "a $'…' string",
        "translated_string": 'a $"…" string',
        "function_definition": "a function definition",
        "while_statement": "a while loop",
        "c_style_for_statement": "a for loop with arithmetic",
        "case_statement": "a case statement",
        "arithmetic_expansion": "arithmetic",
        "declaration_command": "a declaration of variables",
        "unset_command": "unset",
        "extglob_pattern": "an extended pattern",
        "subscript": "an array",
    }
)


def readable(node: "Node") -> str:
    """Return a readable name of *node*, with its text if that is short."""
    shown = " ".join(source(node).split())
    if not node.is_named:
        return f"the operator {shown}"
    name = _CONSTRUCTS.get(node.type, f"syntax that is not checked ({node.type.replace('_', ' ')})")
    # The whole command is on the screen already, so a part of it would not explain more.
    return f"{name}: {shown}" if len(shown) <= _SHOWN_MAX else name


def children(node: "Node", gap: re.Pattern[str]) -> Sequence["Node"]:
    """Return the children of *node*; the parser may have skipped only *gap* between them."""
    text, begin = node.text or b"", node.start_byte
    for before, child in pairwise(node.children):
        check_passed_over(text[before.end_byte - begin : child.start_byte - begin], gap)
    check_passed_over(text[: node.children[0].start_byte - begin], SPACE)
    check_passed_over(text[node.children[-1].end_byte - begin :], SPACE)
    return node.children


def check_passed_over(text: bytes, known: re.Pattern[str]) -> None:
    """Accept the text that the parser skipped, if it is only *known*."""
    if not known.fullmatch(text.decode()):
        raise NotPlain("text that the parser skips")
