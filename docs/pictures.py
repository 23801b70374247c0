"""Make the README's pictures anew: `make pictures`.

Runs the installed program in a terminal against the test server, and draws what stood there.
"""

import contextlib
import shutil
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import agent_cli.cli.demo as demo
from docs.record_demo import SCRIPT
from docs.screen_svg import rows_of, svg
from tests.e2e.program import AGENT_CLI, environment
from tests.messages_api import serve_in_thread
from tests.repl.terminal import COLUMNS, ROWS, Terminal

IMAGES: Final = Path(__file__).parent / "images"
_SHOWN_COLUMNS: Final = COLUMNS
_TITLE: Final = "agent-cli — ~/basket"
_TESTS_MAY_RUN: Final = ("--allow", "bash(python3 -m unittest *)")


@contextmanager
def session(*options: str) -> Generator[Terminal]:
    """Yield the program after the demo's prompt was sent, in a copy of the demo's project."""
    with tempfile.TemporaryDirectory() as folder, serve_in_thread(*SCRIPT) as api:
        home = Path(folder).resolve()
        workspace = home / "basket"
        shutil.copytree(Path(demo.__file__).parent / "project", workspace)
        variables = environment(api, {"HOME": str(home), "TERM": "xterm-256color"})
        with (
            contextlib.chdir(workspace),
            Terminal(AGENT_CLI, *_TESTS_MAY_RUN, *options, **variables) as terminal,
        ):
            terminal.until("? or /help")
            terminal.until_prompt()
            terminal.send(f"{demo.PROMPT}\r")
            yield terminal


def drawn(terminal: Terminal, *, since: str) -> str:
    """Return a picture of everything from the last row that begins with *since*."""
    rows = rows_of(terminal.bytes, columns=COLUMNS, rows=ROWS)
    texts = ["".join(cell.data for cell in row) for row in rows]
    first = max(at for at, text in enumerate(texts) if text.startswith(since))
    return svg(rows[first:], columns=_SHOWN_COLUMNS, title=_TITLE)


def pictures() -> Iterator[tuple[str, str]]:
    """Yield name and content of each picture."""
    with session("--permission-mode", "auto-edit") as terminal:
        terminal.until("final state\n\nyou>")
        yield "session.svg", drawn(terminal, since="you> The tests")
    with session() as terminal:
        terminal.until("❯ 1 Yes")
        terminal.until("\nclaude")
        yield "approval.svg", drawn(terminal, since="── Edit")


def main() -> None:
    """Write the pictures."""
    IMAGES.mkdir(exist_ok=True)
    for name, content in pictures():
        (IMAGES / name).write_text(content, encoding="utf-8")
        print(f"wrote {IMAGES / name}")


if __name__ == "__main__":
    main()
