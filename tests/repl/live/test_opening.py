"""The recap of a resumed session on a screen."""

from collections.abc import Sequence

from agent_cli.contracts.timeline import Json, WidgetOutput
from agent_cli.repl.live.opening import earlier_rows
from agent_cli.repl.live.paint import Paint
from agent_cli.repl.live.results import Details, Results
from agent_cli.repl.recall import EARLIER_ROWS_MAX, Earlier, Exchange


def rows_of(answer: str, before: Sequence[Exchange] = (), cut: Sequence[str] = ()) -> list[str]:
    paint = Paint(color=False)
    data: Json = {"label": "files", "done": 4, "total": 4}
    results = Results(paint, lambda: 40)
    progress = WidgetOutput("w", 0, "1", "progress", data, "4 of 4")
    return earlier_rows(
        Earlier("2 prompts so far:", 0, before, Exchange("Report!", 2, answer), [progress], cut),
        paint=paint,
        columns=40,
        echo=lambda text: [f"you> {text}"],
        side_output=Details(results, paint, lambda: 40).side_output,
        results=results,
    )


def test_recap_draws_the_last_exchange_as_it_was() -> None:
    """The widget as a widget, the answer as Markdown."""
    assert rows_of("- one\n- two") == [
        "2 prompts so far:",
        "you> Report!",
        "  2 tool calls",
        "  ████████████████████ 100% · 4 of 4 · files",
        "- one",
        "- two",
    ]


def test_recap_lists_calls_that_were_cut_off_below_the_answer() -> None:
    """Without control characters, which a model may have put into a call."""
    assert rows_of("I run it.", cut=["cut off:", "  bash a\x1b[2Jb"])[-3:] == [
        *("I run it.", "cut off:", "  bash ab"),
    ]


def test_remark_about_the_end_of_an_answer_is_wrapped_between_words() -> None:
    assert rows_of("", cut=["seven77 " * 6])[-2:] == ["seven77 " * 4 + "seven77", "seven77 "]


def test_recap_sends_the_terminal_no_sequence_of_an_answer() -> None:
    """An old answer could write the clipboard, or forge the screen, when its session resumed."""
    hostile = "a\x1b]52;c;eA==\ab\x1b[2J\x9b2Jc\u202e"

    rows = rows_of(hostile, [Exchange("Why?", 0, hostile)])

    end = ["you> Report!", "  2 tool calls", rows[5], "abc"]
    assert rows == ["2 prompts so far:", "you> Why?", "abc", *end]


def test_recap_folds_older_exchanges() -> None:
    """Each answer can be unfolded like a tool's output."""
    older = Exchange("Why?", 3, "\n\n".join(["One.", "Two.", "Three."]))

    assert rows_of("Last.", [older])[:6] == [
        *("2 prompts so far:", "you> Why?", "  3 tool calls", "One.", ""),
        "  … 3 more lines: Ctrl-O, /output 1",
    ]


def test_recap_shows_only_the_end_of_a_long_answer() -> None:
    """Cut after drawing, so that a block that began earlier is drawn well; the rest is kept."""
    drawn = rows_of("```\n" + "\n".join(map(str, range(50))) + "\n```")[4:]

    assert drawn[0] == "  … 32 more lines: Ctrl-O, /output 1"
    assert drawn[-2:] == ["49", "```"]
    assert len(drawn) == EARLIER_ROWS_MAX + 1
