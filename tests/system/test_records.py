"""Dataclasses whose methods are compiled late behave as those of the standard library."""

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import field
from typing import Any, ClassVar

import pytest

from agent_cli.system import records

DECORATORS = (dataclasses.dataclass, records.dataclass)
OPTIONS = [
    {"frozen": True, "slots": True},
    {"frozen": True, "slots": True, "kw_only": True},
    {"frozen": True, "slots": True, "eq": False},
    {"slots": True},
    {"slots": True, "kw_only": True},
    {"slots": True, "weakref_slot": True, "eq": False},
    {"frozen": True},
    {},
]


def made(decorate: Callable[..., Any], **options: bool) -> type[Any]:
    """Return a class with each kind of field that the program has."""

    @decorate(**options)
    class Row:
        """A row."""

        kind: ClassVar[str] = "row"
        number: int
        names: list[str] = field(default_factory=list)
        hidden: str = field(default="h", repr=False, compare=False)
        counted: int = field(default=3, init=False)
        seen: list[int] = field(init=False, default_factory=list)
        last: "Row | None" = field(kw_only=True, default=None)

        def __post_init__(self) -> None:
            self.names.append("made")

    return Row


def outcome(action: Callable[[], object]) -> object:
    """Return what *action* returns, or its error as text without the address of an object."""
    try:
        return action()
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_class_behaves_as_one_of_the_standard_library(options: dict[str, bool]) -> None:
    """Instances, errors, comparisons, hashes, copies, patterns and fields, one by one."""

    def seen(row: type[Any]) -> list[object]:
        def one(**changes: object) -> Any:
            return row(**({"number": 1} | changes))

        return [
            repr(one()),
            repr(one(last=one(number=2))),
            outcome(lambda: row(1, ["x"], "other").names),
            outcome(row),
            outcome(lambda: one(unknown=1)),
            outcome(lambda: one(counted=1)),
            one() == one(),
            one() == one(hidden="another"),
            one() == one(number=2),
            one() == (1, ["made"]),
            outcome(lambda: setattr(one(), "number", 2)),
            outcome(lambda: delattr(one(), "number")),
            type(outcome(lambda: hash(one()))),
            repr(dataclasses.replace(one(names=["x"]), number=5)),
            dataclasses.asdict(one()),
            [each.name for each in dataclasses.fields(row)],
            repr(copy.deepcopy(one())),
            copy.copy(one()) == one(),
            row.__match_args__,
            getattr(row, "__slots__", None),
            row.kind,
            row.__dataclass_params__.frozen,
            row.__hash__ is None,
            one().names is not one().names,
        ]

    standard, ours = (seen(made(decorate, **options)) for decorate in DECORATORS)

    assert ours == standard


@pytest.mark.parametrize("decorate", DECORATORS)
def test_what_a_class_defines_itself_is_kept(decorate: Callable[..., Any]) -> None:
    @decorate(frozen=True, slots=True)
    class Own:
        """Own methods."""

        number: int

        def __repr__(self) -> str:
            return "own"

        def __eq__(self, other: object) -> bool:
            return True

    @decorate(frozen=True, slots=True)
    class Hashed(Own):
        """A field more, and a hash."""

        more: int = 2

        def __hash__(self) -> int:
            return 7

    own: Any = Own
    hashed: Any = Hashed

    assert (repr(own(1)), own(1) == 5, hash(own(1)) == hash((1,))) == ("own", True, True)
    assert (hash(hashed(1)), hashed(1, 3).more) == (7, 3)
    assert repr(hashed(1)).endswith("Hashed(number=1, more=2)")
    with pytest.raises(dataclasses.FrozenInstanceError):
        hashed(1).more = 3


def test_a_frozen_record_takes_no_other_attribute() -> None:
    with pytest.raises(AttributeError):
        made(records.dataclass, frozen=True, slots=True)(1).unknown = 2


@records.dataclass(frozen=True, slots=True)
class Kept:
    """A record at the top of a module, so that it can be pickled."""

    number: int
    others: tuple[int, ...] = ()


def test_a_pickled_record_comes_back_in_a_process_that_made_none() -> None:
    assert pickle.loads(pickle.dumps(Kept(1, (2,)))) == Kept(1, (2,))


def test_a_record_that_contains_itself_is_printed() -> None:
    row = made(records.dataclass, slots=True)(1)
    row.last = row

    assert "last=..." in repr(row)


def test_the_signature_is_known_before_the_first_instance() -> None:
    """Help, documentation and editors read it."""
    ours, standard = (
        inspect.signature(made(decorate, frozen=True, slots=True)).parameters
        for decorate in reversed(DECORATORS)
    )

    assert [(each.name, each.kind) for each in ours.values()] == [
        (each.name, each.kind) for each in standard.values()
    ]


def test_a_class_with_an_init_var_is_refused() -> None:
    with pytest.raises(TypeError, match="InitVar"):

        @records.dataclass(slots=True)
        class _Row:
            """A row."""

            number: dataclasses.InitVar[int]
