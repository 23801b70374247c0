"""Dataclasses that are cheap to define: their methods are compiled with the first instance.

The standard library compiles up to six methods of a class while its module is imported. That takes
half a millisecond each, and a one-shot run defines 175 classes: a fifth of its CPU time, most of it
for methods that are never called. Fields, `replace`, `asdict` and `match` are the standard ones.
"""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import field
from operator import attrgetter
from reprlib import recursive_repr
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls=None, /, **options):  # noqa: ANN001, ANN003, ANN201 - checked as the other
        """Return *cls* as `dataclasses.dataclass` makes it."""
        if cls is None:
            return lambda cls: _made(cls, **options)
        return _made(cls, **options)


__all__ = ["dataclass", "field"]

_MISSING: Final = dataclasses.MISSING
_Fields: TypeAlias = "tuple[dataclasses.Field[Any], ...]"


# Any: classes of any kind, and their instances.
def _made(
    cls: type[Any],
    *,
    frozen: bool = False,
    eq: bool = True,
    slots: bool = False,
    kw_only: bool = False,
    weakref_slot: bool = False,
) -> type[Any]:
    """Return *cls* with its fields found by the standard library, and with methods of ours."""
    written = dict(cls.__dict__)
    # The library refuses to mix frozen and other classes. It compiles two methods to say so.
    inherits_frozen = any(_is_frozen(base) for base in cls.__mro__[1:])
    made = dataclasses.dataclass(
        init=False,
        repr=False,
        eq=False,
        frozen=frozen and inherits_frozen,
        slots=slots,
        kw_only=kw_only,
        weakref_slot=weakref_slot,
    )(cls)
    fields = dataclasses.fields(made)
    if len(fields) < len(made.__dataclass_fields__) and _has_init_vars(made):
        raise TypeError(f"{made.__qualname__}: use dataclasses.dataclass for an InitVar")
    methods: dict[str, object] = {
        "__init__": _Initializer(made, frozen=frozen, slots=slots),
        "__repr__": _repr,
    }
    if eq:
        methods |= {"__eq__": _equality(fields), "__hash__": _hash_of(fields) if frozen else None}
    if eq and written.get("__hash__") is None and "__eq__" in written:
        del written["__hash__"]  # Python's, for a class with an `__eq__`
    if frozen:
        methods |= _refusals(made, frozenset(each.name for each in fields))
        if slots:
            methods |= {"__getstate__": _state, "__setstate__": _set_state}
        made.__dataclass_params__.frozen = True
    for name in methods.keys() - written.keys():
        setattr(made, name, methods[name])
    return made


def _is_frozen(base: type[Any]) -> bool:
    parameters = base.__dict__.get("__dataclass_params__")
    return parameters is not None and parameters.frozen


def _has_init_vars(made: type[Any]) -> bool:
    return any("InitVar" in str(each.type) for each in made.__dataclass_fields__.values())


class _Initializer:
    """Stands for `__init__` until the first look-up, which compiles it and puts it here instead."""

    def __init__(self, made: type[Any], *, frozen: bool, slots: bool) -> None:
        self._made = made
        self._frozen = frozen
        self._slots = slots

    def __get__(self, instance: object, owner: type[Any]) -> Callable[..., None]:
        compiled = _compiled(self._made, frozen=self._frozen, slots=self._slots)
        self._made.__init__ = compiled
        return compiled.__get__(instance, owner)


def _compiled(made: type[Any], *, frozen: bool, slots: bool) -> FunctionType:
    """Compile the `__init__` of *made*."""
    known: dict[str, object] = {"_missing": _MISSING, "_set": object.__setattr__}
    required: list[str] = []
    named: list[str] = []
    body: list[str] = []
    for each in dataclasses.fields(made):
        name, value = each.name, each.name
        default = ""
        if each.default_factory is not _MISSING:
            known[f"_make_{name}"] = each.default_factory
            default = "=_missing"
            value = f"_make_{name}() if {name} is _missing else {name}"
            if not each.init:
                value = f"_make_{name}()"
        elif each.default is not _MISSING:
            known[f"_default_{name}"] = each.default
            default = f"=_default_{name}"
            if not each.init:
                value = f"_default_{name}" if slots else ""
        elif not each.init:
            value = ""
        if each.init:
            (named if each.kw_only else required).append(f"{name}{default}")
        if value and frozen and slots:
            # A quarter faster than `object.__setattr__`, which looks for the slot each time.
            known[f"_set_{name}"] = getattr(made, name).__set__
            body.append(f"_set_{name}(self, {value})")
        elif value:
            body.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(made, "__post_init__"):
        body.append("self.__post_init__()")
    parameters = ", ".join(["self", *required, *(["*", *named] if named else [])])
    source = f"def __init__({parameters}):\n " + "\n ".join(body or ["pass"])
    exec(source, known)
    compiled = known["__init__"]
    assert isinstance(compiled, FunctionType)
    compiled.__qualname__, compiled.__module__ = f"{made.__qualname__}.__init__", made.__module__
    compiled.__annotations__ = {each.name: each.type for each in dataclasses.fields(made)}
    return compiled


@recursive_repr()
def _repr(self: Any) -> str:
    shown = (each.name for each in dataclasses.fields(self) if each.repr)
    values = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
    return f"{type(self).__qualname__}({values})"


def _equality(fields: "_Fields") -> Callable[[Any, Any], bool]:
    values_of = _getter([each.name for each in fields if each.compare])

    def __eq__(self: Any, other: Any) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return values_of(self) == values_of(other)

    return __eq__


def _hash_of(fields: "_Fields") -> Callable[[Any], int]:
    counted = (each for each in fields if (each.compare if each.hash is None else each.hash))
    values_of = _getter([each.name for each in counted])

    def __hash__(self: Any) -> int:
        return hash(values_of(self))

    return __hash__


def _getter(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Return a function for the tuple of an instance's values of *names*."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda instance: tuple(getattr(instance, name) for name in names)


def _refusals(made: type[Any], names: frozenset[str]) -> dict[str, object]:
    """Return the methods of a frozen class that refuse a change of its fields *names*."""

    def __setattr__(self: Any, name: str, value: object) -> None:
        if type(self) is made or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(made, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is made or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(made, self).__delattr__(name)

    return {"__setattr__": __setattr__, "__delattr__": __delattr__}


def _state(self: Any) -> list[Any]:
    return [getattr(self, each.name) for each in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for each, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, each.name, value)
