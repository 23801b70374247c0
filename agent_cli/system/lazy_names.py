"""Names of a package that are imported from its modules on first use."""

from collections.abc import Callable, Mapping
from importlib import import_module


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
