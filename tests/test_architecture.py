"""Rules that import-linter cannot express: owners, sizes, habits of the source; one test each."""

import ast
import gc
import importlib
import inspect
import os
import re
import subprocess
import sys
import typing
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TypeVar

import pytest
from anthropic.types import Model

from agent_cli.contracts.options import FAST
from agent_cli.system.git import git_output
from tests.tables import each_row

ROOT = Path(__file__).parents[1]
Node = TypeVar("Node", bound=ast.AST)

# The broken project of the demo.
DEMO_PROJECT = ROOT / "agent_cli" / "cli" / "demo" / "project"
TOP_LEVEL = {
    *("agent_cli", "tools", "tests", "docs", "examples", "benchmarks", "integrations"),
    *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "AGENTS.md", "LICENSE"),
    *("pyproject.toml", "constraints.txt", "appsettings.example.toml", ".env.example"),
    *("Makefile", "mkdocs.yml", ".ci", ".github", ".gitignore"),
    *(".editorconfig", ".importlinter", ".pre-commit-config.yaml"),
}
# A folder ends in a slash; a module may have grown into a folder of its name.
OWNERS = {
    "anthropic": ("providers/",),
    "boto3": ("providers/anthropic/clouds/",),
    "azure": ("providers/anthropic/clouds/",),
    "google": ("providers/anthropic/clouds/",),
    "botocore": ("providers/anthropic/clouds/",),
    "httpx2": ("providers/", "mcp_client/", "hooks/run/", "web/", "system/http_requests/"),
    "bs4": ("web/page_process/",),  # a process of its own
    "markdownify": ("web/page_process/",),
    "tenacity": ("providers/",),
    "anyio": ("mcp_client/stdio/",),  # the SDK's streams
    "jwt": ("mcp_client/dpop/",),  # comes with the SDK
    "mcp": ("mcp_client/", "mcp_server/"),
    "mcp_types": ("mcp_client/", "mcp_server/"),
    "uvicorn": ("mcp_server/http/",),  # comes with the SDK
    "prompt_toolkit": ("repl/",),
    "wcwidth": ("repl/live/input/marks/",),
    "rich": ("terminal/views/",),
    "pygments": ("repl/",),
    "dotenv": ("settings/", "trust/effects/"),  # a file's content; its effects
    "tomllib": ("settings/", "trust/effects/", "providers/", "mcp_client/", "app/imports/"),
    "tree_sitter": ("policies/",),
    "tree_sitter_bash": ("policies/",),
    "PIL": ("attachments/",),
    "pypdf": ("attachments/pdf_process/",),  # a process of its own
    "yaml": ("prompt_files/written_servers/",),
    "opentelemetry": ("telemetry/",),
    "ray": (),  # loaded by name, in a process of its own: see batch/ray_driver.py
    "requests": ("telemetry/otlp/",),  # the HTTP client of the exporter
    # The model's input; a server's declarations.
    "jsonschema": ("contracts/schema_check/", "mcp_client/schemas/"),
    "referencing": ("contracts/schema_check/", "mcp_client/schemas/"),
}
WRITERS_TO_STDOUT = (
    "repl/",
    "headless/",
    "acp/process/",  # reserves stdout for the protocol
    "attachments/pdf_process/",  # a process of its own
    "cli/",
    "app/checks/doctor/",
    "system/stop_signals/",  # flushes it
    "web/page_process/",  # a process of its own
)
CATCHERS_OF_EVERYTHING = {
    "undo/watch/": "a fault of the record must not hold or fail the command that it records",
    "__main__/": "a signal in an import comes out as any exception; all others are raised again",
    "acp/connection/": "a bug costs one request, and the client reads of it",
    "acp/server/": "a session that breaks ends no other session",
    "app/jobs/": "a bug of an agent is its answer, and one in a run that a job began ends no other",
    "attachments/images/": "Pillow raises anything for a damaged image; it is told in one sentence",
    "attachments/pdf_process/": "pypdf raises anything for a damaged file; one sentence tells it",
    "web/page_process/": "its parsers raise anything for a damaged page; one sentence tells it",
    "batch/ray_driver/": "whatever Ray raises while it connects is told in one sentence",
    "batch/ray_worker/": "Ray's own errors, of a lost actor, exist only where Ray is installed",
    "cli/main/": "a bug or a damaged installation ends with one sentence; --verbose has the rest",
    "contracts/schema_check/": "whatever a stranger's schema breaks is told to the model",
    "core/listeners/": "a broken listener must not stop the run it listens to",
    "core/returned_values/": "a tool's bug becomes an answer the model reads",
    "core/preflight/": "a broken permission check becomes a question to the user",
    "core/foresight/": "a call whose dry run is broken is asked about as before",
    "core/tool_call/": "a tool's bug becomes an answer the model reads",
    "hooks/run/": "a hook that breaks is that hook's fault, and a guard then blocks",
    "mcp_client/connection/": "a server that fails in an unknown way costs only itself",
    "mcp_client/offering/": "a definition that breaks a check costs its tool, not the server",
    "providers/anthropic/clouds/account/": "a thread hands its error to whoever waits for it",
    "plugins/contributor/": "a package can raise anything, a bug costs its part and one warning",
    "plugins/states/": "a plugin that cannot migrate its state gets a fresh one",
    "repl/": "a bug of ours costs one line, and the prompt returns",
    "headless/": "the last line of output comes whatever happened",
    "system/event_loop/": "a thread's error is handed to whoever waits for it",
    "system/keeper/": "a forked child must end there, and say why",
    "system/supervisor/": "a forked child must end there and not return into its parent's code",
}
SAME_ROLE = {
    "Application": "the port of each front end to the program behind it",
}
# What a function may import: it is slow to import, optional, or of one platform.
LATE = {
    *("PIL", "azure", "botocore", "bs4", "google", "jwt", "markdownify", "pypdf"),  # optional, slow
    *("cryptography", "httpx2", "pydantic", "structlog", "yaml", "tree_sitter", "tree_sitter_bash"),
    *("asyncio", "difflib", "hashlib", "html", "importlib", "json", "textwrap", "unicodedata"),
    *("urllib", "ctypes", "pathlib", "platformdirs", "sysconfig", "re", "select", "termios"),
}
STARTERS_OF_BARE_TASKS = {
    "core/event_stream/": "a task group around a yield cancels whoever iterates (PEP 789)",
    "library/session/": "as core/event_stream: its generator yields",
    "agent_cli_tools/processes/": "nobody waits for a job while its command asks",
    "providers/arrivals/": "as core/event_stream: the generators that open a reply yield",
    "system/batches/": "a task group waits for a task that swallows its cancellation",
}
# All other waits of tests are for a condition, with a limit: see tests/waiting.py.
SLEEPERS = {
    "cli/test_session_decisions/": "an answer that comes before a person can read is refused",
    "e2e/public_api/world/": "a tool that takes a moment",
    "e2e/test_signals/": "the signal comes at a random moment of the program's life",
    "messages_api/gate/": "the pieces of a reply come one by one",
    "mcp_client/raw_server/": "a server that answers late",
    "mcp_client/test_features/": "a person thinks for longer than the time limit of a call",
    "undo/test_kills/": "the kill comes at a random moment of the undo",
    "repl/live/test_random_input/": "keys come at random moments, as from a person",
}
HANGS_S = 300  # A script that sleeps this long stands for a program that hangs.
SKIPPED_FOLDERS = {"__pycache__", "build", "dist", "node_modules"}


@cache
def sources() -> dict[str, Path]:
    """Return name → path of every module we ship; a name ends in a slash, as folders do."""
    package = ROOT / "agent_cli"
    tools = ROOT / "tools" / "agent_cli_tools"
    ours = (path for path in package.rglob("*.py") if DEMO_PROJECT not in path.parents)
    found = {f"{_name(path, package)}/": path for path in ours}
    found |= {f"agent_cli_tools/{_name(path, tools)}/": path for path in tools.rglob("*.py")}
    assert len(found) > 10
    return found


def _name(path: Path, package: Path) -> str:
    return path.relative_to(package).with_suffix("").as_posix()


@cache
def tree(path: Path) -> ast.Module:
    with uncollected():
        return ast.parse(path.read_text())


@contextmanager
def uncollected() -> Generator[None]:
    """Keep the garbage collector off what is made here: it stays, and is a million objects.

    The collector looked through the trees of all other files again and again, which took three
    quarters of the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


CORE = ("core/", "contracts/")
# Beyond that nobody sees which argument is which.
POSITIONAL_MAX = 6


def nodes(*kinds: type[Node]) -> Iterator[tuple[str, Node]]:
    """Yield (module, node) for everything in the source that is of one of these kinds."""
    for kind in kinds:
        for module, node in _by_kind().get(kind, ()):
            assert isinstance(node, kind)
            yield module, node


@cache
def _by_kind() -> dict[type[ast.AST], list[tuple[str, ast.AST]]]:
    found: dict[type[ast.AST], list[tuple[str, ast.AST]]] = {}
    with uncollected():
        for name, path in sources().items():
            for node in ast.walk(tree(path)):
                found.setdefault(type(node), []).append((name, node))
    return found


def imported(node: ast.AST) -> list[str]:
    """Return the modules an import statement names; "from a import b" is "a" and "a.b"."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module:
        return [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return []


def repository_texts() -> Iterator[tuple[str, str]]:
    """Yield (path, text) of every text file in a clone, except generated ones."""
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [f for f in folders if f not in SKIPPED_FOLDERS and _is_ours(Path(folder, f))]
        for path in (Path(folder, file) for file in files):
            if path.name == ".git":  # in a linked worktree it is a file that names its place
                continue
            try:
                yield str(path.relative_to(ROOT)), path.read_text()
            except UnicodeDecodeError:
                continue  # an image or an archive


def _is_ours(folder: Path) -> bool:
    """Return whether *folder* is part of the source; of the hidden ones, .ci and .github are."""
    return not folder.name.startswith(".") or folder.name in {".ci", ".github"}


def test_each_third_party_package_has_one_owner() -> None:
    """S1-01: the shell imports no SDK, the orchestrator no terminal; owners are listed above."""
    strangers = [
        f"{module} imports {package}"
        for module, node in nodes(ast.Import, ast.ImportFrom)
        for package in {name.partition(".")[0] for name in imported(node)}
        if package in OWNERS and not module.startswith(OWNERS[package])
    ]

    assert strangers == []


def test_dataclasses_are_made_by_the_decorator_that_compiles_late() -> None:
    """One by the standard library costs ten times as much at each start."""
    made = [
        module
        for module, node in nodes(ast.Import, ast.ImportFrom)
        if "dataclasses.dataclass" in imported(node) and module != "system/records/"
    ]

    assert made == []


def test_the_core_needs_the_standard_library_and_pydantic_only() -> None:
    """The loop runs where neither a model's SDK nor a terminal is installed."""
    allowed = {*sys.stdlib_module_names, "agent_cli", "pydantic", "structlog"}
    needed = [
        f"{module} imports {package}"
        for module, node in nodes(ast.Import, ast.ImportFrom)
        if module.startswith(CORE)
        for package in {name.partition(".")[0] for name in imported(node)}
        if package not in allowed and not module.startswith(OWNERS.get(package, ()))
    ]

    assert needed == []


def test_the_core_reads_no_terminal() -> None:
    """S1-01: front ends pass messages and answers to the core."""
    readers = {"sys.stdin", "input", "getpass.getpass"}
    found = [
        f"{module} line {node.lineno}"
        for module, node in nodes(ast.Attribute, ast.Call)
        if module.startswith(CORE)
        and ast.unparse(node.func if isinstance(node, ast.Call) else node) in readers
    ]

    assert found == []


def test_dependencies_between_types_loop_and_agent_are_one_way() -> None:
    """S0-02: types reach neither loop nor agent, at any distance; the loop reaches no agent."""
    contracts = [name.rstrip("/") for name in sources() if name.startswith("contracts/")]
    for name in (*contracts, "core/loop_config"):
        assert reached_from(name).isdisjoint({"core/loop", "core/agent"}), name
    assert "core/agent" not in reached_from("core/loop")


def test_arrows_between_rooms_are_few() -> None:
    """Layers say what a room may import; each pair that does is one more thing to know of both."""
    arrows = {
        (room, target)
        for module, node in nodes(ast.Import, ast.ImportFrom)
        if (room := _room(module))
        for name in imported(node)
        if (target := _room(name.removeprefix("agent_cli.").replace(".", "/") + "/"))
        if room != target
    }

    assert len(arrows) <= 140, sorted(arrows)


def _room(name: str) -> str:
    """Return the package of a module of ours, "" for a module that is in none."""
    room = name.partition("/")[0]
    return room if f"{room}/__init__/" in sources() else ""


def reached_from(name: str) -> set[str]:
    """Return every module of agent_cli that importing *name* can lead to."""
    reached: set[str] = set()
    waiting = [name]
    while waiting:
        path = sources().get(f"{waiting.pop()}/")
        for node in statements(tree(path)) if path else ():
            found = {
                dotted.removeprefix("agent_cli.").replace(".", "/")
                for dotted in imported(node)
                if dotted.startswith("agent_cli.")
            }
            waiting += found - reached
            reached |= found
    return reached


def test_no_two_public_classes_have_one_name() -> None:
    """A name stands for one thing; SAME_ROLE lists the roles that two adapters share."""
    homes: dict[str, list[str]] = {}
    for module, node in nodes(ast.ClassDef):
        if not node.name.startswith("_"):
            homes.setdefault(node.name, []).append(module)

    shared = {name: modules for name, modules in homes.items() if len(modules) > 1}
    assert {name: modules for name, modules in shared.items() if name not in SAME_ROLE} == {}
    assert shared.keys() == SAME_ROLE.keys()


def test_modules_are_neither_too_long_nor_too_many() -> None:
    """Docstrings and comments are free, so that nothing is cut short or split to fit a count.

    A module exists because it is a thing, not because another one was full.
    """
    code = {name: lines_of_code(path) for name, path in sources().items()}
    in_all = {name: len(path.read_text().splitlines()) for name, path in sources().items()}

    assert {name: count for name, count in code.items() if count > 300} == {}
    assert {name: count for name, count in in_all.items() if count > 400} == {}
    assert len(code) <= 620


def test_no_function_exceeds_60_lines() -> None:
    functions: list[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]] = [
        *nodes(ast.FunctionDef),
        *nodes(ast.AsyncFunctionDef),
    ]
    lengths = {
        f"{module}{node.name}": (node.end_lineno or 0) - node.lineno + 1
        for module, node in functions
    }

    assert {name: length for name, length in lengths.items() if length > 60} == {}


def test_calls_name_their_arguments_where_there_are_many() -> None:
    many = [
        f"{name}{node.lineno}" for name, node in nodes(ast.Call) if len(node.args) > POSITIONAL_MAX
    ]

    assert many == []


def test_each_module_of_the_core_has_a_test_file() -> None:
    """S0-70: so that a reader finds the contract of a module beside it."""
    modules = {path.stem for path in (ROOT / "agent_cli/core").glob("*.py")}
    tested = {path.stem.removeprefix("test_") for path in (ROOT / "tests/core").glob("test_*.py")}

    # Protocols only: nothing of it runs.
    assert modules - tested == {"__init__", "application"}


def test_the_loop_stays_small() -> None:
    """In other agents the loop grew until it was unreadable."""
    parts = {
        name: lines_of_code(sources()[f"core/{name}/"])
        for name in ("loop", "executor", "loop_config")
    }

    assert sum(parts.values()) <= 250, parts


def test_nine_files_to_read_first_are_in_the_readme_and_stay_short() -> None:
    """The README lists them in reading order; together they stay readable in one sitting."""
    readme = (ROOT / "README.md").read_text()
    listed = readme[readme.index("read these nine files") :]
    names = re.findall(r"`((?:contracts|core)/\w+)\.py`", listed)[:9]

    assert names[2:5] == ["core/loop_config", "core/turn", "core/loop"]
    assert len(set(names)) == 9
    assert sum(lines_of_code(sources()[f"{name}/"]) for name in names) <= 1_130


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield *node* and what is in it, but no expression: those are most of a tree."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.expr):
            yield from statements(child)


def lines_of_code(path: Path) -> int:
    """Return the number of lines that are neither blank nor comment nor docstring."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        line
        for node in statements(tree(path))
        if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None
        for line in range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)
    }
    return sum(
        number not in docstrings and not line.lstrip().startswith("#") and line.strip() != ""
        for number, line in enumerate(path.read_text().splitlines(), start=1)
    )


def test_tools_folder_is_a_source_root_and_not_a_package() -> None:
    """Started in a repository with its own `tools`, the program would run that code."""
    assert not (ROOT / "tools" / "__init__.py").exists()


def test_no_retired_model_is_named() -> None:
    """S0-71: the documents' own model is gone; an id we name must be known to the SDK."""
    current = set(typing.get_args(typing.get_args(Model)[0]))
    assert "claude-sonnet-5-5" in current
    pattern = re.compile(r"\bclaude-(?:[a-z]+-)?\d[\w-]*\w\b")
    retired = [
        f"{path}: {model}"
        for path, text in repository_texts()
        for model in set(pattern.findall(text))
        if model.removesuffix(FAST) not in current
    ]

    assert retired == []


def test_late_imports_put_off_something() -> None:
    """An import in a function is for a module that its own module does not load anyway.

    This check takes the place of a mark on each such line. Packages whose names are lazy
    (`system.loading.lazy_names`) load a module with each name.
    """
    lazy = {name for name, path in _by_dotted_name().items() if "lazy_names(" in path.read_text()}
    useless = [
        f"{name} line {node.lineno} imports {target}"
        for name, path in _by_dotted_name().items()
        for node in _late_imports(tree(path))
        for target in imported(node)
        if target in _loaded_with(name) - lazy
    ]

    assert useless == []


def test_foreign_modules_are_imported_late_only_as_listed() -> None:
    """Each is slow, optional, or of one platform, and what is at the top anyway is not late."""
    found = {
        (name, target.partition(".")[0])
        for name, path in _by_dotted_name().items()
        for node in _late_imports(tree(path))
        for target in imported(node)[:1]
        if target.partition(".")[0] not in {"agent_cli", "agent_cli_tools"}
    }

    assert {target for _name, target in found} == LATE
    assert [f"{name} imports {target}" for name, target in found if target in _foreign(name)] == []


def _foreign(name: str) -> set[str]:
    """Return the packages that *name*, and the modules of ours that it loads, import at the top."""
    modules = {name, *_loaded_with(name)}
    tops = (node for each in modules for node in tree(_by_dotted_name()[each]).body)
    return {target.partition(".")[0] for node in tops for target in imported(node)}


@cache
def _by_dotted_name() -> dict[str, Path]:
    """Return name → path of every module we ship, packages included, by their full names."""
    roots = (ROOT, ROOT / "tools")
    return {
        ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path
        for path in sources().values()
        for root in roots[path.is_relative_to(roots[1]) :][:1]
    }


def _late_imports(node: ast.AST, *, in_function: bool = False) -> Iterator[ast.stmt]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            continue  # most of the tree, and no statement is in one
        if in_function and isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
        yield from _late_imports(child, in_function=in_function or is_function)


@cache
def _loaded_with(name: str) -> frozenset[str]:
    """Return the modules of ours that an import of *name* loads, at any distance."""
    loaded: set[str] = set()
    waiting = [name]
    while waiting:
        body = tree(_by_dotted_name()[waiting.pop()]).body
        found = {each for node in body for each in imported(node)}
        found &= _by_dotted_name().keys() - loaded
        waiting += found
        loaded |= found
    return frozenset(loaded - {name})


def test_no_file_names_the_machine_it_was_written_on() -> None:
    """A path of one machine is wrong on every other."""
    places = re.compile(r"(?<![\w.~$}-])/(?:work/|root/\.|opt/(?:wheels|pypi))")
    found = [
        f"{path}: {line.strip()}"
        for path, text in repository_texts()
        if path != str(Path(__file__).relative_to(ROOT))
        for line in text.splitlines()
        if places.search(line)
    ]

    assert found == []


def test_top_level_holds_only_what_belongs_there() -> None:
    """A script run by hand in the checkout may leave a file there, which `git add` takes along."""
    listed = git_output(ROOT, "ls-files", limit_s=20)
    if listed is None:
        pytest.skip("this copy of the source is no git repository")

    assert {path.partition("/")[0] for path in listed.splitlines()} - TOP_LEVEL == set()


def test_only_front_ends_write_to_stdout() -> None:
    """Stdout carries answers; one stray line breaks every parser of it."""
    found = [
        f"{module} line {node.lineno}"
        for module, node in nodes(ast.Call, ast.Attribute)
        if not module.startswith(WRITERS_TO_STDOUT) and _writes_to_stdout(node)
    ]

    assert found == []


@each_row(
    ("source", "writes"),
    [
        ("print(1)", True),
        ("print(1, file=sys.stderr)", False),
        ("sys.stdout", True),
        ("sys.stderr.write(sys)", False),
    ],
)
def test_check_for_writes_to_stdout_finds_them(source: str, writes: bool) -> None:
    node = ast.parse(source, mode="eval").body

    assert _writes_to_stdout(node) is writes


def _writes_to_stdout(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="print"), keywords=keywords):
            return "file" not in {keyword.arg for keyword in keywords}
        case ast.Attribute(value=ast.Name(id="sys"), attr="stdout"):
            return True
        case _:
            return False


def test_catch_all_handlers_are_only_in_listed_modules() -> None:
    """A catch-all hides bugs, unless it raises the error again."""
    found = [
        f"{module} line {node.lineno}"
        for module, node in nodes(ast.ExceptHandler)
        if not module.startswith(tuple(CATCHERS_OF_EVERYTHING))
        and (node.type is None or _names(node.type) & {"Exception", "BaseException"})
        and not (isinstance(last := node.body[-1], ast.Raise) and last.exc is None)
    ]

    assert found == []


def test_no_pattern_repeats_a_group_possessively() -> None:
    """Before 3.11.5, as in Debian 12, Python keeps what a repetition took that did not match.

    `(?>(?:...)*)` means the same as `(?:...)*+`. Source: github.com/python/cpython/issues/106052.
    """
    # Not a check of each constant: patterns are built of pieces, too.
    possessive = re.compile(r"\)(?:[*+?]|\{[\d,]+\})\+")
    assert [name for name, path in sources().items() if possessive.search(path.read_text())] == []


def test_no_group_handler_raises() -> None:
    """Before Python 3.11.4, the exception arrives wrapped in a group, and nobody expects that."""
    found = [
        f"{module} line {raised.lineno}"
        for module, node in nodes(ast.TryStar)
        for handler in node.handlers
        for raised in ast.walk(handler)
        if isinstance(raised, ast.Raise) and raised.exc is not None
    ]

    assert found == []


def _names(node: ast.AST) -> set[str]:
    return {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}


def test_tasks_start_in_a_task_group_only() -> None:
    """A bare task can outlive its caller, and its error is lost."""
    found = [
        f"{module} line {node.lineno}"
        for module, node in nodes(ast.Call)
        if not module.startswith(tuple(STARTERS_OF_BARE_TASKS))
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in {"create_task", "ensure_future"}
        and _last_name(node.func.value) not in _task_groups(tree(sources()[module]))
    ]

    assert found == []


def _task_groups(module: ast.Module) -> Iterator[str]:
    """Yield the names of task groups in *module*: those assigned or annotated as one."""
    for node in ast.walk(module):
        match node:
            case ast.withitem(context_expr=ast.Call(func=made), optional_vars=ast.expr() as group):
                if _last_name(made) == "TaskGroup":
                    yield _last_name(group)
            case ast.Assign(targets=[ast.expr() as group], value=ast.Call(func=made)):
                if _last_name(made) == "TaskGroup":
                    yield _last_name(group)
            case ast.arg(annotation=ast.expr() as kind):
                if _last_name(kind) == "TaskGroup":
                    yield node.arg
            case ast.AnnAssign(target=target, annotation=kind):
                if _last_name(kind) == "TaskGroup":
                    yield _last_name(target)
            case _:
                pass


def _last_name(node: ast.AST) -> str:
    """Return "group" for `group`, `self._group` and `asyncio.group`."""
    return ast.unparse(node).rpartition(".")[2].lstrip("_")


def assert_starts_in(folder: Path, *flags: str, **variables: str) -> None:
    """Start the program in *folder* with *flags* of Python."""
    run = subprocess.run(
        [sys.executable, *flags, "-m", "agent_cli", "config", "show"],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (run.returncode, run.stderr) == (0, "")


def test_modules_of_the_working_directory_are_not_imported(tmp_path: Path) -> None:
    """Opened in a hostile repository, the program must not run the repository's code."""
    for module in ("argparse", "asyncio", "json", "logging", "pydantic", "rich", "structlog"):
        (tmp_path / f"{module}.py").write_text(f"raise SystemExit('imported {module} from here')")

    assert_starts_in(tmp_path)


@pytest.mark.parametrize("named", [".", "", f".{os.pathsep}/nowhere", f"{os.pathsep}/nowhere"])
def test_relative_folder_of_pythonpath_shadows_no_module(tmp_path: Path, named: str) -> None:
    """Threat 12: `PYTHONPATH=$PYTHONPATH:/x` has an empty part, which is the working directory."""
    for module in ("argparse", "asyncio", "json", "logging", "mcp", "pydantic", "structlog"):
        (tmp_path / f"{module}.py").write_text(f"raise SystemExit('imported {module} from here')")

    assert_starts_in(tmp_path, "-P", PYTHONPATH=named)


def test_empty_pythonpath_names_no_folder(tmp_path: Path) -> None:
    """Python ignores it. The program looked for the working directory, which may be gone."""
    run = subprocess.run(
        ["sh", "-c", 'rmdir "$PWD" && exec "$0" -P -m agent_cli config show', sys.executable],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    message = "agent-cli: the current directory is gone: change to one that exists\n"
    assert (run.returncode, run.stderr) == (2, message)


def test_python_with_option_p_imports_nothing_from_the_working_directory(
    tmp_path: Path,
) -> None:
    """Threat 12: `python -m` imports typing before our first line; -P prevents that."""
    for module in ("typing", "contextlib", "types", "pkgutil", "json"):
        (tmp_path / f"{module}.py").write_text(f"raise SystemExit('imported {module} from here')")

    assert_starts_in(tmp_path, "-P")


def test_no_script_hides_a_module_of_the_standard_library() -> None:
    """Started by its path, a script has its own folder first on sys.path for all imports."""
    folders = ("benchmarks", "docs", "examples")
    names = {path.stem for folder in folders for path in (ROOT / folder).glob("*.py")}

    assert len(names) > len(folders)
    assert names & sys.stdlib_module_names == set()


def test_every_exported_name_can_be_imported_and_says_what_it_is() -> None:
    """S0-02, S3-26: the package root names the library, and each name is documented."""
    package = importlib.import_module("agent_cli")

    exported = {name: getattr(package, name) for name in package.__all__}

    assert {"Agent", "agent_loop", "agent_loop_continue", "Tool", "ToolResult"} <= exported.keys()
    assert {"Plugin", "PluginContext", "PluginState", "ToolError"} <= exported.keys()
    assert [name for name, value in exported.items() if not _is_documented(name, value)] == []


def test_exports_for_type_checkers_match_the_exported_names() -> None:
    """S3-26: the names are listed twice, for type checkers and for the interpreter."""
    package = importlib.import_module("agent_cli")
    tree = ast.parse((ROOT / "agent_cli" / "__init__.py").read_text())
    checking = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {
        name.asname
        for node in checking.body
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }

    assert {*seen, "__version__"} == set(package.__all__)
    assert set(package.__all__) <= set(dir(package))


def _is_documented(name: str, value: object) -> bool:
    """Return whether a class or function has a written docstring, not a dataclass's default one."""
    if not inspect.isclass(value) and not inspect.isroutine(value):
        return True
    documentation = value.__doc__ or ""
    return documentation != "" and not documentation.startswith(f"{name}(")


def test_importing_the_package_loads_only_its_version() -> None:
    """`--version` needs this much, and must not wait for the loop and pydantic."""
    loaded = subprocess.run(
        [sys.executable, "-c", "import agent_cli, sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout.split()

    ours = {name for name in loaded if name.startswith("agent_cli.")}
    assert ours <= {"agent_cli.version"}
    assert "pydantic" not in loaded


def test_tests_wait_for_conditions_and_not_for_time() -> None:
    """A fixed wait is too short on a busy machine, and too long on all others."""
    tests = ROOT / "tests"
    sleepers = {
        f"{_name(path, tests)}/ line {line}"
        for path in tests.rglob("*.py")
        if "sleep(" in path.read_text()
        for line in _fixed_waits(tree(path))
    }
    listed = {found for found in sleepers if found.startswith(tuple(SLEEPERS))}

    assert sleepers - listed == set()
    assert {found.partition(" ")[0] for found in listed} == SLEEPERS.keys()


@each_row(
    ("source", "waits"),
    [
        ("time.sleep(0.1)", True),
        ("async def f():\n    await asyncio.sleep(limit_s)", True),
        ("await asyncio.sleep(0)", False),
        ("time.sleep(600)", False),
        ("while not done():\n    time.sleep(0.01)", False),
        ("for _ in range(9):\n    def f():\n        sleep(1)", True),
    ],
)
def test_check_for_fixed_waits_finds_them(source: str, waits: bool) -> None:
    assert bool([*_fixed_waits(ast.parse(source))]) == waits


def _fixed_waits(node: ast.AST, *, in_loop: bool = False) -> Iterator[int]:
    """Yield the line of each sleep that is not the pause of a loop."""
    match node:
        case ast.Call(func=ast.Name(id="sleep") | ast.Attribute(attr="sleep"), args=args):
            seconds = args[0].value if args and isinstance(args[0], ast.Constant) else None
            is_wait = seconds is None or (
                isinstance(seconds, int | float) and 0 < seconds < HANGS_S
            )
            if is_wait and not in_loop:
                yield node.lineno
        case _:
            pass
    if isinstance(node, ast.While | ast.For | ast.AsyncFor):
        in_loop = True
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        in_loop = False
    for child in ast.iter_child_nodes(node):
        yield from _fixed_waits(child, in_loop=in_loop)
