"""Import modules, at once or on first use, and compile regular expressions on first use.

Compiling one takes as long as importing a small module, and most rules about commands are never
asked in a run. Pass no late pattern to a function of `re`: it has their methods itself.
"""

import gc
import re
import sys
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

_ONE_AT_A_TIME: Final = threading.RLock()
_IS_OUR_PROCESS: Final = threading.Event()


def load(module: str) -> None:
    """Import *module*, by its full name, with garbage collection paused.

    Imports are serialised across threads: two threads that import parts of one package at once
    sometimes get a KeyError or a deadlock error from Python (importlib takes a module out of
    sys.modules for a moment when it is done).
    """
    with _ONE_AT_A_TIME:
        if module not in sys.modules:
            with without_collections():
                import_module(module)


@contextmanager
def alone() -> Generator[None]:
    """Run the body while no other thread is in `load`, or in such a body."""
    with _ONE_AT_A_TIME:
        yield


def is_installed(module: str) -> bool:
    """Return whether *module* can be imported, without importing more than its parents."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the parent package is missing too
        return False


@contextmanager
def without(module: str) -> Generator[None]:
    """Let imports of *module* fail in this thread, as if it was not installed.

    Another thread's imports succeed meanwhile, and so does any if it is imported already.
    """
    finder = _Refusing(module, threading.get_ident())
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _Refusing:
    """Refuses one module in one thread.

    Not an `importlib.abc.MetaPathFinder`: that module imports a dozen that no start needs.
    """

    def __init__(self, module: str, thread: int) -> None:
        self._module = module
        self._thread = thread

    def find_spec(self, fullname: str, *_where: object) -> None:
        """Find nothing, or raise the error of a missing module."""
        if fullname == self._module and threading.get_ident() == self._thread:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


def claim_process() -> None:
    """Note that the process is ours: no other program imports this one as a library."""
    _IS_OUR_PROCESS.set()


@contextmanager
def without_collections() -> Generator[None]:
    """Pause garbage collection in the body; if it imported, exempt all objects made so far.

    Modules are tens of thousands of permanent objects. Scanning them takes a quarter of the import
    time and blocks the event loop's thread.

    An exempt object is never collected. A server that exempted the living objects of each session,
    or a library that did so in its user's process, would leak them and the files they hold open.
    """
    known = len(sys.modules)
    with collections_paused():
        try:
            yield
        finally:
            if _IS_OUR_PROCESS.is_set() and len(sys.modules) != known:
                gc.freeze()


@contextmanager
def collections_paused() -> Generator[None]:
    """Pause garbage collection in the body, while it makes many objects that stay alive."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def lazy_names(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """Return the `__getattr__` of *package*.

    Args:
        package: Its full name.
        homes: The module of each name, relative to the package. None may be called like a module
            of the package: once imported, the module would hide the object.
    """

    def get(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{homes[name]}"), name)

    return get


_KEPT = ("fullmatch", "match", "search", "sub", "finditer", "split", "findall", "groups")

if TYPE_CHECKING:
    late_pattern = re.compile
else:

    def late_pattern(pattern, flags=0):  # noqa: ANN001, ANN201 - checked as the other
        """Return what behaves as `re.compile(pattern, flags)`; an error in it shows at its use."""
        return _LatePattern(pattern, flags)


class _LatePattern:
    def __init__(self, pattern: "str | bytes", flags: int) -> None:
        self.pattern = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> object:
        """Compile the pattern; its methods become attributes, so that this is called once."""
        if name.startswith("__"):  # looked for by copy, pickle and others
            raise AttributeError(name)
        compiled = re.compile(self.pattern, self._flags)
        vars(self).update((each, getattr(compiled, each)) for each in _KEPT)
        return getattr(compiled, name)

    def __repr__(self) -> str:
        return f"late_pattern({self.pattern!r})"
