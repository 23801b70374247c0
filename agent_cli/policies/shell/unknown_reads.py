"""Find the files that a script reads although their names are known only when it runs.

For the rules that deny reading, where no sandbox hides files. What the text names is the task of
`named_paths`; here are the words about which the text says too little. Only programs that read
what they name count, or each `make $target` would be a question. What a program finds by itself,
as `grep -r` does, is not looked at.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from agent_cli.policies.shell.assignments import Assignments, preset_values, script_in
from agent_cli.policies.shell.reach import Reach
from agent_cli.policies.shell.readers import is_reader, read_operands
from agent_cli.policies.shell.starters import STARTERS, base_name
from agent_cli.policies.shell.syntax import (
    descendants,
    opened_file,
    redirect_words,
    source,
    syntax_tree,
)
from agent_cli.policies.shell.words import without_quotes
from agent_cli.system.loading import late_pattern

if TYPE_CHECKING:
    from tree_sitter import Node

_KNOWN_LATER: Final = "known only when it runs, so that rules that deny reading cannot be checked"
_DEPTH_MAX: Final = 4
_SHOWN_MAX: Final = 60
_SCRIPT: Final = late_pattern(r"[\s;&|<>()`$]")
_GLOB: Final = late_pattern(r"[*?\[]")
# With these a pattern matches other names than those that are looked up.
_OTHER_GLOBS: Final = late_pattern(r"dotglob|extglob|globstar|nocaseglob|GLOBIGNORE")
# Other users' homes, and folders that the shell was in.
_OTHER_FOLDER: Final = late_pattern(r"~(?!/|\+/|$)")
_CHANGES: Final = frozenset({"cd", "pushd", "chdir"})
_OWN_SHELLS: Final = frozenset({"subshell", "pipeline", "command_substitution"})
_NO_WORDS: Final = frozenset({"variable_assignment", "herestring_redirect", "heredoc_redirect"})
_ELSEWHERE: Final = frozenset({"ssh", "mosh", "docker", "podman", "kubectl", "lxc", "vagrant"})


def unknown_read(script: str, reach: Reach) -> str:
    """Return a clause about a file that *script* reads and whose name is not known; "" if none."""
    return next(_Script(script, preset_values(reach)).reasons(), "")


class _Script:
    """One script, or one inside of another."""

    def __init__(
        self,
        script: str,
        preset: Mapping[str, Sequence[str]],
        *,
        depth: int = 0,
        is_lost: bool = False,
        has_other_globs: bool = False,
    ) -> None:
        self._tree = syntax_tree(script)
        self._known = Assignments(self._tree, preset)
        self._preset, self._depth, self._is_lost = preset, depth, is_lost
        self._has_other_globs = has_other_globs or bool(_OTHER_GLOBS.search(script))
        self._lost = list(self._lost_folders())

    def reasons(self) -> Iterator[str]:
        for node in descendants(self._tree):
            if node.type == "command":
                yield from self._of_command(node, [*_words(node)])
            elif node.type == "redirected_statement" and (behind := [*_behind(node)]):
                # Words behind a redirect's destination belong to the command before it.
                yield from self._of_command(node, [*_words(node.children[0]), *behind])
            elif node.type == "file_redirect" and _is_read(node) and (file := opened_file(node)):
                yield from self._of_files("the redirect", [file], node)

    def _of_command(self, node: "Node", words: Sequence["Node"]) -> Iterator[str]:
        written = [without_quotes(source(word)) for word in words]
        name = base_name(written[0]) if written else ""
        if name in STARTERS and name not in _ELSEWHERE:
            yield from self._of_scripts(node, words[1:])
            begins = (at for at, word in enumerate(written) if is_reader(base_name(word)))
            if (at := next(begins, None)) is None:
                return
            words, written = words[at:], written[at:]
            name = base_name(written[0])
        read = read_operands(name, written[1:])
        yield from self._of_files(name, [words[at + 1] for at in read], node)

    def _of_files(self, name: str, words: Sequence["Node"], node: "Node") -> Iterator[str]:
        for word in words:
            texts = self._known.texts(word)
            shown = " ".join(source(word).split())[:_SHOWN_MAX]
            if texts is None or any(map(self._is_open, texts)):
                yield f"{name} reads {shown}, {_KNOWN_LATER}"
            elif self._is_lost_at(node) and any(map(_is_relative, texts)):
                yield f"{name} reads {shown} in a folder that is {_KNOWN_LATER}"

    def _is_open(self, text: str) -> bool:
        has_glob = self._has_other_globs and _GLOB.search(text)
        return bool(has_glob or _OTHER_FOLDER.match(text))

    def _of_scripts(self, node: "Node", words: Sequence["Node"]) -> Iterator[str]:
        """Yield the reasons of the scripts among the *words* of a shell, `eval` or a wrapper."""
        if self._depth == _DEPTH_MAX:
            return
        for word in words:
            texts = self._known.texts(word) or [source(word)]
            for text in texts:
                if _SCRIPT.search(inner := script_in(text)):
                    yield from self._inside(inner, node).reasons()

    def _inside(self, script: str, node: "Node") -> "_Script":
        return _Script(
            script,
            self._preset,
            depth=self._depth + 1,
            is_lost=self._is_lost_at(node),
            has_other_globs=self._has_other_globs,
        )

    def _lost_folders(self) -> Iterator[tuple[int, int]]:
        """Yield where the shell is in a folder that is not known: from which byte to which."""
        for node in descendants(self._tree):
            first, *words = [*_words(node)] if node.type == "command" else [node]
            if source(first) in _CHANGES and any(self._known.texts(each) is None for each in words):
                yield node.end_byte, _own_shell(node).end_byte

    def _is_lost_at(self, node: "Node") -> bool:
        places = (begin <= node.start_byte < end for begin, end in self._lost)
        return self._is_lost or any(places)


def _own_shell(node: "Node") -> "Node":
    """Return the part of the script in which a change of folder by *node* has an effect."""
    while node.parent is not None and node.type not in _OWN_SHELLS:
        node = node.parent
    return node


def _words(command: "Node") -> Iterator["Node"]:
    """Yield the words of a command, its name first."""
    for child in command.children:
        if child.type == "file_redirect":
            yield from redirect_words(child)[1:]
        elif child.type not in _NO_WORDS and child.is_named:
            yield child


def _behind(statement: "Node") -> Iterator["Node"]:
    for child in statement.children:
        if child.type == "file_redirect":
            yield from redirect_words(child)[1:]


def _is_read(redirect: "Node") -> bool:
    return any(child.type in ("<", "<>") for child in redirect.children)


def _is_relative(text: str) -> bool:
    bare = without_quotes(text)
    return bare not in ("", "-") and not bare.startswith(("/", "~/", "<("))
