"""Other programs write in the workspace while a command runs, and lose nothing of it."""

import asyncio
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from agent_cli.sandbox import Sandbox, State
from agent_cli.sandbox.aftermath import Appeared, Undecided, same_but_harmless
from tests.sandbox.world import Decider, World, git, only, run_confined, world
from tests.tables import each_row

KINDS: tuple[Mapping[str, str], ...] = (
    {".claude/settings.json": "{}", ".claude/hooks/x.sh": "true"},
    {".vscode/tasks.json": "{}"},
    {".mcp.json": "{}"},
    {"deep/er/.cursor/mcp.json": "{}"},
    {".git/HEAD": "ref: refs/heads/main\n", ".git/config": "[core]\n\tfsmonitor = mine\n"},
    {".git/HEAD": "ref: refs/heads/main\n", ".git/hooks/pre-commit": "true"},
    {".git": "gitdir: /somewhere/else\n"},
    {"HEAD": "ref: x\n", "objects/x": "", "refs/x": "", "config": "[alias]\n\tx = !mine\n"},
)


def _write(folder: Path, files: Mapping[str, str]) -> dict[Path, str]:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return {folder / name: text for name, text in files.items()}


def _beside(work: Callable[[], object], neighbour: Callable[[], None]) -> None:
    """Do *work* again and again until *neighbour* has ended, and once more."""
    thread = threading.Thread(target=neighbour)
    thread.start()
    while thread.is_alive():
        work()
    thread.join()
    work()


def _changed(files: Mapping[Path, str]) -> list[Path]:
    return [path for path, text in files.items() if not _is(path, text)]


def _is(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text() == text


@each_row("state", ["bwrap", "landlock"])
@pytest.mark.parametrize("count", [24, pytest.param(1_000, marks=pytest.mark.slow)])
def test_busy_neighbour_loses_nothing(state: State, count: int) -> None:
    """Threat 11: 58 of 128 files were gone after two `sleep 1`, taken for its work."""
    with world(state, person=Decider(answer=None, can_ask=False)) as place:
        made: dict[Path, str] = {}

        def neighbour() -> None:
            for number in range(count):
                made.update(_write(place.root / f"p{number}", KINDS[number % len(KINDS)]))
            made.update(_write(place.root, {"opencode.json": "{}", ".zed/tasks.json": "{}"}))

        _beside(lambda: _run(place, "sleep 0.05; echo x > own"), neighbour)

        assert len(made) > count
        assert _changed(made) == []


def _run(place: World, command: str) -> None:
    confinement = asyncio.run(place.sandbox.confine(place.root))
    assert confinement is not None
    run = run_confined(confinement, command, place.root, dict(os.environ))
    confinement.release()
    asyncio.run(place.sandbox.settle())
    assert run.returncode == 0, run.stderr


@each_row("state", ["bwrap", "landlock"])
def test_file_that_another_program_was_about_to_write_is_new(state: State) -> None:
    """Threat 11: a neighbour had created it and not written it yet when the command began."""
    with world(state, person=Decider(answer=None, can_ask=False)) as place:
        files = [place.root / "p/.claude/hooks/x.sh", place.root / "p/.mcp.json"]
        for path in files:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        confinement = asyncio.run(place.sandbox.confine(place.root))
        assert confinement is not None

        for path in files:
            path.write_text("true")
        run_confined(confinement, "true", place.root, dict(os.environ))
        confinement.release()

        assert [path.read_text() for path in files] == ["true", "true"]
        if state == "landlock":  # the command could have written them
            undecided = "\n".join(asyncio.run(place.sandbox.settle()))
            assert all(str(path) in undecided for path in files)


@each_row("state", ["bwrap", "landlock"])
def test_probe_of_the_sandbox_leaves_alone_what_others_write(state: State) -> None:
    """Threat 11: `doctor` moved two files of another program away."""
    with world(state) as place:
        made: dict[Path, str] = {}

        def probe() -> None:
            (place.sandbox._state_dir / "sandbox.json").unlink(missing_ok=True)
            sandbox = Sandbox(
                lambda: place.sandbox._policy,
                mode="auto",
                state_dir=place.sandbox._state_dir,
                find=lambda *folders: only(state, *folders),
            )
            assert sandbox.probe().state == state
            sandbox.close()

        def neighbour() -> None:
            for number, files in enumerate(KINDS):
                made.update(_write(place.root / f"p{number}", files))
            made.update(_write(place.root, {".zed/tasks.json": "{}", ".mcp.json": "{}"}))

        _beside(probe, neighbour)

        assert _changed(made) == []


def test_new_file_is_moved_only_if_the_person_says_so() -> None:
    """The command made it, or an editor beside it did: the person knows."""
    for answer in (True, False, None):
        person = Decider(answer=answer)
        with world("bwrap", person=person) as place:
            tasks = place.root / "api" / ".vscode" / "tasks.json"

            place.run("mkdir -p api/.vscode; echo x > api/.vscode/tasks.json")

            assert person.asked == [tasks.parent]
            assert tasks.exists() is (answer is not True)
            [sentence] = place.put_back
            words = {True: "so it was moved to", False: "the user keeps it", None: "nobody decided"}
            assert words[answer] in sentence


def test_files_without_an_answer_are_named_once_and_stay() -> None:
    with world("bwrap", person=Decider(answer=None, can_ask=False)) as place:
        place.run("mkdir -p {10..15}/.vscode; git init -q new; touch new/.git/hooks/pre-commit")
        first = place.put_back
        place.run("true")

        assert len(first) == 7
        assert all("appeared while a command ran" in line for line in first)
        assert place.put_back == []
        assert (place.root / "new" / ".git" / "hooks" / "pre-commit").exists()


def test_file_without_an_answer_is_told_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The console shows warnings of the log too: three lines stood there twice."""
    warnings: list[str] = []
    files = Undecided(tmp_path, Decider(answer=None), warnings.append)

    files.add([Appeared.at(tmp_path / "one")])
    [settled] = asyncio.run(files.settle())
    logged = [*caplog.messages]
    files.add([Appeared.at(tmp_path / "two")])
    files.close()

    assert (warnings, logged) == ([f"sandbox: {settled}"], [])
    assert len(caplog.messages) == 1  # at the end, nothing else shows it


def test_nobody_is_asked_about_what_a_tool_of_this_program_wrote() -> None:
    """A person has approved of it before."""
    person = Decider(answer=True)
    with world("bwrap", person=person) as place:
        mine = place.root / "a" / ".vscode" / "tasks.json"
        place.sandbox.expect(mine)

        place.run("mkdir -p a/.vscode; echo x > a/.vscode/tasks.json")
        assert (person.asked, mine.exists()) == ([], True)

        place.sandbox.expect(place.root / "b" / ".vscode" / "tasks.json")
        place.run("mkdir -p b/.vscode; echo x | tee b/.vscode/tasks.json > b/.vscode/more.json")
        assert person.asked == [place.root / "b" / ".vscode"]


def test_file_that_another_program_replaced_meanwhile_is_not_moved() -> None:
    """A person may answer minutes later."""
    with world("bwrap") as place:
        folder = place.root / "api" / ".vscode"

        class Slow(Decider):
            async def decide_new_files(self, *_given: object) -> bool | None:
                folder.rename(place.base / "old")
                folder.mkdir()
                return True

        place.sandbox._undecided._person = Slow(answer=True)
        place.run("mkdir -p api/.vscode")

        assert folder.is_dir()
        assert "no longer what was found" in place.put_back[0]


def test_neighbours_harmless_change_of_git_configuration_stays_under_landlock() -> None:
    """A `git remote add` of the user beside a command was undone."""
    with world("landlock", person=Decider(answer=None, can_ask=False)) as place:
        place.run("git remote add origin x; git config user.name me")
        harmless = place.put_back
        before = (place.root / ".git" / "config").read_text()
        place.run("git remote add other y; git config core.fsmonitor evil")

        assert harmless == []
        assert (place.root / ".git" / "config").read_text() == before
        assert "origin" in before
        [sentence] = place.put_back
        assert "was changed, and was put back" in sentence


def test_change_under_landlock_is_put_back_only_if_the_person_says_so() -> None:
    with world("landlock", person=Decider(answer=False)) as place:
        git(place.root, "config", "user.name", "me")
        hook = place.root / ".git" / "hooks" / "pre-commit"

        place.run("git config core.fsmonitor mine; echo x > .git/hooks/pre-commit")

        assert "fsmonitor" in (place.root / ".git" / "config").read_text()
        assert hook.exists()
        assert all("stays as it is now" in line for line in place.put_back)


@each_row(
    ("new", "is_harmless"),
    [
        ("[core]\n\tbare = true\n\tfsmonitor = a\n", True),
        ("[core]\n\tfsmonitor = b\n", False),
        ('[remote "o"]\n\tfsmonitor = a\n', False),
        ("[core]\n\tbare = true\n", False),
    ],
)
def test_harmless_change_of_a_configuration_keeps_the_lines_that_start_programs(
    new: str, *, is_harmless: bool
) -> None:
    old = b"[core]\n\tbare = false\n\tfsmonitor = a\n"

    assert same_but_harmless(Path("config"), old, new.encode()) is is_harmless
    assert not same_but_harmless(Path("tasks.json"), old, new.encode())


@each_row(
    ("new", "is_harmless"),
    [
        ('[remote "o"]\n\turl = a\n\tfetch = c\n[branch "m"]\n\tremote = o\n', True),
        ('[remote "o"]\n\turl = a\n[branch "m"]\n\tremote = o\n[remote "p"]\n\turl = b\n', True),
        ('[branch "m"]\n\tremote = o\n', True),
        ('[remote "o"]\n\turl = b\n[branch "m"]\n\tremote = o\n', False),
        ('[remote "o"]\n\turl = a\n\tpushurl = b\n[branch "m"]\n\tremote = o\n', False),
        ('[remote "o"]\n\turl = a\n[REMOTE "o"]\n\tURL = b\n[branch "m"]\n\tremote = o\n', False),
        (
            '[remote "o"]\n\turl = a\n[Remote  "o"] # c\n\turl = b\n[branch "m"]\n\tremote = o\n',
            False,
        ),
        ('[remote "o"]\n\turl = a\n[remote "O"]\n\turl = b\n[branch "m"]\n\tremote = o\n', True),
        ('[remote "o"]\n\turl = a\n[branch "m"]\n\tremote = p\n', False),
        ('[remote "o"]\n\turl = a\n[branch "m"]\n\tremote = o\n\tpushRemote = p\n', False),
    ],
)
def test_change_of_where_commits_go_is_not_harmless(new: str, *, is_harmless: bool) -> None:
    """Threat 11: the next push would send them to someone else. A new remote is no change."""
    old = b'[remote "o"]\n\turl = a\n[branch "m"]\n\tremote = o\n'

    assert same_but_harmless(Path("config"), old, new.encode()) is is_harmless
