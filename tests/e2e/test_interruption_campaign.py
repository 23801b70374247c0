"""Esc at 200 random moments in the program itself: everything shown is in the next request."""

import json
import random
import re
from functools import partial
from typing import Final

import pytest

from tests.e2e.program import in_terminal
from tests.messages_api import Gate, Reply, reply, serve_in_thread, tool_use
from tests.messages_api.received import ReceivedRequest
from tests.repl.terminal import Terminal

MOMENTS: Final = 200
# A screen of many rows takes long to search, so that a session has only some of the moments.
SESSION_MOMENTS: Final = 20
WORDS: Final = 40
ESCAPE: Final = "\x1b"


def command(moment: int) -> str:
    lines = f"for i in $(seq {WORDS}); do printf 'm{moment:03}x%03d.\\n' $i; sleep 0.01; done"
    return f"{lines}; sleep 60"


def text(moment: int) -> str:
    return " ".join(f"m{moment:03}x{number:03}." for number in range(1, WORDS + 1))


def shown(terminal: Terminal, moment: int) -> set[str]:
    """Return the words of *moment* that were ever on the screen."""
    return set(re.findall(rf"m{moment:03}x\d{{3}}\.", terminal.bytes.decode(errors="replace")))


def _has(gates: list[Gate], count: int) -> bool:
    return len(gates) >= count


def _has_come_to(terminal: Terminal, moment: int, word: str) -> bool:
    return max(shown(terminal, moment), default="") >= word or "allow?" in terminal.text


def _has_stopped(terminal: Terminal, count: int) -> bool:
    return terminal.text.count("interrupted") >= count


def interrupted_session(dice: random.Random, first: int) -> tuple[int, list[str]]:
    """Interrupt one session at several moments.

    Returns:
        The number of words that were shown, and those that the next request lacks.
    """
    gates: list[Gate] = []

    def answer(_request: ReceivedRequest) -> Reply:
        moment = first + len(gates)
        gates.append(Gate())
        if moment % 2:
            return reply(tool_use("bash", {"command": command(moment)}))
        return reply(text(moment), gate=gates[-1], chunk_chars=len("m000x000. "))

    seen = 0
    lost: list[str] = []
    # A mode that asks tries the command read-only first.
    mode = "ask" if (first // SESSION_MOMENTS) % 2 else "yolo"
    with (
        serve_in_thread(answer=answer) as api,
        in_terminal(api, "--permission-mode", mode) as terminal,
    ):
        terminal.until_prompt()
        for moment in range(first, first + SESSION_MOMENTS + 1):
            count = moment - first
            terminal.send(f"go {moment}\r")
            terminal.until(partial(_has, gates, count + 1))
            sent = json.dumps(api.requests[-1].body["messages"])
            if count:
                words = shown(terminal, moment - 1)
                seen += len(words)
                lost += sorted(word for word in words if word not in sent)
            passed = dice.randint(2, WORDS - 1)
            gates[count].open(passed)
            # The rest, up to *passed*, races with the key.
            last = dice.randint(1, passed)
            word = f"m{moment:03}x{last:03}."
            terminal.until(partial(_has_come_to, terminal, moment, word))
            if "allow?" in terminal.text:
                pytest.skip("no sandbox works here")
            terminal.send(ESCAPE)
            terminal.until(partial(_has_stopped, terminal, count + 1))
            terminal.until_prompt()
            gates[count].open()
        assert api.refusals == []
    return seen, lost


@pytest.mark.slow
def test_everything_shown_at_200_random_moments_is_in_the_next_request(
    request: pytest.FixtureRequest,
) -> None:
    """Half of them in a reply that streams, half in a command, of these half tried read-only."""
    seed = int(request.config.getoption("--hypothesis-seed") or 1)
    dice = random.Random(seed)

    sessions = range(0, MOMENTS, SESSION_MOMENTS)
    results = [interrupted_session(dice, first) for first in sessions]

    lost = [word for _, words in results for word in words]
    seen = sum(count for count, _ in results)
    print(f"{MOMENTS} moments, seed {seed}: {seen:,} words shown, {len(lost)} lost")
    assert lost == []
