"""Listeners are called in order, and nothing that one raises reaches a run. S0-56."""

from asyncio import CancelledError
from collections.abc import Callable, MutableMapping
from typing import Any

import pytest

from agent_cli.contracts.events import AgentStart, Event
from agent_cli.core.listeners import Listeners
from tests.tables import each_row

EVENT = AgentStart()


def test_each_addition_is_called_and_removed_by_itself() -> None:
    listeners, seen = Listeners(), list[Event]()
    first = listeners.add(seen.append)
    listeners.add(seen.append)
    listeners.tell(EVENT)
    assert seen == [EVENT] * 2

    assert first() is None
    assert first() is None
    listeners.tell(EVENT)
    listeners.remove(seen.append)
    listeners.remove(seen.append)
    listeners.tell(EVENT)

    assert seen == [EVENT] * 3


@pytest.mark.parametrize("error", [ValueError(), StopIteration(), CancelledError()])
def test_an_error_is_logged_and_the_next_listener_called(
    error: BaseException, logged: list[MutableMapping[str, Any]]
) -> None:
    listeners, seen = Listeners(), list[Event]()
    listeners.add(_raising(error))
    listeners.add(seen.append)

    assert listeners.tell(EVENT) is None

    assert seen == [EVENT]
    assert [entry["event"] for entry in logged] == ["listener failed"]


class Failed(BaseException):
    """As test frameworks raise it."""


@each_row("error", [KeyboardInterrupt(), SystemExit(3), Failed()])
def test_what_ends_the_program_is_returned_once_all_were_called(error: BaseException) -> None:
    listeners, seen = Listeners(), list[Event]()
    listeners.add(_raising(error))
    listeners.add(seen.append)

    assert listeners.tell(EVENT) is error
    assert seen == [EVENT]


def test_a_coroutine_that_a_listener_returns_is_reported(
    logged: list[MutableMapping[str, Any]],
) -> None:
    """A lambda hides that its function is a coroutine function."""

    async def work() -> None: ...

    listeners = Listeners()
    listeners.add(lambda _event: work())  # type: ignore[arg-type]

    listeners.tell(EVENT)

    assert "a listener returned a coroutine" in str(logged[0]["exception"])


def _raising(error: BaseException) -> Callable[[Event], None]:
    def listener(_event: Event) -> None:
        raise error

    return listener
