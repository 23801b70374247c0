"""The bars that `make bench` holds: one table, and exit code 1 if one is missed by 20 %.

Ratios to a bare Python measured alternately in the same run, medians. Targets in seconds were set
on one machine: each is multiplied by how much longer this one takes to import the HTTP library.
`make bench-all` runs the more detailed benchmarks.
"""

import os
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks._program import COMMAND, Finished, empty_home, own_s, run
from benchmarks._repository import add_extensions, make_repository
from benchmarks.commands import STARTS, bare_ms, hangs, own_bubblewrap
from benchmarks.long_answer import cpu_s as answer_cpu_s
from benchmarks.markdown import measure as markdown_cost
from benchmarks.one_shot import first_byte, importing, importing_s
from benchmarks.startup import Start, start, until_exit
from tests.messages_api import FakeMessagesApi, Gate, Reply, reply, serve_in_thread, tool_use
from tests.messages_api.script import Payload
from tests.repl.markdown.documents import mixed
from tests.repl.terminal import Terminal

ROUNDS: Final = 9
TURNS: Final = 40
OVER: Final = 1.2
PACED_CHARS: Final = 200_000
PACED_S: Final = 20
IDLE_S: Final = 5
SETTLED_S: Final = 3
SETTLED_MAX_S: Final = 30
ANSWER_CHARS: Final = 250_000
MARKDOWN_CHARS: Final = 1_000_000
DELTA_CHARS: Final = 20
IMPORT_S: Final = 0.114
"""What `import httpx2` took on the machine on which the targets in seconds were set.

There, `-p` took 0.467 s to its first byte, 4.1 times as long."""
MODEL_S: Final = 1.0
"""From the first request to its first token: a model's time. Servers may delay that request."""
END: Final = "Theend."
TEXT: Final = "Some *text* with `code` in it, and a bit more.\n\n- one\n- two **bold**\n\n"


@dataclass(frozen=True, slots=True)
class Row:
    """One bar: the measured value, in the unit of its target."""

    name: str
    value: float
    target: float
    unit: str

    @property
    def verdict(self) -> str:
        """Return `met`, `near` up to 20 % above the target, `MISSED` beyond."""
        if self.value <= self.target:
            return "met"
        return "near" if self.value <= self.target * OVER else "MISSED"

    def __str__(self) -> str:
        return (
            f"{self.name:<44} {self.value:8.2f} {self.unit:<2}"
            f" {self.target:8.2f} {self.unit:<2}  {self.verdict}"
        )


def starts(environment: dict[str, str], _slower: float) -> Iterator[Row]:
    """Measure `you> ` and the first key that the editor echoes, in units of a bare Python."""
    bare: list[float] = []
    found: list[Start] = []
    start(environment)
    for _ in range(ROUNDS):
        bare.append(until_exit([sys.executable, "-c", "pass"], environment))
        found.append(start(environment))
    bare_s = statistics.median(bare)
    yield Row("`you> ` visible / python -c pass", _median(found, _visible) / bare_s, 3, "x")
    yield Row("key echoed by the editor / python -c pass", _median(found, _echoed) / bare_s, 9, "x")
    for words in (["-c"], ["go"]):
        start(environment, *words)
        seen = _median([start(environment, *words) for _ in range(ROUNDS)], _visible)
        yield Row(f"`you> ` visible with `{words[0]}` / python -c pass", seen / bare_s, 3, "x")


def one_shot(environment: dict[str, str], _slower: float) -> Iterator[Row]:
    """Measure `-p` from exec to its request and to its end, in imports of the HTTP library.

    The answer comes at once, so what lies between both is reading, printing and leaving.
    """
    importing(environment)
    first_byte(environment)
    pairs = [(importing(environment), first_byte(environment)) for _ in range(ROUNDS)]
    bare_s = statistics.median(bare for bare, _ in pairs)
    first_s = statistics.median(first_s for _, (first_s, _) in pairs)
    exit_s = statistics.median(done.wall_s for _, (_, done) in pairs)
    peak_mb = statistics.median(done.peak_mb for _, (_, done) in pairs)
    yield Row("-p: exec to first byte / import httpx2", first_s / bare_s, 3, "x")
    yield Row("-p: exec to exit / import httpx2", exit_s / bare_s, 3.3, "x")
    yield Row("-p: exec to exit / exec to first byte", exit_s / first_s, 1.12, "x")
    yield Row("-p: peak memory", peak_mb, 65, "MB")


def turns(environment: dict[str, str], slower: float) -> Iterator[Row]:
    """Measure the cost of a read and a command from the end of a reply to the next request."""
    Path(environment["HOME"], "a.txt").write_text("one line\n")
    bare_s = statistics.median(
        until_exit([sys.executable, "-c", "pass"], environment) for _ in range(ROUNDS)
    )
    read_s = _turn_s(environment, lambda: reply(tool_use("read", {"path": "a.txt"})))
    bash_s = _turn_s(environment, lambda: reply(tool_use("bash", {"command": "true"})))
    yield Row("read turn / python -c pass", read_s / bare_s, 0.5, "x")
    yield Row("read turn", read_s * 1000, 8 * slower, "ms")
    with own_bubblewrap() as prefix:
        beside_s = read_s + bare_ms(prefix) / 1000 + 0.005 * slower
    turn = reply(tool_use("read", {"path": "a.txt"}))
    _, done = _session(environment, *[turn] * 50, reply("done"))
    yield Row("50 read turns: peak memory", done.peak_mb, 90, "MB")
    yield Row("bash turn / (read turn + its bwrap + 5 ms)", bash_s / beside_s, 1, "x")
    naps = [tool_use("bash", {"command": "sleep 0.5"}) for _ in range(4)]
    warm = [reply(tool_use("bash", {"command": "true"})) for _ in range(3)]
    api, _ = _session(environment, *warm, reply(*naps), reply("done"))
    yield Row("four `sleep 0.5` in one reply", [*own_s(api.requests)][-1], 0.5 + 0.06 * slower, "s")
    first_s = _first_s(environment, naps, Path(environment["HOME"]))
    yield Row("four `sleep 0.5` in the first reply", first_s, 0.5 + 0.1 * slower, "s")


def in_repository(environment: dict[str, str], slower: float) -> Iterator[Row]:
    """Measure in an empty folder, and in a repository with ten skills and two MCP servers.

    The servers start after the CPU was measured: theirs would be counted too.
    """
    home = Path(environment["HOME"])
    empty, repository = home / "empty", home / "repository"
    empty.mkdir()
    make_repository(repository)
    for folder in (empty, repository):
        for name in "abcd":
            (folder / f"{name}.txt").write_text("one line\n")
        runs = [_session(environment, reply("done"), folder=folder)[1] for _ in range(ROUNDS)]
        cpu_s = statistics.median(run.cpu_s for run in runs)
        yield Row(f"-p: CPU, {folder.name}", cpu_s, 0.45 * slower, "s")
    bash = reply(tool_use("bash", {"command": "true"}))
    empty_s = _turn_s(environment, lambda: bash, empty)
    yield Row("bash turn, empty", empty_s * 1000, 20 * slower, "ms")
    reads = [tool_use("read", {"path": f"{name}.txt"}) for name in "abcd"]
    first_s = _first_s(environment, reads, empty)
    yield Row("four reads in the first reply, empty", first_s * 1000, 40 * slower, "ms")
    add_extensions(home)
    there_s = _turn_s(environment, lambda: bash, repository)
    yield Row("bash turn, repository", there_s * 1000, empty_s * 1000 + slower, "ms")
    first_s = _first_s(environment, reads, repository)
    yield Row("four reads in the first reply, repository", first_s * 1000, 40 * slower, "ms")


def paced(environment: dict[str, str], slower: float) -> Iterator[Row]:
    """Stream 200 kB in 20 s to a terminal, as a model would."""
    gate = Gate()
    answer = (TEXT * (PACED_CHARS // len(TEXT) + 1))[:PACED_CHARS] + f"\n\n{END}"
    with serve_in_thread(reply(answer, chunk_chars=DELTA_CHARS, gate=gate)) as api:
        more = environment | {"ANTHROPIC_BASE_URL": api.base_url}
        with Terminal(COMMAND, **more) as terminal:
            terminal.until("? or /help")
            terminal.until_prompt()
            _settle(terminal.child.pid)
            idle_s = _cpu_s(terminal.child.pid)
            time.sleep(IDLE_S)
            idle_s = _cpu_s(terminal.child.pid) - idle_s
            before_s, before = _cpu_s(terminal.child.pid), len(terminal.bytes)
            terminal.send("go\r")
            threading.Thread(target=_open, args=(gate,), daemon=True).start()
            terminal.until(lambda: END.encode() in terminal.bytes[-4_000:])
            used_s = _cpu_s(terminal.child.pid) - before_s
            written_mb = (len(terminal.bytes) - before) / 1e6
    yield Row(f"idle for {IDLE_S} s: CPU", idle_s / IDLE_S * 100, 0.5, "%")
    yield Row("200 kB in 20 s: CPU", used_s, 1.5 * slower, "s")
    yield Row("200 kB in 20 s: written to the terminal", written_mb, 0.5, "MB")


def texts(_environment: dict[str, str], slower: float) -> Iterator[Row]:
    """Measure a long answer to a pipe, and Markdown beside the program."""
    begin_s, half_s, whole_s = (
        min(answer_cpu_s(chars) for _ in range(3)) for chars in (0, ANSWER_CHARS, 2 * ANSWER_CHARS)
    )
    growth = (whole_s - begin_s) / (half_s - begin_s)
    yield Row("CPU of twice the answer / of the answer", growth, 2.3, "x")
    markdown_cost(mixed(20_000))  # imports
    seconds, _ = markdown_cost(mixed(MARKDOWN_CHARS))
    yield Row("1 MB of mixed Markdown: CPU", seconds, 2 * slower, "s")


def supervised(_environment: dict[str, str], _slower: float) -> Iterator[Row]:
    """Count the starts of a command whose end is not noticed."""
    hung, _each_ms = hangs()
    yield Row(f"{STARTS:,} starts of `/bin/true`: hangs", hung, 0, "")


def main() -> int:
    """Print each row as soon as it is measured; return 1 if one is missed or has no figure."""
    begun_s = time.monotonic()
    verdicts: Counter[str] = Counter()
    slowness: list[float] = []
    print(f"{'row':<44} {'measured':>11} {'target':>11}  verdict")
    for measure in (starts, one_shot, turns, in_repository, texts, paced, supervised):
        with empty_home() as environment:
            environment["TERM"] = "xterm-256color"
            slower = importing_s(environment, ROUNDS) / IMPORT_S
            slowness.append(slower)
            try:
                for row in measure(environment, slower):
                    print(row, flush=True)
                    verdicts[row.verdict] += 1
            except (AssertionError, OSError, subprocess.SubprocessError) as error:
                print(f"{measure.__name__}: not measured further: {error}", flush=True)
                verdicts["MISSED"] += 1
    print(
        f"this machine takes {min(slowness):.2f} to {max(slowness):.2f} times as long as the one on"
        " which the targets in seconds were set; they are multiplied by that"
    )
    print(
        f"{verdicts['met']} met, {verdicts['near']} near (up to 20 % over the target),"
        f" {verdicts['MISSED']} missed, in {time.monotonic() - begun_s:.0f} s"
    )
    return 1 if verdicts["MISSED"] else 0


def _median(found: list[Start], time_of: Callable[[Start], float]) -> float:
    return statistics.median(map(time_of, found))


def _visible(found: Start) -> float:
    return found.visible_s


def _echoed(found: Start) -> float:
    return found.echoed_s


def _session(
    environment: dict[str, str], *script: Reply, folder: Path | None = None
) -> tuple[FakeMessagesApi, Finished]:
    with serve_in_thread(*script) as api:
        more = environment | {"ANTHROPIC_BASE_URL": api.base_url}
        words = ["-p", "go", "--permission-mode", "yolo"]
        done = run(words, more, str(folder or environment["HOME"]))
        return api, done


def _turn_s(
    environment: dict[str, str], turn: Callable[[], Reply], folder: Path | None = None
) -> float:
    """Return the median time from the end of a reply to the next request, after the first ten."""
    script = [turn() for _ in range(TURNS + 10)]
    api, _ = _session(environment, *script, reply("done"), folder=folder)
    return statistics.median(own_s(api.requests[10:]))


def _first_s(environment: dict[str, str], calls: Sequence[Payload], folder: Path) -> float:
    """Return the median time of *calls* in the first reply of a process."""
    found: list[float] = []
    for _ in range(ROUNDS):
        gate = Gate()
        threading.Thread(target=_think, args=(gate,), daemon=True).start()
        held = reply(*calls, gate=gate, hold_at=0)
        api, _ = _session(environment, held, reply("done"), folder=folder)
        found += own_s(api.requests)
    return statistics.median(found)


def _think(gate: Gate) -> None:
    gate.reached.wait()
    time.sleep(MODEL_S)
    gate.open()


def _open(gate: Gate) -> None:
    deltas = PACED_CHARS // DELTA_CHARS + 100
    begun_s, opened = time.monotonic(), 0
    while opened < deltas:
        due = min(deltas, int((time.monotonic() - begun_s) / PACED_S * deltas) + 1)
        gate.open(due - opened)
        opened = due
        time.sleep(0.002)


def _settle(pid: int) -> None:
    """Wait until the process has loaded everything: from a disk, that takes longer."""
    deadline = time.monotonic() + SETTLED_MAX_S
    used_s = 0.0
    while used_s < (now_s := _cpu_s(pid)) - 0.01 and time.monotonic() < deadline:
        used_s = now_s
        time.sleep(SETTLED_S)


def _cpu_s(pid: int) -> float:
    """Return the processor time the process has used, in all its threads; Linux."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    sys.exit(main())
