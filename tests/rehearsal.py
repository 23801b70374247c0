"""Run the program before it is forked, so that its forks need not do everything a first time.

A first run fills caches (of patterns, types, addresses) and has the interpreter adapt the code that
runs. Each fork would do so again, and copy the pages that this writes to: a sixth of a run's time,
and a quarter in a terminal.
"""

import contextlib
import fcntl
import os
import pty
import select
import struct
import sys
import termios
import threading
import time
from collections.abc import Generator
from pathlib import Path
from tempfile import TemporaryDirectory

from pytest import MonkeyPatch

from agent_cli.cli.main import run
from agent_cli.repl.live import asking
from agent_cli.system import programs
from tests.called import call, set_environment
from tests.messages_api.received import ReceivedRequest
from tests.messages_api.script import Reply, reply, tool_use
from tests.messages_api.threaded import serve_in_thread

LIMIT_S = 20.0
ROWS, COLUMNS = 40, 100
LAST_WORD = "goodbye"
# What is typed once the screen shows a text.
DIALOG = (
    (b"ask", b"hello\r"),
    ("❯ 1 Yes".encode(), b"\r"),  # the list accepts it
    (LAST_WORD.encode(), b"/cost\r"),
    (b"tokens", b"/exit\r"),
)
COMMAND = tool_use("bash", {"command": "touch made"})


def rehearse() -> None:
    """Have prompts answered that need a command, the last in a terminal; leave nothing of it.

    Raises:
        TimeoutError: The program did not show what it should.
    """

    def answer(request: ReceivedRequest) -> Reply:
        if "tool_result" not in str(request.body["messages"][-1]):
            return reply(COMMAND)
        return reply(f"# Hello\n\nSome **words** and `code`.\n\n{LAST_WORD}")

    with (
        TemporaryDirectory() as folder,
        serve_in_thread(answer=answer) as api,
        MonkeyPatch.context() as patch,
    ):
        home, workspace = Path(folder, "home"), Path(folder, "work")
        home.mkdir()
        workspace.mkdir()
        patch.chdir(workspace)
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        variables = {
            **kept,
            "HOME": str(home),
            "TERM": "xterm-256color",
            "ANTHROPIC_API_KEY": "key",
            "ANTHROPIC_BASE_URL": api.base_url,
        }
        set_environment(patch, variables)
        patch.setattr(programs._USERS, "path", None)
        patch.setattr(asking, "SILENCE_S", 0.0)
        call(["-p", "hello", "--permission-mode", "yolo"], variables, "")
        with _terminal():
            run([])


@contextlib.contextmanager
def _terminal() -> Generator[None]:
    """Make a terminal the standard streams, at which someone types the dialog."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    names = sys.stdin, sys.stdout, sys.stderr
    for stream in names[1:]:
        stream.flush()
    before = [os.dup(number) for number in range(3)]
    for number in range(3):
        os.dup2(theirs, number)
    os.close(theirs)
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", 1, errors="backslashreplace", closefd=False)
    dialog = [*DIALOG]
    person = threading.Thread(target=_type, args=(ours, dialog))
    person.start()
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        sys.stdin, sys.stdout, sys.stderr = names
        for number, descriptor in enumerate(before):
            os.dup2(descriptor, number)
            os.close(descriptor)
        person.join()
    if dialog:
        raise TimeoutError(f"not within {LIMIT_S:g} s: {dialog[0][0]!r}")


def _type(terminal: int, dialog: list[tuple[bytes, bytes]]) -> None:
    """Type the dialog, and close the terminal when the program ends, or after the limit.

    What is left of the dialog was not seen in time; the end is its last part.
    """
    seen = b""
    deadline_s = time.monotonic() + LIMIT_S
    with open(terminal, "r+b", buffering=0), contextlib.suppress(OSError):
        while select.select([terminal], [], [], max(deadline_s - time.monotonic(), 0))[0]:
            seen += os.read(terminal, 65_536)
            if dialog and dialog[0][0] in seen:
                os.write(terminal, dialog.pop(0)[1])
                seen = b""
        dialog.append((b"the end", b""))
