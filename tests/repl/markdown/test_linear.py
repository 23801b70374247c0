"""Rendering time grows linearly with the text: the limits of the benchmark."""

import cProfile

import pytest

from benchmarks.markdown import growth, measure
from tests.repl.markdown.documents import SINGLES, mixed, single
from tests.tables import each_row

# A quadratic step takes a hundred times longer for ten times the text; less is machine load.
GROWTH_MAX = 11
SLACK = 1.5


@each_row("width", [40, 80, 200])
def test_rendering_writes_at_most_four_bytes_per_byte_of_text(width: int) -> None:
    """Frames of 13 deltas, as at 20 frames a second."""
    text = mixed(30_000)

    assert measure(text, width)[1] <= 4 * len(text.encode())


@pytest.mark.parametrize("kind", ["mixed", *SINGLES])
def test_rendering_ten_times_the_text_takes_about_ten_times_as_long(kind: str) -> None:
    """Sizes are small enough to always run; quadratic work shows at these already."""
    small, large = (mixed(n) if kind == "mixed" else single(kind, n) for n in (4_000, 40_000))
    measure(small)

    limit_s = GROWTH_MAX * SLACK * min(measure(small)[0] for _ in range(3)) + 0.1

    # Machine load may slow down one measurement, but hardly both.
    assert any(measure(large)[0] <= limit_s for _ in range(2))


def calls_for(text: str) -> int:
    """Return the number of function calls for *text*: independent of machine load."""
    profile = cProfile.Profile()
    profile.runcall(measure, text)
    return sum(found.callcount for found in profile.getstats())


def test_rendering_ten_times_the_text_takes_ten_times_the_calls() -> None:
    """The same limit, in a deterministic unit."""
    measure(mixed(40_000))  # What caches keep is not counted.

    assert calls_for(mixed(40_000)) <= 10.5 * calls_for(mixed(4_000))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mixed", *SINGLES])
def test_rendering_a_megabyte_takes_at_most_eleven_times_a_tenth_of_it(kind: str) -> None:
    """One endless block writes nearly as few bytes as a mixed answer."""
    small, large = (mixed(n) if kind == "mixed" else single(kind, n) for n in (100_000, 1_000_000))

    assert growth(small, large)[0] <= GROWTH_MAX
    assert measure(large)[1] <= (4 if kind == "mixed" else 5) * len(large.encode())
