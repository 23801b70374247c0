"""The ten screens of docs/screens.md: `make pictures`, or `python -m docs.screens FOLDER`.

Each scene starts the program in a terminal against the test server, types, and draws what stands
there. It needs nothing that an older version lacks, so that the same scenes show what changed.
"""

import contextlib
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from docs.screen_png import write_png
from docs.screen_svg import rows_of
from tests.e2e.program import AGENT_CLI, environment
from tests.messages_api import Answer, error, reply, serve_in_thread, tool_use
from tests.repl.terminal import COLUMNS, ROWS, Terminal

FOLDER: Final = Path(__file__).parent / "images" / "screens"
_ASKED: Final = "❯"
_CART: Final = "".join(
    f"def total_{n}(lines):\n    total = 0\n    for line in lines:\n"
    f"        total = total + line.price * line.count  # rate {n}\n    return total\n\n\n"
    for n in range(12)
)
_FILES: Final = {
    "app.py": "import math\n\n\ndef add(a, b):\n    return a - b\n\n\nPRICE = 3\n",
    "cart.py": _CART,
    "README.md": "# Shop\n\nA shop.\n",
    "tests/test_app.py": "from app import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n",
    "Makefile": "test:\n\tpython3 -m unittest\n",
}
_SLOW: Final = (
    'for n in $(seq 1 40); do echo "test_$n ... ok"; done;'
    ' echo "building the last one"; while [ ! -e ../go ]; do sleep 0.1; done'
)


@dataclass(frozen=True, slots=True)
class Scene:
    """What happens before the picture: replies of the model, and keys, each after a text is seen.

    `since` is the beginning of the first row drawn, "" for all.
    """

    name: str
    replies: Sequence[Answer] = ()
    keys: Sequence[tuple[str, str]] = ()
    last: str = ""
    since: str = ""


def _edit(path: str, *pairs: tuple[str, str], everywhere: bool = False) -> dict[str, object]:
    edits = [{"old": old, "new": new} | ({"all": True} if everywhere else {}) for old, new in pairs]
    return tool_use("edit", {"path": path, "edits": edits})


def _run(command: str) -> dict[str, object]:
    return tool_use("bash", {"command": command})


def _prompted(
    name: str, prompt: str, *replies: Answer, last: str, keys: Sequence[tuple[str, str]] = ()
) -> Scene:
    begin = ("\nyou>", f"{prompt}\r")
    return Scene(name, replies, (begin, *keys), last, since=f"you> {prompt}")


SCENES: Final = (
    Scene("start", last="? or /help"),
    Scene("menu", keys=(("\nyou>", "/"),), last="/help", since="you>"),
    Scene(
        "error",
        replies=(error(401, "authentication_error", "invalid x-api-key"),),
        keys=(("\nyou>", "what does app.py do?\r"),),
        last="key",
        since="you> what",
    ),
    _prompted(
        "edit",
        "add is wrong",
        reply(
            "`add` subtracts.\n",
            _edit("app.py", ("    return a - b\n", "    return a + b\n")),
        ),
        last=_ASKED,
    ),
    _prompted(
        "long-edit",
        "use sum",
        reply(
            _edit(
                "cart.py",
                *(
                    (
                        f"total = total + line.price * line.count  # rate {n}\n",
                        f"total += line.price * line.count  # rate {n}\n",
                    )
                    for n in range(12)
                ),
            )
        ),
        last=_ASKED,
    ),
    _prompted(
        "command",
        "publish it",
        reply(_run("cd build && rm -rf dist | tee ../log.txt && git push --force origin $(cat b)")),
        keys=((_ASKED, "\x05"),),
        last=_ASKED,
    ),
    _prompted(
        "batch",
        "make it ready",
        reply(
            "I'll test, document and publish it.\n",
            _run("make test"),
            _edit("README.md", ("A shop.\n", "A shop.\n\n## Use\n\nRun it.\n")),
            tool_use("write", {"path": "c.txt", "content": "1\n"}),
            _run("rm -rf build && git push --force"),
            _run("python3 - <<'PY'\nprint(1)\nPY"),
        ),
        last=" of them",
    ),
    _prompted(
        "reads",
        "where is add used?",
        reply(
            "I'll look.\n",
            *(tool_use("read", {"path": path}) for path in ("app.py", "cart.py", "README.md")),
            tool_use("grep", {"pattern": "add"}),
        ),
        reply(
            tool_use("read", {"path": "tests/test_app.py"}),
            tool_use("glob", {"pattern": "**/*.py"}),
        ),
        reply("Only `tests/test_app.py` uses `add`.\n"),
        last="uses add",
    ),
    _prompted(
        "running",
        "test it",
        reply(_run(_SLOW)),
        keys=((_ASKED, "y\r"),),
        last="building the last one\n",
    ),
    _prompted(
        "queue",
        "test it",
        reply(_run(_SLOW)),
        keys=(
            (_ASKED, "y\r"),
            ("building the last one\n", "then update the README\r"),
            ("after this step: then", "and tell me what you changed\r"),
            ("after this step: and", "\x1b[A"),
        ),
        last="you> and tell me",
    ),
)


def draw(scene: Scene, folder: Path) -> None:
    """Play *scene* and write its picture into *folder*."""
    with tempfile.TemporaryDirectory() as home, serve_in_thread(*scene.replies) as api:
        workspace = Path(home).resolve() / "shop"
        for name, text in _FILES.items():
            (workspace / name).parent.mkdir(parents=True, exist_ok=True)
            (workspace / name).write_text(text)
        more: dict[str, str | None] = {"HOME": str(workspace.parent), "TERM": "xterm-256color"}
        variables = environment(api, more)
        with (
            contextlib.chdir(workspace),
            Terminal(AGENT_CLI, **variables) as terminal,
        ):
            for seen, keys in (("? or /help", ""), *scene.keys):
                terminal.until(seen)
                terminal.send(keys)
            terminal.until(scene.last)
            terminal.until_silent()
            rows = rows_of(terminal.bytes, columns=COLUMNS, rows=ROWS)
            (workspace.parent / "go").touch()
    texts = ["".join(cell.data for cell in row) for row in rows]
    starts = [at for at, text in enumerate(texts) if text.startswith(scene.since)]
    write_png(rows[starts[0] :], COLUMNS, folder / f"{scene.name}.png")


def main() -> None:
    """Draw the scenes, or those that are named behind the folder."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    for scene in SCENES:
        if scene.name in sys.argv[2:] or not sys.argv[2:]:
            draw(scene, folder.absolute())
            print(f"wrote {folder / scene.name}.png")


if __name__ == "__main__":
    main()
