"""Run the user's own commands, typed behind `!`.

Their output is shown as it comes, and goes with the next message. Full-screen programs get the
terminal; the model learns only their exit code. They are known by name, because a command whose
output is already captured cannot be moved to the terminal later.
"""

import asyncio
import os
import re
import shlex
import signal
from asyncio.subprocess import Process
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.messages import UserMessage
from agent_cli.core.conversation import Conversation
from agent_cli.core.message_queue import OwnOutput, as_block, keep_own_output, with_outputs
from agent_cli.system.launching import KeeperLink, Launcher, Order, Watched, on_terminal
from agent_cli.system.orphans import shell_code
from agent_cli.system.programs import users_path
from agent_cli.system.sanitize import overwritten, reveal
from agent_cli.terminal.writer import OutputLines

Lend: TypeAlias = Callable[[], AbstractAsyncContextManager[None]]

_OFFERED_CHARS_MAX: Final = 20_000
_HALF_BYTES_MAX: Final = 500_000
_CHUNK_BYTES: Final = 64 * 1024
_END_LIMIT_S: Final = 2.0
_NO_SHELLS: Final = frozenset({"false", "nologin"})
# These shells wait for a program that handles Ctrl-C; a plain sh would die and leave it running.
_PATIENT_SHELLS: Final = frozenset({"bash", "zsh", "fish"})
# They change the shell that runs them, and nothing else.
_FOR_ONE_LINE: Final = re.compile(r"(?:cd|pushd|export|alias|source|\.)(?:\s[^;&|<>\n]*)?")
_ONE_LINE_NOTE: Final = "[for this line only: each ! has its own shell; join commands with &&]"
_WAIT_ON_CTRL_C: Final = "trap '[ $? -ne 130 ] || exit 130' INT\n"


class OwnCommands:
    """Runs shell escapes, and offers their output to the next message."""

    def __init__(
        self,
        output: OutputLines,
        conversation: Callable[[], Conversation],
        lend_terminal: Lend | None = None,
        *,
        folder: Path = Path(),
        launcher: Launcher | None = None,
        kept: Callable[[str], Watched | None] = lambda _command: None,
    ) -> None:
        """Keep no output yet.

        Args:
            output: Receives the output.
            conversation: Returns the one that the next message goes to.
            lend_terminal: Gives the terminal to a program for a while.
            folder: Where commands run.
            launcher: Starts commands, which end with this program; one of its own by default.
            kept: Returns how to keep what a command names, for an undo; blocks.
        """
        self._output = output
        self._folder = folder.absolute()
        self._launcher = launcher or Launcher()
        self._kept = kept
        self._conversation = conversation
        self._lend_terminal = lend_terminal
        self._offered: list[str] = []

    async def run(self, line: str, cancel: CancelToken) -> None:
        """Run a line with `!`, or with `!!` hidden from the model.

        Raises:
            UsageError: It has no command, or the command cannot be run.
            Aborted: *cancel* was set.
        """
        command = line.lstrip("!").strip()
        if not command:
            raise UsageError("type a command after the !")
        if not await asyncio.to_thread(self._folder.is_dir):
            gone = f"the workspace {reveal(str(self._folder))} is gone, moved or deleted"
            raise UsageError(f"{gone}: start agent-cli in a folder that is there")
        show = partial(self._output.foreign, style="dim")
        if self._lend_terminal and needs_terminal(command, os.environ):
            async with self._lend_terminal():
                code = await _on_terminal(command, self._folder, cancel)
            show(f"[{command}: exit code {code}]")
            if not line.startswith("!!"):
                note = f"[on the terminal, output not recorded; exit code {code}]"
                self.offer(_as_context(command, "", note))
            return
        output = _Output(show)
        watched = await asyncio.to_thread(self._kept, command)
        link, reading = await _launched(self._launcher, command, self._folder, watched)
        ending = "[interrupted]"
        try:
            code = await _exit_code(link, reading, output, cancel)
            ending = f"[exit code {code}]" if code else ""
        finally:
            output.show_rest()
            if not line.startswith("!!"):
                self.offer(_as_context(command, output.text, ending))
        if not ending and _FOR_ONE_LINE.fullmatch(command):
            ending = _ONE_LINE_NOTE
        if ending:
            show(ending)

    def offer(self, output: OwnOutput) -> None:
        """Let *output* go with the next message, of another program if need be."""
        if not keep_own_output(self._conversation(), output):
            self._offered.append(output.text)

    def offered_with(self, message: UserMessage) -> UserMessage:
        """Return *message* with the waiting output before it."""
        offered, self._offered = self._offered, []
        message = with_outputs(self._conversation(), message)
        return UserMessage((*as_block(offered), *message.content))


class _Output:
    """The output of a command; the middle is left out if it is too long.

    A line is shown when it is complete, as long as it belongs to the first half.
    """

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._kept = bytearray()
        self._shown_bytes = 0
        self._left_out_bytes = 0

    def add(self, chunk: bytes) -> None:
        """Add a piece of output, and show the lines it completes."""
        was_half = len(self._kept) > _HALF_BYTES_MAX
        self._kept += chunk
        if (too_many := len(self._kept) - 2 * _HALF_BYTES_MAX) > 0:
            del self._kept[_HALF_BYTES_MAX : _HALF_BYTES_MAX + too_many]
            self._left_out_bytes += too_many
        end = max(self._shown_bytes, self._kept.rfind(b"\n", self._shown_bytes, _HALF_BYTES_MAX))
        # Blank lines are held back until text follows: those at the end are not shown.
        if lines := self._kept[self._shown_bytes : end].rstrip(b"\n"):
            self._show(_lines(lines))
            self._shown_bytes += len(lines) + 1
        if len(self._kept) > _HALF_BYTES_MAX and not was_half:
            self._show("[much output: the rest is shown when the command has ended]")

    def show_rest(self) -> None:
        """Show the rest: the output is complete."""
        if rest := _lines(self._whole()[self._shown_bytes :]):
            self._show(rest)

    @property
    def text(self) -> str:
        """The kept output, without trailing newlines."""
        return _lines(self._whole())

    def _whole(self) -> bytes:
        if not self._left_out_bytes:
            return bytes(self._kept)
        note = f"\n[{self._left_out_bytes:,} bytes left out here]\n".encode()
        return bytes(self._kept[:_HALF_BYTES_MAX]) + note + self._kept[_HALF_BYTES_MAX:]


def _lines(output: bytes | bytearray) -> str:
    """Return *output* as text; of an overwritten line, such as a progress bar, the final state."""
    return overwritten(output.decode(errors="replace").rstrip("\n"))


def user_shell(environment: Mapping[str, str]) -> str:
    """Return the user's shell; /bin/sh if it is unknown."""
    shell = environment.get("SHELL", "")
    usable = Path(shell).name not in _NO_SHELLS and os.access(shell, os.X_OK)
    return shell if Path(shell).is_absolute() and usable else "/bin/sh"


async def _on_terminal(command: str, folder: Path, cancel: CancelToken) -> int:
    """Run *command* on the terminal and return its exit code.

    It stays in our process group, so that Ctrl-Z stops both, like one job of a shell. If this
    program is killed, it is hung up.
    """
    waits = Path(user_shell(os.environ)).resolve().name in _PATIENT_SHELLS
    command = command if waits else _WAIT_ON_CTRL_C + command
    process = await _started_here(command, folder)
    try:
        async with cancel.scope():
            return shell_code(await process.wait())
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()  # its keeper kills what does not end


async def _started_here(command: str, folder: Path) -> Process:
    """Start *command* in the user's shell, on the terminal."""
    try:
        words = on_terminal([user_shell(os.environ), "-c", command])
        return await asyncio.create_subprocess_exec(*words, cwd=folder, env=_environment())
    except (OSError, ValueError) as error:
        raise _refused(error) from error


async def _launched(
    launcher: Launcher, command: str, folder: Path, watched: Watched | None
) -> tuple[KeeperLink, int]:
    """Start *command* in the user's shell; return the link to its keeper, and its output.

    If this program dies, the command does too. What it leaves in the background when it has ended
    runs on, as in a shell.
    """
    try:
        order = Order(
            arguments=[user_shell(os.environ), "-c", command],
            cwd=str(folder),
            environment=_environment(),
            spares=True,
            watched=watched,
        )
        link, reading = await asyncio.to_thread(launcher.launch, order)
    except (OSError, ValueError) as error:  # too long, contains NUL, or its folder is gone
        raise _refused(error) from error
    link.socket.setblocking(False)
    try:
        await link.pid()
    except OSError as error:
        os.close(reading)
        raise _refused(error) from error
    return link, reading


def _environment() -> dict[str, str]:
    return {**os.environ, "PATH": users_path()}


def _refused(reason: object) -> UsageError:
    return UsageError(f"the command cannot be run: {reason}")


async def _exit_code(link: KeeperLink, reading: int, output: _Output, cancel: CancelToken) -> int:
    """Copy the output to *output* until the command ends; a cancel ends all its processes."""
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    pipe = os.fdopen(reading, "rb", buffering=0)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, pipe)
    try:
        async with cancel.scope():
            while chunk := await reader.read(_CHUNK_BYTES):
                output.add(chunk)
            await link.until(lambda: link.found("status") is not None)
    except BaseException:
        # The shell may have ended, but not the processes it left.
        await asyncio.to_thread(link.end, _END_LIMIT_S)
        raise
    finally:
        transport.close()
    link.spare()
    ended = link.found("status")
    return int(ended["status"]) if ended else shell_code(-signal.SIGKILL)


def _as_context(command: str, output: str, ending: str) -> OwnOutput:
    """Return what the model is told about a command."""
    if len(output) > _OFFERED_CHARS_MAX:
        half = _OFFERED_CHARS_MAX // 2
        output = f"{output[:half]}\n[cut here]\n{output[-half:]}"
    result = "\n".join(filter(None, (output, ending)))
    return OwnOutput(command, f"I ran this command:\n$ {command}\n{result}\n")


_FULL_SCREEN: Final = (
    *("vi", "vim", "vimdiff", "view", "nvim", "nano", "pico", "emacs", "micro", "hx", "helix"),
    *("kak", "joe", "jed", "mcedit", "ed", "ex", "less", "more", "most", "man", "info"),
    *("top", "htop", "btop", "atop", "iotop", "nvtop", "watch", "glances", "mc", "ranger", "nnn"),
    *("lf", "yazi", "vifm", "ncdu", "tig", "lazygit", "gitui", "k9s", "lazydocker", "fzf"),
    *("gdb", "lldb", "tmux", "screen", "zellij", "dialog", "whiptail"),
)
# These ask for a password on the terminal, wherever their output goes.
_ASKING: Final = (
    *("sudo", "doas", "su", "ssh", "mosh", "telnet", "sftp", "ftp", "passwd", "visudo", "vipw"),
)
# These open a prompt unless they are given something to run.
_SHELLS: Final = (
    *("bash", "zsh", "sh", "fish", "python", "python3", "ipython", "node", "irb", "ghci"),
    *("psql", "mysql", "sqlite3", "redis-cli", "bc"),
)
_WRAPPERS: Final = ("command", "exec", "env", "time", "nice", "nohup")
_VARIABLES: Final = ("VISUAL", "EDITOR", "PAGER", "MANPAGER")
_SEPARATORS: Final = re.compile(r"[;&|()<>]+")
_ASSIGNMENT: Final = re.compile(r"\w+=")
_GIT_OPTIONS: Final = {
    "rebase": ("-i", "--interactive"),
    "add": ("-i", "-p", "-e", "--interactive", "--patch", "--edit"),
    **dict.fromkeys(("checkout", "restore", "reset", "stash"), ("-p", "--patch")),
}
_GIT_MESSAGES: Final = ("-m", "-F", "-C", "--message", "--file", "--no-edit", "--fixup", "--reuse")


def needs_terminal(command: str, environment: Mapping[str, str]) -> bool:
    """Return whether a part of *command* is a full-screen program or asks on the terminal."""
    own = {
        Path(first).name for name in _VARIABLES for first in environment.get(name, "").split()[:1]
    }
    return any(_needs_terminal(words, end, own) for words, end in _parts(command))


def _needs_terminal(words: Sequence[str], end: str, own: set[str]) -> bool:
    """Return whether the simple command *words*, followed by the operator *end*, does."""
    name, arguments = Path(words[0]).name, words[1:]
    if name in _ASKING:
        return True
    if end.startswith(("|", ">")):  # its output is not a terminal, which it notices
        return False
    if name in _SHELLS:
        return not arguments
    if name == "git":
        return _opens_editor(arguments)
    return name in _FULL_SCREEN or name in own or (name == "crontab" and "-e" in arguments)


def _opens_editor(arguments: Sequence[str]) -> bool:
    """Return whether git with these *arguments* opens an editor or asks."""
    subcommand = next((word for word in arguments if not word.startswith("-")), "")
    if subcommand == "commit":
        return not any(re.match(r"-[a-z]*[mFC]", word) for word in arguments) and not any(
            word.startswith(_GIT_MESSAGES) for word in arguments
        )
    return any(word in _GIT_OPTIONS.get(subcommand, ()) for word in arguments)


def _parts(command: str) -> Iterator[tuple[list[str], str]]:
    """Yield the words of each simple command, and the operator behind them."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    try:
        for token in [*lexer, ";"]:
            if not _SEPARATORS.fullmatch(token):
                words.append(token)
                continue
            while words and (words[0] in _WRAPPERS or _ASSIGNMENT.match(words[0])):
                words.pop(0)
            if words:
                yield words, token
            words = []
    except ValueError:  # an unclosed quote: the shell reports it
        return
