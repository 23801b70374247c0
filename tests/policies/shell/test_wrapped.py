"""A command that asks does so wherever it stands in a script: nothing around it makes it harmless.

The commands are those of the tables beside this module; each is put in forms that run it as it is.
"""

import ast
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis.strategies import lists, one_of, sampled_from, text

from agent_cli.policies.shell import CommandRules, Reach, judge

_EVERY = 40  # of the texts of the tables, in the fast test
_FORMS: Mapping[str, Callable[[str], str]] = {
    "behind another": lambda script: f"true; {script}",
    "behind a folder": lambda script: f"cd . && {script}",
    "before another": lambda script: f"{script}\ntrue",
    "in a subshell": lambda script: f"( {script}\n)",
    "in a group": lambda script: f"{{ {script}\n}}",
    "in a condition": lambda script: f"if true; then {script}\nfi",
    "in a loop": lambda script: f"for i in 1; do {script}\ndone",
    "in a function": lambda script: f"f() {{ {script}\n}}\nf",
    "in quotes": lambda script: f"bash -c {shlex.quote(script)}",
    "evaluated": lambda script: f"eval {shlex.quote(script)}",
    "behind a search": lambda script: f"grep -r x src; {script}",
    "behind a list": lambda script: f"find . -name '*.o' | sort; {script}",
    "behind a comment": lambda script: f"# don't\n{script}",
    "over several lines": lambda script: (
        script if {"'", '"', "\n"} & {*script} else script.replace(" ", " \\\n")
    ),
}


def _texts() -> Iterator[str]:
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def _asks(script: str) -> bool:
    reach = Reach(root=Path("/srv/project"), extra_dirs=(), home="/home/somebody")
    return judge(script, CommandRules(), reach).verdict == "ask"


def _weaker(every: int) -> list[tuple[str, str]]:
    # A list without its begin or end, or a group that is none, is the part of a script alone.
    parts = [*_texts()][::every]
    ended = [text for text in parts if text.rstrip()[-1:] != "|"]
    whole = [text for text in ended if text.strip()[:1] not in ("|", "'", "(", "{")]
    return [
        (name, script)
        for script in dict.fromkeys(whole)
        if len(script) < 1_000 and _asks(script)
        for name, form in _FORMS.items()
        if not _asks(form(script))
    ]


def test_command_that_asks_does_so_wherever_it_stands() -> None:
    """Threat 19: what is lost does not depend on what stands around it."""
    assert _weaker(_EVERY) == []


@pytest.mark.slow
def test_each_command_that_asks_does_so_wherever_it_stands() -> None:
    """Threat 19: of all tables."""
    assert _weaker(1) == []


_PIECES = (
    *(" ", "\n", "'", '"', "$", "(", ")", "{", "}", "|", "&", ";", "<", ">", "<<E\n", "E\n", "`"),
    *("\\", "\\\n", "x", "a/b", "*", "=", "$x", "${x}", "$(", "if ", "then ", "fi\n", "for i in "),
    *("do ", "done\n", "case x in ", "esac\n", "bash -c ", "sh ", "xargs ", "find . ", "cd ", "!"),
    *("rm -rf ", "echo ", "git ", "eval ", "-n ", "#", "[", "]", "~", "[[ ", "]] ", "é", "\t"),
    *("python3 -c ", "ssh h ", "docker run ", "\0", "\ud800", "$'", "cat > ", "pwsh -c ", "ln -s "),
)


@given(lists(one_of(sampled_from(_PIECES), text(max_size=3)), max_size=400).map("".join))
def test_every_text_is_judged(script: str) -> None:
    """A command that no shell reads either is a question for the person, never an error."""
    judged = judge(script, CommandRules(), Reach(root=Path("/srv/project"), home="/home/somebody"))

    assert judged.verdict in ("ask", "undecided", "allow")
