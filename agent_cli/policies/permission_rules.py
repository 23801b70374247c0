"""The language of permission rules: `tool` or `tool(text)`; what a rule decides is not known here.

    edit                  every call of the tool; edit(*) is the same
    mcp__github__*        every tool whose name begins so
    bash(npm test)        the command npm test and no other
    bash(npm test *)      npm test with whatever arguments
    edit(src/*)           every path below src; edit(src/main.py) one path

Commands are compared word by word, and a rule that allows has to understand all of what it allows:
it matches plain commands only, nothing with a pipe, a redirection, a second command or a variable.
A rule that forbids looks for its words anywhere in the text, through quotes, and errs towards
finding them. That is a guard rail; what a shell will run cannot be told from its text.
"""

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent_cli.errors import SettingsError
from agent_cli.events import ToolCall

COMMAND_TOOL = "bash"

_RULE = re.compile(r"(?P<tool>[\w-]+\*?|\*)(?:\((?P<text>.*)\))?", re.DOTALL)
_NOT_PLAIN = re.compile(r"[;&|<>$`()\n\r]")
_BOUNDARIES = re.compile(r"[;&|<>$`(){}\n\r]")
_QUOTES = re.compile(r"['\"\\]")


@dataclass(frozen=True, slots=True)
class Rule:
    """A parsed rule; `text` is None when it covers every call of its tools."""

    tool: str
    text: str | None = None

    def __str__(self) -> str:
        return self.tool if self.text is None else f"{self.tool}({self.text})"


def parse_rule(written: str) -> Rule:
    """Return the rule somebody wrote.

    Raises:
        SettingsError: It is none.
    """
    found = _RULE.fullmatch(written.strip())
    text = (found["text"] or "").strip() if found else ""
    if not found or (found["text"] is not None and not _is_prefix(found["tool"], text)):
        raise SettingsError(
            f"permissions: {written!r} is not a rule: write a tool's name, or the name and what it"
            " is called with, like bash(npm test *) or edit(src/*); a * can only be at the end"
        )
    return Rule(found["tool"], None if text in ("", "*", "**") else text)


def _is_prefix(tool: str, text: str) -> bool:
    beginning = text.rstrip("*")
    if tool == COMMAND_TOOL and beginning != text and beginning != beginning.rstrip() + " ":
        return text == "*"  # in a command a * stands for words, not for a part of one
    return bool(text) and "*" not in beginning


def allows(rule: Rule, call: ToolCall, root: Path) -> bool:
    """Return whether *rule* covers all of *call*; relative paths start at *root*."""
    if not _names(rule, call):
        return False
    if rule.text is None:
        return True
    if call.name == COMMAND_TOOL:
        words = plain_words(_input(call, "command"))
        return words is not None and _begins(words, rule.text)
    paths = _paths(_input(call, "path"), root)
    return bool(paths) and all(_covers(rule.text, path, root) for path in paths)


def touches(rule: Rule, call: ToolCall, root: Path) -> bool:
    """Return whether *rule* covers any part of *call*, as far as its text shows."""
    if not _names(rule, call):
        return False
    if rule.text is None:
        return True
    if call.name == COMMAND_TOOL:
        return any(_begins(words, rule.text) for words in _readings(_input(call, "command")))
    return any(_covers(rule.text, path, root) for path in _paths(_input(call, "path"), root))


def plain_words(command: str) -> list[str] | None:
    """Return the words of a command that is one program and its arguments, else None."""
    if _NOT_PLAIN.search(command):
        return None
    try:
        return shlex.split(command) or None
    except ValueError:
        return None


def _names(rule: Rule, call: ToolCall) -> bool:
    if rule.tool.endswith("*"):
        return call.name.startswith(rule.tool[:-1])
    return call.name == rule.tool


def _input(call: ToolCall, name: str) -> str:
    value = call.input.get(name) if isinstance(call.input, dict) else None
    return value if isinstance(value, str) else ""


def _begins(words: Sequence[str], text: str) -> bool:
    """Return whether *words* are those of a rule, with anything behind them if it ends in a *."""
    wanted = text.split()
    if wanted[-1] != "*":
        return list(words) == wanted
    return list(words[: len(wanted) - 1]) == wanted[:-1]


def _readings(command: str) -> Iterator[list[str]]:
    """Yield the words from each one on, in each part of *command*, quotes read and ignored.

    Programs start others (sudo, env, xargs, sh -c), so any word may be the name of one.
    """
    for words in _parts(command):
        for at, word in enumerate(words):
            yield words[at:]
            yield [word.rpartition("/")[2], *words[at + 1 :]]


def _parts(command: str) -> Iterator[list[str]]:
    for part in _BOUNDARIES.split(command):
        try:
            yield shlex.split(part)
        except ValueError:
            continue  # half of a quotation; below its words are found
    for part in _BOUNDARIES.split(_QUOTES.sub(" ", command)):
        yield part.split()


def _paths(given: str, root: Path) -> set[str]:
    """Return all that *given* may name: as written, without a mention's @, where symlinks lead."""
    if not given:
        return set()
    written = {given, given.removeprefix("@")}
    named = {os.path.normpath(root / Path(each).expanduser()) for each in written}
    return named | {os.path.realpath(each) for each in named}


def _covers(text: str, path: str, root: Path) -> bool:
    beginning = text.rstrip("*")
    wanted = os.path.normpath(root / Path(beginning).expanduser())
    if beginning == text:
        return path == wanted
    if beginning.endswith("/"):
        return path.startswith(wanted.rstrip("/") + "/")
    return path.startswith(wanted)
