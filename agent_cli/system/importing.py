"""Making very many objects at once: thousands of modules for the SDKs, or a long session."""

import gc
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from typing import Final

_ONE_AT_A_TIME: Final = threading.RLock()


def load(module: str) -> None:
    """Import *module*, by its full name, without garbage collections in between.

    One at a time, in whichever thread: two threads that import parts of one package at once get a
    KeyError or a deadlock error from Python now and then (importlib takes a module out of
    sys.modules for a moment when it is done).
    """
    with _ONE_AT_A_TIME:
        if module not in sys.modules:
            with without_collections():
                import_module(module)


@contextmanager
def without_collections() -> Generator[None]:
    """Import in the body: no garbage is collected meanwhile, nor among what was made ever after.

    Modules are tens of thousands of objects that live for ever; looking for garbage among them
    takes a quarter of the time and holds up the event loop's thread.
    """
    with collections_paused():
        try:
            yield
        finally:
            gc.freeze()


@contextmanager
def collections_paused() -> Generator[None]:
    """Make very many objects that stay in the body: nobody looks for garbage among them."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
