"""What somebody who goes on with a session sees of it on a screen."""

from agent_cli.contracts.timeline import Json, WidgetOutput
from agent_cli.repl.live.earlier import earlier_rows
from agent_cli.repl.live.paint import Paint
from agent_cli.repl.live.results import Results
from agent_cli.repl.live.widgets import Details
from agent_cli.repl.recall import EARLIER_ROWS_MAX, Earlier


def rows_of(answer: str) -> list[str]:
    paint = Paint(color=False)
    data: Json = {"label": "files", "done": 4, "total": 4}
    progress = WidgetOutput("w", 0, "1", "progress", data, "4 of 4")
    return earlier_rows(
        Earlier("1 prompt so far; the last one:", "Report!", [progress], answer),
        paint=paint,
        columns=40,
        echo=lambda text: [f"you> {text}"],
        side_output=Details(Results(paint), paint, lambda: 40).side_output,
    )


def test_the_last_exchange_is_drawn_as_it_was() -> None:
    """The widget as a widget, the answer as Markdown."""
    assert rows_of("- one\n- two") == [
        "1 prompt so far; the last one:",
        "you> Report!",
        "  ████████████████████ 100% · 4 of 4 · files",
        "- one",
        "- two",
    ]


def test_a_long_answer_is_shown_from_its_end() -> None:
    """Cut after it was drawn, so that a block that began before is drawn as what it is."""
    drawn = rows_of("```\n" + "\n".join(map(str, range(50))) + "\n```")[3:]

    assert drawn[0] == "…"
    assert drawn[-2:] == ["49", "```"]
    assert len(drawn) == EARLIER_ROWS_MAX + 1
