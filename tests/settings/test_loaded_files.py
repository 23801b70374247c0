"""The files that a guard runs or loads: a pull that changes one of them changes the guard."""

import json
from pathlib import Path

import pytest

from agent_cli.trust.store import TrustStore
from tests.hooks.test_scripts import command, hooks
from tests.trust.test_guards import git

WORKSPACE = Path("project")
PY, SH, JS = "python3 hooks/guard.py", "hooks/guard.sh", "node hooks/guard.mjs"
GUARDS = {
    "package": (
        PY,
        {"guard.py": "from rules.bad import bad", "rules/bad.py": "", "rules/__init__.py": ""},
    ),
    "module on a line": (PY, {"guard.py": "import sys; import rules", "rules.py": ""}),
    "module by name": (PY, {"guard.py": "import_module('rules')", "rules.py": ""}),
    "names over lines": (PY, {"guard.py": "from . import (\n  a,\n  rules,\n)", "rules.py": ""}),
    "module of a package": (PY, {"guard.py": "from lib import rules", "lib/rules.py": ""}),
    "indirect": (PY, {"guard.py": "import a", "a.py": "import rules", "rules.py": ""}),
    "search path": (
        PY,
        {"guard.py": "sys.path.insert(0, 'hooks/lib')\nimport rules", "lib/rules.py": ""},
    ),
    "python -m": ("python3 -m hooks.guard", {"__init__.py": "", "guard.py": ""}),
    "python -c": ('python3 -c "from hooks import guard"', {"guard.py": ""}),
    "list beside": (PY, {"guard.py": "open('hooks/rules.yaml')", "rules.yaml": "a"}),
    "filter beside": (SH, {"guard.sh": 'jq -f "$(dirname "$0")/deny.jq"', "deny.jq": "a"}),
    "program": (SH, {"guard.sh": 'exec "$(dirname "$0")/check"', "check": "exit 2"}),
    "sourced": (SH, {"guard.sh": ". hooks/lib/common", "lib/common": "exit 2"}),
    "gone to": (SH, {"guard.sh": "cd hooks/lib && ./check.sh", "lib/check.sh": "exit 2"}),
    "bash -c": ("bash -c 'source hooks/lib.bash; check'", {"lib.bash": "exit 2"}),
    "import": (JS, {"guard.mjs": 'import x from "./lib"', "lib/index.ts": ""}),
    "required data": (JS, {"guard.mjs": 'require("./rules")', "rules.json": "{}"}),
    "node -e": ("node -e \"require('./hooks/guard')\"", {"guard.js": ""}),
    "ruby": ("ruby hooks/guard.rb", {"guard.rb": 'require_relative "rules"', "rules.rb": ""}),
    "perl": ("perl hooks/guard.pl", {"guard.pl": "use My::Rules;", "My/Rules.pm": ""}),
    "lua": ("lua hooks/guard.lua", {"guard.lua": 'dofile("hooks/rules.lua")', "rules.lua": ""}),
    "php": (
        "php hooks/guard.php",
        {"guard.php": "require __DIR__ . '/rules.php';", "rules.php": ""},
    ),
    "go": ("go run ./hooks", {"main.go": "package main", "rules.go": ""}),
    "make": ("make -s guard", {"../Makefile": "guard:\n\texit 2\n"}),
    "make's script": ("make guard", {"../Makefile": "guard:\n\thooks/check.sh\n", "check.sh": ""}),
    "npm": ("npm run guard", {"../package.json": '{"scripts": {"guard": "exit 2"}}'}),
    "npm's script": (
        "npm run guard",
        {"../package.json": '{"scripts": {"guard": "node hooks/guard.js"}}', "guard.js": ""},
    ),
}
_PROTECTS = "NAMES = ['.env', 'package-lock.json', '.git/', 'src/settings.json', 'hooks/log.json']"


def trusted(run: str, files: dict[str, str]) -> Path:
    """Trust a repository with the guard *run* and *files*; return the folder of its hooks."""
    folder = WORKSPACE / "hooks"
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    hooks(WORKSPACE, PreToolUse=command(run, "Bash"))
    git(WORKSPACE, "init")
    git(WORKSPACE, "add", "--all")
    TrustStore.of_user().trust(WORKSPACE.resolve())
    return folder


def lost() -> tuple[str, ...]:
    return TrustStore.of_user().standing(WORKSPACE.resolve()).lost


@pytest.mark.parametrize("case", GUARDS)
def test_change_of_any_file_that_a_guard_loads_changes_the_guard(case: str) -> None:
    """Whatever its language, and however far from its definition."""
    run, files = GUARDS[case]
    folder = trusted(run, files)

    for name in files:
        path = folder / name
        text = path.read_text()
        path.write_text("" if text else "exit(0)")

        assert path.resolve().relative_to(WORKSPACE.resolve()).as_posix() in lost()
        path.write_text(text)


def test_new_file_that_a_guard_would_load_changes_the_guard() -> None:
    """Python looks beside the script before it looks into its own library."""
    folder = trusted(PY, {"guard.py": "import json, sys"})
    assert lost() == ()

    (folder / "json.py").write_text("raise SystemExit(0)")

    assert lost() == ("hooks/json.py",)


def test_script_behind_a_link_loads_what_lies_beside_it() -> None:
    folder = trusted("python3 hooks/guard.py", {"../real/guard.py": "import a", "../real/a.py": ""})
    (folder / "guard.py").parent.mkdir(exist_ok=True)
    (folder / "guard.py").symlink_to("../real/guard.py")
    TrustStore.of_user().trust(WORKSPACE.resolve())

    (WORKSPACE / "real/a.py").write_text("exit()")

    assert lost() == ("real/a.py",)


@pytest.mark.parametrize("name", ["package-lock.json", "src/settings.json", "hooks/log.json"])
def test_file_that_a_guard_protects_or_writes_is_no_part_of_it(name: str) -> None:
    """Records of a script are not in git; what it names elsewhere is what it guards."""
    trusted(PY, {"guard.py": _PROTECTS, "../package-lock.json": "{}", "../src/settings.json": "{}"})

    path = WORKSPACE / name
    path.write_text("[1]")

    assert lost() == ()


def test_new_package_leaves_a_guard_that_npm_runs_as_it_is() -> None:
    text = {"scripts": {"guard": "exit 2"}}
    folder = trusted("npm run guard", {"../package.json": json.dumps(text)})

    (folder / "../package.json").write_text(json.dumps({**text, "dependencies": {"a": "1"}}))

    assert lost() == ()
