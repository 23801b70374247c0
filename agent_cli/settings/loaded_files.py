"""The files of a workspace that a hook's script loads, as far as its text names them.

No language is parsed: each word of the script that is the name of a file, or of a module in the
script's language, names that file. A word too many makes a harmless change ask for trust again; one
too few would let a changed guard run.
"""

import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Final

from agent_cli.system.fixed_paths import start_of
from agent_cli.system.json_text import json_object
from agent_cli.system.paths import is_dir, is_file, real_path
from agent_cli.system.repositories import git_folder_at, repository_root
from agent_cli.system.shapes import is_object

PACKAGE: Final = "package.json"
_WORD: Final = re.compile(r"(?<![\w./-])[\w./-]{1,300}")
_CODE: Final = frozenset(
    f".{ending}"
    for ending in (
        *("sh", "bash", "zsh", "fish", "ps1", "psm1", "py", "rb", "pl", "pm", "lua", "php", "go"),
        *("js", "mjs", "cjs", "jsx", "ts", "mts", "cts", "tsx"),
    )
)
# Each is bounded: a stranger's file may be one long line.
_SOURCED: Final = re.compile(r"(?:^|[\s;&|(])(?:\.|source)[ \t]{1,9}[\"']?([^\s\"';&|)]{1,300})")
_SEARCHED: Final = re.compile(
    r"(?:\bcd\b|sys\.path|PYTHONPATH|NODE_PATH|\buse lib\b|package\.path|LOAD_PATH|-I).{0,400}"
)
_PACKAGE: Final = re.compile(r"\bfrom[ \t]{1,9}([.\w]{1,200})[ \t]{1,9}import\b")
_MODULE: Final = re.compile(r"\.{0,9}\w+(?:\.\w+)*")
_SCRIPT_BYTES_MAX: Final = 262_144
_INDEX_BYTES_MAX: Final = 67_108_864
_WORDS_MAX: Final = 2_000
_FOLDERS_MAX: Final = 6

_PYTHON: Final = (".py", "/__init__.py", "/__main__.py")
_JAVASCRIPT: Final = tuple(
    f"{start}.{end}" for start in ("", "/index") for end in ("js", "mjs", "cjs", "ts", "mts", "tsx")
)
# The endings that a module's name leaves out, by what a script's name, first line or command holds.
_ENDINGS: Final = (
    (re.compile(r"\.py\b|python|\buv\b"), _PYTHON),
    (re.compile(r"\.[mc]?[jt]sx?\b|\b(?:node|bun|deno)\b"), (*_JAVASCRIPT, ".json")),
    (re.compile(r"\.rb\b|ruby"), (".rb",)),
    (re.compile(r"\.p[lm]\b|perl"), (".pm",)),
    (re.compile(r"\blua"), (".lua", "/init.lua")),
)
# The files of which a program runs the part that a command names: `make guard`, `npm run guard`.
_RUNNERS: Final = {
    "make": ("GNUmakefile", "makefile", "Makefile"),
    "just": ("justfile", "Justfile", ".justfile"),
    "task": ("Taskfile.yml", "Taskfile.yaml"),
    "rake": ("Rakefile", "rakefile"),
    "invoke": ("tasks.py",),
    "nox": ("noxfile.py",),
    "mise": ("mise.toml", ".mise.toml"),
    "deno": ("deno.json", "deno.jsonc"),
    "pre-commit": (".pre-commit-config.yaml",),
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun"), (PACKAGE,)),
}
_MAIN_FILES: Final = frozenset({"__init__.py", "__main__.py", "index.js", "index.mjs", "index.ts"})


def loaded_by(script: Path, workspace: Path) -> Iterator[Path]:
    """Yield the files that *script* seems to import, source, run or read; none for data."""
    if script.suffix and script.suffix not in _CODE:
        return
    try:
        text = start_of(script, _SCRIPT_BYTES_MAX).decode(errors="replace")
    except OSError:
        return
    first_line = text.partition("\n")[0] if text.startswith("#!") else ""
    yield from _Script(script, text, workspace, spoken_by=f"{script.name} {first_line}").files()


def run_by(command: str, words: Collection[str], workspace: Path) -> Iterator[Path]:
    """Yield the files that a *command* runs though none of its *words* is their path."""
    # The program may get its text from the command: `python3 -c "import guard"`.
    yield from _Script(workspace / "command", command, workspace, spoken_by=command).files()
    for word in words:
        for name in _RUNNERS.get(word, ()):
            yield workspace / name
            if name == PACKAGE:
                scripts = npm_scripts(workspace / name)
                text = "\n".join(text for key, text in scripts if key in words)
                yield from _Script(workspace / name, text, workspace, spoken_by=text).files()
        if "-m" in words and _MODULE.fullmatch(word):
            yield from (workspace / name for name in _modules(word))
        folder = workspace / word
        if word.strip("./") and is_dir(folder):
            names = sorted(_names_in(folder))
            yield from (folder / x for x in names if x in _MAIN_FILES or x.endswith(".go"))


def npm_scripts(package: Path) -> Sequence[tuple[str, str]]:
    """Return the scripts of a `package.json`, with their names."""
    try:
        document = json_object(start_of(package, _SCRIPT_BYTES_MAX)) or {}
    except OSError:
        return ()
    scripts = document.get("scripts")
    return [(key, str(text)) for key, text in scripts.items()] if is_object(scripts) else ()


class _Script:
    """A script and the words of its text."""

    def __init__(self, path: Path, text: str, workspace: Path, *, spoken_by: str) -> None:
        self._text = text
        self._workspace = workspace
        self._folder = path.parent
        # Python looks beside the file that a link leads to, a shell beside the link.
        self._beside = dict.fromkeys((path.parent, real_path(path).parent))
        languages = (endings for language, endings in _ENDINGS if language.search(spoken_by))
        self._endings = next(languages, ())
        spoken = text.replace("::", "/") if ".pm" in self._endings else text
        found = dict.fromkeys(map(_without_stop, _WORD.findall(spoken)))
        self._words = [*islice(found, _WORDS_MAX)]
        self._sourced = frozenset(() if self._endings else _SOURCED.findall(text))

    def files(self) -> Iterator[Path]:
        """Yield the files that the words name."""
        folders = [*dict.fromkeys(self._folders())]
        there = {name for folder in (*folders, self._workspace) for name in _names_in(folder)}
        stems = {name.lstrip(".").partition(".")[0] for name in there}
        # Most words name nothing.
        words = [x for x in self._words if not stems.isdisjoint(x.replace("/", ".").split("."))]
        names = {name: None for word in words for name in self._spellings(word)}
        for folder in folders:
            yield from self._found(names, folder)
        # From the top of the workspace only what is written as a path, or a module in a package.
        whole = {name: None for name in names if "/" in name or "." in name.strip(".")}
        yield from self._found(whole, self._workspace)

    def _folders(self) -> Iterator[Path]:
        """Yield the folders that the script's language searches, and the folders it changes to."""
        is_python = self._endings == _PYTHON
        packages = map(_module, _PACKAGE.findall(self._text) if is_python else ())
        gone_to = (x for line in _SEARCHED.findall(self._text) for x in _WORD.findall(line))
        named = (*packages, *(name.lstrip("/") for name in gone_to))
        inside = (
            folder
            for name in dict.fromkeys(named)
            for top in (*self._beside, self._workspace)
            if name.strip("./") and is_dir(folder := top / name)
        )
        yield from self._beside
        yield from islice(dict.fromkeys(inside), _FOLDERS_MAX)

    def _spellings(self, word: str) -> Iterator[str]:
        """Yield the names of files that *word* may stand for; `$DIR/x.sh` names x.sh too."""
        yield from dict.fromkeys((word.lstrip("/"), word.partition("/")[2]))
        if self._endings == _PYTHON:
            if _MODULE.fullmatch(word):
                yield from _modules(word)
        elif ".json" not in self._endings or word.startswith("."):
            yield from (f"{word.lstrip('/')}{ending}" for ending in self._endings)

    def _found(self, names: Iterable[str], folder: Path) -> Iterator[Path]:
        there = {".", "..", *_names_in(folder)}
        for name in names:
            if name.partition("/")[0] in there:
                path = Path(os.path.normpath(folder / name))
                if is_file(path) and self._loads(path, name):
                    yield path

    def _loads(self, path: Path, name: str) -> bool:
        """Return whether *path*, an existing file, is code, or in the repository beside the script.

        A script also names the files that it protects, and its records.
        """
        if path.suffix in _CODE or any(f"/{each}".endswith(f"/{name}") for each in self._sourced):
            return True
        if not path.suffix and "/" in name and os.access(path, os.X_OK):
            return True
        if ".json" in self._endings and name.startswith("."):
            return True
        is_beside = self._folder != self._workspace and self._folder in path.parents
        return is_beside and self._index.has(path)

    @cached_property
    def _index(self) -> "_Index":
        return _Index.of(self._workspace)


class _Index:
    """The names of the files that a repository holds, as git lists them."""

    def __init__(self, top: Path, content: bytes) -> None:
        self._top = top
        self._content = content

    @classmethod
    def of(cls, workspace: Path) -> "_Index":
        """Read the index of the repository of *workspace*; that of no repository holds nothing."""
        with suppress(OSError):
            if top := repository_root(workspace):
                return cls(top, start_of(git_folder_at(top) / "index", _INDEX_BYTES_MAX))
        return cls(workspace, b"")

    def has(self, path: Path) -> bool:
        """Return whether git has *path*; True where the index shortens names (version 4)."""
        name = os.fsencode(os.path.relpath(path, self._top))
        return self._content[4:8] == b"\0\0\0\4" or b"%s\0" % name in self._content


def _without_stop(word: str) -> str:
    return word.rstrip(".")


def _modules(word: str) -> Iterator[str]:
    """Yield the files of the Python module *word*, and of the packages that it is in."""
    name = _module(word)
    yield from (f"{name}{ending}" for ending in _PYTHON)
    while "/" in name.strip("./"):
        name = name.rpartition("/")[0]
        yield f"{name}/__init__.py"


def _module(word: str) -> str:
    name = word.lstrip(".")
    return "../" * (len(word) - len(name) - 1) + name.replace(".", "/")


def _names_in(folder: Path) -> Collection[str]:
    try:
        with os.scandir(folder) as entries:
            return frozenset(entry.name for entry in entries)
    except OSError:
        return frozenset()
