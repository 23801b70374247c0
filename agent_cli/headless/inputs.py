"""Inputs of one run without a REPL: its options, and its prompt, stdin included."""

import select
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple, TextIO

from agent_cli.contracts.errors import UsageError
from agent_cli.headless.limits import RunLimits
from agent_cli.system.records import dataclass, field

if TYPE_CHECKING:
    from agent_cli.headless.output_dir import OutputDir
    from agent_cli.headless.structured import AnswerCheck, OutputSchema


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Options of one run: limits, the form of its answer, the output directory, and a check.

    The run goes on until `require_check`, a command, exits with 0; "" is none. With `parks` it ends
    at a question, which waits for a decision; else the call is declined.
    """

    limits: RunLimits = field(default_factory=RunLimits)
    schema: "OutputSchema | None" = None
    output_dir: "OutputDir | None" = None
    require_check: str = ""
    parks: bool = False

    def answer_check(self) -> "AnswerCheck | None":
        """Return the check of the answer; None without a schema."""
        if self.schema is None:
            return None
        from agent_cli.headless.structured import AnswerCheck  # rare

        return AnswerCheck(self.schema)


_STDIN_LIMIT_S: Final = 3.0
_STDIN_CHARS_MAX: Final = 32_000_000  # a request of the API takes 32 MB


class PromptText(NamedTuple):
    """The whole text of a prompt, and the piped part."""

    text: str
    piped: str = ""


def read_prompt(prompt: str, stdin: TextIO, warn: Callable[[str], None]) -> PromptText:
    """Return *prompt* with the text piped to *stdin*.

    A pipe that stays open but silent, as under supervisors and CI, is waited for only when the
    whole prompt has to come from it.

    Raises:
        UsageError: Both are empty, or more was piped in than a request takes.
    """
    piped = ""
    if not stdin.isatty():
        if prompt == "-" or select.select([stdin], [], [], _STDIN_LIMIT_S)[0]:
            piped = stdin.read(_STDIN_CHARS_MAX + 1)
        else:
            warn(
                f"stdin sent nothing within {_STDIN_LIMIT_S:g} s; it is ignored (a slow command:"
                " (echo PROMPT; COMMAND) | agent-cli -p -)"
            )
    if len(piped) > _STDIN_CHARS_MAX:
        raise UsageError(
            f"more than {_STDIN_CHARS_MAX / 1e6:.0f} MB were piped in, and no request takes that:"
            " pipe in a part (tail, grep), or save it in a file and name the file in the prompt"
        )
    parts = [piped] if prompt == "-" else [prompt, piped]
    text = "\n\n".join(part.strip() for part in parts if part.strip())
    if not text:
        raise UsageError("there is no prompt: give one after -p, or pipe one in")
    return PromptText(text, piped.strip())
