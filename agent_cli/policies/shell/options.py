"""Options of a command line, read as getopt_long reads them, against the list of those known.

What is not on the list is refused, abbreviations included: tomorrow's option may write a file.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from agent_cli.policies.shell.place import Objection
from agent_cli.policies.shell.words import Word

# Whatever --include=*.py matches begins with --include= too, and is that option with other text.
_TEXT_OPTION = re.compile(r"--[\w-]+=", re.ASCII)


@dataclass(frozen=True, slots=True)
class ProgramArguments:
    """The arguments of a program, sorted: names of its options, and its operands in order."""

    options: frozenset[str]
    operands: tuple[Word, ...]


@dataclass(frozen=True, slots=True)
class KnownOptions:
    """Options that may be given.

    Attributes:
        takes_value: Option → whether a value belongs to it; None when only one joined to it by =
            does.
        numbers: -20 is an option too.
        values_apart: The value of a short option is always the next word, and the letter stands
            alone: `tree -Po a b` would take a as the pattern and b as the file to write.
    """

    takes_value: Mapping[str, bool | None] = field(default_factory=dict[str, bool | None])
    numbers: bool = False
    values_apart: bool = False

    def sort(self, program: str, arguments: Sequence[Word]) -> ProgramArguments:
        """Return *arguments* sorted.

        Raises:
            Objection: One of the options is not known.
        """
        options: set[str] = set()
        operands: list[Word] = []
        waiting = iter(arguments)
        for word in waiting:
            if word.text == "--":
                operands += waiting
            elif word.text == "-" or not word.text.startswith("-"):
                operands.append(word)
            elif not (self.numbers and word.text[1:].isdecimal()):
                options.update(self._read(program, word, waiting))
        return ProgramArguments(frozenset(options), tuple(operands))

    def _read(self, program: str, word: Word, following: Iterator[Word]) -> Iterator[str]:
        """Yield the names of the options in *word*, taking a value from behind it if they do."""
        if word.glob and not _TEXT_OPTION.match(word.text):
            raise Objection(f"{program}: an option that is a pattern")
        if word.text.startswith("--"):
            name, joined, _ = word.text.partition("=")
            takes = self._known(program, name)
            yield name
            if joined and takes is False:
                raise Objection(f"{program} {name} is not known to take a value")
            if takes and not joined:
                _take(program, name, following)
            return
        for at, letter in enumerate(word.text[1:], 2):
            name = f"-{letter}"
            takes = self._known(program, name)
            yield name
            if takes is None:
                return  # What is joined to it is its value.
            if takes:
                if self.values_apart and len(word.text) > len(name):
                    raise Objection(f"{program} {name} is joined to something else")
                if at == len(word.text):
                    _take(program, name, following)
                return

    def _known(self, program: str, name: str) -> bool | None:
        if name not in self.takes_value:
            raise Objection(f"{program} {name} is not a known read-only option")
        return self.takes_value[name]


def _take(program: str, name: str, following: Iterator[Word]) -> None:
    value = next(following, None)
    if value is None or value.glob:
        raise Objection(f"{program} {name} lacks a value")


def known_options(written: str, *, values_apart: bool = False) -> KnownOptions:
    """Return the options listed in *written*.

    `-ab` are two without a value, `-n=` and `--lines=` want one, `--color[=]` may have one joined
    to it, and `-NUMBER` stands for numbers.
    """
    takes_value: dict[str, bool | None] = {}
    for each in written.replace("-NUMBER", "").split():
        name = each.rstrip("[=]")
        takes = None if each.endswith("[=]") else each.endswith("=")
        if name.startswith("--"):
            takes_value[name] = takes
        else:
            takes_value |= {f"-{letter}": takes for letter in name[1:]}
    return KnownOptions(takes_value, "-NUMBER" in written, values_apart)
