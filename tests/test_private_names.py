"""Private names of libraries that we use because there is no public equivalent.

Each test pins the behaviour the code relies on: an update that changes it fails here and not on a
user's screen.
"""

import ast
from collections import defaultdict

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.data_structures import Point
from prompt_toolkit.output import DummyOutput
from pygments.lexer import RegexLexer  # type: ignore[import-untyped]
from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]

from tests.test_architecture import nodes

OF_LIBRARIES = {
    "_tokens",
    "_cursor_pos",
    "_last_screen",
    "_last_size",
    "_last_style",
    "_min_available_height",
    "_redraw",
    "_running_in_terminal",
    "_working_lines",
}
OF_OURS_OR_PYTHON = {"_asdict", "_exit", "_fields", "_replace", "_run_exitfuncs", "_transport"}


def test_no_unlisted_private_name_of_a_library_is_used() -> None:
    """`self._x` aside, each use of a private attribute is justified here."""
    own: dict[str, set[str]] = defaultdict(set)
    defined: list[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]] = [
        *nodes(ast.FunctionDef),
        *nodes(ast.AsyncFunctionDef),
        *nodes(ast.ClassDef),
    ]
    for module, node in defined:
        own[module].add(node.name)
    for module, assigned in nodes(ast.AnnAssign):
        if isinstance(assigned.target, ast.Name):
            own[module].add(assigned.target.id)
    used = list[tuple[str, str]]()
    for module, attribute in nodes(ast.Attribute):
        if _is_self(attribute.value):
            own[module].add(attribute.attr)
        elif attribute.attr.startswith("_") and not attribute.attr.startswith("__"):
            used.append((module, attribute.attr))
    found = {name for module, name in used if name not in own[module]}

    assert found <= OF_LIBRARIES | OF_OURS_OR_PYTHON


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def test_pygments_rules_are_matchers_with_actions_and_targets() -> None:
    lexer = get_lexer_by_name("python")

    assert isinstance(lexer, RegexLexer)
    matches, _action, _target = lexer._tokens["root"][0]  # pyright: ignore[reportAttributeAccessIssue] - pinned here
    assert callable(matches)


def test_prompt_toolkits_renderer_remembers_where_it_drew() -> None:
    application: Application[None] = Application(output=DummyOutput())
    renderer = application.renderer

    assert renderer._cursor_pos == Point(0, 0)
    assert renderer._last_screen is None
    assert renderer._last_style is None
    assert renderer._last_size is None
    assert renderer._min_available_height == 0
    assert application._running_in_terminal is False
    assert callable(application._redraw)


def test_prompt_toolkits_buffer_keeps_typed_text_per_history_line() -> None:
    buffer = Buffer()
    buffer.text = "typed"

    assert list(buffer._working_lines) == ["typed"]
