"""Answers as text for a screen reader."""

import io

from agent_cli.contracts import events
from agent_cli.contracts.messages import AssistantMessage
from agent_cli.contracts.provider import TextDelta
from agent_cli.contracts.timeline import text_block
from agent_cli.contracts.tooling import ToolResult
from agent_cli.repl.plain.shell import Renderer, SpokenAnswer
from agent_cli.terminal.writer import Writer
from tests.repl.plain.test_render import started
from tests.repl.terminal import Terminal
from tests.tables import each_row

ANSWER = """# A **title**

One *paragraph* that is
long, see [the docs](https://example.com).

- one
- two

| name | cents |
|---|---|
| apple | 120 |

```python
x = "**kept**"
```

> [!TIP]
> quoted

---
end \x1b[2J"""
SPOKEN = [
    "heading 1: A title",
    "One paragraph that is",
    "long, see the docs (https://example.com).",
    "• one",
    "• two",
    "name: apple",
    "cents: 120",
    "code python",
    'x = "**kept**"',
    "end of code",
    "quote: Tip",
    "quote: quoted",
    "end",
]


@each_row("size", [1, 7, 10_000])
def test_spoken_answer_is_whole_lines_with_words_for_marks(size: int) -> None:
    """However it arrives, it has no marks, no drawn lines, no blank lines and no repeated row."""
    spoken = SpokenAnswer()

    said = [spoken.feed(ANSWER[at : at + size]) for at in range(0, len(ANSWER), size)]
    said.append(spoken.finish())

    assert "".join(said).split("\n") == [*SPOKEN, ""]
    assert all(piece.endswith("\n") for piece in said if piece)


def test_spoken_tool_calls_start_and_end_with_words() -> None:
    """There is no mark that a listener has to guess."""
    out, err = io.StringIO(), io.StringIO()
    show = Renderer(Writer(out, err, color=False), lambda: (), spoken=True, clock=lambda: 0.0)
    message = AssistantMessage((text_block("I **look**."),))

    show(events.MessageUpdate(lambda: message, TextDelta(0, "I **look**.")))
    show(events.MessageEnd(message))
    for event in started("1", "a.py"):
        show(event)
    show(events.ToolExecutionEnd("1", "read", ToolResult.of("x"), is_error=False))

    assert out.getvalue() == "I look.\n"
    assert err.getvalue().splitlines() == ["started: read a.py", "  done in 0.0 s: read a.py"]


def test_screen_reader_mode_never_paints_over_a_line() -> None:
    """Not one escape, no carriage return except at line ends, each line once."""
    with Terminal(SCREEN_READER="1") as terminal:
        terminal.until_loaded()
        terminal.send("notes good && bad\r")
        terminal.until("The tool said")
        terminal.until_prompt()
        terminal.send("exit\r")

        assert terminal.exit_code() == 0
        assert b"\x1b" not in terminal.bytes
        assert b"\r" not in terminal.bytes.replace(b"\r\n", b"")
        assert terminal.text.count("started: Note good") == 1
