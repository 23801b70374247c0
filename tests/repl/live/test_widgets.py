"""Side outputs of tools as rows: drawn if their data is valid, as text otherwise."""

import pytest

from agent_cli.contracts.timeline import Json, WidgetOutput
from agent_cli.repl.live.paint import Paint
from agent_cli.repl.live.results import Results
from agent_cli.repl.live.widgets import Details

TABLE: Json = {"columns": ["name", "cents"], "rows": [["a\x1b[2Jpple\nred", 120], ["pear", 1.5]]}


def drawn(widget: str, data: Json, fallback: str = "as text", columns: int = 60) -> list[str]:
    paint = Paint(color=False)
    details = Details(Results(paint, lambda: 80), paint, lambda: columns)
    return details.side_output(WidgetOutput("w", 0, "1", widget, data, fallback))


def test_table_widget_aligns_numbers_right_and_sanitizes_its_cells() -> None:
    """S2: a tool's data cannot draw on the screen by itself."""
    assert drawn("table", TABLE) == [
        "  name      | cents",
        "  ----------+------",
        "  apple red |   120",
        "  pear      |   1.5",
    ]


def test_table_widget_that_does_not_fit_lists_one_cell_per_row() -> None:
    assert drawn("table", TABLE, columns=12)[:2] == ["  name:", "  apple red"]


def test_long_table_widget_is_folded() -> None:
    """The full text is kept for `/output`."""
    rows = drawn("table", {"columns": ["n"], "rows": [[n] for n in range(100)]})

    assert len(rows) == 21
    assert rows[-1] == "  … 82 more lines: Ctrl-O, /output 1"


def test_diff_widget_has_line_numbers() -> None:
    assert drawn("diff", {"diff": "@@ -7 +7 @@\n-a\n+b"}) == ["     7 −a", "     7 +b"]


@pytest.mark.parametrize(
    ("data", "row"),
    [
        ({"done": 1, "total": 4}, "█████░░░░░░░░░░░░░░░  25% · 1 of 4"),
        ({"done": 9, "total": 4, "label": "x"}, "████████████████████ 100% · 9 of 4 · x"),
        ({"done": 1_500, "label": "files"}, "files 1,500"),
    ],
)
def test_progress_widget_is_a_bar_or_a_count(data: Json, row: str) -> None:
    assert drawn("progress", data) == [f"  {row}"]


@pytest.mark.parametrize(
    ("widget", "data"),
    [
        *[("hologram", {"any": "thing"}), ("", None)],
        *[("diff", {"diff": value}) for value in (3, "")],
        *[("table", value) for value in (None, "x", {"columns": [], "rows": [1]})],
        ("table", {"columns": ["a"], "rows": [["b", "c"]]}),
        ("table", {"columns": ["a"], "rows": ["b"]}),
        ("table", {"columns": ["a"] * 31, "rows": []}),
        *[("progress", {"done": value, "total": 1}) for value in (None, "1", True, -1, 10**5000)],
        *[("progress", {"done": value}) for value in (float("nan"), float("inf"), [1])],
        *[("progress", {"done": 1, "total": value}) for value in (0, -1, "4", float("nan"))],
    ],
)
def test_widget_that_cannot_be_drawn_is_shown_as_its_fallback_text(widget: str, data: Json) -> None:
    """S2: an unknown widget, or data of another shape; never an exception."""
    assert drawn(widget, data) == ["  as text"]


def test_table_widget_cells_may_hold_any_json_value() -> None:
    """Each is on one line; values that cannot be shown are an ellipsis."""
    row: list[Json] = [None, True, 10**5000, [1], float("nan"), "x" * 500]
    rows = drawn("table", {"columns": list("abcdef"), "rows": [row]}, columns=300)

    assert [cell.strip() for cell in rows[2].split("|")][:5] == ["", "yes", "…", "…", "…"]
    assert rows[2].endswith("x…")


def test_widget_without_fallback_text_is_shown_by_its_name() -> None:
    assert drawn("hologram", None, fallback="") == ["  [hologram]"]
