"""What a slash command is, what it may touch, and how it lets somebody choose."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Final, Protocol

from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.provider import Model
from agent_cli.core.conversation import Conversation
from agent_cli.repl.dialogue import Dialogue
from agent_cli.repl.ports import Application
from agent_cli.terminal.narration import one_line
from agent_cli.terminal.writer import Lines

LISTED_MAX: Final = 10
"""Rows of a list with numbers."""


class Controls(Protocol):
    """What only a screen can do."""

    @property
    def is_paused(self) -> bool:
        """Whether the display is held."""
        ...

    def pause(self, *, paused: bool) -> None:
        """Hold the display, or let it go on."""
        ...

    def show_output(self, number: int | None) -> None:
        """Print what was folded under *number*, or last.

        Raises:
            UsageError: There is no such output.
        """
        ...

    def show_earlier(self, conversation: Conversation) -> None:
        """Print the transcript of *conversation*, which goes on, folded."""
        ...

    def toggle_thinking(self) -> None:
        """Show thinking, from the last on that was folded; or fold it from now on."""
        ...

    def show_diff(self, diff: str) -> None:
        """Print a unified diff without file names, folded when it is long."""
        ...

    async def pick(self, question: str, rows: Sequence[str]) -> int | None:
        """Let somebody choose one of *rows*; return its index, None when they do not want to."""
        ...

    def put_back(self, text: str) -> None:
        """Put *text* into the input."""
        ...

    def lend_terminal(self) -> AbstractAsyncContextManager[None]:
        """Leave the terminal to another program while the body runs."""
        ...

    def copy(self, text: str) -> None:
        """Send *text* to the clipboard of the terminal's computer; it may refuse that silently."""
        ...

    @property
    def theme(self) -> str:
        """The theme's name."""
        ...

    def use_theme(self, name: str) -> None:
        """Show answers in another theme from now on.

        Raises:
            UsageError: There is no such theme.
        """
        ...


@dataclass(frozen=True, slots=True)
class Said:
    """A prompt; *model* is asked about this one alone, None is the model of the session."""

    message: str | UserMessage
    model: Model | None = None


@dataclass(frozen=True, slots=True)
class Context:
    """What a command may touch; `leave()` ends the session after the command.

    `say()` sends a prompt once the command is done, as if somebody had typed it. `controls` is
    None where there is no screen: on a pipe or a dumb terminal. `may_wait` is False during a run:
    then a command tells what is in force and lets nobody choose.
    """

    app: Application
    writer: Lines
    questions: Dialogue
    leave: Callable[[], None]
    say: Callable[[Said], None]
    controls: Controls | None = None
    may_wait: bool = True


@dataclass(frozen=True, slots=True)
class Command:
    """A slash command. `run` gets what stands behind the name, trimmed.

    One that may run `during_a_run` is quick, waits for nothing and leaves the conversation alone.
    One that runs `beside_a_run` is not quick, but only reads: nothing else waits for it.
    One that `asks_the_model` says a prompt; typed during a run, it waits for its end.

    Attributes:
        choices: What can stand behind the name, and what each of it is, for who completes it;
            asked at each key.
        completes_directories: Whether a directory stands behind the name.
        source: Where it comes from; "" for one that is built in.
        more: What `/help NAME` says besides, line by line.
    """

    name: str
    help: str
    run: Callable[[Context, str], Awaitable[None] | None]
    argument: str = ""
    during_a_run: bool = True
    beside_a_run: bool = False
    asks_the_model: bool = False
    choices: Callable[[Application], Mapping[str, str]] = lambda _app: {}
    completes_directories: bool = False
    source: str = ""
    more: str = ""

    @property
    def usage(self) -> str:
        """The command as it is typed."""
        return f"/{self.name} {self.argument}".rstrip()


async def pick(context: Context, rows: Sequence[str], question: str) -> int | None:
    """Let somebody choose one of *rows*, on a screen, or by its number; return its index.

    Returns:
        None when nobody can be asked, or nobody wants to choose.

    Raises:
        UsageError: What was typed is none of the numbers.
    """
    if context.controls:
        return await context.controls.pick(question, rows)
    listed = [f"{number:>3}  {row}" for number, row in enumerate(rows[:LISTED_MAX], 1)]
    if left_out := len(rows) - len(listed):
        listed.append(f"     … and {left_out} older")
    context.writer.aside("\n".join(listed))
    if not context.questions.can_ask:
        return None
    try:
        typed = await context.questions.choose(f"{question} (Enter: none) ", "")
    except (KeyboardInterrupt, EOFError):
        return None
    return index_of(typed, len(rows)) if typed.strip() else None


def index_of(typed: str, count: int) -> int:
    """Return the index that the number *typed* stands for.

    Raises:
        UsageError: It is no number from 1 to *count*.
    """
    number = typed.strip()
    if not number.isdecimal() or not 1 <= int(number) <= count:
        raise UsageError(f"{one_line(number)} is not one of the numbers from 1 to {count}")
    return int(number) - 1
