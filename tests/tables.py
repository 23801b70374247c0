"""Tables of which one test judges all rows: a row of its own costs as much as a few judgements."""

import functools
import inspect
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import Any

import pytest


def each_row(
    names: str | tuple[str, ...], rows: Iterable[Any], *, ids: Iterable[str] | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Run a test for every row, as `pytest.mark.parametrize` does, and report all that fail.

    A row is named by its id, else by itself. For rows that change nothing for each other: they
    share one machine, the fixtures that the test takes beside its columns, and the event loop of
    an asynchronous test.
    """

    named = (names,) if isinstance(names, str) else names
    rows = list(rows)
    assert rows, "a table without rows judges nothing"

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        def run_all(**fixtures: object) -> None:
            with _all_outcomes() as outcomes:
                for name, row in zip(ids or map(repr, rows), rows, strict=True):
                    with _noted(name, outcomes):
                        test(**_columns(row), **fixtures)

        async def run_all_in_turn(**fixtures: object) -> None:
            with _all_outcomes() as outcomes:
                for name, row in zip(ids or map(repr, rows), rows, strict=True):
                    with _noted(name, outcomes):
                        await test(**_columns(row), **fixtures)

        def _columns(row: Any) -> dict[str, object]:
            return dict(zip(named, (row,) if isinstance(names, str) else row, strict=True))

        run: Any = run_all_in_turn if inspect.iscoroutinefunction(test) else run_all
        functools.update_wrapper(run, test)
        # What pytest takes the names of fixtures from.
        given = inspect.signature(test).parameters.values()
        run.__signature__ = inspect.Signature([each for each in given if each.name not in named])
        return run  # type: ignore[no-any-return]

    return decorate


@contextmanager
def _all_outcomes() -> Generator[list[BaseException | None]]:
    outcomes: list[BaseException | None] = []
    yield outcomes
    failures = [each for each in outcomes if each and not isinstance(each, pytest.skip.Exception)]
    if failures:
        raise BaseExceptionGroup("rows that fail", failures)
    if outcomes[0] and all(outcomes):
        raise outcomes[0]


@contextmanager
def _noted(name: str, outcomes: list[BaseException | None]) -> Generator[None]:
    try:
        yield
        outcomes.append(None)
    # No exceptions of the usual kind: of `pytest.raises`, of a row that is skipped, of a table.
    except (Exception, pytest.fail.Exception, pytest.skip.Exception, BaseExceptionGroup) as outcome:
        outcome.add_note(f"row: {name}")
        outcomes.append(outcome)
