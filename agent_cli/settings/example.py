"""`appsettings.example.toml`: every setting with its default and what it may be."""

import re
from collections.abc import Mapping
from pathlib import Path

_NAME = "appsettings.example.toml"
_TABLE = re.compile(r"\[([\w.]+)\]")
_SETTING = re.compile(r"(?:# )?(\w+) = ")
_COMMENT = re.compile(r"  # (.*)")


def example_text() -> str:
    """Return the file as it stands at the top of the repository."""
    here = Path(__file__).parent
    # A wheel holds it beside this module; in a clone it is where people look for it.
    packaged = here / _NAME
    return (packaged if packaged.exists() else here.parents[1] / _NAME).read_text(encoding="utf-8")


def descriptions() -> Mapping[str, str]:
    """Return what the example says of each setting behind its value."""
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
