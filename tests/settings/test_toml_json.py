"""The lines of a settings file's keys."""

import tomllib
from collections.abc import Mapping

import pytest

from agent_cli.settings.toml_json import toml_lines

SPANNING = '''# one
first = """
a = 1
""" # two
[table] # three
second = [
  "x[", # four
  ["y",
   "]"],
  { third = [
      1,
  ] },
]
fourth = { fifth = 1, sixth = ["z"] }
seventh = \'\'\'
eighth = 2\'\'\'
[[many]]
ninth = 9
'''


def test_each_key_has_the_line_on_which_its_statement_begins() -> None:
    """A message about a setting names the file and the line."""
    lines = toml_lines(SPANNING)

    assert {path: line for path, line in lines.items() if len(path) < 3} == {
        ("first",): 2,
        ("table",): 5,
        ("table", "second"): 6,
        ("table", "fourth"): 14,
        ("table", "seventh"): 15,
        ("many",): 17,
        ("many", "ninth"): 18,
    }


def test_long_list_is_not_parsed_again_for_each_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of 500 rules cost each start a third of a second."""
    parsed: list[str] = []
    loads = tomllib.loads

    def counted(text: str) -> Mapping[str, object]:
        parsed.append(text)
        return loads(text)

    monkeypatch.setattr(tomllib, "loads", counted)
    rules = "".join(f'  "bash(tool{number} *)",\n' for number in range(400))

    lines = toml_lines(f"allow = [\n{rules}]\nmode = 1\n")

    assert lines == {("allow",): 1, ("mode",): 403}
    assert len(parsed) <= 5
