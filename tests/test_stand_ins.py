"""What a fake does not define follows from its port."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import pytest

from tests.stand_ins import StandIn


class Inner(Protocol):
    @property
    def count(self) -> int: ...


class Port(Protocol):
    @property
    def names(self) -> Sequence[str]: ...

    @property
    def inner(self) -> Inner: ...

    @property
    def why(self) -> Callable[[Path], str]: ...

    @property
    def folder(self) -> Path: ...

    def prices(self, *, now: bool) -> Mapping[str, int]: ...

    def found(self) -> str | None: ...

    async def answer(self, question: str) -> str: ...


class Fake(StandIn, port=Port):
    names = ("own",)


async def test_member_that_a_fake_lacks_gives_the_empty_value_of_its_type() -> None:
    """So a new member of a port needs no line in any fake."""
    fake: Port = Fake()

    assert fake.names == ("own",)
    assert (fake.inner.count, fake.why(Path()), fake.prices(now=True)) == (0, "", {})
    assert (fake.found(), await fake.answer("?")) == (None, "")


def test_name_that_no_port_declares_and_a_type_without_an_empty_value_raise() -> None:
    """A slip of the pen stays one."""
    with pytest.raises(AttributeError, match=r"^Fake has no nmaes, nor its port$"):
        Fake().nmaes  # noqa: B018 - it raises
    with pytest.raises(NotImplementedError, match=r"define Port\.folder"):
        Fake().folder  # noqa: B018 - it raises
