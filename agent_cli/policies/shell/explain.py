"""Explain a script part by part, for a person: from its syntax tree and our own knowledge.

Nothing is decided here, and text that is not understood is a part that says so.
"""

import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from agent_cli.contracts.permissions import ExplainedPart
from agent_cli.contracts.wording import counted
from agent_cli.policies.shell.destructive import destructions
from agent_cli.policies.shell.effects import runs_unknown, what_it_does
from agent_cli.policies.shell.judgement import losses_of
from agent_cli.policies.shell.reach import Reach
from agent_cli.policies.shell.readings import Reading, all_commands, readings
from agent_cli.policies.shell.starters import RUN_WORDS, STARTERS, base_name
from agent_cli.policies.shell.syntax import (
    SCRIPT,
    is_descriptor,
    odd_character,
    opened_file,
    outermost,
    source,
    syntax_tree,
)
from agent_cli.policies.shell.words import likely_word
from agent_cli.system.loading import late_pattern

if TYPE_CHECKING:
    from tree_sitter import Node

_PARTS_MAX: Final = 60
_DEPTH_MAX: Final = 6
# A list of many commands is nested as deep.
_NESTED_MAX: Final = 150
_INSIDE_CHARS_MAX: Final = 200
_INSIDE: Final = "has more commands inside: read them"
_UNKNOWN: Final = "not known here: read it yourself"
_OPERATORS: Final = frozenset({"&&", "||", "|", "|&"})
_COMMANDS: Final = frozenset({"command", "declaration_command", "unset_command", "test_command"})
# What a statement with others inside does; its text is shown up to the first of these words.
_BLOCKS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "for_statement": ("repeats what follows for each word", r"\bdo\b"),
        "c_style_for_statement": ("repeats what follows", r"\bdo\b"),
        "while_statement": ("repeats what follows as long as a command succeeds", r"\bdo\b"),
        "if_statement": ("runs what follows if a command succeeds", r"\bthen\b"),
        "elif_clause": ("or else, if a command succeeds", r"\bthen\b"),
        "else_clause": ("or else", r"\belse\b"),
        "case_statement": ("runs what stands behind the first pattern that fits", r"\bin\b"),
        "case_item": ("for this pattern", r"\)"),
        "function_definition": ("defines a command of that name", r"\)|\{"),
        "subshell": ("runs in a shell of its own", r"\("),
        "compound_statement": ("runs together", r"\{"),
    }
)
_SUBSTITUTIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "command_substitution": "runs first, and its output becomes words of the command",
        "process_substitution": "runs beside it, connected like a file",
    }
)
_REDIRECTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        ">": "writes its output into {}",
        ">|": "writes its output into {}",
        ">>": "adds its output to {}",
        "&>": "writes output and errors into {}",
        "&>>": "adds output and errors to {}",
        "<": "reads its input from {}",
        "<>": "reads and writes {}",
    }
)
_SCRIPT_OPTIONS: Final = frozenset({"-c", "-lc", "-ec", "eval"})
# Shell builtins that print or compare; listing them would hide the rest.
_SHOW_NOTHING: Final = frozenset(
    {"echo", "printf", "cd", "true", "false", ":", "test", "[", "[[", "exit", "set", "pwd"}
)
_NAME: Final = late_pattern(r"[A-Za-z][\w.+/-]*", re.ASCII)
# The text that an option is joined to: `env -S'rm -rf'`, `--split-string=rm`.
_OPTION_TEXT: Final = late_pattern(r"-(?:\w*S|-[a-z-]+=)(.*)", re.DOTALL)
_ARGUMENTS_MAX: Final = 1_000
_SCRIPTS_DEPTH_MAX: Final = 4
_NULL: Final = "/dev/null"


def programs(script: str, search_path: str, depth: int = 0) -> list[str]:
    """Return the names of all programs that *script* would start, each once, in order.

    ? stands for an unknown name. The command of a wrapper such as sudo or xargs is found among
    its arguments: each one that names a program of *search_path* counts.
    """
    found: dict[str, None] = {}
    for words in all_commands(script):
        head, *arguments = words or (None,)
        if head is not None and head not in _SHOW_NOTHING:
            found[head] = None
        found |= {} if head is not None else {"?": None}
        if head is None or base_name(head) not in STARTERS:
            continue
        for written in filter(None, arguments[:_ARGUMENTS_MAX]):
            joined = _OPTION_TEXT.fullmatch(written)
            word = joined[1] if joined else written
            if SCRIPT.search(word) and depth < _SCRIPTS_DEPTH_MAX:
                found |= dict.fromkeys(programs(word, search_path, depth + 1))
            elif _NAME.fullmatch(word) and shutil.which(word, path=search_path):
                found[word] = None
    return list(found)


def explained(script: str, root: PurePath) -> tuple[ExplainedPart, ...]:
    """Return the parts of *script*, which starts in *root*, in the order they stand there."""
    found = [*_Explanation(root).of(script, 0)]
    parts, left_out = found[:_PARTS_MAX], found[_PARTS_MAX:]
    if left_out:
        rest = f"{counted(len(left_out), 'more part')}: read them in the command"
        parts.append(ExplainedPart("", rest, 0, any(part.is_danger for part in left_out)))
    effects = "; ".join(part.does for part in parts)
    losses = losses_of(script, [*readings(script)], Reach(root=Path(root)))
    parts += [ExplainedPart("", loss, 0, True) for loss in losses if loss not in effects]
    if syntax_tree(script).has_error:
        parts.append(ExplainedPart("", "is not understood in full: read it yourself", 0, True))
    if odd := odd_character(script):
        parts.append(ExplainedPart("", f"contains {odd}, which may hide something", 0, True))
    return tuple(parts)


class _Explanation:
    """Walks the tree of a script; a part's text begins with the operator that joins it."""

    def __init__(self, root: PurePath) -> None:
        self._root = root
        self._nested = 0

    def of(self, script: str, depth: int) -> Iterator[ExplainedPart]:
        """Yield the parts of a script, indented by *depth*."""
        yield from self._below(syntax_tree(script), depth)

    def _below(self, node: "Node", depth: int) -> Iterator[ExplainedPart]:
        joined = ""
        for child in node.children:
            if child.type in _OPERATORS:
                joined = f"{child.type} "
                continue
            if child.type == "&":
                yield ExplainedPart("&", "lets it go on in the background", depth)
            yield from self._part(child, joined, depth)
            joined = "" if child.is_named else joined

    def _part(self, node: "Node", joined: str, depth: int) -> Iterator[ExplainedPart]:
        if depth > _DEPTH_MAX or self._nested >= _NESTED_MAX:
            yield ExplainedPart(
                joined + _line(source(node))[:_INSIDE_CHARS_MAX], _INSIDE, depth, True
            )
            return
        self._nested += 1
        yield from self._known(node, joined, depth)
        self._nested -= 1

    def _known(self, node: "Node", joined: str, depth: int) -> Iterator[ExplainedPart]:
        match node.type:
            case "ERROR":
                yield ExplainedPart(joined + _line(source(node)), _UNKNOWN, depth, True)
            case kind if kind in _COMMANDS:
                yield from self._command(node, joined, depth)
            case "redirected_statement":
                body, *redirects = node.children
                yield from self._part(body, joined, depth)
                for redirect in redirects:
                    yield from self._redirect(redirect, depth + 1)
            case "variable_assignment" | "variable_assignments":
                text = joined + _line(source(node))
                yield ExplainedPart(text, "sets a variable of the shell", depth)
                yield from self._inside(node, depth + 1)
            case kind if kind in _BLOCKS:
                does, end = _BLOCKS[kind]
                text = source(node)
                found = re.search(end, text)
                yield ExplainedPart(
                    joined + _line(text[: found.end() if found else 40]), does, depth
                )
                yield from self._below(node, depth + 1)
            case "list" | "pipeline" | "program" | "do_group" | "negated_command":
                first = True
                for part in self._below(node, depth):
                    yield part.joined(joined) if first else part
                    first = False
            case _ if node.is_named:
                yield from self._inside(node, depth)
            case _:
                pass

    def _command(self, node: "Node", joined: str, depth: int) -> Iterator[ExplainedPart]:
        words = _words(node)
        losses = destructions(readings(source(node)), self._root)
        does = "; ".join(losses) or what_it_does(words)
        if not does:
            head = words[0] if words else None
            does = runs_unknown(head) if head else _UNKNOWN
        text = joined + _line(source(node))
        yield ExplainedPart(text, does, depth, is_danger=bool(losses))
        for child in node.children:
            if child.type.endswith("redirect"):
                yield from self._redirect(child, depth + 1)
            else:
                yield from self._inside(child, depth + 1)
        yield from self._started(words, depth + 1)

    def _started(self, words: Reading, depth: int) -> Iterator[ExplainedPart]:
        """Yield the command that a wrapper such as sudo, xargs or `bash -c` starts."""
        head = words[0] if words else None
        if head is None or base_name(head) not in STARTERS or depth > _DEPTH_MAX:
            return
        first = 1
        if runs := RUN_WORDS.get(base_name(head)):
            behind = (at for at, word in enumerate(words, 1) if word and runs.fullmatch(word))
            first = next(behind, len(words))
        for at in range(first, len(words)):
            word = words[at]
            if word and re.search(r"\s", word) and words[at - 1] in _SCRIPT_OPTIONS:
                yield from self.of(word, depth)
                return
            if word and word[0] not in "-." and (does := what_it_does(words[at:])):
                text = " ".join(each or "?" for each in words[at:])
                yield ExplainedPart(_line(text), does, depth)
                yield from self._started(words[at:], depth + 1)
                return

    def _inside(self, node: "Node", depth: int) -> Iterator[ExplainedPart]:
        """Yield the commands in substitutions below *node*, a word."""
        if depth > _DEPTH_MAX:
            yield ExplainedPart(_line(source(node))[:_INSIDE_CHARS_MAX], _INSIDE, depth, True)
            return
        if does := _SUBSTITUTIONS.get(node.type):
            yield ExplainedPart(_line(source(node)), does, depth)
            yield from self._below(node, depth + 1)
            return
        for child in outermost(node, _SUBSTITUTIONS):
            yield from self._inside(child, depth)

    def _redirect(self, node: "Node", depth: int) -> Iterator[ExplainedPart]:
        if node.type.startswith("heredoc"):
            body = next((c for c in node.children if c.type == "heredoc_body"), None)
            lines = source(body).count("\n") if body else 0
            text = _line(source(node).partition("\n")[0])
            yield ExplainedPart(text, f"gives it {counted(lines, 'line')} of input", depth)
            # Behind the marker the rest of the line is part of this node.
            for child in node.children:
                if child.type == "pipeline" or child.type in _COMMANDS or child.type == "list":
                    yield from self._part(child, "", depth - 1)
                elif child.type.endswith("redirect"):
                    yield from self._redirect(child, depth)
            if body:
                yield from self._inside(body, depth + 1)
            return
        if node.type == "herestring_redirect":
            yield ExplainedPart(_line(source(node)), "gives it this text as input", depth)
        else:
            yield self._file_redirect(node, depth)
        yield from self._inside(node, depth + 1)

    def _file_redirect(self, node: "Node", depth: int) -> ExplainedPart:
        text = source(node)
        kinds = [child.type for child in node.children if not child.is_named]
        operator = kinds[0] if kinds else ""
        opened = opened_file(node)
        name = likely_word(source(opened)) if opened else None
        errors = any(is_descriptor(child) and source(child) == "2" for child in node.children)
        if operator in (">&", "<&"):
            does = "sends errors where the output goes" if errors else "joins two streams"
            return ExplainedPart(_line(text), does, depth)
        if name == _NULL and operator != "<":
            thrown = "errors" if errors else "output"
            return ExplainedPart(_line(text), f"throws its {thrown} away", depth)
        does = _REDIRECTS.get(operator, "redirects a stream")
        if errors:
            does = does.replace("its output", "its errors")
        is_outside = name is None or self._is_outside(name)
        where = f"{name or 'a file whose name is not known'}"
        far = ", outside the workspace" if name and is_outside else ""
        writes = operator != "<"
        return ExplainedPart(_line(text), does.format(where) + far, depth, writes and is_outside)

    def _is_outside(self, name: str) -> bool:
        path = PurePath(name)
        if path.is_absolute():
            return self._root not in path.parents
        return ".." in path.parts or name.startswith("~")


def _words(command: "Node") -> Reading:
    if command.type == "test_command":
        return ("[[",)
    skipped = ("variable_assignment", "herestring_redirect", "heredoc_redirect", "file_redirect")
    found: list[str | None] = []
    for child in command.children:
        if child.type not in skipped:
            has_output = any(kind in source(child) for kind in ("<(", ">("))
            found.append(None if has_output else likely_word(source(child)))
    return tuple(found)


def _line(text: str) -> str:
    return " ".join(text.split())
