"""Tables of which one test judges all rows: a row of its own costs as much as a few judgements."""

import functools
import inspect
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import Any


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

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        def run_all(**fixtures: object) -> None:
            with _all_failures() as failures:
                for name, row in zip(ids or map(repr, rows), rows, strict=True):
                    with _noted(name, failures):
                        test(**_columns(row), **fixtures)

        async def run_all_in_turn(**fixtures: object) -> None:
            with _all_failures() as failures:
                for name, row in zip(ids or map(repr, rows), rows, strict=True):
                    with _noted(name, failures):
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
def _all_failures() -> Generator[list[Exception]]:
    failures: list[Exception] = []
    yield failures
    if failures:
        raise ExceptionGroup("rows that fail", failures)


@contextmanager
def _noted(name: str, failures: list[Exception]) -> Generator[None]:
    try:
        yield
    except Exception as error:
        error.add_note(f"row: {name}")
        failures.append(error)
