"""Tables of which one test judges all rows: a row of its own costs as much as a few judgements."""

import functools
from collections.abc import Callable, Iterable
from typing import Any


def each_row(
    names: str | tuple[str, ...], rows: Iterable[Any]
) -> Callable[[Callable[..., None]], Callable[[], None]]:
    """Run a test for every row, as `pytest.mark.parametrize` does, and report all that fail.

    For functions that change nothing: the rows share the machine of one test.
    """

    named = (names,) if isinstance(names, str) else names

    def decorate(test: Callable[..., None]) -> Callable[[], None]:
        def run_all() -> None:
            failures: list[AssertionError] = []
            for row in rows:
                try:
                    values = (row,) if isinstance(names, str) else row
                    test(**dict(zip(named, values, strict=True)))
                except AssertionError as error:
                    error.add_note(f"row: {row!r}")
                    failures.append(error)
            if failures:
                raise ExceptionGroup("rows that fail", failures)

        # Not __wrapped__, from which pytest would take the names of fixtures.
        functools.update_wrapper(run_all, test)
        del run_all.__wrapped__  # type: ignore[attr-defined]
        return run_all

    return decorate
