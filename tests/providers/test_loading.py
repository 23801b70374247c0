"""Loading the client in a thread, in processes that have not imported it yet."""

import subprocess
import sys

PRELOAD = """
import asyncio, gc, sys, threading
from agent_cli.providers.anthropic.messages import AnthropicMessages
from agent_cli.providers.anthropic.connection import Connection

frozen = gc.get_freeze_count()  # not 0 in Python 3.12
provider = AnthropicMessages(Connection(api_key="k"))
provider.preload()
provider.preload()
print("httpx2" in sys.modules and threading.active_count() == 1)
asyncio.run({then})
print("httpx2" in sys.modules, gc.isenabled(), gc.get_freeze_count() - frozen)
"""


def run(then: str) -> str:
    """Return the output of a new process that preloads, and then runs *then*."""
    done = subprocess.run(
        [sys.executable, "-c", PRELOAD.format(then=then)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout


def test_preload_does_not_block_and_leaves_the_garbage_collector_on() -> None:
    """`preload` returns while the thread imports; a second call does nothing more.

    No object of the program that uses the library is exempt from collections afterwards.
    """
    assert run("provider._clients.get()") == "False\nTrue True 0\n"


def test_program_can_exit_while_the_client_loads() -> None:
    """The thread is a daemon, and closing does not wait for it."""
    assert run("provider.aclose()").startswith("False\n")
