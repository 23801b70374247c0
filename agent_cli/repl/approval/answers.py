"""The answers that a question about waiting calls offers."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, TypeAlias

from agent_cli.repl.dialogue import Choice
from agent_cli.system.paths import shown
from agent_cli.terminal.sanitize import reveal

# A number opens the call of that number.
Action: TypeAlias = (
    Literal["yes", "session", "project", "edit", "each", "view", "explain", "back", "no"] | int
)
_IN_WORDS: Final = {
    "edit(./**)": "edits in this folder",
    "write(./**)": "files written in this folder",
}
_COMMANDS: Final = re.compile(r"bash\((.+) \*\)")
_PAGES: Final = re.compile(r"web_fetch\(domain:(.+)\)")
_EXPLAIN: Final = Choice("", ("explain",), shortcut="ctrl+e")
_VIEW: Final = Choice("Show all of it", ("v", "view"), key="v", shortcut="ctrl+o")


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
    hints += ["ctrl+e explains"] if can_explain else []
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


def rule_in_words(rule: str) -> str:
    """Return what the *rule* lets run, for an answer: its exact text, unless words say the same."""
    if rule in _IN_WORDS:
        return _IN_WORDS[rule]
    if (command := _COMMANDS.fullmatch(rule)) is not None:
        return f"commands that begin with `{reveal(command[1])}`"
    if (pages := _PAGES.fullmatch(rule)) is not None:
        return f"pages of {reveal(pages[1])}"
    return f"all that {reveal(rule)} covers"


def _remembering(
    yes: str, rules: Sequence[Sequence[str]], project_file: Path | None
) -> Mapping[Choice, Action]:
    """Return the answers that store rules; none if a call has no rule."""
    if not all(rules):
        return {}
    listed = _listed(rule_in_words(rule) for each in rules for rule in each)
    # Never a single letter: a typing slip must not store a permanent rule.
    label = f"{yes}, and {listed} this session"
    offered: dict[Choice, Action] = {Choice(label, ("y session", "yes session")): "session"}
    if project_file:
        label = f"{yes}, and {listed} in this project from now on"
        lines, note = ("y project", "yes project"), f"kept in {shown(project_file)}"
        offered[Choice(label, lines, note=note)] = "project"
    return offered


def _listed(words: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(words))


def _numbered(offered: Mapping[Choice, Action]) -> dict[Choice, Action]:
    """Return *offered* with a digit before each answer, which selects it too."""
    return {
        choice.numbered(number): each for number, (choice, each) in enumerate(offered.items(), 1)
    }
