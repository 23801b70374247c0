"""Recognise folders that can be built again, so that nobody is asked about the files they lose.

Knows names, and what proves them. That git ignores such a folder, and holds no file in it, is for
the session to ask: only then it needs no question. A folder that only its user knows to be a cache
is not here, nor one that may hold work of a person. Imports little: see `system/launcher`.
"""

import contextlib
import os
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from agent_cli.undo.git_index import start_of


class Kind(NamedTuple):
    """A kind of folder: names, and what proves them; a name without a proof is that of one program.

    Attributes:
        beside: One of these proves it, if it lies beside the folder; "*.x": any name with that end.
        inside: One of these proves it, if it lies in the folder.
        is_certain: Whether the name, or what lies inside, is so much its tool's own that git need
            not ignore the folder.
    """

    names: str
    beside: str = ""
    inside: str = ""
    is_certain: bool = False


_PYTHON = "pyproject.toml setup.py setup.cfg"
_GRADLE = "build.gradle build.gradle.kts settings.gradle settings.gradle.kts"
_PACKAGE_MANAGERS = ".package-lock.json .yarn-state.yml .yarn-integrity .modules.yaml"
KINDS = (
    Kind(
        "__pycache__ .pytest_cache .mypy_cache .ruff_cache .pytype .tox .nox .eggs", is_certain=True
    ),
    Kind("venv .venv env .env virtualenv", inside="pyvenv.cfg", is_certain=True),
    Kind("build dist htmlcov", _PYTHON),
    Kind("build _build", "conf.py"),
    Kind("site", "mkdocs.yml"),
    Kind("node_modules", "package.json"),
    Kind("node_modules", inside=_PACKAGE_MANAGERS, is_certain=True),
    Kind("build dist coverage .nyc_output storybook-static", "package.json"),
    Kind(".next .nuxt .output .svelte-kit .astro .angular .docusaurus .vite", "package.json"),
    Kind(".turbo .parcel-cache .nx jspm_packages", "package.json"),
    Kind("public .cache", "gatsby-config.js gatsby-config.ts"),
    Kind("bower_components", "bower.json"),
    Kind("target", "Cargo.toml pom.xml", "CACHEDIR.TAG"),
    Kind("target", inside=".rustc_info.json", is_certain=True),
    Kind("target", "build.sbt build.properties project.clj deps.edn"),
    Kind(".cpcache .shadow-cljs", "deps.edn shadow-cljs.edn"),
    Kind("build .gradle .kotlin .cxx", _GRADLE),
    Kind("build builddir", "meson.build CMakeLists.txt"),
    Kind("build out cmake-build-debug cmake-build-release", inside="CMakeCache.txt build.ninja"),
    Kind("CMakeFiles", inside="CMakeDirectoryInformation.cmake cmake.check_cache"),
    Kind(".deps .libs autom4te.cache", "configure.ac Makefile.am"),
    Kind("vendor", "composer.json", "modules.txt"),
    Kind("bin obj", "*.csproj *.fsproj *.vbproj", "project.assets.json"),
    Kind(".build", "Package.swift"),
    Kind("Pods", "Podfile"),
    Kind("DerivedData", "*.xcodeproj *.xcworkspace"),
    Kind("build .dart_tool", "pubspec.yaml"),
    Kind("_build deps", "mix.exs"),
    Kind("_build", "dune-project rebar.config"),
    Kind("lib", "shard.yml"),
    Kind("elm-stuff", "elm.json"),
    Kind("dist-newstyle", "cabal.project *.cabal"),
    Kind(".stack-work", "stack.yaml package.yaml *.cabal"),
    Kind("zig-cache .zig-cache zig-out", "build.zig"),
    Kind("blib", "Makefile.PL"),
    Kind("_site .jekyll-cache .sass-cache", "_config.yml"),
    Kind("public", "hugo.toml hugo.yaml"),
    Kind("Library Temp", "ProjectSettings"),
    Kind(".godot", "project.godot"),
    Kind("Binaries Intermediate DerivedDataCache", "*.uproject"),
)
_BY_NAME: dict[str, list[Kind]] = {}
for _kind in KINDS:
    for _name in _kind.names.split():
        _BY_NAME.setdefault(_name, []).append(_kind)
_CACHES = {
    name for kind in KINDS if not (kind.beside or kind.inside) for name in kind.names.split()
}
_IGNORE_BYTES_MAX = 4096
_HEAD_BYTES = 512
# How a file with such an end begins, if a compiler made it: ELF and LLVM's bitcode, Java, gcov.
_COMPILED = {
    ".o": (b"\x7fELF", b"BC\xc0\xde"),
    ".class": (b"\xca\xfe\xba\xbe",),
    ".gcno": (b"oncg", b"gcno"),
    ".gcda": (b"adcg", b"gcda"),
}


def is_cache(path: str, roots: Iterable[str]) -> bool:
    """Return whether *path* is in a cache of a tool for tests or the like, known by its name alone.

    Whoever runs tests changes it, and nobody thinks of that as a change. *roots* are the folders of
    the workspace, which may itself lie in a cache.
    """
    if _CACHES.isdisjoint(path.split("/")):
        return False
    inside = (path[len(root) :] for root in roots if path.startswith(f"{root.rstrip('/')}/"))
    return any(not _CACHES.isdisjoint(each.split("/")) for each in inside)


def is_compiled(path: str) -> bool:
    """Return whether the file at *path* is what a compiler made: an object file, or its like.

    Also the rules for make that compilers write beside their object files. Its name alone proves
    nothing: people write files whose names end so.
    """
    end = path[path.rfind(".") :]
    if end not in _COMPILED and end != ".d":
        return False
    head = start_of(path, _HEAD_BYTES) or b""
    if end == ".d":
        return b".o:" in head.partition(b"\n")[0]
    return head.startswith(_COMPILED[end])


class GeneratedFolders:
    """The folders of the workspace that can be built again, as they were before a command.

    Look at each file before it is lost: it may be what proves its folder.

    Attributes:
        is_own: Returns whether the command itself made a path, which then proves nothing.
    """

    def __init__(self, roots: Sequence[str]) -> None:
        """Know none yet; *roots* are the real folders of the workspace."""
        self.is_own: Callable[[str], bool] = lambda _path: False
        self._within = [root.rstrip("/") + "/" for root in roots]
        self._proven: dict[str, bool] = {}
        self._ignoring: set[str] = set()
        self._certain: set[str] = set()
        self._last = "//"

    def around(self, path: str) -> str:
        """Return the outermost such folder around *path*; "" for none."""
        if "/.git/" in path:  # a repository, which may be in such a folder
            return ""
        if path.startswith(self._last):
            return self._last[:-1]
        at = next((len(root) for root in self._within if path.startswith(root)), len(path))
        while (end := path.find("/", at)) >= 0:
            folder, name = path[:end], path[at:end]
            if name in _BY_NAME and self._is_proven(folder, name):
                self._last = f"{folder}/"
                return folder
            at = end + 1
        return ""

    def ignores_itself(self, folder: str) -> bool:
        """Return whether a file in *folder* made git ignore all of it, as caches have one."""
        return folder in self._ignoring

    def is_certain(self, folder: str) -> bool:
        """Return whether git need not ignore *folder*."""
        return folder in self._certain

    def reject(self, folder: str) -> None:
        """Take *folder* for one that cannot be built again, from now on."""
        self._proven[folder] = False
        self._last = "//"

    def moved(self, old: str, new: str) -> None:
        """Note that something that the command did not make gets another name.

        What comes into such a folder from elsewhere cannot be built again.
        """
        folder = self.around(f"{new}/")
        if folder and not f"{old}/".startswith(f"{folder}/"):
            self.reject(folder)

    def _is_proven(self, folder: str, name: str) -> bool:
        known = self._proven.get(folder)
        if known is None:
            kinds = [kind for kind in _BY_NAME[name] if self._proves(kind, folder)]
            known = self._proven[folder] = bool(kinds)
            if any(kind.is_certain for kind in kinds):
                self._certain.add(folder)
            if known and _ignores_all(f"{folder}/.gitignore"):
                self._ignoring.add(folder)
        return known

    def _proves(self, kind: Kind, folder: str) -> bool:
        if not (kind.beside or kind.inside):
            return True
        around = folder.rpartition("/")[0]
        return any(
            self._is_there(where, name)
            for where, names in ((around, kind.beside), (folder, kind.inside))
            for name in names.split()
        )

    def _is_there(self, folder: str, name: str) -> bool:
        """Return whether *folder* has a file of this name, which was there before the command."""
        found = [name]
        if name.startswith("*"):
            with contextlib.suppress(OSError):
                found = [each for each in os.listdir(folder) if each.endswith(name[1:])]
        paths = [f"{folder}/{each}" for each in found]
        return any(os.path.lexists(path) and not self.is_own(path) for path in paths)


def _ignores_all(path: str) -> bool:
    return b"*" in (start_of(path, _IGNORE_BYTES_MAX) or b"").splitlines()
