"""Read what a script does: in verbs for the person who is asked, and by kind for read-only runs.

Nothing here decides whether a command may run. A command that is not in the table gets
the objection of the part that rejected it.

A script is tried read-only before anybody is asked (`may_only_read`), unless it says that it
changes something, or hides errors of a program that may: the attempt would seem to have succeeded.
Nothing is safe because of this: the sandbox of the attempt is what prevents changes.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from agent_cli.contracts.wording import first_named
from agent_cli.policies.shell.effect_table import Effect, Kind, effect_table, is_shown
from agent_cli.policies.shell.expressions import BUILTINS, EXPRESSIONS
from agent_cli.policies.shell.named_paths import named_paths
from agent_cli.policies.shell.programs import PROGRAMS
from agent_cli.policies.shell.reach import OutOfReach, Reach
from agent_cli.policies.shell.readings import Reading, all_commands
from agent_cli.policies.shell.starters import FIND_STARTS, SHELLS, base_name, options_end
from agent_cli.policies.shell.syntax import (
    WRITING,
    descendants,
    is_descriptor,
    opened_file,
    source,
    syntax_tree,
)
from agent_cli.policies.shell.words import likely_word
from agent_cli.system.loading import late_pattern

if TYPE_CHECKING:
    from tree_sitter import Node

_BOTH: Final = frozenset({"&>", "&>>"})
_TO_FILE: Final = frozenset({">", ">>", ">|", "<>"})
_ELSEWHERE: Final = frozenset({"pipeline", "command_substitution", "process_substitution"})


def hides_errors(script: str) -> bool:
    """Return whether *script* sends errors elsewhere than to its output: away, or to a filter."""
    for node in descendants(syntax_tree(script)):
        if node.type == "|&" or (node.type == "file_redirect" and _hides(node)):
            return True
    return False


def _hides(redirect: "Node") -> bool:
    operator, stream = _operator(redirect), _stream(redirect)
    opened = opened_file(redirect)
    target = source(opened) if opened else ""
    if operator in _BOTH:
        return True
    if operator in (">&", ">&-") and not (target.isdecimal() and stream != "2"):
        return stream in ("", "2") and not (target == "1" and not _is_taken(redirect))
    return stream == "2" and operator in _TO_FILE


def _is_taken(redirect: "Node") -> bool:
    """Return whether standard output goes elsewhere at this redirect, and errors with it."""
    earlier = redirect.prev_sibling
    while earlier is not None:
        if earlier.type == "file_redirect" and _stream(earlier) in ("", "1"):
            return True
        earlier = earlier.prev_sibling
    around = redirect.parent
    while around is not None and around.type not in _ELSEWHERE:
        around = around.parent
    return around is not None


def _operator(redirect: "Node") -> str:
    return next((child.type for child in redirect.children if not child.is_named), "")


def _stream(redirect: "Node") -> str:
    return next((source(child) for child in redirect.children if is_descriptor(child)), "")


_WRAPPERS: Final = frozenset(
    {
        *("sudo", "doas", "env", "timeout", "time", "nice", "nohup", "stdbuf", "command", "exec"),
        *("xargs", "ionice", "setsid", "chrt", "watch", "strace", "parallel", "npx", "uvx", "bunx"),
    }
)
_RUNS_THE_REST: Final = {"uv": "run", "poetry": "run", "pipenv": "run", "hatch": "run"}
_SHELLS: Final = SHELLS | {"eval", "source", "."}
_REPLACED_BY_INNER: Final = frozenset({"runs a Python module", "shows or changes the environment"})
_FUNCTION: Final = "function_definition"
_VERSIONS: Final = (["--version"], ["-V"], ["--help"], ["version"])
_NOT_THE_COMMAND: Final = late_pattern(r"-.*|[\d.]+[smhd]?|\w+=.*", re.DOTALL)
_NO_FILES: Final = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"})
_DEPTH_MAX: Final = 4
_NAME_CHARS_MAX: Final = 60
_UNNAMED: Final = "runs a program whose name is known only when it runs"


class Act(NamedTuple):
    """The effect of one part of a script.

    Attributes:
        says: A clause that begins with a verb; "" where there is none.
        kind: As in the table; "hides" if the errors of a script inside are not in the output.
    """

    says: str
    kind: Kind | Literal["hides"]


def effects(script: str, reach: Reach) -> list[str]:
    """Return the effects of *script* besides reading, each once, in order; none of unknown parts.

    Files that it writes are named as in the text, with a note on those outside the workspace.
    """
    return _clauses(acts(script, reach))


def effect_of(words: Sequence[str], reach: Reach) -> str:
    """Return what one command does besides reading, "" if that is unknown."""
    return "; ".join(_clauses(_acts_of(tuple(words), reach, 0)))


def acts(script: str, reach: Reach, depth: int = 0) -> Iterator[Act]:
    """Yield what each command and redirect of *script* does, also inside of others."""
    tree = syntax_tree(script)
    named = set(_functions(tree))
    for words in all_commands(script):
        name = words[0] if words else None
        if name in named:
            continue
        yield from _acts_of(words, reach, depth)
        if name and not is_known(name):
            yield Act(runs_unknown(name), "unknown")
    for target in _targets(tree, reach):
        yield Act(f"writes {target}", "acts")


def runs_unknown(name: str) -> str:
    """Return the reason to ask about a program that the table does not know."""
    return f"runs {_clipped(name)}, with unknown effects"


def outside_note(path: str, reach: Reach) -> str:
    """Return ", outside the workspace" if the *path* of a command in its root is that."""
    real = os.path.normpath(reach.root / os.path.expanduser(path))  # noqa: PTH111
    folders = (reach.root, *reach.extra_dirs)
    is_inside = any(real == str(each) or real.startswith(f"{each}/") for each in folders)
    return "" if is_inside else ", outside the workspace"


def _clauses(found: Iterable[Act]) -> list[str]:
    return list(dict.fromkeys(act.says for act in found if act.says and is_shown(act.kind)))


def _acts_of(words: Reading, reach: Reach, depth: int) -> Iterator[Act]:
    head, *rest = words or (None,)
    if head is None:
        yield Act(_UNNAMED, "unknown")
        return
    name, known = base_name(head), [word for word in rest if word is not None]
    if name == "tee":
        # Without a file of its own it only passes on what it reads.
        files = [each for each in _operands(known) if each not in _NO_FILES]
        if not files:
            yield Act("", "reads")
        for each in files:
            yield Act(f"writes {_clipped(each)}{outside_note(each, reach)}", "acts")
    elif name in _SHELLS and depth < _DEPTH_MAX:
        yield from _of_shell(name, known, reach, depth + 1)
    else:
        inner: list[Act] = []
        if depth < _DEPTH_MAX:
            parts = _inner(name, rest)
            inner = [each for part in parts for each in _acts_of(part, reach, depth + 1)]
        yield from _of_table(name, known, inner)
        yield from inner


def _of_table(name: str, arguments: Sequence[str], inner: Sequence[Act]) -> Iterator[Act]:
    """Yield what the table says about a program that starts what does *inner*."""
    if (found := known_effect(name, arguments)) is None:
        is_reader = name in PROGRAMS and not PROGRAMS[name].can_write
        yield Act("", "reads" if is_reader or name in BUILTINS else "unknown")
    elif found.kind == "starts":
        yield Act("", "starts" if inner else "unknown")
    elif not (_clauses(inner) and found.says in _REPLACED_BY_INNER):
        only_version = found.kind in ("unknown", "acts") and [*arguments] in _VERSIONS
        yield Act(found.says, "shows" if only_version else found.kind)


def _of_shell(name: str, arguments: Sequence[str], reach: Reach, depth: int) -> Iterator[Act]:
    """Yield what a shell, `eval` or `source` does with these *arguments*."""
    text = ""
    if name == "eval":
        text, otherwise = " ".join(arguments), _UNNAMED
    elif len(arguments) > 1 and re.fullmatch(r"-\w*c", arguments[0]):
        text, otherwise = arguments[1], f"runs {name}"
    elif operands := _operands(arguments):
        otherwise = f"runs the script {_clipped(operands[0])}"
    else:
        otherwise = "runs its input as a shell script"
    found = [*acts(text, reach, depth)] if text else []
    yield from found
    if hides_errors(text):
        yield Act("", "hides")
    if not _clauses(found):
        yield Act(otherwise, "unknown")


def _inner(name: str, rest: Sequence[str | None]) -> Iterator[Reading]:
    """Yield the commands among the arguments of a wrapper or of `find`."""
    begin = -1
    if name == "find":
        yield from (tuple(rest[at + 1 :]) for at, word in enumerate(rest) if word in FIND_STARTS)
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


def _functions(tree: "Node") -> Iterator[str]:
    for node in descendants(tree):
        if node.type == _FUNCTION and (name := node.child_by_field_name("name")):
            yield source(name)


def _clipped(name: str) -> str:
    return name if len(name) <= _NAME_CHARS_MAX else f"{name[:_NAME_CHARS_MAX]}…"


def is_known(name: str) -> bool:
    """Return whether a program is in a table, so that it is silent only if it reads."""
    short = base_name(name)
    tables = (effect_table(), PROGRAMS, EXPRESSIONS, BUILTINS, _SHELLS, _WRAPPERS)
    return any(short in table or _VERSION.sub("", short) in table for table in tables)


def _operands(arguments: Sequence[str]) -> list[str]:
    return [word for word in arguments if not word.startswith("-")]


def _targets(tree: "Node", reach: Reach) -> Iterator[str]:
    """Yield the files that redirects write, with a note on those outside the workspace."""
    for node in descendants(tree):
        if node.type != "file_redirect" or WRITING.isdisjoint(each.type for each in node.children):
            continue
        opened = opened_file(node)
        target = likely_word(source(opened)) if opened else ""
        if target is None:
            yield "a file whose name is known only when it runs"
        elif target and target not in _NO_FILES:
            yield f"{_clipped(target)}{outside_note(target, reach)}"


def may_only_read(script: str, reach: Reach) -> bool:
    """Return whether nothing in the text of *script* says that it does more than to read.

    To read a secret is more: the sandbox would hide it.
    """
    kinds = {act.kind for act in acts(script, reach)}
    try:
        if "acts" in kinds or any(map(reach.is_secret, named_paths(script, reach))):
            return False
    except OutOfReach:
        return False
    hides = "hides" in kinds or hides_errors(script)
    return not (hides and "unknown" in kinds)


_NAMED_MAX: Final = 3
_VERSION: Final = late_pattern(r"(?<![\d.])[\d.]+$")
# The names of files say more than the effect alone.
_WITH_NAMES: Final = frozenset(
    {
        *("rm", "rmdir", "unlink", "shred", "mkdir", "touch", "mv", "cp", "ln", "cat"),
        *("cd", "pushd", "tee", "source", ".", "ls", "chmod", "chown", "truncate", "patch"),
    }
)


def what_it_does(words: Reading) -> str:
    """Return what a simple command of *words* does, as a clause that begins with a verb.

    Returns:
        "" for a program that is not known. A word that is not known is left out.
    """
    head = words[0] if words else None
    if head is None:
        return ""
    name = base_name(head)
    known = [word for word in words[1:] if word is not None]
    if name in SHELLS:
        is_named = any(not word.startswith("-") for word in known) or len(known) < len(words) - 1
        return "runs a shell script" if is_named else "runs its input as a shell script"
    found = known_effect(name, known)
    does = found.says if found else ""
    named = (word for word in known if not word.startswith("-") and word != "{}")
    names = [*named] if name in _WITH_NAMES else []
    return f"{does}: {first_named(names, _NAMED_MAX)}" if does and names else does


def known_effect(name: str, arguments: Sequence[str]) -> Effect | None:
    """Return what the table says about a program with *arguments*, if anything."""
    table = effect_table()
    entries = table.get(name) or table.get(_VERSION.sub("", name)) or []
    if name == "tar" and arguments:  # `tar xf` is `tar -xf`
        arguments = [f"-{arguments[0].removeprefix('-')}", *arguments[1:]]
    if name == "rm":
        arguments = arguments[: options_end(arguments)]
    operands = [word for word in arguments if not word.startswith("-")]
    fitting = [
        (begin, each)
        for each in entries
        if (begin := _begin(operands, each.subcommand)) is not None
        and all(_has_option(arguments, option) for option in each.options)
    ]
    # The first word that is a subcommand counts: `git commit -m push` pushes nothing.
    named = [found for found in fitting if found[1].subcommand or found[1].options]
    first = min((begin for begin, _ in named), default=0)
    best = max((each for begin, each in named if begin == first), key=_length, default=None)
    return best or next((each for _, each in fitting), None)


def listed_effect(name: str, arguments: Sequence[str]) -> str:
    """Return what a program with *arguments* does besides reading, "" if nothing or unknown."""
    found = known_effect(name, arguments)
    return found.says if found and is_shown(found.kind) else ""


def _length(effect: Effect) -> int:
    return len(effect.subcommand) + len(effect.options)


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
