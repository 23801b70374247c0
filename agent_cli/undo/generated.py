"""Recognise folders that can be built again, so that nobody is asked about the files they lose.

Knows names, and what proves them. That git ignores such a folder, and holds no file in it, is for
the session to ask: only then it needs no question. A folder that only its user knows to be a cache
is not here, nor one that may hold work of a person. Imports little: see `system/launcher`.
"""

import contextlib
import itertools
import os
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from agent_cli.undo.git_index import start_of


class Kind(NamedTuple):
    """A kind of folder: names, and what proves them; a name without a proof is that of one program.

    A proof is one name of a list; "*.x" and "x*" are any name with that end or start, and "*/x" is
    one in any folder. A word that people use for folders of their own needs what its tool leaves
    *inside*, or a `build/` that its user filled would need no question.

    Attributes:
        beside: One of these lies beside the folder.
        inside: One of these lies in it. With both lists, both are needed.
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
_BUNDLES = (
    "*.js *.mjs *.cjs *.html *.map *.tgz asset-manifest.json"
    " */*.js */*.mjs */*.cjs */*.html */browser"
)
_UNITY = "ArtifactDB SourceAssetDB ScriptAssemblies UnityLockfile"
_JVM = "classes test-classes maven-* scala-* streams stale config-classes *.jar *.war"
KINDS = (
    Kind(
        "__pycache__ .pytest_cache .mypy_cache .ruff_cache .pytype .tox .nox .eggs", is_certain=True
    ),
    Kind("venv .venv env .env virtualenv", inside="pyvenv.cfg", is_certain=True),
    Kind("build", _PYTHON, "lib lib.* bdist.* temp.*"),
    Kind("dist", _PYTHON, "*.whl *.tar.gz"),
    Kind("htmlcov", _PYTHON, "status.json"),
    Kind("build _build", "conf.py", "doctrees html latex"),
    Kind("site", "mkdocs.yml", "sitemap.xml"),
    Kind("node_modules", "package.json"),
    Kind("node_modules", inside=_PACKAGE_MANAGERS, is_certain=True),
    Kind("build dist", "package.json", _BUNDLES),
    Kind("coverage", "package.json", "lcov* coverage-*.json clover.xml tmp"),
    Kind(".nyc_output storybook-static jspm_packages", "package.json"),
    Kind(".next .nuxt .output .svelte-kit .astro .angular .docusaurus .vite", "package.json"),
    Kind(".turbo .parcel-cache .nx", "package.json"),
    Kind("public", "gatsby-config.js gatsby-config.ts", "page-data"),
    Kind(".cache", "gatsby-config.js gatsby-config.ts", "caches caches-lmdb"),
    Kind("bower_components", "bower.json"),
    Kind("target", "Cargo.toml", "CACHEDIR.TAG"),
    Kind("target", inside=".rustc_info.json", is_certain=True),
    Kind("target", "pom.xml build.sbt build.properties project.clj deps.edn", _JVM),
    Kind(".cpcache .shadow-cljs", "deps.edn shadow-cljs.edn"),
    Kind("build", _GRADLE, "classes libs generated intermediates kotlin reports/problems"),
    Kind(".gradle .kotlin .cxx", _GRADLE),
    Kind("build builddir", inside="meson-info"),
    Kind(
        "build builddir out cmake-build-debug cmake-build-release",
        inside="CMakeCache.txt build.ninja",
    ),
    Kind("CMakeFiles", inside="CMakeDirectoryInformation.cmake cmake.check_cache"),
    Kind(".deps .libs autom4te.cache", "configure.ac Makefile.am"),
    Kind("vendor", "composer.json", "autoload.php"),
    Kind("vendor", inside="modules.txt"),
    Kind("bin obj", "*.csproj *.fsproj *.vbproj", "Debug Release"),
    Kind("bin obj", inside="project.assets.json"),
    Kind(".build", "Package.swift", "workspace-state.json build.db repositories"),
    Kind("Pods", "Podfile", "Manifest.lock"),
    Kind("DerivedData", "*.xcodeproj *.xcworkspace", "info.plist ModuleCache.noindex"),
    Kind(".dart_tool", "pubspec.yaml"),
    Kind("build", "pubspec.yaml", ".last_build_id *.dill flutter_assets *_assets"),
    Kind("_build", "mix.exs", "dev test prod"),
    Kind("deps", "mix.exs", "*/.hex */hex_metadata.config"),
    Kind("_build", "dune-project rebar.config", "default log"),
    Kind("lib", "shard.yml", ".shards.info"),
    Kind("elm-stuff", "elm.json"),
    Kind("dist-newstyle", "cabal.project *.cabal"),
    Kind(".stack-work", "stack.yaml package.yaml *.cabal"),
    Kind("zig-cache .zig-cache zig-out", "build.zig"),
    Kind("blib", "Makefile.PL"),
    Kind("_site", "_config.yml", "index.html feed.xml"),
    Kind(".jekyll-cache .sass-cache", "_config.yml"),
    Kind("public", "hugo.toml hugo.yaml", "sitemap.xml index.xml"),
    Kind("Library Temp", "ProjectSettings", _UNITY),
    Kind(".godot", "project.godot"),
    Kind("Binaries Intermediate", "*.uproject", "Win64 Linux Mac Build"),
    Kind("DerivedDataCache", "*.uproject"),
)
_BY_NAME: dict[str, list[Kind]] = {}
for _kind in KINDS:
    for _name in _kind.names.split():
        _BY_NAME.setdefault(_name, []).append(_kind)
_CACHES = {
    name for kind in KINDS if not (kind.beside or kind.inside) for name in kind.names.split()
}
_IGNORE_BYTES_MAX = 4096
_LISTED_MAX = 1_000
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
        """Return whether a file in *folder* makes git ignore the folder, as in caches."""
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
        around = folder.rpartition("/")[0]
        return all(
            any(self._is_there(where, name) for name in names.split())
            for where, names in ((around, kind.beside), (folder, kind.inside))
            if names
        )

    def _is_there(self, folder: str, name: str) -> bool:
        """Return whether *folder* has what *name* says, which was there before the command."""
        first, _, below = name.partition("/")
        found = [first]
        if "*" in first:
            start, _, end = first.partition("*")
            found = [
                each
                for each in self._names(folder)
                if each.startswith(start) and each.endswith(end)
            ]
        if below:
            return any(self._is_there(f"{folder}/{each}", below) for each in found)
        paths = [f"{folder}/{each}" for each in found]
        return any(os.path.lexists(path) and not self.is_own(path) for path in paths)

    def _names(self, folder: str) -> Sequence[str]:
        """Return the first names in *folder*; none if it is no folder."""
        with contextlib.suppress(OSError), os.scandir(folder) as found:
            return [each.name for each in itertools.islice(found, _LISTED_MAX)]
        return ()


def _ignores_all(path: str) -> bool:
    return b"*" in (start_of(path, _IGNORE_BYTES_MAX) or b"").splitlines()
