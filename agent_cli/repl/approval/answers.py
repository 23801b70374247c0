"""The answers to a question about waiting calls."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, TypeAlias

from agent_cli.repl.dialogue import Choice, chosen, not_an_answer
from agent_cli.system.paths import exists, shown
from agent_cli.system.sanitize import reveal

# A number opens the call of that number.
Action: TypeAlias = (
    Literal["yes", "session", "project", "edit", "each", "view", "explain", "back", "no"] | int
)
_IN_WORDS: Final = {
    "edit(./**)": "all edits in the workspace",
    "write(./**)": "all files written in the workspace",
}
_COMMANDS: Final = re.compile(r"bash\((.+) \*\)")
_ONE_COMMAND: Final = re.compile(r"bash\(([^*]+)\)")
_SERVER_TOOL: Final = re.compile(r"mcp__[\w-]+")
_PAGES: Final = re.compile(r"web_fetch\(domain:(.+)\)")
_EXPLAIN: Final = Choice("", ("explain",), shortcut="Ctrl-E")
_VIEW: Final = Choice("Show all of it", ("v", "view"), key="v", shortcut="Ctrl-O")
# Slash commands typed out of habit are not comments for the model; paths have a second slash.
_COMMAND: Final = re.compile(r"!|/[^\s/]+(?:\s|\Z)")
_SESSION: Final = Choice("", ("y session", "yes session"))
_PROJECT: Final = Choice("", ("y project", "yes project"))


def answers_to(
    numbers: Sequence[int],
    *,
    rules: Sequence[Sequence[str]],
    project_file: Path | None,
    edited: str,
    is_folded: bool,
    can_explain: bool,
    of: int,
    news: Callable[[], str] = str,
) -> dict[Choice, Action]:
    """Return the answers to the question about the calls with *numbers*, "yes" first.

    Args:
        numbers: The numbers of the calls, in order.
        rules: The rules for each call that "don't ask again" would store.
        project_file: The file that would keep them; None if nothing can.
        edited: The part of a single call that can be edited, or "".
        is_folded: Whether the question leaves something of the calls out.
        can_explain: Whether any of them is a command to explain.
        of: The number of calls in the list that a single one was opened from, or 0.
        news: Returns a hint for "yes" that may change while the question is open.
    """
    one = len(numbers) == 1
    yes = "Yes" if one else f"Yes, all {len(numbers)}"
    hints = ["" if one else f"{numbers[0]}–{numbers[-1]} opens one"]
    hints += ["Ctrl-E explains"] if can_explain else []
    hint = " · ".join(filter(None, hints))
    offered: dict[Choice, Action] = {
        Choice(yes, ("y", "yes"), key="y", beside=hint, news=news): "yes"
    }
    offered |= _remembering(yes, rules, project_file)
    if edited:
        label = "Change it first" if edited == "input" else f"Change the {edited} first"
        offered[Choice(label, ("e", "edit"))] = "edit"
    if not one:
        offered[Choice("One by one", ("a", "each"), key="a")] = "each"
    if is_folded or not one:
        offered[_VIEW] = "view"
    if of:
        offered[Choice(f"Back to all {of}", ("b", "back"))] = "back"
    no: Choice = Choice("No" if one else "None of them", ("n", "no"), key="n")
    offered[no] = "no"
    offered = _numbered(offered) if one else offered
    for number in () if one else numbers:
        offered[Choice("", (str(number),))] = number
    if can_explain:
        offered[_EXPLAIN] = "explain"
    return offered


def objection_to(line: str) -> str:
    """Return why *line* is no sentence for the model, and no answer either; "" if it is one."""
    if _COMMAND.match(line) and not exists(Path(line.split(maxsplit=1)[0])):
        return f"{reveal(line)}: answer this question first"
    # A yes that stores a rule, which not every question offers.
    return not_an_answer(reveal(line)) if chosen(line, (_SESSION, _PROJECT)) else ""


def rule_in_words(rule: str) -> str:
    """Return the calls that *rule* allows, in words or else as its exact text, for an answer."""
    if rule in _IN_WORDS:
        return _IN_WORDS[rule]
    if _COMMANDS.fullmatch(rule):
        return _commands([rule])
    if (alone := _ONE_COMMAND.fullmatch(rule)) is not None:
        return f"the command `{reveal(alone[1])}`"
    if _SERVER_TOOL.fullmatch(rule):
        return f"all calls of {rule}"
    if (pages := _PAGES.fullmatch(rule)) is not None:
        return f"pages of {reveal(pages[1])}"
    return f"all that {reveal(rule)} covers"


def _remembering(
    yes: str, rules: Sequence[Sequence[str]], project_file: Path | None
) -> Mapping[Choice, Action]:
    """Return the answers that store rules; none if a call has no rule."""
    if not all(rules):
        return {}
    listed = _listed(list(dict.fromkeys(rule for each in rules for rule in each)))
    # Never a single letter: a typing slip must not store a permanent rule.
    label = f"{yes}, and {listed} this session"
    offered: dict[Choice, Action] = {_SESSION._replace(label=label): "session"}
    if project_file:
        label = f"{yes}, and {listed} in this project from now on"
        note = f"kept in {shown(project_file)}"
        offered[_PROJECT._replace(label=label, note=note)] = "project"
    return offered


def _listed(rules: Sequence[str]) -> str:
    """Return the calls that *rules* allow, for an answer; commands are named together."""
    commands = [rule for rule in rules if _COMMANDS.fullmatch(rule)]
    others = [rule_in_words(rule) for rule in rules if rule not in commands]
    return _joined([*([_commands(commands)] if commands else []), *others], "and")


def _commands(rules: Sequence[str]) -> str:
    begins = (_COMMANDS.sub(r"\1", rule) for rule in rules)
    return f"commands that begin with {_joined([f'`{reveal(each)}`' for each in begins], 'or')}"


def _joined(words: Sequence[str], last: str) -> str:
    return f" {last} ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def _numbered(offered: Mapping[Choice, Action]) -> dict[Choice, Action]:
    """Return *offered* with a digit before each answer, which selects it too."""
    return {
        choice.numbered(number): each for number, (choice, each) in enumerate(offered.items(), 1)
    }
