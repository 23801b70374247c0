"""Regular expressions that are compiled when they are first used."""

import pkgutil
import re
import subprocess
import sys

import pytest

from agent_cli.policies import shell
from agent_cli.system.late_patterns import late_pattern

_PROGRAM = """
import importlib, re, sys
compiled = []
compile = re.compile

def noted(pattern, flags=0):
    caller = sys._getframe(1).f_globals["__name__"]
    if caller.startswith("agent_cli.policies.shell."):
        compiled.append((caller, pattern))
    return compile(pattern, flags)

re.compile = noted
for name in sys.argv[1:]:
    importlib.import_module("agent_cli.policies.shell." + name)
assert not compiled, compiled
"""


def test_late_pattern_behaves_as_a_compiled_one() -> None:
    late = late_pattern(r"(?P<word>[a-z]+)(\d)?", re.IGNORECASE)
    now = re.compile(r"(?P<word>[a-z]+)(\d)?", re.IGNORECASE)

    for text in ("", "Ab1", "1 ab", "ab2 cd", "é"):
        for method in ("match", "fullmatch", "search"):
            found, expected = getattr(late, method)(text), getattr(now, method)(text)
            assert (found and found.groups()) == (expected and expected.groups())
        assert late.findall(text) == now.findall(text)
        assert late.sub("<\\g<word>>", text) == now.sub("<\\g<word>>", text)
        assert [each.span() for each in late.finditer(text)] == [
            each.span() for each in now.finditer(text)
        ]
    assert (late.pattern, late.flags, late.groups) == (now.pattern, now.flags, now.groups)


def test_late_pattern_is_compiled_with_its_first_use() -> None:
    wrong = late_pattern("(")

    with pytest.raises(re.error):
        wrong.search("x")


def test_importing_the_rules_about_commands_compiles_no_pattern_of_theirs() -> None:
    names = [each.name for each in pkgutil.iter_modules(shell.__path__)]
    run = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *names], capture_output=True, text=True, check=False
    )

    assert (run.returncode, run.stderr) == (0, "")
