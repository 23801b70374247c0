"""Slash commands and the `!` shell escape: a command, its context and views, choice from lists."""

import shutil
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Final, Protocol

from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.provider import Model
from agent_cli.contracts.wording import one_line
from agent_cli.core.conversation import Conversation
from agent_cli.repl.dialogue import Dialogue
from agent_cli.repl.ports import Application
from agent_cli.system.records import dataclass
from agent_cli.terminal.writer import Pages

if TYPE_CHECKING:
    from agent_cli.terminal.views import View


LISTED_MAX: Final = 10
"""Rows of a list with numbers."""
_DIGITS_MAX: Final = 9


class Controls(Protocol):
    """Port to functions that only a live screen has."""

    @property
    def is_paused(self) -> bool:
        """Whether the display is held."""
        ...

    def pause(self, *, paused: bool) -> None:
        """Pause the display, or resume it."""
        ...

    def show_output(self, number: int | None) -> None:
        """Print the folded output *number*, or the last one.

        Raises:
            UsageError: There is no such output.
        """
        ...

    def show_earlier(self, conversation: Conversation) -> None:
        """Print the folded transcript of *conversation*, which is being resumed."""
        ...

    def toggle_thinking(self) -> None:
        """Show thinking, beginning with the last folded one; or fold it from now on."""
        ...

    def show_diff(self, diff: str) -> None:
        """Print a unified diff without file names, folded if it is long."""
        ...

    @property
    def is_asking(self) -> bool:
        """Whether a question is open: a list appears once that is answered."""
        ...

    async def pick(self, question: str, rows: Sequence[str], selected: int = 0) -> int | None:
        """Let the user choose one of *rows*, at first *selected*; None if they cancel."""
        ...

    def put_back(self, text: str) -> None:
        """Put *text* into the input."""
        ...

    def lend_terminal(self) -> AbstractAsyncContextManager[None]:
        """Give the terminal to another program while the body runs."""
        ...

    def copy(self, text: str) -> None:
        """Copy *text* to the clipboard through the terminal, which may ignore that silently."""
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
class OutgoingPrompt:
    """A prompt; *model* answers this one only, None is the session's model.

    The model reads *opening* before the message; lists of prompts do not show it.
    """

    message: str | UserMessage
    model: Model | None = None
    opening: str = ""


@dataclass(frozen=True, slots=True)
class Context:
    """The context of a command; `leave()` ends the session after the command.

    `send()` sends a prompt once the command is done, as if it had been typed. `controls` is None
    without a live screen: on a pipe or a dumb terminal. `may_wait` is False during a run: then a
    command shows the current value and offers no choice. `model` is the one the user named for the
    command's prompt, instead of the prompt's own.
    """

    app: Application
    writer: Pages
    questions: Dialogue
    leave: Callable[[], None]
    send: Callable[[OutgoingPrompt], None]
    controls: Controls | None = None
    may_wait: bool = True
    model: Model | None = None


@dataclass(frozen=True, slots=True)
class Command:
    """A slash command. `run` gets the argument behind the name, trimmed.

    A command that may run `during_a_run` is quick, never waits and does not change the
    conversation. One that may run `beside_a_run` may be slow, but only reads or sets what the next
    request takes, and blocks nothing. One that `asks_the_model` sends a prompt; typed during a run,
    it waits for the end, except with the arguments in `without_prompt`.

    Attributes:
        choices: Returns the possible arguments with a description each, for completion; called at
            each key.
        completes_directories: Whether the argument is a directory.
        source: Where it is defined; "" for a built-in command.
        more: Further lines of `/help NAME`.
        leaves_the_session: Whether another session may be open afterwards.
        needs_session: Whether it is refused at once, and not below a list, if sessions are off.
    """

    name: str
    help: str
    run: Callable[[Context, str], Awaitable[None] | None]
    argument: str = ""
    during_a_run: bool = True
    beside_a_run: bool = False
    asks_the_model: bool = False
    without_prompt: Collection[str] = ()
    choices: Callable[[Application], Mapping[str, str]] = lambda _app: {}
    completes_directories: bool = False
    source: str = ""
    more: str = ""
    leaves_the_session: bool = False
    needs_session: bool = False

    @property
    def usage(self) -> str:
        """The command as it is typed."""
        return f"/{self.name} {self.argument}".rstrip()


async def pick(
    context: Context, rows: Sequence[str], question: str, *, selected: int = 0
) -> int | None:
    """Let the user choose one of *rows*, on a screen or by number; return its index.

    On a screen the row *selected* is marked at first.

    Returns:
        None if no user can be asked, or they cancel.

    Raises:
        UsageError: The answer is not one of the numbers.
    """
    if context.controls:
        if context.controls.is_asking:
            context.writer.aside("the list appears after your answer", "dim")
        return await context.controls.pick(question, rows, selected)
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
    """Return the index for the typed number *typed*.

    Raises:
        UsageError: It is not a number from 1 to *count*.
    """
    number = typed.strip()
    # Of thousands of digits Python makes no number.
    if not number.isdecimal() or len(number) > _DIGITS_MAX or not 1 <= int(number) <= count:
        raise UsageError(f"{one_line(number)} is not one of the numbers from 1 to {count}")
    return int(number) - 1


def show(context: Context, view: "View") -> None:
    """Write *view* to the command's output.

    Pipes and screen readers have no `controls`: they get one record per line, undrawn.
    """
    from agent_cli.terminal.views import drawn_text  # rich, when it is used

    drawn = context.controls is not None
    width = shutil.get_terminal_size().columns if drawn else None
    context.writer.aside(drawn_text(view, width=width))
