"""The program, started by each of its doors, with a client that speaks, watched until it ends."""

import fcntl
import json
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final, TypeAlias

from tests.e2e.kin import MARK, Kin
from tests.e2e.program import AGENT_CLI
from tests.forked import Program, start, start_in_terminal
from tests.waiting import LIMIT_S

ANSWER: Final = "Sixteen small pieces of an answer that is paced come, until it is finished."
LAST_WORD: Final = b"finished."
LOOK_S: Final = 0.005
KEY_AGAIN_S: Final = 0.3
NUMBERS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_marks = count(1)

Marks: TypeAlias = dict[str, float]
"""When a life had come to something, in seconds since its first instruction."""


@dataclass(frozen=True)
class Moment:
    """When a signal comes: so many seconds after the life has come to a mark."""

    number: signal.Signals
    mark: str
    after_s: float


@dataclass
class Life:
    """One program: it runs until it ends by itself, or by the signal that comes at a moment."""

    door: str
    options: Sequence[str]
    folder: Path
    environment: Mapping[str, str]
    fresh: bool
    reached: Callable[["Life"], Mapping[str, bool]]
    output: bytes = b""
    marks: Marks = field(default_factory=dict[str, float])
    hung_up: bool = False
    turns: int = 0
    code: int | None = None
    was_hit: bool = False
    was_hit_again: bool = False
    _began_s: float = 0.0
    _ours: int = -1
    _stdin: int = -1
    _streams: list[int] = field(default_factory=list[int])

    def live(self, moment: Moment | None) -> list[str]:
        """Run the program to its end and return what it has left running."""
        mark = f"{os.getpid()}.{next(_marks)}"
        with self._started({**self.environment, MARK: mark}) as program:
            kin = Kin(program.pid, mark)
            self._watch(program, kin, moment)
            left = self._left(kin)
        if self._ours >= 0:
            os.close(self._ours)
        return left

    def say(self, text: str) -> None:
        """Write to the program, as its client or as a person who types."""
        with suppress(OSError):  # the program has ended
            os.write(self._ours if self._ours >= 0 else self._stdin, text.encode())

    def hang_up(self) -> None:
        """Let the program end by itself: the client goes."""
        self.hung_up = True
        if self._ours >= 0:
            self.say("\x04\x04")  # the second one where a job would end with it
        else:
            os.close(self._stdin)
            self._stdin = -1

    def _started(self, environment: Mapping[str, str]) -> Program:
        arguments = [*self.options, *ARGUMENTS[self.door]]
        if self.door == "repl":
            self._ours, theirs = pty.openpty()
            fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
            program = start_in_terminal(
                *(AGENT_CLI, *arguments),
                terminal=theirs,
                environment=environment,
                fresh=self.fresh,
                folder=self.folder,
            )
            self._streams = [self._ours]
        else:
            program = start(
                *(AGENT_CLI, *arguments),
                environment=environment,
                fresh=self.fresh,
                folder=self.folder,
                limit_s=2 * LIMIT_S,
            )
            self._streams = [program.stdout.fileno(), program.stderr.fileno()]
            self._stdin = os.dup(program.stdin.fileno())
            program.stdin.close()
        for stream in self._streams:
            os.set_blocking(stream, False)
        return program

    def _watch(self, program: Program, kin: Kin, moment: Moment | None) -> None:
        while program.poll() is None and not is_begun(program.pid):
            time.sleep(0.0005)
        self._began_s = time.monotonic()
        self.marks["begun"] = 0.0
        limit_s, again_s = LIMIT_S, 0.0
        while program.poll() is None:
            now_s = time.monotonic() - self._began_s
            self._note(now_s)
            if now_s > limit_s:
                return
            if moment and not self.was_hit and now_s >= self._due_s(moment):
                program.send_signal(moment.number)
                self.was_hit, limit_s, again_s = True, now_s + LIMIT_S, now_s + KEY_AGAIN_S
            elif moment and self.was_hit and now_s >= again_s and is_a_key(self.door, moment):
                program.send_signal(moment.number)
                self.was_hit_again = True
                again_s = now_s + KEY_AGAIN_S
            CLIENTS[self.door](self)
            kin.look()
            wait_s = LOOK_S
            if moment and not self.was_hit:
                wait_s = min(LOOK_S, max(self._due_s(moment) - now_s, 0))
            self._read(wait_s)
        self.code = program.poll()
        self.marks["ended"] = time.monotonic() - self._began_s
        self._read(0)

    def _note(self, now_s: float) -> None:
        for mark, is_so in self.reached(self).items():
            if is_so:
                self.marks.setdefault(mark, now_s)

    def _due_s(self, moment: Moment) -> float:
        return self.marks.get(moment.mark, float("inf")) + moment.after_s

    def _read(self, wait_s: float) -> None:
        ready = select.select(self._streams, [], [], wait_s)[0]
        for stream in ready:
            try:
                received = os.read(stream, 65_536)
            except OSError:  # a terminal that no program has open any more
                received = b""
            self.output += received
            if not received:
                self._streams.remove(stream)

    def _left(self, kin: Kin) -> list[str]:
        until_s = time.monotonic() + LIMIT_S / 3
        while (left := kin.left()) and time.monotonic() < until_s:
            time.sleep(0.01)
        return left


def is_a_key(door: str, moment: Moment) -> bool:
    """Return whether the signal only does what a key does: Ctrl-C at the prompt."""
    return (door, moment.number) == ("repl", signal.SIGINT)


def is_begun(pid: int) -> bool:
    """Return whether *pid* has run its first instruction: it blocks or catches SIGTERM.

    A fork of newer C libraries blocks all signals for a moment before anything of ours runs.
    """
    ours, another = (1 << (number - 1) for number in (signal.SIGTERM, signal.SIGUSR2))
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    for line in status.splitlines():
        if line.startswith(("SigBlk:", "SigCgt:")):
            mask = int(line.split()[1], 16)
            if mask & ours and not mask & another:
                return True
    return False


def _nobody(life: Life) -> None:
    if not life.hung_up:
        life.hang_up()


def _person(life: Life) -> None:
    if life.turns == 0 and b"you>" in life.output:
        life.say("hi\r")
        life.turns = 1
    elif life.turns == 1 and LAST_WORD in life.output:
        life.turns = 2
        life.hang_up()


def _editor(life: Life) -> None:
    if life.turns == 0:
        _send(life, "initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        _send(life, "session/new", {"cwd": str(life.folder), "mcpServers": []})
    elif life.turns == 2 and (opened := _answer(life, 2)):
        prompt = [{"type": "text", "text": "hi"}]
        _send(life, "session/prompt", {"sessionId": opened["sessionId"], "prompt": prompt})
    elif life.turns == 3 and _answer(life, 3) and not life.hung_up:
        life.hang_up()


def _agent(life: Life) -> None:
    if life.turns == 0:
        info = {"name": "test", "version": "1"}
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
        _send(life, "initialize", params)
    elif life.turns == 1 and _answer(life, 1):
        life.say('{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
        _send(life, "tools/call", {"name": "ask", "arguments": {"prompt": "hi"}})
    elif life.turns == 2 and _answer(life, 2) and not life.hung_up:
        life.hang_up()


def _send(life: Life, method: str, params: Mapping[str, object]) -> None:
    life.turns += 1
    message = {"jsonrpc": "2.0", "id": life.turns, "method": method, "params": params}
    life.say(json.dumps(message) + "\n")


def _answer(life: Life, id: int) -> dict[str, str]:
    for line in life.output.splitlines():
        if line.startswith(b"{") and line.endswith(b"}"):
            message = json.loads(line)
            if message.get("id") == id and "method" not in message:
                return dict(message.get("result") or {"error": str(message)})
    return {}


ARGUMENTS: Final = {
    "-p": ("-p", "hi"),
    "batch": ("batch", "tasks.jsonl"),
    "mcp serve": ("mcp", "serve"),
    "acp": ("acp",),
    "repl": (),
}
CLIENTS: Final[Mapping[str, Callable[[Life], None]]] = {
    "-p": _nobody,
    "batch": _nobody,
    "mcp serve": _agent,
    "acp": _editor,
    "repl": _person,
}
