"""A setting's default is defined once: in the schema, or in `contracts/options.py`."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from agent_cli.contracts import options
from agent_cli.settings.layers import all_rules
from tests.test_architecture import statements, tree

ROOT = Path(__file__).parents[2]
NAMES = frozenset(key.rsplit(".", 1)[-1] for key in all_rules())
# What a parameter or a field of one of these names with such a default looks like.
GIVEN = re.compile(rf"\b(?:{'|'.join(NAMES)})\s*(?::[^=]*)?=\s*(?:[\d(.]|[rbuRBU]?[\"']|True)")
# These only share a setting's name.
OTHER_THINGS = {
    "Arguments.command": "of the command line",
    "Exercise.timeout_s": "of `agent-cli mcp exercise`",
    "GrepParameters.mode": "of what grep returns",
    "Permissions.__init__.mode": "the mode a setting begins in; the type is in contracts",
    "RetryPolicy.respect_retry_after": "what a policy does; a switch has no other default",
    "SamplingRequest.max_tokens": "of what a server asks for",
    "ServerConfig.enabled": "of one server",
    "_Entry.enabled": "of one server",
    "open_file.mode": "the bits of a file",
    "_Rank.mode": "of what an agent may do",
    "_Slot._open.mode": "the bits of a file",
}


class Default(NamedTuple):
    """A default that is written out in a class or signature."""

    owner: str
    name: str
    value: ast.expr

    @property
    def is_written_out(self) -> bool:
        """Return whether it is a number, a word or True; empty values are the same everywhere."""
        return isinstance(self.value, ast.Constant) and bool(self.value.value)


def defaults(module: ast.Module) -> Iterator[Default]:
    for node in statements(module):
        if isinstance(node, ast.ClassDef):
            for part in node.body:
                if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
                    if part.value is not None:
                        yield Default(node.name, part.target.id, part.value)
                elif isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield from of_function(part, f"{node.name}.{part.name}")
    for node in module.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from of_function(node, node.name)


def of_function(node: ast.FunctionDef | ast.AsyncFunctionDef, owner: str) -> Iterator[Default]:
    given = node.args
    named = [*given.posonlyargs, *given.args]
    for argument, value in zip(named[::-1], given.defaults[::-1], strict=False):
        yield Default(owner, argument.arg, value)
    for argument, keyword_value in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        if keyword_value is not None:
            yield Default(owner, argument.arg, keyword_value)


def second_defaults(module: ast.Module) -> list[str]:
    return [
        f"{each.owner}.{each.name}"
        for each in defaults(module)
        if each.name in NAMES
        and each.is_written_out
        and f"{each.owner}.{each.name}" not in OTHER_THINGS
    ]


def test_no_code_outside_the_schema_repeats_a_default() -> None:
    """Otherwise the program and the library could run with different defaults."""
    found = {
        str(path.relative_to(ROOT)): again
        for folder in ("agent_cli", "tools")
        for path in (ROOT / folder).rglob("*.py")
        if "settings" not in path.parts and "project" not in path.parts
        if GIVEN.search(path.read_text())  # looking through all takes most of the time
        if (again := second_defaults(tree(path)))
    }

    assert found == {}


@pytest.mark.parametrize(
    "source",
    [
        "class A:\n    max_rounds: int = 50",
        "class A:\n    def __init__(self, *, approval='defer'): ...",
        "def f(concurrency=4): ...",
    ],
)
def test_check_for_repeated_defaults_finds_them(source: str) -> None:
    assert GIVEN.search(source)
    assert len(second_defaults(ast.parse(source))) == 1


def test_shared_defaults_are_used_by_the_schema_and_by_other_code() -> None:
    """A default used in one place belongs in the schema."""
    shared = [name for name in vars(options) if re.fullmatch("[A-Z][A-Z_]+", name)]
    folders = (ROOT / "agent_cli", ROOT / "tools")
    sources = {path: path.read_text() for each in folders for path in each.rglob("*.py")}
    folder = ROOT / "agent_cli" / "settings"
    schema = sources.pop(folder / "schema.py") + sources.pop(folder / "extension_settings.py")
    del sources[ROOT / "agent_cli" / "contracts" / "options.py"]

    assert [name for name in shared if f"options.{name}" not in schema] == []
    others = "".join(sources.values())
    used = set(re.findall(r"(?:= |options\.)([A-Z][A-Z_]+)\b", others))
    assert [name for name in shared if name not in used] == []
