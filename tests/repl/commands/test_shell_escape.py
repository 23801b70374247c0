"""The shell escape, in real shells."""

import asyncio
import contextlib
import io
import os
from pathlib import Path

import pytest

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import Aborted, UsageError
from agent_cli.contracts.messages import UserMessage
from agent_cli.core.conversation import Conversation
from agent_cli.repl.own_commands import Lend, OwnCommands, user_shell
from agent_cli.terminal.writer import Writer
from tests.tables import each_row
from tests.waiting import is_alive


async def test_cancelling_a_command_ends_the_background_job_of_its_finished_shell(
    tmp_path: Path,
) -> None:
    """The job keeps the output open, so the command waits for it until Ctrl-C."""
    fifo, shell = tmp_path / "fifo", tmp_path / "shell"
    os.mkfifo(fifo)
    command = f"!sleep 300 > {fifo} & echo $$ > {shell}.new; mv {shell}.new {shell}"
    cancel = CancelToken()

    async with asyncio.timeout(60):
        running = asyncio.create_task(own_commands(io.StringIO()).run(command, cancel))
        job = await asyncio.to_thread(fifo.open, "rb")
        while not shell.exists() or is_alive(int(shell.read_text())):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        cancel.cancel()
        with pytest.raises(Aborted):
            await running
        with job:  # ends once no process writes to it any more
            assert await asyncio.to_thread(job.read) == b""


async def test_endless_output_is_cut_to_its_beginning_and_end() -> None:
    """Memory and screen hold at most a megabyte of it, the model gets less."""
    screen = io.StringIO()
    commands = own_commands(screen)

    await commands.run(
        "!echo first; head -c 5000000 /dev/zero | tr '\\0' x; echo; echo last", CancelToken()
    )

    shown = screen.getvalue()
    assert shown.lstrip().startswith("first")
    assert shown.rstrip().endswith("last")
    assert "first\n[much output: the rest is shown when the command has ended]\nx" in shown
    assert "[4,000,012 bytes left out here]" in shown
    assert len(shown) < 1_100_000
    assert len(commands.offered_with(UserMessage.of("why?")).text) < 21_000


async def test_output_is_shown_line_by_line_with_only_the_end_of_a_progress_bar(
    tmp_path: Path,
) -> None:
    """The model is offered the same output as shown, even if the command was stopped."""
    fifo, screen, cancel = tmp_path / "fifo", io.StringIO(), CancelToken()
    os.mkfifo(fifo)
    commands = own_commands(screen)
    command = f"cat {fifo}"

    async with asyncio.timeout(60):
        running = asyncio.create_task(commands.run(f"!{command}", cancel))
        job = await asyncio.to_thread(fifo.open, "wb", buffering=0)
        with job:
            for written, shown in (
                (b"one\n\n\x1b[31mtw", "one\n"),
                (b"o\x1b[m\r\n10%\r20%", "one\n\ntwo\n"),
                (b"\r\xe2\x88", "one\n\ntwo\n"),
                (b"\x9e\nlast\n\n", "one\n\ntwo\n∞\nlast\n"),
                (b"no end", "one\n\ntwo\n∞\nlast\n"),
                (b" yet\n?", "one\n\ntwo\n∞\nlast\n\nno end yet\n"),
            ):
                job.write(written)
                await _until_shown(screen, shown)
            cancel.cancel()
            with pytest.raises(Aborted):
                await running

    whole = "one\n\ntwo\n∞\nlast\n\nno end yet\n?\n"
    assert screen.getvalue() == whole
    offered = commands.offered_with(UserMessage.of("why?")).text
    assert offered.replace("\x1b[31m", "").replace("\x1b[m", "") == (
        f"I ran this command:\n$ {command}\n{whole}[interrupted]\n\nwhy?"
    )


async def test_silent_command_shows_nothing_and_empty_command_is_an_error() -> None:
    """Not even a blank row; and the model gets no notice about an empty command."""
    screen = io.StringIO()
    commands = own_commands(screen)

    await commands.run("!true", CancelToken())
    with pytest.raises(UsageError, match="type a command after the !"):
        await commands.run("!! ", CancelToken())

    assert screen.getvalue() == ""
    await commands.run("!!exit 3", CancelToken())
    assert screen.getvalue() == "[exit code 3]\n"
    assert commands.offered_with(UserMessage.of("hi")).text == "I ran this command:\n$ true\n\n\nhi"


async def test_change_of_the_shell_alone_is_said_to_end_with_its_line() -> None:
    """`!cd src` and then `!make` ran make in the workspace, without a word."""
    note = "[for this line only: each ! has its own shell; join commands with &&]\n"
    for line, shown in (("!cd /", note), ("!export A=1", note), ("!cd / && true", "")):
        screen = io.StringIO()

        await own_commands(screen).run(line, CancelToken())

        assert screen.getvalue() == shown


async def test_commands_run_in_the_workspace_also_on_the_terminal(tmp_path: Path) -> None:
    """The setting `working_directory` can name another one than that of this process."""
    screen, works = io.StringIO(), tmp_path / "works"
    works.mkdir()
    commands = own_commands(screen, contextlib.nullcontext, folder=works)

    await commands.run("!pwd", CancelToken())
    (works / "vi").write_text("#!/bin/sh\npwd > seen\n")
    (works / "vi").chmod(0o755)
    await commands.run("!./vi", CancelToken())

    assert screen.getvalue().startswith(f"{works}\n")
    assert (works / "seen").read_text() == f"{works}\n"


async def test_command_in_a_workspace_that_is_gone_says_so(tmp_path: Path) -> None:
    """It was `[Errno 2]`, and on the terminal with the words of Python's path."""
    gone = tmp_path / "gone"
    commands = own_commands(io.StringIO(), contextlib.nullcontext, folder=gone)

    for command in ("!ls", "!!ls", "!vim a"):
        with pytest.raises(UsageError) as refused:
            await commands.run(command, CancelToken())

        assert str(refused.value) == (
            f"the workspace {gone} is gone, moved or deleted: start agent-cli in a folder that is"
            " there"
        )


@each_row("command", ["echo a\0b", f"echo {'x' * 3_000_000}"], ids=["nul", "long"])
async def test_command_that_no_shell_accepts_is_a_usage_error(command: str) -> None:
    """A pasted NUL, or megabytes: this used to be a traceback in the log."""
    commands = own_commands(io.StringIO())

    with pytest.raises(UsageError, match="the command cannot be run: "):
        await commands.run(f"!{command}", CancelToken())

    assert commands.offered_with(UserMessage.of("hi")).text == "hi"


async def _until_shown(screen: io.StringIO, text: str) -> None:
    while screen.getvalue() != text:  # noqa: ASYNC110 - a stream tells nobody
        await asyncio.sleep(0.001)


def own_commands(
    screen: io.StringIO,
    lend_terminal: Lend | None = None,
    *,
    conversation: Conversation | None = None,
    folder: Path = Path(),
) -> OwnCommands:
    """Return commands of a user whose next message goes to *conversation*, by default a new one."""
    writer, of = Writer(screen, screen, color=False), conversation or Conversation()
    return OwnCommands(writer, lambda: of, lend_terminal, folder=folder)


async def test_command_runs_in_the_users_own_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It used to be /bin/sh, which lacks `[[` and the user's configuration."""
    shell, screen = tmp_path / "mysh", io.StringIO()
    shell.write_text('#!/bin/sh\necho "mysh ran: $2"\n')
    shell.chmod(0o755)
    monkeypatch.setenv("SHELL", str(shell))

    await own_commands(screen).run("!echo hi", CancelToken())

    assert screen.getvalue() == "mysh ran: echo hi\n"


@each_row("shell", ["", "mysh", "/usr/sbin/nologin", "/nowhere/zsh", "/etc/passwd"])
def test_unusable_login_shell_is_replaced_by_bin_sh(shell: str) -> None:
    """System accounts have such a shell."""
    assert user_shell({"SHELL": shell}) == "/bin/sh"


def conversed() -> Conversation:
    """Return a conversation of one message."""
    conversation = Conversation()
    conversation.begin(UserMessage.of("go"))
    return conversation


async def test_output_that_no_message_took_along_goes_with_the_next_program_s_message() -> None:
    """It was lost with the program. A second look at it sends it only once."""
    conversation = conversed()
    commands = own_commands(io.StringIO(), conversation=conversation)
    await commands.run("!echo one", CancelToken())
    await commands.run("!!echo hidden", CancelToken())

    # As the program does that opens the session again.
    opened = Conversation(conversation.prompts)
    commands = own_commands(io.StringIO(), conversation=opened)
    await commands.run("!echo two", CancelToken())
    opened = Conversation(opened.prompts)
    message = own_commands(io.StringIO(), conversation=opened).offered_with(UserMessage.of("hi"))

    both = "I ran this command:\n$ echo one\none\n\nI ran this command:\n$ echo two\ntwo\n\n"
    assert message.text == f"{both}hi"
    opened.begin(message)
    opened = Conversation(opened.prompts)
    again = own_commands(io.StringIO(), conversation=opened)
    assert again.offered_with(UserMessage.of("hi")).text == "hi"


async def test_same_output_as_that_of_an_earlier_message_is_sent_again() -> None:
    """What counts as taken along is what was said since."""
    conversation = conversed()
    commands = own_commands(io.StringIO(), conversation=conversation)
    await commands.run("!echo one", CancelToken())
    conversation.begin(commands.offered_with(UserMessage.of("hi")))
    await commands.run("!echo one", CancelToken())

    opened = Conversation(conversation.prompts)
    message = own_commands(io.StringIO(), conversation=opened).offered_with(UserMessage.of("hi"))

    assert message.text == "I ran this command:\n$ echo one\none\n\nhi"


async def test_rewind_sends_the_output_of_each_command_once() -> None:
    """The conversation is another one then, with the record of what waits."""
    current = [conversed()]
    screen = io.StringIO()
    writer = Writer(screen, screen, color=False)
    commands = OwnCommands(writer, lambda: current[0])
    await commands.run("!echo one", CancelToken())
    waiting = Conversation(current[0].prompts)
    taken = commands.offered_with(UserMessage.of("hi"))

    current[0] = waiting  # the message was taken back
    again = commands.offered_with(UserMessage.of("hi"))
    await commands.run("!echo two", CancelToken())
    current[0] = Conversation(current[0].prompts)

    assert again.content == taken.content
    assert commands.offered_with(UserMessage.of("hi")).text.count("$ echo two") == 1


async def test_command_before_the_first_message_makes_no_session() -> None:
    """`-c` would go on with nothing but a command, in place of the session before."""
    conversation = Conversation()

    await own_commands(io.StringIO(), conversation=conversation).run("!true", CancelToken())

    assert not conversation.prompts
