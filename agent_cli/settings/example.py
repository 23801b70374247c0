"""`appsettings.example.toml`: every setting with its default and its allowed values."""

import re
from collections.abc import Mapping
from pathlib import Path

_NAME = "appsettings.example.toml"
_TABLE = re.compile(r"\[([\w.]+)\]")
_SETTING = re.compile(r"(?:# )?(\w+) = ")
_COMMENT = re.compile(r"  # (.*)")


def example_text() -> str:
    """Return the text of the file at the top of the repository."""
    here = Path(__file__).parent
    # A wheel holds it beside this module; a clone has it at the top, easy to find.
    packaged = here / _NAME
    return (packaged if packaged.exists() else here.parents[1] / _NAME).read_text(encoding="utf-8")


def descriptions() -> Mapping[str, str]:
    """Return the comment after each setting's value in the example."""
    described: dict[str, str] = {}
    table = ""
    for line in example_text().splitlines():
        if found := _TABLE.match(line):
            table = f"{found[1]}."
        elif found := _SETTING.match(line):
            comment = _COMMENT.search(line)
            if comment:
                described.setdefault(f"{table}{found[1]}", comment[1])
    return described
