"""The wheel, as a user gets it: its content, its requirements, and that it runs."""

import ast
import importlib.metadata
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from tests.test_architecture import tree

ROOT = Path(__file__).parents[1]
PIP = (sys.executable, "-m", "pip", "--isolated", "--quiet", "--disable-pip-version-check")
SOURCES = ("agent_cli", "tools/agent_cli_tools")
GENERATED = re.compile(r"(^|/)(\.|__pycache__/)")
# Those of the extras, and one that is used if installed: tokens go to the system's keyring instead
# of a file.
OPTIONAL = {
    *("PIL", "azure", "botocore", "bs4", "google", "keyring", "markdownify"),
    *("opentelemetry", "requests"),
}
DEMO_PROJECT = ROOT / "agent_cli" / "cli" / "demo" / "project"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from the tree as pip has it built, in a third of pip's time."""
    directory = tmp_path_factory.mktemp("wheel")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["build-system"]["build-backend"] == "hatchling.build"
    code = f"import hatchling.build; hatchling.build.build_wheel({str(directory)!r})"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=120)
    return next(directory.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command of an environment with the wheel and, lent by this one, its dependencies.

    The path entry comes after the wheel's own and runs no .pth files of the lender, so the tree
    installed there for development is not importable.
    """
    directory = tmp_path_factory.mktemp("environment")
    venv.create(directory, with_pip=False, symlinks=True)
    python = directory / "bin" / "python"
    # Compiling every module takes longer than the tests, which run a few of them.
    options = ["--no-index", "--no-deps", "--no-compile"]
    install = ["--python", str(python), "install", *options, str(wheel)]
    subprocess.run([*PIP, *install], check=True, timeout=120)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(directory)}))
    (packages / "lent.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return directory / "bin" / "agent-cli"


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    """Run an installed command away from the tree, without a key."""
    environment = {**os.environ, "PYTHONSAFEPATH": "1"}
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def test_wheel_holds_exactly_two_packages(wheel: Path) -> None:
    """A top-level `tools` or `tests` would overwrite other people's packages."""
    with zipfile.ZipFile(wheel) as archive:
        names = {name.partition("/")[0] for name in archive.namelist()}

    packages = {name for name in names if not name.endswith(".dist-info")}
    assert packages == {"agent_cli", "agent_cli_tools"}


def test_the_wheel_holds_every_file_of_the_packages(wheel: Path) -> None:
    """Prompts, model tables, recordings and py.typed are needed as much as the modules."""
    expected = {
        path.relative_to((ROOT / source).parent).as_posix()
        for source in SOURCES
        for path in (ROOT / source).rglob("*")
        if path.is_file() and not GENERATED.search(path.relative_to(ROOT).as_posix())
    }

    with zipfile.ZipFile(wheel) as archive:
        missing = expected - set(archive.namelist())

    assert missing == set()
    assert {"agent_cli/py.typed", "agent_cli_tools/py.typed"} <= expected


def test_installed_program_prints_the_example_settings(installed: Path) -> None:
    """Users may have no clone."""
    shown = run(installed, "config", "example")

    assert shown.stdout == (ROOT / "appsettings.example.toml").read_text(encoding="utf-8")


def test_every_import_is_a_declared_dependency() -> None:
    """S3-26: a package that is only an indirect dependency can disappear."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = {_normal(re.split(r"[<>=!~\[; ]", need)[0]) for need in project["dependencies"]}
    owners = importlib.metadata.packages_distributions()

    undeclared = {
        name: owners.get(name, ["(not installed)"])
        for name in _imported_packages()
        if declared.isdisjoint(_normal(owner) for owner in owners.get(name, []))
    }

    assert undeclared == {}


def _normal(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


def _imported_packages() -> set[str]:
    """Return the top-level third-party packages our source imports, wherever in a file.

    Not what only type checkers import: they bring typing_extensions with them.
    """
    names: set[str] = set()
    for path in (path for source in SOURCES for path in (ROOT / source).rglob("*.py")):
        if DEMO_PROJECT in path.parents:
            continue
        for node in _running(tree(path)):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names.add(node.module.partition(".")[0])
    return names - sys.stdlib_module_names - {"agent_cli", "agent_cli_tools"} - OPTIONAL


def _running(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all statements in *node* but those below `if TYPE_CHECKING:`."""
    for child in ast.iter_child_nodes(node):
        is_checked = isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"
        if not is_checked and not isinstance(child, ast.expr):
            yield child
            yield from _running(child)


def test_the_constraints_pin_this_environment() -> None:
    """An install next year gets the tested versions; other installed packages do not matter."""
    pins = _pins()

    installed = {
        name: distribution.version
        for distribution in importlib.metadata.distributions()
        if (name := distribution.metadata["Name"]) in pins
    }

    assert installed == pins
    assert all(re.fullmatch(r"[\w.]+", version) for version in pins.values())


def test_the_pinned_versions_allow_each_python_that_is_named() -> None:
    """Debian 12's Python is 3.11.2; a pin that needs another one ends `make demo` there.

    A test tool may refuse one that it was not tried with: `make test` installs it all the same.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    allowed = {
        name: SpecifierSet(str(importlib.metadata.metadata(name).json.get("requires_python", "")))
        for name in _pins()
    }

    refused = {
        name: pythons
        for name, each in allowed.items()
        if (pythons := [python for python in named if f"{python}.0" not in each])
    }

    assert len(named) == 5
    assert refused == {"agent-client-protocol": ["3.15"]}


def _pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def test_the_installed_command_says_its_version(installed: Path) -> None:
    """S3-26: the wheel works in an environment that has never seen the source tree."""
    done = run(installed, "--version")

    assert (done.returncode, done.stderr) == (0, "")
    assert importlib.metadata.version("agent-cli-repl") in done.stdout


def test_the_installed_command_plays_the_demo(installed: Path) -> None:
    """The recording, the prompts and the tools come from the wheel, offline and without a key."""
    done = run(installed, "demo")

    assert done.returncode == 0, done.stderr
    assert done.stdout != ""


def test_the_installed_packages_come_from_the_wheel(installed: Path) -> None:
    """Guards the two tests above: with the tree importable, they would prove nothing."""
    code = "import agent_cli, agent_cli_tools; print(agent_cli.__file__, agent_cli_tools.__file__)"

    done = run(installed.with_name("python"), "-c", code)

    assert done.returncode == 0, done.stderr
    assert str(ROOT) not in done.stdout
    assert done.stdout.count(str(installed.parents[1])) == 2
