"""docs/api.md describes every public name of `agent_cli`."""

import re
from importlib import import_module
from pathlib import Path

import agent_cli

PAGE = Path(__file__).parents[1] / "docs" / "api.md"


def test_the_reference_names_each_public_name_once() -> None:
    """`__version__` is a text and needs no section."""
    names = re.findall(r"^::: [\w.]+\.(\w+)$", PAGE.read_text(), re.MULTILINE)

    assert sorted(names) == sorted({*agent_cli.__all__} - {"__version__"})


def test_each_section_of_the_reference_is_the_public_object() -> None:
    for path in re.findall(r"^::: ([\w.]+)$", PAGE.read_text(), re.MULTILINE):
        module, name = path.rsplit(".", 1)
        assert getattr(import_module(module), name) is getattr(agent_cli, name), path
