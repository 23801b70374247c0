"""Input typed, dropped and pasted into the real program, and the prompt that results."""

import base64
import io
import os
import signal
from pathlib import Path

import pytest
from PIL import Image as Pillow

from agent_cli.contracts.timeline import Block
from tests.e2e.program import AGENT_CLI, environment, in_terminal
from tests.messages_api import FakeMessagesApi, Gate, reply, serve_in_thread
from tests.repl.terminal import Terminal

CTRL_V, CTRL_C, UP, ENTER = "\x16", "\x03", "\x1b[A", "\r"
PASTE = "\x1b[200~{}\x1b[201~"


def picture(width: int, height: int) -> bytes:
    buffer = io.BytesIO()
    Pillow.new("RGB", (width, height), "navy").save(buffer, "PNG")
    return buffer.getvalue()


def program_on_path(folder: Path, name: str, script: str) -> str:
    """Write a shell script called *name* into *folder* and return the PATH that finds it first.

    The folder is outside the workspace, where we would start no program.
    """
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


def said(api: FakeMessagesApi, number: int) -> list[Block]:
    """Return the content of the last message of request *number*."""
    content: list[Block] = api.requests[number].body["messages"][-1]["content"]
    return content


def sizes(content: list[Block]) -> list[tuple[int, int]]:
    """Return the sizes of the images in *content*."""
    sources = [block["source"] for block in content if block["type"] == "image"]
    data = [str(source["data"]) for source in sources if isinstance(source, dict)]
    return [Pillow.open(io.BytesIO(base64.b64decode(each))).size for each in data]


def test_images_can_be_dropped_pasted_and_named_in_a_prompt(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """S6: the input has a mark, the request an image that is small enough; names complete."""
    Path("My shot.png").write_bytes(picture(8, 6))
    Path("large.png").write_bytes(picture(4_000, 1_000))
    Path("clip.png").write_bytes(picture(5, 5))
    path = program_on_path(
        tmp_path_factory.mktemp("bin"), "xclip", f"cat '{Path('clip.png').absolute()}'"
    )
    with (
        serve_in_thread(reply("Seen."), reply("Again.")) as api,
        Terminal(AGENT_CLI, **environment(api, {"PATH": path, "DISPLAY": ":1"})) as terminal,
    ):
        terminal.until("? or /help")
        terminal.send(PASTE.format(str(Path("My shot.png").absolute()).replace(" ", r"\ ")))
        terminal.until("you> [image 1: My shot.png 8×6]")
        terminal.send(CTRL_V)
        terminal.until("[image 2: clipboard 5×5]")
        terminal.send(" gone\x17and @lar")
        terminal.until("large.png")
        terminal.send("\t ?" + ENTER)
        terminal.until("Seen.")
        terminal.until_prompt()
        terminal.send(UP)
        terminal.until(lambda: terminal.last_row != "you>")
        terminal.send(ENTER)
        terminal.until("Again.")

        first, second = said(api, 0), said(api, 1)
        assert api.refusals == []
    marks = (
        "[image 1: My shot.png 8×6]",
        "[image 2: clipboard 5×5]",
        "[image 3: large.png 4000×1000]",
    )
    text = "{}{} and {} ?".format(*marks)
    assert first[-1]["text"] == text
    assert sizes(first) == [(8, 6), (5, 5), (2_000, 500)]
    assert sizes(second) == [(8, 6), (2_000, 500)]


def test_unsent_draft_is_offered_in_the_next_session() -> None:
    """S6: after its window was closed; the next session offers the draft with Arrow-up."""
    with serve_in_thread() as api:
        with Terminal(AGENT_CLI, **environment(api, {})) as terminal:
            terminal.until("? or /help")
            terminal.send(PASTE.format("one\n" * 50) + "not sent yet")
            terminal.until("[paste #1: 50 lines]not sent yet")
            terminal.child.kill(signal.SIGHUP)
            assert terminal.exit_code() == 128 + signal.SIGHUP
        with Terminal(AGENT_CLI, **environment(api, {})) as terminal:
            terminal.until("? or /help")
            terminal.send(UP)
            terminal.until("not sent yet")


@pytest.mark.parametrize("is_killed", [True, False])
def test_command_typed_ahead_beside_a_message_does_not_become_its_text(*, is_killed: bool) -> None:
    """Enter would have run the message as a line of the shell."""
    os.mkfifo("waits")
    with serve_in_thread(reply("Hello."), reply("Well.")) as api:
        with in_terminal(api) as terminal:
            terminal.until_prompt()
            terminal.send("hi\r")
            terminal.until("Hello.")
            terminal.send("!cat waits\r")
            terminal.until("Ctrl-C stops")
            terminal.send("!echo a\r")
            terminal.until("1 queued")
            terminal.send("use tabs\r")
            terminal.until("2 queued")
            if is_killed:
                terminal.child.kill(signal.SIGKILL)
                terminal.exit_code()
            else:
                terminal.send("\x1b")
                terminal.until("not run: !echo a; Arrow-up has it")
                terminal.send(ENTER)
                terminal.until("Well.")
        if is_killed:
            with in_terminal(api, "-c") as terminal:
                terminal.until("not run: !echo a; Arrow-up has it")
                terminal.until("1 queued message was not sent before the program ended")
                terminal.send(ENTER)
                terminal.until("Well.")

    assert said(api, 1)[-1]["text"] == "use tabs"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_queued_messages_are_in_the_input_again_after_a_kill(number: signal.Signals) -> None:
    """A message that the model has not got is not lost, one for the end of the run neither."""
    gate = Gate()
    held = reply("Working on it.", gate=gate, chunk_chars=7)
    with serve_in_thread(held, reply("Both.")) as api:
        with in_terminal(api) as killed:
            killed.until_prompt()
            killed.send("go\r")
            gate.reached.wait()
            killed.send("use tabs\r")
            killed.until("after this step: use tabs")
            killed.send("then commit\x1b\r")
            killed.until("when done: then commit")
            killed.child.kill(number)
            killed.exit_code()
        gate.open()
        with in_terminal(api, "-c") as terminal:
            terminal.until("2 queued messages were not sent before the program ended")
            terminal.until("then commit")
            terminal.send(ENTER)
            terminal.until("Both.")
            terminal.until_prompt()
        sent = said(api, 1)
        with in_terminal(api, "-c") as again:
            again.until("Both.")
            again.until_prompt()
            assert "queued messages were" not in again.text

    assert sent[-1]["text"] == "use tabs\n\nthen commit"
    assert len(api.requests) == 2
