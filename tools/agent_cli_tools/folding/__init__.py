"""Fold the parts of a command's output that cost much and say little; pure.

Progress drawn over itself becomes its last state, runs of equal lines one with a count, the steps
of an installation or a build their first and last, and of a test run what passed is left out. A
block that stands above already is named. Only lines known to report success are ever left out.
What was listed because somebody asked for it loses nothing: a list of files names each folder
once, and findings name each file once.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from agent_cli.contracts.wording import counted
from agent_cli_tools.folding.findings import grouped_findings, without_marks
from agent_cli_tools.folding.lines import (
    FRAME_HINTS,
    grouped_names,
    without_covered,
    without_library_frames,
    without_middle_of_data,
    without_times,
)
from agent_cli_tools.folding.passed_tests import without_passed
from agent_cli_tools.folding.repeats import LOG_HINTS, merged, without_alike, without_repeats
from agent_cli_tools.folding.screen import last_states
from agent_cli_tools.folding.steps import without_steps

# Less is not worth the note that says it, nor a file.
SAVED_CHARS_MIN: Final = 300

_Stage: TypeAlias = Callable[[Sequence[str]], tuple[list[str], int]]
"""Returns lines folded in one way, and how much was."""


class Folded(NamedTuple):
    """A text, and what was folded in it: "12 states of progress lines"; "" for nothing."""

    text: str
    summary: str = ""


def folded(text: str, *, drawn_over: int = 0) -> Folded:
    """Return *text*, without escape sequences, folded; unchanged where that saves little.

    *drawn_over* counts the characters that it has lost already, as a program drew over them.
    """
    shown, states = last_states(text)
    lines: Sequence[str] = shown.split("\n")
    phrases = [
        _phrase(drawn_over, "character", "characters", "drawn over"),
        _phrase(states, "state", "states", "of progress lines"),
    ]
    is_log = False
    for stage, hints, one, many, of in _STAGES:
        # Elsewhere a text may be read: what it repeats belongs to it.
        if stage is _REPEATS and not is_log:
            continue
        if hints and not any(hint in shown for hint in hints):
            continue  # most outputs have nothing for most stages, and looking at each line is slow
        before = lines
        lines, count = stage(lines)
        is_log = is_log or (stage in (_PASSED, _STEPS) and count > 0)
        phrases.append(_phrase(count, one, many, of))
        if lines != before:
            shown = "\n".join(lines)
    if drawn_over + len(text) - len(shown) < SAVED_CHARS_MIN:
        return Folded(text)
    return Folded(shown, ", ".join(part for part in phrases if part))


def _phrase(count: int, one: str, many: str, of: str) -> str:
    return f"{counted(count, one, many)} {of}".rstrip() if count else ""


def _counted(fold: Callable[[Sequence[str]], Iterable[str]]) -> _Stage:
    """Return *fold* as a stage that counts the lines which went."""

    def stage(lines: Sequence[str]) -> tuple[list[str], int]:
        left = list(fold(lines))
        return left, len(lines) - len(left)

    return stage


_PASSED: Final = _counted(without_passed)
_STEPS: Final = _counted(without_steps)
_REPEATS: Final = _counted(without_repeats)
# Each with hints, one of which is in every text that it changes; without any, it looks itself.
_STAGES: Final[Sequence[tuple[_Stage, Sequence[str], str, str, str]]] = (
    (without_middle_of_data, (), "character", "characters", "of data"),
    (without_times, ("Z", "["), "time", "times", "of a build server"),
    (_PASSED, (), "line", "lines", "about passed tests"),
    (_counted(without_covered), ("Stmts", "ok "), "file", "files", "covered whole"),
    (_STEPS, (), "line", "lines", "about steps that succeeded"),
    (_counted(without_library_frames), FRAME_HINTS, "line", "lines", "of library frames"),
    (_counted(without_marks), ("--> ",), "line", "lines", "of marks and repeated advice"),
    (grouped_findings, (), "finding", "findings", "below the name of their file"),
    (grouped_names, ("/",), "line", "lines", "of names in one folder"),
    (_counted(without_alike), LOG_HINTS, "log line", "log lines", "like others"),
    (_counted(merged), (), "equal line", "equal lines", ""),
    (_REPEATS, (), "line", "lines", "that stand above already"),
)
