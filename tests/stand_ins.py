"""Complete a fake by what its ports declare, so that a new member of a port needs no line in it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import getattr_static, iscoroutinefunction
from types import FunctionType, NoneType
from typing import Any, ClassVar, Final, get_args, get_origin

_PLAIN: Final = (str, int, float, bool)


class StandIn:
    """A fake of a port: a member that it does not define itself gives the empty value of its type.

    What may be None is None, texts and sequences are empty, a number is 0, a function returns the
    empty value, and a member that is a port gives a stand-in for that port. Other types a fake has
    to define. A name that the port does not declare raises `AttributeError`, as ever.

    class Jobs(StandIn, port=JobsPort): ...
    """

    _port: ClassVar[type] = object

    def __init_subclass__(cls, *, port: type | None = None) -> None:
        cls._port = port or cls._port

    def __getattr__(self, name: str) -> Any:  # Any: each member has its own type
        member = None if name.startswith("_") else getattr_static(self._port, name, None)
        if member is None:
            raise AttributeError(f"{type(self).__name__} has no {name}, nor its port")
        if isinstance(member, property):
            return _empty(member.fget)
        return _answering(member)


def _answering(declared: FunctionType) -> Callable[..., object]:
    """Return a function that returns what *declared* is declared to return, empty."""

    async def later(*_arguments: object, **_options: object) -> object:
        return _empty(declared)

    def now(*_arguments: object, **_options: object) -> object:
        return _empty(declared)

    return later if iscoroutinefunction(declared) else now


def _empty(declared: Any) -> object:
    """Return the empty value of the type that *declared*, a function, returns."""
    return _empty_of(declared.__annotations__["return"], declared.__qualname__)


def _empty_of(kind: Any, name: str) -> object:
    if kind is None or NoneType in get_args(kind):
        return None
    origin = get_origin(kind) or kind
    if origin in (Sequence, Iterable):
        return ()
    if origin is Mapping:
        return {}
    if origin in _PLAIN:
        return origin()
    if origin is Callable:
        return lambda *_arguments: _empty_of(get_args(kind)[-1], name)
    if getattr(kind, "_is_protocol", False):
        return type(kind.__name__, (StandIn,), {}, port=kind)()
    raise NotImplementedError(f"a fake has to define {name}: there is no empty {kind}")
