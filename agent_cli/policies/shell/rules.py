"""Rules about commands: a prefix of words, `npm run *`, or all words, `make test`."""

import shlex
from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

from agent_cli.contracts.errors import SettingsError
from agent_cli.policies.shell.plain import SimpleCommand
from agent_cli.policies.shell.readings import Reading, base_name
from agent_cli.system.records import dataclass

Match: TypeAlias = Literal["yes", "maybe", "no"]


@dataclass(frozen=True, slots=True)
class CommandRule:
    """A rule as written, and its words; `open_ended` if any words may follow."""

    written: str
    words: tuple[str, ...]
    open_ended: bool

    def allows(self, command: SimpleCommand) -> bool:
        """Return whether this rule matches *command* exactly as written."""
        given = command.words
        count = len(self.words)
        if command.reads or any(word.untold for word in given[:count]):
            return False  # Redirected input is not part of the words, and $? has an unknown value.
        fits = len(given) >= count if self.open_ended else len(given) == count
        return fits and tuple(word.text for word in given[:count]) == self.words

    def touches(self, reading: Reading) -> Match:
        """Return whether this rule matches *reading*, or might at run time.

        Programs are compared by name only: /bin/rm and ./rm are rm.
        """
        for at, wanted in enumerate(self.words):
            if at >= len(reading):
                return "no"
            word = reading[at]
            if word is None:
                return "maybe"
            if word != wanted and (at > 0 or base_name(word) != base_name(wanted)):
                return "no"
        rest = reading[len(self.words) :]
        if self.open_ended or not rest:
            return "yes"
        # An expansion may result in no word at all.
        return "maybe" if all(word is None for word in rest) else "no"


def command_rule(written: str | None) -> CommandRule:
    """Parse the rule *written*; None and * mean every command.

    Raises:
        SettingsError: A quote is not closed, or a * is not the last word.
    """
    text = (written or "*").strip()
    try:
        words = shlex.split(text)
    except ValueError:
        words = ["*", ""]
    open_ended = words[-1:] == ["*"]
    if open_ended:
        words.pop()
    if "*" in words or not (words or open_ended):
        raise SettingsError(
            f"permissions: bash({written}) is not a rule: write the first words of a command, close"
            " all quotes, and use * only as the last word"
        )
    return CommandRule(text, tuple(words), open_ended)


def strongest(
    rules: Sequence[CommandRule], readings: Iterable[Reading]
) -> tuple[Match, CommandRule | None]:
    """Return the best match between any rule and reading, and the first rule with that match."""
    best: tuple[Match, CommandRule | None] = ("no", None)
    for reading in readings:
        for rule in rules:
            match rule.touches(reading):
                case "yes":
                    return "yes", rule
                case "maybe" if best[0] == "no":
                    best = ("maybe", rule)
                case _:
                    pass
    return best
