"""Say what commands do, in verbs, for the person who is asked about them.

Only words: nothing here decides whether a command may run. A command that is not in the table gets
the objection of the part that rejected it.
"""

import os
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from agent_cli.policies.shell.effect_table import effect_table
from agent_cli.policies.shell.expressions import BUILTINS, EXPRESSIONS
from agent_cli.policies.shell.place import Place
from agent_cli.policies.shell.programs import PROGRAMS
from agent_cli.policies.shell.readings import (
    SHELLS,
    Reading,
    all_commands,
    base_name,
)
from agent_cli.policies.shell.syntax import (
    WRITING,
    descendants,
    opened_file,
    source,
    syntax_tree,
)
from agent_cli.policies.shell.words import likely_word

if TYPE_CHECKING:
    from tree_sitter import Node

_WRAPPERS: Final = frozenset(
    {
        *("sudo", "doas", "env", "timeout", "time", "nice", "nohup", "stdbuf", "command", "exec"),
        *("xargs", "ionice", "setsid", "chrt", "watch", "strace", "parallel", "npx", "uvx", "bunx"),
    }
)
_RUNS_THE_REST: Final = {"uv": "run", "poetry": "run", "pipenv": "run", "hatch": "run"}
_SHELLS: Final = SHELLS | {"eval", "source", "."}
_KEYWORDS: Final = frozenset(
    {
        *("[", "[[", "((", "test", "tee", "git", "read", "local", "declare", "readonly", "unset"),
        *("shift", "return", "break", "continue", "wait", "trap", "jobs", "shopt", "ulimit"),
        *("pushd", "popd", "type", "let", "getopts", "hash", "mapfile", "readarray", "poetry"),
    }
)
_SAID_BY_THE_REST: Final = frozenset({"runs a Python module", "shows or changes the environment"})
_FUNCTION: Final = "function_definition"
_STARTS: Final = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_NOT_THE_COMMAND: Final = re.compile(r"-.*|[\d.]+[smhd]?|\w+=.*", re.DOTALL)
_NO_FILES: Final = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"})
_DEPTH_MAX: Final = 4
_NAME_CHARS_MAX: Final = 60
_UNNAMED: Final = "runs a program whose name is known only when it runs"


def effects(script: str, place: Place, depth: int = 0) -> list[str]:
    """Return what *script* does besides reading, each once, in order; nothing for what is unknown.

    Files that it writes are named as in the text, and said to be outside the workspace if they are.
    """
    tree = syntax_tree(script)
    named = set(_functions(tree))
    found: list[str] = []
    for words in all_commands(script):
        name = words[0] if words else None
        found += _effects_of(words, place, depth)
        if name and not _is_known(name) and name not in named:
            found.append(runs_unknown(name))
    found += [f"writes {target}" for target in _targets(tree, place)]
    return list(dict.fromkeys(found))


def effect_of(words: Sequence[str], place: Place) -> str:
    """Return what one command does besides reading, "" if that is unknown."""
    return "; ".join(dict.fromkeys(_effects_of(tuple(words), place, 0)))


def runs_unknown(name: str) -> str:
    """Return the reason to ask about a program that the table does not know."""
    return f"runs {_clipped(name)}, with unknown effects"


def outside_note(path: str, place: Place) -> str:
    """Return ", outside the workspace" if the *path* of a command in its root is that."""
    real = os.path.normpath(place.root / os.path.expanduser(path))  # noqa: PTH111
    folders = (place.root, *place.extra_dirs)
    is_inside = any(real == str(each) or real.startswith(f"{each}/") for each in folders)
    return "" if is_inside else ", outside the workspace"


def _effects_of(words: Reading, place: Place, depth: int) -> Iterator[str]:
    head, *rest = words or (None,)
    if head is None:
        yield _UNNAMED
        return
    name, known = base_name(head), [word for word in rest if word is not None]
    if name == "tee":
        yield from (
            f"writes {_clipped(each)}{outside_note(each, place)}" for each in _operands(known)
        )
        return
    if name in _SHELLS and depth < _DEPTH_MAX:
        yield from _of_shell(name, known, place, depth + 1)
        return
    inner: list[str] = []
    if depth < _DEPTH_MAX:
        inner = [
            each for part in _inner(name, rest) for each in _effects_of(part, place, depth + 1)
        ]
    said = listed_effect(name, known)
    if said and not (inner and said in _SAID_BY_THE_REST):
        yield said
    yield from inner


def _of_shell(name: str, arguments: Sequence[str], place: Place, depth: int) -> Iterator[str]:
    """Yield what a shell, `eval` or `source` does with these *arguments*."""
    if name == "eval":
        yield from effects(" ".join(arguments), place, depth) or [_UNNAMED]
    elif len(arguments) > 1 and re.fullmatch(r"-\w*c", arguments[0]):
        yield from effects(arguments[1], place, depth) or [f"runs {name}"]
    elif operands := _operands(arguments):
        yield f"runs the script {_clipped(operands[0])}"
    else:
        yield "runs its input as a shell script"


def _inner(name: str, rest: Sequence[str | None]) -> Iterator[Reading]:
    """Yield the commands among the arguments of a wrapper or of `find`."""
    begin = -1
    if name == "find":
        yield from (tuple(rest[at + 1 :]) for at, word in enumerate(rest) if word in _STARTS)
    elif name in _RUNS_THE_REST and _RUNS_THE_REST[name] in rest:
        begin = rest.index(_RUNS_THE_REST[name]) + 1
    elif re.fullmatch(r"python[\d.]*", name) and rest[:1] == ["-m"]:
        begin = 1
    elif name in _WRAPPERS:
        begin = 0
    for at, word in enumerate(rest[begin:] if begin >= 0 else (), begin):
        if word is None or not _NOT_THE_COMMAND.fullmatch(word):
            yield tuple(rest[at:])
            return


def listed_effect(name: str, arguments: Sequence[str]) -> str:
    """Return what the table says about a program with *arguments*; "" if nothing."""
    table = effect_table()
    entries = table.get(name) or table.get(re.sub(r"[\d.]+$", "", name)) or []
    if name == "tar" and arguments:  # `tar xf` is `tar -xf`
        arguments = [f"-{arguments[0].removeprefix('-')}", *arguments[1:]]
    operands = _operands(arguments)
    fitting = [
        (_begin(operands, subcommand), len(subcommand) + len(options), said)
        for subcommand, options, said in entries
        if _begin(operands, subcommand) is not None
        and all(_has_option(arguments, option) for option in options)
    ]
    # The first word that is a subcommand counts: `git commit -m push` pushes nothing.
    named = [each for each in fitting if each[0] is not None and each[1]]
    first = min((each[0] or 0 for each in named), default=0)
    best = max((each for each in named if each[0] == first), key=lambda each: each[1], default=None)
    return (best or next(iter(fitting), (0, 0, "")))[2]


def _begin(operands: Sequence[str], subcommand: Sequence[str]) -> int | None:
    """Return where *subcommand* begins among *operands*: 0 if it is empty, None if nowhere."""
    if not subcommand:
        return 0
    if subcommand[0] not in operands:
        return None
    begin = operands.index(subcommand[0])
    behind = iter(operands[begin:])
    return begin if all(word in behind for word in subcommand) else None


def _has_option(arguments: Sequence[str], option: str) -> bool:
    if option.startswith("--") or len(option) > 2:
        return any(word.partition("=")[0] == option for word in arguments)
    joined = re.compile(rf"-\w*{option[1]}.*", re.DOTALL)
    return any(joined.fullmatch(word) for word in arguments)


def _functions(tree: "Node") -> Iterator[str]:
    for node in descendants(tree):
        if node.type == _FUNCTION and (name := node.child_by_field_name("name")):
            yield source(name)


def _clipped(name: str) -> str:
    return name if len(name) <= _NAME_CHARS_MAX else f"{name[:_NAME_CHARS_MAX]}…"


def _is_known(name: str) -> bool:
    """Return whether a program is in a table, so that it is silent only if it reads."""
    short = base_name(name)
    tables = (effect_table(), PROGRAMS, EXPRESSIONS, BUILTINS, _SHELLS, _WRAPPERS, _KEYWORDS)
    return any(short in table or re.sub(r"[\d.]+$", "", short) in table for table in tables)


def _operands(arguments: Sequence[str]) -> list[str]:
    return [word for word in arguments if not word.startswith("-")]


def _targets(tree: "Node", place: Place) -> Iterator[str]:
    """Yield the files that redirects write, outside ones said to be so."""
    for node in descendants(tree):
        if node.type != "file_redirect" or WRITING.isdisjoint(each.type for each in node.children):
            continue
        opened = opened_file(node)
        target = likely_word(source(opened)) if opened else ""
        if target is None:
            yield "a file whose name is known only when it runs"
        elif target and target not in _NO_FILES:
            yield f"{_clipped(target)}{outside_note(target, place)}"
