"""Parse options as getopt_long does and check them against a list of known ones.

Options not on the list are rejected, abbreviations included: a future option may write a file.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from agent_cli.policies.shell.reach import Objection
from agent_cli.policies.shell.words import Word
from agent_cli.system.loading import late_pattern
from agent_cli.system.records import dataclass

# Every match of --include=*.py also begins with --include=, so it is the same option.
_TEXT_OPTION = late_pattern(r"--[\w-]+=", re.ASCII)


@dataclass(frozen=True, slots=True)
class ProgramArguments:
    """The arguments of a program: names of its options, and its operands in order."""

    options: frozenset[str]
    operands: tuple[Word, ...]


@dataclass(frozen=True, slots=True)
class KnownOptions:
    """The known options of a program.

    Attributes:
        takes_value: Option → whether it takes a value; None if only with =.
        numbers: Whether a number like -20 is an option.
        values_apart: The value of a short option is always the next word, so its letter must be
            alone: `tree -Po a b` takes a as the pattern and b as the file to write.
    """

    takes_value: Mapping[str, bool | None]
    numbers: bool
    values_apart: bool

    def sort(self, program: str, arguments: Sequence[Word]) -> ProgramArguments:
        """Split *arguments* into options and operands.

        Raises:
            Objection: An option is not known.
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
        """Yield the names of the options in *word*; consume the next word if it is a value."""
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
                return  # The rest of the word is its value.
            if takes:
                if self.values_apart and len(word.text) > len(name):
                    raise Objection(f"{program} {name} is joined to something else")
                if at == len(word.text):
                    _take(program, name, following)
                return

    def _known(self, program: str, name: str) -> bool | None:
        if name not in self.takes_value:
            raise Objection(f"{program} {name} may do more than read")
        return self.takes_value[name]


def _take(program: str, name: str, following: Iterator[Word]) -> None:
    value = next(following, None)
    if value is None or value.glob:
        raise Objection(f"{program} {name} lacks a value")


def known_options(written: str, *, values_apart: bool = False) -> KnownOptions:
    """Parse the list of options in *written*.

    `-ab` are two options without a value, `-n=` and `--lines=` take one, `--color[=]` takes an
    optional one after =, and `-NUMBER` stands for numbers.
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
