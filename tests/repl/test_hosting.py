"""What Ctrl-C interrupts: an open question, or the run around it."""

import asyncio
import os
import signal

from agent_cli.contracts.messages import UserMessage
from agent_cli.repl.hosting import Interrupts, farewell
from tests.repl.scripted_app import Application


async def test_ctrl_c_ends_an_open_question_before_the_run() -> None:
    """If a server asks during a run, Ctrl-C is for its question first, and then for the run."""
    heard: asyncio.Queue[str] = asyncio.Queue()
    interrupts = Interrupts(lambda stop: heard.put_nowait(f"question: {stop.__name__}"))

    with interrupts.installed(), interrupts.stopping(lambda: heard.put_nowait("run")):
        with interrupts.asking():
            os.kill(os.getpid(), signal.SIGINT)
            first = await heard.get()
        os.kill(os.getpid(), signal.SIGINT)
        second = await heard.get()

    assert (first, second) == ("question: KeyboardInterrupt", "run")


def test_farewell_says_that_the_end_of_a_session_was_not_saved() -> None:
    """On a full disk: resumed, the session ends earlier than it did."""
    app = Application()
    app.agent.conversation.begin(UserMessage.of("go"))
    app.sessions.is_behind = True

    assert farewell(app).splitlines()[-2:] == [
        "to resume what was saved of this session; its end was not:",
        "  agent-cli --resume s-1",
    ]
    app.launcher.close()
