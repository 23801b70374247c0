"""Random lives of the real program: a person and scripts use one session, kills and signals come.

A session has several lives, each of one process: whoever comes next goes on with `-c`. Between two
lives nothing may run, the record must be sound, and what the server has read must be in it.
"""

import os
import random
import re
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from itertools import count, pairwise
from pathlib import Path
from typing import Final, Literal, TypeAlias

from agent_cli.session_store import SessionStore
from agent_cli.session_store.upkeep import verify
from tests.e2e.doors import is_begun
from tests.e2e.kin import MARK, Kin
from tests.e2e.program import AGENT_CLI, asks_for_summary, environment, said_by_user
from tests.forked import PipedProgram, start
from tests.messages_api import (
    FakeMessagesApi,
    Pace,
    ReceivedRequest,
    broken,
    error,
    reply,
    thinking,
    tool_use,
)
from tests.messages_api.script import Answer, Payload
from tests.repl.terminal import Terminal

ACTS_MAX: Final = 6
LIMIT_S: Final = 30.0
PACE_S: Final = 0.01
PAUSE_S: Final = 0.4
ROWS: Final = 14
"""The rows at the bottom that show what the program does: the list of a question has so many."""
UNCHOSEN: Final = "choose with ↓"
"""Below the answers while none is marked."""
MARGIN: Final = " " * len("you> ")
"""Of the later rows of a draft."""
OWN: Final = "!echo own"
CTRL_C, CTRL_D, CTRL_U, ESCAPE, DOWN = "\x03", "\x04", "\x15", "\x1b", "\x1b[B"

State: TypeAlias = Literal["idle", "running", "question", "dialog"]
ACTS: Final[dict[State, tuple[str, ...]]] = {
    "idle": ("say",) * 6
    + ("/undo", "/compact", "/rewind 1", "/uncompact", "/context", "/goal finish", OWN, CTRL_C),
    "running": ("steer",) * 4 + ("settle",) * 3 + (OWN, ESCAPE, CTRL_C),
    "question": ("settle",) * 4 + ("\r", "y\r", "rather not\r", ESCAPE, CTRL_C),
    "dialog": ("y\r", "n\r", ESCAPE),
}
WAITS: Final = "waits for a decision"
NOT_REACHED: Final = "goal not reached"
ENDS: Final = ("leave",) * 3 + ("kill",) * 4 + ("terminate", "hang up", "close the window")
_CUT: Final = re.compile(r'"kind": ?"(?:rewound|compaction|trim)"')
_TASK: Final = re.compile(r"please do task (\d+)\.")


class Hung(Exception):
    """The program did not come to what it should within the limit."""


class TerminalIn(Terminal):
    """A terminal whose program runs in a folder; tests in threads share the working directory."""

    def __init__(self, folder: Path, *command: str, **environment: str) -> None:
        self.folder = folder
        super().__init__(*command, **environment)


class Model:
    """What the server answers, by chance; each command has a number and leaves its trace."""

    def __init__(self, seed: float) -> None:
        self._dice = random.Random(seed)
        self._numbers = count(1)
        self._lock = threading.Lock()

    def answer(self, request: ReceivedRequest) -> Answer:
        """Answer a request: text, calls, an error, or half a reply."""
        with self._lock:
            if asks_for_summary(request.body):
                return reply("In short: tasks were done.")
            kind = self._dice.random()
            if kind < 0.05:
                return error(529, "overloaded_error", "Overloaded")
            spoken = [thinking("Let me see.")] if self._dice.random() < 0.2 else []
            if kind < 0.45:
                names = {tool["name"] for tool in request.body["tools"]}
                calls = [self._call(names) for _ in range(self._dice.choice((1, 1, 2)))]
                whole = reply(*spoken, "I run it.", *calls)
            else:
                words = "well " * self._dice.randrange(1, 40)
                whole = reply(*spoken, words, gate=Pace(PACE_S), chunk_chars=12)
            return broken(whole, "drop", after=3) if kind > 0.95 else whole

    def _call(self, names: set[str]) -> Payload:
        number, kind = next(self._numbers), self._dice.random()
        if kind < 0.2:
            return tool_use("write", {"path": f"written-{number}", "content": "x\n"})
        if kind < 0.35 and "agent" in names:  # an agent has none
            behind = {"background": self._dice.random() < 0.3}
            return tool_use("agent", {"description": f"{number}", "prompt": "help", **behind})
        if kind < 0.45:
            text = f"mkdir -p ran; echo x >> ran/{number}; sleep 0.3"
            return tool_use("bash", {"command": text, "background": True})
        lasts = self._dice.choice(("0", "0.05", "0.3"))
        text = f"mkdir -p ran; echo x >> ran/{number}; sleep {lasts} & sleep {lasts}; wait"
        return tool_use("bash", {"command": text})


class LongSession:
    """A session of several lives, and the faults that were found in them."""

    def __init__(self, folder: Path, api: FakeMessagesApi, dice: random.Random) -> None:
        self.counts: Counter[str] = Counter()
        self.faults: list[str] = []
        self._dice = dice
        self._api = api
        self._workspace = folder / "work"
        self._state = folder / "state"
        for name in ("work", "state", "config", "tmp"):
            (folder / name).mkdir(parents=True)
        self._environment = environment(api, {}) | {
            "HOME": str(folder),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "XDG_STATE_HOME": str(self._state),
            "TMPDIR": str(folder / "tmp"),
        }
        self._tasks = count(1)
        self._typed: set[str] = set()
        self._traces: set[str] = set()
        self._undone: set[str] = set()
        self._acts: list[str] = []

    def play(self, lives: int) -> None:
        """Live *lives* lives; the last one is a question that must be answered."""
        try:
            for life in range(lives):
                self._acts = [f"life {life + 1}"]
                self._typed.clear()
                mark = f"{os.getpid()}.{self._state}.{life}"
                is_last = life == lives - 1
                if is_last or self._dice.random() < 0.25:
                    kin = self._script(mark, ends=not is_last and self._dice.random() < 0.6)
                else:
                    kin = self._person(mark)
                self.counts["lives"] += 1
                self._check(kin)
        except Hung as hung:
            self._fault(f"hung: {hung}")
        self.faults += [f"refused: {each}" for each in self._api.refusals]

    def _continue(self) -> tuple[str, ...]:
        # The record is on disk before the server gets the first request.
        return ("-c",) if self._api.requests else ()

    def _script(self, mark: str, *, ends: bool) -> Kin:
        """Run one prompt with `-p`, to its end or until a signal *ends* it."""
        options = ("--permission-mode", "yolo", *self._continue())
        self._acts.append("script")
        with start(
            *(AGENT_CLI, "-p", self._text(), *options),
            environment=self._environment | {MARK: mark},
            folder=self._workspace,
            limit_s=2 * LIMIT_S,
        ) as program:
            program.stdin.close()
            kin = Kin(program.pid, mark)
            number = self._dice.choice((signal.SIGKILL, signal.SIGTERM, signal.SIGINT))
            if ends:
                while program.poll() is None and not is_begun(program.pid):
                    time.sleep(0.001)
                self._wait_for(program, kin, self._dice.random())
                kin.look()
                program.send_signal(number)
                self._acts.append(number.name)
            self._wait_for(program, kin, LIMIT_S)
            if program.poll() is None:
                raise Hung("the script does not end")
            stdout, stderr = program.communicate()
        allowed = {0}
        if ends:
            allowed.add(-9 if number == signal.SIGKILL else 128 + number)
        if WAITS in stderr:  # the person was killed at an approval question
            allowed.add(3)
        if NOT_REACHED in stderr:  # the person had set one
            allowed.add(4)
        if program.returncode not in allowed or "Traceback" in stdout + stderr:
            self._fault(f"exit code {program.returncode}, {stderr[-1_000:]}")
        self.counts[f"-p, {number.name if ends else 'to its end'}"] += 1
        return kin

    def _wait_for(self, program: PipedProgram, kin: Kin, seconds: float) -> None:
        until_s = time.monotonic() + seconds
        while program.poll() is None and time.monotonic() < until_s:
            kin.look()
            time.sleep(0.01)

    def _person(self, mark: str) -> Kin:
        """Let a person do random things at the prompt, and end it in a random way."""
        mode = self._dice.choice(("ask", "ask", "yolo"))
        options = ("--permission-mode", mode, *self._continue())
        self._acts.append(mode)
        variables = self._environment | {MARK: mark}
        with TerminalIn(self._workspace, AGENT_CLI, *options, **variables) as terminal:
            kin = Kin(terminal.child.pid, mark)
            self._until(terminal, lambda: terminal.text != "", "anything")
            if self._dice.random() < 0.8:
                self._until(terminal, lambda: is_loaded(terminal), "a prompt")
            for _ in range(self._dice.randrange(1, ACTS_MAX + 1)):
                self._act(terminal)
                kin.look()
                terminal.read_for(self._dice.random() ** 2 * PAUSE_S)
                kin.look()
            self._end(terminal, self._dice.choice(ENDS))
            if b"Traceback" in terminal.bytes:
                self._fault(f"a traceback: {terminal.text[-2_000:]}")
        return kin

    def _act(self, terminal: Terminal) -> None:
        state = self._state_of(terminal)
        if state is None:
            terminal.read_for(PAUSE_S)
            state = self._state_of(terminal)
        act = self._dice.choice(ACTS[state]) if state else ""
        text = self._text() if act in ("say", "steer") else ""
        self._acts.append(f"{state}: {text or act!r}")
        if act == "settle":
            self._settle(terminal)
        elif act in ("say", "steer"):
            terminal.send(f"{CTRL_U}{text}\r")
            if act == "say" and is_loaded(terminal) and self._dice.random() < 0.7:
                self._until(terminal, lambda: self._is_taken(terminal, text), text)
        elif act.startswith(("/", "!")):
            if act == "/undo":
                self._tally()
            terminal.send(f"{CTRL_U}{act}\r")
        else:
            terminal.send(act)
        self.counts["acts"] += 1

    def _end(self, terminal: Terminal, end: str) -> None:
        self._acts.append(end)
        self.counts[f"prompt, {end}"] += 1
        shown = _said_on(terminal)
        expected = {"leave": 0, "kill": -9, "terminate": 143}.get(end, 129)
        match end:
            case "leave":
                self._leave(terminal)
            case "kill":
                terminal.child.kill()
            case "terminate":
                terminal.child.send_signal(signal.SIGTERM)
            case "hang up":
                terminal.child.send_signal(signal.SIGHUP)
            case _:
                pass
        try:
            code = terminal.close_window() if end == "close the window" else terminal.exit_code()
        except (AssertionError, subprocess.TimeoutExpired) as error:
            raise Hung(f"after {end}: {error}") from error
        # The key ends a program that still starts as the signal does; later, twice, it leaves.
        by_key = {0, 130} if self._has_pressed(CTRL_C) else set[int]()
        if code not in {expected, *by_key}:
            self._fault(f"exit code {code}: {terminal.text[-1_000:]}")
        history = self._state / "agent-cli/history"
        kept = self._records() + (history.read_text() if history.exists() else "")
        # Keys that come after the second Ctrl-C reach nobody.
        has_left = (end, code) == ("leave", 0) and not self._has_pressed(CTRL_C)
        for text in self._typed if has_left else shown:
            if text not in kept:
                self._fault(f"neither said nor in the history: {text}\n{terminal.text}")

    def _leave(self, terminal: Terminal) -> None:
        """Press Ctrl-D once nothing runs; what a run gives back to the input is cleared first."""
        until_s = time.monotonic() + LIMIT_S
        while terminal.child.poll() is None:
            if time.monotonic() > until_s:
                raise Hung(f"does not leave, {terminal.last_row!r}:\n{terminal.text[-2_000:]}")
            self._settle(terminal)
            # A draft goes to the history; a program that still starts ends as by the signal.
            key = CTRL_D if terminal.last_row == "you>" else CTRL_C
            self._acts.append(repr(key))
            terminal.send(key)
            terminal.read_for(PAUSE_S)

    def _settle(self, terminal: Terminal) -> None:
        """Answer all questions with yes, until nothing runs."""
        until_s = time.monotonic() + LIMIT_S
        while terminal.child.poll() is None and (state := self._state_of(terminal)) != "idle":
            if time.monotonic() > until_s:
                raise Hung(
                    f"never idle, {terminal.last_row!r}; the screen:\n{terminal.text[-2_000:]}"
                )
            if state in ("question", "dialog"):
                terminal.send(f"{CTRL_U}{_yes(terminal)}" if state == "question" else ESCAPE)
            terminal.read_for(0.1)

    def _state_of(self, terminal: Terminal) -> State | None:
        """Return what the program shows; None while that is not certain."""
        rows, last = terminal.text.split("\n")[-ROWS:], terminal.last_row
        # An empty row has no margin.
        is_later = last == "" or last.startswith(MARGIN)
        # Esc and Enter in one are a line break in what may be typed instead of an answer.
        if last.startswith("allow") or (last == "" and any(map(_is_question, rows))):
            is_open = any(row.startswith("❯") or UNCHOSEN in row for row in rows)
            return "question" if is_open else None
        if any("Ctrl-C stops" in row for row in rows):
            return "running" if is_later or last.startswith("you>") else None
        if last.startswith("you>") or (is_later and is_loaded(terminal)):
            return "idle"
        return "dialog" if last.endswith("?") or "(y/n)" in last else None

    def _until(self, terminal: Terminal, condition: Callable[[], bool], what: str) -> None:
        try:
            terminal.until(condition)
        except AssertionError as error:
            # A second Ctrl-C may have left before what was typed behind it was read.
            if not (self._has_pressed(CTRL_C) and self._ends(terminal)):
                raise Hung(f"{what}: {error}") from error

    def _ends(self, terminal: Terminal) -> bool:
        until_s = time.monotonic() + LIMIT_S
        while terminal.child.poll() is None and time.monotonic() < until_s:
            terminal.read_for(PAUSE_S)
        return terminal.child.poll() is not None

    def _is_taken(self, terminal: Terminal, text: str) -> bool:
        """Return whether the server has read *text*, or a question keeps it waiting."""
        # It may also have declined a call: then the call's result has it.
        is_read = any(text.encode() in each.raw for each in self._api.requests[-2:])
        # An interrupted run gives back to the input what waits; a second Ctrl-C may have left.
        is_draft = terminal.last_row in (f"you> {text}", f"{MARGIN}{text}") and (
            self._has_pressed(ESCAPE) or self._has_pressed(CTRL_C)
        )
        is_over = terminal.child.poll() is not None
        return is_read or is_draft or is_over or self._state_of(terminal) == "question"

    def _has_pressed(self, key: str) -> bool:
        return any(act.endswith(repr(key)) for act in self._acts)

    def _text(self) -> str:
        text = f"please do task {next(self._tasks)}."
        self._typed.add(text)
        return text

    def _check(self, kin: Kin) -> None:
        """Check what a life has left behind."""
        until_s = time.monotonic() + LIMIT_S
        while (left := kin.left()) and time.monotonic() < until_s:
            time.sleep(0.01)
        if left:
            self._fault(f"left running: {left}")
        self._tally()
        records = self._records()
        for path in self._store().files():
            for finding in verify(path):
                if finding.damage:
                    self._fault(f"damaged: {finding}")
        requests = [_tasks_in(each) for each in self._api.requests]
        for text in set[str]().union(*requests):
            if text not in records:
                self._fault(f"read by the server and not in the record: {text}")
        lacks = [
            f"request {at} lacks {before - after}"
            for at, (before, after) in enumerate(pairwise(requests), start=2)
            if after and before - after
        ]
        # Each of what the record says was rewound or compacted may have taken some out, once.
        if len(lacks) > len(_CUT.findall(records)):
            self._fault("; ".join(lacks))

    def _tally(self) -> None:
        """Check that no command ran twice, also if /undo took back its traces meanwhile."""
        traces = {path.name: len(path.read_text()) // 2 for path in self._workspace.glob("ran/*")}
        for name, times in traces.items():
            if times > 1 or name in self._undone:
                self._fault(f"command {name} ran twice")
        self.counts["commands"] += len(traces.keys() - self._traces)
        self._undone |= self._traces - traces.keys()
        self._traces |= traces.keys()

    def _store(self) -> SessionStore:
        return SessionStore(self._state / "agent-cli/sessions")

    def _records(self) -> str:
        return "".join(path.read_text(errors="replace") for path in self._store().files())

    def _fault(self, text: str) -> None:
        self.faults.append(f"{' · '.join(self._acts)}: {text}")


def _is_question(row: str) -> bool:
    return row.startswith("allow") and row.endswith("?")


def _yes(terminal: Terminal) -> str:
    """Return the keys that allow a call; after a message, sent or deleted, no answer is chosen."""
    if any(UNCHOSEN in row for row in terminal.text.split("\n")[-ROWS:]):
        return f"{DOWN}\r"
    return "y\r" if terminal.last_row.startswith("allow all") else "\r"


def is_loaded(terminal: Terminal) -> bool:
    """Return whether the program has loaded behind its prompt."""
    return "/help shows" in terminal.text


def _said_on(terminal: Terminal) -> set[str]:
    """Return the tasks that the screen shows as said; before the program has loaded, none are."""
    # The terminal echoes what comes after the program has left, without a prompt.
    shown = terminal.text.partition("to resume this session:")[0]
    rows = set(shown.split("\n")) - {terminal.last_row} if is_loaded(terminal) else set[str]()
    said = {row.removeprefix("you> ") for row in rows if row.startswith("you> ")}
    return {row for row in said if _TASK.fullmatch(row)}


def _tasks_in(request: ReceivedRequest) -> set[str]:
    """Return the tasks that the user has said; none of a request for a summary."""
    if asks_for_summary(request.body):
        return set()
    said = "\n".join(said_by_user(request.body))
    return {f"please do task {number}." for number in _TASK.findall(said)}
