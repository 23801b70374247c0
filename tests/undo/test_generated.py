"""The folders that can be built again: about the files that they lose, nobody is asked."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_cli.app.person import ModelsPerson
from agent_cli.app.workspace.losses import LossDecider
from agent_cli.policies.permissions import Permissions
from agent_cli.policies.shell import Reach
from agent_cli.undo.generated import KINDS, GeneratedFolders, is_cache
from agent_cli.undo.logs import CommandQuestion, GeneratedFolder, Loss
from agent_cli.undo.stopped_calls import why_missing
from agent_cli_tools import command_run
from tests.tools.test_undo_commands import Session
from tests.tools.undoing import tree

watching = pytest.mark.skipif(why_missing() != "", reason=why_missing() or "-")


def run(script: str, folder: Path) -> None:
    subprocess.run(["bash", "-c", script], cwd=folder, check=True)


def around(root: Path, path: str, there: str = "") -> str:
    """Return the folder around *path* that can be built again, in a workspace with these files."""
    for name in there.split():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    found = GeneratedFolders([str(root)]).around(f"{root}/{path}")
    return found.removeprefix(f"{root}/")


@pytest.mark.parametrize(
    ("path", "there", "folder"),
    [
        ("node_modules/a/b.js", "package.json", "node_modules"),
        ("node_modules/a/b.js", "node_modules/.package-lock.json", "node_modules"),
        ("web/node_modules/a/dist/b.js", "web/package.json", "web/node_modules"),
        ("target/debug/x", "Cargo.toml target/CACHEDIR.TAG", "target"),
        ("target/debug/x", "target/.rustc_info.json", "target"),
        ("app/obj/x.dll", "app/app.csproj app/obj/Debug/x", "app/obj"),
        ("app/obj/x.dll", "app/obj/project.assets.json", "app/obj"),
        ("build/f", "setup.py build/lib.linux-x86_64-3.11/a.py", "build"),
        ("dist/app/main.js", "package.json dist/app/index.html", "dist"),
        ("deps/jason/mix.exs", "mix.exs deps/jason/.hex", "deps"),
        ("build/x", "settings.gradle build/reports/problems/x.html", "build"),
        ("my.venv/.venv/bin/python", "my.venv/.venv/pyvenv.cfg", "my.venv/.venv"),
        ("a/__pycache__/x.pyc", "a/x.py", "a/__pycache__"),
        ("build/tools/node_modules/x.js", "build/tools/package.json", "build/tools/node_modules"),
        ("node_modules/a/b.js", "package.jsonx", ""),
        ("build/x", "Makefile", ""),
        ("target/x", "Cargo.toml", ""),
        ("target/x", "target/CACHEDIR.TAG", ""),
        ("build/notes.md", "setup.py package.json pom.xml CMakeLists.txt build.gradle", ""),
        ("dist/thesis.tex", "package.json dist/images/photo.jpg", ""),
        ("vendor/mine.php", "composer.json vendor/own/patch.php", ""),
        ("deps/x", "mix.exs deps/notes/a.md", ""),
        ("data/x", "data/CACHEDIR.TAG", ""),
        ("venv/x", "pyproject.toml", ""),
        ("node_modules", "package.json", ""),
        ("xnode_modules/a", "package.json", ""),
        ("notes/a.md", "package.json", ""),
        ("vendor/mine/.git/config", "composer.json", ""),
        (".git/modules/build/x", "pyproject.toml", ""),
    ],
)
def test_folder_needs_a_name_and_a_proof(
    tmp_path: Path, path: str, there: str, folder: str
) -> None:
    """A tag that its user may have put there does not do, nor what is a repository of its own.

    Nor the project's file beside a `build/` that its user filled: its tool leaves something inside.
    """
    assert around(tmp_path, path, there) == folder


def test_workspace_may_lie_in_a_cache() -> None:
    """As one that a test made."""
    roots = ["/a/.pytest_cache/work", "/b"]

    found = [f"{root}{path}" for root in roots for path in ("/x.py", "/d/__pycache__/x", "/.tox/x")]

    assert [is_cache(path, roots) for path in found] == [False, True, True] * 2
    assert not is_cache("/c/.tox/x", roots)


def test_name_above_the_workspace_proves_nothing(tmp_path: Path) -> None:
    """Who works in `build/` works on all in it."""
    (tmp_path / "package.json").touch()
    root = tmp_path / "build"
    root.mkdir()

    assert around(root, "src/x.c") == ""
    assert GeneratedFolders([str(root)]).around(str(tmp_path / "build/x")) == ""
    assert GeneratedFolders([]).around(f"{root}/x") == ""


def test_proof_is_what_was_there_at_the_first_look(tmp_path: Path) -> None:
    (tmp_path / "env").mkdir()
    proof = tmp_path / "env/pyvenv.cfg"
    proof.touch()
    (tmp_path / "env/.gitignore").write_text("# made by a tool\n*\n")
    folders = GeneratedFolders([str(tmp_path)])
    folder = str(tmp_path / "env")

    assert folders.around(str(proof)) == folder
    proof.unlink()
    (tmp_path / "env/.gitignore").unlink()
    assert folders.around(f"{folder}/lib/x") == folder
    assert folders.ignores_itself(folder)
    folders.reject(folder)
    assert folders.around(f"{folder}/lib/x") == ""


def test_documentation_names_each_folder_of_the_table() -> None:
    """The person reads there what needs no question."""
    page = (Path(__file__).parents[2] / "docs/undo.md").read_text()

    names = {name for kind in KINDS for name in kind.names.split()}
    assert [name for name in sorted(names) if f"`{name}`" not in page] == []


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    """In a repository whose git ignores much, with nobody to ask."""
    monkeypatch.setattr(command_run, "may_gain_rights", lambda *_a, **_k: False)
    root = tmp_path / "work"
    root.mkdir()
    (root / ".gitignore").write_text("node_modules/\nbuild/\nnotes/\nlib/*\n!lib/mine\n*.sqlite\n")
    (root / "package.json").touch()
    for folder in ("node_modules/.bin", "notes", "lib", "build", ".venv/lib", "data"):
        (root / folder).mkdir(parents=True)
        for number in range(9):
            (root / folder / f"f{number}").write_text(folder)
    (root / ".venv/pyvenv.cfg").touch()
    (root / "build/f9.js").touch()
    (root / ".venv/.gitignore").write_text("*\n")
    for number in range(9):
        (root / f"n{number}.sqlite").touch()
    script = "git init -q . && git add package.json .gitignore"
    run(script, root)
    made = Session(root, tmp_path / "state")
    permissions = Permissions(Reach(root=root))
    person = ModelsPerson(lambda: permissions)
    decider = LossDecider(person, lambda: permissions, root)

    async def decide(command: str, question: CommandQuestion) -> bool:
        if isinstance(question, Loss):
            made.asked.append(question)
        return await decider.decide(command, question)

    made.snapshots.decide = decide
    made.ask_beyond = (4, 0)
    made.run()
    yield made
    made.close()


@watching
@pytest.mark.parametrize(
    "command",
    [
        "rm -rf node_modules",
        "rm -rf .venv",
        "rm -rf build node_modules .venv",
        "mv node_modules/.bin node_modules/bin; rm -r node_modules; rm data/f[0-3]",
        "for f in build/*; do echo new > $f; done",
        "echo > build/f1; echo {} > package.json; rm -r build",
        "git clean -qfdX build",
    ],
)
async def test_what_can_be_built_again_and_git_ignores_is_lost_without_a_question(
    session: Session, command: str
) -> None:
    """And yet it is recorded."""
    before = tree(session.root)

    said = await session.bash(command)

    assert session.asked == [], said
    assert tree(session.root) != before
    session.undo()
    assert tree(session.root) == before


@watching
@pytest.mark.parametrize(
    ("prepare", "command"),
    [
        ("rm -rf .git", "rm -rf node_modules .venv"),
        ("rm .gitignore", "rm -rf node_modules"),
        ("cp /bin/true a.o; cp /bin/true b.o; cp /bin/true c.o; cp a.o d.o", "rm *.o; rm data/f1"),
        ("for i in {1..6}; do printf 'a/m.o: m.c \\\\\\n x.h' > $i.d; done", "rm *.d"),
    ],
)
async def test_what_its_tool_alone_can_have_made_needs_no_rule_of_git(
    session: Session, prepare: str, command: str
) -> None:
    """A new project has no repository yet, or no list of what it ignores; C is built in place."""
    (session.root / "node_modules/.package-lock.json").touch()
    run(prepare, session.root)
    before = tree(session.root)

    said = await session.bash(command)

    assert session.asked == [], said
    assert tree(session.root) != before
    session.undo()
    assert tree(session.root) == before


@watching
@pytest.mark.parametrize(
    ("prepare", "command"),
    [
        ("for i in {1..6}; do echo mine > $i.o; echo mine > $i.d; done", "rm *.o *.d"),
        ("git add -f node_modules/.bin/f3", "rm -rf node_modules"),
        ("echo broken > .git/HEAD", "rm -rf node_modules"),
    ],
)
async def test_what_only_looks_made_by_a_tool_is_asked_about(
    session: Session, prepare: str, command: str
) -> None:
    """By its name, or because git holds a part of it, or cannot say so."""
    (session.root / "node_modules/.package-lock.json").touch()
    run(prepare, session.root)

    await session.bash(command)

    assert [loss.files for loss in session.asked] == [4]


@watching
@pytest.mark.parametrize(
    ("prepare", "command", "lost"),
    [
        (":", "rm -rf data", "data"),
        (":", "rm -rf notes", "notes"),
        (":", "rm *.sqlite", "n"),
        (":", "rm -rf node_modules; rm -rf data", "data"),
        (":", "rm -rf lib", "lib"),
        ("git add -f build/f3", "rm -rf build", "build"),
        ("sed -i /build/d .gitignore", "rm -rf build", "build"),
        ("rm package.json", "rm -rf build", "build"),
        ("rm package.json", "echo > package.json; rm -rf build", "build"),
        ("rm build/f9.js", "rm -rf build", "build"),
        ("rm build/f9.js", "touch build/f9.js; rm -rf build", "build"),
        (":", "mv data build/data; rm -rf build", "build"),
        ("rm -r build", "mv data build; rm -rf build", "build"),
        ("rm -r build; mkdir build", "mv build b; mv data build; rm -rf build", "build"),
        ("rm -rf .git", "rm -rf node_modules", "node_modules"),
        ("rm -r node_modules; ln -s data node_modules", "rm -rf node_modules/*", "data"),
        ("git init -q node_modules/mine", "rm -rf node_modules/mine/.git", "node_modules/mine"),
    ],
)
async def test_what_may_be_work_of_a_person_is_still_asked_about(
    session: Session, prepare: str, command: str, lost: str
) -> None:
    """Also where the command, or a link, brings it into such a folder."""
    run(prepare, session.root)

    await session.bash(command)

    assert [loss.files for loss in session.asked] == [4]
    paths = [*session.asked[0].paths, session.asked[0].next]
    assert all(path.startswith(f"{session.root}/{lost}") for path in paths), paths


@watching
async def test_file_that_cannot_be_kept_in_such_a_folder_is_lost_without_a_question(
    session: Session,
) -> None:
    """A build overwrites its large results; /undo names them."""
    large = session.root / "build/large"
    large.write_bytes(b"x" * 1_500_000)

    await session.bash("echo > build/large")

    assert session.asked == []
    assert session.undo().faults == [f"{large}: it is larger than undo.max_mb"]


async def test_only_git_can_say_that_a_folder_is_ignored(tmp_path: Path) -> None:
    """Without a repository nobody knows, so a person is asked."""
    permissions = Permissions(Reach(root=tmp_path))
    decider = LossDecider(None, lambda: permissions, tmp_path)
    (tmp_path / "build").mkdir()
    question = GeneratedFolder(str(tmp_path / "build"), ignores_itself=False)
    answers = [await decider.decide("make", question)]

    for script in ("git init -q .", "echo build > .gitignore", "echo > build/x; git add -f build"):
        run(script, tmp_path)
        answers.append(await decider.decide("make", question))

    assert answers == [False, False, True, False]
